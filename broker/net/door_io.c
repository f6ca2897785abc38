/* door_io.c: the sockets of connections: epoll, TLS, reading, and the queue of outgoing messages.
 *
 * epoll is level-triggered: it reports a connection again and again while the kernel has bytes for it. So the door may
 * stop reading a paused connection, or one whose turn has ended, and epoll reports it later. But epoll does not know
 * bytes in OpenSSL's buffer, or bytes that door_ws.c has not decoded yet. Connections with such bytes are in the list
 * `again`.
 *
 * Messages of all connections are queued first, and written at the end of the step: many replies of a connection are
 * sent with one sendmsg(2), or in one TLS record. A message counts as sent when its last byte is in the kernel, and as
 * not sent if no byte of it was passed on (TRUE-1).
 *
 * OpenSSL reads and writes the socket itself (SSL_set_fd): a record is in the kernel when SSL_write returns. (With
 * memory BIOs, each record would be copied once more, and the door would have to track which message ends in which
 * record.) A record that the kernel took in part must be offered again unchanged. The queue yields the same bytes,
 * because a message whose sending has begun is never withdrawn. */
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "door_parts.h"

/* Maximum number of pieces, and of bytes, in one write. */
#define PIECES_MAX 64
#define WRITE_MAX (256u << 10)
/* Maximum number of writes to a connection before other connections get their turn. */
#define WRITES_IN_A_ROW 4
/* Maximum time for the client to close a finished connection. */
#define LINGER_US (2 * DOOR_US_PER_S)

static_assert(WS_HEAD_MAX + MESSAGE_HEAD_MAX <= MESSAGE_ROOM, "a frame's header and a backtrace fit into MESSAGE_ROOM");
static_assert(SP_HEAD_MAX <= WS_HEAD_MAX, "so does a header of nng's own transports");

/* ---- events */

static uint32_t events_of(const struct connection *connection) {
    uint32_t events = connection->is_blocked ? EPOLLOUT : 0;
    bool reads = connection->state == STATE_HANDSHAKE || connection->state == STATE_LINGERS ||
                 (connection->state == STATE_OPEN && !connection->is_paused);
    return reads ? events | EPOLLIN : events;
}

