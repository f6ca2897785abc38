/* door.h: what owns tarryd's port: HTTP pages, the upgrade to WebSocket, and SP's messages over it. libwebsockets
 * speaks HTTP and WebSocket; what it is given is accepted, limited and judged here.
 *
 *                      door's thread                                             any thread
 *   accept ── HTTP ──► admit() ─┬─ /rpc ────► request() … waits …           ◄── door_answer
 *                               ├─ /lane/N ─► lane_asks(), lane_up()        ◄── door_deliver ── lane_leaves()? ─►
 *                               │                          lane_sent()
 *                               └─ a page ──► page() … waits …              ◄── door_page
 *
 * A connection has an id, which is never used twice; what is meant for one that is gone is dropped, and a delivery is
 * told to be unsent. One thread at a time reads, writes and calls back. What other threads hand over waits in a queue,
 * and a descriptor wakes the thread.
 *
 * Bytes: what is half received, what waits for the callee, and what is not yet in the kernel is counted (door_held).
 * Beyond `held_max` requests that would make it worse are refused while they come: they are read to their end, kept
 * nowhere, and refusal() makes their answer. A connection that has DOOR_REQUESTS_MAX requests or DOOR_UNSENT_MAX bytes
 * of answers under way is not read from. Of halves of requests that do not come on, and of unread answers, no more than
 * `held_max` is held for all connections together: the connection that has been silent longest is ended
 * (door_pressure.c).
 */
#ifndef TARRY_NET_DOOR_H
#define TARRY_NET_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "listen.h"
#include "message.h"
#include "tls.h"

/* Sockets that listen. */
#define DOOR_LISTENERS_MAX 8u
/* Connections at once; fewer, if the system grants fewer descriptors. */
#define DOOR_CONNECTIONS_MAX 16384u
/* … of one address: the others stay reachable. Three quarters of all that there may be, if that is less. */
#define DOOR_CONNECTIONS_OF_ADDRESS_MAX 12288u
/* … that have not been upgraded: beyond it the one that has been there longest goes. A quarter of all, if less. */
#define DOOR_HTTP_MAX 4096u
/* … over TLS so many are counted for themselves, and hold in all no more than half requests may: what a handshake takes
 * that does not go on (57 KiB, OpenSSL 3.0), rounded up. */
#define DOOR_HANDSHAKE_SIZE (64u << 10)
/* Requests of one connection that have no answer yet. */
#define DOOR_REQUESTS_MAX 128u
/* Bytes of answers for one connection that are not in the kernel yet. */
#define DOOR_UNSENT_MAX (4u << 20)
/* A frame as it may come; a larger message comes in several. */
#define DOOR_FRAME_MAX (1u << 20)
/* What is half received may always grow to this size, whatever else is held (CAP-1): an ack, a heartbeat, a question.
 */
#define DOOR_SMALL_MAX (16u << 10)
/* How long TLS's handshake may take, and then a head, and how long a connection over HTTP may be idle. */
#define DOOR_HEAD_S 10
#define DOOR_IDLE_S 30
/* How long a request may take to come, and each further DOOR_FRAME_OUT of it. */
#define DOOR_REQUEST_S 30
/* Pages that are not read yet may hold one in so many bytes of what may be held; the last of them always may. */
#define DOOR_PAGES_SHARE 4u
/* Half a request of which so long nothing has come gives way to another one that needs its room. */
#define DOOR_SILENT_S 2
/* How long a client may leave an answer unread, and a lane's connection stand after its session. */
#define DOOR_UNREAD_S 10
#define DOOR_LINGER_S 10
/* How long no thread serves while the door's waits for a disk. */
#define DOOR_ASIDE_MS 20

/* Ids with this bit name no connection, but code that makes requests and gets deliveries in the door's own thread
 * (broker/gateway). What is handed over for them comes by `inside`. */
#define DOOR_INSIDE (1ull << 63)
static inline bool door_is_inside(uint64_t id) {
    return (id & DOOR_INSIDE) != 0;
}

struct door;
struct door_stream_calls;

