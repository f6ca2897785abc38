/* door_stream.c: connections that speak a byte-stream protocol; see door_stream.h.
 *
 * libwebsockets gets outgoing data piece by piece, and the next piece when the kernel has all of the one before (as in
 * door_ws.c). So the door knows to the byte what was sent. While the library holds a piece, the door does not read from
 * the connection, because the library would not read, and new input would wake the thread again and again. */
#include "door_stream.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#include "door_parts.h"
#include "origin.h"

#define PIECES_IN_A_ROW 16
/* Maximum time for the client to close a finished connection. */
#define LINGER_US (2 * LWS_USEC_PER_SEC)
#define MARK 0x80u /* used by door_first.c */

static struct connection *find(struct door *door, uint64_t id) {
    struct connection *connection = connection_find(door, id);
    bool is_there = connection != NULL && connection->kind == CONNECTION_STREAM && !connection->is_gone;
    return is_there && connection->wsi != NULL ? connection : NULL;
}

static void regulate(struct connection *connection) {
    bool hears = !connection->asks_pause && !connection->has_ended;
    bool pauses = (!hears && !connection->lingers) || lws_partial_buffered(connection->wsi) ||
                  connection->out_bytes >= DOOR_UNSENT_MAX || atomic_load(&connection->door->stopping);
    if (pauses == connection->paused) return;
    connection->paused = pauses;
    lws_rx_flow_control(connection->wsi, !pauses);
}

/* ---- outgoing */

/* Returns the bytes that a message counts, with its header, because replies may be short and many. */
static size_t weight_of(const struct message *message) {
    return message->capacity + sizeof(*message);
}

static void drop_first(struct connection *connection, bool left) {
    struct message *message = connection->out_first;
    connection->out_first = message->next;
    if (connection->out_first == NULL) connection->out_last = &connection->out_first;
    connection->out_at = 0;
    connection->out_bytes -= message->size;
    if (!connection->gives_way) connection->door->unread_size -= weight_of(message);
    const struct door_stream_calls *speaks = connection->speaks;
    if (message->stamp != 0) speaks->sent(speaks->argument, message->stamp, left);
    door_done(connection->door, message);
}

static void hold_no_half(struct connection *connection) {
    struct door *door = connection->door;
    door_release(door, connection->half_size);
    if (connection->is_half) door->halves_size -= connection->half_size;
    pressure_half_is_nothing(connection);
    connection->half_size = connection->incoming_size = 0;
}

static void keep_nothing(struct connection *connection) {
    door_release(connection->door, connection->kept_size);
    connection->kept_size = 0;
    pressure_keeps(connection);
}

void stream_give_way(struct connection *connection) {
    connection->gives_way = true;
    for (const struct message *message = connection->out_first; message != NULL; message = message->next)
        connection->door->unread_size -= weight_of(message);
    pressure_is_read(connection);
    hold_no_half(connection);
    keep_nothing(connection);
    lws_sul_cancel(&connection->unread);
    lws_sul_cancel(&connection->too_late);
}

void stream_drop_out(struct connection *connection) {
    void *stream = connection->stream;
    hold_no_half(connection);
    keep_nothing(connection);
    turns_leave(connection);
    connection->stream = NULL;
    connection->is_gone = true;
    if (stream != NULL) connection->speaks->gone(stream);
    while (connection->out_first != NULL) drop_first(connection, connection->out_at > 0);
}

static void on_unread(lws_sorted_usec_list_t *timer) {
    struct connection *connection = lws_container_of(timer, struct connection, unread);
    const struct door_calls *calls = &connection->door->calls;
    if (!connection->lingers) calls->refused(calls->argument, connection->peer, 408, "it does not read its answers");
    connection_kill(connection);
}

/* Stops sending, but keeps the socket open for a while. If the client still sends to a closed socket, it may lose
 * replies that it has not read yet. */
static void linger(struct connection *connection) {
    connection->lingers = true;
    lws_sul_cancel(&connection->too_late);
    if (!connection->over_tls) (void)shutdown(lws_get_socket_fd(connection->wsi), SHUT_WR);
    lws_sul_schedule(connection->door->context, 0, &connection->unread, on_unread, LINGER_US);
    regulate(connection);
}

/* Starts the timeout for unread replies, if there are any. */
static void begin_to_wait(struct connection *connection) {
    if (connection->out_first != NULL)
        lws_sul_schedule(connection->door->context, 0, &connection->unread, on_unread,
                         (lws_usec_t)DOOR_UNREAD_S * LWS_USEC_PER_SEC);
    else if (!connection->lingers)
        lws_sul_cancel(&connection->unread);
    pressure_is_read(connection);
}

