/* signals.h: the first SIGINT or SIGTERM asks a command to end in an orderly way, if the command supports that; a
 * second one ends the process. All threads block the signals, and a separate thread receives them, so that no other
 * code is interrupted. SIGPIPE is ignored. */
#ifndef TARRY_TOOL_SIGNALS_H
#define TARRY_TOOL_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Must be called before any other thread exists. 0, or an exit status after an error message. */
int signals_start(void);
/* After this call, the first signal asks for an orderly end. Before this call, it ends the process. */
void signals_graceful(void);
/* Returns a descriptor that is readable after a signal asked for the end. The caller must not read from it. */
int signals_fd(void);
bool signals_ended(void);
/* Sets the function that the signal thread calls when an end is requested; NULL: no function. If an end has already
 * been requested, calls `wake` at once. After the return, the former function is not running and will not be called. */
void signals_on_end(void (*wake)(void *argument), void *argument);
/* Requests the end like a signal does. For the tool's own threads. */
void signals_end(void);
#define SIGNALS_CHILDREN_MAX 64u
/* Adds a process group that a second signal ends, too. There may be at most SIGNALS_CHILDREN_MAX groups. Any thread. */
void signals_child_add(pid_t group);
void signals_child_remove(pid_t group);
/* Returns the signal mask from before signals_start, for child processes. */
const sigset_t *signals_original_mask(void);

#endif
