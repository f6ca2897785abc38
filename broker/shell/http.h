/* http.h: plain HTTP on the broker's one port, beside the WebSocket endpoints: /healthz and /metrics. */
#ifndef TARRY_SHELL_HTTP_H
#define TARRY_SHELL_HTTP_H

#include <nng/nng.h>

struct shell;

/* Registers the pages with the server that listens at the shell's url. 0 or an nng error. */
int http_open(struct shell *shell);
/* Switches TCP's keepalive on, for a socket that has no listener yet. 0 or an nng error. Every socket that listens on
 * the port must: they share one HTTP server, and each new listener sets this for all connections to come. */
int http_keepalive(nng_socket socket);

#endif
