/* follow_wire.h: translates the messages of the two nodes between the wire (tarry.proto, Follow) and the rules
 * (pair.h). Pure, except that follow_wire_compare reads the log; the simulator uses it, too.
 *
 * Thread-safety: any thread; no state is kept. Messages from the wire have been checked (request.c, check_follow). */
#ifndef TARRY_SHELL_PAIR_FOLLOW_WIRE_H
#define TARRY_SHELL_PAIR_FOLLOW_WIRE_H

#include <stdint.h>

#include "hard_state.h"
#include "log.h"
#include "pair.h"
#include "tarry.pb-c.h"

/* Fills in the question from the rules. The caller then sets the end of its log and the chain's hash in `out`. */
void follow_wire_ask(const struct pair_message *question, Tarry__Follow *out);
/* Returns a question as a message of the rules. `hard_state` is that of the node that received the message; it names
 * the other node's disk. */
struct pair_message follow_wire_asked(const Tarry__Follow *follow, const struct hard_state *hard_state);

/* Fills in an answer without frames. */
void follow_wire_answer(const struct pair_message *answer, Tarry__FollowReply *out);
/* Returns an answer as a message of the rules. `body` must have a verdict of the rules: any verdict but JOIN and
 * REFUSED. */
struct pair_message follow_wire_answered(const Tarry__FollowReply *body, const struct hard_state *hard_state);

/* Compares the requester's log with this log (R8) and sets the result in the event. `fits`: the requester's log is a
 * prefix of this log. Otherwise `end` is the position up to which both logs may be equal, according to their epochs
 * (KIP-101). If this log has retired that part, `retired` is set, and `end` is the position where this log begins.
 * Returns 0, or the log's error. */
int follow_wire_compare(struct log *log, const Tarry__Follow *follow, struct pair_event *event);
/* Adds to a CUT_TO answer the hash of this log's chain at the cut. Adds nothing unless both logs have frames of the
 * cut's epoch. The caller owns `chain`; `body` points to it. Returns 0, or the log's error. */
int follow_wire_tell_chain(struct log *log, const Tarry__Follow *follow, uint8_t chain[FRAME_CHAIN_SIZE],
                           Tarry__FollowReply *body);
/* Returns whether the hash of this log's chain at the cut differs from the hash in the answer: the logs then differ
 * within an epoch (F-31d). */
bool follow_wire_differs(struct log *log, const Tarry__FollowReply *body);

#endif
