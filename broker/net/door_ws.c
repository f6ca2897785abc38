/* door_ws.c: messages of nng's SP protocols (proto/WIRE.md) over WebSocket and over nng's own transports. It converts
 * frames to requests; door_io.c writes replies and deliveries in frames. */
#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "door_parts.h"

static_assert(DOOR_FRAME_MAX == 1048576 && REQUEST_SIZE_MAX == 16777216, "the messages below state these limits");

#define FIRST_CAPACITY (16u << 10)
/* Number of bytes of a refused request that the door keeps: enough for the SP backtrace, which the refusal must
 * repeat. */
#define KEPT_OF_REFUSED 64u
#define DOOR_SECRET_MAX 64u /* a longer secret of a session is never valid */

bool ws_is_paused(const struct connection *connection) {
    const struct socket_of_messages *ws = &connection->ws;
    return ws->request != NULL || ws->under_way >= DOOR_REQUESTS_MAX || connection->out_bytes >= DOOR_UNSENT_MAX;
}

/* ---- incoming */

static bool resize(struct connection *connection, size_t capacity) {
    struct message **incoming = &connection->ws.incoming;
    size_t before = (*incoming)->capacity;
    if (!message_grow(incoming, capacity)) return false;
    pressure_half_grows(connection, before, capacity);
    return true;
}

/* Starts to discard a request: continues to read it, but stores only the bytes that the refusal needs. */
static bool begin_to_discard(struct connection *connection) {
    struct message *incoming = connection->ws.incoming;
    connection->ws.discards = true;
    pressure_half_is_nothing(connection);
    if (incoming->size > KEPT_OF_REFUSED) incoming->size = KEPT_OF_REFUSED;
    (void)pressure_count(connection, KEPT_OF_REFUSED);
    return resize(connection, KEPT_OF_REFUSED);
}

/* Returns whether the request exceeds the memory limit; one large request is always allowed. */
static bool is_too_much(const struct connection *connection, size_t needed, size_t capacity) {
    const struct door *door = connection->door;
    size_t others = atomic_load(&door->held) - connection->ws.incoming->capacity;
    return needed > DOOR_SMALL_MAX && others > door->limits.held_max / 2 && others + capacity > door->limits.held_max;
}

/* Frees memory by closing stalled connections. */
static bool make_room(struct connection *connection, size_t needed, size_t capacity) {
    connection->ws.is_beyond_share = false;
    while (is_too_much(connection, needed, capacity))
        if (!pressure_end_silent_half(connection)) return false;
    connection->ws.is_beyond_share = !pressure_count(connection, capacity);
    return !connection->ws.is_beyond_share && resize(connection, capacity);
}

/* Begins a request whose first frame has `all` bytes. The buffer of a large request grows as bytes arrive, and the
 * growth counts against the principal's limit. False: out of memory. */
static bool begin_request(struct connection *connection, uint64_t all) {
    size_t capacity = all < FIRST_CAPACITY ? (size_t)all : FIRST_CAPACITY;
    if (capacity < KEPT_OF_REFUSED) capacity = KEPT_OF_REFUSED;
    struct message *incoming = message_new(capacity);
    if (incoming == NULL) return false;
    incoming->size = 0;
    connection->ws.incoming = incoming;
    connection->ws.incoming_size = 0;
    pressure_half_grows(connection, 0, capacity);
    return true;
}

