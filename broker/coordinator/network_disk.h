/* network_disk.h: is a directory on a network file system? A lock and a rename of another host's may be seen late
 * there, or not at all. */
#ifndef TARRY_COORDINATOR_NETWORK_DISK_H
#define TARRY_COORDINATOR_NETWORK_DISK_H

/* The file system's name, static; NULL: it is a local one, or cannot be asked (who opens it has a better sentence). Any
 * thread. */
const char *network_disk(const char *directory);

#endif
