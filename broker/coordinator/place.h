/* place.h: parses a coordinator's address behind the scheme: host:port,host:port/path, with IPv6 addresses in brackets.
 * Pure functions. */
#ifndef TARRY_COORDINATOR_PLACE_H
#define TARRY_COORDINATOR_PLACE_H

#include <stdbool.h>

#include "coordinator.h"

/* Rules of one kind of coordinator for its address. */
struct place_kind {
    const char *scheme;   /* "zk://" */
    const char *server;   /* "ZooKeeper" */
    const char *reserved; /* "/zookeeper": paths that begin so belong to the server; NULL: none */
    unsigned port;        /* default port, for the error message */
    unsigned hosts_max;   /* 0: limited by the URL's length only */
    bool drops_brackets;  /* removes the brackets of IPv6 addresses */
};

/* Splits `place`, which has at most COORDINATOR_URL_SIZE_MAX bytes. `hosts` gets the hosts, separated by commas;
 * `out_path` the path from its first '/' on. Returns 0, or 1 with an error message. */
int place_take(const struct place_kind *kind, const char *place, char hosts[COORDINATOR_URL_SIZE_MAX + 1],
               const char **out_path, char message[COORDINATOR_MESSAGE_SIZE]);

#endif
