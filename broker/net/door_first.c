/* door_first.c: whose a connection is, by its first bytes: what asks for /v1 over HTTP is a stream's (door_stream.h),
 * all else the library's, which gets its head as door_head.c writes it, once that is whole.
 *
 * The library parses HTTP itself and shows no head as it came, so that it could not be told what it passed over
 * (door_http.c). It reads by recv(2), or by SSL_read; both are ours here, as poll(2) is (wait.h), and do what the
 * system's do but for a connection of the door's whose head has not come yet. If its first bytes are a request for
 * /v1 the first of them is marked by its highest bit: no method begins so, the library gives the connection up to bytes
 * that are no HTTP, and stream_event takes the mark off. Bytes that do not say yet whose they are wait here, as if they
 * had not come. */
#include <errno.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "door_parts.h"

#define MARK 0x80u

enum first { FIRST_WAITS, FIRST_LIBRARY, FIRST_STREAM };

/* Does what has come begin with `METHOD /v1`, or may it, once more has? */
static enum first compare(const char *wanted, const uint8_t *bytes, size_t size) {
    size_t wanted_size = strlen(wanted);
    size_t common = size < wanted_size ? size : wanted_size;
    if (memcmp(wanted, bytes, common) != 0) return FIRST_LIBRARY;
    if (size <= wanted_size) return FIRST_WAITS;
    uint8_t next = bytes[wanted_size];
    return next == '/' || next == ' ' || next == '?' ? FIRST_STREAM : FIRST_LIBRARY;
}

static enum first judge(const uint8_t *bytes, size_t size) {
    static const char *const wanted[] = {"GET /v1",    "HEAD /v1",  "POST /v1",   "PUT /v1",
                                         "DELETE /v1", "PATCH /v1", "OPTIONS /v1"};
    enum first best = FIRST_LIBRARY;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        enum first found = compare(wanted[i], bytes, size);
        if (found != FIRST_LIBRARY) best = found;
    }
    return best;
}

/* What is to become of bytes that have come. */
enum look { LOOK_WAITS, LOOK_GIVES, LOOK_ENDS };

/* Keeps what came behind what waits. False: no memory. */
static bool keep(struct connection *connection, const uint8_t *bytes, size_t size) {
    size_t needed = connection->first_size + size;
    if (needed > connection->first_capacity) {
        size_t capacity = needed < 2 * connection->first_capacity ? 2 * connection->first_capacity : needed;
        char *grown = realloc(connection->first, capacity);
        if (grown == NULL) return false;
        connection->first = grown;
        connection->first_capacity = capacity;
    }
    memcpy(connection->first + connection->first_size, bytes, size);
    connection->first_size = needed;
    return true;
}

static void drop_first(struct connection *connection) {
    if (connection->first != NULL) explicit_bzero(connection->first, connection->first_size); /* a token may be there */
    free(connection->first);
    connection->first = NULL;
    connection->first_size = connection->first_capacity = 0;
}

/* Gives all that came to the protocol of /v1, marked. */
static enum look divert(struct connection *connection, uint8_t *buffer, size_t *size) {
    memcpy(buffer, connection->first, connection->first_size);
    *size = connection->first_size;
    buffer[0] |= MARK;
    connection->is_diverted = true;
    return LOOK_GIVES;
}

/* Gives the library the head as door_head.h has written it, and of an upgrade what follows; or a byte that makes it
 * give the connection up, so that http_event answers with the refusal. */
static enum look hand_over(struct connection *connection, uint8_t *buffer, size_t *size) {
    struct door_head head;
    enum head_result result = door_head_read(connection->first, connection->first_size, &head, &connection->early);
    if (result == HEAD_MORE) return LOOK_WAITS;
    if (result == HEAD_BAD) {
        buffer[0] = MARK;
        *size = 1;
        return LOOK_GIVES;
    }
    connection->is_followed = head.is_upgrade;
    size_t behind = head.is_upgrade ? connection->first_size - head.used : 0;
    memcpy(buffer, head.text, head.size);
    memcpy(buffer + head.size, connection->first + head.used, behind);
    /* Broken frames right behind a head end the connection once it is upgraded; a refused upgrade is answered. */
    if (behind > 0 && ws_follow(connection, buffer + head.size, behind) < 0) behind = 0;
    *size = head.size + behind;
    return LOOK_GIVES;
}

/* Nothing waits any more. The table keeps an upgraded connection, for its frames. */
static void head_is_over(struct connection *connection) {
    if (connection->is_followed)
        drop_first(connection);
    else
        first_forget(connection);
}