struct door_calls {
    void *argument;
    /* May this caller come in? Asked before an upgrade is accepted, and before a page is (caller.h). */
    struct caller_verdict (*admit)(void *argument, const struct net_caller *caller);
    /* Once for each verdict that let a client in: its connection, whose requests came from `id`, has gone. */
    void (*dismiss)(void *argument, uint64_t principal, uint64_t id);
    /* Asked of each connection after door_review. False: its principal may not stay, and it is ended. */
    bool (*stays)(void *argument, uint64_t principal);
    /* A request of `principal` from connection `from` at the address `peer` ("127.0.0.1:40312"). True: it is taken
     * over, and will be answered. False: there is no room; the door keeps it, and does not read on from there until
     * door_resume. */
    bool (*request)(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request);
    /* A request of this principal that is half received held `before` bytes and is to hold `after`; what is small
     * counts as 0. False: those are more than the principal may have under way; it is read to its end, and refused.
     * What becomes less is always granted. */
    bool (*counts)(void *argument, uint64_t principal, size_t before, size_t after);
    /* The answer to a request that there was no room for: at the door, or among those of its principal (`counts`);
     * NULL: no memory. */
    struct message *(*refusal)(void *argument, bool is_principals);
    /* May the client that brings this Authorization (NULL: none) pull from the lane? 0: no; else what lane_up is told
     * as `holder`.
     */
    uint64_t (*lane_asks)(void *argument, uint32_t lane, const char *authorization);
    /* Its connection stands. False: it does not fit any more, and is closed. */
    bool (*lane_up)(void *argument, uint32_t lane, uint64_t holder, uint64_t id);
    void (*lane_gone)(void *argument, uint32_t lane, uint64_t id);
    /* Is a delivery with this `turn` still to be sent? Asked right before the first of its bytes leaves. */
    bool (*lane_leaves)(void *argument, uint32_t lane, uint64_t turn);
    /* What became of a delivery. `left`: all of it is in the kernel; or the connection broke, and some of it may have
     * been. Not left: not a byte of it has gone out. */
    void (*lane_sent)(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp);
    /* A page is asked for, which door_page will answer. False: there is none. */
    bool (*page)(void *argument, uint64_t id, const char *path);
    /* A round is over, in which something may have been taken over; what is answered now leaves at once. The callee may
     * take its time for what a CPU does, and steps aside for anything else (door_step_aside). */
    void (*served)(void *argument);
    /* A requester inside the broker (DOOR_INSIDE) gets this, which it may only look at: an answer, or a delivery
     * (is_delivery), of whose fate the receiver is to tell lane_sent. NULL: there is no answer, for want of memory, or
     * its lane's session has ended. */
    void (*inside)(void *argument, uint64_t id, const struct message *message, bool is_delivery);
    /* There may be room for requests again: those of connections have been offered. */
    void (*resumed)(void *argument);
    /* What door_alarm has asked for. */
    void (*alarm)(void *argument);
    /* For the log: a stranger was refused. */
    void (*refused)(void *argument, const char *peer, unsigned status, const char *sentence);
    /* For the log: `text` is the library's. */
    void (*trouble)(void *argument, const char *text);
};

struct door_limits {
    size_t request_max; /* bytes of one message */
    size_t held_max;
    unsigned connections_max;
    const char *origins; /* as in origin.h; must stay */
    struct tls *tls;     /* NULL: none; must stay until the door has stopped */
    /* What answers HTTP requests for /v1 (door_stream.h); NULL: nothing does. Must stay. */
    const struct door_stream_calls *http;
};

/* NULL: no memory. */
struct door *door_new(const struct door_calls *calls, const struct door_limits *limits);
/* Takes a listening socket over. `speaks`: the protocol of its connections (must stay); NULL: HTTP and WebSocket.
 * Before door_start. */
void door_add(struct door *door, int fd, bool over_tls, const struct door_stream_calls *speaks);
/* Serves. 0 or a positive errno. */
int door_start(struct door *door);
/* Accepts and reads nothing more, sends what is queued, for `wait_ms` at most, and ends the thread. */
void door_stop(struct door *door, unsigned wait_ms);

/* ---- the door's thread */
/* `alarm` is called so much later. The last one counts. */
void door_alarm(struct door *door, uint64_t after_ms);

/* ---- in `served` */
/* What follows may wait for a disk. If it takes longer than DOOR_ASIDE_MS another thread serves until door_come_back.
 */
void door_step_aside(struct door *door);
void door_come_back(struct door *door);
/* Something has already come from that connection that has not been read. */
bool door_has_more(struct door *door, uint64_t id);

/* ---- any thread */
/* Takes `answer` over, which has its request's backtrace. NULL: no memory; the connection is closed, so that the client
 * asks again. */
void door_answer(struct door *door, uint64_t to, struct message *answer);
/* Takes `message` over (lane, turn, stamp are set). */
void door_deliver(struct door *door, uint64_t to, struct message *message);
/* Takes `page` over (status, type are set). NULL: no memory; the connection is closed. */
void door_page(struct door *door, uint64_t to, struct message *page);
void door_close(struct door *door, uint64_t id);
/* The same, once the other side has had DOOR_LINGER_S to do it itself. */
void door_linger(struct door *door, uint64_t id);
/* Principals have changed (revoked, expired): `stays` is asked of every connection, soon and on the door's thread. A
 * verdict that is being made meanwhile is asked about too. */
void door_review(struct door *door);
/* There is room for a request again. */
void door_resume(struct door *door);
/* Bytes that are held for connections. */
size_t door_held(const struct door *door);

#endif
