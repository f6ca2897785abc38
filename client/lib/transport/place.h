/* place.h: where a broker is: "ws://host:port", "wss://host:port" or "unix:///path/of/a/socket". Pure. */
#ifndef TARRY_PLACE_H
#define TARRY_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "tarry_limits.h"

#define PLACE_URL_MAX (URL_SIZE_MAX + 1u)
#define PLACE_SOCKET_MAX 107u /* of a Unix socket's path: sockaddr_un has no more */

enum place_kind { PLACE_WS, PLACE_WSS, PLACE_UNIX };

struct place {
    enum place_kind kind;
    char url[PLACE_URL_MAX];  /* with a port, without a path behind it */
    char host[PLACE_URL_MAX]; /* a name or an address, without brackets; of a Unix socket: its path */
    char port[6];             /* "": a Unix socket */
};

/* 0, or -1: it is none. `out` is untouched then. */
int place_parse(const char *text, size_t size, struct place *out);
/* ws:// to another machine, as far as the host's text tells: a name other than localhost may be one. */
bool place_is_in_the_clear(const struct place *place);
/* What stands in an HTTP request's Host header. */
const char *place_authority(const struct place *place);

#endif
