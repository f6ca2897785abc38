/* door_parts.h: declarations shared by the files of the door; no other file includes it. Only the thread that holds
 * `serving` may use them. Exceptions: atomic members, the message queue, and members that are fixed before the thread
 * starts.
 *
 * Layers, each of which calls only those below it and, through `struct protocol` or the callbacks, those above:
 *
 *     stream protocols: door_stream.c, door_sp.c      SP messages: door_upgrade.c, door_ws.c
 *     turns, memory limits: door_turn.c, door_pressure.c, door_room.c
 *     connections: door_connections.c, door_accept.c
 *     bytes: door_io.c (sockets, TLS, the queue of outgoing messages)
 *     the event loop: door.c, deadlines.c */
#ifndef TARRY_NET_DOOR_PARTS_H
#define TARRY_NET_DOOR_PARTS_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "deadlines.h"
#include "door.h"
#include "door_stream.h"
#include "door_turn.h"
#include "fair.h"
#include "sp_frame.h"
#include "tarry_limits.h"
#include "ws_frame.h"

#define DOOR_ADDRESS_SIZE 16
#define DOOR_ADDRESS_BUCKETS 1024u
#define DOOR_FRAME_OUT (64u << 10) /* maximum payload bytes of an outgoing frame */
/* Maximum bytes read from a connection at a time; others get their turn before the next read. */
#define DOOR_READ_SIZE (64u << 10)
/* Maximum steps of TLS handshakes in a round: one takes up to a millisecond (CALM-1). */
#define DOOR_HANDSHAKES 8u
#define DOOR_US_PER_S 1000000ull
#define DOOR_US_PER_MS 1000ull

/* Returns whether the connection is in a list. `entry` is the connection's member for that list. */
#define LISTED(connection, entry) ((connection)->entry.tqe_prev != NULL)
#define LIST_LAST(list, connection, entry) TAILQ_INSERT_TAIL(list, connection, entry)
#define UNLIST(list, connection, entry)                                                                                \
    do {                                                                                                               \
        if (LISTED(connection, entry)) TAILQ_REMOVE(list, connection, entry);                                          \
        (connection)->entry.tqe_prev = NULL;                                                                           \
    } while (0)

enum door_order {
    ORDER_ANSWER,   /* a reply: sent in frames, or by the protocol of its byte stream */
    ORDER_DELIVERY, /* a delivery: sent to a lane, in frames */
    ORDER_PAGE,     /* a page: passed to the protocol of a byte stream */
    ORDER_BYTES,    /* bytes from the protocol of a byte stream, sent unchanged */
    ORDER_CONTROL,  /* an upgrade's response or a Close frame: sent unchanged, and not counted as a reply */
    ORDER_PONG,     /* a pong frame, sent unchanged */
    ORDER_TICKET,   /* a ticket: sent in frames to a lane's connection that has no lane yet */
    ORDER_REST      /* the rest of a delivery whose result was reported already */
};

enum connection_state {
    STATE_HANDSHAKE, /* the TLS handshake is running */
    STATE_OPEN,
    STATE_FINISHES, /* nothing more is read; STATE_LINGERS follows once everything is sent */
    STATE_LINGERS,  /* the sending side is shut down; incoming bytes are dropped until the client closes */
    STATE_DEAD /* the connection is in the door's list `dead`, freed at the end of the round; nothing happens to it any
                  more */
};

enum connection_kind { KIND_STREAM, KIND_RPC, KIND_LANE };

/* Kind of the object for which epoll reports an event. */
enum source { SOURCE_WAKE, SOURCE_LISTENER, SOURCE_CONNECTION };

/* Number of connections from one address. */
struct address {
    struct address *next;
    unsigned count;
    uint8_t bytes[DOOR_ADDRESS_SIZE]; /* IPv6 address, or IPv4 mapped to IPv6; for a Unix socket 0xff and the uid */
};

