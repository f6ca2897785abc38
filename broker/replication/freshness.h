/* freshness.h: decides whether a follower may answer a question that demands a log position (at_least) or a greatest
 * age (staleness).
 *
 * The position is compared with what the follower has applied. The age needs a proof from the leader: the follower asks
 * at T, and the leader replies that all acknowledged commits lie below K. A follower that has applied the log up to K
 * then shows all commits that were acknowledged before T.
 *
 *   asked at T ──────────► the leader: "all of it lies below K" ──────────► heard ──► applied up to K: proved as of T
 *        the age is counted from here, not from there ────────────────────────┘
 *
 * *T is the time of the question, not of the reply*, because a reply may wait in a socket or in the network. *Times are
 * BOOTTIME*, because a suspended machine hears nothing. *K is at least the begin of the leader's epoch*, because the
 * leader has the commits of earlier epochs before it has committed them itself. *A reply counts within its epoch only.*
 * There is no third node that could acknowledge commits while this one follows.
 *
 * Pure: no clock, no I/O. Thread-safety: one owner. broker/shell/pair/node_fresh.c and tests/sim carry it out. */
#ifndef TARRY_REPLICATION_FRESHNESS_H
#define TARRY_REPLICATION_FRESHNESS_H

#include <stdbool.h>
#include <stdint.h>

/* A leader's reply: all commits acknowledged before `asked_ns` lie below `known`. */
struct freshness_word {
    uint64_t asked_ns; /* CLOCK_BOOTTIME of this node; 0: no reply */
    uint64_t known;
};

struct freshness {
    uint32_t epoch;               /* epoch of the replies below */
    struct freshness_word proved; /* newest reply that is applied up to `known` */
    struct freshness_word next;   /* the reply that is proved next; newer replies do not replace it */
    struct freshness_word newest; /* newest reply; it follows `next` */
};

/* The leader of `epoch` has answered the question of `asked_ns`; `applied`: position up to which this node has applied.
 */
void freshness_heard(struct freshness *freshness, uint32_t epoch, uint64_t asked_ns, uint64_t known, uint64_t applied);
void freshness_applied(struct freshness *freshness, uint64_t applied);
/* Returns the age that is proved: answers show all commits acknowledged before `now_ns` minus it. UINT64_MAX: nothing
 * is proved. */
uint64_t freshness_age_ns(const struct freshness *freshness, uint64_t now_ns);

/* Demands of a question. */
struct freshness_wish {
    uint64_t at_least;     /* position that must be applied; 0: any */
    uint64_t staleness_ns; /* greatest age; 0: any */
    uint64_t until_ns;     /* deadline, BOOTTIME */
    uint64_t
        word_ns; /* since when no reply is recent enough and a new one is awaited; 0: the last reply is recent enough */
};

enum freshness_verdict {
    FRESH_ENOUGH = 1, /* answer now */
    FRESH_WAIT,       /* judge again when more is applied, or at freshness_timer */
    FRESH_ASK,        /* as FRESH_WAIT, and ask the leader now */
    FRESH_BEHIND,     /* refuse: at_least is not applied */
    FRESH_TOO_OLD,    /* refuse: staleness_ns is not proved */
};

/* Judges a question. `follows`: this node follows a leader. */
enum freshness_verdict freshness_judge(const struct freshness *freshness, struct freshness_wish *wish, bool follows,
                                       uint64_t applied, uint64_t now_ns);
/* This node was paused: extends the deadline, because the reply may wait in a socket (F-13). */
void freshness_overslept(struct freshness_wish *wish, uint64_t now_ns);
/* After FRESH_WAIT and FRESH_ASK: returns when to judge again, BOOTTIME. */
uint64_t freshness_timer(const struct freshness_wish *wish);
/* After FRESH_WAIT and FRESH_ASK: returns the position that must be applied; UINT64_MAX: applying more does not help.
 */
uint64_t freshness_awaits(const struct freshness *freshness, const struct freshness_wish *wish, uint64_t applied);

#endif
