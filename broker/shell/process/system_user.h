/* system_user.h: the system's user behind a start or a stop, for the log: "operator@host". */
#ifndef TARRY_SHELL_SYSTEM_USER_H
#define TARRY_SHELL_SYSTEM_USER_H

#include <signal.h>
#include <sys/types.h>

#include "tarry_limits.h"

#define SYSTEM_USER_SIZE (CLIENT_NAME_SIZE_MAX + 1)

/* A user without a name in /etc/passwd, or with one that does not fit, is "uid 1000@host". */
void system_user_name(uid_t user, char out[SYSTEM_USER_SIZE]);
/* The user that sent the signal. What the system itself sends (a terminal's Ctrl-C) is taken to come from this
 * process's user. */
void system_user_of_signal(const siginfo_t *signal, char out[SYSTEM_USER_SIZE]);

#endif
