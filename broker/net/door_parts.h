/* door_parts.h: what the files of the door share; no other file includes it. Everything is the door's thread's own but
 * what is atomic, the queue, and what is fixed before the thread starts. */
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
#define DOOR_FRAME_OUT (64u << 10) /* bytes of a frame that goes out, at most */

enum door_order { ORDER_ANSWER, ORDER_DELIVERY, ORDER_PAGE };

enum connection_kind { CONNECTION_HTTP, CONNECTION_RPC, CONNECTION_LANE, CONNECTION_STREAM };

/* Connections of one address. */
struct address {
    struct address *next;
    unsigned count;
    uint8_t bytes[DOOR_ADDRESS_SIZE]; /* IPv4 as IPv6 has it; of a Unix socket 0xff and the uid */
};

struct connection {
    struct door *door;
    struct lws *wsi;
    uint64_t id;
    enum connection_kind kind;
    bool paused;          /* not read from */
    bool is_gone;         /* told of; what comes for it is dropped */
    bool discards;        /* what comes is read to its end and not kept */
    bool is_waiting;      /* in the door's `waiting` */
    bool awaits_page;     /* asked for, not answered */
    bool is_in_http;      /* one of the door's newcomers */
    bool is_answered;     /* its one page; nothing more is read */
    bool wants_head_only; /* HEAD */
    bool is_up;           /* lane_up said yes */
    bool over_tls;
    bool is_admitted;                  /* `principal` is to be dismissed */
    bool is_diverted;                  /* door_first.c: what it says is a stream's */
    bool asks_pause;                   /* CONNECTION_STREAM: its protocol wants to hear no more … */
    bool finishes;                     /* … its end was asked for: when all is sent … */
    bool lingers;                      /* … all is sent: what still comes is dropped */
    bool is_followed;                  /* it was upgraded: its frames are followed (door_frames.h) */
    struct door_frames frames;         /* is_followed */
    const char *frames_problem;        /* … what its client did wrong; NULL: nothing */
    bool has_ended;                    /* CONNECTION_STREAM: the client sends nothing any more, and is still answered */
    bool gives_way;                    /* … it is to end for the room it takes: nothing more of it is heard */
    int fd;                            /* while its head is awaited */
    struct head_refusal early;         /* status != 0: what the strict parser says of its head */
    char *first;                       /* bytes that have come of its head; NULL: none that wait */
    size_t first_size, first_capacity; /* of `first` */
    const struct door_stream_calls *speaks; /* CONNECTION_STREAM */
    void *stream;                           /* its protocol's; NULL: it has been told that this is gone */
    bool is_half;                           /* in the door's `halves` */
    bool is_beyond_share;                   /* discards, for its principal has too much under way */
    bool is_unread;                         /* in the door's `unread` */
    unsigned under_way;                     /* requests without an answer in the kernel */
    struct fair_item in_line;               /* CONNECTION_STREAM: waits for its next turn (door_turn.h) … */
    bool is_heavy;                          /* … and must, for its last turn was long */
    struct address *address;
    struct message *incoming;        /* as far as it has come */
    size_t counted;                  /* bytes of it, and of `request`, that count among its principal's */
    lws_usec_t came_on_us;           /* is_half */
    size_t incoming_size;            /* … kept or not */
    size_t half_size;                /* CONNECTION_STREAM: bytes that its protocol holds for the request that comes */
    bool is_keeper;                  /* in the door's `keepers` */
    size_t kept_size;                /* CONNECTION_STREAM: bytes of what came too early, as its protocol has said … */
    lws_usec_t kept_us;              /* … when it was last fewer, or nothing */
    lws_sorted_usec_list_t too_late; /* the rest of it */
    lws_sorted_usec_list_t unread;   /* its answers */
    struct message *request;         /* whole, and there was no room for it */
    struct message *out_first;
    struct message **out_last;
    size_t out_at;        /* bytes of the first that the library has taken */
    size_t out_bytes;     /* of them all */
    struct message *page; /* under way */
    size_t page_at;       /* bytes of it that the library has taken */
    uint32_t lane;
    uint64_t holder;
    uint64_t principal;
    enum caller_way way;
    uint32_t uid; /* CALLER_UNIX */
    uint32_t pid;
    TAILQ_ENTRY(connection) in_http;    /* is_in_http: in the order of coming */
    TAILQ_ENTRY(connection) in_waiting; /* is_waiting: in the order of asking */
    TAILQ_ENTRY(connection) in_pages;   /* page != NULL: in the order of answering */
    TAILQ_ENTRY(connection) in_halves;  /* is_half: in the order of when more of a request came */
    TAILQ_ENTRY(connection) in_keepers; /* is_keeper: in the order of kept_us */
    TAILQ_ENTRY(connection) in_unread;  /* is_unread: in the order of when answers were last read */
    char peer[PEER_SIZE_MAX + 1];
};

