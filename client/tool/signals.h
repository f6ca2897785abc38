/* signals.h: SIGINT and SIGTERM ask for an orderly end, in commands that have one; a second one ends the process.
 *
 * The signals are blocked in every thread and taken by one thread of their own, so that no other code is ever
 * interrupted. SIGPIPE is ignored. */
#ifndef TARRY_TOOL_SIGNALS_H
#define TARRY_TOOL_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Before any other thread exists. 0, or an exit status after a sentence. */
int signals_start(void);
/* From here on a first signal asks for an orderly end; before, it ends the process. */
void signals_graceful(void);
/* Readable once an end was asked for. Never read from it. */
int signals_fd(void);
bool signals_ended(void);
/* `wake` is called (on the signals' thread) when an end is asked for, at once if it was already. NULL: none. After
 * the call returns the former one does not run any more. */
void signals_on_end(void (*wake)(void *argument), void *argument);
/* Ends what waits on signals_fd without a signal: for the tool's own threads. */
void signals_end(void);
/* The process group that a second signal takes along; 0: none. */
void signals_child(pid_t group);
/* The mask from before signals_start, for children. */
const sigset_t *signals_original_mask(void);

#endif
