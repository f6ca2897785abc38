/* pair_world.h: two nodes that run broker/pair, their logs, a coordinator and a network, as one plain state. The state
 * is small enough to explore all of its futures (explore.c).
 *
 * A log is a string of epochs: frame i was written in epoch log[i]. Epoch and position identify a frame, because an
 * epoch has one leader. A process may die at any moment; its unsynced frames may be lost. A message may be lost,
 * doubled or late; a newer message may replace it. The coordinator may carry out a compare-and-set long after its
 * sender died. Its reply may be lost.
 *
 * Without a coordinator an operator may assert at any moment that the other node is stopped and has not served alone
 * since it stopped following. If this is true, the model accepts the assertion. An operator may force a node to lead
 * once; frames lost by that do not count as missing. */
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
    bool by_operator; /* true: no coordinator, an operator decides */
    bool async;
    bool hand;           /* true: planned switch-overs happen */
    bool lag;            /* true: reads of the record may return an older record */
    bool silent_clients; /* true: clients send no queries (R3) */
    bool force;          /* true: one forced promotion may happen */
    bool lose;           /* true: the coordinator may lose the record once (F-31b) */
    bool roll;           /* true: the record may be set back once to any kept copy (F-31b, past.h) */
    /* True: a node that hears nothing asks for the leader's presence; false: presence is not used (F-31c). */
    bool presence;
    bool exchange; /* true (only with by_operator): one node may get an empty disk (F-29) */
    bool wrong; /* true (only with by_operator): the operator may assert something false once; frames that this loses do
                   not count as missing */
};

struct model_log {
    uint8_t epochs[LOG_MAX];
    uint8_t end;     /* number of frames of this log */
    uint8_t durable; /* number of its durable frames */
};

struct model_message { /* a message under way to a node */
    bool is_there;
    struct pair_message message;
    struct model_log log; /* kind FOLLOW: the requester's log; kind FRAMES: the leader's log, whose frames after
                             position `from` are sent */
    uint8_t from;
    uint8_t disk; /* number of the sender's disk */
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
    struct pair_hard_state hard_state; /* the durable hard state */
    uint8_t disk;                      /* number of the disk: 0, or 1 after the exchange */
    uint8_t peer;                      /* durable: number of the other node's disk, as this node last knew it */
    uint8_t leader;                    /* number of the disk from which the last answer came */
    struct model_log log;
    uint64_t runs;
    /* Latest epoch that the node has led or durably promised; its hard state should have it (past.h). */
    uint32_t known;
    bool asks_presence; /* the read in flight also asks for the presence of the leader */
    /* True: this run has seen a newer record than the restored one, so its coordinator client trusts no older one. */
    bool remembers;
    /* Request at the coordinator. */
    enum operation_state operation;
    bool is_swap;
    struct model_swap swap; /* the compare-and-set that the request asks for, if `is_swap` */
    struct pair_event answer;
    struct model_swap ghost; /* a compare-and-set whose sender no longer waits; it may still be carried out */
    /* True: a query, which appends nothing, waits at this node as the leader. */
    bool asked;
    uint64_t question;
    uint32_t served_before; /* latest epoch that had served any client when the query arrived */
};

struct pair_world {
    struct model_node nodes[NODES];
    /* Messages in flight. Element i is the message to node i. */
    struct model_message questions[NODES], answers[NODES];
    uint64_t version; /* version of the coordinator's record; 0: the record does not exist yet */
    struct pair_record record;
    struct pair_limits limits;
    uint64_t old_version; /* version and record before the last change */
    struct pair_record old_record;
    struct model_log acked; /* frames that were acknowledged to some client: they must never be missing */
    uint32_t served;        /* latest epoch that has served any client */
    uint32_t led;           /* bit set of epochs that a node has led */
    bool was_in_sync;       /* true (only with by_operator): the pair has been in sync */
    uint8_t forced; /* number of the node that an operator has forced to lead, plus 1; 0: none; once in a history */
    bool is_lost;   /* true: the forced node has led, so frames that it lacked are lost */
    bool is_exchanged;
    bool is_wrong; /* the operator has made the false assertion */
    bool is_record_lost;
    /* Earlier states of the coordinator (past.h). */
    uint64_t kept_version; /* version of the kept copy; 0: none */
    struct pair_record kept;
    bool is_rolled;
    bool is_behind; /* true: the record was set back to an earlier epoch, and not written again since */
};

enum action {
    ACT_START,
    ACT_CRASH_KEPT, /* the node crashes, and its unsynced frames survive */
    ACT_CRASH_LOST,
    ACT_APPEND,
    ACT_SYNC,
    ACT_TAKE,      /* the node receives the question; the network no longer has it */
    ACT_TAKE_TWIN, /* the node takes the question, which also stays, because it was doubled */
    ACT_TAKE_NEAR, /* the node receives the question; the network keeps a copy (a doubled message) */
    ACT_TAKE_ANSWER,
    ACT_TAKE_ANSWER_TWIN,
    ACT_WRITE_STATE,
    ACT_COORDINATOR,  /* the coordinator carries out the request */
    ACT_LAG,          /* the coordinator answers a read with the record before the last change */
    ACT_HEAR,         /* the coordinator's answer arrives */
    ACT_HEAR_PRESENT, /* the answer arrives and says that the leader is present */
    ACT_LOSE_ANSWER,
    ACT_GHOST,
    ACT_SILENT,
    ACT_GONE, /* the other node is silent, and its process is gone */
    ACT_QUESTION,
    ACT_REPLY,
    ACT_WATCH, /* the coordinator reports a changed record */
    ACT_SOLO,  /* the actions of an operator begin here */
    ACT_ASSERT,
    ACT_FORCE,
    ACT_HAND_OVER,
    ACT_PROMOTE,
    ACT_YIELD,
    ACT_WRONG,      /* the operator makes a false assertion */
    ACT_UNANSWERED, /* the question that an operator's command sent to the other node times out */
    ACT_EXCHANGE,   /* an operator gives the node an empty disk */
    ACT_LOSE,       /* the coordinator loses the record and all requests in flight */
    ACT_KEEP,       /* an operator copies the coordinator's data */
    ACT_ROLL,       /* the coordinator's server is set back to the copy */
    ACT_PUT_BACK,   /* a client writes the copied record over the current one */
    ACT_WRITE,      /* an operator has the leader write the record again; the leader then restarts */
    ACTIONS
};
extern const char *const action_names[ACTIONS];

void pair_world_begin(struct pair_world *world, const struct pair_limits *limits);
/* Does the action at the node. Returns false if it is not possible now. If it breaks a promise, pair_world_broken names
 * the promise. */
bool pair_world_act(struct pair_world *world, int node, enum action action);
/* Name of the promise that the last action broke; NULL: none. */
extern const char *pair_world_broken;
/* Returns whether the state is within the limits. */
bool pair_world_is_inside(const struct pair_world *world);
/* Returns the hash of the canonical state: equal for states that differ only in irrelevant details. */
uint64_t pair_world_hash(const struct pair_world *world);
/* Returns whether one node leads, the other is in sync, both logs are equal, and nothing is in flight. After a wrong
 * assertion both nodes may have served alone; then at most one leads, and the other waits for an operator. */
bool pair_world_is_settled(const struct pair_world *world);

#endif