TAILQ_HEAD(connection_list, connection);

/* Connections that have not been upgraded, in the order of coming. */
struct newcomers {
    struct connection_list list;
    unsigned count;
    unsigned max; /* beyond it the first goes */
};

/* By an id's low bits. `connection` is the thread's; the rest is under the door's mutex. */
struct slot {
    struct connection *connection;
    uint64_t closing; /* ids whose end was asked for; 0: none */
    uint64_t lingering;
    struct slot *next; /* while is_ending */
    bool is_ending;    /* in the door's `ending` */
};

struct listener {
    struct door *door;
    struct lws *wsi;
    int fd;
    bool over_tls;
    const struct door_stream_calls *speaks;
};

/* Ids that are inside and have ended, or lack an answer: one of each request under way and of each lane. */
#define DOOR_INSIDE_ENDS 4096u

struct door {
    struct door_calls calls;
    struct door_limits limits;
    struct lws_context *context;
    struct lws_vhost *vhost;
    struct lws_vhost *vhost_tls; /* NULL: no listener over TLS */
    lws_sorted_usec_list_t tls_look;
    lws_sorted_usec_list_t alarm;
    lws_sorted_usec_list_t trim; /* is_trim_due */
    struct listener listeners[DOOR_LISTENERS_MAX];
    unsigned listener_count;
    int spare_fd;                        /* given up to accept one more, and refuse it, when there are no descriptors */
    lws_sorted_usec_list_t accept_again; /* none is accepted until then */
    pthread_t thread;
    pthread_mutex_t serving; /* held by the thread that serves: all that follows is its own, and the library */
    struct wait *wait;       /* for connections */
    pthread_t substitute;
    int aside_fd;          /* a timer: wakes the substitute */
    _Atomic bool is_aside; /* the thread waits for a disk */

    _Atomic size_t held;
    _Atomic bool resumes;
    _Atomic bool reviews;
    _Atomic bool stopping;
    _Atomic bool quits;
    _Atomic size_t queued; /* messages that were handed over and have not left or been dropped */

    pthread_mutex_t mutex;
    pthread_cond_t drained;
    struct message *first; /* handed over */
    struct message **last;
    struct slot *ending; /* whose connections are to end */
    uint64_t inside_ends[DOOR_INSIDE_ENDS];
    unsigned inside_end_count;

    struct slot *slots;
    uint32_t *free_slots;
    unsigned free_count;
    unsigned count; /* connections */
    unsigned of_address_max;
    uint64_t serial;
    struct newcomers newcomers[2]; /* by over_tls */
    struct connection_list waiting;
    struct fair line; /* connections that wait for their next turn, by principal */
    struct connection_list pages;
    size_t pages_size; /* bytes of the pages that are under way */
    struct connection_list halves;
    size_t halves_size; /* bytes that are held for what is half received */
    struct connection_list keepers;
    struct connection_list unread;
    size_t unread_size;  /* bytes of answers that are not in the kernel */
    bool was_pressed;    /* much was held (door_pressure.c), and most of it still is */
    bool is_trim_due;    /* the allocator is to give back what it keeps of that */
    size_t waiting_size; /* bytes of whole requests for which there was no room */
    struct address *addresses[DOOR_ADDRESS_BUCKETS];
    struct connection *adopting;  /* it was made, and the library has not heard of it */
    struct connection **knocking; /* by descriptor: its head has not come, or it is a stream from its beginning */
    size_t knocking_count;
};

/* ---- door_connections.c */
bool connections_init(struct door *door);
/* Refused clients, for the log. */
struct refused_peer {
    const char *sentence;
    char peer[PEER_SIZE_MAX + 1];
};
/* NULL: there are too many; `out_refused` says of what. */
struct connection *connection_new(struct door *door, int fd, bool over_tls, struct refused_peer *out_refused);
/* Its last moment: all that it held is given back, and the callees are told. */
void connection_free(struct connection *connection);
/* NULL: it is gone. */
struct connection *connection_find(struct door *door, uint64_t id);
/* The library closes it as soon as nothing of it is being worked at. */
void connection_kill(struct connection *connection);
/* The verdict that let it in is over, if there was one. */
void connection_dismiss(struct connection *connection);
void connection_leave_http(struct connection *connection);
void door_hold(struct door *door, size_t bytes);
void door_release(struct door *door, size_t bytes);
/* A message that was handed over is done with. */
void door_done(struct door *door, struct message *message);

