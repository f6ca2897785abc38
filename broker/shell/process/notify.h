/* notify.h: reports the process's state to systemd, if NOTIFY_SOCKET is set (sd_notify(3)). */
#ifndef TARRY_SHELL_NOTIFY_H
#define TARRY_SHELL_NOTIFY_H

#include <stdint.h>

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
/* Suspends the watchdog while the process starts again. Call watchdog_resume once it is ready. */
void watchdog_suspend(void);
void watchdog_resume(void);

#endif
