/* restart.h: a run ends by a signal, or is followed by another one in the same process (a pair's node that led and does
 * no more). */
#ifndef TARRY_SHELL_RESTART_H
#define TARRY_SHELL_RESTART_H

#include <signal.h>
#include <stdbool.h>

/* In the environment of a run that follows another one in the same process: where that listened. */
#define RESTART_URLS "TARRYD_URLS"

/* The process's own arguments, with which it starts again. First of all. */
void restart_remember(char **arguments);
/* Where this run listens: with port 0 the next run would get another port, and clients would not find it. Before any
 * thread may call restart. */
void restart_remember_urls(const char *urls);
/* Ends this run without a farewell, as a crash would, and starts again: the same process, the same arguments. One that
 * was told to stop ends, and does not start again. Any thread. */
_Noreturn void restart(void);

/* The descriptor that is ready when one of `signals`, which all threads block, has come; -errno. Opened before
 * clients are let in, which may take every descriptor that is left (F-21). */
int stop_open_signals(const sigset_t *signals);
/* Waits for SIGTERM or SIGINT, and closes `come`, which stop_open_signals gave. From then on restart ends the process:
 * the next run would know nothing of a signal that this one has taken. Main thread. */
void stop_wait(int come, const sigset_t *signals, siginfo_t *out);
/* It has come. Any thread. */
bool stop_is_told(void);

#endif
