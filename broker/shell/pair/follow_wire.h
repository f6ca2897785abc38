/* follow_wire.h: what the two nodes say to each other, between the wire's words (tarry.proto, Follow) and the rules'
 * (pair.h). Pure but for what follow_wire_common reads of the log, so that the simulator speaks with the same words.
 *
 * Thread-safety: none needed; nothing is kept. What comes from the wire has been checked (request.c, check_follow). */
#ifndef TARRY_SHELL_PAIR_FOLLOW_WIRE_H
#define TARRY_SHELL_PAIR_FOLLOW_WIRE_H

#include <stdint.h>

#include "log.h"
#include "pair.h"
#include "tarry.pb-c.h"

/* Of a question, what the rules say. Its end goes with a chain's hash, and is the caller's to tell. */
void follow_wire_ask(const struct pair_message *question, Tarry__Follow *out);
struct pair_message follow_wire_asked(const Tarry__Follow *follow);

/* Of an answer without frames. */
void follow_wire_answer(const struct pair_message *answer, Tarry__FollowReply *out);
/* `body` has one of the verdicts that are the rules': FRAMES, PROMISE, CUT_TO, NOT_LEADING, TAKE_OVER. */
struct pair_message follow_wire_answered(const Tarry__FollowReply *body);

/* Up to where the asker's log and this one may be the same, by their epochs (R8, KIP-101). 0, or log_epochs_read's
 * error. */
int follow_wire_common(struct log *log, const Tarry__Follow *follow, uint64_t *out_position);

#endif
