/* lane_state.h: which session holds a lane, and which deliveries may still leave on it (TRUE-1, FENCE-1).
 *
 * One session, the holder, has a lane, with one connection. A new connection that authenticates as the holder replaces
 * the previous one. At most one delivery is being sent on a lane. `turn` grows whenever another session gets the lane.
 * A delivery decided in an earlier turn never starts to leave, because it must not reach the next consumer. The core is
 * not told about such a delivery, even if its session has come back to the lane: the core would apply the report to the
 * session's next delivery. The core also ignores all other reports of an earlier turn, which may arrive while the
 * session moves to another lane: a connection on the old lane says nothing about the new one.
 *
 * The caller (shell/threads/lanes.c) keeps one lane_state per lane, opens and closes it as the core orders, executes
 * what a function returns, and tells the core the result. Not thread-safe: the caller holds a mutex. Allocates nothing.
 */
#ifndef TARRY_ENGINE_LANE_STATE_H
#define TARRY_ENGINE_LANE_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct lane_state {
    uint64_t session; /* the holder; 0: none */
    uint64_t turn;
    uint64_t connection; /* the holder's connection; 0: none */
    bool sending;        /* a delivery of this turn is being sent */
};

/* Gives the lane to the session. Returns the previous holder's connection, which the caller must close; 0: none. */
uint64_t lane_state_open(struct lane_state *state, uint64_t session);
/* Ends the session's hold: no waiting delivery starts to leave. Returns its connection, which its consumer must close;
 * 0: none, or another session holds the lane. */
uint64_t lane_state_close(struct lane_state *state, uint64_t session);

enum lane_send {
    LANE_DELIVERS, /* starts to leave by state->connection → lane_state_sent */
    LANE_UNSENT,   /* never leaves: CORE_LANE_SENT, not ok */
    LANE_SILENT    /* a delivery of an earlier turn: never leaves, and the core is not told */
};
/* Decides about a delivery of `turn`. `is_made`: there is something to send. Asserts that no other is being sent. */
enum lane_send lane_state_send(struct lane_state *state, uint64_t turn, bool is_made);
/* Returns true if the delivery may still leave; call it just before sending. */
bool lane_state_leaves(const struct lane_state *state, uint64_t turn);
/* Reports that the started delivery has left, or never will. True: send CORE_LANE_SENT. False: its turn is over; do not
 * tell the core. */
bool lane_state_sent(struct lane_state *state, uint64_t turn);

/* Returns true if a client that authenticated as `session` (0: none) may connect. */
bool lane_state_admits(const struct lane_state *state, uint64_t session);
/* Registers the connection of a client that authenticated as `session`. True: send CORE_LANE_UP, and close
 * `*out_former` unless it is 0. False: the session does not hold the lane. */
bool lane_state_up(struct lane_state *state, uint64_t session, uint64_t connection, uint64_t *out_former);
/* Returns true if the core may hear a report made in `turn`. False: that turn is over. */
bool lane_state_is_news(const struct lane_state *state, uint64_t turn);
/* Removes a closed connection. True: send CORE_LANE_GONE for state->session. A delivery started on it is reported only
 * by lane_state_sent. */
bool lane_state_gone(struct lane_state *state, uint64_t connection);

#endif
