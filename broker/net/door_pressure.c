/* door_pressure.c: closes connections that hold too much memory. It limits the half-received requests, and the
 * unread replies, of all connections together (CALM-1: share_of, unread_max), whatever each connection may hold. No
 * connection holds memory for long that another one needs.
 *
 * Each list is ordered by last progress, and the door closes the first connection, which has been silent longest. A
 * slow connection that still sends is closed later than a silent one. */
#include <malloc.h>

#include "door_parts.h"

static size_t counted_of(size_t capacity) {
    return capacity > DOOR_SMALL_MAX ? capacity : 0;
}

static size_t share_of(const struct door *door) {
    /* Adds request_max, so that one large request is allowed even if `held_max` is used up. */
    return door->limits.held_max + door->limits.request_max;
}

/* ---- memory that the allocator keeps */

/* Interval of malloc_trim under memory pressure; each call takes a few milliseconds of the door's thread. */
#define TRIM_EVERY_US (DOOR_US_PER_S / 10)
/* Memory pressure: more than 1/PRESSURE_SHARE of `held_max` is held. */
#define PRESSURE_SHARE 4

static void trim_soon(struct door *door);

static void on_trim(struct deadline *timer) {
    struct door *door = (struct door *)((char *)timer - offsetof(struct door, trim));
    malloc_trim(0);
    if (door->unread_size + door->halves_size > door->limits.held_max / PRESSURE_SHARE) trim_soon(door);
}

/* CALM-1: freed memory of closed connections lies between memory of open ones, and the allocator never returns such
 * gaps. So after a peak the process would keep its peak size. malloc_trim returns whole pages of the gaps to the
 * kernel. */
static void trim_soon(struct door *door) {
    if (door->trim.due_us != 0) return;
    door->trim.fire = on_trim;
    deadline_arm(&door->deadlines, &door->trim, door->now_us + TRIM_EVERY_US);
}

void pressure_look(struct door *door) {
    size_t held = atomic_load(&door->held) + atomic_load(&door->deliveries_size);
    size_t much = door->limits.held_max / PRESSURE_SHARE;
    bool is_over = door->was_pressed && held < much / 2;
    door->was_pressed = held > much || (door->was_pressed && !is_over);
    if (is_over) trim_soon(door);
}

static void end(struct connection *connection, const char *sentence) {
    const struct door_calls *calls = &connection->door->calls;
    trim_soon(connection->door);
    calls->refused(calls->argument, connection->peer, 503, sentence);
    if (connection->kind == KIND_STREAM)
        stream_let_go(connection);
    else
        ws_drop(connection);
    connection_kill(connection); /* connection_kill frees the connection later, because the connection's protocol may be
                                    running now */
}

/* ---- half-received requests */

bool pressure_count(struct connection *connection, size_t capacity) {
    const struct door_calls *calls = &connection->door->calls;
    size_t counted = counted_of(capacity);
    if (counted == connection->counted) return true;
    if (!calls->counts(calls->argument, connection->principal, connection->counted, counted)) return false;
    connection->counted = counted;
    return true;
}

void pressure_half_grows(struct connection *connection, size_t before, size_t capacity) {
    struct door *door = connection->door;
    door->halves_size = door->halves_size - before + capacity;
    door_hold(door, capacity);
    door_release(door, before);
}

void pressure_half_is_nothing(struct connection *connection) {
    UNLIST(&connection->door->halves, connection, in_halves);
}

void pressure_half_comes_on(struct connection *connection) {
    struct door *door = connection->door;
    pressure_half_is_nothing(connection);
    connection->came_on_us = door->now_us;
    LIST_LAST(&door->halves, connection, in_halves);
}

void pressure_keeps(struct connection *connection) {
    struct door *door = connection->door;
    UNLIST(&door->keepers, connection, in_keepers);
    if (connection->stream.kept_size == 0) return;
    connection->stream.kept_us = door->now_us;
    LIST_LAST(&door->keepers, connection, in_keepers);
}

static bool is_silent(const struct door *door, uint64_t since_us) {
    return door->now_us - since_us >= DOOR_SILENT_S * DOOR_US_PER_S;
}

bool pressure_end_silent_half(const struct connection *wanting) {
    struct door *door = wanting->door;
    struct connection *half = TAILQ_FIRST(&door->halves), *keeper = TAILQ_FIRST(&door->keepers);
    if (half != NULL && half != wanting && is_silent(door, half->came_on_us)) {
        end(half, "the client did not finish a request, and another request needs the buffer");
        return true;
    }
    if (keeper != NULL && keeper != wanting && is_silent(door, keeper->stream.kept_us)) {
        end(keeper, "the client sent more requests than the broker can buffer, and another request needs the buffer");
        return true;
    }
    return false;
}

void pressure_bound_halves(const struct connection *last) {
    struct door *door = last->door;
    struct connection *first;
    while (door->halves_size > share_of(door) && (first = TAILQ_FIRST(&door->halves)) != NULL && first != last)
        end(first, "too many requests are incomplete, and this one has been incomplete for the longest time");
}

bool pressure_may_wait(const struct door *door, const struct message *request) {
    return door->waiting_size == 0 || door->waiting_size + request->capacity <= share_of(door);
}

/* ---- replies */

void pressure_is_read(struct connection *connection) {
    struct door *door = connection->door;
    UNLIST(&door->unread, connection, in_unread);
    UNLIST(&door->slow, connection, in_slow);
    if (connection->state == STATE_DEAD || connection->out_first == NULL) return;
    connection->read_us = door->now_us;
    if (connection->kind == KIND_LANE)
        LIST_LAST(&door->slow, connection, in_slow);
    else
        LIST_LAST(&door->unread, connection, in_unread);
}

/* Unread replies may use three quarters of `held_max`. The rest is for requests: otherwise connections that do not read
 * would fill it all, and the door would refuse new requests instead of ending those connections. */
static size_t unread_max(const struct door *door) {
    return door->limits.held_max - door->limits.held_max / 4;
}

void pressure_bound_unread(struct door *door) {
    struct connection *first;
    while (door->unread_size > unread_max(door) && (first = TAILQ_FIRST(&door->unread)) != NULL &&
           first != TAILQ_LAST(&door->unread, connection_list))
        end(first, "too many replies are unread, and this client has not read for the longest time");
}

/* ---- deliveries */

static void on_slow_look(struct deadline *timer) {
    (void)timer; /* The timer only starts a round of the event loop; each round calls pressure_bound_deliveries. */
}

void pressure_bound_deliveries(struct door *door) {
    struct connection *first;
    while (atomic_load(&door->wants_room) && (first = TAILQ_FIRST(&door->slow)) != NULL) {
        if (!is_silent(door, first->read_us)) {
            door->slow_look.fire = on_slow_look;
            deadline_arm(&door->deadlines, &door->slow_look, first->read_us + DOOR_SILENT_S * DOOR_US_PER_S);
            return;
        }
        end(first, "the consumer does not read its deliveries, and another delivery needs the memory");
    }
}
