/* recovery_plan.h: the steps from an index and a log to a core that has applied both, and the reasons to refuse.
 *
 * Steps: open the index; open the log; check that they fit together (LOG-3); make the core; restore it, part by part;
 * replay the log from the index's position on; find out how the last run ended; set the clock; begin the next epoch.
 *
 * A node of a pair replays nothing. Frames that the index lacks may not be committed, so the node applies them once
 * they are known to be committed (LOG-3). The rules of the pair decide the next epoch. An inspection (reading the data
 * of a stopped broker) writes nothing: its clock stands still, and it keeps the last epoch.
 *
 * The caller executes `effect` and reports the result by the function named beside the effect; that leads to the next
 * effect. If a file cannot be opened, the caller itself refuses to start, with the error message of storage. One
 * thread. */
#ifndef TARRY_ENGINE_RECOVERY_PLAN_H
#define TARRY_ENGINE_RECOVERY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core.h"
#include "log.h"

enum recovery_effect {
    RECOVERY_OPEN_INDEX, /* → recovery_index_opened */
    RECOVERY_OPEN_LOG, /* open the log and scan it from index.position; it is durable at least up to `durable_min`; call
                          recovery_log_opened */
    RECOVERY_MAKE_CORE,      /* → recovery_executed */
    RECOVERY_RESTORE,        /* restore `part` of the index into the core; call recovery_executed */
    RECOVERY_REPLAY,         /* replay the next frame below `replay_to`, from `replayed` on; call recovery_frame_read */
    RECOVERY_FIND_LAST_STOP, /* find the record that ended the last run; call recovery_executed */
    RECOVERY_START_CLOCK,    /* start the clock at `last`; call recovery_executed */
    RECOVERY_STOP_CLOCK,     /* stop the clock at `last`; call recovery_executed */
    RECOVERY_DONE,           /* pass the event `begins` with `epoch` to the core as its first event */
    RECOVERY_REFUSED,        /* refuse to start; `refusal` contains the reason */
};

/* Parts of the core's state, in the order of their restoration: queues come before leases, because a lease refers to a
 * queue, and producers come before results. */
enum recovery_part {
    RECOVERY_BASE, /* position and counts of the index */
    RECOVERY_QUEUES,
    RECOVERY_LEASES,
    RECOVERY_PRODUCERS,
    RECOVERY_RESULTS,
    RECOVERY_JOBS,
    RECOVERY_DEFINITIONS,
    RECOVERY_RECURRENCES,
    RECOVERY_OUTCOMES,
    RECOVERY_PARTS,
};

enum recovery_refusal {
    RECOVERY_INDEX_AHEAD,          /* the index is ahead of the log, which lost its tail */
    RECOVERY_CONTENTS_MISSING,     /* the log starts after contents that the index refers to */
    RECOVERY_FRAMES_MISSING,       /* the log starts after the index's position */
    RECOVERY_HISTORIES_DIFFER,     /* the hash chains differ at the index's position */
    RECOVERY_HEAD_DIFFERS,         /* the hash chain of the log differs from a signed head */
    RECOVERY_CORE_TOO_LARGE,       /* the core's tables do not fit into the system's memory */
    RECOVERY_INDEX_TOO_LARGE,      /* leases and other parts of the index do not fit into the core's memory */
    RECOVERY_INDEX_SENSELESS,      /* with `error` */
    RECOVERY_REPLAY_TOO_LARGE,     /* the replayed state does not fit into the core's memory */
    RECOVERY_REPLAY_IMPOSSIBLE,    /* a frame at `replayed` cannot be applied; `error` contains the reason */
    RECOVERY_LAST_STOP_UNREADABLE, /* with `error` */
};

struct recovery_options {
    bool inspects;
    bool is_pair;
    uint32_t epoch_min;          /* lowest epoch that a restored copy may start in; 0: no minimum */
    uint64_t signed_position;    /* position of the last signed head; 0: none */
    const uint8_t *signed_chain; /* chain hash at signed_position */
};

struct recovery_index { /* the members of index_meta that recovery needs */
    uint64_t position;
    uint64_t log_start; /* contents below this position are in the index */
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
    /* The log was durable up to this position in an earlier run; set by a caller that has stored it. */
    uint64_t durable_min;
    uint64_t replayed;
    uint64_t replay_to;
    struct instant last; /* latest logical time of log and index (TIME-2) */
    uint32_t epoch;
    enum core_event_kind begins;
};

void recovery_begin(struct recovery_plan *out, const struct recovery_options *options);
void recovery_index_opened(struct recovery_plan *plan, const struct recovery_index *index);
void recovery_log_opened(struct recovery_plan *plan, const struct log_recovery *log);
/* Reports the result of an effect. `error` is 0 or negative: an errno, an error of storage, or an enum
 * core_replay_error. */
void recovery_executed(struct recovery_plan *plan, int error);
/* Applies the frame to `core`. `error` is the result of the log's cursor. `body` is NULL if the frame has none or it
 * cannot be unpacked. Borrows `header` and `body`. */
void recovery_frame_read(struct recovery_plan *plan, struct core *core, int error, const struct frame_header *header,
                         const Tarry__FrameBody *body);

#endif
