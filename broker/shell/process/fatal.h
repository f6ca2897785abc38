/* fatal.h: how the process ends when it cannot go on: the disk failed, or the system gives no memory or no thread. */
#ifndef TARRY_SHELL_FATAL_H
#define TARRY_SHELL_FATAL_H

#include <pthread.h>

#include "arena.h"

#define EXIT_REFUSED 1
#define EXIT_STORAGE 4 /* the disk failed (LOG-4) */

/* What a negative result of storage means, for a log line. */
const char *storage_error(int error);
/* Logs and ends the process at once, for nothing that it could still do can be trusted (LOG-4). */
_Noreturn void fatal(const char *what, int error);
/* Logs the event, and ends the process: it is not to be started like this. */
_Noreturn void refuse_to_start(const char *event, const char *sentence);
/* An arena for what cannot be refused: when the system has no memory for it, the process ends with that sentence
 * (F-11), rather than take what it could not unpack for damage. */
void fatal_arena_init(struct arena *arena);
/* … and one piece of such memory, cleared; never NULL. free() it. */
void *fatal_calloc(size_t size) __attribute__((malloc, returns_nonnull));
/* Starts a thread or ends the process with a sentence. */
void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

#endif
