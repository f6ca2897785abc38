/* origin.h: decides which web pages may use the broker. A browser on this machine can reach loopback; its Origin field
 * names the page that sent the request. Other clients send no Origin. Pure. */
#ifndef TARRY_NET_ORIGIN_H
#define TARRY_NET_ORIGIN_H

#include <stdbool.h>

/* Returns whether `text` is an origin as browsers send it: scheme://host[:port], or null. */
bool origin_is_valid(const char *text);
/* Returns whether `origin` is in the blank-separated list `allowed`; "": no origin is. */
bool origin_is_allowed(const char *origin, const char *allowed);
/* Returns whether `origin` is the broker's own page: its host is the Host field `host`. An attacker can forge this
 * match by DNS rebinding. So one more condition must hold: the page sends a token, the connection uses TLS, or `host`
 * passes origin_host_is_ours. TLS suffices because the certificate contains the name. */
bool origin_is_own(const char *origin, bool over_tls, const char *host, bool shows_token, const char *allowed);
/* Returns whether the Host field `host` is a name that DNS rebinding cannot forge. Such names are an address, a name
 * without a dot or below .localhost, and the host of an origin in `allowed`. An attacker's page that uses DNS rebinding
 * sends no Origin with a GET, but its Host is the attacker's name. */
bool origin_host_is_ours(const char *host, const char *allowed);

#endif
