/* exec.h: runs a command for one delivery.
 *
 * Runs `sh -c COMMAND` with the body on standard input. The body is a file in memory, so a command that does not read
 * it cannot block the tool. The environment has TARRY_ID, TARRY_TOKEN, TARRY_QUEUE, TARRY_KEY, TARRY_ATTEMPT,
 * TARRY_DELIVERIES, TARRY_DUE_MS, TARRY_BROKER, and TARRY_ATTR_NAME for an attribute NAME (capital letters; an
 * underscore for other characters than letters and digits). The command has its own process group, so Ctrl-C ends the
 * tool and lets the command finish. Uses posix_spawn and not fork, because the library's threads do not survive a
 * fork. */
#ifndef TARRY_TOOL_EXEC_H
#define TARRY_TOOL_EXEC_H

#include "tarry_limits.h"
#include "tool.h"

#define EXEC_REASON_SIZE (REASON_SIZE_MAX + 1u)

/* Runs the command until it ends, and meanwhile extends the lease of the task. Any thread. Passes the command's
 * standard error on. `out_reason`, for the log and the dead letter: exit status and the end of standard error; empty
 * after exit status 0. Returns 0, or a negative errno if the command could not be started. */
int exec_run(struct tool *tool, const char *command, const struct tarry_task *task, char out_reason[EXEC_REASON_SIZE]);

#endif
