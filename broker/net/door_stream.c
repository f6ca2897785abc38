/* door_stream.c: connections that speak a byte-stream protocol; see door_stream.h. */
#include "door_stream.h"

#include <stdlib.h>

#include "door_parts.h"
#include "origin.h"

#define TLS_HANDSHAKE 0x16 /* first byte of a TLS connection: the type of its first record */
#define SP_FIRST 0

static struct connection *find(struct door *door, uint64_t id) {
    struct connection *connection = connection_find(door, id);
    bool is_there = connection != NULL && connection->kind == KIND_STREAM && connection->stream.upgrade == NULL;
    return is_there && connection->stream.state != NULL && connection->state != STATE_DEAD ? connection : NULL;
}

bool stream_is_paused(const struct connection *connection) {
    return connection->stream.asks_pause || connection->has_ended || connection->out_bytes >= DOOR_UNSENT_MAX;
}

static void hold_no_half(struct connection *connection) {
    struct door *door = connection->door;
    struct stream *stream = &connection->stream;
    door_release(door, stream->half_size);
    if (LISTED(connection, in_halves)) door->halves_size -= stream->half_size;
    pressure_half_is_nothing(connection);
    stream->half_size = stream->received_size = 0;
}

static void keep_nothing(struct connection *connection) {
    door_release(connection->door, connection->stream.kept_size);
    connection->stream.kept_size = 0;
    pressure_keeps(connection);
}

void stream_let_go(struct connection *connection) {
    struct door *door = connection->door;
    door->unread_size -= connection->out_weight;
    connection->out_weight = 0;
    UNLIST(&door->unread, connection, in_unread);
    hold_no_half(connection);
    keep_nothing(connection);
}

void stream_gone(struct connection *connection) {
    void *state = connection->stream.state;
    stream_let_go(connection);
    turns_leave(connection);
    free(connection->stream.upgrade);
    connection->stream.upgrade = NULL;
    connection->stream.state = NULL;
    if (state != NULL) connection->speaks->gone(state);
    (void)pressure_count(connection, 0);
}

bool stream_begin(struct connection *connection) {
    const struct door_stream_calls *speaks = connection->speaks;
    connection->stream.state = speaks->opened(speaks->argument, connection->id, connection->peer);
    return connection->stream.state != NULL;
}

/* Chooses the protocol by the connection's first byte, at a listener of HTTP. The byte 0 begins a hello of nng's own
 * transports; no HTTP request begins with it. (A choice of AMQP by its first bytes "AMQP" would belong here.)
 * beanstalkd's commands are not recognized: docs/DESIGN.md gives the reason. Returns false if the connection ends. */
static bool choose(struct connection *connection, uint8_t first) {
    const struct door *door = connection->door;
    connection->stream.has_begun = true;
    if (connection->speaks != door->limits.http) return true;
    if (first == TLS_HANDSHAKE) {
        door->calls.refused(door->calls.argument, connection->peer, 400,
                            "the client speaks TLS, which this address does not: connect to a wss:// address");
        connection_kill(connection);
    } else if (first == SP_FIRST) {
        stream_gone(connection);
        connection->speaks = &door->sp;
        if (!stream_begin(connection)) connection_kill(connection);
    }
    return connection->state == STATE_OPEN;
}

void stream_received(struct connection *connection, const uint8_t *bytes, size_t size) {
    struct stream *stream = &connection->stream;
    if (!stream->has_begun && !choose(connection, bytes[0])) return;
    size_t before = stream->received_size;
    stream->received_size += size;
    if (LISTED(connection, in_halves) && stream->received_size / DOOR_FRAME_OUT > before / DOOR_FRAME_OUT)
        pressure_half_comes_on(connection);
    connection->speaks->received(stream->state, bytes, size);
}

/* The end of input is not read again, because it stays readable and would wake the thread forever. */
bool stream_ended(struct connection *connection) {
    const struct door_stream_calls *speaks = connection->speaks;
    if (connection->has_ended || connection->stream.upgrade != NULL || speaks->ended == NULL) return false;
    connection->has_ended = true;
    bool goes_on = speaks->ended(connection->stream.state);
    io_regulate(connection);
    return goes_on;
}

void stream_drained(struct connection *connection) {
    struct stream *stream = &connection->stream;
    if (!stream->awaits_drain || stream->upgrade != NULL) return;
    stream->awaits_drain = false;
    connection->speaks->drained(stream->state);
}

void stream_answer(struct connection *connection, struct message *page) {
    struct door *door = connection->door;
    bool is_there = find(door, connection->id) != NULL;
    door_release(door, page->capacity); /* the connection's protocol sends the page as a new message */
    atomic_fetch_sub(&door->queued, 1);
    if (is_there)
        connection->speaks->page(connection->stream.state, page);
    else
        message_free(page);
}

/* ---- requests of a protocol */

void door_stream_send(struct door *door, uint64_t id, struct message *message) {
    struct connection *connection = find(door, id);
    if (connection != NULL && connection->state == STATE_OPEN) {
        message->kind = ORDER_BYTES;
        io_queue(connection, message);
        return;
    }
    if (connection == NULL) connection = connection_find(door, id); /* the connection has ended, but is not freed yet */
    if (connection != NULL && message->stamp != 0)
        connection->speaks->sent(connection->speaks->argument, message->stamp, false);
    message_free(message);
}

