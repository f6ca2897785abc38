/* lane_state.h: which session holds a lane, and what may still leave on it (TRUE-1, FENCE-1).
 *
 * A lane has one holder, a session, and one connection, the holder's; a new connection that proves to be the holder's
 * replaces the former one. At most one delivery is under way on it. Its `turn` grows whenever another session gets the
 * lane, and a delivery that was decided in a former turn never begins to leave: what was meant for one consumer must
 * not reach the next. The core expects no news of such a delivery, also if its session has come back to the lane: it
 * would take them for those of its next one. Nor does it expect any other news of a former turn, which may be on their
 * way to it while the session moves to another lane: a connection on the one is none on the other.
 *
 * The caller (shell/threads/lanes.c) keeps one of these for each lane, opens and closes as the core says, carries out
 * what a function returns, and tells the core the result. Not thread-safe: the caller keeps a mutex. Memory: none of
 * its own. */
#ifndef TARRY_ENGINE_LANE_STATE_H
#define TARRY_ENGINE_LANE_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct lane_state {
    uint64_t session; /* the holder; 0: none */
    uint64_t turn;
    uint64_t connection; /* the holder's; 0: none */
    bool sending;        /* a delivery of this turn */
};

/* The session holds the lane from here on. What it returns is a former holder's connection, to be closed; 0: none. */
uint64_t lane_state_open(struct lane_state *state, uint64_t session);
/* The session is gone: nothing that waits for it begins to leave. Returns its connection, which is its consumer's to
 * close; 0: none, or another session holds the lane. */
uint64_t lane_state_close(struct lane_state *state, uint64_t session);

enum lane_send {
    LANE_DELIVERS, /* begins to leave by state->connection → lane_state_sent */
    LANE_UNSENT,   /* never leaves: CORE_LANE_SENT, not ok */
    LANE_SILENT    /* of a former turn: never leaves, and the core is not told */
};
/* A delivery of `turn` is to leave; `is_made`: there is something to send. Asserted: one at a time. */
enum lane_send lane_state_send(struct lane_state *state, uint64_t turn, bool is_made);
/* Just before it leaves: does it still? */
bool lane_state_leaves(const struct lane_state *state, uint64_t turn);
/* What was begun has left, or never will. True: CORE_LANE_SENT. False: its turn is over; the core is not told. */
bool lane_state_sent(struct lane_state *state, uint64_t turn);

/* A client has proved to be `session` (0: none): may it connect? */
bool lane_state_admits(const struct lane_state *state, uint64_t session);
/* A client that has proved to be `session` has connected. True: CORE_LANE_UP; `*out_former` is to be closed, unless it
 * is 0. False: it does not hold the lane. */
bool lane_state_up(struct lane_state *state, uint64_t session, uint64_t connection, uint64_t *out_former);
/* The core is about to hear what was told in `turn`. False: it must not, for that turn is over. */
bool lane_state_is_news(const struct lane_state *state, uint64_t turn);
/* A connection has ended. True: CORE_LANE_GONE of state->session. What was begun on it comes to lane_state_sent, not
 * before. */
bool lane_state_gone(struct lane_state *state, uint64_t connection);

#endif
