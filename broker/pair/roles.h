/* roles.h: what the files of the pair's machine ask of one another. */
#ifndef TARRY_PAIR_ROLES_H
#define TARRY_PAIR_ROLES_H

#include "pair.h"
#include "weak.h"

/* ---- pair.c */
struct pair_effect *pair_push(struct pair_effects *out, enum pair_effect_kind kind);
void pair_end(struct pair *pair, const char *reason, struct pair_effects *out);
void pair_read(struct pair *pair, struct pair_effects *out);
void pair_swap(struct pair *pair, enum pair_change change, const struct pair_record *record, struct pair_effects *out);
/* The record makes this run the leader of pair->epoch. */
bool pair_is_mine(const struct pair *pair);
void pair_consider(struct pair *pair, struct pair_effects *out);

/* ---- claim.c */
void claim_begin(struct pair *pair, struct pair_effects *out);
void claim_fenced(struct pair *pair, struct pair_effects *out);
void claim_record(struct pair *pair, bool is_newer, struct pair_effects *out);

/* ---- leading.c */
void leading_begin(struct pair *pair, struct pair_effects *out);
void leading_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out);
void leading_advance(struct pair *pair, struct pair_effects *out);
void leading_changed(struct pair *pair, struct pair_effects *out);
void leading_record(struct pair *pair, bool is_newer, struct pair_effects *out);
void leading_silent(struct pair *pair, struct pair_effects *out);

/* ---- following.c */
void following_begin(struct pair *pair, struct pair_effects *out);
void following_ask(struct pair *pair, struct pair_effects *out);
void following_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out);
void following_durable(struct pair *pair, struct pair_effects *out);
void following_record(struct pair *pair, struct pair_effects *out);
void following_silent(struct pair *pair, struct pair_effects *out);

#endif
