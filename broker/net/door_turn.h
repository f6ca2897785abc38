/* door_turn.h: how long one connection may work on the door's thread before the others have their turn (CALM-1).
 *
 *   bytes have come ─► door_turn_begin ─► door_turn_goes_on … ─► door_turn_end ─┬─► all done
 *                            │ not now                                          └─► more to do: the line
 *                            └────────────────────────────────────────────────────► (by principal, in turn) ─► `turn`
 *
 * A connection whose last turn was long does not work as soon as bytes come: it waits in the line. The line gets
 * DOOR_ROUND_US of each round of the door, and serves principals in turn. So many small requests of one connection, a
 * large body, or a thousand connections of one principal delay another principal's request by a round, and no more. */
#ifndef TARRY_NET_DOOR_TURN_H
#define TARRY_NET_DOOR_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A turn ends when it has taken this long … */
#define DOOR_TURN_US 1000u
/* … or has worked at this many bytes. */
#define DOOR_TURN_BYTES (256u << 10)
/* A connection whose last turn took longer than this waits in the line for its next one. */
#define DOOR_TURN_LONG_US (DOOR_TURN_US / 4)
/* The line is served for this long in each round of the door. */
#define DOOR_ROUND_US 4000u

struct door;

struct door_turn {
    uint64_t began_us; /* CLOCK_MONOTONIC */
    size_t bytes;      /* worked at in this turn */
};

/* All on the door's thread. False: not now; the connection is in the line, and `turn` (door_stream.h) comes. What the
 * protocol has it keeps until then. */
bool door_turn_begin(struct door *door, uint64_t id, struct door_turn *out);
/* `bytes` more were worked at. False: the turn is over. */
bool door_turn_goes_on(struct door_turn *turn, size_t bytes);
/* `wants_more`: the turn was over before the work was: the connection is put into the line. */
void door_turn_end(struct door *door, uint64_t id, const struct door_turn *turn, bool wants_more);

#endif
