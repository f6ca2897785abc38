/* freshness.h: may a node of a pair that does not lead answer a question that asks for no less than a log position
 * (at_least), or for nothing older than so long (staleness)?
 *
 * The first is seen from what it has applied. The second must be proved, and what proves it is its leader's word: a
 * leader that was asked at T, and said then that all that was ever acknowledged lies below K, proves to a node that has
 * applied the log up to K that whatever was acknowledged before T is in its answer.
 *
 *   asked at T ──────────► the leader: "all of it lies below K" ──────────► heard ──► applied up to K: proved as of T
 *        the age is counted from here, not from there ────────────────────────┘
 *
 * *T is when it was asked, not when the word was heard*: a word may lie in a socket for as long as the node is stopped
 * or the network holds it. *On BOOTTIME*: a machine that was suspended has heard nothing meanwhile. *K is no less than
 * where the leader's epoch began*: what an earlier leader has acknowledged the present one has, and need not have
 * committed yet. *In one epoch*: what a leader said counts no more once another leads. There are two nodes, so no third
 * one acknowledges anything while this one follows.
 *
 * Pure: no clock, no I/O. Thread-safety: one owner. broker/shell/pair/node_fresh.c and tests/sim carry it out. */
#ifndef TARRY_REPLICATION_FRESHNESS_H
#define TARRY_REPLICATION_FRESHNESS_H

#include <stdbool.h>
#include <stdint.h>

/* The leader's word: what was acknowledged before `asked_ns` lies below `known`. */
struct freshness_word {
    uint64_t asked_ns; /* CLOCK_BOOTTIME of the node; 0: none */
    uint64_t known;
};

struct freshness {
    uint32_t epoch;               /* of all of them */
    struct freshness_word proved; /* it is applied up to there */
    struct freshness_word next;   /* … it will be; it stays until then, so that one is, however many come meanwhile */
    struct freshness_word newest; /* … and the one after it */
};

/* The leader of `epoch` has answered what it was asked at `asked_ns`; `applied`: what answers here show. */
void freshness_heard(struct freshness *freshness, uint32_t epoch, uint64_t asked_ns, uint64_t known, uint64_t applied);
void freshness_applied(struct freshness *freshness, uint64_t applied);
/* All that was acknowledged so long before `now_ns` is in what answers show; UINT64_MAX: nothing is proved. */
uint64_t freshness_age_ns(const struct freshness *freshness, uint64_t now_ns);

/* What a question asks for. */
struct freshness_wish {
    uint64_t at_least;     /* 0: whatever there is */
    uint64_t staleness_ns; /* 0: any */
    uint64_t until_ns;     /* BOOTTIME: it is not waited for longer */
    uint64_t word_ns;      /* since when only a younger word of the leader's helps; 0: it does not come to that yet */
};

enum freshness_verdict {
    FRESH_ENOUGH = 1, /* answer */
    FRESH_WAIT,       /* look again once more is applied, or at freshness_timer */
    FRESH_ASK,        /* likewise, and ask the leader now */
    FRESH_BEHIND,     /* refuse: at_least is not applied */
    FRESH_TOO_OLD,    /* refuse: nothing so young is proved */
};

/* `follows`: this node follows a leader. */
enum freshness_verdict freshness_judge(const struct freshness *freshness, struct freshness_wish *wish, bool follows,
                                       uint64_t applied, uint64_t now_ns);
/* This node stood still: what it waited for may lie in a socket, and has time to be read (F-13). */
void freshness_overslept(struct freshness_wish *wish, uint64_t now_ns);
/* After FRESH_WAIT and FRESH_ASK: BOOTTIME. */
uint64_t freshness_timer(const struct freshness_wish *wish);
/* … and the position up to which more must be applied; UINT64_MAX: that alone does not help. */
uint64_t freshness_awaits(const struct freshness *freshness, const struct freshness_wish *wish, uint64_t applied);

#endif
