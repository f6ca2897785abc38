/* ws_client_io.c: see ws_client_io.h. The sending thread writes to the socket itself if the queue is empty. Bytes that
 * the kernel does not take wait in a queue. The connection's owner writes them when epoll reports that the socket is
 * writable. A large message is sent in fragments. Once a fragment has been sent, the next fragment's header overwrites
 * its last bytes, so that no payload is copied. */
#include "ws_client_io.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#define PONG_TAG 1u /* tag of pongs; request numbers have the highest bit set, so none equals it */

struct outgoing {
    struct outgoing *next;
    uint8_t *memory; /* memory of the message; the queue owns it */
    size_t at;       /* start of the unsent bytes of the current frame */
    size_t end;      /* end of the current frame */
    size_t rest;     /* number of payload bytes after `end`, which later frames will carry */
    bool begun; /* true: the message can no longer be cancelled, because some bytes were sent or a frame was masked */
    enum ws_opcode opcode;
    uint32_t tag;
};

/* ---- packets */

uint8_t *packet_reserve(struct packet *packet, size_t size) {
    const size_t needed = WS_HEAD_MAX + size;
    if (needed > packet->capacity) {
        const size_t capacity = needed < 512 ? 512 : needed + needed / 4;
        uint8_t *data = realloc(packet->data, capacity);
        if (data == NULL) return NULL;
        packet->data = data;
        packet->capacity = capacity;
    }
    packet->size = size;
    return packet->data + WS_HEAD_MAX;
}

void packet_deinit(struct packet *packet) {
    free(packet->data);
    *packet = (struct packet){.data = NULL};
}

/* ---- system calls */

static ssize_t read_secured(struct ws_client *connection, void *bytes, size_t size) {
    bool wants_write;
    pthread_mutex_lock(&connection->io);
    const ssize_t took = tls_stream_read(connection->tls, bytes, size, &wants_write);
    if (wants_write) ws_client_io_watch(connection, EPOLLIN | EPOLLOUT);
    pthread_mutex_unlock(&connection->io);
    return took;
}

ssize_t ws_client_io_read(struct ws_client *connection, void *bytes, size_t size) {
    ssize_t took;
    if (connection->tls != NULL) return read_secured(connection, bytes, size);
    do took = recv(connection->fd, bytes, size, MSG_DONTWAIT);
    while (took < 0 && errno == EINTR);
    return took >= 0 ? took : -errno;
}

bool ws_client_io_has_pending(struct ws_client *connection) {
    pthread_mutex_lock(&connection->io);
    const bool has_pending = tls_stream_has_pending(connection->tls);
    pthread_mutex_unlock(&connection->io);
    return has_pending;
}

bool ws_client_io_is_drained(struct ws_client *connection) {
    pthread_mutex_lock(&connection->io);
    const bool is_drained = tls_stream_is_drained(connection->tls);
    pthread_mutex_unlock(&connection->io);
    return is_drained;
}

/* Sends bytes to the socket. The caller holds the lock `io`. */
static ssize_t ws_client_io_write(struct ws_client *connection, const uint8_t *bytes, size_t size) {
    ssize_t gave;
    if (connection->tls != NULL) return tls_stream_write(connection->tls, bytes, size);
    do gave = send(connection->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (gave < 0 && errno == EINTR);
    return gave >= 0 ? gave : -errno;
}

void ws_client_io_watch(struct ws_client *connection, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u64 = connection->id};
    if (connection->watched == 0 || connection->watched == events) return;
    if (epoll_ctl(connection->epoll, EPOLL_CTL_MOD, connection->fd, &event) == 0) connection->watched = events;
}

uint32_t ws_client_io_events(const struct ws_client *connection) {
    return connection->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN;
}

/* ---- the send queue. The lock `io` is held. */

/* Shuts the socket down after a send error, so that the reader finds the end of the connection. */
static void give_up(struct ws_client *connection) {
    shutdown(connection->fd, SHUT_RDWR);
}

static void drop_first(struct ws_client *connection) {
    struct outgoing *first = connection->first;
    connection->first = first->next;
    if (connection->first == NULL) connection->last = NULL;
    free(first->memory);
    free(first);
}

static bool enqueue(struct ws_client *connection, struct outgoing given) {
    struct outgoing *outgoing = malloc(sizeof(*outgoing));
    if (outgoing == NULL) return false;
    *outgoing = given;
    if (connection->last != NULL)
        connection->last->next = outgoing;
    else
        connection->first = outgoing;
    connection->last = outgoing;
    ws_client_io_watch(connection, EPOLLIN | EPOLLOUT);
    return true;
}

static bool next_mask(struct ws_client *connection, uint32_t *out_mask) {
    if (connection->masks_left == 0) {
        if (getrandom(connection->masks, sizeof(connection->masks), 0) != (ssize_t)sizeof(connection->masks))
            return false;
        connection->masks_left = WS_CLIENT_MASKS;
    }
    *out_mask = connection->masks[--connection->masks_left];
    return true;
}

/* Masks the message's next frame and writes its header. Returns false if the system gave no random bytes. */
static bool seal_next(struct ws_client *connection, struct outgoing *outgoing) {
    uint32_t mask;
    if (!next_mask(connection, &mask)) return false;
    const size_t size = outgoing->rest < WS_CLIENT_FRAGMENT_MAX ? outgoing->rest : WS_CLIENT_FRAGMENT_MAX;
    const bool is_last = size == outgoing->rest;
    const enum ws_opcode opcode = outgoing->begun ? WS_CONTINUATION : outgoing->opcode;
    outgoing->at = outgoing->end - ws_seal(opcode, is_last, outgoing->memory + outgoing->end, size, &mask);
    outgoing->end += size;
    outgoing->rest -= size;
    outgoing->begun = true;
    return true;
}

