/* faults.h: the faults of a random history: what fails, when, and how it is repaired. The seed draws the kinds and
 * their frequency (swarm testing).
 *
 *     F-1 … F-6, F-10  the process or machine ends, between calls or at any disk call; sectors are torn
 *     F-2              a bit flips: in a closed segment while the broker runs, anywhere before a start
 *     F-4, F-5         the disk is full for a while; a write, a sync or a read fails
 *     F-7              an older copy replaces the index
 *     F-13             the process is stopped (SIGSTOP) for a while
 *     F-15 … F-19      lost, doubled and late messages, cut links, half-dead consumers (network.h, habits.h)
 *     F-32, F-34       the wall clock jumps, the machine sleeps */
#ifndef TARRY_TESTS_SIM_FAULTS_H
#define TARRY_TESTS_SIM_FAULTS_H

#include "habits.h"
#include "world.h"

enum fault {
    FAULT_KILL,
    FAULT_POWER,
    FAULT_STOP, /* SIGTERM: an orderly stop */
    FAULT_CALL, /* one call of the virtual disk fails */
    FAULT_HALT, /* the machine stops at a call of the virtual disk */
    FAULT_READ,
    FAULT_FULL,
    FAULT_FLIP,
    FAULT_OLD_INDEX,
    FAULT_LAG, /* the index absorbs nothing for a while */
    FAULT_LINK,
    FAULT_JUMP,     /* the wall clock jumps by seconds */
    FAULT_FAR_JUMP, /* the wall clock jumps by hours to years; the jump is undone later */
    FAULT_SUSPEND,
    FAULT_PAUSE, /* SIGSTOP */
    FAULTS
};

struct flip { /* a flipped bit on the disk */
    bool active;
    char name[64]; /* name of the file with the flipped bit */
    uint64_t offset;
    uint8_t bit;
    uint64_t position; /* log position of the flipped bit */
    uint8_t *copy;     /* copy of the file before the bit was flipped; NULL: no start has read the bit yet */
    uint64_t copy_size;
    bool in_last;      /* true: the bit is in the segment that the log writes to; valid if `copy` is set */
    bool is_protected; /* true: a seal frame protects the bit (LOG-5); valid if `copy` is set */
};

struct faults {
    uint32_t mask; /* the kinds of faults of this history: set of 1 << enum fault */
    uint64_t every_ms;
    uint64_t down_ms; /* maximum time for which the broker stays down, in ms */
    bool over;
    bool halted; /* true: the machine has lost power, so a start must follow */
    struct flip flip;
    int64_t jumped_ms; /* size of the clock's far jump, which must be undone */
    bool has_old_index;
    uint64_t counts[FAULTS];
    uint64_t flips_refused, flips_harmless;
};

void faults_draw(struct random *random, struct faults *out);
/* Draws the faults of the network, and schedules the first fault. */
void faults_start(struct world *world, struct faults *faults);
/* Restores the flipped bit, if there is one; or replaces its file by the copy. */
void faults_repair(struct world *world, struct faults *faults);
/* Repairs everything, prevents further faults, and makes sure that the broker runs. */
void faults_end(struct world *world, struct faults *faults);

#endif
