/* door.h: the door, which owns tarryd's port: sockets, TLS, byte-stream protocols (door_stream.h; HTTP is one), and SP
 * messages over WebSocket, TCP and IPC. The door accepts connections, limits them and checks every upgrade.
 *
 *                      door's thread                                             any thread
 *   accept ── HTTP ──► admit() ─┬─ /rpc ────► request() … waits …           ◄── door_answer
 *                               ├─ /lane/N ─► lane_asks(), lane_up()        ◄── door_deliver ── lane_leaves()? ─►
 *                               │                          lane_sent()
 *                               └─ a page ──► page() … waits …              ◄── door_page
 *
 * Every connection has an id, which is never reused. The door drops a message for a connection that has ended, and
 * reports a delivery for it as not sent. Only one thread at a time reads, writes and calls the functions in door_calls.
 * Other threads put messages into a queue, and wake the door's thread through a descriptor.
 *
 * Memory: door_held() counts the bytes of half-received requests, of requests that wait for the callee, and of replies
 * that are not yet in the kernel. Beyond `held_max` the door refuses a growing request while it arrives: the door reads
 * the request to its end, stores nothing, and sends the reply that refusal() makes. The door stops reading from a
 * connection that has DOOR_REQUESTS_MAX requests or DOOR_UNSENT_MAX bytes of replies outstanding. All half-received
 * requests together may use `held_max` plus one large request, and all unread replies together three quarters of
 * `held_max`. Beyond that, the door closes the connection that has made no progress for the longest time
 * (door_pressure.c).
 *
 * Deliveries that are not in the kernel have a limit of their own, `held_max`, so that consumers that do not read keep
 * no producer waiting. Deliveries up to DOOR_SMALL_MAX, and a single large one, are always accepted. Other large ones
 * wait (door_await_room), and then the door closes consumers that have not read for DOOR_SILENT_S. */
#ifndef TARRY_NET_DOOR_H
#define TARRY_NET_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "listen.h"
#include "message.h"
#include "tls.h"

/* Maximum number of listening sockets. */
#define DOOR_LISTENERS_MAX 8u
/* Maximum number of open connections; fewer if the system grants fewer descriptors. */
#define DOOR_CONNECTIONS_MAX 16384u
/* Maximum number of connections from one address, at most three quarters of all, so that other clients can connect. */
#define DOOR_CONNECTIONS_OF_ADDRESS_MAX 12288u
/* Maximum number of connections whose client is not yet admitted to requests, at most a quarter of all. A client that
 * has only fetched web pages is not admitted to requests. Beyond the maximum the door closes the oldest such
 * connection. */
#define DOOR_HTTP_MAX 4096u
/* Memory that the door assumes for a stalled TLS handshake: 57 KiB with OpenSSL 3.0, rounded up. Such connections
 * over TLS have their own limit, so that together they use no more memory than half-received requests may. */
#define DOOR_HANDSHAKE_SIZE (64u << 10)
/* Maximum number of unanswered requests of one connection. */
#define DOOR_REQUESTS_MAX 128u
/* Maximum number of reply bytes of one connection that are not yet in the kernel. */
#define DOOR_UNSENT_MAX (4u << 20)
/* Maximum size of a received frame in bytes; a larger message must arrive in several frames. */
#define DOOR_FRAME_MAX (1u << 20)
/* A half-received request may always grow to this size, however much memory is in use (CAP-1). An ack, a heartbeat or a
 * query fits into this size. */
#define DOOR_SMALL_MAX (16u << 10)
/* Timeout for a TLS handshake. (Protocols set their own: door_stream_deadline.) */
#define DOOR_HEAD_S 10
/* Timeout for receiving a request, and again for each further DOOR_FRAME_OUT bytes of it. */
#define DOOR_REQUEST_S 30
/* A half-received request without progress for this time may be dropped when another request needs its memory. Only
 * each further DOOR_FRAME_OUT bytes count as progress. */
#define DOOR_SILENT_S 2
/* DOOR_UNREAD_S: timeout for a client that does not read its replies. DOOR_LINGER_S: time that a lane's connection
 * stays open after its session has ended. */
