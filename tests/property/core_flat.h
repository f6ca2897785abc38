/* core_flat.h: the naive model: a flat table of tasks, made from records one after another. It stands in for the index
 * (as of an earlier position) and serves as the oracle (at the head of the log). Linear scans everywhere. */
#ifndef TARRY_TESTS_CORE_FLAT_H
#define TARRY_TESTS_CORE_FLAT_H

#include "core.h"

#define FLAT_TASKS_MAX 512
#define FLAT_QUEUES_MAX 8
#define FLAT_PRODUCERS_MAX 64
#define FLAT_RESULTS_MAX 512
#define FLAT_JOBS_MAX 64

struct flat_task {
    struct row row; /* id 0: unused */
    char key[KEY_SIZE_MAX];
    char reason[REASON_SIZE_MAX];
    bool ended;
    Tarry__Cause cause; /* of the ending */
    uint64_t ended_ms;
};

struct flat_queue {
    Tarry__QueuePut put; /* number 0: unused; name and policy point into this struct */
    char name[QUEUE_NAME_SIZE_MAX + 1];
    Tarry__Policy policy;
};

struct flat_result {
    uint64_t producer;
    uint64_t sequence;
    uint64_t position;
};

struct flat {
    uint64_t position;
    uint64_t now_ms;                        /* steady, of the last frame */
    struct flat_task tasks[FLAT_TASKS_MAX]; /* [id] */
    struct flat_queue queues[FLAT_QUEUES_MAX];
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
    uint32_t epoch;
};

void flat_init(struct flat *flat);
void flat_apply(struct flat *flat, const struct frame_header *header, const Tarry__FrameBody *body);
/* Recomputed from every row: what core_digest must be. */
uint64_t flat_digest(const struct flat *flat);
/* The live one with the key, or NULL. */
const struct flat_task *flat_live(const struct flat *flat, uint32_t queue, const char *key, size_t key_size);
/* The dead one that died last, or NULL. */
const struct flat_task *flat_dead(const struct flat *flat, uint32_t queue, const char *key, size_t key_size);
/* A core as a restart makes it from this flat table (the index); the tail is replayed by the caller. */
void flat_restore(const struct flat *flat, struct core *core);

#endif
