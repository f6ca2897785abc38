/* door_ws.c: messages of nng's SP protocols (proto/WIRE.md) over WebSocket. It converts frames to requests, and replies
 * and deliveries to frames.
 *
 * libwebsockets gets one outgoing frame at a time, and the next one when the kernel has all of the one before. So a
 * message counts as sent when its last byte is in the kernel, and as not sent if libwebsockets never got its first
 * byte. */
#include <assert.h>
#include <string.h>

#include "door_parts.h"

static_assert(DOOR_FRAME_MAX == 1048576 && REQUEST_SIZE_MAX == 16777216, "the sentences below say so");
static_assert(LWS_PRE + MESSAGE_HEAD_MAX <= MESSAGE_ROOM, "a frame's header and a backtrace fit into the room");

#define FIRST_CAPACITY (16u << 10)
#define KEPT_OF_REFUSED 64u /* enough for a backtrace */
#define FRAMES_IN_A_ROW 16  /* per connection, before other connections get their turn */

/* ---- incoming */

void ws_regulate(struct connection *connection) {
    bool pauses = connection->request != NULL || connection->under_way >= DOOR_REQUESTS_MAX ||
                  connection->out_bytes >= DOOR_UNSENT_MAX || atomic_load(&connection->door->stopping);
    if (pauses == connection->paused || connection->is_gone) return;
    connection->paused = pauses;
    lws_rx_flow_control(connection->wsi, !pauses);
}

static bool resize(struct connection *connection, size_t capacity) {
    struct message **incoming = &connection->incoming;
    size_t before = (*incoming)->capacity;
    if (!message_grow(incoming, capacity)) return false;
    pressure_half_grows(connection, before, capacity);
    return true;
}

/* Continues to read a refused request, and stores only what the refusal needs. */
static bool begin_to_discard(struct connection *connection) {
    struct message *incoming = connection->incoming;
    connection->discards = true;
    pressure_half_is_nothing(connection);
    if (incoming->size > KEPT_OF_REFUSED) incoming->size = KEPT_OF_REFUSED;
    (void)pressure_count(connection, KEPT_OF_REFUSED);
    return resize(connection, KEPT_OF_REFUSED);
}

/* Returns whether the request exceeds the memory limit; one large request is always allowed. */
static bool is_too_much(const struct connection *connection, size_t needed, size_t capacity) {
    const struct door *door = connection->door;
    size_t others = atomic_load(&door->held) - connection->incoming->capacity;
    return needed > DOOR_SMALL_MAX && others > door->limits.held_max / 2 && others + capacity > door->limits.held_max;
}

/* Frees memory by closing stalled connections. */
static bool make_room(struct connection *connection, size_t needed, size_t capacity) {
    connection->is_beyond_share = false;
    while (is_too_much(connection, needed, capacity))
        if (!pressure_end_silent_half(connection)) return false;
    connection->is_beyond_share = !pressure_count(connection, capacity);
    return !connection->is_beyond_share && resize(connection, capacity);
}

/* Stores `size` received bytes; `expected` more will follow. False: out of memory. */
static bool keep(struct connection *connection, const void *bytes, size_t size, size_t expected) {
    struct door *door = connection->door;
    if (connection->incoming == NULL) {
        size_t all = size + expected;
        size_t capacity = all < FIRST_CAPACITY ? all : FIRST_CAPACITY;
        if (capacity < KEPT_OF_REFUSED) capacity = KEPT_OF_REFUSED;
        connection->incoming = message_new(capacity);
        if (connection->incoming == NULL) return false;
        connection->incoming->size = 0;
        pressure_half_grows(connection, 0, capacity);
    }
    size_t needed = connection->incoming->size + size;
    if (!connection->discards && needed > connection->incoming->capacity) {
        size_t capacity = 2 * connection->incoming->capacity;
        if (capacity > door->limits.request_max) capacity = door->limits.request_max;
        if (capacity < needed) capacity = needed;
        if (!make_room(connection, needed, capacity)) {
            size_t part =
                KEPT_OF_REFUSED > connection->incoming->size ? KEPT_OF_REFUSED - connection->incoming->size : 0;
            if (part > size) part = size;
            memcpy(connection->incoming->bytes + connection->incoming->size, bytes, part);
            connection->incoming->size += part;
            return begin_to_discard(connection);
        }
    }
    if (connection->discards) return true;
    memcpy(connection->incoming->bytes + connection->incoming->size, bytes, size);
    connection->incoming->size = needed;
    return true;
}

