/* ws_client.h: a WebSocket connection to a broker over TCP, TLS or a Unix socket.
 *
 *   CLOSED ─► RESOLVING ─► CONNECTING ─► SECURING ─► UPGRADING ─► OPEN
 *      ▲        (names)     (each address  (wss://)   (HTTP         │
 *      │                     in turn)                  response)    │
 *      └───────────── ws_client_close: at any moment ◄─────────────┘
 *
 * No function blocks. One thread owns the connection, and opens, reads and closes it. Other threads may send, except
 * during opening and closing; a lock of the owner must prevent that (link.c: client.lock). The owner is responsible for
 * deadlines. */
#ifndef TARRY_WS_CLIENT_H
#define TARRY_WS_CLIENT_H

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "message_reader.h"
#include "place.h"
#include "resolve.h"
#include "tls_stream.h"
#include "ws_frame.h"
#include "ws_handshake.h"

#define WS_CLIENT_PATH_MAX 32u
#define WS_CLIENT_BEARER_MAX 600u
#define WS_CLIENT_MASKS 64u
/* Size in bytes above which a message is sent in fragments, because brokers refuse frames above 1 MiB. */
#define WS_CLIENT_FRAGMENT_MAX ((size_t)512 << 10)

enum ws_client_state {
    WS_CLIENT_CLOSED,
    WS_CLIENT_RESOLVING,
    WS_CLIENT_CONNECTING,
    WS_CLIENT_SECURING,
    WS_CLIENT_UPGRADING,
    WS_CLIENT_OPEN
};

/* A message to be sent, with free space before it for the frame header. */
struct packet {
    uint8_t *data; /* WS_HEAD_MAX free bytes, then the payload */
    size_t size;   /* number of bytes of the payload */
    size_t capacity;
};

/* Makes room for `size` bytes of payload and returns their address; NULL: out of memory. Reuses the packet's memory. */
uint8_t *packet_reserve(struct packet *packet, size_t size);
void packet_deinit(struct packet *packet);

struct outgoing;

struct ws_client {
    enum ws_client_state state;
    int epoll;        /* epoll instance that watches the descriptor */
    uint64_t id;      /* number that identifies the connection in epoll events (data.u64) */
    int fd;           /* -1: none */
    uint32_t watched; /* watched EPOLL… events; 0: not registered */
    bool is_lent;     /* the descriptor is temporarily removed from epoll: see ws_client_lend */
    struct place place;
    char path[WS_CLIENT_PATH_MAX];
    const char *protocol;
    char bearer[WS_CLIENT_BEARER_MAX];
    struct tls_source tls_source;
    struct tls_stream *tls; /* TLS of the connection; NULL: no TLS */
    struct resolving *resolving;
    const struct addrinfo *next_address; /* next address to try, in the result of the lookup */
    char accept[WS_ACCEPT_SIZE + 1];
    struct message_reader reader;
    uint32_t ready;         /* epoll events that have not been handled yet */
    unsigned reads_left;    /* number of reads left for this connection before the others are handled */
    char said[WS_SAID_MAX]; /* why the connection was lost, as text */
    bool denied;            /* the server refused this client's credentials (WS_RESPONSE_DENIED) */
    bool dead;              /* the connection was lost because the other host did not acknowledge in time */
    uint32_t dead_after_ms; /* as in struct ws_client_options: time after which a silent host counts as dead; 0: TCP's
                               own timeout */
    /* Protected by `io`: outgoing data, and all calls of `tls`. */
    pthread_mutex_t io; /* a thread that holds `io` locks nothing else */
    struct outgoing *first;
    struct outgoing *last;
    uint32_t masks[WS_CLIENT_MASKS];
    unsigned masks_left;
};

struct ws_client_options {
    const struct place *place;
    const char *path;             /* "/rpc" */
    const char *protocol;         /* static string */
    const char *bearer;           /* token to send; "": no token */
    const struct tls_source *tls; /* source of the TLS context for wss://; otherwise NULL */
    size_t message_max;           /* limit in bytes; a larger message ends the connection */
    /* Time in ms after which a host that acknowledges nothing counts as dead. Useful values are at least 1,000,
     * because TCP probes an idle peer once a second. 0: not checked. */
    uint32_t dead_after_ms;
};

void ws_client_init(struct ws_client *connection);
void ws_client_deinit(struct ws_client *connection);
/* Starts to connect a closed connection. If the start fails at once, the connection stays closed and `said` has the
 * reason. */
void ws_client_open(struct ws_client *connection, int epoll, uint64_t id, const struct ws_client_options *options);
/* Closes the connection. Unsent data is dropped. */
void ws_client_close(struct ws_client *connection);

enum ws_client_news { WS_CLIENT_NOTHING, WS_CLIENT_OPENED, WS_CLIENT_MESSAGE, WS_CLIENT_LOST };

/* Sets the reason why the connection ends, on behalf of its owner. */
void ws_client_say(struct ws_client *connection, const char *why);
/* Records epoll events for the connection. */
void ws_client_ready(struct ws_client *connection, uint32_t events);
/* Returns the next event. Call it until it returns NOTHING or LOST. MESSAGE: *out_data is valid until the next call.
 * LOST: `said` has the reason, or "" if the server closed the connection; the owner must close it. */
enum ws_client_news ws_client_next(struct ws_client *connection, const uint8_t **out_data, size_t *out_size);

/* Sends the packet as one message. Bytes that the kernel does not take at once are sent later. The function either
 * takes the packet's memory, and sets `data` to NULL, or leaves the memory to the caller for reuse. The payload is
 * masked in place, so the caller must not read it afterwards. `tag` identifies the message for ws_client_unsend.
 * ws_client_next reports errors. Any thread may call the function. */
void ws_client_send(struct ws_client *connection, struct packet *packet, uint32_t tag);
/* True: all bytes have been sent. */
bool ws_client_is_sent(struct ws_client *connection);
/* Removes an open connection from epoll until ws_client_take_back. Meanwhile the reading thread waits for the
 * connection's descriptor itself. */
void ws_client_lend(struct ws_client *connection);
/* Registers the connection with epoll again. False: the system refused, so no more events will come. */
bool ws_client_take_back(struct ws_client *connection);
/* Cancels the messages with this tag of which no byte has been sent. */
void ws_client_unsend(struct ws_client *connection, uint32_t tag);

#endif
