/* history.h: a random history, drawn from one seed. In the first phase any fault may happen; in the following calm
 * phase everything must settle. */
#ifndef TARRY_TESTS_SIM_HISTORY_H
#define TARRY_TESTS_SIM_HISTORY_H

#include "world.h"

struct history_report {
    uint64_t simulated_ns;
    uint64_t requests, deliveries, starts, refusals, frames, faults;
    uint64_t fingerprint; /* hash of all events: playing the same seed gives the same hash */
};

struct habits;

/* Plays a history. Aborts when a promise is broken. */
void history_play(struct world *world, uint64_t seed, struct history_report *out);
/* Plays a history without its end, so that the world and its log can be inspected until world_end. */
void history_live(struct world *world, uint64_t seed, struct history_report *out);
/* Plays a history of a pair (pair_history.c). */
void pair_history_play(struct world *world, uint64_t seed, struct history_report *out);
/* Plays 10 minutes of a pair whose leader and network are healthy: no node claims leadership (steady_history.c). */
void steady_history_play(struct world *world, uint64_t seed, struct history_report *out);

/* ---- shared by both */
/* If true, leases are made ahead of time (core/ahead.h), as in tarryd; the seed draws how far ahead. False (--no-ahead)
 * is for seeds that failed before that feature existed. */
extern bool history_leases_ahead;
struct world_options history_draw_options(uint64_t seed, struct random *random);
extern const char *const history_names[];
/* Runs the calm phase until no task is live and every request has its reply. No further faults happen. */
void history_settle(struct world *world, const struct habits *habits);
/* Checks that the leader's state and its log are as they must be. */
void history_check(struct world *world);
/* Waits until all redacted contents are erased from the current host's log. */
void history_erase(struct world *world);
uint64_t history_fingerprint(const struct world *world);

/* ---- shared by the histories of pairs */
/* Runs without faults until one node leads and the other has the whole log and counts as in sync. */
void pair_history_wait(struct world *world);
/* Runs until everything has settled and both logs are equal. */
void pair_history_end(struct world *world, const struct habits *habits);
/* Draws the options of a pair's world, except its faults. */
void pair_history_report(const struct world *world, struct history_report *out);

#endif
