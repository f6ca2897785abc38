/* pair_world.h: two nodes that run broker/pair, their logs, a coordinator, and a network between them, as one plain
 * state: small enough to have all its futures explored (explore.c).
 *
 * A log is a string of epochs: frame i was written in epoch log[i], which with its position says everything, for an
 * epoch has one leader. A process may die at any moment; what it had not synced is lost, or not. A message may be lost,
 * doubled, or late; a newer one may push it out. The answer of a compare-and-set may be lost before or after it is
 * done, and it may be done long after the one who sent it has died.
 *
 * Without a coordinator there is an operator, who says at any moment what is true: that the other is stopped and has
 * not served alone since. By force a node may be made to lead once; what that loses is not missed afterwards. */
#ifndef TARRY_TESTS_MODEL_PAIR_WORLD_H
#define TARRY_TESTS_MODEL_PAIR_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"

#define NODES 2
#define LOG_MAX 4

struct pair_limits {
    uint32_t epochs;
    uint8_t frames;
    bool strict;
    bool by_operator; /* no coordinator */
    bool async;
    bool hand;           /* planned switch-overs */
    bool lag;            /* reads of the record need not be linearizable */
    bool silent_clients; /* nobody asks what appends nothing (R3) */
    bool force;          /* one promotion by force */
    bool lose;           /* the coordinator loses the record once (F-31b) */
    bool roll;           /* … or is put back once, to any record that it has kept (F-31b): past.h */
    bool presence;       /* who hears nothing asks whether the leader is present; else nobody ever is (F-31c) */
    bool exchange;       /* by_operator: one node comes back with an empty disk (F-29) */
    bool wrong; /* by_operator: once an operator asserts what is not true. What is lost by that is not looked at */
};

struct model_log {
    uint8_t epochs[LOG_MAX];
    uint8_t end;     /* frames */
    uint8_t durable; /* of them */
};

struct model_message { /* on its way to a node */
    bool is_there;
    struct pair_message message;
    struct model_log log; /* FOLLOW: the requester's; FRAMES: the leader's, of which those from `from` on travel */
    uint8_t from;
    uint8_t disk; /* the sender's */
};

struct model_swap {
    bool is_there;
    uint64_t version;
    struct pair_record record;
};

enum operation_state { OPERATION_NONE, OPERATION_SENT, OPERATION_ANSWERED };

struct model_node {
    bool up;
    struct pair pair;
    struct pair_hard_state hard_state; /* durable */
    uint8_t disk;                      /* which one: 0, and 1 after the exchange */
    uint8_t peer;                      /* durable: the other's that was last counted or followed here */
    uint8_t leader;                    /* whose answers it has last heard */
    struct model_log log;
    uint64_t runs;
    uint32_t known; /* the latest epoch that it has led, or durably promised: what its hard state should say (past.h) */
    bool asks_presence; /* the read under way */
    bool remembers;     /* this run has seen a record that was lost since: its coordinator's client believes no other */
    /* at the coordinator */
    enum operation_state operation;
    bool is_swap;
    struct model_swap swap; /* … */
    struct pair_event answer;
    struct model_swap ghost; /* a compare-and-set whose sender does not wait any more; it may still be done */
    /* a question to it as the leader, that appends nothing */
    bool asked;
    uint64_t question;
    uint32_t served_before; /* the latest epoch that had served anybody when it arrived */
};

struct pair_world {
    struct model_node nodes[NODES];
    struct model_message questions[NODES], answers[NODES]; /* to node i */
    uint64_t version;                                      /* 0: no record yet */
    struct pair_record record;
    struct pair_limits limits;
    uint64_t old_version; /* before the last change */
    struct pair_record old_record;
    struct model_log acked; /* what some client was told: must never be missing */
    uint32_t served;        /* the latest epoch that has served anybody */
    uint32_t led;           /* bits: epochs that somebody has led */
    bool was_in_sync;       /* by_operator: the pair has been in sync once */
    uint8_t forced;         /* 1 + the node that an operator forces to lead: once in a history */
    bool is_lost;           /* … and it has led: what it lacked is lost */
    bool is_exchanged;
    bool is_wrong; /* the wrong assertion was made */
    bool is_record_lost;
    /* The coordinator's past (past.h) */
    uint64_t kept_version; /* of the copy that somebody has made; 0: none */
    struct pair_record kept;
    bool is_rolled;
    bool is_behind; /* … to an earlier epoch, and nobody has written it again */
};

enum action {
    ACT_START,
    ACT_CRASH_KEPT, /* what was written and not synced is there afterwards */
    ACT_CRASH_LOST,
    ACT_APPEND,
    ACT_SYNC,
    ACT_TAKE,      /* the question, and it is gone */
    ACT_TAKE_TWIN, /* the question, and it stays: doubled, or never lost */
    ACT_TAKE_NEAR, /* as ACT_TAKE_TWIN; the requester lacks little */
    ACT_TAKE_ANSWER,
    ACT_TAKE_ANSWER_TWIN,
    ACT_WRITE_STATE,
    ACT_COORDINATOR,  /* does what was asked */
    ACT_LAG,          /* … but it answers a read with the record before the last change */
    ACT_HEAR,         /* its answer arrives */
    ACT_HEAR_PRESENT, /* … and says that the leader is present */
    ACT_LOSE_ANSWER,
    ACT_GHOST,
    ACT_SILENT,
    ACT_GONE, /* … and the other's process is not there any more */
    ACT_QUESTION,
    ACT_REPLY,
    ACT_WATCH, /* the coordinator says that the record has changed */
    ACT_SOLO,  /* an operator's words */
    ACT_ASSERT,
    ACT_FORCE,
    ACT_HAND_OVER,
    ACT_PROMOTE,
    ACT_YIELD,
    ACT_WRONG,      /* … and one that is not true */
    ACT_UNANSWERED, /* the question that a word waits for is given up */
    ACT_EXCHANGE,   /* an operator puts an empty disk in */
    ACT_LOSE,       /* the coordinator loses the record, and what was under way to it */
    ACT_KEEP,       /* somebody makes a copy of the coordinator */
    ACT_ROLL,       /* … and puts its server back to it */
    ACT_PUT_BACK,   /* … or writes the record that is in it over the present one */
    ACT_WRITE,      /* an operator has the record written again by who leads, which then starts again */
    ACTIONS
};
extern const char *const action_names[ACTIONS];

void pair_world_begin(struct pair_world *world, const struct pair_limits *limits);
/* Does the action at the node if it is possible now. False: it is not. A broken promise is in pair_world_broken. */
bool pair_world_act(struct pair_world *world, int node, enum action action);
/* What was broken by the last action; NULL: nothing. */
extern const char *pair_world_broken;
/* Within the limits? */
bool pair_world_is_inside(const struct pair_world *world);
/* The same for states that differ in nothing that matters: counters become ranks. */
uint64_t pair_world_hash(const struct pair_world *world);
/* One leader, the other in sync, both logs the same, nothing under way. After a wrong assertion both may have served
 * alone; then one leads at most, and the other waits for an operator. */
bool pair_world_is_settled(const struct pair_world *world);

#endif
