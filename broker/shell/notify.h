/* notify.h: tells systemd how it goes, where NOTIFY_SOCKET is set. */
#ifndef TARRY_SHELL_NOTIFY_H
#define TARRY_SHELL_NOTIFY_H

/* `state` such as "READY=1". Nobody listening is fine; a socket that cannot be reached is logged. */
void notify(const char *state);

#endif
