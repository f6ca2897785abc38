/* retention.h: when the oldest segment of the log may go, and what must have happened before (LOG-3).
 *
 *   due ─► archived ─► open ─► move what still lives into the index, in slices ─► commit ─► sign ─► remove
 *    │        │                     └─ the index has no room: the segment is begun anew later, which is harmless
 *    │        └─ not yet: the archive is asked for it, once, and retention is told when it has more
 *    └─ the log is larger or the segment older than the policy keeps, and index and follower are past its end
 *
 * What a pair's follower still needs is decided by replication/leader_half.h. A pin (a backup, a follower's copy) holds
 * every segment: the log finds none that may go, or refuses to remove it. The caller executes an effect and reports its
 * result, which leads to the next effect. Sizes are in bytes. One thread at a time. */
#ifndef TARRY_ENGINE_RETENTION_H
#define TARRY_ENGINE_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"

struct retention_policy {
    uint64_t log_size;   /* the log's files together … */
    uint64_t log_age_ms; /* … and a segment's last frame: beyond either the oldest segment is due */
};

enum retention_effect {
    RETENTION_REST,    /* nothing to do: look again after retention_wait_ns, or when something has changed */
    RETENTION_ARCHIVE, /* the segment is to be archived; no result is reported */
    RETENTION_OPEN,    /* a reader at the segment's first frame */
    RETENTION_MOVE,    /* a slice of its frames: what still lives in them into the index */
    RETENTION_COMMIT,  /* the transaction that says so is synced; the log begins at the segment's end from now on */
    RETENTION_SIGN,    /* a signed head says where the log begins, before it is so */
    RETENTION_REMOVE,  /* the file */
};

enum retention_result {
    RETENTION_DONE,
    RETENTION_MORE,    /* of MOVE: there are more frames */
    RETENTION_NO_ROOM, /* of MOVE, COMMIT: the index has none */
    RETENTION_PINNED,  /* of REMOVE */
};

struct retention {
    struct retention_policy policy;
    enum retention_effect effect; /* under way; REST: none */
    struct log_segment segment;   /* that goes, or that the archive is wanted to take */
    uint64_t asked;               /* base of the one that the archive was asked for last */
};

struct retention_facts {
    bool is_erasing;  /* in the log: nothing else happens to its segments meanwhile */
    bool is_archived; /* everything below the segment's end is in the archive, or nothing is archived */
    uint64_t log_bytes;
    uint64_t wall_ns; /* logical */
};

void retention_init(struct retention *retention, const struct retention_policy *policy);
/* Segments that end at or below this position may be looked at: the index has absorbed them (LOG-3), and the follower
 * has them (`follower_from`: it needs the log from there on; UINT64_MAX: it needs none). */
uint64_t retention_bound(uint64_t indexed, uint64_t follower_from);
/* A segment is on its way out: nothing is erased meanwhile. */
bool retention_is_active(const struct retention *retention);
/* While none is: what is to be done with `oldest`, the oldest segment below the bound; NULL: there is none. */
enum retention_effect retention_look(struct retention *retention, const struct log_segment *oldest,
                                     const struct retention_facts *facts);
/* How long it may rest, unless something changes; 0: there is something to do. Arguments as above. */
uint64_t retention_wait_ns(const struct retention *retention, const struct log_segment *oldest,
                           const struct retention_facts *facts);
/* The effect under way has come to that; → the next one. REST: it is over, this time. */
enum retention_effect retention_step(struct retention *retention, enum retention_result result);

#endif
