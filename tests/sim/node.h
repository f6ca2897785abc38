/* node.h: a host as one node of a pair. The real rules (broker/pair) run in one thread, driven as broker/shell/pair
 * drives them.
 *
 *     registrar ◄─► record_client ─┐                     ┌── questions: appended, synced, told (R2), applied once
 *     the other's questions ───────┼─► struct pair ──────┤   committed
 *     batches, durable here ───────┘   (real)            └── leading: let out once committed, and confirmed (R3)
 *
 * The pair's rules (struct pair) get events from the left, and decide what is done on the right.
 *
 * node.c simulates shell/pair/node.c; node_lead.c simulates node_leader.c; node_follow.c simulates node_follower.c
 * and the core loop's part in it; node_snapshot.c simulates snapshot.c. The work of other threads happens a moment
 * later, in an order that the seed draws. While the follower syncs its log, the rules get no events, as in the
 * product. The rig compares digests at every frame; the digests that the nodes send each other must never differ
 * (F-31).
 *
 * All functions act on the current host (world->host). */
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

struct node_message { /* a question or an answer that one node sends to the other */
    uint32_t from;
    uint64_t life; /* number of the asking node's life */
    uint64_t number;
    Tarry__Follow question;
    Tarry__FollowReply answer;
    bool is_early;       /* true: the refusal is temporary */
    uint64_t asked_ns;   /* BOOTTIME of the asking node when it sent the question */
    size_t acknowledged; /* number of frames that were acknowledged when the question was sent (truth.h) */
    size_t covered;      /* number of the answering node's frames that end at or below log position answer.known */
    const struct frame_note *frames; /* notes about the frames in the answer (host.h) */
    size_t frame_count;
};

struct node_item { /* an item in the queue of the pair's thread */
    void (*run)(struct world *world, void *argument);
    void *argument;
    uint64_t life;
    struct node_item *next;
};

/* Note of one of the leader's latest replies: the time of the question, and the number of frames acknowledged at that
 * time. */
#define NODE_WORDS 64u
struct node_word {
    uint64_t asked_ns;
    size_t acknowledged;
};

struct node_leading {
    struct leader_half half; /* the product's code that decides for a leader; a held question is a node_message */
    struct batch *incoming;  /* durable batches, oldest first, that the pair's thread has not handled yet */
    uint64_t left_ns;        /* time at which the last reply or delivery left */
    const uint8_t *requester;
};

struct node_following {
    struct follower_half half;
    uint64_t number;              /* number of the newest question that the node has sent */
    uint64_t probe;               /* number of the newest probe that the node has sent */
    uint64_t probed_ns, heard_ns; /* time of the newest probe; time of the leader's last message, or of the last time at
                                     which the node overslept (for checks) */
    struct leader_clock clock;
    uint8_t leader[MEMBER_ID_SIZE];
    struct freshness fresh;
    struct node_word words[NODE_WORDS]; /* the newest replies of the leader, which only checks read */
    size_t word_next;
};

struct node {
    /* State that survives the process. */
    struct model_disk *pair_disk; /* disk with the files of the hard state and the quarantine */
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t member[MEMBER_ID_SIZE];
    bool joins;      /* true: the node was started with --follow */
    bool may_refuse; /* true: a story or a fault allows node_refuse, which ends the node */
    uint64_t cuts;   /* number of cuts of the log; the following members are counters too */
    uint64_t deposed;
    uint64_t promoted;
    uint64_t snapshots;

    /* State of the node that survives the end of the process, until the next start. */
    bool fetching;        /* true: the start waits for a snapshot */
    bool fetched;         /* true: the snapshot has arrived, so the start can continue */
    uint64_t fetch;       /* number of the present fetch of a snapshot; events of an earlier fetch are ignored */
    uint64_t source_life; /* number of the other node's life in which the fetch began */

    /* State of one life of the node. */
    struct hard_state hard_state;
    struct pair pair;
    struct record_client record_client;
    uint64_t words; /* number of an operator's commands that the node has handled */
    uint64_t
        words_told;   /* number of commands that an operator has given to the node; a paused node handles them later */
    const char *said; /* reason that the pair's rules gave last */
    struct alone alone; /* state of the node's serving alone (F-27) */
    struct record_reads reads;
    struct digests digests;
    struct silence silence; /* state of the check whether the other node is silent */
    struct summons summons;
    uint64_t overslept_ns; /* time at which the node last noticed that its process had been stopped */
    uint64_t handed_ns; /* time at which the node last handed over, or at which its disk last hung; after either event
                           the other node may lead */
    uint64_t alarm_ns;
    struct node_item *items, **items_last;
    struct node_leading leading;
    struct node_following following;
    uint64_t committed;
    uint64_t may_index;
    uint64_t claimed;           /* position up to which the log claims to be durable (log_claim) */
    struct log_cursor *applier; /* cursor that reads the frames to apply; NULL: the core of this node decides */
    bool may_apply;             /* true: in its present turn the core may apply frames */

