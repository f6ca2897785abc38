/* connection.h: a WebSocket connection to a broker, by TCP, TLS or a Unix socket.
 *
 *   CLOSED ─► RESOLVING ─► CONNECTING ─► SECURING ─► UPGRADING ─► OPEN
 *      ▲        (names)     (each address  (wss://)   (HTTP's       │
 *      │                     in turn)                  answer)      │
 *      └───────────── connection_close: at any moment ◄─────────────┘
 *
 * Nothing here waits. One thread owns it: opens, reads, closes. Others may send meanwhile, if the owner's lock keeps
 * that apart from opening and closing (link.c: client.lock). Deadlines are the owner's business. */
#ifndef TARRY_CONNECTION_H
#define TARRY_CONNECTION_H

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "place.h"
#include "resolve.h"
#include "tls.h"
#include "upgrade.h"
#include "ws_frame.h"

#define CONNECTION_PATH_MAX 32u
#define CONNECTION_BEARER_MAX 600u
#define MASKS_AT_ONCE 64u

enum connection_state {
    CONNECTION_CLOSED,
    CONNECTION_RESOLVING,
    CONNECTION_CONNECTING,
    CONNECTION_SECURING,
    CONNECTION_UPGRADING,
    CONNECTION_OPEN
};

/* A message on its way out, with room before it for the frame's head. */
struct packet {
    uint8_t *data; /* FRAME_HEAD_MAX bytes of room, then the payload */
    size_t size;   /* of the payload */
    size_t capacity;
};

/* Makes room for `size` bytes of payload, and returns where they go; NULL: out of memory. Memory is used again. */
uint8_t *packet_reserve(struct packet *packet, size_t size);
void packet_deinit(struct packet *packet);

struct outgoing;

struct connection {
    enum connection_state state;
    int epoll;        /* where its descriptor is registered, under … */
    uint64_t id;      /* … this number */
    int fd;           /* -1: none */
    uint32_t watched; /* EPOLL…; 0: epoll does not know it */
    bool is_lent;     /* epoll does not know it for a while */
    struct place place;
    char path[CONNECTION_PATH_MAX];
    const char *protocol;
    char bearer[CONNECTION_BEARER_MAX];
    const struct tls_files *files; /* the owner's */
    struct tls *tls;               /* NULL: there is none */
    struct resolving *resolving;
    const struct addrinfo *next_address; /* of the lookup's */
    char accept[UPGRADE_ACCEPT_SIZE + 1];
    struct frame_reader reader;
    uint32_t ready;              /* what epoll said, and has not been done yet */
    unsigned reads_left;         /* of this turn, before others have theirs */
    char said[UPGRADE_SAID_MAX]; /* why it is lost, in words */
    bool denied;                 /* … and that is the client's fault (UPGRADE_DENIED) */
    bool dead;                   /* … for the other host did not acknowledge in time */
    uint32_t dead_after_ms;      /* 0: as long as TCP itself has patience */
    /* io: what is to leave; and all that is asked of `tls` */
    pthread_mutex_t io; /* innermost */
    struct outgoing *first;
    struct outgoing *last;
    uint32_t masks[MASKS_AT_ONCE];
    unsigned masks_left;
};

struct connection_options {
    const struct place *place;
    const char *path;              /* "/rpc" */
    const char *protocol;          /* static */
    const char *bearer;            /* "": none */
    const struct tls_files *files; /* for wss://; they outlive the connection */
    size_t message_max;            /* larger ones end the connection */
    /* A host whose kernel acknowledges nothing for so long is dead (ms; a second or more to be of use, for TCP asks an
     * idle peer once a second); 0: it is not looked at. */
    uint32_t dead_after_ms;
};

void connection_init(struct connection *connection);
void connection_deinit(struct connection *connection);
/* Begins. It must be closed; it is again at once if it fails at once, and `said` says why. */
void connection_open(struct connection *connection, int epoll, uint64_t id, const struct connection_options *options);
/* Drops what has not left. */
void connection_close(struct connection *connection);

enum connection_news { CONNECTION_NOTHING, CONNECTION_OPENED, CONNECTION_MESSAGE, CONNECTION_LOST };

/* The owner has something to say about why it ends. */
void connection_say(struct connection *connection, const char *why);
/* epoll named it. */
void connection_ready(struct connection *connection, uint32_t events);
/* What has become of it; to be called until it says NOTHING or LOST. MESSAGE: *out_data is valid until the next call.
 * LOST: `said` says why, or is "" if it just ended; nothing more comes, and it is to be closed. */
enum connection_news connection_next(struct connection *connection, const uint8_t **out_data, size_t *out_size);

/* Sends the packet as one message, as far as the kernel takes it at once; the rest follows by itself. The packet's
 * memory stays the caller's, to be used again, or is taken (data is NULL then). The payload is masked, so worthless
 * afterwards. `tag`: for connection_unsend. What goes wrong is told by connection_next. Any thread. */
void connection_send(struct connection *connection, struct packet *packet, uint32_t tag);
/* Has all left that was sent? */
bool connection_is_sent(struct connection *connection);
/* An open one: epoll does not look at it until it is taken back; the reading thread waits for its descriptor meanwhile.
 */
void connection_lend(struct connection *connection);
/* False: the system refuses, and nothing more will be heard of it. */
bool connection_take_back(struct connection *connection);
/* Of what has this tag nothing leaves, if not a byte has left yet. */
void connection_unsend(struct connection *connection, uint32_t tag);

#endif
