/* digests.h: the two nodes of a pair compare their states at the same log positions (LOG-2, F-31).
 *
 * The leader stores a digest after each decision (digests_add), and sends one of them with the frames (digests_below).
 * The follower stores the leader's digest (digests_expect). It compares the digest with its own when its core has
 * applied the log up to that position (digests_applied). It sends its own digest with its next question, and the leader
 * compares it with the stored one (digests_told).
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
    struct digest_point compared; /* last point at which the two digests were equal */
    uint64_t compared_ns;         /* when */
    uint64_t count;               /* number of equal comparisons since this process started */
};

enum digest_verdict {
    DIGEST_UNKNOWN = 0, /* no digest to compare with */
    DIGEST_SAME,
    DIGEST_DIFFERS, /* the two digests differ: one of the two nodes is damaged */
};

/* ---- leading */
void digests_add(struct digests *digests, uint64_t position, uint64_t digest);
/* Returns the newest digest at or below `end`, the end of the follower's log; position 0: none. */
struct digest_point digests_below(const struct digests *digests, uint64_t end);
/* Compares the follower's digest at `position` with this node's digest at that position, and sets `*out_own` to this
 * node's digest. `position` 0: the follower sent no digest. */
enum digest_verdict digests_told(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                 uint64_t *out_own);

/* ---- following */
/* Stores the leader's digest for digests_applied. `applied` is the position up to which this node's core has applied
 * the log. */
void digests_expect(struct digests *digests, struct digest_point point, uint64_t applied);
/* Handles that the log is cut at `end` (R8): forgets an expected digest behind it, because other frames may follow
 * there. */
void digests_cut(struct digests *digests, uint64_t end);
/* Compares the digest once this node's core has applied the log up to `position`. Sets `*out_expected` to the leader's
 * digest. */
enum digest_verdict digests_applied(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                    uint64_t *out_expected);

#endif
