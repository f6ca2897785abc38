/* door_stream.h: connections that speak a byte-stream protocol (HTTP, or beanstalkd's). The door accepts, counts,
 * limits and encrypts them, and passes their bytes on as they arrive. An HTTP connection may become a WebSocket, which
 * the door serves itself.
 *
 * Only the door's thread may call these functions, and it makes all callbacks. Every connection has an id, which is
 * never reused. A message for a connection that has ended is dropped and reported as not sent. */
#ifndef TARRY_NET_DOOR_STREAM_H
#define TARRY_NET_DOOR_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "message.h"

struct door;
struct head;
struct head_text;

/* Callbacks of a protocol. */
struct door_stream_calls {
    void *argument;
    /* Reports a new connection, whose client is not admitted yet (door_stream_admit). Returns the value that the other
     * callbacks get as `connection`; NULL: refuse and close the connection. `peer` is valid until `gone`. */
    void *(*opened)(void *argument, uint64_t id, const char *peer);
    /* Passes received bytes, all of which the protocol must take. The protocol reports the bytes that it stores with
     * door_stream_hold. After door_stream_pause only bytes that had already been read arrive. */
    void (*received)(void *connection, const uint8_t *bytes, size_t size);
    /* Reports that the client has shut down its sending side (half-close). True: the protocol still has replies to
     * send, and will call door_stream_finish. False, or a NULL pointer: the door closes the connection. */
    bool (*ended)(void *connection);
    /* Reports that all sent bytes are in the kernel. Called once if door_stream_unsent returned more than 0 before. */
    void (*drained)(void *connection);
    /* Starts the connection's next turn (door_turn.h): the protocol may continue with its stored bytes. */
    void (*turn)(void *connection);
    /* Reports the result of a message whose `stamp` is not 0. If `left` is true, the whole message is in the kernel, or
     * the connection broke and a part may have been sent. If `left` is false, no byte was sent. May be called after
     * `gone`. If `left` is false, it may be called from within door_stream_send. */
    void (*sent)(void *argument, uint64_t stamp, bool left);
    /* Passes ownership of a page that door_stream_page requested (`status` and `type` are set); NULL: out of memory.
     * The pointer may be NULL if the protocol requests no pages. */
    void (*page)(void *connection, struct message *page);
    /* Reports the end of the connection; the door does not use `connection` after this call. */
    void (*gone)(void *connection);
};

/* Asks `admit` (door.h) whether the client with this token may use `path`; size 0: no token. `place` is CALLER_RPC or
 * CALLER_PAGE. An admitted principal is valid until the connection ends, or until a later call admits another principal
 * for the connection. */
struct caller_verdict door_stream_admit(struct door *door, uint64_t id, enum caller_place place, const char *path,
                                        const char *token, size_t token_size);
/* Returns whether a web page with this Origin may use the broker (origin.h). A page may if the operator allows its
 * Origin, or if it is the broker's own page. The own page of a client without a token also needs a `host` that an
 * attacker cannot forge. `host` NULL: the request has no Host field. */
bool door_stream_origin(struct door *door, uint64_t id, const char *origin, const char *host, bool shows_token);

/* Returns whether a client without a token may use this Host (NULL: no Host field). */
bool door_stream_host(struct door *door, uint64_t id, const char *host);
extern const char door_host_refused[]; /* error message for a refused Host field */

/* Upgrades the connection to WebSocket as the request asks: `/rpc` or `/lane/N`. `behind`: the bytes received behind
 * the request. Status 0: the response is sent; the door ignores further calls for the connection, and calls `gone`
 * soon. Else the protocol refuses the request with that status. */
struct caller_verdict door_stream_upgrade(struct door *door, uint64_t id, const struct head *head, const void *behind,
                                          size_t size);
/* Returns the token after "Bearer " (RFC 6750); "": the request has no Authorization field; NULL: the field contains no
 * Bearer token. The caller must refuse the request if NULL is returned, like a request with a wrong token. */
const char *door_token(const struct head_text *authorization, size_t *out_size);

/* Requests the page at this path (`page` in door.h), for example /metrics. False: there is no such page. */
bool door_stream_page(struct door *door, uint64_t id, const char *path);

/* Takes ownership of `message` and queues its bytes after all earlier ones; its `stamp` must be set. What was queued in
 * one step of the door's loop leaves in one write. */
void door_stream_send(struct door *door, uint64_t id, struct message *message);
/* Returns the number of queued bytes that are not yet in the kernel. */
size_t door_stream_unsent(struct door *door, uint64_t id);
/* Pauses or resumes reading from the connection. */
void door_stream_pause(struct door *door, uint64_t id, bool pause);
/* Closes the connection once all queued bytes are in the kernel. */
void door_stream_finish(struct door *door, uint64_t id);
/* Closes the connection at once. */
void door_stream_kill(struct door *door, uint64_t id);
/* Closes the connection after `after_ms` milliseconds; replaces an earlier deadline. 0: no deadline. */
void door_stream_deadline(struct door *door, uint64_t id, uint64_t after_ms);
/* For the log: an unauthenticated client was refused. */
void door_stream_refused(struct door *door, uint64_t id, unsigned status, const char *sentence);
/* Sets the number of bytes that the half-received request holds; 0: no request. The door counts them until the
 * connection ends. False: the memory limit is reached, and nothing has changed; with `is_small` the result is always
 * true. If another request needs memory, the door closes the connection whose request has made no progress for the
 * longest time (CALM-1). */
bool door_stream_half(struct door *door, uint64_t id, size_t size, bool is_small);
/* Marks the request as complete: its bytes stay counted until door_stream_half sets 0, and the door no longer closes
 * the connection to free them. */
void door_stream_whole(struct door *door, uint64_t id);
/* Sets the bytes of the half-received request that count against its principal's limit (`--limit bytes=`), measured
 * after decompression; small requests count as 0. False: the limit is reached, and nothing has changed. A decrease
 * always succeeds. */
bool door_stream_count(struct door *door, uint64_t id, size_t size);
/* Sets the number of bytes that the connection buffers behind its current request. The door counts them until the
 * connection ends. False: the memory limit is reached, and nothing has changed. If another request needs memory, the
 * door closes the connection whose buffered bytes have not decreased for the longest time. */
bool door_stream_keep(struct door *door, uint64_t id, size_t size);
/* Adds `bytes` (may be negative) to the bytes held for no particular connection. False: the memory limit is reached,
 * and nothing has changed. A decrease always succeeds. */
bool door_stream_hold(struct door *door, int64_t bytes);

#endif
