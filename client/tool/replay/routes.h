/* routes.h: which recorded queues are replayed, and what they are called where they go. */
#ifndef TARRY_TOOL_ROUTES_H
#define TARRY_TOOL_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "args.h"
#include "tarry.h"

struct route {
    const char *recorded; /* owned */
    const char *name;     /* owned; where it goes */
    bool taken;           /* --queue lets it through */
    bool paused;          /* where it goes, as far as the replay has said so */
    tarry_consumer *consumer;
};

struct routes {
    const struct args *args; /* borrowed: --queue and --map */
    struct route **items;    /* owned, each at a fixed address */
    size_t count;
    struct route *last; /* found */
};

/* --queue and --map. 0, or EXIT_USAGE after a sentence. */
int routes_init(struct routes *routes, const struct args *args);
/* Of a recorded queue; made when it is first asked for. Never NULL. */
struct route *routes_find(struct routes *routes, const char *recorded);
void routes_deinit(struct routes *routes); /* the consumers must be closed */

#endif
