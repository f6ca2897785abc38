/* resolve.h: host name lookup that does not block. A numeric address is resolved at once. A name is looked up in a
 * separate thread, and the caller may drop the lookup at any time. */
#ifndef TARRY_RESOLVE_H
#define TARRY_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>

struct resolving;

/* Starts a lookup. NULL: no memory or no thread. The caller must be a library thread: the lookup's thread inherits
 * its blocked signals. */
struct resolving *resolve_begin(const char *host, const char *port);
/* Returns a descriptor that is readable once the lookup has ended. */
int resolve_fd(const struct resolving *resolving);
/* Returns true if the lookup has ended. *out_error: 0 or an error of getaddrinfo (EAI_…). The lookup owns *out_list. */
bool resolve_done(struct resolving *resolving, int *out_error, const struct addrinfo **out_list);
/* Frees or drops the lookup. NULL is allowed. */
void resolve_end(struct resolving *resolving);

#endif
