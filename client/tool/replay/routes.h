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
    bool taken;           /* true: --queue selects this queue */
    bool paused;          /* true: the replay has paused the queue at the target */
    tarry_consumer *consumer;
};

struct routes {
    const struct args *args; /* borrowed command line with --queue and --map */
    struct route **items;    /* routes, owned; each route has a fixed address */
    size_t count;
    struct route *last; /* last result of routes_find */
};

/* Parses --queue and --map. 0, or EXIT_USAGE after an error message. */
int routes_init(struct routes *routes, const struct args *args);
/* Returns the route of a recorded queue; created on first use. Never NULL. */
struct route *routes_find(struct routes *routes, const char *recorded);
void routes_deinit(struct routes *routes); /* the caller must have closed the consumers */

#endif
