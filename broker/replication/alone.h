/* alone.h: since when a leader serves alone, and why: what it acknowledges then is on its own disk only. For the
 * status, the log's record (AlonePut) and an alarm.
 *
 *   the follower does not count any more (R4), or not yet ──► alone ──► it is in sync ──► over
 *
 * An asynchronous leader is never alone in this sense: no client was promised two disks. Nor is a strict one, which
 * acknowledges nothing meanwhile.
 *
 * Pure; times are MONOTONIC nanoseconds of the node. The broker's pair thread and the simulator's node have one each.
 */
#ifndef TARRY_REPLICATION_ALONE_H
#define TARRY_REPLICATION_ALONE_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "tarry.pb-c.h"

struct alone {
    uint64_t since_ns; /* of the present or the last time */
    uint64_t position; /* … what was committed then */
    Tarry__AlonePut__Why why;
    Tarry__AlonePut__Why next; /* what may make the follower not count; NOT_SAID: nothing */
    bool is;
    bool leads; /* as of the last look */
};

/* This may make the follower not count. Without it, it is silent. */
void alone_because(struct alone *alone, Tarry__AlonePut__Why why);
/* After each turn. True: it begins or is over. */
bool alone_look(struct alone *alone, const struct pair *pair, uint64_t now_ns);

#endif
