/* http_server.h: HTTP at the door: pages, upgrades to WebSocket, and the API with JSON under /v1/… for clients without
 * a Tarry library. Door's thread only.
 *
 *   door_stream ── bytes ──► http_connection (heads, bodies, answers) ──► http_routes ──► a handler ──► the gateway
 *
 * A connection serves any number of requests in their order. Several commits may be under way at the same time; input
 * that arrives meanwhile is buffered. */
#ifndef TARRY_HTTP_HTTP_SERVER_H
#define TARRY_HTTP_HTTP_SERVER_H

#include <stdint.h>

#include "door_stream.h"

struct door;
struct gateway;
struct http_server;

/* Returns NULL when out of memory. */
struct http_server *http_server_new(struct gateway *gateway);
/* Returns the callbacks that the door uses for HTTP; valid as long as the server. */
const struct door_stream_calls *http_server_calls(const struct http_server *server);
void http_server_serve(struct http_server *server, struct door *door);
/* Begins to record what the broker does in each minute (GET /v1/minutes). Call it before the door starts. */
void http_server_count_minutes(struct http_server *server);
/* Frees the server. Call it after the door has stopped. */
void http_server_free(struct http_server *server);

#endif