/* The way in which SP messages are divided into frames on a connection. */
enum framing {
    FRAMING_WS, /* WebSocket (proto/ws_frame.h) */
    FRAMING_SP  /* framing of nng's own transports (proto/sp_frame.h) */
};

/* Number of random bytes in a lane's ticket; the connection's id precedes them. */
#define DOOR_TICKET_RANDOM 16u
#define DOOR_TICKET_SIZE (sizeof(uint64_t) + DOOR_TICKET_RANDOM)

/* An upgrade from a byte stream to SP messages. Its response is queued, and it takes effect in the next round. */
struct upgrade {
    enum connection_kind kind;
    enum framing framing;
    uint32_t lane;
    uint64_t holder; /* KIND_LANE: the session that owns the lane; 0: no session has attached its lane yet */
    size_t size;
    uint8_t bytes[]; /* bytes received after the request */
};

/* KIND_STREAM */
struct stream {
    void *state; /* state of the protocol, the argument of its callbacks; NULL before `opened` and after `gone` */
    struct upgrade *upgrade;  /* NULL: none */
    struct fair_item in_line; /* place of the connection in the queue for turns (door_turn.h) */
    size_t half_size;         /* bytes that the protocol holds for the half-received request, as it reported */
    size_t kept_size;         /* bytes that the protocol buffers behind the current request */
    uint64_t kept_us;         /* when `kept_size` last decreased or was 0 */
    size_t received_size;     /* bytes received since the half-received request began */
    bool has_begun;           /* the first byte has arrived, so the protocol (`speaks`) no longer changes */
    bool asks_pause;          /* the protocol asked the door to pause reading */
    bool awaits_drain;        /* the protocol has unsent bytes, and the door calls `drained` when they are sent */
    bool is_heavy;            /* the connection's last turn was long, so it must queue for its next turn */
};

/* KIND_RPC, KIND_LANE */
struct socket_of_messages {
    enum framing framing;
    union {
        struct ws_decoder frames; /* FRAMING_WS */
        struct sp_decoder sp;     /* FRAMING_SP */
    };
    struct message *incoming; /* the half-received request */
    size_t incoming_size;     /* bytes received of the request, whether stored or dropped */
    bool discards;            /* the rest of the request is read and dropped; its reply is a refusal */
    bool is_beyond_share;     /* `discards` is set because the principal exceeds its byte limit */
    struct message *request;  /* a whole request that waits for capacity */
    struct message *rest;     /* received bytes behind the last decoded frame, while decoding is paused */
    unsigned under_way;       /* requests whose reply is not yet in the kernel */
    uint32_t lane;
    uint64_t holder;
    bool is_up; /* lane_up has returned true for this connection */
    /* Ticket of a connection without a lane (KIND_LANE with holder 0). The client shows it to prove that the connection
     * is its own (door_attach). */
    uint8_t ticket[DOOR_TICKET_SIZE];
};

struct connection {
    enum source source; /* must be the first member */
    int fd;
    struct door *door;
    uint64_t id;
    enum connection_state state;
    enum connection_kind kind;
    SSL *ssl; /* state of TLS; NULL: no TLS, or TLS failed */
    bool over_tls;
    uint32_t waits_for; /* events of the socket for which the door waits by epoll */
    bool is_paused;     /* the door does not read from this connection */
    bool is_blocked;    /* the kernel takes no more bytes now; epoll reports when it does */
    bool has_ended;     /* the client shut down its sending side */
    bool is_admitted;   /* true: `dismiss` must be called for `principal` at the end */
    /* Protocol of the connection's listener, or the protocol that the first byte selected. */
    const struct door_stream_calls *speaks;
    union {
        struct stream stream;
        struct socket_of_messages ws;
    };

