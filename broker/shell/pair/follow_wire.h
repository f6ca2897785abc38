/* follow_wire.h: what the two nodes say to each other, between the wire's words (tarry.proto, Follow) and the rules'
 * (pair.h). Pure but for what follow_wire_compare reads of the log, so that the simulator speaks with the same words.
 *
 * Thread-safety: none needed; nothing is kept. What comes from the wire has been checked (request.c, check_follow). */
#ifndef TARRY_SHELL_PAIR_FOLLOW_WIRE_H
#define TARRY_SHELL_PAIR_FOLLOW_WIRE_H

#include <stdint.h>

#include "hard_state.h"
#include "log.h"
#include "pair.h"
#include "tarry.pb-c.h"

/* Of a question, what the rules say. Its end goes with a chain's hash, and is the caller's to tell. */
void follow_wire_ask(const struct pair_message *question, Tarry__Follow *out);
/* `hard_state`: of the node that is asked or answered; it knows the other's disk. */
struct pair_message follow_wire_asked(const Tarry__Follow *follow, const struct hard_state *hard_state);

/* Of an answer without frames. */
void follow_wire_answer(const struct pair_message *answer, Tarry__FollowReply *out);
/* `body` has one of the verdicts that are the rules': all but JOIN and REFUSED. */
struct pair_message follow_wire_answered(const Tarry__FollowReply *body, const struct hard_state *hard_state);

/* How the requester's log and this one agree (R8): `fits`; or by their epochs (KIP-101) up to where they may be the
 * same, `end`; or `retired`, and this one begins at `end`. 0, or the log's error. */
int follow_wire_compare(struct log *log, const Tarry__Follow *follow, struct pair_event *event);
/* Of an answer that says where to cut: what this log's chain is there, if the epoch is one that both have. `chain` is
 * the caller's, and `body` points to it. 0, or the log's error. */
int follow_wire_tell_chain(struct log *log, const Tarry__Follow *follow, uint8_t chain[FRAME_CHAIN_SIZE],
                           Tarry__FollowReply *body);
/* … and whether the requester's is another one: then the two differ within an epoch (F-31d). */
bool follow_wire_differs(struct log *log, const Tarry__FollowReply *body);

#endif
