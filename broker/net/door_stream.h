/* door_stream.h: connections at the door that speak a protocol of bytes (HTTP of /v1, beanstalkd's): accepted, counted,
 * limited and encrypted like all others, their bytes handed on as they come.
 *
 * Everything here is the door's thread's own, callbacks too. A connection is named by its id, which is never used
 * twice; what is meant for one that is gone is dropped, and told to be unsent. */
#ifndef TARRY_NET_DOOR_STREAM_H
#define TARRY_NET_DOOR_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "message.h"

struct door;

/* What speaks a protocol. */
struct door_stream_calls {
    void *argument;
    /* A connection has come. The value is handed back as `connection`; NULL: it is refused and ended. `peer` is valid
     * until `gone`. The client is not admitted yet: see door_stream_admit. */
    void *(*opened)(void *argument, uint64_t id, const char *peer);
    /* Bytes have come, all of which must be taken: what is kept of them the callee counts (door_stream_hold). After
     * door_stream_pause none come, but for those that had been read already. */
    void (*received)(void *connection, const uint8_t *bytes, size_t size);
    /* The client has shut down its sending side: no more bytes come (half-close). True: the protocol still has
     * something to answer, and calls door_stream_finish then. False, or NULL: the connection ends. */
    bool (*ended)(void *connection);
    /* All that was sent is in the kernel; not told of what the kernel took at once. */
    void (*drained)(void *connection);
    /* The connection's next turn (door_turn.h): it may go on with what it keeps. */
    void (*turn)(void *connection);
    /* What became of a message with a `stamp` that is not 0. `left`: all of it is in the kernel; or the connection
     * broke and some of it may have been. Not left: not a byte of it has gone out. Also after `gone`, and from within
     * door_stream_send. */
    void (*sent)(void *argument, uint64_t stamp, bool left);
    /* A page that door_stream_page has asked for (status, type are set), which it takes over; NULL: no memory. May be
     * NULL: the protocol asks for none. */
    void (*page)(void *connection, struct message *page);
    /* The connection is no more; `connection` is not used after this. */
    void (*gone)(void *connection);
};

/* The requester, with this token (size 0: none), for `path`: CALLER_RPC or CALLER_PAGE. Judged as an upgrade is, by
 * `admit` (door.h); an admitted one stays until the connection ends or another is admitted: `principal` is good for as
 * long. */
struct caller_verdict door_stream_admit(struct door *door, uint64_t id, enum caller_place place, const char *path,
                                        const char *token, size_t token_size);
/* May a web page of this Origin use the broker (origin.h)? One that an operator allows, and the broker's own; without a
 * token only if `host` (Host; NULL: none is said) cannot have been made up. */
bool door_stream_origin(struct door *door, uint64_t id, const char *origin, const char *host, bool shows_token);

/* May a client without a token name the broker so (Host; NULL: it does not)? */
bool door_stream_host(struct door *door, uint64_t id, const char *host);
extern const char door_host_refused[]; /* … and why not */

/* Asks for the page at this path (door.h, `page`): /metrics, /healthz. False: there is none. */
bool door_stream_page(struct door *door, uint64_t id, const char *path);

/* Takes `message` over (`stamp` is set): its bytes follow all that was sent before. */
void door_stream_send(struct door *door, uint64_t id, struct message *message);
/* Bytes that were sent and are not in the kernel. */
size_t door_stream_unsent(struct door *door, uint64_t id);
/* No more is read, or again. */
void door_stream_pause(struct door *door, uint64_t id, bool pause);
/* Ends once all that was sent is in the kernel. */
void door_stream_finish(struct door *door, uint64_t id);
/* Ends at once. */
void door_stream_kill(struct door *door, uint64_t id);
/* Ends `after_ms` from now unless it is said again; 0: it may stay. */
void door_stream_deadline(struct door *door, uint64_t id, uint64_t after_ms);
/* For the log: a stranger was refused. */
void door_stream_refused(struct door *door, uint64_t id, unsigned status, const char *sentence);
/* The request that is coming holds `size` bytes in all from now on; 0: none. The door counts them, and gives them back
 * when the connection ends. False: that is more than may be held, and nothing has changed; `is_small`: it is never
 * refused. Whose request has not come on for longest gives way to those that need the room (CALM-1): it is ended. */
bool door_stream_half(struct door *door, uint64_t id, size_t size, bool is_small);
/* … it is whole: it holds them until door_stream_half says 0, and does not give way. */
void door_stream_whole(struct door *door, uint64_t id);
/* The bytes of its request that comes count among its principal's (`--limit bytes=`) from now on as `size`: unpacked,
 * and what is small as 0. False: those are more than the principal may have under way, and nothing has changed; fewer
 * is always granted. */
bool door_stream_count(struct door *door, uint64_t id, size_t size);
/* The connection keeps `size` bytes from now on of what has come too early: behind a request that is worked at. The
 * door counts them, and gives them back when it ends. False: that is more than may be held, and nothing has changed.
 * Whose have not become fewer for longest gives way, as above. */
bool door_stream_keep(struct door *door, uint64_t id, size_t size);
/* Bytes more (or fewer) that are kept, for no connection. False: that is more than may be held, and nothing has
 * changed; fewer is always granted. */
bool door_stream_hold(struct door *door, int64_t bytes);

#endif
