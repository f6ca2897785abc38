/* digests.h: the two nodes of a pair compare their states at the same positions (LOG-2, F-31).
 *
 *   leader: digests_add after what it decides ─ digests_below ─► with the frames ─► digests_expect: follower
 *   leader: digests_told ◄─ with the next question ─ `compared` ◄─ digests_applied, once the core is there
 *
 * A digest is of the state after everything up to a position. Not every position has one: what is known on one side
 * only is not compared. Pure, bounded. Thread-safety: the caller's lock. */
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
    struct digest_point points[DIGEST_POINTS]; /* of a leader: its own newest */
    size_t next;
    struct digest_point expected; /* of a follower: what the leader has; position 0: none */
    struct digest_point compared; /* were found to be the same, last */
    uint64_t compared_ns;         /* when */
    uint64_t count;               /* of positions, since this process started */
};

enum digest_verdict {
    DIGEST_UNKNOWN = 0, /* there is nothing to compare with */
    DIGEST_SAME,
    DIGEST_DIFFERS, /* `out_own`, or `expected`, was another: one of the two is damaged */
};

/* ---- leading */
void digests_add(struct digests *digests, uint64_t position, uint64_t digest);
/* The newest that a follower passes which has the log up to `end`; position 0: none. */
struct digest_point digests_below(const struct digests *digests, uint64_t end);
/* The follower says what it had at `position` (0: nothing). `*out_own`: what this node had. */
enum digest_verdict digests_told(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                 uint64_t *out_own);

/* ---- following */
/* The leader had this; the core here has applied the log up to `applied`. */
void digests_expect(struct digests *digests, struct digest_point point, uint64_t applied);
/* The log is cut at `end` (R8): what lay behind it, and was never applied here, is not expected any more. Another frame
 * may end there next, and its state is another. */
void digests_cut(struct digests *digests, uint64_t end);
/* The core has applied the log up to `position`. `*out_expected`: what the leader had. */
enum digest_verdict digests_applied(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                    uint64_t *out_expected);

#endif
