/* place.h: address of a broker: "ws://host:port", "wss://host:port" or "unix:///path/of/a/socket". No I/O. */
#ifndef TARRY_PLACE_H
#define TARRY_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "tarry_limits.h"

#define PLACE_URL_MAX (URL_SIZE_MAX + 1u)
#define PLACE_SOCKET_MAX 107u /* maximum size in bytes of a Unix socket's path, as in sockaddr_un */

enum place_kind { PLACE_WS, PLACE_WSS, PLACE_UNIX };

struct place {
    enum place_kind kind;
    char url[PLACE_URL_MAX];  /* address with the port, without a path after it */
    char host[PLACE_URL_MAX]; /* host name or address without brackets; for a Unix socket, its path */
    char port[6];             /* port; "" for a Unix socket */
};

/* Parses an address. 0, or -1 if it is invalid; `out` is then untouched. */
int place_parse(const char *text, size_t size, struct place *out);
/* True: the address is ws:// and may mean another machine. Every host name except localhost may mean another machine.
 */
bool place_is_in_the_clear(const struct place *place);
/* Returns the value of the HTTP Host header. */
const char *place_authority(const struct place *place);

#endif
