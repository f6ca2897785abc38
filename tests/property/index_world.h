/* index_world.h: a naive model of what is pending, and the frames that make both it and the index change. */
#ifndef TARRY_TESTS_INDEX_WORLD_H
#define TARRY_TESTS_INDEX_WORLD_H

#include "index.h"

#define WORLD_QUEUES 4
#define WORLD_BRIEF 4 /* the place whose queue is deleted when it is empty, and taken by another one */
#define WORLD_TASKS_MAX 20000
#define WORLD_PRODUCERS 4

enum world_state { WORLD_ABSENT, WORLD_HERE, WORLD_ENDED };

struct world_task {
    enum world_state state;
    struct row row; /* key and reason point below */
    char key[24];
    char reason[8];
};

struct world_frame { /* kept until it is retired */
    struct frame_header header;
    uint8_t *body;
};

struct world {
    uint64_t seed;
    struct world_task *tasks; /* [id] */
    uint64_t next_id;
    uint64_t position;
    uint64_t now_ms;                       /* steady; the wall is an hour ahead */
    uint64_t counted;                      /* by the test, in callbacks */
    uint64_t queue_hash[WORLD_QUEUES + 1]; /* [place]; 0: not there */
    uint32_t numbers[WORLD_QUEUES + 1];    /* [place] */
    bool is_deleted;                       /* the queue at WORLD_BRIEF */
    uint64_t former;                       /* queues that have lost that place */
    uint64_t former_counted;
    uint64_t last_producer;
    uint64_t producers[WORLD_PRODUCERS]; /* 0: none */
    uint64_t floors[WORLD_PRODUCERS];
    uint64_t sequences[WORLD_PRODUCERS];
    uint64_t result_at[WORLD_PRODUCERS][64]; /* [sequence % 64]; 0: forgotten */
    uint64_t jobs[8];                        /* 0: none */
    struct outcome *outcomes;
    size_t outcome_count;
    struct tally tally;
    struct queue_tally queues[QUEUE_PLACES + 1];
    struct world_frame *frames; /* the oldest first; the index has committed the first `committed` of them */
    size_t frame_count;
    size_t committed;
    uint64_t log_start;
    uint64_t *sorted; /* what world_sorted gave last */
};

#define WORLD_BLOB_SIZE 40 /* BLOB_SWEPT_MAX lies between */
#define WORLD_BLOB_SMALL 24

void world_init(struct world *world, uint64_t seed);
void world_deinit(struct world *world);
uint64_t world_random(struct world *world, uint64_t below);
/* The number of one of the queues. */
uint32_t world_queue(struct world *world);
/* One frame of up to `records_max` random records, applied to the model and kept. */
void world_frame(struct world *world, size_t records_max, unsigned endings);
/* Absorbs kept frame `i`. */
int world_absorb(const struct world *world, size_t i, struct index *index);
/* The only content of the frame at `position`, if it has any, which all of its tasks share: the first bytes of these.
 */
uint32_t world_blob_size(uint64_t position);
void world_blob(uint64_t position, uint8_t out[WORLD_BLOB_SIZE]);
/* Hands the oldest `count` frames, which must be committed, to the index; world_retired forgets them. */
int world_retire(struct world *world, size_t count, struct index *index);
int world_retired(struct world *world, size_t count, struct index *index);
/* Task ids that `match` picks, in order of (due, id); valid until the next call. */
uint64_t *world_sorted(const struct world *world, bool (*match)(const struct row *row, const void *argument),
                       const void *argument, size_t *out_count);
/* Fields, key and reason. */
bool world_same(const struct world *world, const struct row *row);

#endif
