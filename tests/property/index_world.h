/* index_world.h: a naive model of the pending tasks, and the frames that change both the model and the index. */
#ifndef TARRY_TESTS_INDEX_WORLD_H
#define TARRY_TESTS_INDEX_WORLD_H

#include "index.h"

#define WORLD_QUEUES 4
#define WORLD_BRIEF 4 /* place whose queue is deleted once it is empty; a new queue takes the same place later */
#define WORLD_TASKS_MAX 20000
#define WORLD_PRODUCERS 4

enum world_state { WORLD_ABSENT, WORLD_HERE, WORLD_ENDED };

struct world_task {
    enum world_state state;
    struct row row; /* the row's key and reason point to `key` and `reason` below */
    char key[24];
    char reason[8];
};

struct world_frame { /* a frame, kept until it is retired */
    struct frame_header header;
    uint8_t *body;
};

struct world {
    uint64_t seed;
    struct world_task *tasks; /* tasks by id */
    uint64_t next_id;
    uint64_t position;
    uint64_t now_ms;                       /* steady time; the wall clock is an hour ahead */
    uint64_t counted;                      /* number of rows that a callback of the test has counted */
    uint64_t queue_hash[WORLD_QUEUES + 1]; /* hash of each queue by place; 0: no queue */
    uint32_t numbers[WORLD_QUEUES + 1];    /* queue numbers by place */
    bool is_deleted;                       /* true: the queue at WORLD_BRIEF is deleted */
    uint64_t former;                       /* number of former queues of that place */
    uint64_t former_counted;
    uint64_t last_producer;
    uint64_t producers[WORLD_PRODUCERS]; /* 0: unused */
    uint64_t floors[WORLD_PRODUCERS];
    uint64_t sequences[WORLD_PRODUCERS];
    uint64_t result_at[WORLD_PRODUCERS][64]; /* position of the reply, by sequence % 64; 0: forgotten */
    uint64_t jobs[8];                        /* 0: unused */
    struct outcome *outcomes;
    size_t outcome_count;
    struct tally tally;
    struct queue_tally queues[QUEUE_PLACES + 1];
    struct world_frame
        *frames; /* the kept frames, oldest first; the index has committed the first `committed` of them */
    size_t frame_count;
    size_t committed;
    uint64_t log_start;
    uint64_t *sorted; /* result of the last world_sorted */
};

#define WORLD_BLOB_SIZE 40 /* bytes of a large content: more than BLOB_SWEPT_MAX, unlike WORLD_BLOB_SMALL */
#define WORLD_BLOB_SMALL 24

void world_init(struct world *world, uint64_t seed);
void world_deinit(struct world *world);
uint64_t world_random(struct world *world, uint64_t below);
/* Returns the number of a random queue. */
uint32_t world_queue(struct world *world);
/* Makes a frame of up to `records_max` random records, applies it to the model, and keeps it. */
void world_frame(struct world *world, size_t records_max, unsigned endings);
/* Absorbs kept frame `i` into the index. */
int world_absorb(const struct world *world, size_t i, struct index *index);
/* All tasks of a frame share one content, of which each uses the first bytes. Returns its size for the frame at
 * `position`; 0: none. */
uint32_t world_blob_size(uint64_t position);
void world_blob(uint64_t position, uint8_t out[WORLD_BLOB_SIZE]);
/* Passes the oldest `count` frames, which must be committed, to the index for retirement. Call world_retired
 * afterwards: it commits the retirement and drops these frames from the model. */
int world_retire(struct world *world, size_t count, struct index *index);
int world_retired(struct world *world, size_t count, struct index *index);
/* Returns the ids of tasks that `match` accepts, ordered by (due, id); valid until the next call. */
uint64_t *world_sorted(const struct world *world, bool (*match)(const struct row *row, const void *argument),
                       const void *argument, size_t *out_count);
/* Compares the row's fields, key and reason with the model's. */
bool world_same(const struct world *world, const struct row *row);

#endif
