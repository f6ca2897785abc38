/* check_push.h: where a queue may be pushed to. Pure, any thread. */
#ifndef TARRY_PROTO_CHECK_PUSH_H
#define TARRY_PROTO_CHECK_PUSH_H

#include <stddef.h>

/* The origin of a push URL: `http://host:8080` of `http://host:8080/path`; what counts as one host for limits. Its size
 * in bytes. `url` must be a valid one. */
size_t push_url_origin(const char *url);
/* http:// or https://, a host (a name, an IPv4 address, or an IPv6 address in brackets), perhaps a port, a path, a
 * query: printable ASCII, PUSH_URL_SIZE_MAX bytes at most. No user and password, which everybody would read who may
 * read policies, and no fragment. Empty is fine: the queue is not pushed. NULL, or a sentence as check.h has them. */
const char *check_push_url(const char *url);

#endif
