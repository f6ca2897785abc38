/* retention.h: when the oldest segment of the log may be removed, and the steps before its removal (LOG-3).
 *
 * A segment is due if the log's size or the segment's age is above the policy's limit, and the index and the follower
 * are past the segment's end. Steps:
 *
 * 1. The segment must be archived. If it is not yet, the archive is asked once, and retention continues when the
 * archive has more.
 *
 * 2. The segment is opened, and the data that are still needed are moved into the index, in slices. If the index has no
 * space, this step starts again later, which is harmless.
 *
 * 3. The transaction is committed, a head is signed, and the file is removed.
 *
 * replication/leader_half.h decides what a pair's follower still needs. A pin (of a backup, or of a follower's copy)
 * keeps every segment: the log then offers no segment, or refuses to remove it.
 *
 * The caller executes an effect and reports its result, which leads to the next effect. Sizes are in bytes. One thread
 * at a time. */
#ifndef TARRY_ENGINE_RETENTION_H
#define TARRY_ENGINE_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"

struct retention_policy {
    uint64_t log_size; /* maximum total size of the log's files */
    /* Maximum age of a segment's last frame; above this age or log_size, the oldest segment is due. */
    uint64_t log_age_ms;
};

enum retention_effect {
    RETENTION_REST,    /* nothing to do: check again after retention_wait_ns, or when something has changed */
    RETENTION_ARCHIVE, /* ask the archive to take the segment; no result is reported */
    RETENTION_OPEN,    /* open a reader at the segment's first frame */
    RETENTION_MOVE,    /* move the data of live tasks in a slice of its frames into the index */
    RETENTION_COMMIT, /* commit and sync the transaction of the move; from now on the log begins at the segment's end */
    RETENTION_SIGN,   /* before the removal, sign a head that states where the log begins */
    RETENTION_REMOVE, /* remove the file */
};

enum retention_result {
    RETENTION_DONE,
    RETENTION_MORE,    /* result of MOVE: more frames are left */
    RETENTION_NO_ROOM, /* result of MOVE or COMMIT: the index has no room */
    RETENTION_PINNED,  /* result of REMOVE: a pin keeps the segment */
};

struct retention {
    struct retention_policy policy;
    enum retention_effect effect; /* effect that the caller must execute; REST: none */
    struct log_segment segment;   /* the segment being removed, or requested from the archive */
    uint64_t asked;               /* base of the segment that was last requested from the archive */
};

struct retention_facts {
    bool is_erasing;  /* erasure works in the log; its segments must not change meanwhile */
    bool is_archived; /* everything below the segment's end is in the archive, or archiving is off */
    uint64_t log_bytes;
    uint64_t wall_ns; /* logical time */
};

void retention_init(struct retention *retention, const struct retention_policy *policy);
/* Returns a log position: a segment may be retired only if it ends at or below this position. The index has absorbed
 * the log up to the position (LOG-3), and the follower needs nothing below it. `follower_from` is the start of the log
 * that the follower needs; UINT64_MAX: it needs nothing. */
uint64_t retention_bound(uint64_t indexed, uint64_t follower_from);
/* Returns true while a segment is being retired; no erasure may begin then. */
bool retention_is_active(const struct retention *retention);
/* Returns the effect for `oldest`, the oldest segment below the bound (NULL: none). Call it while no segment is being
 * retired. */
enum retention_effect retention_look(struct retention *retention, const struct log_segment *oldest,
                                     const struct retention_facts *facts);
/* Returns the time in ns until retention has work, if nothing changes; 0: now. Arguments as for retention_look. */
uint64_t retention_wait_ns(const struct retention *retention, const struct log_segment *oldest,
                           const struct retention_facts *facts);
/* Takes the result of the current effect and returns the next effect. REST means that this retirement has ended. */
enum retention_effect retention_step(struct retention *retention, enum retention_result result);

#endif