/* Sends as much as the kernel takes; `tells`: calls `drained` when all is sent. False: the connection is broken. */
static bool write_some(struct connection *connection, bool tells) {
    struct lws *wsi = connection->wsi;
    bool had_some = connection->out_first != NULL;
    for (int pieces = 0; connection->out_first != NULL; pieces++) {
        struct message *message = connection->out_first;
        if (lws_partial_buffered(wsi) || pieces == PIECES_IN_A_ROW) {
            lws_callback_on_writable(wsi);
            break;
        }
        size_t rest = message->size - connection->out_at, part = rest < DOOR_FRAME_OUT ? rest : DOOR_FRAME_OUT;
        if (part == 0) {
            drop_first(connection, true);
            continue;
        }
        uint8_t *bytes = message->bytes + connection->out_at;
        connection->out_at += part; /* count before the write: if it fails, a part may have left */
        if (lws_write(wsi, bytes, part, LWS_WRITE_RAW) < 0) return false;
    }
    begin_to_wait(connection);
    regulate(connection);
    if (connection->out_first != NULL || connection->lingers) return true;
    if (connection->finishes)
        linger(connection);
    else if (tells && had_some && connection->stream != NULL)
        connection->speaks->drained(connection->stream);
    return true;
}

void door_stream_send(struct door *door, uint64_t id, struct message *message) {
    struct connection *connection = find(door, id);
    message->next = NULL;
    message->kind = ORDER_ANSWER;
    door_hold(door, message->capacity);
    atomic_fetch_add(&door->queued, 1);
    if (connection == NULL || connection->finishes || connection->gives_way) {
        const struct door_stream_calls *speaks = connection != NULL ? connection->speaks : NULL;
        if (speaks != NULL && message->stamp != 0) speaks->sent(speaks->argument, message->stamp, false);
        door_done(door, message);
        return;
    }
    *connection->out_last = message;
    connection->out_last = &message->next;
    connection->out_bytes += message->size;
    door->unread_size += weight_of(message);
    regulate(connection);
    bool is_idle = connection->out_first->next == NULL;
    if (!is_idle || lws_send_pipe_choked(connection->wsi)) {
        lws_callback_on_writable(connection->wsi);
        if (is_idle) begin_to_wait(connection);
    } else if (!write_some(connection, false)) {
        connection_kill(connection);
    }
    pressure_bound_unread(door);
}

size_t door_stream_unsent(struct door *door, uint64_t id) {
    const struct connection *connection = find(door, id);
    return connection != NULL ? connection->out_bytes : 0;
}

/* ---- requests of a protocol */

void door_stream_pause(struct door *door, uint64_t id, bool pause) {
    struct connection *connection = find(door, id);
    if (connection == NULL) return;
    connection->asks_pause = pause;
    regulate(connection);
}

void door_stream_finish(struct door *door, uint64_t id) {
    struct connection *connection = find(door, id);
    if (connection == NULL) return;
    connection->finishes = true;
    lws_callback_on_writable(connection->wsi);
}

void door_stream_kill(struct door *door, uint64_t id) {
    struct connection *connection = find(door, id);
    if (connection != NULL) connection_kill(connection);
}

static void on_too_late(lws_sorted_usec_list_t *timer) {
    struct connection *connection = lws_container_of(timer, struct connection, too_late);
    connection_kill(connection);
}

void door_stream_deadline(struct door *door, uint64_t id, uint64_t after_ms) {
    struct connection *connection = find(door, id);
    if (connection == NULL || connection->lingers) return;
    if (after_ms == 0)
        lws_sul_cancel(&connection->too_late);
    else
        lws_sul_schedule(door->context, 0, &connection->too_late, on_too_late,
                         (lws_usec_t)after_ms * (LWS_USEC_PER_SEC / 1000));
}

bool door_stream_half(struct door *door, uint64_t id, size_t size, bool is_small) {
    struct connection *connection = connection_find(door, id);
    bool is_there = connection != NULL && !connection->is_gone && !connection->gives_way;
    if (!is_there) return size == 0; /* its held bytes are already released */
    if (size == 0) {
        hold_no_half(connection);
        return true;
    }
    while (!is_small && atomic_load(&door->held) - connection->half_size + size > door->limits.held_max)
        if (!pressure_end_silent_half(connection)) return false;
    if (!connection->is_half) {
        door->halves_size += connection->half_size;
        pressure_half_comes_on(connection);
    }
    pressure_half_grows(connection, connection->half_size, size);
    connection->half_size = size;
    pressure_bound_halves(connection);
    return true;
}

void door_stream_whole(struct door *door, uint64_t id) {
    struct connection *connection = connection_find(door, id);
    if (connection == NULL || !connection->is_half) return;
    door->halves_size -= connection->half_size;
    pressure_half_is_nothing(connection);
}

bool door_stream_count(struct door *door, uint64_t id, size_t size) {
    struct connection *connection = connection_find(door, id);
    if (connection == NULL || connection->is_gone) return size == 0;
    return pressure_count(connection, size);
}

