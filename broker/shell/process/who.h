/* who.h: the system's user behind a start or a stop, for the log: "operator@host". */
#ifndef TARRY_SHELL_WHO_H
#define TARRY_SHELL_WHO_H

#include <signal.h>
#include <sys/types.h>

#include "tarry_limits.h"

#define WHO_SIZE (CLIENT_NAME_SIZE_MAX + 1)

/* A user without a name in /etc/passwd, or with one that does not fit, is "uid 1000@host". */
void who_is(uid_t user, char out[WHO_SIZE]);
/* Who sent the signal. What the system itself sends (a terminal's Ctrl-C) is taken to come from this process's user. */
void who_sent(const siginfo_t *signal, char out[WHO_SIZE]);

#endif
