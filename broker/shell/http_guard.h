/* http_guard.h: stands between the network and nng's HTTP server, which a stranger's request can make overrun its heap
 * (1.5.2: a target that ends in %XX; mended in 1.6.0).
 *
 *   accept ─► HEAD ── whole, and taken ─► PASSING ─ all of it was read by nng ─► PASSED ── nng sends 101 ─► OPEN
 *              ▲ └─ refused: an answer, and the end                                │     (WebSocket: nobody looks)
 *              └───────────────────────── nng sends anything else ────────────────┘
 *
 * tarryd defines accept, readv, sendmsg and close itself, by which nng reaches its connections; a symbol of the program
 * comes before those of libraries, those that are preloaded too. Of a connection that was accepted nng reads nothing
 * but whole heads that http_head.h takes, one at a time, until it has answered one with 101. Nothing behind a head is
 * taken from the kernel before nng has answered it, so what follows is judged for what it is: another head, or frames.
 * Connections that tarryd opens are left alone.
 *
 * Thread-safety: nng calls for one descriptor from one thread at a time. */
#ifndef TARRY_SHELL_HTTP_GUARD_H
#define TARRY_SHELL_HTTP_GUARD_H

#include <stdint.h>

/* From now on. `origins` as in http_head.h; it must stay. 0 or an errno. Once the limit of descriptors is what it will
 * be, and before anybody listens. */
int http_guard_begin(const char *origins);
/* Asks the broker's own port what only the guard refuses. NULL: it has; or a sentence. 5 s at most. */
const char *http_guard_verify(uint16_t port);

#endif
