/* index_schedule.h: next action of the index's only writer. The index follows the durable log and never leads it
 * (LOG-3). Order of urgency:
 *
 *   0. if the disk is full: only the commit is retried, from time to time, until the disk has room (F-4)
 *   1. sign a head of the log  2. load a window that the core waits for
 *   3. absorb durable frames, once enough have gathered or another action is due
 *   4. commit a full batch, a batch that a caller waits for, or one that has waited `delay_ns`; then tell the core
 *   5. a slice of erasure      6. a slice of retirement       7. a slice of maintenance
 *
 * At a stop everything durable is absorbed and committed first. An inspection only loads windows.
 *
 * The caller executes an effect, reports the result by the function named beside the effect, and asks for the next
 * effect. Times are of a monotonic clock. One thread. */
#ifndef TARRY_ENGINE_INDEX_SCHEDULE_H
#define TARRY_ENGINE_INDEX_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum index_effect {
    INDEX_WAIT,        /* wait `wait_ns`, or until an order arrives or the log is durable up to `wanted` */
    INDEX_SIGN,        /* sign a head (a statement of the log's hash chain up to a position) */
    INDEX_LOAD_WINDOW, /* → index_schedule_sliced */
    INDEX_ABSORB, /* absorb at most INDEX_ABSORB_FRAMES frames that end at or below `limit`, until `records` records are
                     uncommitted, and call index_schedule_absorbed */
    INDEX_COMMIT, /* → index_schedule_committed */
    INDEX_TELL,   /* tell the core that the index has absorbed the log below `told` */
    INDEX_ERASE,  /* erase a slice. After INDEX_ERASE, INDEX_RETIRE and INDEX_MAINTAIN, call index_schedule_sliced */
    INDEX_RETIRE,
    INDEX_MAINTAIN,
    INDEX_STOP,
};

/* Number of frames absorbed before the writer checks for a more urgent action. */
#define INDEX_ABSORB_FRAMES 64

struct index_times {
    uint64_t delay_ns; /* delay from absorbing to the commit */
    /* Maximum delay in ns between the sync of a frame and its absorption; `gather_bytes` durable bytes end the delay
     * earlier. */
    uint64_t gather_ns;
    uint64_t gather_bytes; /* number of durable bytes that starts absorbing */
    size_t batch_records;  /* maximum records per transaction */
    bool maintains;        /* a commit may leave work for INDEX_MAINTAIN */
};

struct index_orders {      /* the writer's orders as of `now_ns` */
    uint64_t durable;      /* frames that end at or below this position may be absorbed: they are durable, and in a pair
                              committed */
    uint64_t sign_wait_ns; /* how long signing may wait, in ns; 0: due now */
    uint64_t erase_wait_ns; /* how long erasure may wait, in ns; 0: due now */
    uint64_t retire_wait_ns;
    uint64_t maintain_wait_ns; /* how long maintenance may wait if no commit left any work; UINT64_MAX: forever */
    uint64_t now_ns;
    uint64_t hurry_to; /* a caller waits until the index has absorbed the log below this position; 0: none */
    bool has_window;
    bool stop;
    bool inspects;
};

struct index_schedule {
    struct index_times times;
    uint64_t absorbed;
    uint64_t committed;
    uint64_t told;
    size_t records;           /* number of records that are absorbed and not committed */
    uint64_t oldest_ns;       /* when the oldest uncommitted record was absorbed; valid if there is one */
    uint64_t gather_until_ns; /* time until which frames are gathered before they are absorbed; 0: no frame waits */
    uint64_t retry_ns;        /* if the disk is full: time of the next attempt to commit */
    bool full;
    bool stop_tried; /* at a stop with a full disk: the last commit was tried */
    bool maintain;   /* more work for maintenance is left */
    uint64_t wait_ns;
    uint64_t wanted;
    uint64_t limit;
};

/* Returns the times for a broker with this much memory. A transaction rewrites the bitmap of each range of ids in which
 * a task ended: 8 MB for 30 million tasks that end in random order. So with more memory, a transaction contains more
 * records. */
struct index_times index_times_of(uint64_t memory);

/* Begins the schedule. `position`: position of the index. */
void index_schedule_begin(struct index_schedule *out, const struct index_times *times, uint64_t position);
enum index_effect index_schedule_next(struct index_schedule *schedule, const struct index_orders *orders);
/* Reports INDEX_ABSORB: absorbed up to `position`; `records` records in total are uncommitted. */
void index_schedule_absorbed(struct index_schedule *schedule, uint64_t position, size_t records, uint64_t now_ns);
/* Reports INDEX_COMMIT. `has_room` false: the disk is full. */
void index_schedule_committed(struct index_schedule *schedule, bool has_room, uint64_t now_ns);
/* Reports WINDOW, ERASE, RETIRE or MAINTAIN. `more`: more maintenance is left. */
void index_schedule_sliced(struct index_schedule *schedule, enum index_effect effect, bool has_room, bool more,
                           uint64_t now_ns);

/* ---- the core's side of INDEX_TELL */
enum index_news_effect {
    INDEX_NEWS_NONE,
    /* Renew the filter of keys so that it contains all keys that the index has at `position` or later. */
    INDEX_NEWS_RENEW_FILTER,
    INDEX_NEWS_STEP, /* step CORE_INDEXED with the position; the filter must contain all keys of the tasks that the core
                        drops from memory */
};
struct index_news {
    uint64_t told; /* position last given to the core */
    bool is_renewed;
};
/* Returns the next effect for position `indexed`. The caller executes it before the next call. */
enum index_news_effect index_news_next(struct index_news *news, uint64_t indexed);

/* Returns the log position up to which a copy of the data (a backup or a follower's snapshot) needs the log. `indexed`
 * is the position of the copied index. `committed` is the position up to which frames are known to be committed. The
 * index of a new leader may be ahead of `committed`; the frames between the two are committed too (LOG-3). */
uint64_t index_schedule_copy_end(uint64_t committed, uint64_t indexed);

#endif
