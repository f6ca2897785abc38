/* watch.h: reports on standard error that the tool waits for a broker that is busy or does not answer, which would
 * otherwise look like a hang. */
#ifndef TARRY_TOOL_WATCH_H
#define TARRY_TOOL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tarry.h"

/* Watches `client` in a separate thread until watch_end. Reports on standard error, with or without a terminal, that
 * the tool waits, and why: after one second without an answer (five while a connection is open), after two seconds if
 * the broker is busy, then every minute; and when a broker answers again. Reports nothing if there is no memory for a
 * thread. */
void watch_begin(tarry_client *client, uint64_t patience_ms);
/* Sets the time without an answer after which the command gives up, counted from now; TARRY_FOREVER: never. */
void watch_patience(uint64_t patience_ms);
/* Sets whether an outage is reported; false for a screen that shows outages itself. */
void watch_silence(bool is_said);
/* Returns whether the present outage was reported with its reason. */
bool watch_has_said(void);
/* Must be called before tarry_close. */
void watch_end(void);
/* Handles events of the watched client (tarry_options.on_event). */
void watch_event(void *argument, const struct tarry_event *event);

#endif
