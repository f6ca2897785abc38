/* faults.h: what goes wrong in a random history, when, and how it is put right again. Which kinds may happen, and how
 * often, is drawn from the seed (swarm).
 *
 *   F-1 … F-6, F-10  the process or the machine ends, between things or at any call of the disk; sectors are torn
 *   F-2              a bit flips: in a closed segment while it runs, anywhere before a start
 *   F-4, F-5         the disk is full for a while; a write, a sync or a read fails
 *   F-7              the index is put back from an older copy
 *   F-13             the process stands still
 *   F-15 … F-19      drops, doubles, delays, cut links, consumers that are half dead (network.h, habits.h)
 *   F-32, F-34       the wall clock jumps, the machine sleeps */
#ifndef TARRY_TESTS_SIM_FAULTS_H
#define TARRY_TESTS_SIM_FAULTS_H

#include "habits.h"
#include "world.h"

enum fault {
    FAULT_KILL,
    FAULT_POWER,
    FAULT_STOP, /* in order */
    FAULT_CALL, /* one call of the disk fails */
    FAULT_HALT, /* the machine ends at a call of the disk */
    FAULT_READ,
    FAULT_FULL,
    FAULT_FLIP,
    FAULT_OLD_INDEX,
    FAULT_LAG, /* the index stands still for a while */
    FAULT_LINK,
    FAULT_JUMP,     /* of seconds */
    FAULT_FAR_JUMP, /* of hours to years, and taken back */
    FAULT_SUSPEND,
    FAULT_PAUSE, /* SIGSTOP */
    FAULTS
};

struct flip { /* a bit that is wrong */
    bool active;
    char name[64]; /* of the file */
    uint64_t offset;
    uint8_t bit;
    uint64_t position; /* in the log */
    uint8_t *copy;     /* the file as it was; NULL: it has not been opened with the flip */
    uint64_t copy_size;
    bool in_last;      /* the segment that is written to; valid with `copy` */
    bool is_protected; /* likewise: LOG-5 */
};

struct faults {
    uint32_t mask; /* of 1 << enum fault */
    uint64_t every_ms;
    uint64_t down_ms; /* until it is started again, up to */
    bool over;
    bool halted; /* the next start comes after a loss of power */
    struct flip flip;
    int64_t jumped_ms; /* a far jump, to be taken back */
    bool has_old_index;
    uint64_t counts[FAULTS];
    uint64_t flips_refused, flips_harmless;
};

void faults_draw(struct random *random, struct faults *out);
/* The weather of the network, and the first fault. */
void faults_start(struct world *world, struct faults *faults);
/* The bit that is wrong, if there is one, is put right; or a good copy is put in place of its file. */
void faults_repair(struct world *world, struct faults *faults);
/* Everything is put right, and stays so. The broker runs. */
void faults_end(struct world *world, struct faults *faults);

#endif