    bool is_new;  /* true: the directory has never belonged to a pair */
    bool ended;   /* true: the process has ended and is about to start again */
    bool blocked; /* true: the pair's thread waits for a sync */
    bool writes;  /* true: this node may append to the log */
    bool leads;   /* true: the core of this node decides */
    bool paused;  /* true: the core is paused because the node hands over */
    bool applying;
};

/* Creates a node before its first start. `joins`: it has an empty directory and begins as a follower. */
void node_make(struct world *world, bool joins);
void node_wipe(struct world *world); /* gives the node a new, empty disk; the node must be down */
void node_unmake(struct world *world);
/* ---- node_laws.c */
struct core_reply;
/* Stores a reply of the leader. TRUE-1: checks that the reply's log position covers all frames that were acknowledged
 * when the node sent its question. */
void node_take_word(struct world *world, const struct node_message *message);
/* Returns the number of frames that this node's state certainly includes. They were acknowledged when the node sent a
 * question, and the leader's reply to this question has arrived. */
size_t node_proved(struct world *world);
/* TRUE-1: checks two things of a follower's answer. It is as fresh as the follower could prove, and it includes the log
 * position that the question requires. `known`: number of frames acknowledged when the question arrived. `proved`:
 * node_proved at that time. Later replies of the leader do not count, because tarryd decides about a question before
 * the core reads. */
void node_check_fresh(struct world *world, const struct core_reply *reply, size_t known, size_t proved);
/* ---- called by host*.c */
/* Begins to follow, after recovery. Returns false if the node refused; the host has the reason. */
bool node_start(struct world *world);
/* Returns false if the node needs a snapshot. The node then fetches the snapshot and starts again. Call this function
 * before recovery. */
bool node_has_snapshot(struct world *world);
/* Ends the process while it waits for a snapshot. */
void node_stop_fetching(struct node *node);
void node_end(struct world *world);
/* Returns OK if the node handles the request in its present role; otherwise the code of the refusal. */
Tarry__Code node_admits(const struct node *node, const Tarry__Request *request);
void node_written(struct world *world, uint64_t position);
/* Gives the node the batches that have just become durable. */
void node_durable(struct world *world, struct batch *batches);
/* The next three functions are called in the core's turn. node_apply applies committed frames if that is possible now.
 * node_lead stops applying frames, because this node leads. node_paused reports that all decisions before the pause are
 * committed. */
void node_apply(struct world *world);
void node_lead(struct world *world);
void node_paused(struct world *world, uint64_t position);
void node_apply_later(struct world *world);
/* ---- called by stories and faults */
void node_word(struct world *world, enum pair_word word);
/* Gives the command of an operator to the node with the number `node`. */
void node_tell(struct world *world, uint32_t node, enum pair_word word);
/* ---- laws */
/* Checks that every node that the pair counts as in sync has all acknowledged frames. */
void node_check_members(struct world *world);
/* Checks that this node may take over from the other node. */
void node_check_claim(const struct world *world);
/* F-31a: returns whether the node's disk hangs. Time in which its process was stopped does not count (F-13). */
bool node_disk_hangs(const struct world *world);
bool node_is_leading(const struct host *host);
/* ---- between node*.c */
void node_post(struct world *world, void (*run)(struct world *world, void *argument), void *argument);
void node_step(struct world *world, const struct pair_event *event, struct pair_message *out_answer);
/* ---- node_silence.c */
void node_heard(struct world *world);
void node_check_silence(struct world *world);
void node_check_sleep(struct world *world);
void node_declare(struct world *world);
void node_read_record(struct world *world);
void node_take_presence(struct world *world, struct pair_event *event);
uint64_t node_silence_timer(const struct world *world);
void follow_probed(struct world *world, void *message);
/* Is called when this node's process was killed and its host still runs. The other node notices the death if it can
 * reach the host. */
void node_is_gone(struct world *world);
void node_refuse(struct world *world, const char *sentence);
void node_wake(struct world *world); /* schedules the event in which the node next checks its timers */
void node_unblock(struct world *world);
/* Simulates exec: ends this life and begins the next one at once. */
void node_run_again(struct world *world);
void node_hard_state_write(struct world *world);
/* ---- node_lead.c */
void lead_begin(struct world *world);
void lead_question(struct world *world, void *message);
void lead_forget_question(struct world *world);
void lead_go_on(struct world *world);
void lead_give_up(struct world *world);
/* Makes the core record whether this node serves alone, if the log does not say so already. */
void lead_record_alone(struct world *world);
void lead_end(struct world *world);
void lead_take_batches(struct world *world, void *nothing);
void lead_pause_core(struct world *world); /* pauses the core or lets it continue, as node->paused says */
/* ---- node_follow.c */
void follow_ask(struct world *world, const struct pair_message *question);
void follow_check(struct world *world);
void follow_probe(struct world *world);
/* Stops following in an orderly way: sends a goodbye message, which may be lost or late, and does not wait for an
 * answer. */
void follow_leave(struct world *world);
void follow_answered(struct world *world, void *message);
void follow_cut(struct world *world, uint64_t end);
void follow_take_clock(struct world *world);
/* ---- node_snapshot.c */
void follow_fetch(struct world *world, uint64_t end);

#endif
