/* place.h: parses the part of a coordinator's URL behind the scheme: host:port,host:port/path, with IPv6 addresses in
 * brackets. Pure functions. */
#ifndef TARRY_COORDINATOR_PLACE_H
#define TARRY_COORDINATOR_PLACE_H

#include <stdbool.h>

#include "coordinator.h"

/* Syntax of one kind of coordinator. */
struct place_kind {
    const char *scheme;   /* "zk://" */
    const char *server;   /* "ZooKeeper" */
    const char *reserved; /* "/zookeeper": a path that the server reserves; NULL: none */
    unsigned port;        /* usual port, for the error message */
    unsigned hosts_max;   /* 0: no limit but the URL's length */
    bool drops_brackets;  /* removes the brackets of IPv6 addresses */
};

/* Parses `place`, of at most COORDINATOR_URL_SIZE_MAX bytes. `hosts` gets the hosts, separated by commas; `out_path`
 * points to the path within `place`, with its first '/'. Returns 0, or 1 with a sentence. */
int place_take(const struct place_kind *kind, const char *place, char hosts[COORDINATOR_URL_SIZE_MAX + 1],
               const char **out_path, char message[COORDINATOR_MESSAGE_SIZE]);

#endif
