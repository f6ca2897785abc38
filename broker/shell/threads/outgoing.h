/* outgoing.h: reads, packs and sends deliveries and replies whose content must be read first. The rules are in
 * engine/outgoing_read.h. If a session has lost its lane, its delivery reaches no consumer (TRUE-1, lanes.h). */
#ifndef TARRY_SHELL_OUTGOING_H
#define TARRY_SHELL_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>

#include "outgoing_read.h"

struct clock;
struct door;
struct index;
struct lanes;
struct log;
struct node;

struct outgoing_needs {
    struct log *log;
    struct index *index;
    struct clock *clock;
    struct lanes *lanes;
    struct door *door;
    struct node *node;
    /* Waits until the log is durable up to the position on all required nodes (LOG-1). Returns false if the broker
     * stops before that. */
    bool (*wait_durable)(void *context, uint64_t position);
    void *context;
};

/* State of one sending thread. */
struct outgoing {
    const struct outgoing_needs *needs;
    struct arena arena; /* memory for the message being made */
    uint64_t end;       /* log position that must be durable before the message is sent */
    bool may_wait;      /* this thread may wait for a disk, and may wait until the door has taken replies */
    bool awaits_room;   /* this thread waits for memory for deliveries */
};

enum { OUTGOING_COLD = 1, OUTGOING_NO_ROOM };
/* Returns the number of bytes of the delivery's contents. */
size_t outgoing_contents_size(const struct core_delivery *delivery);
/* Sends the delivery, or reports that it will never be sent. Returns 0. Without `may_wait` it may return OUTGOING_COLD:
 * nothing was done, because a part is not in memory. Without `awaits_room` it may return OUTGOING_NO_ROOM: nothing was
 * done, because consumers have not read the deliveries that are in memory (CALM-1). A read error ends the process
 * (LOG-4). */
int outgoing_deliver(struct outgoing *outgoing, const struct core_delivery *delivery);
/* Like outgoing_deliver, for a reply that has a content or repeats an earlier reply. Never returns OUTGOING_NO_ROOM. */
int outgoing_reply(struct outgoing *outgoing, const struct core_reply *reply);

#endif
