/* node.h: a host as one of a pair: the real rules (broker/pair), driven in one thread as broker/shell/pair drives them.
 *
 *     registrar ◄─► record_client ─┐                     ┌── questions: appended, synced, told (R2), applied once
 *     the other's questions ───────┼─► struct pair ──────┤   committed
 *     batches, durable here ───────┘   (real)            └── leading: let out once committed, and confirmed (R3)
 *
 * node.c is shell/pair/node.c, node_lead.c is node_leader.c, node_follow.c is node_follower.c and what the core's loop
 * does of it, node_snapshot.c is snapshot.c. What a thread of its own does there happens here a moment later, in an
 * order that the seed draws; while the log is synced by the follower, the rules hear of nothing, as there. The rig
 * compares digests at every frame; what the two tell each other of them must never differ (F-31).
 *
 * All of it is for the host that it is (world->host). */
#ifndef TARRY_TESTS_SIM_NODE_H
#define TARRY_TESTS_SIM_NODE_H

#include "alone.h"
#include "digests.h"
#include "follower_half.h"
#include "freshness.h"
#include "hard_state.h"
#include "host.h"
#include "leader_clock.h"
#include "leader_half.h"
#include "log_serve.h"
#include "pair.h"
#include "record_client.h"
#include "record_reads.h"
#include "silence.h"
#include "summons.h"
#include "timeline.h"

struct node_message { /* a question or its answer, on the link between the two */
    uint32_t from;
    uint64_t life; /* of who asked */
    uint64_t number;
    Tarry__Follow question;
    Tarry__FollowReply answer;
    bool is_early;                   /* a refusal that may end */
    uint64_t asked_ns;               /* BOOTTIME of who asked */
    size_t acknowledged;             /* how many frames were, by then (truth.h) */
    size_t covered;                  /* how many of the answering node's frames lie below answer.known */
    const struct frame_note *frames; /* what only the rig knows of the answer's frames */
    size_t frame_count;
};

struct node_item { /* for the pair's thread */
    void (*run)(struct world *world, void *argument);
    void *argument;
    uint64_t life;
    struct node_item *next;
};

/* The last words of its leader's, and how much was acknowledged when it asked for each. */
#define NODE_WORDS 64u
struct node_word {
    uint64_t asked_ns;
    size_t acknowledged;
};

struct node_leading {
    struct leader_half half; /* `held` is a node_message */
    struct batch *incoming;  /* durable, the pair's thread has not looked yet; oldest first */
    uint64_t left_ns;        /* when something was let out last */
    const uint8_t *requester;
};

struct node_following {
    struct follower_half half;
    uint64_t number;              /* of the newest question */
    uint64_t probe;               /* the number of the newest */
    uint64_t probed_ns, heard_ns; /* laws: when it was sent; when the leader was heard, or its time began */
    struct leader_clock clock;
    uint8_t leader[MEMBER_ID_SIZE];
    struct freshness fresh;
    struct node_word words[NODE_WORDS]; /* laws: the newest ones */
    size_t word_next;
};

struct node {
    /* What outlives the process. */
    struct model_disk *pair_disk; /* the hard state, the quarantine */
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t member[MEMBER_ID_SIZE];
    bool joins;      /* --follow */
    bool may_refuse; /* a story, or a fault, wants that */
    uint64_t cuts;   /* counted, like those that follow */
    uint64_t deposed;
    uint64_t promoted;
    uint64_t snapshots;

    /* Between two lives. */
    bool fetching;        /* its start waits for a snapshot … */
    bool fetched;         /* … and would go on now */
    uint64_t fetch;       /* which one; what belongs to an earlier one is void */
    uint64_t source_life; /* of the other, which it is of */

    /* Of a life. */
    struct hard_state hard_state;
    struct pair pair;
    struct record_client record_client;
    uint64_t words;      /* number of an operator's commands that the node has taken */
    uint64_t words_told; /* number of commands given to it; a paused node takes them later */
    const char *said;    /* by the rules, last */
    struct alone alone;  /* does it serve alone, … */
    struct record_reads reads;
    struct digests digests;
    struct silence silence; /* of the other node */
    struct summons summons;
    uint64_t overslept_ns; /* when it last had */
    uint64_t handed_ns;    /* when it was last handing over */
    uint64_t alarm_ns;
    struct node_item *items, **items_last;
    struct node_leading leading;
    struct node_following following;
    uint64_t committed;
    uint64_t may_index;
    uint64_t claimed;           /* log_claim */
    struct log_cursor *applier; /* NULL: the core decides */
    bool may_apply;             /* the core's turn came for that */

