/* lane_seat.h: who holds a lane, and what may still leave on it (TRUE-1, FENCE-1).
 *
 * A lane has one holder, a session, and one connection, the holder's; a newcomer that proves to be the holder takes the
 * former connection's place. At most one delivery is under way on it. Its `turn` grows whenever the lane changes hands,
 * and a delivery that was decided in a former turn never begins to leave: what was meant for one consumer must not
 * reach the next. The core expects no news of such a delivery, also if its session has come back to the lane: it would
 * take them for those of its next one.
 *
 * The hand keeps a seat for each lane, opens and closes as the core says, carries out what a function returns, and
 * tells the core what came of it. Not thread-safe: the hand keeps a mutex. Memory: none of its own. */
#ifndef TARRY_ENGINE_LANE_SEAT_H
#define TARRY_ENGINE_LANE_SEAT_H

#include <stdbool.h>
#include <stdint.h>

struct lane_seat {
    uint64_t session; /* who holds it; 0: nobody */
    uint64_t turn;
    uint64_t connection; /* the holder's; 0: none */
    bool sending;        /* a delivery of this turn */
};

/* The session holds the lane from here on. What it returns is a former holder's connection, to be closed; 0: none. */
uint64_t lane_seat_open(struct lane_seat *seat, uint64_t session);
/* The session is gone: nothing that waits for it begins to leave. Returns its connection, which is its consumer's to
 * close; 0: none, or another session holds the lane. */
uint64_t lane_seat_close(struct lane_seat *seat, uint64_t session);

enum lane_send {
    LANE_DELIVERS, /* begins to leave by seat->connection → lane_seat_sent */
    LANE_UNSENT,   /* never leaves: CORE_LANE_SENT, not ok */
    LANE_SILENT    /* of a former turn: never leaves, and nobody is told */
};
/* A delivery of `turn` is to leave; `is_made`: there is something to send. Asserted: one at a time. */
enum lane_send lane_seat_send(struct lane_seat *seat, uint64_t turn, bool is_made);
/* Just before it leaves: does it still? */
bool lane_seat_leaves(const struct lane_seat *seat, uint64_t turn);
/* What was begun has left, or never will. True: CORE_LANE_SENT. False: its turn is over, nobody is told. */
bool lane_seat_sent(struct lane_seat *seat, uint64_t turn);

/* Somebody proves to be `session`, 0: nobody: may he connect? */
bool lane_seat_admits(const struct lane_seat *seat, uint64_t session);
/* Somebody who proved to be `session` has connected. True: CORE_LANE_UP; `*out_former` is to be closed, unless it is 0.
 * False: it does not hold the lane. */
bool lane_seat_up(struct lane_seat *seat, uint64_t session, uint64_t connection, uint64_t *out_former);
/* A connection has ended. True: CORE_LANE_GONE of seat->session. What was begun on it comes to lane_seat_sent, not
 * before. */
bool lane_seat_gone(struct lane_seat *seat, uint64_t connection);

#endif
