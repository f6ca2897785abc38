/* listen.c: see listen.h. */
#include "listen.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tarry_limits.h"

/* Maximum number of connections that wait to be accepted; the system limits it to net.core.somaxconn. If this queue
 * overflows in a flood, an honest client loses a second, because TCP retries after 1 s. */
#define BACKLOG 4096
/* Keepalive: an idle connection is probed after 60 s. It is ended if its client does not respond, or accepts no sent
 * bytes, for another 60 s. A live client library always reads, whatever its application does. */
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_INTERVAL_S 15
#define UNANSWERED_MAX_MS 60000

/* Number of attempts to lock a Unix socket's directory, and the time between two attempts. Another broker that starts
 * in the same directory may hold the lock. */
#define DIRECTORY_TRIES 100
#define DIRECTORY_TRY_US 10000
#define UNIX_MODE 0660

static_assert(LISTEN_PATH_MAX + 1 == sizeof(((struct sockaddr_un *)0)->sun_path),
              "a path is as long as the system accepts");
static_assert(LISTEN_PATH_MAX < LISTEN_HOST_SIZE, "a path fits");

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

static const char *const schemes[] = {
    [LISTEN_WS] = "ws://",     [LISTEN_WSS] = "wss://",
    [LISTEN_UNIX] = "unix://", [LISTEN_BEANSTALK] = "beanstalk://",
    [LISTEN_TCP] = "tcp://",   [LISTEN_TLS_TCP] = "tls+tcp://",
    [LISTEN_AMQP] = "amqp://", [LISTEN_AMQPS] = "amqps://",
    [LISTEN_IPC] = "ipc://",
};

static bool path_parse(const char *path, struct listen_address *out, const char **out_problem) {
    size_t size = strlen(path);
    *out_problem = "the path of a Unix socket must be absolute, such as unix:///run/tarry/tarryd.sock";
    if (path[0] != '/' || path[size - 1] == '/') return false;
    *out_problem = "the path of a Unix socket may have at most 107 bytes; choose a shorter one";
    if (size > LISTEN_PATH_MAX) return false;
    *out_problem = "the path of a Unix socket must not contain blanks or control characters";
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)path[i] <= ' ' || path[i] == 0x7f) return false;
    memcpy(out->host, path, size + 1);
    out->loopback = true;
    return true;
}

bool listen_parse(const char *url, struct listen_address *out, const char **out_problem) {
    *out = (struct listen_address){.port = DEFAULT_PORT};
    *out_problem = "it must look like ws://127.0.0.1:7272, wss://HOST:PORT, tcp://127.0.0.1:7273, tls+tcp://HOST:PORT, "
                   "beanstalk://127.0.0.1:11300, amqp://127.0.0.1:5672 or amqps://HOST:PORT, without a path, or like "
                   "unix:///run/tarry/tarryd.sock or ipc:///run/tarry/nng.sock";
    while (strncmp(url, schemes[out->scheme], strlen(schemes[out->scheme])) != 0)
        if (out->scheme++ == LISTEN_IPC) return false;
    const char *host = url + strlen(schemes[out->scheme]);
    if (listen_is_unix(out->scheme)) return path_parse(host, out, out_problem);
    if (out->scheme == LISTEN_BEANSTALK) out->port = BEANSTALK_PORT;
    if (out->scheme == LISTEN_AMQP) out->port = AMQP_PORT;
    if (out->scheme == LISTEN_AMQPS) out->port = AMQPS_PORT;
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
    } else if (out->scheme == LISTEN_TCP || out->scheme == LISTEN_TLS_TCP) {
        *out_problem = "the port is missing: tcp:// and tls+tcp:// have no default port";
        return false;
    }
    *out_problem = "it must not have a path";
    if (strcmp(rest, "") != 0 && strcmp(rest, "/") != 0) return false;
    out->loopback = is_loopback(out->host);
    return true;
}

void listen_format(const struct listen_address *address, char *out, size_t size) {
    bool six = strchr(address->host, ':') != NULL;
    if (listen_is_unix(address->scheme))
        snprintf(out, size, "%s%s", schemes[address->scheme], address->host);
    else
        snprintf(out, size, "%s%s%s%s:%u", schemes[address->scheme], six ? "[" : "", address->host, six ? "]" : "",
                 address->port);
}

