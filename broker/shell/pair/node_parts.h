/* node_parts.h: internal functions that the files of the pair thread (node*.c) call in one another. */
#ifndef TARRY_SHELL_PAIR_NODE_PARTS_H
#define TARRY_SHELL_PAIR_NODE_PARTS_H

#include "node.h"

/* ---- node_follower.c: the pair thread while its node follows. It asks the leader, appends and syncs the frames, and
 * lets the core apply committed frames.
 *
 * A follower is a recovery that does not end: first the log, then the index up to the known commits (LOG-3), then the
 * core. Each answer brings the leader's logical time, so that delays continue from there if this node leads (TIME-1).
 */

void follower_init(struct node *node);
/* Sends the question that the rules have chosen. */
void follower_ask(struct node *node, const struct pair_message *question);
/* Announces this process's stop in a last question. Returns false, and sends nothing, if this node follows no leader.
 */
bool follower_leave(struct node *node);
/* Sends a probe to the leader, beside the question that is under way. */
void follower_probe(struct node *node);
/* Returns the epoch of the leader that answered the probe and proved that it has the peer key; 0: no such leader. */
uint32_t follower_probed(struct node *node, struct message *answer);
/* Handles an answer, and takes it over; NULL: no answer came. */
void follower_answered(struct node *node, struct message *answer);
/* Quarantines the log behind `end` and cuts it there (R8). Returns false if that is not possible now; follower_check
 * then tries again. */
bool follower_cut(struct node *node, uint64_t end);
/* Gives up the local log: quarantines it behind `end`. The next run begins with a snapshot of the leader. */
_Noreturn void follower_fetch(struct node *node, uint64_t end);
/* Asks again if the last question failed, and retries a cut that was not possible. */
void follower_check(struct node *node, uint64_t now_ns);
/* Ends the questions, because this node is to lead; sets the clock from the leader's last reported time. */
void follower_end(struct node *node);

/* ---- node_leader.c: the pair thread while its node leads. It answers the follower's questions, and releases replies
 * that are committed and confirmed (R3). leader_half.h and admission.h (broker/replication) decide; this file has the
 * threads, the log and the calls. */

void leader_init(struct node *node);
/* Begins to lead, as the rules command: the core applies the rest of the log and then decides. */
void leader_begin(struct node *node);
/* Handles that the core has begun to lead. */
void leader_began(struct node *node);
/* Handles what the sync thread has posted. */
void leader_take(struct node *node, const struct node_news *news);
/* Takes questions about the log (a list), and passes them on when the follower has confirmed. */
void leader_take_audits(struct node *node, struct item *audits);
/* Handles a follower's question, in any role. Takes the call over. */
void leader_question(struct node *node, struct call *call);
/* Drops the waiting question, so that its answer does not count as an answer to a newer question. */
void leader_forget_question(struct node *node);
/* Publishes new commits, answers a question that need not wait longer, and releases batches. */
void leader_go_on(struct node *node);
/* Treats the follower as silent, because the leader waits for it but it stores nothing, although it sends questions
 * (F-28). */
void leader_give_up(struct node *node);
/* Answers all waiting requests, as the process stops: their outcome is unknown. */
void leader_stop(struct node *node);

/* ---- node_record.c: an operator reads the coordinator's record, or has it written again after it was lost or replaced
 * by an older one (F-31b). The node's own coordinator client believes no older record, and may not answer for seconds.
 * So this operation has its own thread and client for its duration.
 *
 * The node that leads writes what it knows. A node that does not lead writes its own state, if the operator asserts
 * that the other is stopped and has no more. Then this node starts again and claims by the rules. The operator must
 * start the other node again, because its coordinator client, too, believes no older record. */

struct record_word;

/* Takes over a Pair request that reads or writes the coordinator's record. Pair thread. */
void record_word_take(struct node *node, struct call *call);
/* Waits until the operation that record_word_take started has ended, at most two calls to the coordinator. Any thread;
 * record_word_take must not be called later. */
void record_word_join(struct node *node);

#endif
