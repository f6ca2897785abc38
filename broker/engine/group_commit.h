/* group_commit.h: groups of frames that are written together, and the order of the steps (LOG-1, LOG-4).
 *
 *   IDLE ─ begin ─► APPEND ─► READ ─► SYNC ─► RELEASE ─► IDLE
 *                      │               │
 *                      └── an error ───┴─► FAILED (final)
 *
 * Frames that arrive while one group is written and synced form the next group. So an idle disk causes no wait, and
 * throughput grows with load. The caller executes `step` and calls group_commit_done, until IDLE. It begins the next
 * group at once if frames have arrived.
 *
 *   APPEND   append every frame in order, then write; another node may copy written frames before the sync
 *   READ     contents of deliveries may be read from here on, while the sync runs
 *   SYNC     fdatasync
 *   RELEASE  the log is durable on this node up to `end`
 *
 * A group without frames is neither appended nor synced.
 *
 * A failure is final: no reply or delivery of the group is sent, waiting callers get FAILED, and the process ends
 * without any further disk access (LOG-4).
 *
 * Not thread-safe: one thread writes the log at a time. Allocates nothing. */
#ifndef TARRY_ENGINE_GROUP_COMMIT_H
#define TARRY_ENGINE_GROUP_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core.h"

struct log_piece;
struct log_frame;

enum group_step { GROUP_IDLE, GROUP_APPEND, GROUP_READ, GROUP_SYNC, GROUP_RELEASE, GROUP_FAILED };

struct group_commit {
    enum group_step step;   /* step that the caller must execute */
    size_t frames;          /* number of frames in this group */
    uint64_t end;           /* end of the log after the group */
    bool is_replicated;     /* another node may have to confirm before a reply or delivery is sent */
    enum group_step failed; /* for FAILED: the step that failed */
    int error;              /* for FAILED: the error of storage */
};

/* Begins a group; asserts that none is active, so it is never called after a failure (LOG-4). `end`: end of the log
 * after its `frames`. */
void group_commit_begin(struct group_commit *group, size_t frames, uint64_t end, bool is_replicated);
/* Reports the result of `step`: 0, or an error of storage. */
void group_commit_done(struct group_commit *group, int error);
/* Returns true while frames are being written; later frames wait for the next group. */
bool group_commit_is_writing(const struct group_commit *group);
/* Returns true if the contents for a batch with `frames` frames may be read at step READ, while the sync runs.
 * Otherwise they are read when the batch may be sent, because a batch without frames may also have to wait for another
 * node's confirmation (R3). */
bool group_commit_reads(const struct group_commit *group, size_t frames);

/* Converts the core's append to a frame for the log. `pieces` has space for the contents and must outlive `out`. */
void group_commit_frame(const struct core_append *append, struct log_piece *pieces, struct log_frame *out);

#endif
