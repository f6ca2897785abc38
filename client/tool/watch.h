/* watch.h: who waits for a broker is told so: one that is busy, or none at all, would look like a hang. */
#ifndef TARRY_TOOL_WATCH_H
#define TARRY_TOOL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tarry.h"

/* Watches `client` from a thread of its own until watch_end, and says on standard error, whether that is a terminal or
 * not, that it waits, and why: when nobody has answered for a second (five, while a connection stands), when the broker
 * has been busy for two, and every minute from then on; and when somebody answers again. Without the memory for a
 * thread it says nothing. */
void watch_begin(tarry_client *client, uint64_t patience_ms);
/* After how long without an answer the command gives up; TARRY_FOREVER: never. From now on. */
void watch_patience(uint64_t patience_ms);
/* Whether silence is said at all: not to a screen that says it itself. */
void watch_silence(bool is_said);
/* Before tarry_close. */
void watch_end(void);
/* tarry_options.on_event of the client that is watched. */
void watch_event(void *argument, const struct tarry_event *event);

#endif