    bool is_new;  /* the directory was never one of a pair */
    bool ended;   /* the process is about to start again */
    bool blocked; /* by a sync */
    bool writes;  /* the log is this node's to write */
    bool leads;   /* the core decides */
    bool paused;  /* … but hands over */
    bool applying;
};

/* Before its first start. `joins`: it follows, with an empty directory. */
void node_make(struct world *world, bool joins);
void node_wipe(struct world *world); /* a new, empty disk; while it is down */
void node_unmake(struct world *world);
/* ---- node_laws.c */
struct core_reply;
/* The leader's word came. TRUE-1: what it says to be acknowledged is all that was, when it was asked. */
void node_take_word(struct world *world, const struct node_message *message);
/* How many frames had been acknowledged when the leader was asked for the word that this node proves its age by, now.
 */
size_t node_proved(struct world *world);
/* TRUE-1: a follower's answer is no older than it could prove, nor than a position that it lets pass. `known`: so many
 * frames had been acknowledged when the question came; `proved`: node_proved of then, as tarryd judges a question
 * before the core reads: what is applied and heard until the answer leaves says nothing of it. */
void node_check_fresh(struct world *world, const struct core_reply *reply, size_t known, size_t proved);
/* ---- from host*.c */
/* Recovery is over and the core follows. False: refused, the host has a sentence. */
bool node_start(struct world *world);
/* Before recovery. False: it needs a snapshot, which is being fetched; who starts it again later lets it go on. */
bool node_has_snapshot(struct world *world);
/* The process ends before it has one. */
void node_stop_fetching(struct node *node);
void node_end(struct world *world);
/* OK, or why a request is refused. */
Tarry__Code node_admits(const struct node *node, const Tarry__Request *request);
void node_written(struct world *world, uint64_t position);
/* Takes the batches over. */
void node_durable(struct world *world, struct batch *batches);
/* In the core's turn: what is committed is applied, if its time has come; nothing is any more, for this node leads; all
 * that it decided before it paused is committed. */
void node_apply(struct world *world);
void node_lead(struct world *world);
void node_paused(struct world *world, uint64_t position);
void node_apply_later(struct world *world);
/* ---- scripted */
void node_word(struct world *world, enum pair_word word);
/* The same from outside, to that node. */
void node_tell(struct world *world, uint32_t node, enum pair_word word);
/* ---- laws */
/* Whoever the pair takes for in sync has all that was acknowledged. */
void node_check_members(struct world *world);
/* This node is about to take over from the other. */
void node_check_claim(const struct world *world);
bool node_is_leading(const struct host *host);
/* ---- between node*.c */
void node_post(struct world *world, void (*run)(struct world *world, void *argument), void *argument);
void node_step(struct world *world, const struct pair_event *event, struct pair_message *out_answer);
/* node_silence.c */
void node_heard(struct world *world);
void node_check_silence(struct world *world);
void node_check_sleep(struct world *world);
void node_declare(struct world *world);
void node_read_record(struct world *world);
void node_take_presence(struct world *world, struct pair_event *event);
uint64_t node_silence_timer(const struct world *world);
void follow_probed(struct world *world, void *message);
/* This node's process was killed, and its host runs on: the other one hears of it, if it can. */
void node_is_gone(struct world *world);
void node_refuse(struct world *world, const char *sentence);
void node_wake(struct world *world); /* arms the next alarm */
void node_unblock(struct world *world);
/* exec: this life ends, and the next one begins at once. */
void node_run_again(struct world *world);
void node_hard_state_write(struct world *world);
/* node_lead.c */
void lead_begin(struct world *world);
void lead_question(struct world *world, void *message);
void lead_forget_question(struct world *world);
void lead_go_on(struct world *world);
void lead_give_up(struct world *world);
/* The log says whether this node serves alone, once its core decides. */
void lead_record_alone(struct world *world);
void lead_end(struct world *world);
void lead_take_batches(struct world *world, void *nothing);
void lead_pause_core(struct world *world); /* … or let it go on: node->paused says */
/* node_follow.c */
void follow_ask(struct world *world, const struct pair_message *question);
void follow_check(struct world *world);
void follow_probe(struct world *world);
/* It stops in order, and says goodbye; nobody waits for it here: what it says may be lost, or come late. */
void follow_leave(struct world *world);
void follow_answered(struct world *world, void *message);
void follow_cut(struct world *world, uint64_t end);
void follow_take_clock(struct world *world);
/* node_snapshot.c */
void follow_fetch(struct world *world, uint64_t end);

#endif
