/* http_server.h: HTTP and JSON, /v1/…, for clients that have no library of Tarry's. All on the door's thread.
 *
 *   door_stream ── bytes ──► http_connection (heads, bodies, answers) ──► http_routes ──► a handler ──► the gateway
 *
 * A connection stays for as many requests as its client likes, one after the other; what it sends meanwhile waits. */
#ifndef TARRY_HTTP_HTTP_SERVER_H
#define TARRY_HTTP_HTTP_SERVER_H

#include <stdint.h>

#include "door_stream.h"

struct door;
struct gateway;
struct http_server;

/* NULL: no memory. */
struct http_server *http_server_new(struct gateway *gateway);
/* What the door is to call for /v1; the server's, as long as it is. */
const struct door_stream_calls *http_server_calls(const struct http_server *server);
void http_server_serve(struct http_server *server, struct door *door);
/* The door has stopped. */
void http_server_free(struct http_server *server);

#endif
