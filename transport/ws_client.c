/* ws_client.c: opening and reading of a connection. See ws_client.h. */
#include "ws_client.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ws_client_io.h"

#define READS_A_TURN 8u

static_assert(sizeof(((struct sockaddr_un *)NULL)->sun_path) > PLACE_SOCKET_MAX,
              "every path that place.c accepts fits");

void ws_client_init(struct ws_client *connection) {
    *connection = (struct ws_client){.fd = -1, .epoll = -1};
    pthread_mutex_init(&connection->io, NULL);
}

void ws_client_deinit(struct ws_client *connection) {
    ws_client_close(connection);
    pthread_mutex_destroy(&connection->io);
}

/* ---- the descriptor */

static void unwatch(struct ws_client *connection) {
    if (connection->watched == 0) return;
    /* Closing the descriptor is not enough, because a forked child may have a copy of it. */
    epoll_ctl(connection->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
    connection->watched = 0;
}

static bool watch(struct ws_client *connection, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u64 = connection->id};
    connection->fd = fd;
    if (epoll_ctl(connection->epoll, EPOLL_CTL_ADD, fd, &event) != 0) return false;
    connection->watched = events;
    return true;
}

void ws_client_lend(struct ws_client *connection) {
    assert(connection->state == WS_CLIENT_OPEN);
    pthread_mutex_lock(&connection->io);
    unwatch(connection);
    connection->is_lent = true;
    pthread_mutex_unlock(&connection->io);
}

bool ws_client_take_back(struct ws_client *connection) {
    pthread_mutex_lock(&connection->io);
    connection->is_lent = false;
    const bool is_watched = watch(connection, connection->fd, ws_client_io_events(connection));
    pthread_mutex_unlock(&connection->io);
    return is_watched;
}

static void close_fd(struct ws_client *connection) {
    unwatch(connection);
    connection->is_lent = false;
    /* The lookup owns its descriptor. */
    if (connection->fd >= 0 && connection->state > WS_CLIENT_RESOLVING) close(connection->fd);
    connection->fd = -1;
}

void ws_client_close(struct ws_client *connection) {
    if (connection->state == WS_CLIENT_OPEN) ws_client_io_say_close(connection);
    tls_stream_free(connection->tls);
    connection->tls = NULL;
    close_fd(connection);
    resolve_end(connection->resolving);
    connection->resolving = NULL;
    connection->next_address = NULL;
    connection->state = WS_CLIENT_CLOSED;
    connection->ready = 0;
    message_reader_deinit(&connection->reader);
    ws_client_io_drop_all(connection);
    explicit_bzero(connection->bearer, sizeof(connection->bearer));
}

/* ---- opening */

static const char *sentence_of(int error) {
    switch (error) {
    case ECONNREFUSED:
        return "Connection refused: no broker listens there";
    case ENOENT:
        return "no broker listens there: there is no such socket";
    case EACCES:
    case EPERM:
        return "may not be connected to: permission denied";
    case ETIMEDOUT:
        return "does not answer";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "cannot be reached: there is no route to it, or a firewall forbids it";
    case ECONNRESET:
    case EPIPE:
        return "the server closed the connection without a reply: it may not be a broker";
    default:
        return NULL;
    }
}

static enum ws_client_news lost(struct ws_client *connection, int error) {
    const char *sentence = sentence_of(error), *said = sentence != NULL ? sentence : strerrordesc_np(error);
    ws_client_say(connection, said != NULL ? said : "an error of the system that has no name");
    return WS_CLIENT_LOST;
}

static enum ws_client_news lost_because(struct ws_client *connection, const char *why) {
    ws_client_say(connection, why);
    return WS_CLIENT_LOST;
}

static enum ws_client_news begin_upgrade(struct ws_client *connection) {
    char text[WS_RESPONSE_MAX / 2], key[WS_KEY_SIZE + 1];
    uint8_t nonce[WS_NONCE_SIZE];
    const struct ws_request request = {.host = place_authority(&connection->place),
                                       .path = connection->path,
                                       .protocol = connection->protocol,
                                       .bearer = connection->bearer};
    connection->state = WS_CLIENT_UPGRADING;
    if (getrandom(nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce)) return lost(connection, errno);
    const size_t size = ws_request_write(&request, nonce, key, text, sizeof(text));
    ws_accept(key, connection->accept);
    if (size == 0) return lost_because(connection, "the address or the token is too long for a request");
    const int error = ws_client_io_send_raw(connection, text, size);
    explicit_bzero(text, sizeof(text));
    return error != 0 ? lost(connection, error) : WS_CLIENT_NOTHING;
}

static enum ws_client_news secures(struct ws_client *connection) {
    switch (tls_stream_handshake(connection->tls, connection->said)) {
    case TLS_DONE:
        ws_client_io_watch(connection, EPOLLIN);
        /* Bytes after the handshake's response may have been received together with it. */
        connection->ready = EPOLLIN;
        return begin_upgrade(connection);
    case TLS_WANTS_READ:
        ws_client_io_watch(connection, EPOLLIN);
        return WS_CLIENT_NOTHING;
    case TLS_WANTS_WRITE:
        ws_client_io_watch(connection, EPOLLIN | EPOLLOUT);
        return WS_CLIENT_NOTHING;
    case TLS_FAILED:
        break;
    }
    return WS_CLIENT_LOST;
}

