/* door_turn.c: see door_turn.h. */
#include "door_turn.h"

#include <time.h>

#include "door_parts.h"

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void queue_up(struct connection *connection) {
    if (!connection->in_line.is_waiting) fair_add(&connection->door->line, &connection->in_line, connection->principal);
}

bool door_turn_begin(struct door *door, uint64_t id, struct door_turn *out) {
    struct connection *connection = connection_find(door, id);
    *out = (struct door_turn){0};
    if (connection == NULL || connection->is_gone || connection->gives_way) return false;
    if (connection->is_heavy) queue_up(connection);
    if (connection->in_line.is_waiting) return false;
    out->began_us = now_us();
    return true;
}

bool door_turn_goes_on(struct door_turn *turn, size_t bytes) {
    turn->bytes += bytes;
    return turn->bytes < DOOR_TURN_BYTES && now_us() - turn->began_us < DOOR_TURN_US;
}

void door_turn_end(struct door *door, uint64_t id, const struct door_turn *turn, bool wants_more) {
    struct connection *connection = connection_find(door, id);
    if (connection == NULL || connection->is_gone) return;
    connection->is_heavy = wants_more || now_us() - turn->began_us > DOOR_TURN_LONG_US;
    if (wants_more) queue_up(connection);
}

void turns_leave(struct connection *connection) {
    fair_remove(&connection->door->line, &connection->in_line);
}

void turns_serve(struct door *door) {
    const uint64_t began_us = now_us();
    while (!fair_is_empty(&door->line) && now_us() - began_us < DOOR_ROUND_US) {
        struct connection *connection = lws_container_of(fair_take(&door->line), struct connection, in_line);
        connection->is_heavy = false;
        if (connection->stream != NULL && !connection->gives_way) connection->speaks->turn(connection->stream);
    }
    if (!fair_is_empty(&door->line)) lws_cancel_service(door->context); /* makes the next round start without waiting */
}