static void answer_refused(struct connection *connection, const struct message *request) {
    struct door *door = connection->door;
    struct message *answer = door->calls.refusal(door->calls.argument, connection->is_beyond_share);
    if (answer == NULL) {
        connection_kill(connection);
        return;
    }
    message_put_head(answer, message_head(request), request->head_size);
    door_hold(door, answer->capacity);
    atomic_fetch_add(&door->queued, 1);
    ws_send(connection, answer);
}

/* Offers a request to the callee. False: no capacity. */
static bool offer(struct connection *connection, struct message *request) {
    struct door *door = connection->door;
    assert(request != NULL);
    size_t capacity = request->capacity, counted = connection->counted;
    door_release(door, capacity); /* the callee counts it now */
    (void)pressure_count(connection, 0);
    bool is_taken =
        door->calls.request(door->calls.argument, connection->id, connection->principal, connection->peer, request);
    if (is_taken) return true;
    door_hold(door, capacity);
    (void)pressure_count(connection, counted);
    return false;
}

/* Refuses a request that was too large while it arrived, or is too large to wait. */
static void refuse_whole(struct connection *connection, struct message *request) {
    (void)pressure_count(connection, 0);
    answer_refused(connection, request);
    door_release(connection->door, request->capacity);
    message_free(request);
}

static void wait_for_room(struct connection *connection, struct message *request) {
    struct door *door = connection->door;
    connection->request = request;
    connection->is_waiting = true;
    door->waiting_size += request->capacity;
    TAILQ_INSERT_TAIL(&door->waiting, connection, in_waiting);
}

/* Updates the counters after the callee took a waiting request of this capacity, or it was freed. */
static void end_waiting(struct connection *connection, size_t capacity) {
    struct door *door = connection->door;
    TAILQ_REMOVE(&door->waiting, connection, in_waiting);
    door->waiting_size -= capacity;
    connection->is_waiting = false;
    connection->request = NULL;
}

/* Handles a complete message. False: its SP header is missing or incomplete. */
static bool whole(struct connection *connection) {
    struct message *request = connection->incoming;
    bool was_refused = connection->discards;
    assert(request != NULL); /* created with its first bytes */
    lws_sul_cancel(&connection->too_late);
    pressure_half_ends(connection);
    connection->incoming = NULL;
    connection->incoming_size = 0;
    connection->discards = false;
    connection->is_beyond_share &= was_refused;
    if (!message_take_head(request)) {
        door_release(connection->door, request->capacity);
        message_free(request);
        return false;
    }
    connection->under_way++;
    bool is_taken = !was_refused && TAILQ_EMPTY(&connection->door->waiting) && offer(connection, request);
    if (was_refused || (!is_taken && !pressure_may_wait(connection->door, request)))
        refuse_whole(connection, request);
    else if (!is_taken)
        wait_for_room(connection, request);
    ws_regulate(connection);
    return true;
}

void ws_offer_waiting(struct door *door) {
    struct connection *connection;
    while ((connection = TAILQ_FIRST(&door->waiting)) != NULL) {
        assert(connection->request != NULL);
        size_t capacity =
            connection->request->capacity; /* read first, because the callee may free a request that it takes */
        if (!offer(connection, connection->request)) break;
        end_waiting(connection, capacity);
        ws_regulate(connection);
    }
}

/* Handles a request whose rest did not arrive in time. (In 4.1.6 the library's own connection timer cannot be
 * cancelled.) */
static void on_too_late(lws_sorted_usec_list_t *timer) {
    struct connection *connection = lws_container_of(timer, struct connection, too_late);
    const struct door_calls *calls = &connection->door->calls;
    calls->refused(calls->argument, connection->peer, 408, "the rest of a request has not come");
    connection_kill(connection);
}

static void drop_out(struct connection *connection);

/* Reports the end of the connection as soon as it is known; unsent messages will not be sent. */
static void gone(struct connection *connection) {
    struct door *door = connection->door;
    connection->is_gone = true;
    drop_out(connection);
    if (connection->is_up) door->calls.lane_gone(door->calls.argument, connection->lane, connection->id);
    connection->is_up = false;
}

void ws_drop(struct connection *connection) {
    struct door *door = connection->door;
    struct message *request = connection->request;
    gone(connection);
    pressure_half_ends(connection);
    pressure_is_read(connection);
    (void)pressure_count(connection, 0);
    lws_sul_cancel(&connection->too_late);
    lws_sul_cancel(&connection->unread);
    if (connection->incoming != NULL) door_release(door, connection->incoming->capacity);
    message_free(connection->incoming);
    connection->incoming = NULL;
    if (request == NULL) return;
    end_waiting(connection, request->capacity);
    door_release(door, request->capacity);
    message_free(request);
}