static void update(struct connection *connection) {
    struct epoll_event event = {.events = events_of(connection), .data.ptr = connection};
    if (connection->state == STATE_DEAD || event.events == connection->waits_for) return;
    connection->waits_for = event.events;
    /* EPOLL_CTL_MOD cannot fail, because the connection's descriptor is registered. */
    (void)epoll_ctl(connection->door->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

static void on_deadline(struct deadline *timer) {
    struct connection *connection = (struct connection *)((char *)timer - offsetof(struct connection, deadline));
    const struct door_calls *calls = &connection->door->calls;
    const char *sentence = NULL;
    if (connection->kind == KIND_RPC) sentence = "the client did not finish its request in time";
    if (connection->kind == KIND_LANE && connection->ws.holder == 0)
        sentence = "the client did not attach a lane to its PULL connection in time";
    if (connection->state == STATE_OPEN && sentence != NULL)
        calls->refused(calls->argument, connection->peer, 408, sentence);
    connection_kill(connection);
}

static void on_unread(struct deadline *timer) {
    struct connection *connection = (struct connection *)((char *)timer - offsetof(struct connection, unread));
    const struct door_calls *calls = &connection->door->calls;
    calls->refused(calls->argument, connection->peer, 408, "the client does not read its replies");
    connection_kill(connection);
}

bool io_open(struct connection *connection) {
    struct door *door = connection->door;
    connection->state = connection->over_tls ? STATE_HANDSHAKE : STATE_OPEN;
    connection->deadline.fire = on_deadline;
    connection->unread.fire = on_unread;
    if (connection->over_tls) {
        connection->ssl = SSL_new(door->tls);
        if (connection->ssl == NULL || SSL_set_fd(connection->ssl, connection->fd) != 1) return false;
        SSL_set_accept_state(connection->ssl);
        deadline_arm(&door->deadlines, &connection->deadline, door->now_us + DOOR_HEAD_S * DOOR_US_PER_S);
    }
    connection->waits_for = EPOLLIN;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    return epoll_ctl(door->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) == 0;
}

/* Frees OpenSSL's state after an error; nothing may be sent or received any more. */
static void break_tls(struct connection *connection) {
    SSL_free(connection->ssl);
    connection->ssl = NULL;
    ERR_clear_error();
}

void io_close(struct connection *connection) {
    struct door *door = connection->door;
    deadline_drop(&door->deadlines, &connection->deadline);
    deadline_drop(&door->deadlines, &connection->unread);
    UNLIST(&door->dirty, connection, in_dirty);
    UNLIST(&door->again, connection, in_again);
    if (connection->ssl != NULL && !SSL_in_init(connection->ssl)) (void)SSL_shutdown(connection->ssl);
    break_tls(connection);
    /* This also removes the socket from the epoll set, because no other descriptor names the socket. */
    close(connection->fd);
}

/* ---- TLS */

/* Returns "http/1.1" if the client offers it (ALPN). Otherwise the offer is ignored, as without TLS. */
static int choose_protocol(SSL *ssl, const uint8_t **out, uint8_t *out_size, const uint8_t *offered, unsigned size,
                           void *argument) {
    static const uint8_t known[] = "\x08http/1.1";
    uint8_t *chosen;
    if (SSL_select_next_proto(&chosen, out_size, known, sizeof(known) - 1, offered, size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

bool io_begin(struct door *door) {
    struct tls *tls = door->limits.tls;
    if (tls == NULL || !tls_has_certificate(tls)) return true;
    door->tls = SSL_CTX_new(TLS_server_method());
    if (door->tls == NULL) return false;
    SSL_CTX_set_mode(door->tls,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    /* With this setting OpenSSL reads a whole TLS record with one read(2). Otherwise it needs two: the record's header
     * and its content. */
    SSL_CTX_set_read_ahead(door->tls, 1);
    SSL_CTX_set_alpn_select_cb(door->tls, choose_protocol, NULL);
    return tls_serve(tls, door->tls);
}

enum progress { PROGRESS_SOME, PROGRESS_WAITS, PROGRESS_ENDED, PROGRESS_BROKEN };

/* Returns how an OpenSSL operation ended that has not succeeded. Sets is_blocked if it waits until the socket can be
 * written. */
static enum progress judge_tls(struct connection *connection, int result) {
    switch (SSL_get_error(connection->ssl, result)) {
    case SSL_ERROR_WANT_WRITE:
        connection->is_blocked = true;
        return PROGRESS_WAITS;
    case SSL_ERROR_WANT_READ:
        return PROGRESS_WAITS;
    case SSL_ERROR_ZERO_RETURN:
        return PROGRESS_ENDED;
    default:
        break_tls(connection);
        return PROGRESS_BROKEN;
    }
}

static void shake_hands(struct connection *connection) {
    ERR_clear_error();
    int result = SSL_do_handshake(connection->ssl);
    if (result != 1) {
        if (judge_tls(connection, result) != PROGRESS_WAITS) connection_kill(connection);
        return;
    }
    connection->state = STATE_OPEN;
    deadline_cancel(&connection->deadline);
    if (!stream_begin(connection))
        connection_kill(connection);
    else if (SSL_has_pending(connection->ssl)) /* a request came together with the last handshake bytes */
        LIST_LAST(&connection->door->again, connection, in_again);
}

/* ---- incoming */

static enum progress read_plain(const struct connection *connection, uint8_t *bytes, size_t *out_size) {
    ssize_t size = recv(connection->fd, bytes, DOOR_READ_SIZE, 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR ? PROGRESS_WAITS : PROGRESS_BROKEN;
    *out_size = (size_t)size;
    return size > 0 ? PROGRESS_SOME : PROGRESS_ENDED;
}

/* Reads the records that have arrived, until the buffer is full. */
static enum progress read_tls(struct connection *connection, uint8_t *bytes, size_t *out_size) {
    enum progress progress;
    size_t size = 0;
    ERR_clear_error();
    do {
        size_t part = 0;
        int result = SSL_read_ex(connection->ssl, bytes + size, DOOR_READ_SIZE - size, &part);
        progress = result == 1 ? PROGRESS_SOME : judge_tls(connection, result);
        size += part;
    } while (progress == PROGRESS_SOME && size < DOOR_READ_SIZE && SSL_has_pending(connection->ssl));
    *out_size = size;
    if (size == 0 || progress == PROGRESS_WAITS) return size == 0 ? progress : PROGRESS_SOME;
    /* The end of the input, and further records in OpenSSL's buffer, are handled in the next round. */
    bool has_more = progress != PROGRESS_SOME || SSL_has_pending(connection->ssl);
    if (has_more && !LISTED(connection, in_again)) LIST_LAST(&connection->door->again, connection, in_again);
    return PROGRESS_SOME;
}

/* Handles the end of the client's input. */
static void end_input(struct connection *connection) {
    if (connection->kind != KIND_STREAM || !stream_ended(connection)) connection_kill(connection);
}

static void read_some(struct connection *connection) {
    uint8_t *bytes = connection->door->in;
    size_t size = 0;
    bool has_earlier =
        connection->kind == KIND_STREAM ? connection->stream.upgrade != NULL : connection->ws.rest != NULL;
    if (has_earlier) return; /* do not read more before io_again has decoded the bytes that were received earlier */
    enum progress progress = connection->ssl != NULL ? read_tls(connection, bytes, &size)
                             : !connection->over_tls ? read_plain(connection, bytes, &size)
                                                     : PROGRESS_BROKEN;
    if (progress == PROGRESS_ENDED)
        end_input(connection);
    else if (progress == PROGRESS_BROKEN)
        connection_kill(connection);
    else if (size > 0 && connection->kind == KIND_STREAM)
        stream_received(connection, bytes, size);
    else if (size > 0)
        ws_received(connection, bytes, size);
    update(connection);
}

/* Reads and drops the bytes that the client still sends. Over TLS they are not decrypted. */
static void drop_input(struct connection *connection) {
    size_t size;
    enum progress progress = read_plain(connection, connection->door->in, &size);
    if (progress == PROGRESS_ENDED || progress == PROGRESS_BROKEN) connection_kill(connection);
}

void io_again(struct door *door) {
    struct connection *last = TAILQ_LAST(&door->again, connection_list), *connection = NULL;
    while (connection != last && (connection = TAILQ_FIRST(&door->again)) != NULL) {
        UNLIST(&door->again, connection, in_again);
        if (connection->state != STATE_OPEN) continue;
        if (connection->kind == KIND_STREAM && connection->stream.upgrade != NULL)
            upgrade_finish(connection);
        else if (connection->kind != KIND_STREAM && connection->ws.rest != NULL)
            ws_go_on(connection);
        else if (!connection->is_paused)
            read_some(connection);
        update(connection);
    }
}

bool io_has_more(const struct connection *connection) {
    int bytes = 0;
    if (connection->ssl != NULL && SSL_has_pending(connection->ssl)) return true;
    return ioctl(connection->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* ---- outgoing */

static bool is_framed(const struct message *message) {
    switch ((enum door_order)message->kind) {
    case ORDER_ANSWER:
    case ORDER_DELIVERY:
    case ORDER_TICKET:
    case ORDER_REST:
        return true;
    case ORDER_PAGE:
    case ORDER_BYTES:
    case ORDER_CONTROL:
    case ORDER_PONG:
        return false;
    }
    return false;
}

/* Returns the size of the message as it is sent. WebSocket divides the payload into frames of DOOR_FRAME_OUT bytes. */
static size_t size_as_sent(const struct connection *connection, const struct message *message) {
    if (!is_framed(message)) return message->size;
    size_t size = message->head_size + message->size, whole = size > 0 ? (size - 1) / DOOR_FRAME_OUT : 0;
    if (connection->ws.framing == FRAMING_SP) return sp_head_size(sp_transport_of(connection)) + size;
    size_t rest = size - whole * DOOR_FRAME_OUT;
    return whole * (ws_head_size(DOOR_FRAME_OUT, false) + DOOR_FRAME_OUT) + ws_head_size(rest, false) + rest;
}

/* Bytes to write next, as a list of pieces. */
struct batch {
    struct iovec pieces[PIECES_MAX];
    unsigned count;
    /* size: bytes of all pieces; size_max: no further piece is added once `size` has reached it. */
    size_t size, size_max;
    uint8_t heads[PIECES_MAX][WS_HEAD_MAX];
};

static bool has_room(const struct batch *batch) {
    return batch->count + 2 <= PIECES_MAX && batch->size < batch->size_max;
}

/* Adds the bytes except the first `*skipped` ones. */
static void add(struct batch *batch, uint8_t *bytes, size_t size, size_t *skipped) {
    size_t skips = *skipped < size ? *skipped : size;
    *skipped -= skips;
    if (skips == size) return;
    batch->pieces[batch->count++] = (struct iovec){bytes + skips, size - skips};
    batch->size += size - skips;
}

/* Adds a message without its first `skipped` bytes, as much of it as fits into the batch. */
static void add_message(struct batch *batch, const struct connection *connection, struct message *message,
                        size_t skipped) {
    if (!is_framed(message)) {
        add(batch, message->bytes, message->size, &skipped);
        return;
    }
    uint8_t *payload = message->bytes - message->head_size;
    size_t size = message->head_size + message->size, whole = ws_head_size(DOOR_FRAME_OUT, false) + DOOR_FRAME_OUT;
    if (connection->ws.framing == FRAMING_SP) {
        size_t head_size = sp_seal(sp_transport_of(connection), payload, size);
        add(batch, payload - head_size, head_size + size, &skipped);
        return;
    }
    /* One frame: its header is written into the message's free space in front of the payload. */
    if (size <= DOOR_FRAME_OUT) {
        size_t head_size = ws_seal(WS_BINARY, true, payload, size, NULL);
        add(batch, payload - head_size, head_size + size, &skipped);
        return;
    }
    size_t at = skipped / whole * DOOR_FRAME_OUT;
    for (skipped %= whole; at < size && has_room(batch); at += DOOR_FRAME_OUT) {
        size_t part = size - at < DOOR_FRAME_OUT ? size - at : DOOR_FRAME_OUT;
        uint8_t *head = batch->heads[batch->count];
        size_t head_size = ws_head(head, at == 0 ? WS_BINARY : WS_CONTINUATION, at + part == size, part, NULL);
        add(batch, head, head_size, &skipped);
        add(batch, payload + at, part, &skipped);
    }
}

/* Returns the number of bytes that a queued message adds to `unread_size`; 0 for deliveries and control frames. */
static size_t weight_of(const struct message *message) {
    const bool counts = message->kind == ORDER_ANSWER || message->kind == ORDER_BYTES;
    return counts ? message->capacity + sizeof(*message) : 0;
}

/* Ends a message that has left the queue: it is in the kernel, or will not be sent. */
static void end_message(struct connection *connection, struct message *message, bool left) {
    struct door *door = connection->door;
    const struct door_calls *calls = &door->calls;
    connection->out_bytes -= message->size;
    size_t weight = weight_of(message);
    if (weight > connection->out_weight) weight = connection->out_weight; /* 0: stream_let_go */
    connection->out_weight -= weight;
    door->unread_size -= weight;
    switch (message->kind) {
    case ORDER_DELIVERY:
        calls->lane_sent(calls->argument, message->lane, message->turn, left, message->stamp);
        break;
    case ORDER_ANSWER:
        ws_answered(connection);
        break;
    case ORDER_BYTES:
        if (message->stamp != 0) connection->speaks->sent(connection->speaks->argument, message->stamp, left);
        break;
    default:
        break;
    }
    door_done(door, message);
}

static void take_first(struct connection *connection, bool left) {
    struct message *message = connection->out_first;
    connection->out_first = message->next;
    if (connection->out_first == NULL) connection->out_last = &connection->out_first;
    connection->out_at = 0;
    end_message(connection, message, left);
}

void io_drop(struct connection *connection) {
    while (connection->out_first != NULL) take_first(connection, connection->out_first->is_leaving);
}

/* Removes the messages behind `link`, of which no byte has left. */
static void drop_from(struct connection *connection, struct message **link) {
    struct message *message = *link;
    *link = NULL;
    connection->out_last = link;
    for (struct message *next; message != NULL; message = next) {
        next = message->next;
        end_message(connection, message, false);
    }
}

void io_drop_waiting(struct connection *connection) {
    const struct door_calls *calls = &connection->door->calls;
    struct message **link = &connection->out_first;
    for (; *link != NULL && (*link)->is_leaving; link = &(*link)->next) {
        struct message *message = *link;
        if (message->kind != ORDER_DELIVERY) continue;
        calls->lane_sent(calls->argument, message->lane, message->turn, true, message->stamp);
        message->kind = ORDER_REST;
    }
    drop_from(connection, link);
}

void io_drop_last_pong(struct connection *connection) {
    struct message **link = &connection->out_first;
    if (*link == NULL) return;
    struct message *last = (struct message *)((char *)connection->out_last - offsetof(struct message, next));
    if (last->kind != ORDER_PONG || last->is_leaving) return;
    while (*link != last) link = &(*link)->next;
    drop_from(connection, link);
}

/* Returns whether the message may be sent. For a delivery, asks `lane_leaves` each time until its first byte is sent.
 */
static bool may_leave(const struct connection *connection, const struct message *message) {
    const struct door_calls *calls = &connection->door->calls;
    return message->kind != ORDER_DELIVERY || message->is_leaving ||
           calls->lane_leaves(calls->argument, message->lane, message->turn);
}

/* Collects the next bytes of the queue, and drops deliveries that must not leave. */
static void collect(struct connection *connection, struct batch *batch) {
    size_t skipped = connection->out_at;
    batch->count = 0;
    batch->size = 0;
    batch->size_max = connection->over_tls ? sizeof(connection->door->record) : WRITE_MAX;
    for (struct message **link = &connection->out_first; *link != NULL && has_room(batch);) {
        struct message *message = *link;
        if (may_leave(connection, message)) {
            message->is_leaving = true;
            add_message(batch, connection, message, skipped);
            skipped = 0;
            link = &message->next;
            continue;
        }
        *link = message->next;
        if (message->next == NULL) connection->out_last = link;
        end_message(connection, message, false);
    }
}

/* Removes `size` bytes that are in the kernel from the queue. */
static void pass(struct connection *connection, size_t size) {
    connection->out_at += size;
    for (size_t whole; connection->out_first != NULL &&
                       connection->out_at >= (whole = size_as_sent(connection, connection->out_first));) {
        size_t behind = connection->out_at - whole;
        take_first(connection, true);
        connection->out_at = behind;
    }
}

/* Withdraws the collected messages at the head of the queue, except one that was sent in part. */
static void withdraw(struct connection *connection) {
    struct message *message = connection->out_first;
    if (message != NULL && connection->out_at == 0) message->is_leaving = false;
    for (; message != NULL && message->next != NULL && message->next->is_leaving; message = message->next)
        message->next->is_leaving = false;
}

static enum progress write_plain(struct connection *connection, struct batch *batch) {
    const struct msghdr header = {.msg_iov = batch->pieces, .msg_iovlen = batch->count};
    ssize_t size = sendmsg(connection->fd, &header, MSG_NOSIGNAL);
    enum progress progress = size < 0 ? PROGRESS_BROKEN : PROGRESS_SOME;
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) progress = PROGRESS_WAITS;
    if (size > 0) pass(connection, (size_t)size);
    if (size < (ssize_t)batch->size) withdraw(connection);
    connection->is_blocked = size < (ssize_t)batch->size;
    return progress;
}

/* Writes one TLS record. */
static enum progress write_tls(struct connection *connection, struct batch *batch) {
    uint8_t *record = connection->door->record;
    size_t size = 0, written = 0;
    for (unsigned i = 0; i < batch->count && size < sizeof(connection->door->record); i++) {
        size_t room = sizeof(connection->door->record) - size;
        size_t part = batch->pieces[i].iov_len < room ? batch->pieces[i].iov_len : room;
        memcpy(record + size, batch->pieces[i].iov_base, part);
        size += part;
    }
    ERR_clear_error();
    connection->is_blocked = false;
    int result = SSL_write_ex(connection->ssl, record, size, &written);
    if (result != 1)
        return judge_tls(connection, result); /* a part of the record may have been sent, so `is_leaving` stays set */
    pass(connection, written);
    withdraw(connection);
    return PROGRESS_SOME;
}

/* Stops sending, but keeps the socket open for a while. If the client still sends to a closed socket, it may lose
 * replies that it has not read yet. */
static void linger(struct connection *connection) {
    struct door *door = connection->door;
    if (connection->has_ended) { /* the connection sends nothing more */
        connection_kill(connection);
        return;
    }
    connection->state = STATE_LINGERS;
    deadline_cancel(&connection->unread);
    deadline_arm(&door->deadlines, &connection->deadline, door->now_us + LINGER_US);
    if (connection->ssl != NULL) (void)SSL_shutdown(connection->ssl);
    break_tls(connection);
    (void)shutdown(connection->fd, SHUT_WR);
}

/* Restarts the timeout for unread replies. It does not apply to lanes: a consumer may be slow, and other code checks
 * its leases and its silence. */
static void begin_to_wait(struct connection *connection) {
    struct door *door = connection->door;
    if (connection->kind != KIND_LANE || connection->state == STATE_FINISHES)
        deadline_arm(&door->deadlines, &connection->unread, door->now_us + DOOR_UNREAD_S * DOOR_US_PER_S);
    pressure_is_read(connection);
}

static void write_some(struct connection *connection) {
    struct batch batch;
    enum progress progress = PROGRESS_SOME;
    for (int i = 0; i < WRITES_IN_A_ROW && connection->out_first != NULL && progress == PROGRESS_SOME; i++) {
        collect(connection, &batch);
        if (batch.size == 0) { /* the queue contains only empty messages, or deliveries that must not be sent */
            pass(connection, 0);
            continue;
        }
        progress = connection->ssl != NULL ? write_tls(connection, &batch)
                   : !connection->over_tls ? write_plain(connection, &batch)
                                           : PROGRESS_BROKEN;
        if (connection->is_blocked) break;
    }
    if (progress == PROGRESS_BROKEN || progress == PROGRESS_ENDED) {
        connection_kill(connection);
        return;
    }
    if (connection->out_first != NULL) {
        connection->is_blocked = true; /* the kernel takes no more bytes, or other connections must get their turn */
        begin_to_wait(connection);
    } else {
        deadline_cancel(&connection->unread);
        pressure_is_read(connection);
    }
    if (connection->out_first == NULL && connection->state == STATE_FINISHES)
        linger(connection);
    else
        io_regulate(connection);
}

static void write_and_tell(struct connection *connection) {
    connection->is_blocked = false;
    write_some(connection);
    if (connection->out_first == NULL && connection->kind == KIND_STREAM && connection->state == STATE_OPEN)
        stream_drained(connection);
    update(connection);
}

void io_send(struct connection *connection, struct message *message) {
    struct door *door = connection->door;
    message->next = NULL;
    message->is_leaving = false;
    *connection->out_last = message;
    connection->out_last = &message->next;
    connection->out_bytes += message->size;
    connection->out_weight += weight_of(message);
    door->unread_size += weight_of(message);
    if (!connection->is_blocked && !LISTED(connection, in_dirty)) LIST_LAST(&door->dirty, connection, in_dirty);
    io_regulate(connection);
}

void io_queue(struct connection *connection, struct message *message) {
    door_hold(connection->door, message->capacity);
    atomic_fetch_add(&connection->door->queued, 1);
    io_send(connection, message);
}

void io_flush(struct door *door) {
    struct connection *last = TAILQ_LAST(&door->dirty, connection_list), *connection = NULL;
    while (connection != last && (connection = TAILQ_FIRST(&door->dirty)) != NULL) {
        UNLIST(&door->dirty, connection, in_dirty);
        if (connection->state != STATE_DEAD) write_and_tell(connection);
    }
    pressure_bound_unread(door);
}

void io_finish(struct connection *connection) {
    struct door *door = connection->door;
    if (connection->state != STATE_OPEN) return;
    connection->state = STATE_FINISHES;
    update(connection);
    deadline_cancel(&connection->deadline);
    if (!connection->is_blocked && !LISTED(connection, in_dirty)) LIST_LAST(&door->dirty, connection, in_dirty);
}

/* ---- */

void io_regulate(struct connection *connection) {
    bool pauses = atomic_load(&connection->door->stopping) ||
                  (connection->kind == KIND_STREAM ? stream_is_paused(connection) : ws_is_paused(connection));
    if (pauses == connection->is_paused) return;
    connection->is_paused = pauses;
    /* The next round handles input that epoll does not report. */
    bool has_more = (connection->kind != KIND_STREAM && connection->ws.rest != NULL) ||
                    (connection->ssl != NULL && SSL_has_pending(connection->ssl));
    if (!pauses && has_more && connection->state == STATE_OPEN && !LISTED(connection, in_again))
        LIST_LAST(&connection->door->again, connection, in_again);
    update(connection);
}

void io_event(struct connection *connection, uint32_t events) {
    if (connection->state == STATE_DEAD) return;
    if (connection->state == STATE_LINGERS) {
        drop_input(connection);
        return;
    }
    if (connection->state == STATE_HANDSHAKE) {
        if (connection->door->handshakes == 0)
            return; /* this round has no handshake steps left; epoll reports the event again */
        connection->door->handshakes--;
        connection->is_blocked = false;
        shake_hands(connection);
        update(connection);
        return;
    }
    bool reads = (connection->waits_for & EPOLLIN) != 0;
    /* epoll reports hang-ups and errors even if the door waits for no events. */
    if ((events & (EPOLLHUP | EPOLLERR)) != 0 && !reads) {
        connection_kill(connection);
        return;
    }
    if ((events & EPOLLOUT) != 0) write_and_tell(connection);
    if (reads && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && connection->state == STATE_OPEN &&
        !connection->is_paused)
        read_some(connection);
}
