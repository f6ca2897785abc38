/* lane_state.h: which session holds a lane, and which deliveries may still be sent on it (TRUE-1, FENCE-1).
 *
 * A lane belongs to one session, the holder, and has one connection. A new connection that authenticates as the holder
 * replaces the previous one. At most one delivery is being sent on a lane. `turn` grows whenever another session gets
 * the lane.
 *
 * A delivery that was decided in an earlier turn is never sent, because it must not reach the next consumer. The core
 * gets no report about such a delivery, even if the same session holds the lane again. Reason: the core would apply the
 * report to the session's next delivery. Other reports of an earlier turn may arrive while the session moves to another
 * lane. The core ignores them, because a connection on the old lane says nothing about the new lane.
 *
 * The caller (shell/threads/lanes.c) keeps one lane_state per lane, and opens and closes it as the core orders. It
 * executes what a function returns, and reports the result to the core. Not thread-safe: the caller holds a mutex.
 * Allocates nothing. */
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

/* Gives the lane to the session. Returns the previous holder's connection, which the caller must close; 0: there was
 * none. */
uint64_t lane_state_open(struct lane_state *state, uint64_t session);
/* Takes the lane from the session, so no waiting delivery is sent. Returns the session's connection, which its consumer
 * must close; 0: no connection, or another session holds the lane. */
uint64_t lane_state_close(struct lane_state *state, uint64_t session);

enum lane_send {
    LANE_DELIVERS, /* send the delivery by state->connection, and call lane_state_sent */
    LANE_UNSENT,   /* the delivery is never sent: report CORE_LANE_SENT, not ok */
    LANE_SILENT    /* a delivery of an earlier turn: it is never sent, and the core gets no report */
};
/* Decides about a delivery of `turn`. `is_made` is false if its message could not be made. Asserts that no other
 * delivery is being sent. */
enum lane_send lane_state_send(struct lane_state *state, uint64_t turn, bool is_made);
/* Returns true if the delivery may still be sent; call it just before sending. */
bool lane_state_leaves(const struct lane_state *state, uint64_t turn);
/* Notes that the delivery which is being sent has been sent, or never will be. Returns true if the caller must send
 * CORE_LANE_SENT to the core; false if the delivery's turn is over, so that the core gets no report. */
bool lane_state_sent(struct lane_state *state, uint64_t turn);

/* Returns true if a client that authenticated as `session` (0: none) may connect. */
bool lane_state_admits(const struct lane_state *state, uint64_t session);
/* Registers the connection of a client that authenticated as `session`. Returns true if the caller must send
 * CORE_LANE_UP, and close `*out_former` unless it is 0. Returns false if the session does not hold the lane. */
bool lane_state_up(struct lane_state *state, uint64_t session, uint64_t connection, uint64_t *out_former);
/* Returns true if a report made in `turn` may be passed to the core, and false if that turn is over. */
bool lane_state_is_news(const struct lane_state *state, uint64_t turn);
/* Removes a closed connection. Returns true if the caller must send CORE_LANE_GONE for state->session. If a delivery
 * was being sent on the connection, lane_state_sent reports its result, not this function. */
bool lane_state_gone(struct lane_state *state, uint64_t connection);

#endif
