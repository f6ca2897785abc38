/* core_full_rig.h: a core with very little memory, its log, and an index that absorbs only when the test says so.
 * All requests of the core are kept until the test answers them. Not thread-safe. */
#ifndef TARRY_TESTS_PROPERTY_CORE_FULL_RIG_H
#define TARRY_TESTS_PROPERTY_CORE_FULL_RIG_H

#include "../random.h"
#include "core.h"

#define RIG_SESSIONS 8
#define RIG_MEMORY (8u << 20)

struct rig_frame {
    struct frame_header header;
    Tarry__FrameBody *body; /* body of the frame; NULL: a seal */
};

struct rig_lease {
    uint64_t id;
    Tarry__Token token;
};

struct rig {
    struct random random;
    struct core_options options;
    struct core *core;
    struct core_effects effects;
    struct arena arena;  /* memory of the effects of the last step */
    struct arena kept;   /* memory of the frames */
    struct arena asking; /* memory of the request in work */
    struct instant now;
    uint32_t epoch;
    struct rig_frame *frames;
    size_t frame_count, frame_capacity;
    size_t absorbed;  /* number of frames that the index has absorbed */
    struct row *rows; /* rows of the index, by id; id 0: no row */
    size_t row_capacity;
    struct queue_tally *queue_tallies; /* tallies of the queues in the index */
    struct tally tally;                /* tally of all records in the index */
    Tarry__QueuePut *queue;            /* the index's only queue */
    Tarry__JobPut *jobs[JOBS_MAX];     /* jobs of the index; NULL: none */
    struct core_window *windows;       /* windows (ranges of a line by due time) that the core asked to load */
    size_t window_count, window_capacity;
    struct core_page *pages;
    size_t page_count, page_capacity;
    uint64_t sending[RIG_SESSIONS]; /* sessions with a delivery in flight; 0: unused */
    uint64_t sessions[RIG_SESSIONS];
    struct rig_lease *leases; /* leases that were delivered; some may have ended */
    size_t lease_count, lease_capacity;
    uint64_t producer, sequence;
    Tarry__Code code; /* code of the core's last reply */
    uint64_t buried;  /* number of records with CAUSE_BURIED (a task became a dead letter) */
    uint64_t given_back;
    size_t key_size; /* size of the keys of new tasks; RIG_ANY: random */
};
#define RIG_ANY SIZE_MAX

void rig_init(struct rig *rig, uint64_t seed, size_t key_size);
void rig_deinit(struct rig *rig);
/* Steps the core with the event at rig->now. Passes the rows of the index that the core needs. Frames become durable at
 * once. */
void rig_step(struct rig *rig, struct core_event *event);
void rig_tick(struct rig *rig);
/* Advances the time and runs all timers up to then. */
void rig_elapse_ms(struct rig *rig, uint64_t ms);
Tarry__Code rig_ask(struct rig *rig, Tarry__Request *request);
/* Returns the commit's code: OK or BUSY, whatever the results of its operations. */
Tarry__Code rig_commit(struct rig *rig, Tarry__Op **ops, size_t count);
/* Subscribes one consumer to the queue. */
void rig_subscribe(struct rig *rig, size_t at);
/* Ends all deliveries in flight. `ok`: they have left; otherwise they never will. */
void rig_sent(struct rig *rig, bool ok);
/* Absorbs the next `frames` frames into the index. */
void rig_absorb(struct rig *rig, size_t frames);
/* Answers the core's requests to the index. */
void rig_answer(struct rig *rig);
/* Simulates a kill and a restart: a new core starts from the index and the log. */
void rig_restart(struct rig *rig);
/* Applies the whole log on a follower with the same memory, whose index absorbs only when the core needs memory. */
void rig_follow(struct rig *rig);
void *rig_alloc(struct arena *arena, size_t size);

#endif
