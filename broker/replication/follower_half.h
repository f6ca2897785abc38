/* follower_half.h: what a node of a pair decides while it follows, beside the rules (broker/pair): when it asks and
 * asks again, what is done with an answer and in which order, and up to where the core may apply.
 *
 *   PAIR_ASK ──► follower_half_ask ──► the question, or nothing: it has left
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

/* So often in a row the other node may have been started anew before it is said that it proves nothing. */
#define FOLLOWER_CHALLENGES_MAX 5

struct follower_half {
    struct pair_times times;
    struct pair_message question; /* the newest */
    bool asking;                  /* it has no answer yet */
    bool has_left;                /* it has said goodbye: it asks no more, and takes no leader for silent */
    uint64_t again_ns;            /* when to ask the same once more, or to cut; UINT64_MAX: not */
    uint64_t cut_end;             /* … where, while the rules wait for that */
    unsigned challenges;          /* that have come since the last answer that was proved */
};

void follower_half_init(struct follower_half *half, const struct pair_times *times);

/* ---- asking */
/* The rules ask. True: the question is to be sent; then follower_half_sent. The same question (its number) is not sent
 * while its answer may still come: follower_half_patience_ms ends that. */
bool follower_half_ask(struct follower_half *half, const struct pair_message *question);
/* It was; or could not be, and is sent once more in a moment. */
void follower_half_sent(struct follower_half *half, bool is_sent, uint64_t now_ns);
/* The process is to stop. True: the newest question is sent once more, with a goodbye. False: no leader is followed, or
 * hears of it. */
bool follower_half_leave(struct follower_half *half, const struct pair *pair);
/* For how long the leader may keep a question that it has no frames for. */
uint32_t follower_half_wait_ms(const struct follower_half *half);
/* If no part of it comes for so long, the answer is lost. */
uint32_t follower_half_patience_ms(const struct follower_half *half);

enum follower_due { FOLLOWER_DUE_NOTHING = 0, FOLLOWER_DUE_ASK, FOLLOWER_DUE_CUT };
/* What is to be done once more, at again_ns. */
enum follower_due follower_half_due(struct follower_half *half, const struct pair *pair, uint64_t now_ns);
/* The same question is asked again soon: the other node was started anew. */
void follower_half_ask_again(struct follower_half *half, uint64_t now_ns);
/* The other node refuses; only an operator can help, and it is asked again all the same. */
void follower_half_refused(struct follower_half *half, uint64_t now_ns);
enum follower_unproved { FOLLOWER_ASKS_NOW, FOLLOWER_ASKS_SOON, FOLLOWER_REFUSED };
/* An answer without a proof: any process may have sent it. `is_challenge`: it brings a challenge that this
 * node did not know, so the other node may have been started since: the same is asked anew, at once (ASKS_NOW), then
 * soon, up to FOLLOWER_CHALLENGES_MAX times. Otherwise as a refusal. */
enum follower_unproved follower_half_unproved(struct follower_half *half, bool is_challenge, uint64_t now_ns);
/* An answer has proved whose it is. */
void follower_half_proved(struct follower_half *half);
/* What is to be cut off (R8) cannot be just now. */
void follower_half_put_off_cut(struct follower_half *half, uint64_t end, uint64_t now_ns);
/* What came of a question is done with: if nothing is under way, the same is asked again. */
void follower_half_settle(struct follower_half *half, const struct pair *pair, uint64_t now_ns);

/* ---- an answer of the rules' (not a refusal), step by step */
enum follower_step {
    FOLLOWER_BEGIN = 0,
    FOLLOWER_CLOCK,    /* its logical time is the leader's: noted before any of its frames is stored (TIME-1) */
    FOLLOWER_COPY,     /* its frames are appended; if they do not continue this log, follower_take_unfit */
    FOLLOWER_SYNC,     /* the log is synced (R2) */
    FOLLOWER_DURABLE,  /* the rules are told: PAIR_DURABLE */
    FOLLOWER_LEADER,   /* what it says of the leader is kept for the hard state, and for requests */
    FOLLOWER_ANSWERED, /* the rules are told: PAIR_ANSWERED */
    FOLLOWER_HEARD,    /* it is a sign of life */
    FOLLOWER_APPLY,    /* the core applies the log up to follower_may_apply */
    FOLLOWER_DONE,
};
struct follower_take {
    bool leads;     /* the node that answered does */
    bool is_newest; /* it answers the newest question */
    bool copies;    /* its frames belong into the log */
    bool is_unfit;  /* … and do not continue it */
    enum follower_step step;
};
/* `has_frames`: any came with it. */
struct follower_take follower_take_begin(const struct pair *pair, const struct pair_message *answer, bool has_frames,
                                         bool is_newest);
/* The step to be done now; `applied`: what the core was told to apply up to. */
enum follower_step follower_take_next(struct follower_take *take, const struct pair *pair, uint64_t applied);
void follower_take_unfit(struct follower_take *take);
/* LOG-3: the index and the core of a follower have what is known committed, and no more; 0: it does not follow. */
uint64_t follower_may_apply(const struct pair *pair);
/* R8: nothing below is ever cut off. `known`: what this node has vouched for otherwise. */
uint64_t follower_keeps(const struct pair *pair, uint64_t known);

#endif