/* Lets TCP detect a dead host, which sends no reset. A live kernel acknowledges probes even if its broker is busy or
 * stopped. So a host that does not acknowledge them is dead or unreachable. */
static void look_for_death(struct ws_client *connection) {
    const int fd = connection->fd, on = 1, idle_s = 1;
    const unsigned patience_ms = connection->dead_after_ms;
    if (patience_ms == 0) return;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
}

static enum ws_client_news connected(struct ws_client *connection) {
    const int on = 1;
    if (connection->place.kind != PLACE_UNIX) {
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        look_for_death(connection);
    }
    resolve_end(connection->resolving);
    connection->resolving = NULL;
    connection->next_address = NULL;
    ws_client_io_watch(connection, EPOLLIN);
    if (connection->place.kind != PLACE_WSS) return begin_upgrade(connection);
    assert(connection->tls_source.context != NULL);
    connection->state = WS_CLIENT_SECURING;
    connection->tls = tls_stream_new(connection->fd, connection->place.host, &connection->tls_source, connection->said);
    return connection->tls != NULL ? secures(connection) : WS_CLIENT_LOST;
}

/* Starts to connect to one address. 0: in progress; otherwise an errno. */
static int try_address(struct ws_client *connection, const struct sockaddr *address, socklen_t size) {
    close_fd(connection);
    connection->state = WS_CLIENT_CONNECTING;
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    if (!watch(connection, fd, EPOLLOUT)) return errno;
    if (connect(fd, address, size) == 0) {
        connection->ready |= EPOLLOUT;
        return 0;
    }
    return errno == EINPROGRESS ? 0 : errno;
}

/* Tries the next address of the host name after one that failed with `error`. */
static enum ws_client_news try_next(struct ws_client *connection, int error) {
    while (connection->next_address != NULL) {
        const struct addrinfo *address = connection->next_address;
        connection->next_address = address->ai_next;
        error = try_address(connection, address->ai_addr, address->ai_addrlen);
        if (error == 0) return WS_CLIENT_NOTHING;
    }
    return lost(connection, error);
}

static enum ws_client_news open_socket(struct ws_client *connection) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, connection->place.host, strnlen(connection->place.host, PLACE_SOCKET_MAX));
    const int error = try_address(connection, (const struct sockaddr *)&address, sizeof(address));
    /* A full queue of a Unix socket sends no event later, so the attempt has failed. */
    return error != 0 ? lost(connection, error == EAGAIN ? ETIMEDOUT : error) : WS_CLIENT_NOTHING;
}

static enum ws_client_news resolved(struct ws_client *connection) {
    int error;
    const struct addrinfo *list;
    if (connection->place.kind == PLACE_UNIX) return open_socket(connection);
    if (connection->resolving == NULL) {
        connection->resolving = resolve_begin(connection->place.host, connection->place.port);
        if (connection->resolving == NULL) return lost(connection, ENOMEM);
    }
    if (!resolve_done(connection->resolving, &error, &list)) {
        const bool is_watched =
            connection->watched != 0 || watch(connection, resolve_fd(connection->resolving), EPOLLIN);
        return is_watched ? WS_CLIENT_NOTHING : lost(connection, errno);
    }
    if (error == EAI_AGAIN) return lost_because(connection, "the host name cannot be resolved: no name server answers");
    if (error != 0) return lost_because(connection, "the host does not exist: check the name or address");
    connection->next_address = list;
    return try_next(connection, ECONNREFUSED);
}

void ws_client_open(struct ws_client *connection, int epoll, uint64_t id, const struct ws_client_options *options) {
    assert(connection->state == WS_CLIENT_CLOSED && connection->fd < 0);
    connection->epoll = epoll;
    connection->id = id;
    connection->place = *options->place;
    connection->protocol = options->protocol;
    connection->tls_source = options->tls != NULL ? *options->tls : (struct tls_source){.context = NULL};
    connection->said[0] = 0;
    connection->denied = connection->dead = false;
    connection->dead_after_ms = options->dead_after_ms;
    snprintf(connection->path, sizeof(connection->path), "%s", options->path);
    snprintf(connection->bearer, sizeof(connection->bearer), "%s", options->bearer);
    message_reader_init(&connection->reader, options->message_max);
    connection->state = WS_CLIENT_RESOLVING;
    connection->ready = 0;
    if (resolved(connection) == WS_CLIENT_LOST) ws_client_close(connection);
}

void ws_client_say(struct ws_client *connection, const char *why) {
    snprintf(connection->said, sizeof(connection->said), "%s", why);
}