static void append(struct message *message, const void *bytes, size_t size) {
    assert(message->size + size <= message->capacity);
    if (size > 0) memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

/* Stores received bytes of the request. False: out of memory. */
static bool keep(struct connection *connection, const void *bytes, size_t size) {
    const struct door *door = connection->door;
    struct message *incoming = connection->ws.incoming;
    size_t needed = incoming->size + size;
    if (connection->ws.discards) return true;
    if (needed > incoming->capacity) {
        size_t capacity = 2 * incoming->capacity;
        if (capacity > door->limits.request_max) capacity = door->limits.request_max;
        if (capacity < needed) capacity = needed;
        if (!make_room(connection, needed, capacity)) {
            size_t room = KEPT_OF_REFUSED > incoming->size ? KEPT_OF_REFUSED - incoming->size : 0;
            append(incoming, bytes, size < room ? size : room);
            return begin_to_discard(connection);
        }
    }
    append(connection->ws.incoming, bytes, size);
    return true;
}

static void answer_refused(struct connection *connection, const struct message *request) {
    struct door *door = connection->door;
    struct message *answer = door->calls.refusal(door->calls.argument, connection->ws.is_beyond_share);
    if (answer == NULL) {
        connection_kill(connection);
        return;
    }
    message_put_head(answer, message_head(request), request->head_size);
    answer->kind = ORDER_ANSWER;
    io_queue(connection, answer);
}

/* Offers a request to the callee. False: no capacity. */
static bool offer(struct connection *connection, struct message *request) {
    struct door *door = connection->door;
    assert(request != NULL);
    size_t capacity = request->capacity, counted = connection->counted;
    door_release(door, capacity); /* the callee has the request, and counts its memory */
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
    connection->ws.request = request;
    door->waiting_size += request->capacity;
    LIST_LAST(&door->waiting, connection, in_waiting);
}

/* Updates the counters when a waiting request was taken by the callee or freed. `capacity` is the request's capacity.
 */
static void end_waiting(struct connection *connection, size_t capacity) {
    struct door *door = connection->door;
    UNLIST(&door->waiting, connection, in_waiting);
    door->waiting_size -= capacity;
    connection->ws.request = NULL;
}

/* Ends the accounting of the half-received request. */
static struct message *take_incoming(struct connection *connection) {
    struct message *incoming = connection->ws.incoming;
    deadline_cancel(&connection->deadline);
    pressure_half_is_nothing(connection);
    if (incoming != NULL) connection->door->halves_size -= incoming->capacity;
    connection->ws.incoming = NULL;
    return incoming;
}

/* Handles a complete message. False: its SP header is missing or incomplete. */
static bool end_request(struct connection *connection) {
    struct message *request = take_incoming(connection);
    bool was_refused = connection->ws.discards;
    connection->ws.discards = false;
    connection->ws.is_beyond_share &= was_refused;
    if (!message_take_head(request)) {
        door_release(connection->door, request->capacity);
        message_free(request);
        return false;
    }
    connection->ws.under_way++;
    bool is_taken = !was_refused && TAILQ_EMPTY(&connection->door->waiting) && offer(connection, request);
    if (was_refused || (!is_taken && !pressure_may_wait(connection->door, request)))
        refuse_whole(connection, request);
    else if (!is_taken)
        wait_for_room(connection, request);
    io_regulate(connection);
    return true;
}

void ws_offer_waiting(struct door *door) {
    struct connection *connection;
    while ((connection = TAILQ_FIRST(&door->waiting)) != NULL) {
        assert(connection->ws.request != NULL);
        /* Read the capacity before the call of offer, because the callee may free a request that it takes. */
        size_t capacity = connection->ws.request->capacity;
        if (!offer(connection, connection->ws.request)) break;
        end_waiting(connection, capacity);
        io_regulate(connection);
    }
}

/* Reports to the lane's owner that the connection has ended, before the connection is freed. */
static void report_end(struct connection *connection) {
    const struct door_calls *calls = &connection->door->calls;
    if (connection->ws.is_up) calls->lane_gone(calls->argument, connection->ws.lane, connection->id);
    connection->ws.is_up = false;
}

/* Frees all received messages of the connection, complete or not, and returns their capacity. */
static void drop_received(struct connection *connection) {
    struct door *door = connection->door;
    struct socket_of_messages *ws = &connection->ws;
    struct message *dropped[] = {take_incoming(connection), ws->request, ws->rest};
    if (ws->request != NULL) end_waiting(connection, ws->request->capacity);
    (void)pressure_count(connection, 0);
    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
        if (dropped[i] != NULL) door_release(door, dropped[i]->capacity);
        message_free(dropped[i]);
    }
    ws->rest = NULL;
}

