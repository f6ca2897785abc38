/* freshness.h: decides whether a follower may answer a question that demands a log position (at_least) or a maximum age
 * (staleness).
 *
 * The position is compared with the position that the follower has applied. The age needs a proof from the leader: the
 * follower asks at time T, and the leader replies that all acknowledged commits are below position K. A follower that
 * has applied the log up to K shows all commits that were acknowledged before T. So the age of its state counts from T.
 *
 * *T is the time of the question, not of the reply*, because a reply may wait in a socket or in the network. *Times are
 * BOOTTIME*, because a suspended machine gets no messages. *K is at least the beginning of the leader's epoch*, because
 * earlier leaders may have acknowledged all commits below it, even if this leader has not committed them again yet. *A
 * reply is used only within its epoch.* While this node follows, only its leader can acknowledge commits.
 *
 * Pure: no clock, no I/O. Thread-safety: one owner. broker/shell/pair/node_fresh.c and tests/sim carry out the
 * decisions. */
#ifndef TARRY_REPLICATION_FRESHNESS_H
#define TARRY_REPLICATION_FRESHNESS_H

#include <stdbool.h>
#include <stdint.h>

/* A leader's reply: all commits acknowledged before `asked_ns` are below position `known`. */
struct freshness_word {
    uint64_t asked_ns; /* CLOCK_BOOTTIME of this node; 0: no reply */
    uint64_t known;
};

struct freshness {
    uint32_t epoch;               /* epoch of the replies below */
    struct freshness_word proved; /* newest reply whose `known` is applied */
    struct freshness_word next; /* oldest reply up to whose `known` this node has not applied the log; a newer reply is
                                   stored in `newest` */
    /* newest reply; it replaces `next` when the log is applied up to the position of `next` */
    struct freshness_word newest;
};

/* Notes the reply of the leader of `epoch` to the question of `asked_ns`. `applied` is the position up to which this
 * node has applied the log. */
void freshness_heard(struct freshness *freshness, uint32_t epoch, uint64_t asked_ns, uint64_t known, uint64_t applied);
void freshness_applied(struct freshness *freshness, uint64_t applied);
/* Returns the age that is proved: this node shows all commits acknowledged before `now_ns` minus this age. UINT64_MAX:
 * nothing is proved. */
uint64_t freshness_age_ns(const struct freshness *freshness, uint64_t now_ns);

/* Demands of a question. */
struct freshness_wish {
    uint64_t at_least;     /* position that must be applied; 0: any position */
    uint64_t staleness_ns; /* maximum age of the state; 0: any age */
    uint64_t until_ns;     /* deadline, BOOTTIME */
    /* time since when this question waits for a newer reply of the leader; 0: it does not wait for one */
    uint64_t word_ns;
};

enum freshness_verdict {
    FRESH_ENOUGH = 1, /* answer now */
    FRESH_WAIT,       /* decide again when more is applied, or at freshness_timer */
    FRESH_ASK,        /* as FRESH_WAIT; the caller also sends a question to the leader now */
    FRESH_BEHIND,     /* refuse: at_least is not applied */
    FRESH_TOO_OLD,    /* refuse: staleness_ns is not proved */
};

/* Decides about a question. `follows`: this node follows a leader. */
enum freshness_verdict freshness_judge(const struct freshness *freshness, struct freshness_wish *wish, bool follows,
                                       uint64_t applied, uint64_t now_ns);
/* Extends the question's deadline after this process was stopped for a while, because the leader's reply may already
 * wait in a socket (F-13). */
void freshness_overslept(struct freshness_wish *wish, uint64_t now_ns);
/* Returns when to decide again after FRESH_WAIT and FRESH_ASK, in BOOTTIME. */
uint64_t freshness_timer(const struct freshness_wish *wish);
/* Returns the position that must be applied after FRESH_WAIT and FRESH_ASK; UINT64_MAX if applying more does not help.
 */
uint64_t freshness_awaits(const struct freshness *freshness, const struct freshness_wish *wish, uint64_t applied);

#endif
