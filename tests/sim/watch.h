/* watch.h: checks promises that a single record cannot show: order, limits and times. It checks the core's effects and
 * records from outside. */
#ifndef TARRY_TESTS_SIM_WATCH_H
#define TARRY_TESTS_SIM_WATCH_H

#include "flat.h"
#include "who.h"

#define WATCH_RESUMED_MAX 64
#define WATCH_LEASES_MAX 1024u

struct world;

/* The leases of a queue since its token bucket was last empty (HERD-1). */
struct watch_rate {
    uint32_t number;
    uint64_t since_ns;
    uint64_t leased_ns[WATCH_LEASES_MAX]; /* steady times of the leases since the bucket was empty, in order */
    size_t count;
};

/* The outage before this run of the broker: from the last frame before the start to the start. */
struct watch_outage {
    uint32_t number; /* number of the queue; 0: none */
    Tarry__Overdue judgement;
};

#define WATCH_SESSIONS 256u
struct watch_session {
    uint64_t session; /* 0: none */
    uint64_t lease_ms;
};

struct watch {
    struct watch_session sessions[WATCH_SESSIONS]; /* newest sessions, by session % WATCH_SESSIONS */
    struct watch_outage outages[FLAT_QUEUES_MAX];  /* by place */
    struct watch_rate rates[FLAT_QUEUES_MAX];      /* by place */
    struct who who;
    const Tarry__Commit *commit;         /* the commit about which the core is deciding */
    uint64_t started_ms;                 /* steady time at which this run of the broker started */
    uint64_t began_ns;                   /* world time from which on the broker sends replies */
    uint64_t resumed[WATCH_RESUMED_MAX]; /* sessions of earlier runs that clients have resumed in this run */
    size_t resumed_count;
    bool stopping;                    /* true: the broker stops and no longer handles timers */
    uint64_t round;                   /* number of the present check; tasks that were counted are marked with it */
    uint64_t counted[FLAT_TASKS_MAX]; /* by task id: the value of `round` in the last check that counted the task */
    uint64_t given[FLAT_TASKS_MAX];   /* by task id: position of the lease whose delivery the core sent last */
    struct taken_back {
        uint64_t position;        /* position of the lease's record */
        uint64_t session;         /* number of the session that had the lease */
    } taken_back[FLAT_TASKS_MAX]; /* by task id: the last withdrawal of a lease ahead of time */
    struct run_out {
        uint32_t epoch;
        uint64_t position;
        uint64_t deadline_ms;
        uint64_t told_at; /* position of the frame that records the lease's end */
        uint32_t told_in; /* epoch of the frame at position told_at; if a start cut the frame off, the frame there now
                             has another epoch */
    } run_out[FLAT_TASKS_MAX]; /* by task id: the last lease that ended at its deadline */
};

void watch_reset(struct watch *watch);
/* Notes a commit. Must be called just before the core decides about it. */
void watch_commit(struct world *world, const Tarry__Commit *commit);
/* Checks a frame. Must be called before the frame is applied to the model. */
void watch_frame(struct world *world, const struct frame_header *header, const Tarry__FrameBody *body);
/* Checks the effects of a step. Call it after the step of an event. The step's deliveries begin at array index `first`,
 * and its leases at log position `before`. */
void watch_step(struct world *world, const struct core_event *event, const struct core_effects *effects, size_t first,
                uint64_t before);

#endif
