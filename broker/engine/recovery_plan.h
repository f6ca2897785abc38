/* recovery_plan.h: from index and log to a core that has applied both, step by step, and what is refused on the way.
 *
 *   open the index ─► open the log ─► do they fit together? (LOG-3) ─► make the core ─► restore it, part by part
 *     ─► replay the log from the index's position on ─► how did the last run end? ─► the clock ─► epoch + 1
 *
 * Of a pair nothing is replayed: what is not in the index may not be committed, and is applied once it is known to be
 * (LOG-3); the pair's rules say which epoch is next. An inspection writes nothing: its clock stands still, and its
 * epoch is the last one's.
 *
 * The caller executes `effect` and tells what came of it by the function that stands beside it, which leads to the next
 * effect. What cannot be opened it refuses itself, with the sentence that storage has for it. One thread. */
#ifndef TARRY_ENGINE_RECOVERY_PLAN_H
#define TARRY_ENGINE_RECOVERY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core.h"
#include "log.h"

enum recovery_effect {
    RECOVERY_OPEN_INDEX, /* → recovery_index_opened */
    RECOVERY_OPEN_LOG,   /* scanned from index.position, durable up to `durable_min` at least → recovery_log_opened */
    RECOVERY_MAKE_CORE,  /* → recovery_executed */
    RECOVERY_RESTORE,    /* `part` of the index into the core → recovery_executed */
    RECOVERY_REPLAY,     /* the next frame below `replay_to`, from `replayed` on → recovery_frame_read */
    RECOVERY_FIND_LAST_STOP, /* by which record did the log end? → recovery_executed */
    RECOVERY_START_CLOCK,    /* it goes on from `last` → recovery_executed */
    RECOVERY_STOP_CLOCK,     /* it stands still at `last` → recovery_executed */
    RECOVERY_DONE,           /* the core is told `begins` first, with `epoch` */
    RECOVERY_REFUSED,        /* `refusal` says why */
};

/* In this order: a task's lease needs its queue, a result its producer. */
enum recovery_part {
    RECOVERY_BASE, /* position and counts */
    RECOVERY_QUEUES,
    RECOVERY_LEASES,
    RECOVERY_PRODUCERS,
    RECOVERY_RESULTS,
    RECOVERY_JOBS,
    RECOVERY_OUTCOMES,
    RECOVERY_PARTS,
};

enum recovery_refusal {
    RECOVERY_INDEX_AHEAD,          /* of the log, which lost its tail */
    RECOVERY_CONTENTS_MISSING,     /* the log starts behind where contents begin that the index refers to */
    RECOVERY_FRAMES_MISSING,       /* the log starts behind the index's position */
    RECOVERY_HISTORIES_DIFFER,     /* the chain at the index's position */
    RECOVERY_HEAD_DIFFERS,         /* from the log's chain, where a head was signed */
    RECOVERY_CORE_TOO_LARGE,       /* for the memory that there is */
    RECOVERY_INDEX_TOO_LARGE,      /* what it has of leases and the like, for the core's memory */
    RECOVERY_INDEX_SENSELESS,      /* `error` */
    RECOVERY_REPLAY_TOO_LARGE,     /* for the core's memory */
    RECOVERY_REPLAY_IMPOSSIBLE,    /* at `replayed`: `error` */
    RECOVERY_LAST_STOP_UNREADABLE, /* `error` */
};

struct recovery_options {
    bool inspects;
    bool is_pair;
    uint32_t epoch_min;          /* a copy's first start is one of another member */
    uint64_t signed_position;    /* of the last head that was signed; 0: none … */
    const uint8_t *signed_chain; /* … and the chain there */
};

struct recovery_index { /* index_meta, as far as it concerns recovery */
    uint64_t position;
    uint64_t log_start; /* contents below it lie in the index */
    uint64_t steady_ns, wall_ns;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

struct recovery_plan {
    struct recovery_options options;
    enum recovery_effect effect;
    enum recovery_part part;
    enum recovery_refusal refusal;
    int error;
    struct recovery_index index;
    struct log_recovery log;
    uint64_t durable_min; /* the log had been durable up to here: the caller that remembers it says so */
    uint64_t replayed;
    uint64_t replay_to;
    struct instant last; /* latest logical time of log and index (TIME-2) */
    uint32_t epoch;
    enum core_event_kind begins;
};

void recovery_begin(struct recovery_plan *out, const struct recovery_options *options);
void recovery_index_opened(struct recovery_plan *plan, const struct recovery_index *index);
void recovery_log_opened(struct recovery_plan *plan, const struct log_recovery *log);
/* `error`: 0, or negative: errno, of storage, or enum core_replay_error. */
void recovery_executed(struct recovery_plan *plan, int error);
/* Applies the frame to `core`. `error`: as the log's cursor gave it. `body` NULL: it has none, or it cannot be
 * unpacked. Both are borrowed. */
void recovery_frame_read(struct recovery_plan *plan, struct core *core, int error, const struct frame_header *header,
                         const Tarry__FrameBody *body);

#endif
