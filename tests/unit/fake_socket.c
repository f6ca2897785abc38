/* fake_socket.c: one thread, poll(), and a buffer in each direction for every connection. */
#include "fake_socket.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define READ_SIZE (64u << 10)
#define HEAD_MAX 8192u          /* maximum size of an upgrade request */
#define FRAME_IN_MAX (1u << 20) /* maximum size of a received frame in bytes, as in tarryd */
#define FRAME_OUT_MAX (64u << 10)
#define SP_WORD 4u
#define SP_WORDS_MAX 8u

enum { CONTINUATION = 0, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };

struct bytes {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

struct connection {
    int fd; /* descriptor; -1: this slot is free */
    bool is_open;
    bool is_lane;
    bool ends; /* true: close the connection once `out` has been sent */
    uint64_t serial;
    struct bytes in;      /* received data */
    struct bytes message; /* fragments of a message that is not complete */
    bool in_message;
    struct bytes out;
};

/* A reply that is sent after a delay. */
struct late {
    struct late *next;
    uint64_t at_ms;
    uint64_t serial; /* serial number of the connection */
    struct bytes message;
};

struct fake_socket {
    struct fake_socket_calls calls;
    pthread_t thread;
    atomic_bool stops;
    int listener;
    int wake;
    uint64_t last_serial;
    struct connection connections[CONNECTIONS_MAX];
    struct late *late;
    /* for fake_socket_push */
    pthread_mutex_t lock;
    pthread_cond_t pushed;
    const void *push; /* a message to send; NULL: none */
    size_t push_size;
};

static _Noreturn void die(const char *why) {
    (void)fprintf(stderr, "fake broker: %s\n", why);
    abort();
}

static uint64_t clock_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- bytes */

static uint8_t *bytes_room(struct bytes *bytes, size_t size) {
    if (bytes->capacity - bytes->size < size) {
        bytes->capacity = 2 * bytes->capacity + size;
        bytes->data = realloc(bytes->data, bytes->capacity);
        if (bytes->data == NULL) die("no memory");
    }
    return bytes->data + bytes->size;
}

static void bytes_add(struct bytes *bytes, const void *data, size_t size) {
    if (size == 0) return;
    memcpy(bytes_room(bytes, size), data, size);
    bytes->size += size;
}

static void bytes_drop(struct bytes *bytes, size_t size) {
    bytes->size -= size;
    if (bytes->size > 0) memmove(bytes->data, bytes->data + size, bytes->size);
}

static void bytes_free(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){NULL, 0, 0};
}

void fake_reply_set(struct fake_reply *reply, const void *bytes, size_t size) {
    free(reply->bytes);
    reply->bytes = malloc(size + 1);
    if (reply->bytes == NULL) die("no memory");
    if (size > 0) memcpy(reply->bytes, bytes, size);
    reply->size = size;
}

/* ---- connections */

static void drop(struct connection *connection) {
    if (connection->fd < 0) return;
    close(connection->fd);
    bytes_free(&connection->in);
    bytes_free(&connection->message);
    bytes_free(&connection->out);
    *connection = (struct connection){.fd = -1};
}

static void flush(struct connection *connection) {
    while (connection->fd >= 0 && connection->out.size > 0) {
        ssize_t sent = send(connection->fd, connection->out.data, connection->out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0)
            drop(connection);
        else
            bytes_drop(&connection->out, (size_t)sent);
    }
    if (connection->ends) drop(connection);
}

static void take_one(struct fake_socket *socket) {
    struct connection *free_one = NULL;
    const int on = 1;
    for (size_t i = 0; i < CONNECTIONS_MAX && free_one == NULL; i++)
        if (socket->connections[i].fd < 0) free_one = &socket->connections[i];
    if (free_one == NULL) die("more connections than any test needs");
    int fd = accept4(socket->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return; /* the connection has ended already */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    *free_one = (struct connection){.fd = fd, .serial = ++socket->last_serial};
}

/* ---- frames out */

static void add_frame(struct bytes *out, unsigned opcode, bool is_last, const uint8_t *data, size_t size) {
    uint8_t head[10] = {(uint8_t)((is_last ? 0x80u : 0) | opcode)};
    size_t head_size = 2;
    if (size < 126) {
        head[1] = (uint8_t)size;
    } else {
        const bool is_short = size <= UINT16_MAX;
        head[1] = is_short ? 126 : 127;
        head_size = is_short ? 4 : 10;
        for (size_t i = 2; i < head_size; i++) head[i] = (uint8_t)((uint64_t)size >> 8 * (head_size - 1 - i));
    }
    bytes_add(out, head, head_size);
    bytes_add(out, data, size);
}

static void send_message(struct connection *connection, const uint8_t *data, size_t size) {
    for (size_t at = 0; at == 0 || at < size;) {
        const size_t part = size - at < FRAME_OUT_MAX ? size - at : FRAME_OUT_MAX;
        add_frame(&connection->out, at == 0 ? BINARY : CONTINUATION, at + part == size, data + at, part);
        at += part;
        if (part == 0) break;
    }
    flush(connection);
}

/* ---- requests */

static void answer(struct fake_socket *socket, struct connection *connection, struct bytes message, uint32_t late_ms) {
    if (late_ms == 0) {
        send_message(connection, message.data, message.size);
        bytes_free(&message);
        return;
    }
    struct late *late = malloc(sizeof(*late));
    if (late == NULL) die("no memory");
    *late = (struct late){socket->late, clock_ms() + late_ms, connection->serial, message};
    socket->late = late;
}

static struct connection *connection_of(struct fake_socket *socket, uint64_t serial) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (socket->connections[i].fd >= 0 && socket->connections[i].serial == serial) return &socket->connections[i];
    return NULL;
}