    struct message *out_first;
    struct message **out_last;
    size_t out_at;     /* number of bytes of out_first that the kernel has taken, including frame headers */
    size_t out_bytes;  /* bytes of all queued messages */
    size_t out_weight; /* bytes that the queued messages count in `unread_size` */
    size_t counted;    /* bytes of a half-received or waiting request that count against its principal's limit */
    /* Time of the half-received request's last progress; valid while the connection is in `halves`. */
    uint64_t came_on_us;
    uint64_t read_us; /* time when the consumer last read; valid while this connection is in `slow` */

    /* Deadline for the connection's next step: a handshake, a head, the rest of a request, a close. */
    struct deadline deadline;
    struct deadline unread; /* deadline for the client to read its replies */
    struct address *address;
    uint64_t principal;
    enum caller_way way;
    uint32_t uid; /* CALLER_UNIX */
    uint32_t pid;
    TAILQ_ENTRY(connection) in_newcomers; /* newcomers, ordered by arrival */
    TAILQ_ENTRY(connection) in_waiting;   /* connections with a waiting request, ordered by the request's arrival */
    TAILQ_ENTRY(connection) in_halves;    /* connections with a half-received request, ordered by last progress */
    TAILQ_ENTRY(connection) in_keepers;   /* connections with buffered input, ordered by kept_us */
    TAILQ_ENTRY(connection) in_unread;    /* connections with unread replies, ordered by the time of the last read */
    TAILQ_ENTRY(connection) in_slow;      /* lanes with unsent deliveries, ordered by read_us */
    TAILQ_ENTRY(connection) in_dirty;
    TAILQ_ENTRY(connection) in_again;
    TAILQ_ENTRY(connection) in_dead;
    char peer[PEER_SIZE_MAX + 1];
};

TAILQ_HEAD(connection_list, connection);

/* Connections without an upgrade or a principal, ordered by arrival. */
struct newcomers {
    struct connection_list list;
    unsigned count;
    unsigned max; /* maximum number of newcomers; the door closes the oldest one before it accepts a further one */
};

/* Slot of a connection; the low bits of its id are the index. `connection` belongs to the serving thread; the door's
 * mutex guards the rest. */
struct slot {
    struct connection *connection;
    uint64_t closing; /* ids of connections that must end, at once or after DOOR_LINGER_S; 0: none */
    uint64_t lingering;
    struct slot *next; /* next slot in the list `ending`; valid if is_ending */
    bool is_ending;    /* this slot is in the door's list `ending` */
};

struct listener {
    enum source source; /* must be the first member */
    int fd;
    struct door *door;
    bool over_tls;
    const struct door_stream_calls *speaks;
};

/* Size of `inside_ends`: the requesters inside the broker (DOOR_INSIDE) that will get no message, until `inside`
 * reports this with NULL. Each open request and each lane has one requester. */
#define DOOR_INSIDE_ENDS 4096u

struct door {
    struct door_calls calls;
    struct door_limits limits;
    SSL_CTX *tls; /* context of TLS connections; NULL: no listener uses TLS */
    struct deadlines deadlines;
    struct deadline tls_look;
    struct deadline alarm;
    struct deadline trim;         /* timer of the next malloc_trim, which returns freed memory to the kernel */
    struct deadline slow_look;    /* timer, armed while a delivery waits for memory that consumers hold */
    struct deadline accept_again; /* pause of accepting: no connection is accepted until this timer fires */
    struct door_stream_calls sp;  /* the protocol that precedes SP messages over TCP and IPC (door_sp.c) */
    struct listener listeners[DOOR_LISTENERS_MAX];
    unsigned listener_count;
    int spare_fd; /* reserve descriptor: closed to accept and refuse one client when the process has no free descriptor
                   */
    int epoll_fd;
    int wake_fd; /* eventfd by which other threads end the loop's wait */
    enum source wake_source;
    uint64_t now_us; /* time of the current round, after its wait */
    pthread_t thread;
    pthread_mutex_t serving; /* held by the serving thread; guards all unguarded members */
    pthread_t substitute;
    int aside_fd; /* timer that wakes the substitute thread, which serves while the door's thread waits for a disk */
    _Atomic bool is_aside; /* the door's thread waits for a disk */

