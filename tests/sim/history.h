/* history.h: a random history, all of it drawn from one seed: a phase in which anything may go wrong, then a calm in
 * which everything must settle. */
#ifndef TARRY_TESTS_SIM_HISTORY_H
#define TARRY_TESTS_SIM_HISTORY_H

#include "world.h"

struct history_report {
    uint64_t simulated_ns;
    uint64_t requests, deliveries, starts, refusals, frames, faults;
    uint64_t fingerprint; /* of all that happened: the same whenever the seed is played */
};

/* Aborts at the first broken promise. */
void history_play(struct world *world, uint64_t seed, struct history_report *out);
/* The same, without the end: the world, its log and what is known of it can be looked at until world_end. */
void history_live(struct world *world, uint64_t seed, struct history_report *out);

#endif
