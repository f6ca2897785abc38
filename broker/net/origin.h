/* origin.h: which web pages may use the broker. A browser on this machine reaches loopback too; the Origin that it
 * sends says for which page. Other clients send none. Pure. */
#ifndef TARRY_NET_ORIGIN_H
#define TARRY_NET_ORIGIN_H

#include <stdbool.h>

/* Whether `text` is an origin as browsers send it: scheme://host[:port], or null. */
bool origin_is_valid(const char *text);
/* Whether `origin` is one of `allowed`, which are separated by blanks; "": none. */
bool origin_is_allowed(const char *origin, const char *allowed);

#endif
