/* fake_socket.h: the fake broker's connections: a WebSocket server (RFC 6455) on the loopback device that shares no
 * code with libtarry's WebSocket or with tarryd. One thread owns all connections, and calls the functions of
 * fake_socket_calls. Data that a broker's client must not send (an unmasked frame, text, a wrong upgrade …) ends the
 * program with a sentence: it is an error in libtarry. */
#ifndef FAKE_SOCKET_H
#define FAKE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tells the fake what to do with a request. All fields zero: send an empty reply. */
struct fake_reply {
    uint8_t *bytes; /* bytes of the reply, allocated with malloc */
    size_t size;
    uint32_t late_ms; /* delay of the reply; other requests are answered meanwhile */
    bool is_silent;   /* true: send no reply */
    bool hangs_up;    /* true: close the connection */
    bool ends_lanes;  /* true: close connections of the kind FAKE_LANE */
};

/* Sets the reply to a copy of these bytes. */
void fake_reply_set(struct fake_reply *reply, const void *bytes, size_t size);

/* The kind of a connection. */
enum fake_visitor {
    FAKE_RPC,     /* sends requests */
    FAKE_LANE,    /* receives deliveries */
    FAKE_LOST,    /* answer 404, because the path does not exist */
    FAKE_STRANGER /* 401 */
};

struct fake_socket_calls {
    void *argument;
    /* Decides about an upgrade request. `bearer` is "" if the client sent no token. */
    enum fake_visitor (*upgrade)(void *argument, const char *path, const char *bearer);
    /* Handles one complete request, without SP's header. */
    void (*request)(void *argument, const uint8_t *bytes, size_t size, struct fake_reply *reply);
};

struct fake_socket;

/* Listens at 127.0.0.1:*out_port and accepts connections from now on. Ends the program if that fails. */
struct fake_socket *fake_socket_open(const struct fake_socket_calls *calls, int *out_port);
/* Sends one message on the newest lane. Returns false if no lane opened within `patience_ms`. Any thread except the
 * fake's own; one at a time. */
bool fake_socket_push(struct fake_socket *socket, const void *bytes, size_t size, uint32_t patience_ms);
/* Drops all connections. */
void fake_socket_close(struct fake_socket *socket);

#endif
