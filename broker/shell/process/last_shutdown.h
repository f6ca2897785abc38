/* last_shutdown.h: finds out how the log ended before this start. After a clean stop, its last record says so. */
#ifndef TARRY_SHELL_LAST_SHUTDOWN_H
#define TARRY_SHELL_LAST_SHUTDOWN_H

#include "log.h"
#include "tarry.pb-c.h"

/* Sets `*out`; NOTHING: the log is empty; NOT_SAID: the last record was in a segment that is retired. Returns 0, or a
 * negative storage error. */
int last_shutdown(struct log *log, const struct log_recovery *found, Tarry__EpochPut__Before *out);

#endif
