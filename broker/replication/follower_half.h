/* follower_half.h: the decisions of a follower that the rules (broker/pair) do not make: when it asks its leader, the
 * order of the steps for an answer, and the position up to which the core may apply the log.
 *
 * For PAIR_ASK, follower_half_ask decides whether to send the question; a node that has announced its stop sends none.
 * For an answer, call follower_take_begin, then follower_take_next until FOLLOWER_DONE, then follower_half_settle.
 *
 * Pure: no thread, no clock, no I/O. Times are MONOTONIC nanoseconds of the node. broker/shell/pair/node_follower.c and
 * tests/sim/node_follow.c carry out these decisions. */
#ifndef TARRY_REPLICATION_FOLLOWER_HALF_H
#define TARRY_REPLICATION_FOLLOWER_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "pair_times.h"

/* Number of consecutive answers with an unknown challenge (peer_proof.h) after which the other node counts as unable to
 * prove its identity. */
#define FOLLOWER_CHALLENGES_MAX 5

struct follower_half {
    struct pair_times times;
    struct pair_message question; /* the newest question */
    bool asking;                  /* true: the newest question has no answer yet */
    bool has_left; /* this node has announced its stop: it sends no more questions, and no leader counts as silent */
    uint64_t again_ns;   /* FOLLOWING: when to repeat the question or the cut; UINT64_MAX: nothing to repeat */
    uint64_t cut_end;    /* end of the log after the cut (PAIR_CUT) that is to be repeated */
    unsigned challenges; /* number of answers with an unknown challenge since the last answer with a valid proof */
};

void follower_half_init(struct follower_half *half, const struct pair_times *times);

/* ---- asking */
/* Decides about PAIR_ASK. Returns true if the question must be sent; then call follower_half_sent. A question with the
 * same serial is not sent again within follower_half_patience_ms, while its answer may still arrive. */
bool follower_half_ask(struct follower_half *half, const struct pair_message *question);
/* Notes the result of sending. After a failure the question is sent again soon. */
void follower_half_sent(struct follower_half *half, bool is_sent, uint64_t now_ns);
/* Returns whether this node accepts the answer to its newest question. A leader accepts only the answer to a proposal
 * (PAIR_PROPOSE), and repeats no other question. The question that it sent as a follower names a log position, which
 * the leader may have retired since. The rules ask again after PAIR_SILENT. */
bool follower_half_listens(const struct follower_half *half, const struct pair *pair);
/* Handles that the process stops. Returns true if the newest question must be sent again, with a goodbye. Returns false
 * if this node follows no leader that it can reach. */
bool follower_half_leave(struct follower_half *half, const struct pair *pair);
/* Returns the time in ms that the leader may hold a question while it has no frames for it. */
uint32_t follower_half_wait_ms(const struct follower_half *half);
/* Returns the timeout of an answer in ms: the answer is lost if no part of it arrives for this time. */
uint32_t follower_half_patience_ms(const struct follower_half *half);

enum follower_due { FOLLOWER_DUE_NOTHING = 0, FOLLOWER_DUE_ASK, FOLLOWER_DUE_CUT };
/* Returns which of the two actions is due at `now_ns`: repeat the question, or repeat the cut. */
enum follower_due follower_half_due(struct follower_half *half, const struct pair *pair, uint64_t now_ns);
/* Handles that the other node was restarted: plans to repeat the same question soon. */
void follower_half_ask_again(struct follower_half *half, uint64_t now_ns);
/* Handles that the other node refuses until an operator acts: plans to ask again later. */
void follower_half_refused(struct follower_half *half, uint64_t now_ns);
enum follower_unproved { FOLLOWER_ASKS_NOW, FOLLOWER_ASKS_SOON, FOLLOWER_REFUSED };
/* Handles an answer without a valid proof, which any process may have sent. If `is_challenge` is true, the answer has a
 * challenge that this node did not know, because the other node may have restarted. Then the caller repeats the
 * question: the first time at once (FOLLOWER_ASKS_NOW), later after a delay (FOLLOWER_ASKS_SOON), up to
 * FOLLOWER_CHALLENGES_MAX times. Otherwise the answer counts as a refusal (FOLLOWER_REFUSED). */
enum follower_unproved follower_half_unproved(struct follower_half *half, bool is_challenge, uint64_t now_ns);
/* Notes that an answer had a valid proof of the other node. */
void follower_half_proved(struct follower_half *half);
/* Notes that the cut at `end` (R8) is not possible now; it is repeated at again_ns. */
void follower_half_put_off_cut(struct follower_half *half, uint64_t end, uint64_t now_ns);
/* Ends the steps for an answer: plans the same question again if none is waiting for an answer. */
void follower_half_settle(struct follower_half *half, const struct pair *pair, uint64_t now_ns);

/* ---- the steps for an answer that is not a refusal */
enum follower_step {
    FOLLOWER_BEGIN = 0,
    FOLLOWER_CLOCK,    /* note the leader's logical time, before a frame of it is stored (TIME-1) */
    FOLLOWER_COPY,     /* append the answer's frames; if they do not continue this log, call follower_take_unfit */
    FOLLOWER_SYNC,     /* sync the log (R2) */
    FOLLOWER_DURABLE,  /* report PAIR_DURABLE to the rules */
    FOLLOWER_LEADER,   /* store the leader's identity and address, for the hard state and for clients */
    FOLLOWER_ANSWERED, /* report PAIR_ANSWERED to the rules */
    FOLLOWER_HEARD,    /* note a sign of life of the other node (silence.h) */
    FOLLOWER_APPLY,    /* let the core apply the log up to follower_may_apply */
    FOLLOWER_DONE,
};
struct follower_take {
    bool leads;     /* the node that answered leads */
    bool is_newest; /* true: this is the answer to the newest question */
    bool copies;    /* the answer's frames must be appended to the log (FOLLOWER_COPY) */
    bool is_unfit;  /* the frames do not continue the log */
    enum follower_step step;
};
/* Begins the steps for an answer. `has_frames`: the answer has frames. */
struct follower_take follower_take_begin(const struct pair *pair, const struct pair_message *answer, bool has_frames,
                                         bool is_newest);
/* Returns the next step. `applied` is the position up to which the core has been asked to apply. */
enum follower_step follower_take_next(struct follower_take *take, const struct pair *pair, uint64_t applied);
void follower_take_unfit(struct follower_take *take);
/* LOG-3: returns the position up to which a follower's core and index may apply the log: all of it is known to be
 * committed. 0 if this node does not follow. */
uint64_t follower_may_apply(const struct pair *pair);
/* R8: returns the position below which this node never cuts its log. `known` is a further lower bound; the shell passes
 * the end of the signed log. */
uint64_t follower_keeps(const struct pair *pair, uint64_t known);

#endif
