/* fake_socket.h: the door of the fake broker: a WebSocket server (RFC 6455) on the loopback device that shares nothing
 * with libtarry's own WebSocket and nothing with tarryd's.
 *
 * One thread owns every connection, and calls its owner there. What no client of a broker may send (a frame without a
 * mask, text, a wrong upgrade …) ends the program with a sentence: it is a fault of libtarry's. */
#ifndef FAKE_SOCKET_H
#define FAKE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What becomes of a request. Empty and all false: an answer of no bytes. */
struct fake_reply {
    uint8_t *bytes; /* the answer; malloc's */
    size_t size;
    uint32_t late_ms; /* it leaves so much later; what comes meanwhile is answered meanwhile */
    bool is_silent;   /* there is no answer */
    bool hangs_up;    /* nor a connection any more */
    bool ends_lanes;  /* connections of the kind FAKE_LANE end */
};

/* Copies the bytes, in place of those that were there. */
void fake_reply_set(struct fake_reply *reply, const void *bytes, size_t size);

/* Who wants to come in. */
enum fake_visitor {
    FAKE_RPC,     /* sends requests */
    FAKE_LANE,    /* is sent deliveries */
    FAKE_LOST,    /* 404: there is nothing at that path */
    FAKE_STRANGER /* 401 */
};

struct fake_socket_calls {
    void *argument;
    /* `bearer` is "" if none was shown. */
    enum fake_visitor (*upgrade)(void *argument, const char *path, const char *bearer);
    /* One request, whole, without SP's header. */
    void (*request)(void *argument, const uint8_t *bytes, size_t size, struct fake_reply *reply);
};

struct fake_socket;

/* Listens at 127.0.0.1:*out_port, and takes connections from now on. Ends the program if it cannot. */
struct fake_socket *fake_socket_open(const struct fake_socket_calls *calls, int *out_port);
/* Sends one message on the lane that came last. False: there was none within `patience_ms`. Any thread but its own; one
 * at a time. */
bool fake_socket_push(struct fake_socket *socket, const void *bytes, size_t size, uint32_t patience_ms);
/* Drops all connections. */
void fake_socket_close(struct fake_socket *socket);

#endif
