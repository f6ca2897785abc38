/* pair_parts.h: internal functions that the files of the pair's state machine call in one another. */
#ifndef TARRY_PAIR_PARTS_H
#define TARRY_PAIR_PARTS_H

#include "pair.h"

/* ---- pair.c */
struct pair_effect *pair_push(struct pair_effects *out, enum pair_effect_kind kind);
void pair_end(struct pair *pair, const char *reason, struct pair_effects *out);
void pair_say(const char *sentence, struct pair_effects *out);
/* Reports `sentence` to the operator (PAIR_SAY), with the other node's `epoch`. */
void pair_say_epoch(const char *sentence, uint32_t epoch, struct pair_effects *out);
/* Starts to make pair->hard_state durable; the event PAIR_STATE_WRITTEN reports the end. */
void pair_write_state(struct pair *pair, struct pair_effects *out);
void pair_read(struct pair *pair, struct pair_effects *out);
void pair_swap(struct pair *pair, enum pair_change change, const struct pair_record *record, struct pair_effects *out);
/* Returns whether the record names this run as the leader of pair->epoch. */
bool pair_is_mine(const struct pair *pair);
void pair_consider(struct pair *pair, struct pair_effects *out);
void pair_claimed(struct pair *pair, struct pair_effects *out);

/* ---- candidacy.c */
void candidacy_begin(struct pair *pair, struct pair_effects *out);
void candidacy_fenced(struct pair *pair, struct pair_effects *out);
/* Like candidacy_begin, but does not check whether this node lacks acknowledged commits (PAIR_FORCE). */
void candidacy_by_force(struct pair *pair, struct pair_effects *out);
void candidacy_record(struct pair *pair, bool is_newer, struct pair_effects *out);

/* ---- operator.c: a pair without a coordinator, and an operator's commands with or without a coordinator */
void operator_propose(struct pair *pair, struct pair_effects *out);
/* Returns the PAIR_PROPOSE that a candidate or a leader sends. */
struct pair_message operator_proposal(const struct pair *pair);
/* Sends a proposal to the other node, because this leader hears nothing from it. */
void operator_claim(struct pair *pair, struct pair_effects *out);
/* Returns whether the other node's hard state, as its question or answer reports it, ends this leader's epoch (R7). */
bool operator_is_deposed(const struct pair *pair, const struct pair_message *other);
/* Carries out the operator's command that waits for the other node. `other` is the answer of a node that does not lead;
 * NULL: no answer came. Refuses the command if `other` says that its node has served alone, unless the command is
 * PAIR_FORCE. */
void operator_go_on(struct pair *pair, const struct pair_message *other, struct pair_effects *out);
/* Refuses the waiting operator's command, because the other node answered and leads `epoch` (0: unknown). */
void operator_refuse(struct pair *pair, uint32_t epoch, struct pair_effects *out);
void operator_assert(struct pair *pair, enum pair_word word, struct pair_effects *out);
void operator_fenced(struct pair *pair, struct pair_effects *out);
void operator_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out);
void operator_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out);
/* Decides whether this node claims the lead, after the other node has answered that it does not lead. */
void operator_met(struct pair *pair, const struct pair_message *other, struct pair_effects *out);
void operator_told(struct pair *pair, enum pair_word word, struct pair_effects *out);

/* ---- handover.c */
void handover_begin(struct pair *pair, struct pair_effects *out);
void handover_stopped(struct pair *pair, uint64_t end, struct pair_effects *out);
/* Returns whether the follower has the whole log, and no more writes can come. */
bool handover_is_ready(const struct pair *pair);
void handover_yield(struct pair *pair, const struct pair_message *proposal, struct pair_effects *out);
void handover_give_up(struct pair *pair, struct pair_effects *out);

/* ---- leading.c */
bool leading_has_member(const struct pair *pair);
void leading_begin(struct pair *pair, struct pair_effects *out);
void leading_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out);
void leading_advance(struct pair *pair, struct pair_effects *out);
void leading_changed(struct pair *pair, struct pair_effects *out);
void leading_record(struct pair *pair, bool is_newer, struct pair_effects *out);
void leading_silent(struct pair *pair, struct pair_effects *out);
void leading_solo(struct pair *pair, struct pair_effects *out);
void leading_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out);

/* ---- following.c */
void following_begin(struct pair *pair, struct pair_effects *out);
void following_ask(struct pair *pair, struct pair_effects *out);
/* Like following_ask, but keeps the serial if the question is unchanged. Without a coordinator, a leader sends its
 * proposal. */
void following_remind(struct pair *pair, struct pair_effects *out);
void following_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out);
void following_durable(struct pair *pair, struct pair_effects *out);
void following_record(struct pair *pair, bool is_leader_present, struct pair_effects *out);
void following_silent(struct pair *pair, bool gone, struct pair_effects *out);

#endif
