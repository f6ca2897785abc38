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

#define BACKLOG 4096 /* the system cuts it to net.core.somaxconn */
#define DESCRIPTORS_AT_START 256
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

int listen_free_port(const struct listen_address *address, uint16_t *out_port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    const char *host = strcmp(address->host, "*") == 0 ? NULL : address->host;
    if (getaddrinfo(host, "0", &hints, &found) != 0) return EADDRNOTAVAIL;
    int error = 0, on = 1;
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    char port[NI_MAXSERV] = "";
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Bound but never listening or connected: the port is free again as soon as the socket is closed. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || getsockname(fd, (struct sockaddr *)&bound, &size) != 0)
        error = errno;
    else if (getnameinfo((struct sockaddr *)&bound, size, NULL, 0, port, sizeof(port), NI_NUMERICSERV) != 0 ||
             !port_parse(port, strlen(port), out_port))
        error = EADDRNOTAVAIL;
    if (fd >= 0) close(fd);
    freeaddrinfo(found);
    return error;
}

/* The port of a listening socket; 0: it is none. */
static uint16_t listening_port(int fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens) return 0;
    struct sockaddr_storage bound = {0};
    char text[NI_MAXSERV] = "";
    uint16_t port = 0;
    size = sizeof(bound);
    if (getsockname(fd, (struct sockaddr *)&bound, &size) != 0) return 0;
    if (getnameinfo((struct sockaddr *)&bound, size, NULL, 0, text, sizeof(text), NI_NUMERICSERV) != 0) return 0;
    return port_parse(text, strlen(text), &port) ? port : 0;
}

static bool set_tcp(int fd, int option, int value) {
    return setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)) == 0;
}

bool listen_tune(uint16_t port) {
    bool tuned = false;
    for (int fd = 0; fd < DESCRIPTORS_AT_START; fd++)
        if (listening_port(fd) == port && listen(fd, BACKLOG) == 0 && set_tcp(fd, TCP_KEEPIDLE, KEEPALIVE_IDLE_S) &&
            set_tcp(fd, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S) && set_tcp(fd, TCP_USER_TIMEOUT, UNANSWERED_MAX_MS))
            tuned = true;
    return tuned;
}

bool listen_address_of(uint16_t port, struct sockaddr_storage *out) {
    int fd = 0;
    while (fd < DESCRIPTORS_AT_START && listening_port(fd) != port) fd++;
    socklen_t size = sizeof(*out);
    return fd < DESCRIPTORS_AT_START && getsockname(fd, (struct sockaddr *)out, &size) == 0;
}
