/* connection_io.h: the bytes of a connection, for connection.c: what is to leave, and system calls. */
#ifndef TARRY_CONNECTION_IO_H
#define TARRY_CONNECTION_IO_H

#include <sys/types.h>

#include "connection.h"

/* Bytes received; 0: the end; -EAGAIN: nothing now; or another negative errno. */
ssize_t io_read(struct connection *connection, void *bytes, size_t size);
/* TLS has received what has not been read. */
bool io_has_pending(struct connection *connection);
/* Likewise: everything that the socket had has been read. */
bool io_is_drained(struct connection *connection);
/* What the descriptor is watched for from now on: EPOLLIN, EPOLLOUT. */
void io_watch(struct connection *connection, uint32_t events);
/* What it has to be watched for at present. The lock `io` is held. */
uint32_t io_events(const struct connection *connection);
/* Bytes that are no frame, copied. 0 or errno. */
int io_send_raw(struct connection *connection, const void *bytes, size_t size);
/* Answers a ping; one answer at most waits to leave. */
void io_pong(struct connection *connection, const uint8_t *payload, size_t size);
/* Says that the connection ends, if that can leave at once. */
void io_say_close(struct connection *connection);
/* The descriptor takes bytes again. */
void io_flush(struct connection *connection);
void io_drop_all(struct connection *connection);

#endif
