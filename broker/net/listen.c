/* listen.c: see listen.h. */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tarry_limits.h"

/* Connections that wait to be accepted; the system cuts it to net.core.somaxconn. In a flood an overflowing queue costs
 * an honest client a second, which is how long TCP takes to knock again. */
#define BACKLOG 4096
/* An idle connection is probed after a minute; one that answers nothing, or takes nothing of what it was sent, for
 * another minute is ended. A client that lives reads always, whatever its user does. */
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_INTERVAL_S 15
#define UNANSWERED_MAX_MS 60000

static bool is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool port_parse(const char *text, size_t size, uint16_t *out) {
    unsigned value = 0;
    if (size == 0 || size > 5) return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *out = (uint16_t)value;
    return value <= UINT16_MAX;
}

bool listen_parse(const char *url, struct listen_address *out, const char **out_problem) {
    static const char scheme[] = "ws://";
    *out = (struct listen_address){.port = DEFAULT_PORT};
    *out_problem = "it must look like ws://127.0.0.1:7272, without a path";
    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0) return false;
    const char *host = url + sizeof(scheme) - 1;
    bool bracket = *host == '[';
    if (bracket) host++;
    size_t size = strcspn(host, bracket ? "]" : ":/?#");
    const char *rest = host + size;
    if (bracket && *rest++ != ']') return false;
    if (size == 0 || size >= LISTEN_HOST_SIZE) return false;
    for (size_t i = 0; i < size; i++)
        if (host[i] <= ' ' || host[i] > '~') return false;
    memcpy(out->host, host, size);
    out->host[size] = '\0';
    if (*rest == ':') {
        size_t port_size = strcspn(++rest, "/?#");
        *out_problem = "the port must be a number from 0 to 65535";
        if (!port_parse(rest, port_size, &out->port)) return false;
        rest += port_size;
    }
    *out_problem = "it must not have a path";
    if (strcmp(rest, "") != 0 && strcmp(rest, "/") != 0) return false;
    out->loopback = is_loopback(out->host);
    return true;
}

void listen_format(const struct listen_address *address, char *out, size_t size) {
    bool six = strchr(address->host, ':') != NULL;
    snprintf(out, size, "ws://%s%s%s:%u", six ? "[" : "", address->host, six ? "]" : "", address->port);
}

static bool bound_port(int fd, uint16_t *out) {
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    char text[NI_MAXSERV] = "";
    if (getsockname(fd, (struct sockaddr *)&bound, &size) != 0) return false;
    if (getnameinfo((struct sockaddr *)&bound, size, NULL, 0, text, sizeof(text), NI_NUMERICSERV) != 0) return false;
    return port_parse(text, strlen(text), out);
}

int listen_open(const struct listen_address *address, int *out_fd, uint16_t *out_port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    const char *host = strcmp(address->host, "*") == 0 ? NULL : address->host;
    char port[8];
    int error = 0, on = 1;
    snprintf(port, sizeof(port), "%u", address->port);
    if (getaddrinfo(host, port, &hints, &found) != 0) return EADDRNOTAVAIL;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        error = errno;
    else if (!bound_port(fd, out_port))
        error = EADDRNOTAVAIL;
    freeaddrinfo(found);
    if (error == 0)
        *out_fd = fd;
    else if (fd >= 0)
        close(fd);
    return error;
}

static void set_option(int fd, int level, int option, int value) {
    /* One that is refused costs an honest client nothing. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void listen_tune_connection(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MAX_MS);
}
