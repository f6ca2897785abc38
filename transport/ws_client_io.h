/* ws_client_io.h: input and output of a connection, for ws_client.c: send queue and system calls. */
#ifndef TARRY_WS_CLIENT_IO_H
#define TARRY_WS_CLIENT_IO_H

#include <sys/types.h>

#include "ws_client.h"

/* Returns the number of received bytes; 0: end of stream; -EAGAIN: nothing now; or another negative errno. */
ssize_t ws_client_io_read(struct ws_client *connection, void *bytes, size_t size);
/* True: TLS has buffered bytes that have not been read. */
bool ws_client_io_has_pending(struct ws_client *connection);
/* True: all bytes have been read from the socket. */
bool ws_client_io_is_drained(struct ws_client *connection);
/* Sets the watched events: EPOLLIN, EPOLLOUT. */
void ws_client_io_watch(struct ws_client *connection, uint32_t events);
/* Returns the events that must be watched now. The lock `io` is held. */
uint32_t ws_client_io_events(const struct ws_client *connection);
/* Sends a copy of bytes that are not a frame. 0 or errno. */
int ws_client_io_send_raw(struct ws_client *connection, const void *bytes, size_t size);
/* Answers a ping. At most one answer waits to be sent. */
void ws_client_io_pong(struct ws_client *connection, const uint8_t *payload, size_t size);
/* Sends a close frame, if that is possible without waiting. */
void ws_client_io_say_close(struct ws_client *connection);
/* Sends queued bytes, because the descriptor is writable. */
void ws_client_io_flush(struct ws_client *connection);
void ws_client_io_drop_all(struct ws_client *connection);

#endif
