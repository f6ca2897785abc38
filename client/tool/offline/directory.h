/* directory.h: the data directory that a command line names. */
#ifndef TARRY_TOOL_DIRECTORY_H
#define TARRY_TOOL_DIRECTORY_H

#include "store.h"
#include "tool.h"

#define STORE_ARCHIVE_OPTION                                                                                           \
    { "archive", ARG_VALUE, "DIR", "archive of the broker [DIR/archive]" }

/* Opens everything of --data DIR and --archive DIR (store_open_all). 0, or an exit status after an error message on
 * standard error; then nothing is open. */
int store_open(struct store *store, const struct args *args);
/* Ends a command: prints `out` and the error message, if any, and closes. Returns the exit status. */
int store_finish(struct store *store, struct text *out, int status);

#endif
