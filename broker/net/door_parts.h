/* door_parts.h: declarations shared by the files of the door; no other file includes it. Only the door's thread may use
 * them. Exceptions: atomic members, the message queue, and members that are fixed before the thread starts. */
#ifndef TARRY_NET_DOOR_PARTS_H
#define TARRY_NET_DOOR_PARTS_H

#include <libwebsockets.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "door.h"
#include "door_frames.h"
#include "door_head.h"
#include "door_stream.h"
#include "door_turn.h"
#include "fair.h"
#include "tarry_limits.h"
#include "wait.h"

#define DOOR_ADDRESS_SIZE 16
#define DOOR_ADDRESS_BUCKETS 1024u
#define DOOR_FRAME_OUT (64u << 10) /* maximum bytes of an outgoing frame */

enum door_order { ORDER_ANSWER, ORDER_DELIVERY, ORDER_PAGE };

enum connection_kind { CONNECTION_HTTP, CONNECTION_RPC, CONNECTION_LANE, CONNECTION_STREAM };

/* Number of connections from one address. */
struct address {
    struct address *next;
    unsigned count;
    uint8_t bytes[DOOR_ADDRESS_SIZE]; /* IPv6, or IPv4 mapped to IPv6; for a Unix socket 0xff and the uid */
};

struct connection {
    struct door *door;
    struct lws *wsi;
    uint64_t id;
    enum connection_kind kind;
    bool paused;          /* the door does not read from it */
    bool is_gone;         /* the callees know that it has ended; drop messages for it */
    bool discards;        /* read incoming bytes to the end of the request, and drop them */
    bool is_waiting;      /* in the door's list `waiting` */
    bool awaits_page;     /* it requested a page and has no reply yet */
    bool is_in_http;      /* in a list of `newcomers` */
    bool is_answered;     /* it got its one page; read nothing more */
    bool wants_head_only; /* the request is HEAD */
    bool is_up;           /* lane_up returned true */
    bool over_tls;
    bool is_admitted;           /* call `dismiss` for `principal` at the end */
    bool is_diverted;           /* door_first.c recognized a stream protocol */
    bool asks_pause;            /* CONNECTION_STREAM: its protocol asked the door to pause reading */
    bool finishes;              /* CONNECTION_STREAM: close it once everything is sent */
    bool lingers;               /* CONNECTION_STREAM: everything is sent and it is closing; drop incoming bytes */
    bool is_followed;           /* upgraded to WebSocket; door_frames.h checks its frames */
    struct door_frames frames;  /* valid if is_followed */
    const char *frames_problem; /* the rule that its client's frames broke; NULL: none */
    bool has_ended;             /* CONNECTION_STREAM: the client shut down its sending side, and still gets replies */
    bool gives_way;             /* CONNECTION_STREAM: it is being closed to free memory; ignore all its input */
    int fd;                     /* valid until its request head has arrived */
    struct head_refusal early;  /* status != 0: the strict parser refused its head */
    char *first;                /* buffered bytes of its request head; NULL: none */
    size_t first_size, first_capacity;      /* size and capacity of `first` */
    const struct door_stream_calls *speaks; /* CONNECTION_STREAM */
    void *stream;                           /* its protocol's state; NULL: `gone` was called */
    bool is_half;                           /* in the door's list `halves` */
    bool is_beyond_share;                   /* `discards` is set because its principal is over its byte limit */
    bool is_unread;                         /* in the door's list `unread` */
    unsigned under_way;                     /* requests whose reply is not yet in the kernel */
    struct fair_item in_line;               /* CONNECTION_STREAM: its place in the queue for turns (door_turn.h) */
    bool is_heavy;                          /* its last turn was long, so it must queue for the next one */
    struct address *address;
    struct message *incoming; /* the half-received request */
    size_t counted;           /* bytes of `incoming` and `request` that count against its principal's limit */
    lws_usec_t came_on_us;    /* valid if is_half: when the last progress was made */
    size_t incoming_size;     /* bytes received of the request, whether stored or dropped */
    size_t half_size;         /* CONNECTION_STREAM: bytes that its protocol holds for the half-received request */
    bool is_keeper;           /* in the door's list `keepers` */
    size_t kept_size;         /* CONNECTION_STREAM: bytes that its protocol buffers behind the current request */
    lws_usec_t kept_us;       /* when `kept_size` last decreased or was 0 */
    lws_sorted_usec_list_t too_late; /* timeout for the rest of the request */
    lws_sorted_usec_list_t unread;   /* timeout for unread replies */
    struct message *request;         /* a whole request that waits for capacity */
    struct message *out_first;
    struct message **out_last;
    size_t out_at;        /* bytes of out_first that the library has taken */
    size_t out_bytes;     /* bytes of all queued messages */
    struct message *page; /* the page that is being sent */
    size_t page_at;       /* bytes of `page` that the library has taken */
    uint32_t lane;
    uint64_t holder;
    uint64_t principal;
    enum caller_way way;
    uint32_t uid; /* CALLER_UNIX */
    uint32_t pid;
    TAILQ_ENTRY(connection) in_http;    /* if is_in_http; ordered by arrival */
    TAILQ_ENTRY(connection) in_waiting; /* if is_waiting; ordered by arrival of the request */
    TAILQ_ENTRY(connection) in_pages;   /* if page != NULL; ordered by the time of the reply */
    TAILQ_ENTRY(connection) in_halves;  /* if is_half; ordered by last progress */
    TAILQ_ENTRY(connection) in_keepers; /* if is_keeper; ordered by kept_us */
    TAILQ_ENTRY(connection) in_unread;  /* if is_unread; ordered by the time when its client last read replies */
    char peer[PEER_SIZE_MAX + 1];
};

