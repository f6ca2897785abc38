/* leader_half.h: the decisions of a leader that the rules (broker/pair) do not make. It keeps the state of the
 * follower. It decides when the leader answers the follower's question, and which part of the log is kept for the
 * follower. It also decides when the leader gives up a follower that stores nothing.
 *
 * For a question the caller calls admission_of, leader_half_hear, pair_step and leader_half_take. The question is then
 * answered, or waits. In each turn the caller first releases replies, and then calls leader_half_released and
 * leader_half_must_answer. If the waiting question must be answered, the caller passes it to pair_step again, and sends
 * frames.
 *
 * A follower's question acknowledges frames at once. Its answer waits until the log has new frames, a further position
 * is committed, a client's request needs a confirmation, or the hold time is over. pair_step gets the same question
 * again when it is answered. So the answer's number (`stamp`) is newer than all requests that arrived meanwhile.
 *
 * Pure: no thread, no clock, no I/O. Times are MONOTONIC nanoseconds of the node, positions are those of its log.
 * broker/shell/pair/node_leader.c and tests/sim/node_lead.c carry out these decisions. */
#ifndef TARRY_REPLICATION_LEADER_HALF_H
#define TARRY_REPLICATION_LEADER_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "hung_disk.h"
#include "pair.h"
#include "pair_times.h"
#include "tarry.pb-c.h"

/* A write that has waited this long proves that the disk hangs (F-31a); hung_disk.h measures the wait. */
#define LEADER_DISK_HUNG_MS 1500u
/* A follower must repeat each sync of its leader that it lacks (LOG-5). As soon as the leader waits for the follower,
 * all requests wait for these syncs. So the leader begins to wait only when the follower lacks at most
 * LEADER_NEAR_SYNCS syncs. This limit doubles every LEADER_NEAR_PATIENCE_MS, because under load the follower may never
 * catch up further. When the limit exceeds LEADER_SYNCS_KNOWN, only FOLLOW_NEAR_BYTES limits what the follower may lack
 * (R5). */
#define LEADER_NEAR_SYNCS 4u
#define LEADER_NEAR_PATIENCE_MS 500u
#define LEADER_SYNCS_KNOWN 128u

struct leader_half {
    struct pair_times times;
    bool began;                         /* the core has begun to lead */
    uint64_t written;                   /* the end of the log, durable or not; set by leader_half_written */
    uint64_t syncs[LEADER_SYNCS_KNOWN]; /* end of the log at each of the newest syncs, a ring */
    uint64_t sync_next;                 /* number of syncs since the epoch began */
    uint64_t syncs_from;                /* the syncs below this log position are no longer in `syncs` */

    /* the follower */
    uint64_t follower_end; /* durable end of the follower's log, from its newest question; 0: no question has arrived */
    uint64_t asked_ns;     /* when the follower's newest question arrived */
    uint64_t grown_ns;     /* when follower_end last grew, or when leader_half_overslept was called; 0: never */
    uint64_t stuck_end; /* value of follower_end when the leader gave up the follower because it stored nothing (F-28);
                           0: not given up */
    uint64_t chased_ns; /* since when the follower lacks at most FOLLOW_NEAR_BYTES, but more syncs than the leader
                           accepts; 0: it lacks more bytes, or few syncs */
    uint64_t kept_from; /* the follower still needs the log from this position on; UINT64_MAX: it needs none */
    uint64_t kept_ns;   /* when kept_from was last confirmed */

    /* the follower's newest question, while it waits for its answer */
    void *held; /* the caller's data of the waiting question; NULL: none. leader_half_release takes it */
    uint64_t held_end, held_stamp;
    uint64_t held_ns;  /* when the question arrived */
    uint64_t until_ns; /* when the question must be answered */
    uint64_t wake_ns;  /* when to call leader_half_must_answer again; UINT64_MAX: at the next event */
    uint64_t told;     /* committed position that the follower was last told */

    struct hung_disk disk;

    /* replies that are durable here and not sent yet */
    uint64_t waits_since_ns; /* since when replies wait and none was sent; UINT64_MAX: none waits */
    struct waited leaves;    /* time that replies have waited, except time in which this process was stopped */
    uint64_t stalled_ns;     /* when the wait of replies became too long; 0: it is not too long */
};

