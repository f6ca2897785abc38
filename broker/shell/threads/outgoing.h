/* outgoing.h: the hand of what is read before it leaves (engine/outgoing_read.h, which has the rules): reads it, packs
 * it, and sends it. A delivery whose session has left its lane meanwhile reaches no consumer (TRUE-1, lanes.h). */
#ifndef TARRY_SHELL_OUTGOING_H
#define TARRY_SHELL_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>

#include "outgoing_read.h"

struct clock;
struct index;
struct lanes;
struct log;
struct node;

struct outgoing_needs {
    struct log *log;
    struct index *index;
    struct clock *clock;
    struct lanes *lanes;
    struct node *node;
    /* Until the log is durable wherever it must be (LOG-1). False: the broker stops before it is. */
    bool (*wait_durable)(void *context, uint64_t position);
    void *context;
};

/* One thread's. */
struct outgoing {
    const struct outgoing_needs *needs;
    struct arena arena; /* contents of the message that is being made */
    uint64_t end;       /* leaves once this is durable too */
    bool may_wait;      /* for a disk */
};

enum { OUTGOING_COLD = 1 };
/* Sends it, or finds out that it never will be sent. 0; without `may_wait` OUTGOING_COLD: nothing has happened, for a
 * part of it is not in memory. What cannot be read ends the process (LOG-4). */
int outgoing_deliver(struct outgoing *outgoing, const struct core_delivery *delivery);
/* Likewise, of a reply that has a content or repeats one. */
int outgoing_reply(struct outgoing *outgoing, const struct core_reply *reply);

#endif
