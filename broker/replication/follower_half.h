/* follower_half.h: decisions of a follower beside the rules (broker/pair): when it asks and asks again, the order of
 * the steps for an answer, and up to which position the core may apply.
 *
 *   PAIR_ASK ──► follower_half_ask ──► send the question, or nothing after a goodbye
 *   an answer ─► follower_take_begin ─► follower_take_next, until FOLLOWER_DONE ─► follower_half_settle
 *
 * Pure: no thread, no clock, no I/O. Times are MONOTONIC nanoseconds of the node. broker/shell/pair/node_follower.c and
 * tests/sim/node_follow.c carry out what is decided here. */
#ifndef TARRY_REPLICATION_FOLLOWER_HALF_H
#define TARRY_REPLICATION_FOLLOWER_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "pair_times.h"

/* Number of unknown challenges in a row after which the other node counts as unable to prove itself. */
#define FOLLOWER_CHALLENGES_MAX 5

struct follower_half {
    struct pair_times times;
    struct pair_message question; /* the newest question */
    bool asking;                  /* the question has no answer yet */
    bool has_left;       /* this node has announced its stop: it asks no more, and no leader counts as silent */
    uint64_t again_ns;   /* FOLLOWING: when to repeat the question or the cut; UINT64_MAX: neither */
    uint64_t cut_end;    /* position of the cut that the rules wait for */
    unsigned challenges; /* unknown challenges since the last proved answer */
};

void follower_half_init(struct follower_half *half, const struct pair_times *times);

/* ---- asking */
/* PAIR_ASK. True: send the question, then call follower_half_sent. A question with the same serial is not sent again
 * within follower_half_patience_ms, while its answer may still come. */
bool follower_half_ask(struct follower_half *half, const struct pair_message *question);
/* Result of sending: after a failure the question is sent again soon. */
void follower_half_sent(struct follower_half *half, bool is_sent, uint64_t now_ns);
/* Returns whether this node takes the answer to its newest question. A node that leads takes only the answer to a
 * proposal, and repeats nothing else: its log may have retired the position that its last question as a follower names.
 * The rules ask again by PAIR_SILENT. */
bool follower_half_listens(const struct follower_half *half, const struct pair *pair);
/* The process stops. True: send the newest question again, with a goodbye. False: this node follows no leader that it
 * can reach. */
bool follower_half_leave(struct follower_half *half, const struct pair *pair);
/* Time that the leader may hold a question while it has no frames for it. */
uint32_t follower_half_wait_ms(const struct follower_half *half);
/* Timeout of an answer: it is lost if no part of it comes for this time. */
uint32_t follower_half_patience_ms(const struct follower_half *half);

enum follower_due { FOLLOWER_DUE_NOTHING = 0, FOLLOWER_DUE_ASK, FOLLOWER_DUE_CUT };
/* Returns what to repeat at again_ns. */
enum follower_due follower_half_due(struct follower_half *half, const struct pair *pair, uint64_t now_ns);
/* The other node was restarted: asks the same question again soon. */
void follower_half_ask_again(struct follower_half *half, uint64_t now_ns);
/* The other node refuses, until an operator acts; it is asked again later. */
void follower_half_refused(struct follower_half *half, uint64_t now_ns);
enum follower_unproved { FOLLOWER_ASKS_NOW, FOLLOWER_ASKS_SOON, FOLLOWER_REFUSED };
/* An answer without a proof came, which any process may have sent. `is_challenge`: it has a challenge that this node
 * did not know, so the other node may have restarted. Then the question is repeated: the first time at once (ASKS_NOW),
 * then soon, up to FOLLOWER_CHALLENGES_MAX times. Otherwise it counts as a refusal. */
enum follower_unproved follower_half_unproved(struct follower_half *half, bool is_challenge, uint64_t now_ns);
/* An answer has proved that the other node sent it. */
void follower_half_proved(struct follower_half *half);
/* The cut at `end` (R8) is not possible now: it is repeated at again_ns. */
void follower_half_put_off_cut(struct follower_half *half, uint64_t end, uint64_t now_ns);
/* All steps for an answer are done: plans the same question again if none is under way. */
void follower_half_settle(struct follower_half *half, const struct pair *pair, uint64_t now_ns);

/* ---- the steps for an answer that is not a refusal */
enum follower_step {
    FOLLOWER_BEGIN = 0,
    FOLLOWER_CLOCK,    /* note the leader's logical time, before a frame of it is stored (TIME-1) */
    FOLLOWER_COPY,     /* append its frames; if they do not continue this log, call follower_take_unfit */
    FOLLOWER_SYNC,     /* sync the log (R2) */
    FOLLOWER_DURABLE,  /* report PAIR_DURABLE to the rules */
    FOLLOWER_LEADER,   /* keep what the answer says about the leader, for the hard state and for clients */
    FOLLOWER_ANSWERED, /* report PAIR_ANSWERED to the rules */
    FOLLOWER_HEARD,    /* the other node was heard (silence.h) */
    FOLLOWER_APPLY,    /* let the core apply the log up to follower_may_apply */
    FOLLOWER_DONE,
};
struct follower_take {
    bool leads;     /* the node that answered leads */
    bool is_newest; /* the answer belongs to the newest question */
    bool copies;    /* append its frames to the log */
    bool is_unfit;  /* the frames do not continue the log */
    enum follower_step step;
};
/* Begins the steps. `has_frames`: frames came with the answer. */
struct follower_take follower_take_begin(const struct pair *pair, const struct pair_message *answer, bool has_frames,
                                         bool is_newest);
/* Returns the next step. `applied`: position up to which the core has been asked to apply. */
enum follower_step follower_take_next(struct follower_take *take, const struct pair *pair, uint64_t applied);
void follower_take_unfit(struct follower_take *take);
/* LOG-3: returns the position up to which a follower's core and index may apply: what is known to be committed. 0: this
 * node does not follow. */
uint64_t follower_may_apply(const struct pair *pair);
/* R8: returns the position below which this node never cuts its log. `known`: a further lower bound (the shell's: the
 * end of what it has signed). */
uint64_t follower_keeps(const struct pair *pair, uint64_t known);

#endif