enum leaving { HAS_LEFT, IS_FULL, IS_BROKEN };

/* Writes as many bytes as the kernel takes. */
static enum leaving write_some(struct ws_client *connection, struct outgoing *outgoing) {
    for (;;) {
        if (outgoing->at == outgoing->end) {
            if (outgoing->begun && outgoing->rest == 0) return HAS_LEFT;
            if (!seal_next(connection, outgoing)) return IS_BROKEN;
        }
        const ssize_t gave =
            ws_client_io_write(connection, outgoing->memory + outgoing->at, outgoing->end - outgoing->at);
        if (gave == -EAGAIN) return IS_FULL;
        if (gave < 0) return IS_BROKEN;
        outgoing->at += (size_t)gave;
    }
}

/* Sends or queues a message. True: all bytes were sent, or the connection failed. False: the queue owns the memory
 * now. */
static bool write_or_queue(struct ws_client *connection, struct outgoing outgoing) {
    if (connection->first == NULL) {
        switch (write_some(connection, &outgoing)) {
        case HAS_LEFT:
            return true;
        case IS_BROKEN:
            give_up(connection);
            return true;
        case IS_FULL:
            break;
        }
    }
    if (enqueue(connection, outgoing)) return false;
    give_up(connection);
    return true;
}

/* Sends a packet. True: the caller keeps the packet's memory. */
static bool send_packet(struct ws_client *connection, struct packet *packet, enum ws_opcode opcode, uint32_t tag) {
    return write_or_queue(connection, (struct outgoing){.memory = packet->data,
                                                        .at = WS_HEAD_MAX,
                                                        .end = WS_HEAD_MAX,
                                                        .rest = packet->size,
                                                        .opcode = opcode,
                                                        .tag = tag});
}

static bool is_queued(const struct ws_client *connection, uint32_t tag) {
    for (const struct outgoing *at = connection->first; at != NULL; at = at->next)
        if (at->tag == tag) return true;
    return false;
}

/* ---- */

void ws_client_send(struct ws_client *connection, struct packet *packet, uint32_t tag) {
    assert(connection->state == WS_CLIENT_OPEN);
    pthread_mutex_lock(&connection->io);
    if (!send_packet(connection, packet, WS_BINARY, tag)) *packet = (struct packet){.data = NULL};
    pthread_mutex_unlock(&connection->io);
}

bool ws_client_is_sent(struct ws_client *connection) {
    pthread_mutex_lock(&connection->io);
    const bool is_sent = connection->first == NULL;
    pthread_mutex_unlock(&connection->io);
    return is_sent;
}

void ws_client_unsend(struct ws_client *connection, uint32_t tag) {
    pthread_mutex_lock(&connection->io);
    struct outgoing *previous = NULL;
    for (struct outgoing *at = connection->first, *next; at != NULL; at = next) {
        next = at->next;
        if (at->tag != tag || at->begun) {
            previous = at;
            continue;
        }
        if (previous != NULL)
            previous->next = next;
        else
            connection->first = next;
        if (connection->last == at) connection->last = previous;
        free(at->memory);
        free(at);
    }
    pthread_mutex_unlock(&connection->io);
}

int ws_client_io_send_raw(struct ws_client *connection, const void *bytes, size_t size) {
    uint8_t *memory = malloc(size);
    if (memory == NULL) return ENOMEM;
    memcpy(memory, bytes, size);
    pthread_mutex_lock(&connection->io);
    const bool is_mine = write_or_queue(connection, (struct outgoing){.memory = memory, .end = size, .begun = true});
    pthread_mutex_unlock(&connection->io);
    if (is_mine) {
        explicit_bzero(memory, size); /* erases the bytes, because they may contain a token */
        free(memory);
    }
    return 0;
}

static void send_control(struct ws_client *connection, enum ws_opcode opcode, const uint8_t *payload, size_t size) {
    struct packet packet = {.data = NULL};
    uint8_t *room = packet_reserve(&packet, size);
    if (room == NULL) return;
    if (size > 0) memcpy(room, payload, size);
    if (send_packet(connection, &packet, opcode, PONG_TAG)) packet_deinit(&packet);
}

void ws_client_io_pong(struct ws_client *connection, const uint8_t *payload, size_t size) {
    pthread_mutex_lock(&connection->io);
    if (!is_queued(connection, PONG_TAG)) send_control(connection, WS_PONG, payload, size);
    pthread_mutex_unlock(&connection->io);
}

void ws_client_io_say_close(struct ws_client *connection) {
    uint8_t payload[WS_CONTROL_MAX];
    const size_t size = ws_close_payload(payload, WS_CODE_NORMAL, "");
    pthread_mutex_lock(&connection->io);
    if (connection->first == NULL) send_control(connection, WS_CLOSE, payload, size);
    if (connection->first == NULL && connection->tls != NULL) tls_stream_say_end(connection->tls);
    pthread_mutex_unlock(&connection->io);
}

void ws_client_io_flush(struct ws_client *connection) {
    pthread_mutex_lock(&connection->io);
    enum leaving leaving = HAS_LEFT;
    while (connection->first != NULL && leaving == HAS_LEFT) {
        leaving = write_some(connection, connection->first);
        if (leaving == HAS_LEFT) drop_first(connection);
    }
    if (leaving == IS_BROKEN) give_up(connection);
    if (connection->first == NULL) ws_client_io_watch(connection, EPOLLIN);
    pthread_mutex_unlock(&connection->io);
}

void ws_client_io_drop_all(struct ws_client *connection) {
    pthread_mutex_lock(&connection->io);
    while (connection->first != NULL) drop_first(connection);
    pthread_mutex_unlock(&connection->io);
}