void leader_half_init(struct leader_half *half, const struct pair_times *times);
/* Handles PAIR_LEAD: begins to lead with a log that ends at `end`. */
void leader_half_begin(struct leader_half *half, uint64_t end);
/* Notes that the log now ends at `end`; one sync makes the new part durable. */
void leader_half_written(struct leader_half *half, uint64_t end);

/* ---- a question that the rules answer (ADMISSION_RULES) */
/* Notes what a question says about the follower's log. Called in any role. */
void leader_half_hear(struct leader_half *half, const struct pair *pair, const Tarry__Follow *follow, uint64_t now_ns);
/* Returns whether the requester's log must be compared with this node's before PAIR_ASKED. */
bool leader_half_compares(const struct pair *pair);
/* Returns whether the follower lacks so little that it may count (R5), and has stored something since it was given up
 * (F-28). */
bool leader_half_is_near(struct leader_half *half, uint64_t follower_end, uint64_t now_ns);
/* Takes the rules' answer to a question. Returns true if the question now waits, as `held`; an earlier one must have
 * been released. Returns false if it must be answered now. `committed` is the position that the answer may report. */
bool leader_half_take(struct leader_half *half, const Tarry__Follow *follow, void *held,
                      const struct pair_message *answer, uint64_t committed, uint64_t now_ns);
/* Returns the waiting question, for the caller to answer it; NULL: there is none. */
void *leader_half_release(struct leader_half *half);

/* ---- each turn */
/* Checks the disk. Call it first in each turn. `since_ns` is when the oldest write that is not synced yet began; 0:
 * none waits. */
void leader_half_look_at_disk(struct leader_half *half, uint64_t since_ns, uint64_t now_ns);
/* Notes that the leader has sent the replies that it may send now. `has_left`: at least one was sent; `waits`: replies
 * are left that wait for the follower. */
void leader_half_released(struct leader_half *half, bool has_left, bool waits, uint64_t now_ns);
/* Checks whether replies wait too long. Returns true if stalled_ns has changed. */
bool leader_half_look(struct leader_half *half, uint64_t now_ns);
/* Returns whether to answer the waiting question now. `wants_word`: a client's request waits until the follower
 * confirms an answer. */
bool leader_half_must_answer(struct leader_half *half, const struct pair *pair, bool wants_word, uint64_t now_ns);
/* F-31a: returns whether this disk hangs and the follower, which has all acknowledged commits, should lead. */
bool leader_half_is_hung(const struct leader_half *half, const struct pair *pair);
/* Completes the rules' answer before it is sent; may change `answer`. */
void leader_half_answer(struct leader_half *half, const struct pair *pair, struct pair_message *answer);
/* Returns whether this node must tell the coordinator that it is present as the leader. It stops doing so while its
 * disk hangs, so that the other node may take over. */
bool leader_half_declares(const struct leader_half *half, const struct pair *pair);
/* Returns, for a leader, a position above all commits acknowledged until now, in this epoch and earlier ones; otherwise
 * 0. */
uint64_t leader_half_known(const struct pair *pair);
/* Returns when the next turn is due. */
uint64_t leader_half_timer(const struct leader_half *half);

/* ---- the log that the follower needs */
void leader_half_keep(struct leader_half *half, uint64_t from, uint64_t now_ns);
/* Stops keeping the log for a follower that has been away too long. `is_copied`: a backup or snapshot is being copied;
 * the time away then starts again at 0, because the follower asks for frames only when it has the copy. */
void leader_half_forget_needs(struct leader_half *half, bool is_copied, uint64_t now_ns);

/* ---- a follower that counts, asks, and stores nothing (F-28): its disk is full, or it starts again and again */
/* Returns when a follower that asks but stores nothing is given up as if it were silent; UINT64_MAX: never. */
uint64_t leader_half_stuck_ns(const struct leader_half *half, const struct pair *pair);
/* Gives up the follower. Returns true if it lacks frames, and was not given up at this position before. */
bool leader_half_give_up(struct leader_half *half);
/* Restarts the time after which a follower that stores nothing is given up. Call it when this process was stopped for a
 * while, because it did not read the follower's messages meanwhile. */
void leader_half_overslept(struct leader_half *half, uint64_t now_ns);

#endif