/* Sends the replies that are due. Returns when the next is due, or UINT64_MAX. */
static uint64_t send_late(struct fake_socket *socket) {
    const uint64_t now = clock_ms();
    uint64_t next = UINT64_MAX;
    for (struct late **link = &socket->late; *link != NULL;) {
        struct late *late = *link;
        struct connection *connection = connection_of(socket, late->serial);
        if (connection != NULL && late->at_ms > now) {
            if (late->at_ms < next) next = late->at_ms;
            link = &late->next;
            continue;
        }
        if (connection != NULL) send_message(connection, late->message.data, late->message.size);
        *link = late->next;
        bytes_free(&late->message);
        free(late);
    }
    return next;
}

/* A request has SP's header, and then a body. The header is a list of 32-bit words, and its last word has the highest
 * bit set. The reply begins with the same header. */
static void on_message(struct fake_socket *socket, struct connection *connection, const uint8_t *data, size_t size) {
    size_t head = 0;
    if (connection->is_lane) die("a consumer must not send messages on its lane");
    do {
        head += SP_WORD;
        if (head > size || head > SP_WORDS_MAX * SP_WORD) die("a request without SP's header");
    } while ((data[head - SP_WORD] & 0x80) == 0);
    struct fake_reply reply = {.bytes = NULL};
    socket->calls.request(socket->calls.argument, data + head, size - head, &reply);
    for (size_t i = 0; i < CONNECTIONS_MAX && reply.ends_lanes; i++)
        if (socket->connections[i].is_lane) drop(&socket->connections[i]);
    if (reply.hangs_up) {
        drop(connection);
    } else if (!reply.is_silent) {
        struct bytes message = {NULL, 0, 0};
        bytes_add(&message, data, head);
        bytes_add(&message, reply.bytes, reply.size);
        answer(socket, connection, message, reply.late_ms);
    }
    free(reply.bytes);
}

/* ---- frames in */

struct frame {
    unsigned opcode;
    bool is_last;
    uint8_t *payload;
    size_t size;
};

/* Unmasks the frame at the beginning of `data`. Returns its total size; 0: incomplete. */
static size_t frame_read(uint8_t *data, size_t size, struct frame *out) {
    if (size < 2) return 0;
    if ((data[0] & 0x70) != 0) die("a frame with reserved bits");
    if ((data[1] & 0x80) == 0) die("a frame without a mask");
    const size_t shortly = data[1] & 0x7f, length_size = shortly < 126 ? 0 : shortly == 126 ? 2 : 8;
    const size_t head = 2 + length_size + 4;
    uint64_t length = length_size == 0 ? shortly : 0;
    if (size < head) return 0;
    for (size_t i = 0; i < length_size; i++) length = length << 8 | data[2 + i];
    if (length_size > 0 && length < (length_size == 2 ? 126 : UINT16_MAX + 1)) die("a length in too many bytes");
    if (length > FRAME_IN_MAX) die("a frame that brokers refuse for its size");
    *out = (struct frame){data[0] & 0x0f, (data[0] & 0x80) != 0, data + head, (size_t)length};
    if (out->opcode >= CLOSE && (length > 125 || !out->is_last)) die("a control frame that is too long, or in parts");
    if (size - head < length) return 0;
    const uint8_t *mask = out->payload - 4;
    for (size_t i = 0; i < out->size; i++) out->payload[i] ^= mask[i % 4];
    return head + out->size;
}