TAILQ_HEAD(connection_list, connection);

/* Connections without an upgrade, ordered by arrival. */
struct newcomers {
    struct connection_list list;
    unsigned count;
    unsigned max; /* beyond it the door closes the first */
};

/* Slot of a connection; the low bits of its id are the index. `connection` belongs to the door's thread; the door's
 * mutex guards the rest. */
struct slot {
    struct connection *connection;
    uint64_t closing; /* ids of connections that must end, at once or after DOOR_LINGER_S; 0: none */
    uint64_t lingering;
    struct slot *next; /* valid if is_ending */
    bool is_ending;    /* in the door's list `ending` */
};

struct listener {
    struct door *door;
    struct lws *wsi;
    int fd;
    bool over_tls;
    const struct door_stream_calls *speaks;
};

/* Maximum number of inside ids (DOOR_INSIDE) that have ended or lack a reply: one for each open request and each lane.
 */
#define DOOR_INSIDE_ENDS 4096u

struct door {
    struct door_calls calls;
    struct door_limits limits;
    struct lws_context *context;
    struct lws_vhost *vhost;
    struct lws_vhost *vhost_tls; /* NULL: no TLS listener */
    lws_sorted_usec_list_t tls_look;
    lws_sorted_usec_list_t alarm;
    lws_sorted_usec_list_t trim; /* valid if is_trim_due */
    struct listener listeners[DOOR_LISTENERS_MAX];
    unsigned listener_count;
    int spare_fd; /* reserve descriptor: closed to accept and refuse one client when the process has no free descriptor
                   */
    lws_sorted_usec_list_t accept_again; /* timer: accept no connection until it fires */
    pthread_t thread;
    pthread_mutex_t serving; /* held by the serving thread; guards the library and all unguarded members */
    struct wait *wait;       /* poll replacement for the connections */
    pthread_t substitute;
    int aside_fd;          /* timer that wakes the substitute thread */
    _Atomic bool is_aside; /* the door's thread waits for a disk */

    _Atomic size_t held;
    _Atomic bool resumes;
    _Atomic bool reviews;
    _Atomic bool stopping;
    _Atomic bool quits;
    _Atomic size_t queued; /* messages that other threads queued and that are neither sent nor dropped */

