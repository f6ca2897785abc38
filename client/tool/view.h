/* view.h: prints a task: as a JSON line, as a row of a table, or as a block for people. */
#ifndef TARRY_TOOL_VIEW_H
#define TARRY_TOOL_VIEW_H

#include "table.h"
#include "tarry.h"
#include "text.h"
#include "tool.h"

void view_json(struct text *out, const struct tarry_view *view);
/* Prints one name and value a line. */
void view_words(struct text *out, const struct tarry_view *view);

/* Prints each task of a list: JSON lines, or a table in parts. `keep` selects tasks (NULL: all); `dead` selects the
 * columns of dead letters. Returns the exit status; *out_count (may be NULL) is the number of printed tasks. */
int view_print_list(struct tool *tool, const struct tarry_list_options *options, bool dead,
                    bool (*keep)(const void *argument, const struct tarry_view *view), const void *argument,
                    uint64_t *out_count);

#endif
