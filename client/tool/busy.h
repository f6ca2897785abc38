/* busy.h: who waits because the broker is busy is told so, or a full disk would look like a hang. */
#ifndef TARRY_TOOL_BUSY_H
#define TARRY_TOOL_BUSY_H

#include "tarry.h"

/* Watches `client` from a thread of its own until busy_unwatch, and says on standard error that it waits, and why: once
 * it has for BUSY_SAID_AFTER_MS, and every BUSY_SAID_EVERY_MS from then on. Without the memory for a thread it says
 * nothing. */
void busy_watch(tarry_client *client);
/* Before tarry_close. */
void busy_unwatch(void);

#endif