    pthread_mutex_t mutex;
    pthread_cond_t drained;
    struct message *first; /* messages queued by other threads */
    struct message **last;
    struct slot *ending; /* slots of connections that must end */
    uint64_t inside_ends[DOOR_INSIDE_ENDS];
    unsigned inside_end_count;

    struct slot *slots;
    uint32_t *free_slots;
    unsigned free_count;
    unsigned count; /* number of connections */
    unsigned of_address_max;
    uint64_t serial;
    struct newcomers newcomers[2]; /* index: over_tls */
    struct connection_list waiting;
    struct fair line; /* connections that wait for their next turn, served fairly by principal */
    struct connection_list pages;
    size_t pages_size; /* bytes of all pages that are being sent */
    struct connection_list halves;
    size_t halves_size; /* bytes held for half-received requests */
    struct connection_list keepers;
    struct connection_list unread;
    size_t unread_size;  /* bytes of replies that are not in the kernel */
    bool was_pressed;    /* memory use was high (door_pressure.c) and has not fallen enough */
    bool is_trim_due;    /* malloc_trim is scheduled */
    size_t waiting_size; /* bytes of whole requests that wait for capacity */
    struct address *addresses[DOOR_ADDRESS_BUCKETS];
    struct connection *adopting;  /* the connection that is being created, before the library knows it */
    struct connection **knocking; /* by descriptor: connections without a complete head, and connections that speak a
                                     stream protocol from their start */
    size_t knocking_count;
};

/* ---- door_connections.c */
bool connections_init(struct door *door);
/* A refused client, for the log. */
struct refused_peer {
    const char *sentence;
    char peer[PEER_SIZE_MAX + 1];
};
/* Returns NULL if a limit is reached; `out_refused` then names the limit. */
struct connection *connection_new(struct door *door, int fd, bool over_tls, struct refused_peer *out_refused);
/* Frees the connection and all that it held, and informs the callees. */
void connection_free(struct connection *connection);
/* Returns NULL if the connection has ended. */
struct connection *connection_find(struct door *door, uint64_t id);
/* Makes the library close the connection as soon as no callback of it is running. */
void connection_kill(struct connection *connection);
/* Ends the verdict that admitted the client, if there is one. */
void connection_dismiss(struct connection *connection);
void connection_leave_http(struct connection *connection);
void door_hold(struct door *door, size_t bytes);
void door_release(struct door *door, size_t bytes);
/* Frees a message that another thread queued, and updates `queued`. */
void door_done(struct door *door, struct message *message);

/* ---- door_substitute.c: the thread that serves while the door's thread waits for a disk */
/* Returns 0 or a positive errno. */
int substitute_start(struct door *door);
/* Call it after the door's thread has ended. */
void substitute_stop(struct door *door);
/* Returns whether the calling thread serves this door. */
bool door_is_served_here(const struct door *door);
/* Returns the door that the calling thread serves; NULL: none. */
const struct door *door_served_here(void);
/* Records that the calling thread starts or stops serving the door. */
void door_serve_here(const struct door *door, bool serves);

/* ---- door.c */
/* Sends the messages that other threads queued. The caller holds `serving`. */
void door_carry_out(struct door *door);
/* Runs one event-loop round: waits for events and handles them. The caller holds `serving`. */
void door_round(struct door *door);

/* ---- door_http.c */
/* Handles the library's events of an HTTP connection. Returns 0, or another value to make the library close it. */
int http_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size);
/* Sends the page that the callee made for this connection. */
void http_answer(struct connection *connection, struct message *page);
/* Sends as much of the pages as the kernel takes. */
void http_push(struct door *door);
/* Drops the unsent rest of the connection's page, if there is one. */
void http_drop_page(struct connection *connection);

/* ---- door_first.c */
/* Registers a connection whose first bytes and head are checked before the library gets them. False: out of memory. */
bool first_expect(struct door *door, int fd, struct connection *connection);
/* Ends the registration made by first_expect. */
void first_forget(struct connection *connection);