static void on_frame(struct fake_socket *socket, struct connection *connection, const struct frame *frame) {
    switch (frame->opcode) {
    case BINARY:
    case CONTINUATION:
        if ((frame->opcode == CONTINUATION) != connection->in_message) die("a fragment out of its place");
        connection->in_message = !frame->is_last;
        if (frame->opcode == BINARY && frame->is_last) {
            on_message(socket, connection, frame->payload, frame->size);
            return;
        }
        bytes_add(&connection->message, frame->payload, frame->size);
        if (!frame->is_last) return;
        struct bytes whole = connection->message;
        connection->message = (struct bytes){NULL, 0, 0};
        on_message(socket, connection, whole.data, whole.size);
        bytes_free(&whole);
        return;
    case CLOSE:
        add_frame(&connection->out, CLOSE, true, frame->payload, frame->size < 2 ? frame->size : 2);
        connection->ends = true;
        flush(connection);
        return;
    case PING:
        add_frame(&connection->out, PONG, true, frame->payload, frame->size);
        flush(connection);
        return;
    case PONG:
        return;
    default:
        die("a frame of a kind that no client sends");
    }
}

/* ---- the upgrade */

/* Returns the value of a header, or "". */
static const char *header_of(const char *head, const char *name, char *out, size_t size) {
    out[0] = 0;
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n")) {
        const size_t name_size = strlen(name);
        if (strncasecmp(line + 2, name, name_size) != 0 || line[2 + name_size] != ':') continue;
        const char *value = line + 2 + name_size + 1;
        value += strspn(value, " ");
        if (strcspn(value, "\r") >= size) die("a header that is too long");
        (void)snprintf(out, size, "%.*s", (int)strcspn(value, "\r"), value);
        break;
    }
    return out;
}

static void accept_of(const char *key, char out[32]) {
    char text[128];
    uint8_t sum[SHA_DIGEST_LENGTH];
    (void)snprintf(text, sizeof(text), "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    (void)SHA1((const uint8_t *)text, strlen(text), sum);
    (void)EVP_EncodeBlock((uint8_t *)out, sum, sizeof(sum));
}

static void upgrade(struct fake_socket *socket, struct connection *connection, const char *head) {
    char path[64], value[512], key[32], accept[32], bearer[512] = "", protocol[64], text[512];
    if (sscanf(head, "GET %63s HTTP/1.1\r\n", path) != 1) die("no request to upgrade");
    if (strcasecmp(header_of(head, "Upgrade", value, sizeof(value)), "websocket") != 0 ||
        strcasecmp(header_of(head, "Connection", value, sizeof(value)), "Upgrade") != 0 ||
        strcmp(header_of(head, "Sec-WebSocket-Version", value, sizeof(value)), "13") != 0 ||
        strlen(header_of(head, "Sec-WebSocket-Key", key, sizeof(key))) != 24 ||
        header_of(head, "Host", value, sizeof(value))[0] == 0)
        die("a request to upgrade that is none");
    header_of(head, "Authorization", value, sizeof(value));
    if (value[0] != 0 && sscanf(value, "Bearer %511s", bearer) != 1) die("an authorization that is no bearer's");
    header_of(head, "Sec-WebSocket-Protocol", protocol, sizeof(protocol));
    const enum fake_visitor visitor = socket->calls.upgrade(socket->calls.argument, path, bearer);
    if (visitor == FAKE_RPC || visitor == FAKE_LANE) {
        if (strcmp(protocol, visitor == FAKE_RPC ? "rep.sp.nanomsg.org" : "push.sp.nanomsg.org") != 0)
            die("another subprotocol than the path's");
        accept_of(key, accept);
        (void)snprintf(text, sizeof(text),
                       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                       accept, protocol);
        connection->is_open = true;
        connection->is_lane = visitor == FAKE_LANE;
    } else {
        (void)snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                       visitor == FAKE_LOST ? "404 Not Found" : "401 Unauthorized");
        connection->ends = true;
    }
    bytes_add(&connection->out, text, strlen(text));
    flush(connection);
}

/* Handles the upgrade request. Returns the size of its head; 0: incomplete. */
static size_t on_head(struct fake_socket *socket, struct connection *connection) {
    static const char end[] = "\r\n\r\n";
    const uint8_t *found = memmem(connection->in.data, connection->in.size, end, strlen(end));
    if (connection->in.size >= HEAD_MAX) die("a head without an end");
    if (found == NULL) return 0;
    char head[HEAD_MAX];
    const size_t size = (size_t)(found - connection->in.data) + strlen(end);
    memcpy(head, connection->in.data, size);
    head[size] = 0;
    upgrade(socket, connection, head);
    return size;
}

/* ---- the thread */

/* Handles everything that has arrived completely. */
static void take(struct fake_socket *socket, struct connection *connection) {
    struct frame frame;
    size_t at = 0, used;
    if (!connection->is_open) {
        used = on_head(socket, connection);
        if (used == 0 || connection->fd < 0) return;
        bytes_drop(&connection->in, used);
    }
    while (connection->fd >= 0 && !connection->ends && at < connection->in.size &&
           (used = frame_read(connection->in.data + at, connection->in.size - at, &frame)) > 0) {
        at += used;
        on_frame(socket, connection, &frame);
    }
    if (connection->fd >= 0) bytes_drop(&connection->in, at);
}

