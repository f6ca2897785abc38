/* place.h: what stands behind the scheme of a third party's address: host:port,host:port/path; an IPv6 address in
 * brackets. Pure functions. */
#ifndef TARRY_COORDINATOR_PLACE_H
#define TARRY_COORDINATOR_PLACE_H

#include <stdbool.h>

#include "coordinator.h"

/* What one kind of coordinator makes of it. */
struct place_kind {
    const char *scheme;   /* "zk://" */
    const char *server;   /* "ZooKeeper" */
    const char *reserved; /* "/zookeeper": paths there are the server's own; NULL: none are */
    unsigned port;        /* the usual one, for the sentence */
    unsigned hosts_max;   /* 0: as many as the URL has room for */
    bool drops_brackets;  /* of IPv6 addresses */
};

/* `hosts` gets the hosts, with commas between them, `out_path` the path within `place`, from its first '/' on.
 * 0, or 1 with a sentence. `place` is at most COORDINATOR_URL_SIZE_MAX bytes. */
int place_take(const struct place_kind *kind, const char *place, char hosts[COORDINATOR_URL_SIZE_MAX + 1],
               const char **out_path, char message[COORDINATOR_MESSAGE_SIZE]);

#endif
