/* fatal.h: ends the process when it cannot continue: the disk failed, or the system has no memory or no thread. */
#ifndef TARRY_SHELL_FATAL_H
#define TARRY_SHELL_FATAL_H

#include <pthread.h>
#include <stdbool.h>

#include "arena.h"

#define EXIT_REFUSED 1
#define EXIT_STORAGE 4 /* exit status: the disk failed (LOG-4) */

/* Describes a negative result of storage, for a log line. */
const char *storage_error(int error);
/* Logs and ends the process at once, because no further action can be trusted (LOG-4). */
_Noreturn void fatal(const char *what, int error);
/* Logs the event with its reason and ends the process, which must not start in this state. */
_Noreturn void refuse_to_start(const char *event, const char *sentence);
/* Logs the event `refused` with its reason and ends the process, because the data are damaged. The log field `action`
 * says how an operator gets intact data. */
_Noreturn void refuse_damaged(const char *directory, bool is_pair, const char *sentence);
/* Initializes an arena for allocations that must not fail. If the system has no memory, the process ends with an error
 * message (F-11) and does not mistake the failure for damage. */
void fatal_arena_init(struct arena *arena);
/* Allocates zeroed memory, or ends the process with an error message. Never returns NULL. Release the memory with
 * free(). */
void *fatal_calloc(size_t size) __attribute__((malloc, returns_nonnull));
/* Starts a thread, or ends the process with an error message. */
void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

#endif
