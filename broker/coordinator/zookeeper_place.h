/* zookeeper_place.h: what stands behind zk://: host:port,host:port/path; an IPv6 address in brackets. Pure. */
#ifndef TARRY_COORDINATOR_ZOOKEEPER_PLACE_H
#define TARRY_COORDINATOR_ZOOKEEPER_PLACE_H

#include "coordinator.h"

/* `hosts` gets the hosts as ZooKeeper's client wants them, `out_path` the path within `place`, from its first '/' on.
 * 0, or 1 with a sentence. `place` is at most COORDINATOR_URL_SIZE_MAX bytes. */
int zookeeper_take_place(const char *place, char hosts[COORDINATOR_URL_SIZE_MAX + 1], const char **out_path,
                         char message[COORDINATOR_MESSAGE_SIZE]);

#endif