/* ---- door_substitute.c: the thread that serves while the door's has stepped aside */
/* 0 or a positive errno. */
int substitute_start(struct door *door);
/* The thread has ended. */
void substitute_stop(struct door *door);
/* Is the calling thread serving the door? */
bool door_is_served_here(const struct door *door);
/* The door that the calling thread serves; NULL: none. */
const struct door *door_served_here(void);
/* It begins to, or ends. */
void door_serve_here(const struct door *door, bool serves);

/* ---- door.c */
/* Sends what was handed over; `serving` is held. */
void door_carry_out(struct door *door);
/* Waits for something to happen, and does what is to be done; `serving` is held. */
void door_round(struct door *door);

/* ---- door_http.c */
/* What the library reports of a connection that speaks HTTP. Its value is the library's: 0, or not 0 to close. */
int http_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size);
/* Its page has come. */
void http_answer(struct connection *connection, struct message *page);
/* Sends what the kernel takes of the pages that are under way. */
void http_push(struct door *door);
/* What is not sent of its page, if there is one, will not be. */
void http_drop_page(struct connection *connection);

/* ---- door_first.c */
/* The first bytes of the connection, and its head, are looked at before the library gets them. False: no memory. */
bool first_expect(struct door *door, int fd, struct connection *connection);
/* … no more. */
void first_forget(struct connection *connection);

/* ---- door_stream.c */
int stream_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size);
/* What is not sent will not be; its protocol is told. */
void stream_drop_out(struct connection *connection);
/* It gives way to others: what it takes of the bounds is free at once, and the library ends it when nothing of it is
 * being worked at (its protocol may be asking just now). */
void stream_give_way(struct connection *connection);
/* Its client has shut down its sending side. False: the connection ends. */
bool stream_ended(struct connection *connection);
/* Its page has come (door_page). */
void stream_answer(struct connection *connection, struct message *page);

/* ---- door_turn.c */
/* Gives turns to the connections in the line, for DOOR_ROUND_US. */
void turns_serve(struct door *door);
/* It waits no more. */
void turns_leave(struct connection *connection);

/* ---- door_http.c, for door_stream.c */
struct caller_verdict http_admit(struct connection *connection, enum caller_place place, const char *path,
                                 const char *token, size_t token_size);
/* May a client without a token name the broker so? NULL: it does not. Names are a browser's matter: over the network
 * every client shows a token, and TLS has looked at the name. */
bool http_host_is_ours(const struct connection *connection, const char *host);

/* ---- door_ws.c */
int ws_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size);
/* Takes an answer or a delivery over, and sends what the kernel takes. */
void ws_send(struct connection *connection, struct message *message);
/* Drops all that is held for it: it is to be closed, and nothing more of it is heard. */
void ws_drop(struct connection *connection);
/* Offers requests that wait, in the order in which they came, for as long as they are taken. */
void ws_offer_waiting(struct door *door);
/* Bytes of its frames have come. `size`: the library may have them; 0: it is to find that the connection has ended, for
 * the client's Close has come after ours; -1: the client has broken the rules, and was refused. */
ssize_t ws_follow(struct connection *connection, const uint8_t *bytes, size_t size);
/* Reads on or not, as the limits say. */
void ws_regulate(struct connection *connection);

/* ---- door_pressure.c: which connections give way when too much is held */
/* Its half request is to hold so many bytes: they count among its principal's. False: those are as many as it may. */
bool pressure_count(struct connection *connection, size_t capacity);
/* … and holds them. */
void pressure_half_grows(struct connection *connection, size_t before, size_t capacity);
/* More of it has come than a little. */
void pressure_half_comes_on(struct connection *connection);
/* It is read to its end and not kept: there is nothing that could give way. */
void pressure_half_is_nothing(struct connection *connection);
/* It is whole, or dropped; before `incoming` is. */
void pressure_half_ends(struct connection *connection);
/* What it keeps of what came too early has become less, or is the first. */
void pressure_keeps(struct connection *connection);
/* Ends the half that has not come on for longest, if that is DOOR_SILENT_S, or else the connection that has kept for
 * longest what came too early. False: there is none but `wanting`. */
bool pressure_end_silent_half(const struct connection *wanting);
/* Ends halves, but for `last`, until the rest is no more than may be. */
void pressure_bound_halves(const struct connection *last);
/* May one more wait for the callee to have room? */
bool pressure_may_wait(const struct door *door, const struct message *request);
/* Some of its answers have been read, or there are none. */
void pressure_is_read(struct connection *connection);
/* Ends the connection that has not read for longest, until the rest is no more than may be. */
void pressure_bound_unread(struct door *door);

/* Each round. Once much was held and has been given back, the allocator gives it back as well. */
void pressure_look(struct door *door);

/* ---- door_accept.c */
/* Whatever the library calls for a listening socket. */
int accept_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t size);
bool accept_begin(struct door *door);

#endif
