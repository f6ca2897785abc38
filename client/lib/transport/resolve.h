/* resolve.h: looking up a host's name without waiting for it. A numeric address is answered at once; a name is looked
 * up by a thread of its own, which the requester may forget at any moment. */
#ifndef TARRY_RESOLVE_H
#define TARRY_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>

struct resolving;

/* NULL: no memory, or no thread. Called by a thread of the library's, whose blocked signals the lookup's inherits. */
struct resolving *resolve_begin(const char *host, const char *port);
/* Readable once the answer is there. */
int resolve_fd(const struct resolving *resolving);
/* True: it is there. *out_error: 0, or one of getaddrinfo's (EAI_…); *out_list stays the lookup's. */
bool resolve_done(struct resolving *resolving, int *out_error, const struct addrinfo **out_list);
/* NULL is fine. */
void resolve_end(struct resolving *resolving);

#endif
