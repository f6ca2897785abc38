/* pair_parts.h: what the files of the pair's machine ask of one another. */
#ifndef TARRY_PAIR_PARTS_H
#define TARRY_PAIR_PARTS_H

#include "pair.h"
#include "weak.h"

/* ---- pair.c */
struct pair_effect *pair_push(struct pair_effects *out, enum pair_effect_kind kind);
void pair_end(struct pair *pair, const char *reason, struct pair_effects *out);
void pair_say(const char *sentence, struct pair_effects *out);
/* … of the other node's `epoch`. */
void pair_say_epoch(const char *sentence, uint32_t epoch, struct pair_effects *out);
/* Makes pair->hard_state durable: PAIR_STATE_WRITTEN. */
void pair_write_state(struct pair *pair, struct pair_effects *out);
void pair_read(struct pair *pair, struct pair_effects *out);
void pair_swap(struct pair *pair, enum pair_change change, const struct pair_record *record, struct pair_effects *out);
/* The record makes this run the leader of pair->epoch. */
bool pair_is_mine(const struct pair *pair);
void pair_consider(struct pair *pair, struct pair_effects *out);
void pair_claimed(struct pair *pair, struct pair_effects *out);

/* ---- candidacy.c */
void candidacy_begin(struct pair *pair, struct pair_effects *out);
void candidacy_fenced(struct pair *pair, struct pair_effects *out);
/* As candidacy_begin, and whatever is missing (PAIR_FORCE). */
void candidacy_by_force(struct pair *pair, struct pair_effects *out);
void candidacy_record(struct pair *pair, bool is_newer, struct pair_effects *out);

/* ---- operator.c: no coordinator, and what an operator says in either case */
void operator_propose(struct pair *pair, struct pair_effects *out);
/* What a candidate or a leader proposes. */
struct pair_message operator_proposal(const struct pair *pair);
/* A leader hears nothing of the other node. */
void operator_claim(struct pair *pair, struct pair_effects *out);
/* Does that hard state of the other node, whose question or answer has come, end this leader's epoch (R7)? */
bool operator_is_deposed(const struct pair *pair, const struct pair_message *other);
/* No answer came (`other` NULL), or one of a node that does not lead: the word that waited for it is carried out,
 * unless the answer contradicts it. */
void operator_go_on(struct pair *pair, const struct pair_message *other, struct pair_effects *out);
/* The other node leads `epoch` (0: not known) and answers: the word that waited is refused. */
void operator_refuse(struct pair *pair, uint32_t epoch, struct pair_effects *out);
void operator_assert(struct pair *pair, enum pair_word word, struct pair_effects *out);
void operator_fenced(struct pair *pair, struct pair_effects *out);
void operator_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out);
void operator_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out);
/* The other does not lead: should this node? */
void operator_met(struct pair *pair, const struct pair_message *other, struct pair_effects *out);
void operator_told(struct pair *pair, enum pair_word word, struct pair_effects *out);

/* ---- handover.c */
void handover_begin(struct pair *pair, struct pair_effects *out);
void handover_stopped(struct pair *pair, uint64_t end, struct pair_effects *out);
/* The follower has everything, and there will be no more. */
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
/* … anew only if there is another question to ask; a leader without a coordinator proposes. */
void following_remind(struct pair *pair, struct pair_effects *out);
void following_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out);
void following_durable(struct pair *pair, struct pair_effects *out);
void following_record(struct pair *pair, bool is_leader_present, struct pair_effects *out);
void following_silent(struct pair *pair, bool gone, struct pair_effects *out);

#endif