void ws_drop(struct connection *connection) {
    drop_received(connection);
    io_drop(connection);
    report_end(connection);
    pressure_is_read(connection);
}

void ws_answered(struct connection *connection) {
    assert(connection->ws.under_way > 0);
    connection->ws.under_way--;
}

/* ---- control frames */

/* Queues a control frame. */
static void send_control(struct connection *connection, enum door_order kind, enum ws_opcode opcode,
                         const uint8_t *payload, size_t size) {
    struct message *message = message_new(WS_HEAD_MAX + WS_CONTROL_MAX);
    if (message == NULL) return;
    size_t head_size = ws_head(message->bytes, opcode, true, size, NULL);
    if (size > 0) memcpy(message->bytes + head_size, payload, size);
    message->size = head_size + size;
    message->kind = kind;
    io_queue(connection, message);
}

/* Answers the newest ping (RFC 6455, 5.5.3): its pong replaces the last message if that is a pong that has not begun to
 * leave. So pongs never accumulate. */
static void send_pong(struct connection *connection, const struct ws_event *ping) {
    io_drop_last_pong(connection);
    send_control(connection, ORDER_PONG, WS_PONG, ping->data, ping->size);
}

/* Sends a Close and then nothing more, neither replies nor deliveries; the connection ends. SP over TCP and IPC has no
 * Close. */
static void end(struct connection *connection, unsigned code, const char *reason) {
    uint8_t payload[WS_CONTROL_MAX];
    drop_received(connection);
    io_drop_waiting(connection);
    report_end(connection);
    if (connection->ws.framing == FRAMING_WS)
        send_control(connection, ORDER_CONTROL, WS_CLOSE, payload, ws_close_payload(payload, code, reason));
    io_finish(connection);
}

/* Closes the connection for a broken rule, which the Close frame and the log name. */
static void refuse(struct connection *connection, enum ws_code code, const char *sentence) {
    const struct door_calls *calls = &connection->door->calls;
    calls->refused(calls->argument, connection->peer, code, sentence);
    end(connection, code, sentence);
}

/* ---- events of the decoder */

/* Notes that `size` more bytes of a half-received request have arrived. Extends the request's deadline only for enough
 * bytes, so that no client can hold memory with an unfinished request for ever (F-18). */
static void come_on(struct connection *connection, size_t size) {
    struct door *door = connection->door;
    struct socket_of_messages *ws = &connection->ws;
    size_t before = ws->incoming_size;
    ws->incoming_size += size;
    if (connection->deadline.due_us == 0 || ws->incoming_size / DOOR_FRAME_OUT > before / DOOR_FRAME_OUT) {
        deadline_arm(&door->deadlines, &connection->deadline, door->now_us + DOOR_REQUEST_S * DOOR_US_PER_S);
        if (!ws->discards) pressure_half_comes_on(connection);
    }
    pressure_bound_halves(connection);
}

/* A received part of a message. */
struct span {
    const uint8_t *data;
    size_t size;
    uint64_t rest; /* number of bytes of the frame that follow this part */
    bool begins_message;
    bool ends_message;
};

static void take_data(struct connection *connection, const struct span *span) {
    if (connection->kind == KIND_LANE) {
        refuse(connection, WS_CODE_POLICY, "a consumer must not send messages on its lane");
        return;
    }
    if (span->begins_message && !begin_request(connection, span->size + span->rest)) {
        connection_kill(connection);
        return;
    }
    if (!keep(connection, span->data, span->size)) {
        connection_kill(connection);
        return;
    }
    if (!span->ends_message)
        come_on(connection, span->size);
    else if (!end_request(connection))
        refuse(connection, WS_CODE_PROTOCOL_ERROR, "the request does not begin with the SP header (proto/WIRE.md)");
}

