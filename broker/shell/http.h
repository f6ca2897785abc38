/* http.h: plain HTTP on the broker's one port, beside the WebSocket endpoints: /healthz and /metrics. */
#ifndef TARRY_SHELL_HTTP_H
#define TARRY_SHELL_HTTP_H

struct shell;

/* Registers the pages with the server that listens at the shell's url. 0 or an nng error. */
int http_open(struct shell *shell);

#endif
