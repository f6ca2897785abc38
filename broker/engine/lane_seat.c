/* lane_seat.c: see lane_seat.h. */
#include "lane_seat.h"

#include <assert.h>

#include "seeded_bug.h"

/* What waits for a former holder is not sent. */
static uint64_t change_hands(struct lane_seat *seat, uint64_t session) {
    const uint64_t connection = seat->connection;
    seat->session = session;
    if (!SEEDED_BUG(turn_stays)) seat->turn++;
    seat->connection = 0;
    seat->sending = false;
    return connection;
}

uint64_t lane_seat_open(struct lane_seat *seat, uint64_t session) {
    return seat->session != session ? change_hands(seat, session) : 0;
}

uint64_t lane_seat_close(struct lane_seat *seat, uint64_t session) {
    return seat->session == session ? change_hands(seat, 0) : 0;
}

enum lane_send lane_seat_send(struct lane_seat *seat, uint64_t turn, bool is_made) {
    if (seat->turn != turn && !SEEDED_BUG(former_turn_sent)) return LANE_SILENT; /* TRUE-1 */
    assert(!seat->sending);
    if (!is_made || seat->connection == 0) return SEEDED_BUG(unsent_untold) ? LANE_SILENT : LANE_UNSENT;
    seat->sending = true;
    return LANE_DELIVERS;
}

bool lane_seat_leaves(const struct lane_seat *seat, uint64_t turn) {
    return seat->turn == turn || SEEDED_BUG(former_turn_leaves);
}

bool lane_seat_sent(struct lane_seat *seat, uint64_t turn) {
    if (seat->turn != turn && !SEEDED_BUG(former_turn_told)) return false;
    seat->sending = false;
    return true;
}

bool lane_seat_admits(const struct lane_seat *seat, uint64_t session) {
    return session != 0 && (session == seat->session || SEEDED_BUG(stranger_on_lane));
}

bool lane_seat_up(struct lane_seat *seat, uint64_t session, uint64_t connection, uint64_t *out_former) {
    *out_former = 0;
    if (!lane_seat_admits(seat, session)) return false;
    *out_former = seat->connection;
    seat->connection = connection;
    return true;
}

bool lane_seat_gone(struct lane_seat *seat, uint64_t connection) {
    assert(connection != 0);
    if (seat->connection != connection && !SEEDED_BUG(former_connection_counts)) return false;
    seat->connection = 0;
    return true;
}
