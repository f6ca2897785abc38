/* truth.h: what a pair has acknowledged, frame by frame, whoever did. There is one such history: who acknowledges has
 * all of it in its log, and adds to it; who begins to lead has all of it. That is what R1-R8 are for, and it is asked
 * here of every answer and every delivery that leaves, of every promotion and every cut.
 *
 * Frames are known by their serial numbers: two frames at one position of two logs are the same frame if these are. */
#ifndef TARRY_TESTS_SIM_TRUTH_H
#define TARRY_TESTS_SIM_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRUTH_EPOCHS_MAX 65536

struct world;
struct host;

struct truth {
    uint64_t next_serial;
    uint64_t *serials; /* of the frames that were acknowledged, in order */
    size_t count;
    size_t capacity;
    uint32_t epoch;                    /* the newest that anybody has led */
    uint8_t leaders[TRUTH_EPOCHS_MAX]; /* 1 + the node that led it */
};

void truth_begin(struct truth *truth);
void truth_free(struct truth *truth);
/* The log of `host` begins with the first `count` frames of what was acknowledged. */
bool truth_has(const struct world *world, const struct host *host, size_t count);
/* The host that it is leads from now on, under that epoch: it has all that was acknowledged. */
void truth_lead(struct world *world, uint32_t epoch);
/* Something that rests on everything below `position` leaves the host that it is. */
void truth_acknowledge(struct world *world, uint64_t position);

#endif
