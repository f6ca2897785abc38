/* watch.h: promises that no single record shows: what goes first, how much at once, how long. Seen from beside the
 * core, in what it asks for and what it writes. */
#ifndef TARRY_TESTS_SIM_WATCH_H
#define TARRY_TESTS_SIM_WATCH_H

#include "flat.h"
#include "who.h"

#define WATCH_RESUMED_MAX 64

struct world;

struct watch {
    struct who who;
    const Tarry__Commit *commit;         /* that is being decided */
    uint64_t started_ms;                 /* steady, of this life of the broker */
    uint64_t began_ns;                   /* the world's: it answers since then */
    uint64_t resumed[WATCH_RESUMED_MAX]; /* sessions of earlier lives that came back in this one */
    size_t resumed_count;
    bool stopping;                    /* timers do not run any more */
    uint64_t round;                   /* for counting */
    uint64_t counted[FLAT_TASKS_MAX]; /* [id]: the round in which it was last counted */
    uint64_t given[FLAT_TASKS_MAX];   /* [id]: where the lease lies whose delivery the core gave out last */
    struct taken_back {
        uint64_t position;        /* of the record */
        uint64_t session;         /* whose it was */
    } taken_back[FLAT_TASKS_MAX]; /* [id]: when a lease ahead of time was taken back last */
    struct run_out {
        uint32_t epoch;
        uint64_t position;
        uint64_t deadline_ms;
    } run_out[FLAT_TASKS_MAX]; /* [id]: the lease that ended last because its deadline had come */
};

void watch_reset(struct watch *watch);
/* Right before the core decides on it. */
void watch_commit(struct world *world, const Tarry__Commit *commit);
/* Before the frame is applied to the model. */
void watch_frame(struct world *world, const struct frame_header *header, const Tarry__FrameBody *body);
/* After the step of an event; deliveries from `first` on are new, and leases from the position `before` on. */
void watch_step(struct world *world, const struct core_event *event, const struct core_effects *effects, size_t first,
                uint64_t before);

#endif