static void receive(struct fake_socket *socket, struct connection *connection) {
    uint8_t *room = bytes_room(&connection->in, READ_SIZE);
    const ssize_t got = recv(connection->fd, room, READ_SIZE, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        drop(connection);
        return;
    }
    connection->in.size += (size_t)got;
    take(socket, connection);
}

/* Returns the newest lane, or NULL. */
static struct connection *last_lane(struct fake_socket *socket) {
    struct connection *last = NULL;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &socket->connections[i];
        if (connection->fd < 0 || !connection->is_lane || connection->ends) continue;
        if (last == NULL || connection->serial > last->serial) last = connection;
    }
    return last;
}

static void serve_push(struct fake_socket *socket) {
    struct connection *lane = last_lane(socket);
    if (lane == NULL) return;
    pthread_mutex_lock(&socket->lock);
    if (socket->push != NULL) {
        send_message(lane, socket->push, socket->push_size);
        socket->push = NULL;
        pthread_cond_signal(&socket->pushed);
    }
    pthread_mutex_unlock(&socket->lock);
}

static void *run(void *argument) {
    struct fake_socket *socket = argument;
    while (!atomic_load(&socket->stops)) {
        struct pollfd polled[CONNECTIONS_MAX + 2];
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            const struct connection *connection = &socket->connections[i];
            const short out = connection->out.size > 0 ? POLLOUT : 0;
            polled[i] = (struct pollfd){.fd = connection->fd, .events = (short)(POLLIN | out)};
        }
        polled[CONNECTIONS_MAX] = (struct pollfd){.fd = socket->listener, .events = POLLIN};
        polled[CONNECTIONS_MAX + 1] = (struct pollfd){.fd = socket->wake, .events = POLLIN};
        const uint64_t next = send_late(socket), now = clock_ms();
        const int wait_ms = next == UINT64_MAX ? -1 : next > now ? (int)(next - now) : 0;
        if (poll(polled, CONNECTIONS_MAX + 2, wait_ms) < 0 && errno != EINTR) die("poll failed");
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            struct connection *connection = &socket->connections[i];
            if (polled[i].fd < 0 || polled[i].revents == 0) continue;
            if ((polled[i].revents & POLLOUT) != 0) flush(connection);
            if (connection->fd >= 0 && (polled[i].revents & ~POLLOUT) != 0) receive(socket, connection);
        }
        if ((polled[CONNECTIONS_MAX].revents & POLLIN) != 0) take_one(socket);
        eventfd_t count;
        if ((polled[CONNECTIONS_MAX + 1].revents & POLLIN) != 0) (void)eventfd_read(socket->wake, &count);
        serve_push(socket);
    }
    return NULL;
}

/* ---- calls by its owner */

static int listen_somewhere(int *out_port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        die("no port to listen on");
    *out_port = ntohs(address.sin_port);
    return fd;
}

struct fake_socket *fake_socket_open(const struct fake_socket_calls *calls, int *out_port) {
    struct fake_socket *socket = calloc(1, sizeof(*socket));
    pthread_condattr_t monotonic;
    sigset_t all, before;
    if (socket == NULL) die("no memory");
    socket->calls = *calls;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) socket->connections[i].fd = -1;
    socket->listener = listen_somewhere(out_port);
    socket->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (socket->wake < 0) die("no eventfd");
    pthread_mutex_init(&socket->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&socket->pushed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&socket->thread, NULL, run, socket) != 0) die("no thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return socket;
}

bool fake_socket_push(struct fake_socket *socket, const void *bytes, size_t size, uint32_t patience_ms) {
    const uint64_t until_ms = clock_ms() + patience_ms;
    const struct timespec until = {(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};
    pthread_mutex_lock(&socket->lock);
    assert(socket->push == NULL);
    socket->push = bytes;
    socket->push_size = size;
    (void)eventfd_write(socket->wake, 1);
    while (socket->push != NULL && pthread_cond_timedwait(&socket->pushed, &socket->lock, &until) != ETIMEDOUT) {
    }
    const bool is_sent = socket->push == NULL;
    socket->push = NULL;
    pthread_mutex_unlock(&socket->lock);
    return is_sent;
}

void fake_socket_close(struct fake_socket *socket) {
    atomic_store(&socket->stops, true);
    (void)eventfd_write(socket->wake, 1);
    pthread_join(socket->thread, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) drop(&socket->connections[i]);
    (void)send_late(socket); /* frees the replies; no connection is left, so none is sent */
    close(socket->listener);
    close(socket->wake);
    pthread_cond_destroy(&socket->pushed);
    pthread_mutex_destroy(&socket->lock);
    free(socket);
}
