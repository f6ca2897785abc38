/* lane_state.c: see lane_state.h. */
#include "lane_state.h"

#include <assert.h>

/* Changes the holder; waiting deliveries for the former holder are not sent. */
static uint64_t change_hands(struct lane_state *state, uint64_t session) {
    const uint64_t connection = state->connection;
    state->session = session;
    state->turn++;
    state->connection = 0;
    state->sending = false;
    return connection;
}

uint64_t lane_state_open(struct lane_state *state, uint64_t session) {
    return state->session != session ? change_hands(state, session) : 0;
}

uint64_t lane_state_close(struct lane_state *state, uint64_t session) {
    return state->session == session ? change_hands(state, 0) : 0;
}

enum lane_send lane_state_send(struct lane_state *state, uint64_t turn, bool is_made) {
    if (state->turn != turn) return LANE_SILENT; /* TRUE-1 */
    assert(!state->sending);
    if (!is_made || state->connection == 0) return LANE_UNSENT;
    state->sending = true;
    return LANE_DELIVERS;
}

bool lane_state_leaves(const struct lane_state *state, uint64_t turn) {
    return state->turn == turn;
}

bool lane_state_sent(struct lane_state *state, uint64_t turn) {
    if (state->turn != turn) return false;
    state->sending = false;
    return true;
}

bool lane_state_admits(const struct lane_state *state, uint64_t session) {
    return session != 0 && session == state->session;
}

bool lane_state_up(struct lane_state *state, uint64_t session, uint64_t connection, uint64_t *out_former) {
    *out_former = 0;
    if (!lane_state_admits(state, session)) return false;
    *out_former = state->connection;
    state->connection = connection;
    return true;
}

bool lane_state_is_news(const struct lane_state *state, uint64_t turn) {
    return state->turn == turn;
}

bool lane_state_gone(struct lane_state *state, uint64_t connection) {
    assert(connection != 0);
    if (state->connection != connection) return false;
    state->connection = 0;
    return true;
}
