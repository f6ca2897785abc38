/* truth.h: the one sequence of frames that a pair has acknowledged, whichever node acknowledged them. R1-R8 guarantee
 * that there is only one: a node that acknowledges or begins to lead has the whole sequence in its log. The rig checks
 * that at every reply and delivery sent, every promotion and every cut. A serial number identifies each frame: frames
 * at the same position of two logs are the same frame if their serial numbers are equal. */
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
    uint64_t *serials; /* serial numbers of the acknowledged frames, in order */
    size_t count;
    size_t capacity;
    uint32_t epoch;                    /* newest epoch that any node has led */
    uint8_t leaders[TRUTH_EPOCHS_MAX]; /* by epoch: number of the node that led it, plus 1; 0: none */
};

void truth_begin(struct truth *truth);
void truth_free(struct truth *truth);
/* Returns whether the log of `host` begins with the first `count` acknowledged frames. */
bool truth_has(const struct world *world, const struct host *host, size_t count);
/* Notes that the current host begins to lead in this epoch. It must have all acknowledged frames. */
void truth_lead(struct world *world, uint32_t epoch);
/* Notes that a reply or delivery leaves the current host, and that it depends on everything below `position`. */
void truth_acknowledge(struct world *world, uint64_t position);

#endif
