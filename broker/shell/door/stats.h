/* stats.h: what the shell knows about the broker, for an answer to Stats. */
#ifndef TARRY_SHELL_STATS_H
#define TARRY_SHELL_STATS_H

#include <stdbool.h>

#include "arena.h"
#include "tarry.pb-c.h"

struct shell;

/* In `arena`; what the core knows is left to it. NULL: out of memory. Core thread only. */
Tarry__BrokerStats *stats_broker(struct shell *shell, struct arena *arena, bool clock_held);

#endif
