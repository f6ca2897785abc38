/* flat.h: the naive model: flat tables of what is so, made from records one after another. It is the oracle (at the
 * head of the log), and inside the model index (table.h) it is what the index knows. Linear scans everywhere.
 *
 * Strings are borrowed from the bodies that were applied, which live as long as the history. The digest is kept up
 * record by record; flat_digest makes it anew from every row. */
#ifndef TARRY_TESTS_SIM_FLAT_H
#define TARRY_TESTS_SIM_FLAT_H

#include "core.h"
#include "recovery_plan.h"

#define FLAT_TASKS_MAX 4096
#define FLAT_QUEUES_MAX 16
#define FLAT_FORMER_MAX 1024
#define FLAT_PRODUCERS_MAX 4096
#define FLAT_RESULTS_MAX 1024
#define FLAT_JOBS_MAX 64

struct flat_task {
    struct row row;                               /* id 0: unused */
    uint64_t hash;                                /* of the row */
    uint64_t session_before, delivered_before_ms; /* LEASED: who had it before this lease */
    bool ended;
    bool redacted;      /* what it contained is to be erased, or was */
    Tarry__Cause cause; /* of the ending */
    uint64_t ended_ms;
    const uint8_t *content; /* copied at retirement (table.h); NULL: it lies in the log, if anywhere */
};

struct flat_result {
    uint64_t producer;
    uint64_t sequence;
    uint64_t position;
    const ProtobufCBinaryData *reply; /* copied at retirement; NULL: it lies in the log */
};

struct flat {
    uint64_t position;
    uint64_t steady_ns; /* of the last frame */
    uint64_t wall_ns;
    uint64_t digest;
    uint64_t live; /* waiting or leased */
    uint32_t epoch;
    uint64_t next_id;
    struct flat_task tasks[FLAT_TASKS_MAX]; /* [id] */
    struct flat_queue {
        Tarry__QueuePut put; /* number 0: unused */
        uint64_t hash;
    } queues[FLAT_QUEUES_MAX];               /* [place] */
    Tarry__QueuePut former[FLAT_FORMER_MAX]; /* the last record of each queue whose place another one took */
    size_t former_count;
    struct flat_producer {
        uint64_t id, floor, used_ms;
    } producers[FLAT_PRODUCERS_MAX];
    size_t producer_count;
    struct flat_result results[FLAT_RESULTS_MAX];
    size_t result_count;
    Tarry__JobPut jobs[FLAT_JOBS_MAX];
    size_t job_count;
    uint64_t endings[FLAT_TASKS_MAX]; /* ids in the order of ending */
    size_t ending_count;
};

void flat_init(struct flat *flat);
void flat_copy(struct flat *to, const struct flat *from);
/* `body` NULL: a seal. Asserts what LOG-2 and KEEP-1 say of every record. */
void flat_apply(struct flat *flat, const struct frame_header *header, const Tarry__FrameBody *body);
/* From every row: what flat->digest and core_digest must be. */
uint64_t flat_digest(const struct flat *flat);
/* The live one with the key, or NULL. */
const struct flat_task *flat_live(const struct flat *flat, uint32_t queue, const void *key, size_t key_size);
/* The dead one that died last, or NULL. */
const struct flat_task *flat_dead(const struct flat *flat, uint32_t queue, const void *key, size_t key_size);
/* The one that ended last, or NULL. */
const struct flat_task *flat_ended(const struct flat *flat, uint32_t queue, const void *key, size_t key_size);
/* The queue of a live task, or of one that ended before another queue took its place. */
static inline const struct flat_queue *flat_queue_of(const struct flat *flat, uint32_t number) {
    return &flat->queues[queue_place(number)];
}
/* The queue that has the name, or a former one that had it, has this number. */
bool flat_was_named(const struct flat *flat, uint32_t number, const char *name);
/* There is one of that name, and it is not deleted. */
bool flat_has_queue(const struct flat *flat, const char *name);
/* 0: there is none of that name. */
uint32_t flat_queue_number(const struct flat *flat, const char *name);
const struct flat_result *flat_result(const struct flat *flat, uint64_t producer, uint64_t sequence);
/* Nobody knows any more whether it was executed: it is refused. */
bool flat_is_forgotten(const struct flat *flat, uint64_t producer, uint64_t sequence);
/* That part of a core, as a restart makes it from this table (the index). */
void flat_restore(const struct flat *flat, struct core *core, enum recovery_part part);

#endif
