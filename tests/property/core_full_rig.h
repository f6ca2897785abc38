/* core_full_rig.h: a core with hardly any memory, its log, and an index that absorbs when it is told to. Everything
 * that the core asks for is kept until the test answers it. Not thread-safe. */
#ifndef TARRY_TESTS_PROPERTY_CORE_FULL_RIG_H
#define TARRY_TESTS_PROPERTY_CORE_FULL_RIG_H

#include "../random.h"
#include "core.h"

#define RIG_SESSIONS 8
#define RIG_MEMORY (8u << 20)

struct rig_frame {
    struct frame_header header;
    Tarry__FrameBody *body; /* NULL: a seal */
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
    struct arena arena;  /* of the effects */
    struct arena kept;   /* frames */
    struct arena asking; /* of one request */
    struct instant now;
    uint32_t epoch;
    struct rig_frame *frames;
    size_t frame_count, frame_capacity;
    size_t absorbed;  /* frames */
    struct row *rows; /* of the index, by id; id 0: not there */
    size_t row_capacity;
    struct queue_tally *queue_tallies; /* of the index */
    struct tally tally;                /* likewise */
    Tarry__QueuePut *queue;            /* likewise; the only one */
    Tarry__JobPut *jobs[JOBS_MAX];     /* likewise; NULL: none */
    struct core_window *windows;       /* asked for */
    size_t window_count, window_capacity;
    struct core_page *pages;
    size_t page_count, page_capacity;
    uint64_t sending[RIG_SESSIONS]; /* sessions with a delivery under way; 0: free */
    uint64_t sessions[RIG_SESSIONS];
    struct rig_lease *leases; /* that were delivered, and may be over */
    size_t lease_count, lease_capacity;
    uint64_t producer, sequence;
    Tarry__Code code; /* of the last reply */
    uint64_t buried;  /* records so far, by what they say */
    uint64_t given_back;
    size_t key_size; /* of what is scheduled; RIG_ANY: random */
};
#define RIG_ANY SIZE_MAX

void rig_init(struct rig *rig, uint64_t seed, size_t key_size);
void rig_deinit(struct rig *rig);
/* The event at rig->now, with the facts that it wants. What it appends is durable at once. */
void rig_step(struct rig *rig, struct core_event *event);
void rig_tick(struct rig *rig);
/* Time passes, and all timers up to then run. */
void rig_elapse_ms(struct rig *rig, uint64_t ms);
Tarry__Code rig_ask(struct rig *rig, enum core_event_kind kind, Tarry__Request *request);
/* The commit's code: OK or BUSY, whatever the operations' are. */
Tarry__Code rig_commit(struct rig *rig, Tarry__Op **ops, size_t count);
/* One consumer of the queue. */
void rig_subscribe(struct rig *rig, size_t at);
/* What is under way has left, or never will. */
void rig_sent(struct rig *rig, bool ok);
/* The index absorbs `frames` more. */
void rig_absorb(struct rig *rig, size_t frames);
/* Answers what the core has asked of the index. */
void rig_answer(struct rig *rig);
/* Killed and started: another core, from the index and the log. */
void rig_restart(struct rig *rig);
/* A follower of the same memory, whose index absorbs only when memory asks for it, applies the whole log. */
void rig_follow(struct rig *rig);
void *rig_alloc(struct arena *arena, size_t size);

#endif