size_t door_stream_unsent(struct door *door, uint64_t id) {
    struct connection *connection = find(door, id);
    if (connection == NULL) return 0;
    connection->stream.awaits_drain = connection->out_first != NULL;
    return connection->out_bytes;
}

void door_stream_pause(struct door *door, uint64_t id, bool pause) {
    struct connection *connection = find(door, id);
    if (connection == NULL) return;
    connection->stream.asks_pause = pause;
    io_regulate(connection);
}

void door_stream_finish(struct door *door, uint64_t id) {
    struct connection *connection = find(door, id);
    if (connection != NULL) io_finish(connection);
}

void door_stream_kill(struct door *door, uint64_t id) {
    struct connection *connection = find(door, id);
    if (connection != NULL) connection_kill(connection);
}

void door_stream_deadline(struct door *door, uint64_t id, uint64_t after_ms) {
    struct connection *connection = connection_find(door, id);
    if (connection == NULL || connection->kind != KIND_STREAM || connection->state != STATE_OPEN) return;
    if (after_ms == 0)
        deadline_cancel(&connection->deadline);
    else
        deadline_arm(&door->deadlines, &connection->deadline, door->now_us + after_ms * DOOR_US_PER_MS);
}

struct connection *stream_find_alive(struct door *door, uint64_t id) {
    struct connection *connection = connection_find(door, id);
    bool is_there = connection != NULL && connection->kind == KIND_STREAM && connection->state != STATE_DEAD;
    return is_there ? connection : NULL;
}

bool door_stream_half(struct door *door, uint64_t id, size_t size, bool is_small) {
    struct connection *connection = stream_find_alive(door, id);
    if (connection == NULL) return size == 0;
    struct stream *stream = &connection->stream;
    if (size == 0) {
        hold_no_half(connection);
        return true;
    }
    while (!is_small && atomic_load(&door->held) - stream->half_size + size > door->limits.held_max)
        if (!pressure_end_silent_half(connection)) return false;
    if (!LISTED(connection, in_halves)) {
        door->halves_size += stream->half_size;
        pressure_half_comes_on(connection);
    }
    pressure_half_grows(connection, stream->half_size, size);
    stream->half_size = size;
    pressure_bound_halves(connection);
    return true;
}

void door_stream_whole(struct door *door, uint64_t id) {
    struct connection *connection = stream_find_alive(door, id);
    if (connection == NULL || !LISTED(connection, in_halves)) return;
    door->halves_size -= connection->stream.half_size;
    pressure_half_is_nothing(connection);
}

bool door_stream_count(struct door *door, uint64_t id, size_t size) {
    /* A connection that has ended must still end the counting of its bytes, so search for ended connections too. */
    struct connection *connection = connection_find(door, id);
    if (connection == NULL || (connection->state == STATE_DEAD && size > 0)) return size == 0;
    return pressure_count(connection, size);
}

bool door_stream_keep(struct door *door, uint64_t id, size_t size) {
    struct connection *connection = stream_find_alive(door, id);
    if (connection == NULL) return size == 0;
    struct stream *stream = &connection->stream;
    bool grows = size > stream->kept_size;
    while (grows && atomic_load(&door->held) - stream->kept_size + size > door->limits.held_max)
        if (!pressure_end_silent_half(connection)) return false;
    door_hold(door, size);
    door_release(door, stream->kept_size);
    stream->kept_size = size;
    if (!grows || !LISTED(connection, in_keepers)) pressure_keeps(connection);
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
    /* A protocol may call door_stream_admit from its callback `opened`. At that time stream.state is not set, so `find`
     * would find no connection. */
    struct connection *connection = connection_find(door, id);
    if (connection == NULL || connection->state == STATE_DEAD)
        return (struct caller_verdict){.status = 401, .sentence = "the connection has ended"};
    return connection_admit(connection, place, path, 0, token, token_size);
}

bool door_stream_origin(struct door *door, uint64_t id, const char *origin, const char *host, bool shows_token) {
    const struct connection *connection = find(door, id);
    const char *allowed = door->limits.origins;
    if (origin_is_allowed(origin, allowed)) return true;
    return connection != NULL && host != NULL &&
           origin_is_own(origin, connection->over_tls, host, shows_token, allowed);
}

const char door_host_refused[] =
    "the broker does not know the name in the Host header, which a hostile web page may have chosen: send a token, use "
    "the broker's IP address or localhost, or start tarryd with --allow-origin";

/* Checks the Host field, only for plain HTTP from this machine. In other cases a web page cannot use a forged name:
 * over the network every client shows a token, and TLS has verified the name. */
bool door_stream_host(struct door *door, uint64_t id, const char *host) {
    const struct connection *connection = find(door, id);
    if (connection == NULL) return false;
    if (connection->way != CALLER_LOOPBACK || connection->over_tls || host == NULL) return true;
    return origin_host_is_ours(host, door->limits.origins);
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