/* ---- door_stream.c */
int stream_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size);
/* Drops all unsent messages of the connection, and informs its protocol. */
void stream_drop_out(struct connection *connection);
/* Closes a stream to free memory for others. Its share of the limits is free at once. The library closes the connection
 * later, because its protocol may be running now. */
void stream_give_way(struct connection *connection);
/* Handles the client's shutdown of its sending side. False: the connection ends. */
bool stream_ended(struct connection *connection);
/* Passes a page from door_page to the connection's protocol. */
void stream_answer(struct connection *connection, struct message *page);

/* ---- door_turn.c */
/* Gives turns to queued connections for DOOR_ROUND_US. */
void turns_serve(struct door *door);
/* Removes the connection from the queue for turns. */
void turns_leave(struct connection *connection);

/* ---- door_http.c, for door_stream.c */
struct caller_verdict http_admit(struct connection *connection, enum caller_place place, const char *path,
                                 const char *token, size_t token_size);
/* Returns whether a client without a token may use this Host. NULL: the request has no Host. Only browsers need this
 * check: over the network every client shows a token, and TLS has verified the name. */
bool http_host_is_ours(const struct connection *connection, const char *host);

/* ---- door_ws.c */
int ws_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size);
/* Takes ownership of a reply or a delivery, and sends as much as the kernel takes. */
void ws_send(struct connection *connection, struct message *message);
/* Drops all that is held for the connection and ignores its further input; the caller closes it. */
void ws_drop(struct connection *connection);
/* Offers waiting requests to the callee in order of arrival, until one is refused. */
void ws_offer_waiting(struct door *door);
/* Checks received frame bytes before the library gets them. Returns `size`: pass the bytes on. Returns 0: report the
 * end of the connection to the library, because the client's Close has followed the door's Close. Returns -1: the
 * client broke a rule and was refused. */
ssize_t ws_follow(struct connection *connection, const uint8_t *bytes, size_t size);
/* Pauses or resumes reading, depending on the limits. */
void ws_regulate(struct connection *connection);

/* ---- door_pressure.c: which connections are closed when memory is short */
/* Counts `capacity` bytes of the half-received request against its principal's limit. False: the limit is reached, and
 * nothing has changed. */
bool pressure_count(struct connection *connection, size_t capacity);
/* Updates the held bytes after the buffer of a half-received request grew. */
void pressure_half_grows(struct connection *connection, size_t before, size_t capacity);
/* Notes progress of a half-received request, after each DOOR_FRAME_OUT bytes: its connection moves to the end of
 * `halves`. */
void pressure_half_comes_on(struct connection *connection);
/* Removes the connection from `halves`, because its request is dropped while it arrives and holds no memory. */
void pressure_half_is_nothing(struct connection *connection);
/* Ends the accounting of a half-received request. Call it before `incoming` is dropped or passed on. */
void pressure_half_ends(struct connection *connection);
/* Updates the connection's place in `keepers` after its buffered bytes became fewer, or the first arrived. */
void pressure_keeps(struct connection *connection);
/* Closes one connection that made no progress for DOOR_SILENT_S: the one with the oldest half-received request, or else
 * the one with the oldest buffered input. False: there is none except `wanting`. */
bool pressure_end_silent_half(const struct connection *wanting);
/* Closes connections with half-received requests, oldest progress first, but not `last`, until the limit is kept. */
void pressure_bound_halves(const struct connection *last);
/* Returns whether one more request may wait for capacity of the callee. */
bool pressure_may_wait(const struct door *door, const struct message *request);
/* Updates the connection's place in `unread` after its client read replies or all replies were sent. */
void pressure_is_read(struct connection *connection);
/* Closes connections that do not read their replies, oldest progress first, until the limit is kept. */
void pressure_bound_unread(struct door *door);

/* Runs in each round. After memory use was high and has fallen, it makes the allocator return memory to the system. */
void pressure_look(struct door *door);

/* ---- door_accept.c */
/* Handles the library's events of a listening socket. */
int accept_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size);
bool accept_begin(struct door *door);

#endif
