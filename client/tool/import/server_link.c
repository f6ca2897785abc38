/* server_link.c: see server_link.h. */
#include "server_link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc.h"

#define READ_SIZE (64u << 10)
#define PORT_SIZE 16u

bool server_link_fail(struct server_link *link, const char *format, ...) {
    if (link->error[0] == 0) {
        va_list list;
        va_start(list, format);
        vsnprintf(link->error, sizeof link->error, format, list);
        va_end(list);
    }
    if (link->fd >= 0) close(link->fd);
    link->fd = -1;
    return false;
}

void server_link_close(struct server_link *link) {
    if (link->fd >= 0) close(link->fd);
    free(link->data);
    *link = (struct server_link){.fd = -1};
}

void server_link_over(struct server_link *link, const void *bytes, size_t size) {
    *link = (struct server_link){.fd = -1, .capacity = size + 1};
    link->data = tool_alloc(size + 1);
    if (size > 0) memcpy(link->data, bytes, size);
    link->end = size;
}

/* Waits for `events`. False: nothing happened within timeout_ms. */
static bool wait_for(struct server_link *link, short events) {
    struct pollfd item = {.fd = link->fd, .events = events};
    const int timeout = link->timeout_ms > INT32_MAX ? INT32_MAX : (int)link->timeout_ms;
    int count;
    do count = poll(&item, 1, timeout);
    while (count < 0 && errno == EINTR);
    if (count > 0) return true;
    return count == 0 ? server_link_fail(link, "no answer for %llu ms", (unsigned long long)link->timeout_ms)
                      : server_link_fail(link, "%s", strerror(errno));
}

static bool connect_to(struct server_link *link, const struct addrinfo *info) {
    int error = 0, one = 1;
    socklen_t size = sizeof error;
    link->error[0] = 0;
    link->fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
    if (link->fd < 0) return server_link_fail(link, "%s", strerror(errno));
    if (connect(link->fd, info->ai_addr, info->ai_addrlen) != 0 && errno != EINPROGRESS)
        return server_link_fail(link, "%s", strerror(errno));
    if (!wait_for(link, POLLOUT)) return false;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        return server_link_fail(link, "%s", strerror(error != 0 ? error : errno));
    (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return true;
}

/* Splits "host", "host:port", "[v6]" or "[v6]:port" into its parts. */
static bool split(const char *address, const char *default_port, char host[SERVER_LINK_ADDRESS_SIZE],
                  char port[PORT_SIZE]) {
    const bool is_bracketed = address[0] == '[';
    const char *begin = address + is_bracketed;
    const char *end = is_bracketed ? strchr(begin, ']') : begin + strcspn(begin, ":");
    if (end == NULL || end == begin || (size_t)(end - begin) >= SERVER_LINK_ADDRESS_SIZE) return false;
    const char *rest = end + is_bracketed;
    const char *given = rest[0] == 0 ? default_port : rest + 1;
    if (rest[0] != 0 && (rest[0] != ':' || given[0] == 0)) return false;
    if (strspn(given, "0123456789") != strlen(given) || strlen(given) > 5) return false;
    snprintf(host, SERVER_LINK_ADDRESS_SIZE, "%.*s", (int)(end - begin), begin);
    snprintf(port, PORT_SIZE, "%s", given);
    return true;
}

bool server_link_open(struct server_link *link, const char *address, const char *default_port, uint64_t timeout_ms) {
    char host[SERVER_LINK_ADDRESS_SIZE], port[PORT_SIZE];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *list = NULL;
    *link = (struct server_link){.fd = -1, .timeout_ms = timeout_ms};
    if (!split(address, default_port, host, port))
        return server_link_fail(link, "not an address such as HOST or HOST:PORT");
    int code = getaddrinfo(host, port, &hints, &list);
    if (code != 0) return server_link_fail(link, "%s", gai_strerror(code));
    bool is_open = false;
    for (const struct addrinfo *info = list; info != NULL && !is_open; info = info->ai_next)
        is_open = connect_to(link, info);
    freeaddrinfo(list);
    return is_open;
}

bool server_link_send(struct server_link *link, const void *data, size_t size) {
    const char *at = data;
    if (link->error[0] != 0) return false;
    while (size > 0) {
        ssize_t sent = send(link->fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return server_link_fail(link, "%s", strerror(errno));
        if (sent < 0 && errno == EAGAIN && !wait_for(link, POLLOUT)) return false;
        if (sent <= 0) continue;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* Reserves space for `size` bytes from `start`, and a terminator. */
static void make_room(struct server_link *link, size_t size) {
    if (link->start > 0) memmove(link->data, link->data + link->start, link->end - link->start);
    link->end -= link->start;
    link->start = 0;
    if (link->capacity > size) return;
    char *data = tool_alloc(size + READ_SIZE + 1);
    if (link->end > 0) memcpy(data, link->data, link->end);
    free(link->data);
    link->data = data;
    link->capacity = size + READ_SIZE + 1;
}

/* Receives at least one byte, and appends it. */
static bool read_more(struct server_link *link) {
    if (link->fd < 0) return server_link_fail(link, "the server closed the connection");
    if (link->capacity - link->end < READ_SIZE / 4) make_room(link, link->end - link->start + READ_SIZE);
    for (;;) {
        ssize_t count = recv(link->fd, link->data + link->end, link->capacity - link->end - 1, 0);
        if (count > 0) {
            link->end += (size_t)count;
            return true;
        }
        if (count == 0) return server_link_fail(link, "the server closed the connection");
        if (errno != EAGAIN && errno != EINTR) return server_link_fail(link, "%s", strerror(errno));
        if (errno == EAGAIN && !wait_for(link, POLLIN)) return false;
    }
}

bool server_link_line(struct server_link *link, size_t size_max, const char **out_line, size_t *out_size) {
    size_t searched = 0; /* number of bytes that were searched and contain no line end */
    while (link->error[0] == 0) {
        const size_t there = link->end - link->start;
        char *line = there > 0 ? link->data + link->start : NULL;
        for (char *feed; there > searched && (feed = memchr(line + searched, '\n', there - searched)) != NULL;) {
            const size_t size = (size_t)(feed - line);
            if (size > 0 && feed[-1] == '\r') {
                if (size - 1 > size_max)
                    return server_link_fail(link, "sent a line that is too long: it may be another kind of server");
                feed[-1] = 0;
                link->start += size + 1;
                *out_line = line;
                *out_size = size - 1;
                return true;
            }
            searched = size + 1;
        }
        searched = there;
        if (there > size_max + 1)
            return server_link_fail(link, "sent a line that is too long: it may be another kind of server");
        if (!read_more(link)) return false;
    }
    return false;
}

bool server_link_bytes(struct server_link *link, size_t size, const char **out_bytes) {
    if (link->error[0] != 0) return false;
    if (link->end - link->start < size) make_room(link, size);
    while (link->end - link->start < size)
        if (!read_more(link)) return false;
    *out_bytes = size > 0 ? link->data + link->start : "";
    link->start += size;
    return true;
}

bool server_link_skip(struct server_link *link, uint64_t size) {
    while (link->error[0] == 0) {
        const size_t there = link->end - link->start;
        const size_t taken = size < there ? (size_t)size : there;
        link->start += taken;
        size -= taken;
        if (size == 0) return true;
        if (!read_more(link)) return false;
    }
    return false;
}
