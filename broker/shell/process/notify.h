/* notify.h: tells systemd how it goes, where NOTIFY_SOCKET is set (sd_notify(3)). */
#ifndef TARRY_SHELL_NOTIFY_H
#define TARRY_SHELL_NOTIFY_H

#include <stdint.h>

/* `state` such as "READY=1". Without a listener it is fine; a socket that cannot be reached is logged. */
void notify(const char *state);

/* systemd ends and restarts a unit (WatchdogSec=) that has not said for so long that it lives. One thread's own. */
struct watchdog {
    uint64_t every_ns; /* 0: no watchdog watches this process */
    uint64_t fed_ns;
};
/* Asks the environment (WATCHDOG_USEC, WATCHDOG_PID). */
void watchdog_init(struct watchdog *watchdog);
/* Says that the caller lives, if it is time to; never waits. How long until it is time again; UINT64_MAX: never. */
uint64_t watchdog_feed(struct watchdog *watchdog);
/* It is not fed for a while: the process starts again. Until watchdog_resume, which is called once it is ready. */
void watchdog_suspend(void);
void watchdog_resume(void);

#endif
