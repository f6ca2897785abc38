/* facts.h: rows that the shell read for an event, by id and by key; and what a command lacks (core_wants). */
#ifndef TARRY_CORE_FACTS_H
#define TARRY_CORE_FACTS_H

#include "tasks.h"

struct facts_table;

/* Borrows the facts; lives in the arena. */
struct facts_table *facts_table_new(const struct core_facts *facts, uint64_t salt, struct arena *arena);
const struct row *facts_find(const struct facts_table *table, uint64_t id);
/* All rows with the key, one after another. */
const struct row *facts_first(const struct facts_table *table, const struct task_key *key);
const struct row *facts_next(const struct facts_table *table, const struct row *row);

#endif
