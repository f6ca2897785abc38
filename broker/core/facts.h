/* facts.h: a table of the rows that the shell read for an event, by id and by key; and the search for rows that a
 * command still needs (core_wants). */
#ifndef TARRY_CORE_FACTS_H
#define TARRY_CORE_FACTS_H

#include "tasks.h"

struct facts_table;

/* Builds the table in the arena. Borrows the facts, which must outlive it. */
struct facts_table *facts_table_new(const struct core_facts *facts, uint64_t salt, struct arena *arena);
const struct row *facts_find(const struct facts_table *table, uint64_t id);
/* Iterate over all rows with the key. */
const struct row *facts_first(const struct facts_table *table, const struct task_key *key);
const struct row *facts_next(const struct facts_table *table, const struct row *row);

#endif