    _Atomic size_t held;
    _Atomic bool has_ends; /* true: `ending` or `inside_ends` has an entry */
    _Atomic bool resumes;
    _Atomic bool reviews;
    _Atomic bool stopping;
    _Atomic bool quits;
    _Atomic size_t queued; /* number of messages that other threads queued and that are neither sent nor dropped */
    bool has_stopped;      /* the door reads from no connection any more */
    bool is_due;           /* true: the next round does not wait for events */
    bool has_postponed;    /* true: messages were put back into the queue, so the next round does not wait for events */
    unsigned handshakes;   /* steps of TLS handshakes that are left in this round */

    pthread_mutex_t mutex;
    pthread_cond_t drained;
    struct message *first; /* messages queued by other threads */
    struct message **last;
    size_t replies_size;            /* bytes of queued replies */
    _Atomic size_t deliveries_size; /* bytes of deliveries that are not in the kernel, plus the memory reserved for
                                       deliveries that are not made yet */
    _Atomic bool wants_room;        /* true: a delivery waits for memory */
    bool grants_no_room;            /* door_end_waits was called, so no thread waits any more */
    pthread_cond_t taken;           /* signals that `replies_size` has decreased */
    pthread_cond_t has_room;        /* signals that `deliveries_size` has decreased */
    struct slot *ending;            /* list of slots whose connections must end */
    uint64_t inside_ends[DOOR_INSIDE_ENDS];
    unsigned inside_end_count;

    struct slot *slots;
    uint32_t *free_slots;
    unsigned free_count;
    unsigned of_address_max;
    uint64_t serial;
    struct newcomers newcomers[2]; /* index: over_tls */
    struct connection_list waiting;
    struct connection_list dirty; /* connections that have messages to write and are not blocked */
    /* Connections with bytes that epoll does not know: in OpenSSL's buffer, or received and undecoded. */
    struct connection_list again;
    struct connection_list dead;
    struct fair line; /* connections that wait for their next turn, served fairly by principal */
    struct connection_list halves;
    size_t halves_size; /* bytes held for half-received requests */
    struct connection_list keepers;
    struct connection_list unread;
    struct connection_list slow; /* lanes with deliveries that are not in the kernel */
    size_t unread_size;          /* bytes of replies that are not in the kernel */
    bool was_pressed;            /* memory use was high (door_pressure.c) and has not fallen enough */
    size_t waiting_size;         /* bytes of whole requests that wait for capacity */
    struct address *addresses[DOOR_ADDRESS_BUCKETS];
    uint8_t in[DOOR_READ_SIZE];               /* the bytes that were read last, from any connection */
    uint8_t record[SSL3_RT_MAX_PLAIN_LENGTH]; /* plaintext of the next TLS record */
};

/* ---- door.c */
/* Carries out the messages that other threads queued. Returns true if a protocol got one, and so may have made a
 * request. */
bool door_carry_out(struct door *door);
/* Runs one event-loop round: waits for events and handles them. */
void door_round(struct door *door);
/* Ends the loop's wait; any thread. */
void door_wake(struct door *door);
void door_hold(struct door *door, size_t bytes);
void door_release(struct door *door, size_t bytes);
/* Frees a message that another thread queued, and updates `queued`. */
void door_done(struct door *door, struct message *message);

/* ---- door_room.c */
void room_init(struct door *door);
/* Notes that the door's thread has taken `size` bytes of replies. */
void room_taken(struct door *door, size_t size);
/* Notes that a delivery of this size is in the kernel, or was dropped. */
void room_given(struct door *door, size_t size);

