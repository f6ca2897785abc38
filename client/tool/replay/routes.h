/* routes.h: the recorded queues that are replayed, and their names at the target. */
#ifndef TARRY_TOOL_ROUTES_H
#define TARRY_TOOL_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "args.h"
#include "tarry.h"

struct route {
    const char *recorded; /* owned */
    const char *name;     /* owned; name at the target */
    bool taken;           /* selected by --queue */
    bool paused;          /* paused at the target, as far as the replay has set it */
    tarry_consumer *consumer;
};

struct routes {
    const struct args *args; /* borrowed: --queue and --map */
    struct route **items;    /* owned, each at a fixed address */
    size_t count;
    struct route *last; /* last result of routes_find */
};

/* Parses --queue and --map. 0, or EXIT_USAGE after an error message. */
int routes_init(struct routes *routes, const struct args *args);
/* Returns the route of a recorded queue; created on first use. Never NULL. */
struct route *routes_find(struct routes *routes, const char *recorded);
void routes_deinit(struct routes *routes); /* the consumers must be closed before */

#endif