#define DOOR_UNREAD_S 10
#define DOOR_LINGER_S 10
/* While the door's thread waits for a disk, a second thread starts to serve after this time. */
#define DOOR_ASIDE_MS 20

/* Ids with this bit set name no connection. They name code in the broker (broker/gateway) that makes requests and gets
 * deliveries on the door's thread. The door passes messages for them to `inside`. */
#define DOOR_INSIDE (1ull << 63)
static inline bool door_is_inside(uint64_t id) {
    return (id & DOOR_INSIDE) != 0;
}

struct door;
struct door_stream_calls;

struct door_calls {
    void *argument;
    /* Decides whether this client is admitted. Called before the door accepts an upgrade or serves a page (caller.h).
     */
    struct caller_verdict (*admit)(void *argument, const struct net_caller *caller);
    /* Called once for each verdict that admitted a client, when its connection has ended; `id` is that connection. */
    void (*dismiss)(void *argument, uint64_t principal, uint64_t id);
    /* Returns whether the principal may stay connected; on false the door closes the connection. Called for every
     * connection after door_review. */
    bool (*stays)(void *argument, uint64_t principal);
    /* Passes a request of `principal` from connection `from` at address `peer` ("127.0.0.1:40312"). True: the callee
     * owns `request`, and will answer it. False: no capacity; the door keeps the request, and stops reading from that
     * connection until door_resume. */
    bool (*request)(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request);
    /* Reports that a half-received request of this principal grows from `before` to `after` bytes; small requests count
     * as 0. False: the principal would exceed its byte limit; the door reads the request to its end and refuses it. A
     * decrease is always granted. */
    bool (*counts)(void *argument, uint64_t principal, size_t before, size_t after);
    /* Makes the reply to a request that exceeded the door's memory limit or (`is_principals`) its principal's byte
     * limit. NULL: out of memory. */
    struct message *(*refusal)(void *argument, bool is_principals);
    /* Checks whether the client with this Authorization (NULL: no such field) may pull from the lane. Returns 0 if not,
     * else the value that the door passes to lane_up as `holder`. */
    uint64_t (*lane_asks)(void *argument, uint32_t lane, const char *authorization);
    /* Reports that the lane's connection is open. False: the lane no longer accepts it, and the door closes it. */
    bool (*lane_up)(void *argument, uint32_t lane, uint64_t holder, uint64_t id);
    void (*lane_gone)(void *argument, uint32_t lane, uint64_t id);
    /* Returns whether a delivery must still be sent. False: the lane has another session than when the delivery was
     * made (`turn`). Called just before the delivery's first byte is sent. */
    bool (*lane_leaves)(void *argument, uint32_t lane, uint64_t turn);
    /* Reports the result of a delivery. `left` is true: all of it is in the kernel, or the connection broke and a part
     * may have been sent. `left` is false: no byte was sent. */
    void (*lane_sent)(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp);
    /* Makes the message that tells a client the ticket of its connection, which has no lane yet (door_attach). Returns
     * NULL when out of memory. `lane_ticket` may be NULL if no listener uses door_sp_calls. */
    struct message *(*lane_ticket)(void *argument, const uint8_t *ticket, size_t size);
    /* Requests a page; the callee answers with door_page. False: there is no such page. */
    bool (*page)(void *argument, uint64_t id, const char *path);
    /* Called at the end of an event-loop round that may have passed requests; replies made now leave at once. The
     * callee may use the CPU here, but must call door_step_aside before any other wait. */
    void (*served)(void *argument);
    /* Passes a reply or a delivery (`is_delivery`) to a requester inside the broker (DOOR_INSIDE), which may only read
     * it. The receiver of a delivery must call lane_sent with the result. `message` is NULL if there is no reply,
     * because memory was short or the session of the lane has ended. */
    void (*inside)(void *argument, uint64_t id, const struct message *message, bool is_delivery);
    /* Reports that the callee may have capacity for requests again. The door calls it after it has offered the waiting
     * requests to the callee again. */
    void (*resumed)(void *argument);
    /* Called when the time set with door_alarm has passed. */
    void (*alarm)(void *argument);
    /* For the log: the door refused an unauthenticated client. */
    void (*refused)(void *argument, const char *peer, unsigned status, const char *sentence);
};

