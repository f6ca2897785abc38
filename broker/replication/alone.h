/* alone.h: tracks since when and why a leader serves alone: its acknowledged commits are then only on its own disk. The
 * status, the log record AlonePut and the alarm use this.
 *
 * A period alone begins when the leader stops waiting for the follower before it acknowledges (R4), or when it begins
 * to lead without waiting for one. The period ends when the follower is in sync. An asynchronous leader is never alone
 * in this sense, because it promises one disk only. A leader with `--solo-after never` is never alone either, because
 * it acknowledges nothing until the follower is back.
 *
 * Pure; times are MONOTONIC nanoseconds of the node. The broker's pair thread and the simulator's node have one struct
 * each. */
#ifndef TARRY_REPLICATION_ALONE_H
#define TARRY_REPLICATION_ALONE_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"
#include "tarry.pb-c.h"

struct alone {
    uint64_t since_ns; /* begin of the present period alone, or of the last one */
    uint64_t position; /* committed position at the beginning of that period */
    Tarry__AlonePut__Why why;
    Tarry__AlonePut__Why next; /* reason for the next period; NOT_SAID: none known */
    bool is;
    bool leads; /* this node led at the last alone_look */
};

/* Notes why the leader may soon stop waiting for the follower. Without a note, the reason is the follower's silence. */
void alone_because(struct alone *alone, Tarry__AlonePut__Why why);
/* Checks whether a period alone has begun or ended; if so, returns true. Call it after each turn. */
bool alone_look(struct alone *alone, const struct pair *pair, uint64_t now_ns);

#endif
