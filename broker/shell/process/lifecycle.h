/* lifecycle.h: how a run of the broker ends, and what systemd learns about the process. */
#ifndef TARRY_LIFECYCLE_H
#define TARRY_LIFECYCLE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- stop and restart */

/* Ends a run of the broker. A signal ends the process. On a node of a pair that no longer leads, the process starts
 * another run. */

/* Environment variable with the URLs at which this run listened. The next run in the same process reads it. */
#define RESTART_URLS "TARRYD_URLS"

/* Keeps the process's arguments for the restart. Must be called first. */
void restart_remember(char **arguments);
/* Keeps the URLs of this run for the next one. With port 0 the next run would get another port, and clients would not
 * find it. Call it before any thread may call restart. */
void restart_remember_urls(const char *urls);
/* Ends this run immediately, as a crash would, and starts again in the same process with the same arguments. If the
 * process was told to stop, exits instead. Any thread. */
_Noreturn void restart(void);

/* Returns a file descriptor that becomes readable when one of `signals` arrives, or -errno. All threads must have
 * blocked the signals. Open it before clients are admitted, because clients may use up all file descriptors (F-21). */
int stop_open_signals(const sigset_t *signals);
/* Waits for SIGTERM or SIGINT, and closes `come`, the descriptor from stop_open_signals. From then on, restart ends the
 * process, because a next run would not know of the signal. Main thread only. */
void stop_wait(int come, const sigset_t *signals, siginfo_t *out);
/* Returns whether the stop signal has arrived. Any thread. */
bool stop_is_told(void);

/* ---- the process's state for systemd, if NOTIFY_SOCKET is set (sd_notify(3)) */

/* Sends `state`, such as "READY=1". Without NOTIFY_SOCKET it does nothing; a send error is logged. */
void notify(const char *state);

/* State of the pings to systemd's watchdog. systemd restarts a unit that sends no ping for WatchdogSec=. Used by one
 * thread. */
struct watchdog {
    uint64_t every_ns; /* interval of the pings in ns; 0: no watchdog */
    uint64_t fed_ns;
};
/* Reads the environment (WATCHDOG_USEC, WATCHDOG_PID). */
void watchdog_init(struct watchdog *watchdog);
/* Sends a ping if one is due; never waits. Returns the time until the next one; UINT64_MAX: never. */
uint64_t watchdog_feed(struct watchdog *watchdog);
/* Sets the watchdog's timeout again, which a restart has suspended. Call it once the new run is ready. */
void watchdog_resume(void);

#endif
