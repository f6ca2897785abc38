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
    const char *reserved; /* paths that begin with this text belong to the server ("/zookeeper"); NULL: none */
    unsigned port;        /* default port, for the error message */
    unsigned hosts_max;   /* maximum number of hosts; 0: limited only by the URL's length */
    bool drops_brackets;  /* true: the brackets of IPv6 addresses are removed */
};

/* Splits `place`, which has at most COORDINATOR_URL_SIZE_MAX bytes. `hosts` gets the hosts, separated by commas;
 * `out_path` the path from its first '/' on. Returns 0, or 1 with an error message. */
int place_take(const struct place_kind *kind, const char *place, char hosts[COORDINATOR_URL_SIZE_MAX + 1],
               const char **out_path, char message[COORDINATOR_MESSAGE_SIZE]);

#endif
