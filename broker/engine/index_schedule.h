/* index_schedule.h: what the index's only writer does next. The index follows the durable log and never leads it
 * (LOG-3); in this order of urgency:
 *
 *   0. a full disk: nothing but the commit is tried, now and then, until there is room (F-4)
 *   1. a head to sign          2. a window that the core waits for
 *   3. absorb what is durable: once enough has gathered, or something is to be done anyway
 *   4. commit: a full batch, what a caller waits for, or what has waited for `delay_ns`; and tell the core
 *   5. a slice of erasing      6. a slice of retirement       7. a slice of maintenance
 *
 * At a stop everything durable is absorbed and committed first. An inspection does windows and nothing else.
 *
 * The caller executes an effect, reports what came of it by the function that stands beside it, and asks for the next.
 * Times are of a clock that only grows. One thread. */
#ifndef TARRY_ENGINE_INDEX_SCHEDULE_H
#define TARRY_ENGINE_INDEX_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum index_effect {
    INDEX_WAIT,        /* for `wait_ns`, or until an order comes or the log is durable up to `wanted` */
    INDEX_SIGN,        /* a head */
    INDEX_LOAD_WINDOW, /* → index_schedule_sliced */
    INDEX_ABSORB,      /* up to ABSORB_FRAMES frames that end at or below `limit`, until `records` of them are not
                          committed → index_schedule_absorbed */
    INDEX_COMMIT,      /* → index_schedule_committed */
    INDEX_TELL,        /* the core: the index has what is below `told` */
    INDEX_ERASE,       /* → index_schedule_sliced; likewise the following */
    INDEX_RETIRE,
    INDEX_MAINTAIN,
    INDEX_STOP,
};

/* Frames absorbed before the writer looks whether something more urgent came. */
#define INDEX_ABSORB_FRAMES 64

struct index_times {
    uint64_t delay_ns;     /* what was absorbed is committed after so long */
    uint64_t gather_ns;    /* what is durable is absorbed after so long … */
    uint64_t gather_bytes; /* … or once it is so much */
    size_t batch_records;  /* in a transaction */
    bool maintains;        /* a commit leaves work for INDEX_MAINTAIN */
};

struct index_orders {       /* as of `now_ns` */
    uint64_t durable;       /* frames that end at or below may be absorbed: they are durable, and committed in a pair */
    uint64_t sign_wait_ns;  /* how long this may wait; 0: it is due */
    uint64_t erase_wait_ns; /* likewise */
    uint64_t retire_wait_ns;
    uint64_t maintain_wait_ns; /* likewise, of what a commit has not left to do at once; UINT64_MAX: nothing */
    uint64_t now_ns;
    uint64_t hurry_to; /* a caller waits for the index to have what is recorded below; 0: none */
    bool has_window;
    bool stop;
    bool inspects;
};

struct index_schedule {
    struct index_times times;
    uint64_t absorbed;
    uint64_t committed;
    uint64_t told;
    size_t records;           /* absorbed and not committed */
    uint64_t oldest_ns;       /* when the oldest of what is not committed was absorbed; valid if there is any */
    uint64_t gather_until_ns; /* 0: nothing gathers */
    uint64_t retry_ns;        /* when the disk is full: the commit is tried again then */
    bool full;
    bool stop_tried; /* full, and the last commit before the stop was tried */
    bool maintain;   /* there is more to do */
    uint64_t wait_ns;
    uint64_t wanted;
    uint64_t limit;
};

/* For a broker with so much memory. Each batch writes the bitmaps of all ranges that something ended in, 8 MB of them
 * with 30 million tasks that end in no order: with more memory it waits for more. */
struct index_times index_times_of(uint64_t memory);

/* `position`: of the index. */
void index_schedule_begin(struct index_schedule *out, const struct index_times *times, uint64_t position);
enum index_effect index_schedule_next(struct index_schedule *schedule, const struct index_orders *orders);
/* Up to `position`; `records` of it all are not committed. */
void index_schedule_absorbed(struct index_schedule *schedule, uint64_t position, size_t records, uint64_t now_ns);
/* False: the disk is full. */
void index_schedule_committed(struct index_schedule *schedule, bool has_room, uint64_t now_ns);
/* WINDOW, ERASE, RETIRE, MAINTAIN. `more`: of MAINTAIN, there is more to do. */
void index_schedule_sliced(struct index_schedule *schedule, enum index_effect effect, bool has_room, bool more,
                           uint64_t now_ns);

/* ---- the core's side of INDEX_TELL */
enum index_news_effect {
    INDEX_NEWS_NONE,
    INDEX_NEWS_RENEW_FILTER, /* the filter of keys, as of a position at or behind the news */
    INDEX_NEWS_STEP,         /* CORE_INDEXED with the position: what the core forgets then the filter must know */
};
struct index_news {
    uint64_t told; /* to the core */
    bool is_renewed;
};
/* `indexed`: as it was told last. The effect is executed before the next call. */
enum index_news_effect index_news_next(struct index_news *news, uint64_t indexed);

/* Where the log of a copy ends (a backup, a follower's snapshot) whose index is at `indexed`: `committed` is what may
 * be told. A leader that has only begun has more in its index than it may tell yet; that is committed, too (LOG-3). */
uint64_t index_schedule_copy_end(uint64_t committed, uint64_t indexed);

#endif
