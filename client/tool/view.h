/* view.h: prints tasks: as JSON lines, as rows of a table, or as a block for people. */
#ifndef TARRY_TOOL_VIEW_H
#define TARRY_TOOL_VIEW_H

#include "question.h"
#include "table.h"

/* Prints a task for people: one name and value in each line. */
void view_words(struct text *out, const Tarry__TaskView *view);

/* Selects the tasks that a command lists. */
struct view_list {
    Tarry__List list; /* the request; its fields `limit` and `cursor` are ignored */
    uint64_t limit;   /* 0: none */
    bool dead;        /* true: print the columns for dead letters */
    const char *key;  /* only the task with this key; NULL: all */
    uint64_t count;   /* result: number of printed tasks */
};
/* Prints each task: JSON lines, or a table in parts. Returns the exit status. */
int view_print_list(struct tool *tool, struct view_list *list);

#endif