struct door_limits {
    size_t request_max; /* maximum size of one message in bytes */
    size_t held_max;
    unsigned connections_max;
    /* Origins of web pages that may use the broker, in the format of origin.h; must outlive the door. */
    const char *origins;
    struct tls *tls; /* this broker's certificates; NULL: no TLS; must live until the door has stopped */
    /* The protocol HTTP (broker/http). NULL: every listener has a protocol of its own. Must outlive the door. */
    const struct door_stream_calls *http;
};

/* Makes a door without listeners. Returns NULL when out of memory. */
struct door *door_new(const struct door_calls *calls, const struct door_limits *limits);
/* Takes ownership of a listening socket. `speaks`: the protocol of its connections, must outlive the door; NULL: HTTP.
 * Call it before door_start. */
void door_add(struct door *door, int fd, bool over_tls, const struct door_stream_calls *speaks);
/* Returns the protocol of listeners for nng's own transports: SP over TCP, or over IPC if the listening socket is a
 * Unix socket. */
const struct door_stream_calls *door_sp_calls(const struct door *door);
/* Starts the door's thread. Returns 0 or a positive errno. */
int door_start(struct door *door);
/* Stops accepting and reading, sends queued messages for at most `wait_ms`, and ends the thread. */
void door_stop(struct door *door, unsigned wait_ms);

/* ---- call these on the door's thread */
/* Schedules one call of `alarm` after `after_ms` milliseconds; replaces an earlier schedule. */
void door_alarm(struct door *door, uint64_t after_ms);
/* Gives a lane to the connection that got this ticket (`lane_ticket`), as an upgrade at /lane/N does. `secret`: the one
 * of the session that owns the lane. Status 404: no connection has the ticket (any more); 401, 403, 429: as for an
 * upgrade. */
struct caller_verdict door_attach(struct door *door, const void *ticket, size_t ticket_size, uint32_t lane,
                                  const void *secret, size_t secret_size);

/* ---- call these inside `served` */
/* Announces that the caller may now wait for a disk. If the wait exceeds DOOR_ASIDE_MS, another thread serves the door
 * until door_come_back. */
void door_step_aside(struct door *door);
void door_come_back(struct door *door);
/* Returns whether bytes from that connection have arrived and are not read yet. */
bool door_has_more(struct door *door, uint64_t id);

/* ---- any thread may call these */
/* Takes ownership of `answer`, which carries the backtrace of its request. NULL: out of memory; the door closes the
 * connection, so that the client asks again. */
void door_answer(struct door *door, uint64_t to, struct message *answer);
/* Takes ownership of `message`; its `lane`, `turn` and `stamp` must be set. */
void door_deliver(struct door *door, uint64_t to, struct message *message);
/* Takes ownership of `page`; its `status` and `type` must be set. NULL: out of memory; the door closes the connection.
 */
void door_page(struct door *door, uint64_t to, struct message *page);
void door_close(struct door *door, uint64_t id);
/* Closes the connection after DOOR_LINGER_S, unless the client closes it before. */
void door_linger(struct door *door, uint64_t id);
/* Requests a check after principals were revoked or have expired: the door's thread soon calls `stays` for every
 * connection. Clients that are being admitted at the same time are checked, too. */
void door_review(struct door *door);
/* Reports that the callee has capacity for requests again. */
void door_resume(struct door *door);
/* Returns the number of bytes held for connections, without deliveries. */
size_t door_held(const struct door *door);
/* Returns whether many bytes of replies wait for the door's thread. If true, a thread that makes replies must call
 * door_await_taken before it makes another one. A thread that has reserved the memory for its reply need not wait. */
bool door_is_behind(struct door *door);
void door_await_taken(struct door *door);
/* Reserves memory for a delivery before the delivery is made. door_deliver counts the message itself, so the caller
 * calls door_unreserve after door_deliver. False: unsent deliveries use all memory that deliveries may use; the caller
 * waits with door_await_room. */
bool door_reserve(struct door *door, size_t size);
void door_unreserve(struct door *door, size_t size);
/* Waits for memory for a delivery, and reserves it; only one thread may wait. Meanwhile the door closes consumers that
 * do not read. False: door_end_waits was called. */
bool door_await_room(struct door *door, size_t size);
void door_end_waits(struct door *door);

#endif
