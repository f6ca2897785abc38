/* door_turn.c: see door_turn.h. */
#include "door_turn.h"

#include "door_parts.h"

static void queue_up(struct connection *connection) {
    struct fair_item *item = &connection->stream.in_line;
    if (!item->is_waiting) fair_add(&connection->door->line, item, connection->principal);
}

bool door_turn_begin(struct door *door, uint64_t id, struct door_turn *out) {
    struct connection *connection = stream_find_alive(door, id);
    *out = (struct door_turn){0};
    if (connection == NULL) return false;
    if (connection->stream.is_heavy) queue_up(connection);
    if (connection->stream.in_line.is_waiting) return false;
    out->began_us = deadlines_now_us();
    return true;
}

bool door_turn_goes_on(struct door_turn *turn, size_t bytes) {
    turn->bytes += bytes;
    return turn->bytes < DOOR_TURN_BYTES && deadlines_now_us() - turn->began_us < DOOR_TURN_US;
}

void door_turn_end(struct door *door, uint64_t id, const struct door_turn *turn, bool wants_more) {
    struct connection *connection = stream_find_alive(door, id);
    if (connection == NULL) return;
    connection->stream.is_heavy = wants_more || deadlines_now_us() - turn->began_us > DOOR_TURN_LONG_US;
    if (wants_more) queue_up(connection);
}

void turns_leave(struct connection *connection) {
    fair_remove(&connection->door->line, &connection->stream.in_line);
}

void turns_serve(struct door *door) {
    if (fair_is_empty(&door->line)) return;
    const uint64_t began_us = deadlines_now_us();
    do {
        struct fair_item *item = fair_take(&door->line);
        struct connection *connection =
            (struct connection *)((char *)item - offsetof(struct connection, stream.in_line));
        connection->stream.is_heavy = false;
        if (connection->stream.state != NULL && connection->state != STATE_DEAD)
            connection->speaks->turn(connection->stream.state);
    } while (!fair_is_empty(&door->line) && deadlines_now_us() - began_us < DOOR_ROUND_US);
}
