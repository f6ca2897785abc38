/* consumers.h: the consumers of sessions. A record names a session by its number; this remembers which client that was
 * and where it came from, as far as the log has told so far.
 *
 * A table of fixed size, however long the log is: what it has forgotten is told by number alone. */
#ifndef TARRY_TOOL_CONSUMERS_H
#define TARRY_TOOL_CONSUMERS_H

#include <stdint.h>

#include "tarry.pb-c.h"
#include "tarry_limits.h"

struct consumer {
    uint64_t session; /* 0: free */
    char client[CLIENT_NAME_SIZE_MAX + 1];
    char peer[PEER_SIZE_MAX + 1]; /* empty: not known */
};

struct consumers;
struct consumers *consumers_new(void);
void consumers_free(struct consumers *consumers); /* NULL is fine */
/* Learns from a record and the frame that it stands in. */
void consumers_learn(struct consumers *consumers, const Tarry__FrameBody *body, const Tarry__Record *record);
/* NULL: not known. Valid until the next record is learnt from. */
const struct consumer *consumers_find(const struct consumers *consumers, uint64_t session);

#endif
