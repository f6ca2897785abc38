/* listen.h: parses and checks the address on which the broker listens, and opens the listening socket.
 *
 * A Unix socket has mode 0660: its owner, its group and root may connect; their permissions depend on the user
 * (caller.h). The broker replaces a socket file that a dead broker left. A lock on the directory serializes brokers
 * that start at the same time. */
#ifndef TARRY_NET_LISTEN_H
#define TARRY_NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LISTEN_HOST_SIZE 256
#define LISTEN_URL_SIZE (LISTEN_HOST_SIZE + 24)
#define LISTEN_PATH_MAX 107 /* maximum bytes of a Unix socket's path: the size of sun_path without its terminator */

enum listen_scheme {
    LISTEN_WS,
    LISTEN_WSS,
    LISTEN_UNIX, /* HTTP and WebSocket over a Unix socket */
    LISTEN_BEANSTALK,
    LISTEN_TCP, /* nng's own transports (proto/sp_frame.h) */
    LISTEN_TLS_TCP,
    LISTEN_AMQP,
    LISTEN_AMQPS,
    LISTEN_IPC
};

struct listen_address {
    enum listen_scheme scheme;
    char host[LISTEN_HOST_SIZE]; /* host name or address, without brackets; for a Unix socket its path */
    uint16_t port;               /* port; 0: any free port */
    bool loopback;               /* only clients on this machine can reach the address */
};

/* A listening socket. */
struct listen_socket {
    int fd;
    dev_t device; /* device number of the socket file of a Unix socket; `ino` is its inode */
    ino_t inode;
};

/* Parses "ws://HOST[:PORT]", "wss://…", "beanstalk://…", "amqp://…", "amqps://…", "tcp://HOST:PORT", "tls+tcp://…",
 * "unix:///PATH" or "ipc:///PATH". False: `*out_problem` is a sentence. Pure. */
bool listen_parse(const char *url, struct listen_address *out, const char **out_problem);
/* Parses the address of another broker: ws:// or wss://. False: `*out_problem` is a sentence. */
bool listen_parse_peer(const char *url, struct listen_address *out, const char **out_problem);
static inline bool listen_is_unix(enum listen_scheme scheme) {
    return scheme == LISTEN_UNIX || scheme == LISTEN_IPC;
}
static inline bool listen_is_tls(enum listen_scheme scheme) {
    return scheme == LISTEN_WSS || scheme == LISTEN_TLS_TCP || scheme == LISTEN_AMQPS;
}
/* Returns whether the tool and Tarry's clients can connect to this address. */
static inline bool listen_is_for_clients(enum listen_scheme scheme) {
    return scheme == LISTEN_WS || scheme == LISTEN_WSS || scheme == LISTEN_UNIX;
}
/* Writes "ws://HOST:PORT" (IPv6 in brackets) or "unix:///PATH". */
void listen_format(const struct listen_address *address, char *out, size_t size);
/* Opens a listening socket; a port 0 in `address` is replaced by the assigned one. Returns 0 or a positive errno.
 * EADDRINUSE: another process listens there. EEXIST: a file that is not a socket has this path. Nothing is accepted
 * yet: new connections wait in the kernel's queue. */
int listen_open(struct listen_address *address, struct listen_socket *out);
/* Removes the Unix socket's file if it is still the one that listen_open made. The descriptor stays open. */
void listen_remove(const struct listen_address *address, const struct listen_socket *socket);
/* Configures an accepted connection: no send delay (Nagle off), and keepalive that detects a vanished client (F-17). */
void listen_tune_connection(int fd);

#endif
