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

struct habits;

/* Aborts at the first broken promise. */
void history_play(struct world *world, uint64_t seed, struct history_report *out);
/* The same, without the end: the world, its log and what is known of it can be looked at until world_end. */
void history_live(struct world *world, uint64_t seed, struct history_report *out);
/* Of a pair (pair_history.c). */
void pair_history_play(struct world *world, uint64_t seed, struct history_report *out);
/* Ten minutes of one whose leader and network are healthy: nobody claims (steady_history.c). */
void steady_history_play(struct world *world, uint64_t seed, struct history_report *out);

/* ---- what both have in common */
/* Leases are made ahead of time (core/ahead.h), as tarryd makes them; the seed says by how much. false, --no-ahead: as
 * before there were any; for seeds that failed then. */
extern bool history_leases_ahead;
struct world_options history_draw_options(uint64_t seed, struct random *random);
extern const char *const history_names[];
/* Until nothing lives any more and everything is answered; nothing more goes wrong. */
void history_settle(struct world *world, const struct habits *habits);
/* Everything is as it must be, in what whoever leads knows, and in its log. */
void history_check(struct world *world);
/* Until what is redacted is gone from the log of the host that it is. */
void history_erase(struct world *world);
uint64_t history_fingerprint(const struct world *world);

/* ---- what both kinds of a pair's have in common */
/* Nothing goes wrong any more: until one leads, and the other has all that there is, and counts. */
void pair_history_wait(struct world *world);
/* Everything settles; both logs are the same. */
void pair_history_end(struct world *world, const struct habits *habits);
/* But its faults. */
void pair_history_report(const struct world *world, struct history_report *out);

#endif