static void fail(struct connection *connection, enum ws_error error) {
    if (error == WS_ERROR_TEXT && connection->kind == KIND_LANE)
        refuse(connection, WS_CODE_POLICY, "a consumer must not send messages on its lane");
    else if (error == WS_ERROR_TEXT)
        refuse(connection, WS_CODE_UNSUPPORTED_DATA, "a request must be a binary WebSocket message (proto/WIRE.md)");
    else if (error == WS_ERROR_FRAME_SIZE)
        refuse(connection, WS_CODE_TOO_BIG, "a WebSocket frame may have at most 1 MiB");
    else if (error == WS_ERROR_MESSAGE_SIZE)
        refuse(connection, WS_CODE_TOO_BIG, "a request may have at most 16 MiB");
    else
        refuse(connection, ws_error_code(error), ws_error_sentence(error));
}

static void take(struct connection *connection, const struct ws_event *event) {
    switch (event->kind) {
    case WS_DATA: /* the other kinds of events do not set the fields of a message */
        take_data(connection, &(struct span){event->data, event->size, event->frame_rest, event->begins_message,
                                             event->ends_message});
        break;
    case WS_GOT_PING:
        send_pong(connection, event);
        break;
    case WS_GOT_CLOSE:
        end(connection, event->code, "");
        break;
    case WS_FAILED:
        fail(connection, event->error);
        break;
    case WS_GOT_PONG:
    case WS_NEEDS_MORE:
        break;
    }
}

static void take_sp(struct connection *connection, const struct sp_event *event) {
    switch (event->kind) {
    case SP_DATA: /* the other kinds of events do not set the fields of a message */
        take_data(connection,
                  &(struct span){event->data, event->size, event->rest, event->begins_message, event->ends_message});
        break;
    case SP_TOO_LARGE:
        refuse(connection, WS_CODE_TOO_BIG, "a request may have at most 16 MiB");
        break;
    case SP_MALFORMED:
        refuse(connection, WS_CODE_PROTOCOL_ERROR, "a message over IPC must begin with a byte 1 (proto/WIRE.md)");
        break;
    case SP_NEEDS_MORE:
        break;
    }
}

/* Decodes up to the next event. Returns the number of decoded bytes. */
static size_t decode_one(struct connection *connection, uint8_t *bytes, size_t size) {
    size_t used;
    if (connection->ws.framing == FRAMING_SP) {
        struct sp_event event;
        used = sp_decode(&connection->ws.sp, bytes, size, &event);
        take_sp(connection, &event);
    } else {
        struct ws_event event;
        used = ws_decode(&connection->ws.frames, bytes, size, &event);
        take(connection, &event);
    }
    return used;
}

/* Decodes until the connection is paused or ends. Returns the number of decoded bytes. */
static size_t decode(struct connection *connection, uint8_t *bytes, size_t size) {
    size_t at = 0;
    while (at < size && connection->state == STATE_OPEN && !connection->is_paused)
        at += decode_one(connection, bytes + at, size - at);
    return connection->state == STATE_OPEN ? at : size;
}

void ws_received(struct connection *connection, uint8_t *bytes, size_t size) {
    assert(connection->ws.rest == NULL); /* nothing is read while undecoded bytes are left */
    size_t at = decode(connection, bytes, size);
    if (at == size) return;
    struct message *rest = message_new(size - at);
    if (rest == NULL) {
        connection_kill(connection);
        return;
    }
    memcpy(rest->bytes, bytes + at, size - at);
    door_hold(connection->door, rest->capacity);
    connection->ws.rest = rest;
}

void ws_go_on(struct connection *connection) {
    struct message *rest = connection->ws.rest;
    if (connection->is_paused) return; /* io_regulate calls ws_go_on again when the pause ends */
    size_t at = decode(connection, rest->bytes, rest->size);
    if (connection->ws.rest == NULL) return; /* the connection has ended */
    rest->size -= at;
    memmove(rest->bytes, rest->bytes + at, rest->size);
    if (rest->size > 0) return;
    connection->ws.rest = NULL;
    door_release(connection->door, rest->capacity);
    message_free(rest);
}

static void begin_lane(struct connection *connection) {
    const struct door_calls *calls = &connection->door->calls;
    struct socket_of_messages *ws = &connection->ws;
    ws->is_up = calls->lane_up(calls->argument, ws->lane, ws->holder, connection->id);
    if (!ws->is_up) connection_kill(connection);
}

