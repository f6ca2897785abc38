/* connection.h: a WebSocket connection to a broker over TCP, TLS or a Unix socket.
 *
 *   CLOSED ─► RESOLVING ─► CONNECTING ─► SECURING ─► UPGRADING ─► OPEN
 *      ▲        (names)     (each address  (wss://)   (HTTP         │
 *      │                     in turn)                  response)    │
 *      └───────────── connection_close: at any moment ◄─────────────┘
 *
 * No function blocks. One thread owns the connection: it opens, reads and closes. Other threads may send, if the
 * owner's lock keeps them from sending during opening and closing (link.c: client.lock). The owner is responsible
 * for deadlines. */
#ifndef TARRY_CONNECTION_H
#define TARRY_CONNECTION_H

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message_reader.h"
#include "place.h"
#include "resolve.h"
#include "tls.h"
#include "ws_frame.h"
#include "ws_handshake.h"

#define CONNECTION_PATH_MAX 32u
#define CONNECTION_BEARER_MAX 600u
#define MASKS_AT_ONCE 64u
/* Larger messages are sent in fragments: brokers refuse frames above 1 MiB. */
#define CONNECTION_FRAGMENT_MAX ((size_t)512 << 10)

enum connection_state {
    CONNECTION_CLOSED,
    CONNECTION_RESOLVING,
    CONNECTION_CONNECTING,
    CONNECTION_SECURING,
    CONNECTION_UPGRADING,
    CONNECTION_OPEN
};

/* A message to be sent, with free space before it for the frame header. */
struct packet {
    uint8_t *data; /* WS_HEAD_MAX free bytes, then the payload */
    size_t size;   /* bytes of the payload */
    size_t capacity;
};

/* Makes room for `size` bytes of payload and returns their address; NULL: out of memory. Reuses the packet's memory. */
uint8_t *packet_reserve(struct packet *packet, size_t size);
void packet_deinit(struct packet *packet);

struct outgoing;

struct connection {
    enum connection_state state;
    int epoll;        /* epoll instance that watches the descriptor */
    uint64_t id;      /* number of the connection in its epoll events */
    int fd;           /* -1: none */
    uint32_t watched; /* watched EPOLL… events; 0: not registered */
    bool is_lent;     /* temporarily not registered: see connection_lend */
    struct place place;
    char path[CONNECTION_PATH_MAX];
    const char *protocol;
    char bearer[CONNECTION_BEARER_MAX];
    const struct tls_files *files; /* owned by the owner of the connection */
    struct tls *tls;               /* NULL: no TLS */
    struct resolving *resolving;
    const struct addrinfo *next_address; /* in the result of the lookup */
    char accept[WS_ACCEPT_SIZE + 1];
    struct message_reader reader;
    uint32_t ready;         /* epoll events that have not been handled yet */
    unsigned reads_left;    /* reads left in this turn, before other connections are handled */
    char said[WS_SAID_MAX]; /* why the connection was lost, as text */
    bool denied;            /* the server refused this client's credentials (WS_RESPONSE_DENIED) */
    bool dead;              /* the other host did not acknowledge in time */
    uint32_t dead_after_ms; /* see struct connection_options; 0: TCP's own timeout */
    /* Protected by `io`: outgoing data, and all calls of `tls`. */
    pthread_mutex_t io; /* no other lock is taken while it is held */
    struct outgoing *first;
    struct outgoing *last;
    uint32_t masks[MASKS_AT_ONCE];
    unsigned masks_left;
};

struct connection_options {
    const struct place *place;
    const char *path;              /* "/rpc" */
    const char *protocol;          /* static string */
    const char *bearer;            /* "": no token */
    const struct tls_files *files; /* for wss://; must outlive the connection */
    size_t message_max;            /* limit in bytes; a larger message ends the connection */
    /* Time in ms after which a host that acknowledges nothing counts as dead. Useful values are at least 1,000,
     * because TCP probes an idle peer once a second. 0: not checked. */
    uint32_t dead_after_ms;
};

void connection_init(struct connection *connection);
void connection_deinit(struct connection *connection);
/* Starts to connect. The connection must be closed. If this fails at once, it is closed again and `said` has the
 * reason. */
void connection_open(struct connection *connection, int epoll, uint64_t id, const struct connection_options *options);
/* Closes the connection. Unsent data is dropped. */
void connection_close(struct connection *connection);

enum connection_news { CONNECTION_NOTHING, CONNECTION_OPENED, CONNECTION_MESSAGE, CONNECTION_LOST };

/* Sets the reason why the connection ends, on behalf of its owner. */
void connection_say(struct connection *connection, const char *why);
/* Records epoll events for the connection. */
void connection_ready(struct connection *connection, uint32_t events);
/* Returns the next event. Call it until it returns NOTHING or LOST. MESSAGE: *out_data is valid until the next call.
 * LOST: `said` has the reason, or "" if the server closed the connection; the owner must close it. */
enum connection_news connection_next(struct connection *connection, const uint8_t **out_data, size_t *out_size);

/* Sends the packet as one message. Bytes that the kernel does not take at once are sent later. The function takes
 * the packet's memory (data is then NULL) or leaves it to the caller for reuse. It masks the payload in place, which
 * destroys it. `tag`: for connection_unsend. connection_next reports errors. Any thread. */
void connection_send(struct connection *connection, struct packet *packet, uint32_t tag);
/* True: all bytes have been sent. */
bool connection_is_sent(struct connection *connection);
/* Removes an open connection from epoll until connection_take_back. Meanwhile the reading thread waits for its
 * descriptor. */
void connection_lend(struct connection *connection);
/* Registers the connection with epoll again. False: the system refused, so no more events will come. */
bool connection_take_back(struct connection *connection);
/* Cancels the messages with this tag of which no byte has been sent. */
void connection_unsend(struct connection *connection, uint32_t tag);

#endif
