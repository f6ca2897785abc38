/* origin.h: which web pages may use the broker. A browser on this machine reaches loopback too; the Origin that it
 * sends says for which page. Other clients send none. Pure. */
#ifndef TARRY_NET_ORIGIN_H
#define TARRY_NET_ORIGIN_H

#include <stdbool.h>

/* Whether `text` is an origin as browsers send it: scheme://host[:port], or null. */
bool origin_is_valid(const char *text);
/* Whether `origin` is one of `allowed`, which are separated by blanks; "": none. */
bool origin_is_allowed(const char *origin, const char *allowed);
/* Whether `origin` is where `host`, as Host says it, leads: the page is the broker's own. A page that is passed off as
 * that has such an Origin, too: so it must show a token, or have come over TLS, where a certificate has the name, or
 * have named this machine (origin_host_is_ours). */
bool origin_is_own(const char *origin, bool over_tls, const char *host, bool shows_token, const char *allowed);
/* Whether `host`, as Host says it, is a name that no web page can have made up for this machine: an address, or one
 * without a dot or below .localhost, or that of an origin in `allowed`. A page that a name server passes off as the
 * broker's own (DNS rebinding) sends no Origin when it reads; but its Host is its own name. */
bool origin_host_is_ours(const char *host, const char *allowed);

#endif