bool listen_parse_peer(const char *url, struct listen_address *out, const char **out_problem) {
    if (!listen_parse(url, out, out_problem)) return false;
    *out_problem = "the address of the other node must begin with ws:// or wss://";
    return out->scheme == LISTEN_WS || out->scheme == LISTEN_WSS;
}

static bool bound_port(int fd, uint16_t *out) {
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    char text[NI_MAXSERV] = "";
    if (getsockname(fd, (struct sockaddr *)&bound, &size) != 0) return false;
    if (getnameinfo((struct sockaddr *)&bound, size, NULL, 0, text, sizeof(text), NI_NUMERICSERV) != 0) return false;
    return port_parse(text, strlen(text), out);
}

/* ---- Unix sockets */

/* Opens the socket's directory and locks it against other processes. Returns the descriptor, or a negative errno. */
static int lock_directory(const char *path) {
    char directory[LISTEN_PATH_MAX + 1];
    size_t size = (size_t)(strrchr(path, '/') - path);
    memcpy(directory, path, size);
    directory[size] = '\0';
    int fd = open(size > 0 ? directory : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    for (int i = 0; i < DIRECTORY_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        usleep(DIRECTORY_TRY_US);
    }
    close(fd);
    return -EBUSY;
}

/* Removes the socket file if no process uses it. Returns 0 if no file is left at the path; EADDRINUSE if a process
 * listens on the socket; EEXIST if the file is not a socket; or another errno. */
static int clear_place(const struct sockaddr_un *place) {
    struct stat status;
    if (lstat(place->sun_path, &status) != 0) return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(status.st_mode)) return EEXIST;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    int error = connect(fd, (const struct sockaddr *)place, sizeof(*place)) == 0 ? 0 : errno;
    close(fd);
    /* EAGAIN: a process listens, but its queue of new connections is full. */
    if (error == 0 || error == EAGAIN) return EADDRINUSE;
    if (error != ECONNREFUSED) return error;
    return unlink(place->sun_path) == 0 ? 0 : errno;
}

static int bind_unix(const struct sockaddr_un *place, struct listen_socket *out) {
    struct stat status;
    int error = clear_place(place);
    if (error != 0) return error;
    out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (out->fd < 0) return errno;
    if (bind(out->fd, (const struct sockaddr *)place, sizeof(*place)) != 0 || chmod(place->sun_path, UNIX_MODE) != 0 ||
        lstat(place->sun_path, &status) != 0 || listen(out->fd, BACKLOG) != 0) {
        error = errno;
        close(out->fd);
        return error;
    }
    out->device = status.st_dev;
    out->inode = status.st_ino;
    return 0;
}

static int open_unix(const char *path, struct listen_socket *out) {
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    memcpy(place.sun_path, path, strlen(path) + 1);
    int directory = lock_directory(path);
    if (directory < 0) return -directory;
    int error = bind_unix(&place, out);
    close(directory);
    return error;
}

void listen_remove(const struct listen_address *address, const struct listen_socket *socket) {
    struct stat status;
    if (!listen_is_unix(address->scheme)) return;
    int directory = lock_directory(address->host);
    bool is_ours =
        lstat(address->host, &status) == 0 && status.st_dev == socket->device && status.st_ino == socket->inode;
    if (is_ours)
        (void)unlink(address->host); /* a failed unlink is ignored, because the next start replaces the socket file */
    if (directory >= 0) close(directory);
}

/* ---- */

int listen_open(struct listen_address *address, struct listen_socket *out) {
    if (listen_is_unix(address->scheme)) return open_unix(address->host, out);
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
    else if (!bound_port(fd, &address->port))
        error = EADDRNOTAVAIL;
    freeaddrinfo(found);
    if (error == 0)
        out->fd = fd;
    else if (fd >= 0)
        close(fd);
    return error;
}

static void set_option(int fd, int level, int option, int value) {
    /* A failed setsockopt is ignored, because the connection also works without these TCP options. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void listen_tune_connection(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MAX_MS);
}