static enum ws_client_news connects(struct ws_client *connection) {
    int error = 0;
    socklen_t size = sizeof(error);
    if ((connection->ready & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return WS_CLIENT_NOTHING;
    connection->ready = 0;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    return error != 0 ? try_next(connection, error) : connected(connection);
}

/* ---- reading */

/* Receives once. Returns WS_CLIENT_MESSAGE if bytes arrived. */
static enum ws_client_news receive(struct ws_client *connection) {
    size_t size;
    /* The socket's events do not announce bytes that TLS has buffered. */
    const bool has_pending = connection->tls != NULL && ws_client_io_has_pending(connection);
    if ((connection->ready & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0 || (connection->reads_left == 0 && !has_pending))
        return WS_CLIENT_NOTHING;
    uint8_t *room = message_reader_room(&connection->reader, &size);
    if (room == NULL) return lost(connection, ENOMEM);
    if (connection->reads_left > 0) connection->reads_left--;
    const ssize_t took = ws_client_io_read(connection, room, size);
    if (took == 0)
        return connection->state == WS_CLIENT_OPEN ? lost_because(connection, "") : lost(connection, ECONNRESET);
    if (took == -EAGAIN) {
        connection->ready = 0;
        return WS_CLIENT_NOTHING;
    }
    connection->dead = took == -ETIMEDOUT || took == -EHOSTUNREACH;
    if (connection->dead && connection->state == WS_CLIENT_OPEN)
        return lost_because(connection, "its host no longer answers");
    if (took < 0)
        return connection->state == WS_CLIENT_OPEN ? lost_because(connection, "") : lost(connection, (int)-took);
    message_reader_took(&connection->reader, (size_t)took);
    if ((size_t)took < size && (connection->tls == NULL || ws_client_io_is_drained(connection)))
        connection->ready = 0; /* the socket is empty: epoll will announce more */
    return WS_CLIENT_MESSAGE;
}

static enum ws_client_news upgrades(struct ws_client *connection) {
    struct message_reader *reader = &connection->reader;
    enum ws_verdict verdict = WS_RESPONSE_NEEDS_MORE;
    while (verdict == WS_RESPONSE_NEEDS_MORE) {
        size_t used = 0;
        const enum ws_client_news news = receive(connection);
        if (news != WS_CLIENT_MESSAGE) return news;
        verdict = ws_response_judge((const char *)reader->data + reader->at, reader->end - reader->at,
                                    connection->accept, connection->protocol, &used, connection->said);
        reader->at += used;
    }
    connection->denied = verdict == WS_RESPONSE_DENIED;
    if (verdict != WS_RESPONSE_ACCEPTED) return WS_CLIENT_LOST;
    connection->state = WS_CLIENT_OPEN;
    explicit_bzero(connection->bearer, sizeof(connection->bearer));
    return WS_CLIENT_OPENED;
}

static enum ws_client_news failed(struct ws_client *connection, enum ws_error error) {
    snprintf(connection->said, sizeof(connection->said), "broke the protocol: it sent %s", ws_error_sentence(error));
    return WS_CLIENT_LOST;
}

static enum ws_client_news reads(struct ws_client *connection, const uint8_t **out_data, size_t *out_size) {
    for (;;) {
        struct ws_event event;
        message_reader_next(&connection->reader, &event);
        switch (event.kind) {
        case WS_DATA:
            *out_data = event.data;
            *out_size = event.size;
            return WS_CLIENT_MESSAGE;
        case WS_FAILED:
            return failed(connection, event.error);
        case WS_GOT_CLOSE:
            return lost_because(connection, "");
        case WS_GOT_PING:
            ws_client_io_pong(connection, event.data, event.size);
            break;
        case WS_GOT_PONG:
            break;
        case WS_NEEDS_MORE: {
            const enum ws_client_news news = receive(connection);
            if (news != WS_CLIENT_MESSAGE) return news;
        }
        }
    }
}

void ws_client_ready(struct ws_client *connection, uint32_t events) {
    /* TLS may have to write before it can read, so every event may allow a read */
    connection->ready |= connection->tls != NULL ? events | EPOLLIN : events;
    connection->reads_left = READS_A_TURN;
    if ((events & EPOLLOUT) != 0 && connection->state >= WS_CLIENT_UPGRADING) ws_client_io_flush(connection);
}

enum ws_client_news ws_client_next(struct ws_client *connection, const uint8_t **out_data, size_t *out_size) {
    enum ws_client_news news = WS_CLIENT_NOTHING;
    if (connection->state == WS_CLIENT_RESOLVING) news = resolved(connection);
    if (news == WS_CLIENT_NOTHING && connection->state == WS_CLIENT_CONNECTING) news = connects(connection);
    if (news == WS_CLIENT_NOTHING && connection->state == WS_CLIENT_SECURING && connection->ready != 0)
        news = secures(connection);
    if (news == WS_CLIENT_NOTHING && connection->state == WS_CLIENT_UPGRADING) return upgrades(connection);
    if (news == WS_CLIENT_NOTHING && connection->state == WS_CLIENT_OPEN) return reads(connection, out_data, out_size);
    return news;
}
