/* group_commit.h: what is written together, and what happens in which order (LOG-1, LOG-4).
 *
 *   IDLE ─ begin ─► APPEND ─► READ ─► SYNC ─► RELEASE ─► IDLE
 *                      │               │
 *                      └── an error ───┴─► FAILED, for ever
 *
 * Whatever has gathered while one group was written and synced is the next: nothing waits for company when the disk is
 * idle, and throughput grows with load. The hand carries out `step`, says group_commit_done, and goes on until IDLE; it
 * begins the next group at once if something has gathered.
 *
 * APPEND: every frame is appended, in order, then written; what is written another node may copy, before the sync.
 * READ: contents of deliveries may be read from here on, while the sync runs. SYNC: fdatasync. RELEASE: the log is
 * durable here up to `end`. A group without frames is neither appended nor synced.
 *
 * A failure is final: nothing of the group leaves, the callers that wait are told FAILED, and the process ends without
 * touching the disk again (LOG-4).
 *
 * Not thread-safe: one thread writes the log at a time. Memory: none of its own. */
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
    enum group_step step;   /* that the hand is to carry out */
    size_t frames;          /* of this group */
    uint64_t end;           /* of the log, behind the group */
    bool is_replicated;     /* another node's word may be needed before anything leaves */
    enum group_step failed; /* FAILED: the step that did … */
    int error;              /* … and what the disk said */
};

/* No group is under way: asserted, and so it is never called after a failure (LOG-4). `end`: the log's, behind its
 * `frames`. */
void group_commit_begin(struct group_commit *group, size_t frames, uint64_t end, bool is_replicated);
/* `step` was carried out: 0, or the error of storage. */
void group_commit_done(struct group_commit *group, int error);
/* Are frames under way to the disk? What comes meanwhile waits for the next group. */
bool group_commit_is_writing(const struct group_commit *group);
/* READ, of one batch with `frames` of the group's: are its contents read now? Otherwise once it may leave: a batch that
 * appended nothing waits for more than a position if another node has a say (R3). */
bool group_commit_reads(const struct group_commit *group, size_t frames);

/* The log's view of what the core wants appended; `pieces` has room for its contents, and must outlive `out`. */
void group_commit_frame(const struct core_append *append, struct log_piece *pieces, struct log_frame *out);

#endif
