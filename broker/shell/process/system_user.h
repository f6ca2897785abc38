/* system_user.h: the system user that caused a start or a stop, for the log: "operator@host". */
#ifndef TARRY_SHELL_SYSTEM_USER_H
#define TARRY_SHELL_SYSTEM_USER_H

#include <signal.h>
#include <sys/types.h>

#include "tarry_limits.h"

#define SYSTEM_USER_SIZE (CLIENT_NAME_SIZE_MAX + 1)

/* Writes the user's name. If it is not in /etc/passwd or does not fit, writes "uid 1000@host". */
void system_user_name(uid_t user, char out[SYSTEM_USER_SIZE]);
/* Writes the user that sent the signal. A signal of the system itself (Ctrl-C at a terminal) counts as sent by this
 * process's user. */
void system_user_of_signal(const siginfo_t *signal, char out[SYSTEM_USER_SIZE]);

#endif
