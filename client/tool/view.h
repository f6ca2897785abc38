/* view.h: a task as the broker knows it, printed: as a JSON line, as a row of a table, as a block for people. */
#ifndef TARRY_TOOL_VIEW_H
#define TARRY_TOOL_VIEW_H

#include "table.h"
#include "tarry.h"
#include "text.h"
#include "tool.h"

void view_json(struct text *out, const struct tarry_view *view);
/* Name and value, one a line. */
void view_words(struct text *out, const struct tarry_view *view);

/* Prints every task of a list: JSON lines, or a table in pages. `keep` (NULL: all) decides which; `dead` chooses the
 * columns of dead letters. Returns the exit status; *out_count (may be NULL) says how many were printed. */
int view_print_list(struct tool *tool, const struct tarry_list_options *options, bool dead,
                    bool (*keep)(const void *argument, const struct tarry_view *view), const void *argument,
                    uint64_t *out_count);

#endif
