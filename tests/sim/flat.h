/* flat.h: the naive model: flat tables of the current state, made by applying records one after another. The copy as of
 * the log's end is the oracle; the copy inside the model index (table.h) is the state of the index. All searches are
 * linear scans. Strings are borrowed from the applied bodies, which live as long as the history. The digest is updated
 * with each record; flat_digest computes it again from every row. */
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
    struct row row;                               /* the task's row; id 0: the entry is unused */
    uint64_t hash;                                /* hash of the row */
    uint64_t session_before, delivered_before_ms; /* in state LEASED: the session that had the task before this lease,
                                                     and the time of its delivery */
    bool ended;
    uint64_t share_of;    /* id of the task whose share this is; 0: not a share */
    uint64_t first_share; /* for a task that ended as SHARED: id of its first share */
    uint32_t shares;
    bool redacted;      /* the task's content is to be erased, or was erased */
    Tarry__Cause cause; /* cause with which the task ended */
    uint64_t ended_ms;
    const uint8_t *content; /* content that was copied when its segment was retired (table.h); NULL: the content is in
                               the log, or there is none */
};

struct flat_result {
    uint64_t producer;
    uint64_t sequence;
    uint64_t position;
    const ProtobufCBinaryData
        *reply; /* reply that was copied when its segment was retired; NULL: the reply is in the log */
};

#define FLAT_DEFINITIONS 4u
#define FLAT_RECURS_MAX 64

struct flat {
    uint64_t position;
    uint64_t steady_ns; /* steady time of the last frame */
    uint64_t wall_ns;
    uint64_t digest;
    uint64_t live; /* number of tasks that wait or are leased */
    uint32_t epoch;
    uint64_t next_id;
    struct flat_task tasks[FLAT_TASKS_MAX]; /* all tasks, indexed by id */
    struct flat_queue {
        Tarry__QueuePut put; /* last record of the queue; number 0: the entry is unused */
        uint64_t hash;
    } queues[FLAT_QUEUES_MAX];               /* the queues, indexed by place */
    Tarry__QueuePut former[FLAT_FORMER_MAX]; /* last records of queues whose places were taken by later queues */
    size_t former_count;
    struct flat_producer {
        uint64_t id, floor, used_ms;
    } producers[FLAT_PRODUCERS_MAX];
    size_t producer_count;
    struct flat_result results[FLAT_RESULTS_MAX];
    size_t result_count;
    Tarry__JobPut jobs[FLAT_JOBS_MAX];
    size_t job_count;
    struct flat_definition {
        uint64_t version, hash;          /* version and hash of the definition; 0: it does not exist */
        const Tarry__DefinitionPut *put; /* its record */
    } definitions[FLAT_DEFINITIONS];     /* definitions, indexed by the last byte of the name */
    struct flat_recur {
        uint64_t number, hash;
        uint32_t queue;
        const char *name;
        const Tarry__RecurSet *set;
        const Tarry__RecurState *state;
        uint64_t first_task; /* occurrences from this task id on were made by the recurrence's present settings */
    } recurs[FLAT_RECURS_MAX];
    size_t recur_count;
    uint64_t endings[FLAT_TASKS_MAX]; /* ids of the ended tasks, in the order of their ends */
    size_t ending_count;
};

void flat_init(struct flat *flat);
void flat_copy(struct flat *to, const struct flat *from);
/* Applies a frame. `body` NULL means a seal frame. Asserts LOG-2 and KEEP-1 for every record. */
void flat_apply(struct flat *flat, const struct frame_header *header, const Tarry__FrameBody *body);
/* Computes the digest from all rows. It must equal flat->digest and core_digest. */
uint64_t flat_digest(const struct flat *flat);
/* Returns the live task with the key, or NULL. */
const struct flat_task *flat_live(const struct flat *flat, uint32_t queue, const void *key, size_t key_size);
/* Returns the task with the key that became dead last, or NULL. */
const struct flat_task *flat_dead(const struct flat *flat, uint32_t queue, const void *key, size_t key_size);
/* Returns the task with the key that ended last, or NULL. */
const struct flat_task *flat_ended(const struct flat *flat, uint32_t queue, const void *key, size_t key_size);
/* Returns the queue of a live task, or of a task that ended before the queue was deleted and its place reused. `number`
 * is the task's queue number. */
static inline const struct flat_queue *flat_queue_of(const struct flat *flat, uint32_t number) {
    return &flat->queues[queue_place(number)];
}
/* Returns true if the queue of a live task has lease_before_due. */
static inline bool flat_is_early(const struct flat *flat, uint32_t number) {
    const struct flat_queue *queue = flat_queue_of(flat, number);
    return queue->put.policy && queue->put.policy->lease_before_due;
}
/* Returns whether the queue is a group of the topic. */
bool flat_is_group_of(const struct flat *flat, const Tarry__QueuePut *queue, uint32_t topic);
/* Returns whether the queue has groups. */
bool flat_is_topic(const struct flat *flat, uint32_t number);
/* Returns whether the queue of that name, or a former queue of that name, has this number. */
bool flat_was_named(const struct flat *flat, uint32_t number, const char *name);
/* Returns whether a queue of that name exists and is not deleted. */
bool flat_has_queue(const struct flat *flat, const char *name);
/* Returns the number of the queue of that name; 0: there is none. */
uint32_t flat_queue_number(const struct flat *flat, const char *name);
const struct flat_result *flat_result(const struct flat *flat, uint64_t producer, uint64_t sequence);
/* Returns whether the broker has forgotten the outcome of the commit and therefore refuses it. */
bool flat_is_forgotten(const struct flat *flat, uint64_t producer, uint64_t sequence);
/* Restores the statistics of a core from these tables, as a restart restores them from the index. */
void flat_restore(const struct flat *flat, struct core *core, enum recovery_part part);

#endif