/* ---- door_io.c: sockets, TLS, and the queue of outgoing messages */
/* Makes the context of TLS connections. False: out of memory. */
bool io_begin(struct door *door);
/* Begins to wait for the connection's events. False: out of memory or descriptors. */
bool io_open(struct connection *connection);
void io_close(struct connection *connection);
/* Handles the events that epoll has reported for the connection. */
void io_event(struct connection *connection, uint32_t events);
/* Handles bytes that epoll does not know of. */
void io_again(struct door *door);
/* Pauses or resumes reading, as the limits require. */
void io_regulate(struct connection *connection);
/* Counts a message that this thread made, and queues it. */
void io_queue(struct connection *connection, struct message *message);
/* Queues a counted message; it leaves with io_flush, at the end of the current step of the round. */
void io_send(struct connection *connection, struct message *message);
/* Writes queued messages, as many bytes as the kernel takes. */
void io_flush(struct door *door);
/* Drops unsent messages. Reports the results of deliveries, and of messages whose `stamp` is not 0. */
void io_drop(struct connection *connection);
/* Drops the messages of which no byte has been sent. A message that was sent in part must be completed, because further
 * frames follow it. */
void io_drop_waiting(struct connection *connection);
/* Drops the last message if it is a pong of which no byte has been sent. */
void io_drop_last_pong(struct connection *connection);
/* Sends the messages that are queued and nothing more; reads nothing more. */
void io_finish(struct connection *connection);
/* Returns whether bytes from the client wait to be read. */
bool io_has_more(const struct connection *connection);

/* ---- door_connections.c */
bool connections_init(struct door *door);
/* A refused client, for a log line. */
struct refused_peer {
    const char *sentence;
    char peer[PEER_SIZE_MAX + 1];
};
/* Adds a connection. Returns NULL if a limit is reached; `out_refused` then names the limit. */
struct connection *connection_new(const struct listener *listener, int fd, struct refused_peer *out_refused);
/* An id has the number of its slot in its lower bits. */
#define SLOT_BITS 16
#define SLOT_MASK ((1u << SLOT_BITS) - 1)
/* Finds a connection by its id. Returns NULL if it has ended. */
struct connection *connection_find(struct door *door, uint64_t id);
/* Ends the connection: nothing more is read, sent or reported, except its end. */
void connection_kill(struct connection *connection);
/* Frees the connections that have ended, and informs the callees. */
void connections_bury(struct door *door);
/* Calls `dismiss` for the verdict that admitted the client, if there is one. */
void connection_dismiss(struct connection *connection);
/* Stops counting the client as a newcomer. */
void connection_settle(struct connection *connection);
/* Asks `admit` about the client, and keeps its principal. */
struct caller_verdict connection_admit(struct connection *connection, enum caller_place place, const char *path,
                                       uint64_t session, const char *token, size_t token_size);

/* ---- door_accept.c */
bool accept_begin(struct door *door);
void accept_event(struct listener *listener);

/* ---- door_stream.c */
/* Returns a byte-stream connection that has not ended; NULL: none. */
struct connection *stream_find_alive(struct door *door, uint64_t id);
/* Begins the protocol of an accepted connection. False: refused. */
bool stream_begin(struct connection *connection);
void stream_received(struct connection *connection, const uint8_t *bytes, size_t size);
/* Handles the client's shutdown of its sending side. Returns false if the connection ends. */
bool stream_ended(struct connection *connection);
void stream_drained(struct connection *connection);
/* Tells the protocol that the connection has ended. */
void stream_gone(struct connection *connection);
/* Frees the connection's share of the limits before it ends. */
void stream_let_go(struct connection *connection);
/* Passes a page from door_page to the connection's protocol. */
void stream_answer(struct connection *connection, struct message *page);
/* Returns whether the limits require a pause. */
bool stream_is_paused(const struct connection *connection);

/* ---- door_upgrade.c */
/* Lets `upgrade` take effect in the next round. `behind`: the `upgrade->size` bytes received after the request. False:
 * out of memory. */