/* Tells the client the ticket of its connection. The connection ends if no session attaches its lane in time. */
static void send_ticket(struct connection *connection) {
    struct door *door = connection->door;
    uint8_t *ticket = connection->ws.ticket;
    memcpy(ticket, &connection->id, sizeof(connection->id));
    struct message *message = NULL;
    if (getentropy(ticket + sizeof(connection->id), DOOR_TICKET_RANDOM) == 0)
        message = door->calls.lane_ticket(door->calls.argument, ticket, DOOR_TICKET_SIZE);
    if (message == NULL) {
        connection_kill(connection);
        return;
    }
    message->kind = ORDER_TICKET;
    io_queue(connection, message);
    deadline_arm(&door->deadlines, &connection->deadline, door->now_us + DOOR_HEAD_S * DOOR_US_PER_S);
}

struct caller_verdict door_attach(struct door *door, const void *ticket, size_t ticket_size, uint32_t lane,
                                  const void *secret, size_t secret_size) {
    static const struct caller_verdict unknown = {
        .status = 404, .sentence = "no connection waits with this ticket: attach the newest one that PULL received"};
    static const struct caller_verdict wrong = {.status = 401,
                                                .sentence =
                                                    "the secret is not that of the session that owns this lane"};
    uint64_t id = 0;
    char authorization[sizeof("Bearer ") + 2 * DOOR_SECRET_MAX], path[sizeof("/lane/12345")];
    if (ticket_size != DOOR_TICKET_SIZE) return unknown;
    memcpy(&id, ticket, sizeof(id));
    struct connection *connection = connection_find(door, id);
    bool is_known = connection != NULL && connection->state == STATE_OPEN && connection->kind == KIND_LANE &&
                    connection->ws.holder == 0 && CRYPTO_memcmp(connection->ws.ticket, ticket, DOOR_TICKET_SIZE) == 0;
    if (!is_known) return unknown;
    if (lane >= LANES_MAX || secret_size > DOOR_SECRET_MAX) return wrong;
    int size = snprintf(authorization, sizeof(authorization), "Bearer ");
    for (size_t i = 0; i < secret_size; i++)
        size += snprintf(authorization + size, 3, "%02x", ((const uint8_t *)secret)[i]);
    uint64_t holder = door->calls.lane_asks(door->calls.argument, lane, authorization);
    explicit_bzero(authorization, sizeof(authorization));
    if (holder == 0) return wrong;
    snprintf(path, sizeof(path), "/lane/%u", lane);
    struct caller_verdict verdict = connection_admit(connection, CALLER_LANE, path, holder, "", 0);
    if (verdict.status != 0) return verdict;
    connection->ws.lane = lane;
    connection->ws.holder = holder;
    deadline_cancel(&connection->deadline);
    begin_lane(connection);
    return connection->ws.is_up ? verdict : wrong;
}

void ws_begin(struct connection *connection, const struct upgrade *upgrade) {
    struct door *door = connection->door;
    struct socket_of_messages *ws = &connection->ws;
    connection->kind = upgrade->kind;
    ws->framing = upgrade->framing;
    ws->lane = upgrade->lane;
    ws->holder = upgrade->holder;
    if (ws->framing == FRAMING_SP)
        sp_decoder_init(&ws->sp, sp_transport_of(connection), door->limits.request_max);
    else
        ws_decoder_init(&ws->frames, WS_SERVER, DOOR_FRAME_MAX, door->limits.request_max);
    if (upgrade->size > 0) {
        ws->rest = message_new(upgrade->size);
        if (ws->rest == NULL) {
            connection_kill(connection);
            return;
        }
        memcpy(ws->rest->bytes, upgrade->bytes, upgrade->size);
        door_hold(door, ws->rest->capacity);
    }
    if (connection->kind == KIND_LANE && ws->holder != 0)
        begin_lane(connection);
    else if (connection->kind == KIND_LANE)
        send_ticket(connection);
    bool was_paused = connection->is_paused;
    io_regulate(connection);
    if (ws->rest != NULL && !connection->is_paused && !was_paused) ws_go_on(connection);
}