bool door_stream_keep(struct door *door, uint64_t id, size_t size) {
    struct connection *connection = connection_find(door, id);
    if (connection == NULL || connection->is_gone || connection->gives_way) return size == 0;
    bool grows = size > connection->kept_size;
    while (grows && atomic_load(&door->held) - connection->kept_size + size > door->limits.held_max)
        if (!pressure_end_silent_half(connection)) return false;
    door_hold(door, size);
    door_release(door, connection->kept_size);
    connection->kept_size = size;
    if (!grows || !connection->is_keeper) pressure_keeps(connection);
    return true;
}

bool door_stream_hold(struct door *door, int64_t bytes) {
    if (bytes < 0) {
        door_release(door, (size_t)-bytes);
        return true;
    }
    if (atomic_load(&door->held) + (size_t)bytes > door->limits.held_max) return false;
    door_hold(door, (size_t)bytes);
    return true;
}

struct caller_verdict door_stream_admit(struct door *door, uint64_t id, enum caller_place place, const char *path,
                                        const char *token, size_t token_size) {
    struct connection *connection = find(door, id);
    if (connection == NULL) return (struct caller_verdict){.status = 401, .sentence = "the connection has gone"};
    struct caller_verdict verdict = http_admit(connection, place, path, token, token_size);
    if (verdict.status == 0) connection_leave_http(connection);
    return verdict;
}

bool door_stream_origin(struct door *door, uint64_t id, const char *origin, const char *host, bool shows_token) {
    const struct connection *connection = find(door, id);
    const char *allowed = door->limits.origins;
    if (origin_is_allowed(origin, allowed)) return true;
    return connection != NULL && host != NULL &&
           origin_is_own(origin, connection->over_tls, host, shows_token, allowed);
}

bool door_stream_host(struct door *door, uint64_t id, const char *host) {
    const struct connection *connection = find(door, id);
    return connection != NULL && http_host_is_ours(connection, host);
}

void door_stream_refused(struct door *door, uint64_t id, unsigned status, const char *sentence) {
    const struct connection *connection = find(door, id);
    if (connection != NULL) door->calls.refused(door->calls.argument, connection->peer, status, sentence);
}

bool door_stream_page(struct door *door, uint64_t id, const char *path) {
    struct connection *connection = find(door, id);
    if (connection == NULL || connection->speaks->page == NULL) return false;
    return door->calls.page(door->calls.argument, id, path);
}

/* Handles the client's shutdown while replies are sent. The end of input is not read again, because it stays readable
 * and would wake the thread forever. */
bool stream_ended(struct connection *connection) {
    bool is_told = connection->has_ended || connection->lingers || connection->gives_way;
    if (is_told || connection->stream == NULL || connection->speaks->ended == NULL) return false;
    connection->has_ended = true;
    bool goes_on = connection->finishes || connection->speaks->ended(connection->stream);
    regulate(connection);
    return goes_on;
}

void stream_answer(struct connection *connection, struct message *page) {
    struct door *door = connection->door;
    assert(page->kind == ORDER_PAGE);   /* a stream gets replies and deliveries only through its protocol */
    door_release(door, page->capacity); /* its protocol sends it as a new message */
    atomic_fetch_sub(&door->queued, 1);
    if (connection->stream != NULL)
        connection->speaks->page(connection->stream, page);
    else
        message_free(page);
}

/* ---- events */

static int begin(struct connection *connection) {
    if (connection->kind == CONNECTION_STREAM) return 0;
    if (connection->speaks == NULL) connection->speaks = connection->door->limits.http;
    connection->kind = CONNECTION_STREAM;
    lws_set_timeout(connection->wsi, NO_PENDING_TIMEOUT, 0);
    connection->stream = connection->speaks->opened(connection->speaks->argument, connection->id, connection->peer);
    return connection->stream != NULL ? 0 : -1;
}

static void received(struct connection *connection, uint8_t *bytes, size_t size) {
    if (connection->is_diverted) bytes[0] &= (uint8_t)~MARK;
    connection->is_diverted = false;
    size_t before = connection->incoming_size;
    connection->incoming_size += size;
    if (connection->is_half && connection->incoming_size / DOOR_FRAME_OUT > before / DOOR_FRAME_OUT)
        pressure_half_comes_on(connection);
    if (connection->stream != NULL && !connection->finishes && !connection->gives_way && size > 0)
        connection->speaks->received(connection->stream, bytes, size);
}

int stream_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size) {
    switch (reason) {
    case LWS_CALLBACK_RAW_ADOPT:
        return begin(connection);
    case LWS_CALLBACK_RAW_RX:
        if (connection->is_gone) return -1;
        received(connection, in, size);
        return 0;
    case LWS_CALLBACK_RAW_WRITEABLE:
        return connection->is_gone || connection->gives_way || !write_some(connection, true) ? -1 : 0;
    case LWS_CALLBACK_RAW_CLOSE:
        stream_drop_out(connection);
        return 0;
    default:
        return 0;
    }
}