bool upgrade_begin(struct connection *connection, const struct upgrade *upgrade, const void *behind);
/* Replaces the protocol of an upgraded connection by SP messages. */
void upgrade_finish(struct connection *connection);

/* ---- door_turn.c */
/* Gives turns to queued connections for DOOR_ROUND_US. */
void turns_serve(struct door *door);
/* Removes the connection from the queue for turns. */
void turns_leave(struct connection *connection);

/* ---- door_sp.c */
void sp_init(struct door *door);
/* Returns which of nng's transports this connection uses: IPC over a Unix socket, else TCP. */
enum sp_transport sp_transport_of(const struct connection *connection);

/* ---- door_ws.c */
/* Begins to serve SP messages. */
void ws_begin(struct connection *connection, const struct upgrade *upgrade);
void ws_received(struct connection *connection, uint8_t *bytes, size_t size);
/* Decodes bytes that were received before decoding was paused. */
void ws_go_on(struct connection *connection);
/* Notes that a reply is in the kernel or was dropped. */
void ws_answered(struct connection *connection);
/* Drops all that is held for the connection, and reports its end; the caller closes it. */
void ws_drop(struct connection *connection);
/* Offers waiting requests to the callee in order of arrival, until one is refused. */
void ws_offer_waiting(struct door *door);
bool ws_is_paused(const struct connection *connection);

/* ---- door_pressure.c: which connections are closed when memory is short */
/* Counts `capacity` bytes of the half-received request against its principal's limit. False: the limit is reached, and
 * nothing has changed. */
bool pressure_count(struct connection *connection, size_t capacity);
/* Updates the held bytes after the buffer of a half-received request grew. */
void pressure_half_grows(struct connection *connection, size_t before, size_t capacity);
/* Notes progress of a half-received request, after each DOOR_FRAME_OUT bytes: its connection moves to the end of
 * `halves`. */
void pressure_half_comes_on(struct connection *connection);
/* Removes the connection from `halves`. */
void pressure_half_is_nothing(struct connection *connection);
/* Moves the connection to the end of `keepers`, the list of connections with buffered input, or removes it if it
 * buffers nothing. Called when the connection's buffered bytes became fewer, or were 0 before. */
void pressure_keeps(struct connection *connection);
/* Closes one connection, other than `wanting`, that made no progress for DOOR_SILENT_S. It closes the connection with
 * the oldest half-received request, or else the one with the oldest buffered input. Returns false if it found none.
 * `wanting` is the connection that needs the memory. */
bool pressure_end_silent_half(const struct connection *wanting);
/* Closes connections with half-received requests until the memory limit is kept. It begins with the connection whose
 * last progress is oldest, and stops at `last`, whose request has just grown. */
void pressure_bound_halves(const struct connection *last);
/* Returns whether one more request may wait for capacity of the callee. */
bool pressure_may_wait(const struct door *door, const struct message *request);
/* Updates the connection's place in `unread` or `slow` after its client has read or all messages were sent. */
void pressure_is_read(struct connection *connection);
/* Closes connections that do not read their replies, oldest progress first, until the limit is kept. */
void pressure_bound_unread(struct door *door);
/* While a delivery waits for memory, closes consumers that have not read for DOOR_SILENT_S. */
void pressure_bound_deliveries(struct door *door);
/* Runs in each round. After memory use was high and has fallen, it makes the allocator return memory to the system. */
void pressure_look(struct door *door);

/* ---- door_substitute.c: the thread that serves while the door's thread waits for a disk */
/* Starts the substitute thread. Returns 0 or a positive errno. */
int substitute_start(struct door *door);
/* Ends the substitute thread. Call it after the door's thread has ended. */
void substitute_stop(struct door *door);
/* Returns whether the calling thread serves this door. */
bool door_is_served_here(const struct door *door);
/* Notes for door_is_served_here that the calling thread now serves the door (`serves`), or no longer serves it. */
void door_serve_here(const struct door *door, bool serves);

#endif
