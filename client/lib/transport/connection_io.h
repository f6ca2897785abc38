/* connection_io.h: input and output of a connection, for connection.c: send queue and system calls. */
#ifndef TARRY_CONNECTION_IO_H
#define TARRY_CONNECTION_IO_H

#include <sys/types.h>

#include "connection.h"

/* Returns the number of received bytes; 0: end of stream; -EAGAIN: nothing now; or another negative errno. */
ssize_t io_read(struct connection *connection, void *bytes, size_t size);
/* True: TLS has buffered bytes that have not been read. */
bool io_has_pending(struct connection *connection);
/* True: all bytes that the socket had have been read. */
bool io_is_drained(struct connection *connection);
/* Sets the watched events: EPOLLIN, EPOLLOUT. */
void io_watch(struct connection *connection, uint32_t events);
/* Returns the events that must be watched now. The lock `io` is held. */
uint32_t io_events(const struct connection *connection);
/* Sends a copy of bytes that are not a frame. 0 or errno. */
int io_send_raw(struct connection *connection, const void *bytes, size_t size);
/* Answers a ping. At most one answer waits to be sent. */
void io_pong(struct connection *connection, const uint8_t *payload, size_t size);
/* Sends a close frame, if that is possible without waiting. */
void io_say_close(struct connection *connection);
/* Sends queued bytes, because the descriptor is writable. */
void io_flush(struct connection *connection);
void io_drop_all(struct connection *connection);

#endif
