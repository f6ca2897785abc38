/* entry_words.h: a record of the log (entry.h) as a line for people. */
#ifndef TARRY_TOOL_ENTRY_WORDS_H
#define TARRY_TOOL_ENTRY_WORDS_H

#include "entry.h"
#include "text.h"

/* Appends time, kind and details in one line. `with_task`: also the task. */
void entry_words(struct text *out, const struct entry *entry, bool with_task);

#endif
