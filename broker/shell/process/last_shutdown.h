/* last_shutdown.h: finds out how the log ended before this start. After a clean stop, the log's last record notes the
 * stop. */
#ifndef TARRY_SHELL_LAST_SHUTDOWN_H
#define TARRY_SHELL_LAST_SHUTDOWN_H

#include "log.h"
#include "tarry.pb-c.h"

/* Sets `*out` to how the log ended. NOTHING means that the log is empty; NOT_SAID means that the last record was in a
 * segment that is retired. Returns 0, or a negative storage error. */
int last_shutdown(struct log *log, const struct log_recovery *found, Tarry__EpochPut__Before *out);

#endif
