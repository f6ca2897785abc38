/* listen.h: where the broker listens: the address that was asked for, checked, and the socket.
 *
 * A Unix socket has mode 0660: its owner, its group, and root may connect; what they may do then depends on the user
 * (caller.h). One that a dead broker has left is replaced; two brokers that start there at
 * once agree by a lock on the directory. */
#ifndef TARRY_NET_LISTEN_H
#define TARRY_NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LISTEN_HOST_SIZE 256
#define LISTEN_URL_SIZE (LISTEN_HOST_SIZE + 24)
#define LISTEN_PATH_MAX 107 /* bytes of a Unix socket's path: sun_path and its end */

enum listen_scheme { LISTEN_WS, LISTEN_WSS, LISTEN_BEANSTALK, LISTEN_UNIX };

struct listen_address {
    enum listen_scheme scheme;
    char host[LISTEN_HOST_SIZE]; /* without brackets; LISTEN_UNIX: the path */
    uint16_t port;               /* 0: any */
    bool loopback;               /* no client beyond this machine can reach it */
};

/* A socket that listens. */
struct listen_socket {
    int fd;
    dev_t device; /* LISTEN_UNIX: the file that was made */
    ino_t inode;
};

/* "ws://HOST[:PORT]", "wss://…" or "beanstalk://…", nothing after it, or "unix:///PATH". False: `*out_problem` is a
 * sentence. Pure. */
bool listen_parse(const char *url, struct listen_address *out, const char **out_problem);
/* The same, of where another broker is reached: ws:// or wss://. */
bool listen_parse_peer(const char *url, struct listen_address *out, const char **out_problem);
/* "ws://HOST:PORT", IPv6 in brackets; "unix:///PATH". */
void listen_format(const struct listen_address *address, char *out, size_t size);
/* A socket that listens there; a port 0 of `address` becomes the one that was given. 0 or a positive errno: EADDRINUSE:
 * another process listens there; EEXIST: there is a file in the Unix socket's place that is none. It accepts nothing by
 * itself: what knocks waits in the kernel's queue. */
int listen_open(struct listen_address *address, struct listen_socket *out);
/* Removes the Unix socket, if it is still the one that was made. The descriptor stays open. */
void listen_remove(const struct listen_address *address, const struct listen_socket *socket);
/* Of a connection that was accepted: no waiting for more to send, and an end for one whose other side is gone without a
 * farewell (F-17). */
void listen_tune_connection(int fd);

#endif
