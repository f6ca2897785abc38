/* entry_words.h: a record of the log (entry.h) as a line for people. */
#ifndef TARRY_TOOL_ENTRY_WORDS_H
#define TARRY_TOOL_ENTRY_WORDS_H

#include "entry.h"
#include "text.h"

/* Appends one line about the record: time, kind and details; with `with_task` also the task. */
void entry_words(struct text *out, const struct entry *entry, bool with_task);

/* ---- consumers of sessions */

/* A record has only the number of its session; this table maps the number to the client and its address, as far as
 * the log was read.
 *
 * The table has a fixed size for any length of the log. Of a forgotten session only the number is printed. */

struct consumers;
struct consumers *consumers_new(void);
void consumers_free(struct consumers *consumers); /* `consumers` may be NULL */
/* Stores the client of a session, if the record begins a session or leases a task. */
void consumers_learn(struct consumers *consumers, const Tarry__FrameBody *body, const Tarry__Record *record);
/* Returns the consumer of the session; NULL: unknown. Valid until the next call of consumers_learn. */
const struct consumer *consumers_find(const struct consumers *consumers, uint64_t session);

#endif
