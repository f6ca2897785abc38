/* outgoing.h: what must be read before something leaves: contents of deliveries and of Get replies, and replies that
 * were logged before (ONCE-1). Nothing leaves before what it rests on is durable (LOG-1), however late it was read;
 * what has been redacted meanwhile does not leave, nor a task whose lease is over; a delivery whose session has left
 * its lane meanwhile reaches nobody (TRUE-1, lanes.h). */
#ifndef TARRY_SHELL_OUTGOING_H
#define TARRY_SHELL_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>

#include "core.h"

struct shell;

/* One thread's. */
struct outgoing {
    struct shell *shell;
    struct arena arena; /* contents of the message that is being made */
    uint64_t end;       /* leaves once this is durable too */
    bool is_again;      /* it is read once more, for something was erased meanwhile */
    bool may_wait;      /* for a disk */
};

enum { OUTGOING_COLD = 1 };
/* Sends it, or finds out that it never will be sent. 0; without `may_wait` OUTGOING_COLD: nothing has happened, for a
 * part of it is not in memory. What cannot be read ends the process (LOG-4). */
int outgoing_deliver(struct outgoing *outgoing, const struct core_delivery *delivery);
/* Likewise, of a reply that has a content or repeats one. */
int outgoing_reply(struct outgoing *outgoing, const struct core_reply *reply);

#endif