/* Closes the connection for a broken rule, which the Close frame and the log name. Returns -1. */
static int end(struct connection *connection, enum lws_close_status status, const char *sentence) {
    const struct door_calls *calls = &connection->door->calls;
    gone(connection);
    calls->refused(calls->argument, connection->peer, status, sentence);
    lws_close_reason(connection->wsi, status, (unsigned char *)sentence, strlen(sentence));
    return -1;
}

static int received(struct connection *connection, const void *bytes, size_t size) {
    struct lws *wsi = connection->wsi;
    size_t expected = lws_remaining_packet_payload(wsi);
    if (connection->is_gone) return 0;
    if (connection->kind != CONNECTION_RPC)
        return end(connection, LWS_CLOSE_STATUS_POLICY_VIOLATION, "a consumer has nothing to say on its lane");
    if (!lws_frame_is_binary(wsi))
        return end(connection, LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE, "requests are binary messages (proto/WIRE.md)");
    if (expected > DOOR_FRAME_MAX || size + expected > DOOR_FRAME_MAX)
        return end(connection, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, "a frame has 1 MiB at most");
    connection->incoming_size += size;
    if (connection->incoming_size + expected > connection->door->limits.request_max)
        return end(connection, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, "a request has 16 MiB at most");
    if (!keep(connection, bytes, size, expected)) return -1;
    if (expected > 0 || !lws_is_final_fragment(wsi)) {
        /* No client may hold memory with a half-received request forever (F-18). */
        bool is_more = connection->incoming_size == size ||
                       connection->incoming_size / DOOR_FRAME_OUT > (connection->incoming_size - size) / DOOR_FRAME_OUT;
        if (is_more) {
            lws_sul_schedule(connection->door->context, 0, &connection->too_late, on_too_late,
                             (lws_usec_t)DOOR_REQUEST_S * LWS_USEC_PER_SEC);
            pressure_half_comes_on(connection);
        }
        pressure_bound_halves(connection);
        return 0;
    }
    return whole(connection) ? 0
                             : end(connection, LWS_CLOSE_STATUS_PROTOCOL_ERR,
                                   "what a request begins with, SP's header, is not there");
}

/* ---- outgoing */

/* Ends the first queued message: it is in the kernel, or will not be sent. */
static void drop_first(struct connection *connection, bool left) {
    struct door *door = connection->door;
    struct message *message = connection->out_first;
    connection->out_first = message->next;
    if (connection->out_first == NULL) connection->out_last = &connection->out_first;
    connection->out_at = 0;
    connection->out_bytes -= message->size;
    if (message->kind == ORDER_ANSWER) door->unread_size -= message->capacity;
    if (message->kind == ORDER_DELIVERY)
        door->calls.lane_sent(door->calls.argument, message->lane, message->turn, left, message->stamp);
    else if (message->kind == ORDER_ANSWER)
        connection->under_way--;
    door_done(door, message);
}

/* Drops unsent messages, and reports the results of deliveries. */
static void drop_out(struct connection *connection) {
    while (connection->out_first != NULL) drop_first(connection, connection->out_at > 0);
}

/* Gives the library the next frame. False: the connection is broken. */
static bool write_frame(struct connection *connection, struct message *message) {
    size_t size = message->head_size + message->size, rest = size - connection->out_at;
    size_t part = rest < DOOR_FRAME_OUT ? rest : DOOR_FRAME_OUT;
    int kind = connection->out_at == 0 ? LWS_WRITE_BINARY : LWS_WRITE_CONTINUATION;
    if (part < rest) kind |= LWS_WRITE_NO_FIN;
    uint8_t *bytes = message->bytes - message->head_size + connection->out_at;
    /* Count the bytes before the write: if the write fails, a part of them may have left. */
    connection->out_at += part;
    return lws_write(connection->wsi, bytes, part, (enum lws_write_protocol)kind) >= 0;
}

static void on_unread(lws_sorted_usec_list_t *timer) {
    struct connection *connection = lws_container_of(timer, struct connection, unread);
    const struct door_calls *calls = &connection->door->calls;
    calls->refused(calls->argument, connection->peer, 408, "it does not read its answers");
    connection_kill(connection);
}

