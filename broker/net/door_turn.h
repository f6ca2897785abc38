/* door_turn.h: how long one connection may use the door's thread before other connections get their turn (CALM-1).
 *
 *   bytes arrive ────► door_turn_begin ─► door_turn_goes_on … ─► door_turn_end ─┬─► all done
 *                            │ must queue                                       └─► more to do: the queue
 *                            └────────────────────────────────────────────────────► (by principal) ─► `turn`
 *
 * A connection whose last turn was long must queue before its next turn. The queue gets DOOR_ROUND_US of each
 * event-loop round, and serves principals round robin. So one principal delays another principal's request by at most
 * one round, even with many small requests, a large body, or a thousand connections. */
#ifndef TARRY_NET_DOOR_TURN_H
#define TARRY_NET_DOOR_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum duration of a turn. */
#define DOOR_TURN_US 1000u
/* Maximum number of bytes processed in a turn. */
#define DOOR_TURN_BYTES (256u << 10)
/* A connection whose last turn took longer than this must queue for its next one. */
#define DOOR_TURN_LONG_US (DOOR_TURN_US / 4)
/* Time for queued connections in each round of the door. */
#define DOOR_ROUND_US 4000u

struct door;

struct door_turn {
    uint64_t began_us; /* CLOCK_MONOTONIC */
    size_t bytes;      /* number of bytes processed in this turn */
};

/* Starts a turn. False: not now; the connection is queued, keeps its input, and gets its `turn` callback
 * (door_stream.h) later. Only the door's thread may call these functions. */
bool door_turn_begin(struct door *door, uint64_t id, struct door_turn *out);
/* Counts `bytes` more processed bytes. False: the turn is over. */
bool door_turn_goes_on(struct door_turn *turn, size_t bytes);
/* Ends a turn. `wants_more`: work is left, so the connection is queued for another turn. */
void door_turn_end(struct door *door, uint64_t id, const struct door_turn *turn, bool wants_more);

#endif