/* `*size` bytes have come into `buffer`, which has room for a head as well. */
static enum look look(struct connection *connection, uint8_t *buffer, size_t *size) {
    if (!keep(connection, buffer, *size)) return LOOK_ENDS;
    bool has_streams = connection->door->limits.http != NULL;
    enum first whose = has_streams ? judge((const uint8_t *)connection->first, connection->first_size) : FIRST_LIBRARY;
    enum look result = whose == FIRST_WAITS    ? LOOK_WAITS
                       : whose == FIRST_STREAM ? divert(connection, buffer, size)
                                               : hand_over(connection, buffer, size);
    if (result == LOOK_GIVES) head_is_over(connection);
    return result;
}

static struct connection *knocking(int fd) {
    const struct door *door = door_served_here();
    return door != NULL && fd >= 0 && (size_t)fd < door->knocking_count ? door->knocking[fd] : NULL;
}

/* Bytes that are read at a time into a buffer of this size: those that wait for the head's end, and a head that is
 * written longer than it came, find room in it as well. */
static size_t room_of(size_t size) {
    return size - DOOR_HEAD_SIZE_MAX - DOOR_HEAD_WRITTEN_MAX;
}

/* The library reads into larger ones. */
#define BUFFER_MIN (2u * DOOR_HEAD_SIZE_MAX)

/* A stream that is no HTTP: the end of what its client sends is not the connection's end. */
static ssize_t recv_stream(struct connection *connection, int fd, void *buffer, size_t size) {
    ssize_t got = recvfrom(fd, buffer, size, 0, NULL, NULL);
    if (got != 0 || size == 0 || !stream_ended(connection)) return got;
    errno = EAGAIN;
    return -1;
}

/* What the library is told of `got` bytes of an upgraded connection. */
static ssize_t followed(struct connection *connection, const void *buffer, ssize_t got) {
    if (got <= 0) return got;
    ssize_t result = ws_follow(connection, buffer, (size_t)got);
    if (result < 0) errno = ECONNRESET;
    return result;
}

__attribute__((visibility("default"))) ssize_t recv(int fd, void *buffer, size_t size, int flags) {
    struct connection *connection = flags == 0 ? knocking(fd) : NULL;
    if (connection != NULL && connection->is_followed && !connection->over_tls)
        return followed(connection, buffer, recvfrom(fd, buffer, size, 0, NULL, NULL));
    if (connection != NULL && connection->speaks != NULL) return recv_stream(connection, fd, buffer, size);
    if (connection == NULL || connection->over_tls || size < BUFFER_MIN)
        return recvfrom(fd, buffer, size, flags, NULL, NULL);
    ssize_t got = recvfrom(fd, buffer, room_of(size), 0, NULL, NULL);
    if (got <= 0) return got;
    size_t all = (size_t)got;
    enum look result = look(connection, buffer, &all);
    if (result == LOOK_GIVES) return (ssize_t)all;
    errno = result == LOOK_WAITS ? EAGAIN : ECONNRESET;
    return -1;
}

__attribute__((visibility("default"))) int SSL_read(SSL *ssl, void *buffer, int size) {
    struct connection *connection = knocking(SSL_get_fd(ssl));
    if (connection != NULL && connection->is_followed) {
        size_t read;
        if (!SSL_read_ex(ssl, buffer, size > 0 ? (size_t)size : 0, &read)) return -1;
        ssize_t result = followed(connection, buffer, (ssize_t)read);
        return result > 0 ? (int)result : -1; /* which is taken for a broken connection */
    }
    bool looks = connection != NULL && connection->over_tls && size >= (int)BUFFER_MIN;
    size_t got, room = looks ? room_of((size_t)size) : size > 0 ? (size_t)size : 0;
    enum look result = LOOK_GIVES;
    /* A reader that is to wait has read until nothing more is there: that is what SSL_get_error says then. */
    do {
        if (!SSL_read_ex(ssl, buffer, room, &got)) return -1;
        if (looks) result = look(connection, buffer, &got);
    } while (result == LOOK_WAITS);
    return result == LOOK_GIVES ? (int)got : -1; /* which is taken for a broken connection */
}

bool first_expect(struct door *door, int fd, struct connection *connection) {
    if ((size_t)fd >= door->knocking_count) {
        size_t count = 2 * ((size_t)fd + 1);
        struct connection **grown = realloc(door->knocking, count * sizeof(*grown));
        if (grown == NULL) return false;
        memset(grown + door->knocking_count, 0, (count - door->knocking_count) * sizeof(*grown));
        door->knocking = grown;
        door->knocking_count = count;
    }
    connection->fd = fd;
    door->knocking[fd] = connection;
    return true;
}

void first_forget(struct connection *connection) {
    struct door *door = connection->door;
    size_t fd = (size_t)connection->fd;
    if (fd < door->knocking_count && door->knocking[fd] == connection) door->knocking[fd] = NULL;
    connection->fd = 0;
    drop_first(connection);
}
