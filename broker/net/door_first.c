/* door_first.c: decides by a connection's first bytes which code serves it. HTTP requests for /v1 go to the stream
 * protocol (door_stream.h). Everything else goes to the library, which gets the head, once complete, as door_head.c
 * writes it.
 *
 * The library parses HTTP itself and does not show the original head, so a head that it misreads would go unnoticed
 * (door_http.c). It reads by recv(2) or SSL_read. Both are replaced here, as poll(2) is in wait.h. They act like the
 * system's, except for a connection of the door whose head is not complete. If the first bytes are a request for /v1,
 * the highest bit of the first byte is set as a mark. No method begins so, so the library hands the connection over as
 * bytes that are not HTTP, and stream_event clears the mark. Bytes that do not yet decide the protocol are buffered
 * here, as if they had not arrived. */
#include <errno.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "door_parts.h"

#define MARK 0x80u

enum first { FIRST_WAITS, FIRST_LIBRARY, FIRST_STREAM };

/* Whether the bytes begin with `METHOD /v1`, or may do so once more bytes arrive. */
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

/* Result for received bytes: wait for more, give them to the library, or end the connection. */
enum look { LOOK_WAITS, LOOK_GIVES, LOOK_ENDS };

/* Appends the bytes to the buffered ones. False: out of memory. */
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
    if (connection->first != NULL) explicit_bzero(connection->first, connection->first_size); /* may contain a token */
    free(connection->first);
    connection->first = NULL;
    connection->first_size = connection->first_capacity = 0;
}

/* Gives all buffered bytes to the stream protocol of /v1, marked. */
static enum look divert(struct connection *connection, uint8_t *buffer, size_t *size) {
    memcpy(buffer, connection->first, connection->first_size);
    *size = connection->first_size;
    buffer[0] |= MARK;
    connection->is_diverted = true;
    return LOOK_GIVES;
}

/* Gives the library the head as written by door_head.h and, for an upgrade, the bytes behind it. For an invalid head,
 * gives a byte that makes the library hand the connection over, so that http_event answers with the refusal. */
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
    /* Invalid frames right behind a head end the connection after its upgrade; a refused upgrade is still answered. */
    if (behind > 0 && ws_follow(connection, buffer + head.size, behind) < 0) behind = 0;
    *size = head.size + behind;
    return LOOK_GIVES;
}

/* Frees the buffered bytes. An upgraded connection stays in the table, so that its frames are checked. */
static void head_is_over(struct connection *connection) {
    if (connection->is_followed)
        drop_first(connection);
    else
        first_forget(connection);
}

/* Decides about `*size` bytes received into `buffer`, which also has room for a head. */
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

/* Returns how many bytes to read at a time into a buffer of this size. The rest is room for buffered bytes of an
 * incomplete head, and for a written head that is longer than the received one. */
static size_t room_of(size_t size) {
    return size - DOOR_HEAD_SIZE_MAX - DOOR_HEAD_WRITTEN_MAX;
}

/* The library's own reads use larger buffers. */
#define BUFFER_MIN (2u * DOOR_HEAD_SIZE_MAX)

/* Reads for a stream that is not HTTP: the end of the client's input does not end the connection. */
static ssize_t recv_stream(struct connection *connection, int fd, void *buffer, size_t size) {
    ssize_t got = recvfrom(fd, buffer, size, 0, NULL, NULL);
    if (got != 0 || size == 0 || !stream_ended(connection)) return got;
    errno = EAGAIN;
    return -1;
}

/* Checks `got` bytes of an upgraded connection. Returns the result that the library gets. */
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
        return result > 0 ? (int)result : -1; /* the library treats -1 as a broken connection */
    }
    bool looks = connection != NULL && connection->over_tls && size >= (int)BUFFER_MIN;
    size_t got, room = looks ? room_of((size_t)size) : size > 0 ? (size_t)size : 0;
    enum look result = LOOK_GIVES;
    /* Read until SSL_read_ex has no more bytes, because SSL_get_error must then report that more input is needed. */
    do {
        if (!SSL_read_ex(ssl, buffer, room, &got)) return -1;
        if (looks) result = look(connection, buffer, &got);
    } while (result == LOOK_WAITS);
    return result == LOOK_GIVES ? (int)got : -1; /* the library treats -1 as a broken connection */
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