/* Starts the timeout for unread replies, if there are any. It does not apply to lanes: a consumer may be slow, and
 * other code checks its leases and its silence. The library's own timer stays unchanged: it closes a connection that
 * does not answer a Close. */
static void begin_to_wait(struct connection *connection) {
    if (connection->kind == CONNECTION_RPC && connection->out_first != NULL)
        lws_sul_schedule(connection->door->context, 0, &connection->unread, on_unread,
                         (lws_usec_t)DOOR_UNREAD_S * LWS_USEC_PER_SEC);
    else
        lws_sul_cancel(&connection->unread);
    pressure_is_read(connection);
}

/* Returns whether the library is closing the connection. For invalid frames the library closes by itself, and informs
 * its user only at the end, which may be seconds later, because the client must answer the Close. But a Close reason is
 * set at once; and the library would still send data behind its Close. */
static bool is_being_closed(const struct connection *connection) {
    return lws_get_close_length(connection->wsi) > 0;
}

ssize_t ws_follow(struct connection *connection, const uint8_t *bytes, size_t size) {
    const struct door_calls *calls = &connection->door->calls;
    bool is_upgraded = connection->kind != CONNECTION_HTTP; /* false: these bytes followed the request head */
    const char *problem = door_frames_follow(&connection->frames, bytes, size);
    if (problem != NULL) {
        connection->frames_problem = problem;
        if (is_upgraded && !connection->is_gone)
            calls->refused(calls->argument, connection->peer, LWS_CLOSE_STATUS_PROTOCOL_ERR, problem);
        return -1;
    }
    /* After its Close for invalid frames the library misses the client's Close, and would wait 5 s. */
    return is_upgraded && connection->frames.has_closed && is_being_closed(connection) ? 0 : (ssize_t)size;
}

/* Sends as much as the kernel takes. False: the connection is broken. */
static bool write_some(struct connection *connection) {
    struct door *door = connection->door;
    if (is_being_closed(connection)) gone(connection);
    for (int frames = 0; connection->out_first != NULL; frames++) {
        struct message *message = connection->out_first;
        if (lws_partial_buffered(connection->wsi) || frames == FRAMES_IN_A_ROW) {
            lws_callback_on_writable(connection->wsi);
            break;
        }
        bool is_sent = connection->out_at > 0 && connection->out_at == message->head_size + message->size;
        bool is_void = connection->out_at == 0 && message->kind == ORDER_DELIVERY &&
                       !door->calls.lane_leaves(door->calls.argument, message->lane, message->turn);
        if (is_sent || is_void)
            drop_first(connection, is_sent);
        else if (!write_frame(connection, message))
            return false;
    }
    begin_to_wait(connection);
    ws_regulate(connection);
    return true;
}

static void send_first(struct connection *connection) {
    if (lws_send_pipe_choked(connection->wsi)) {
        lws_callback_on_writable(connection->wsi);
        begin_to_wait(connection);
    } else if (!write_some(connection)) {
        connection_kill(connection);
    }
}

void ws_send(struct connection *connection, struct message *message) {
    bool is_idle = connection->out_first == NULL;
    message->next = NULL;
    *connection->out_last = message;
    connection->out_last = &message->next;
    connection->out_bytes += message->size;
    if (message->kind == ORDER_ANSWER) connection->door->unread_size += message->capacity;
    ws_regulate(connection);
    if (is_idle) send_first(connection); /* else the library calls back when the socket is writable */
    pressure_bound_unread(connection->door);
}

/* ---- events */

static int established(struct connection *connection) {
    struct door *door = connection->door;
    lws_set_timeout(connection->wsi, NO_PENDING_TIMEOUT, 0);
    if (connection->frames_problem != NULL)
        return end(connection, LWS_CLOSE_STATUS_PROTOCOL_ERR, connection->frames_problem);
    if (connection->kind != CONNECTION_LANE) return 0;
    connection->is_up = door->calls.lane_up(door->calls.argument, connection->lane, connection->holder, connection->id);
    return connection->is_up ? 0 : -1;
}

int ws_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size) {
    switch (reason) {
    case LWS_CALLBACK_ESTABLISHED:
        return established(connection);
    case LWS_CALLBACK_RECEIVE:
        return received(connection, in, size);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return write_some(connection) ? 0 : -1;
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE: /* do not read what follows the Close */
    case LWS_CALLBACK_CLOSED:
        gone(connection);
        return 0;
    default:
        return 0;
    }
}
