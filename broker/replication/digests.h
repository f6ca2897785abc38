/* digests.h: the two nodes of a pair compare their states at the same positions (LOG-2, F-31).
 *
 *   leader: digests_add after what it decides ─ digests_below ─► with the frames ─► digests_expect: follower
 *   leader: digests_told ◄─ with the next question ─ `compared` ◄─ digests_applied, once the core is there
 *
 * A digest is the hash of the state after all records up to a position. Only positions for which both nodes have a
 * digest are compared. Pure, bounded. Thread-safety: the caller's lock. */
#ifndef TARRY_REPLICATION_DIGESTS_H
#define TARRY_REPLICATION_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

struct digest_point {
    uint64_t position; /* 0: none */
    uint64_t digest;
};
#define DIGEST_POINTS 64u

struct digests {
    struct digest_point points[DIGEST_POINTS]; /* leader: its own newest digests */
    size_t next;
    struct digest_point expected; /* follower: the leader's digest; position 0: none */
    struct digest_point compared; /* last point at which both were equal */
    uint64_t compared_ns;         /* when */
    uint64_t count;               /* number of equal comparisons since this process started */
};

enum digest_verdict {
    DIGEST_UNKNOWN = 0, /* there is nothing to compare with */
    DIGEST_SAME,
    DIGEST_DIFFERS, /* the two digests differ: one of the two nodes is damaged */
};

/* ---- leading */
void digests_add(struct digests *digests, uint64_t position, uint64_t digest);
/* Returns the newest digest at or below `end`, the end of the follower's log; position 0: none. */
struct digest_point digests_below(const struct digests *digests, uint64_t end);
/* Compares the follower's digest at `position` (0: it sent none). `*out_own`: this node's digest there. */
enum digest_verdict digests_told(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                 uint64_t *out_own);

/* ---- following */
/* Remembers the leader's digest for digests_applied. `applied`: position up to which the own core has applied. */
void digests_expect(struct digests *digests, struct digest_point point, uint64_t applied);
/* The log is cut at `end` (R8): forgets an expected digest behind it, because other frames may follow there. */
void digests_cut(struct digests *digests, uint64_t end);
/* Compares once the own core has applied the log up to `position`. `*out_expected`: the leader's digest. */
enum digest_verdict digests_applied(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                    uint64_t *out_expected);

#endif
