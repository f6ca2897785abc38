/* last_shutdown.h: how did the log end, before this start? Its last record says so, if it is a stop. */
#ifndef TARRY_SHELL_LAST_SHUTDOWN_H
#define TARRY_SHELL_LAST_SHUTDOWN_H

#include "log.h"
#include "tarry.pb-c.h"

/* NOTHING: the log is empty. NOT_SAID: its last record went with a segment that was retired. 0, or a negative result of
 * storage. */
int last_shutdown(struct log *log, const struct log_recovery *found, Tarry__EpochPut__Before *out);

#endif
