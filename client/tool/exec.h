/* exec.h: running a command for one delivery.
 *
 * `sh -c COMMAND` with the body on standard input (a file in memory, so a command that does not read it cannot block
 * the tool), TARRY_ID, TARRY_TOKEN, TARRY_QUEUE, TARRY_KEY, TARRY_ATTEMPT, TARRY_DELIVERIES, TARRY_DUE_MS, TARRY_BROKER
 * and an attribute NAME as TARRY_ATTR_NAME (letters made capital, others than letters and digits an underscore) in the
 * environment. It runs in a process group of its own: Ctrl-C asks the tool to end, and the command may finish.
 * posix_spawn, never fork: the library's threads do not survive one. */
#ifndef TARRY_TOOL_EXEC_H
#define TARRY_TOOL_EXEC_H

#include "tool.h"

#define EXEC_REASON_SIZE 128

/* Runs it to its end and extends the task's lease on the way. `out_reason`: how it failed, for the record and the dead
 * letter; "": it exited with status 0. 0, or a negative errno if it could not be started. */
int exec_run(struct tool *tool, const char *command, const struct tarry_task *task, char out_reason[EXEC_REASON_SIZE]);

#endif
