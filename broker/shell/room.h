/* room.h: keeps room on the disk for what must still be written when it is full (CAP-1, F-4): the index's growth, acks
 * and cancels. The log may not preallocate a segment out of the reserve, and new tasks are refused before it is
 * touched. */
#ifndef TARRY_SHELL_ROOM_H
#define TARRY_SHELL_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"

struct log;

struct room {
    const char *path;      /* the data directory */
    uint64_t segment_size; /* of the log */
    uint64_t reserve;      /* bytes */
    uint64_t looked_ns;    /* MONOTONIC; core thread only */
    bool low;              /* core thread only */
};

/* `*out_disk` is what the log is opened with. There is one room in a process, and it stays where it is. */
void room_init(struct room *room, const char *path, uint64_t segment_size, struct disk *out_disk);
/* True: new tasks are to be refused. Looks at the disk now and then only. Core thread. */
bool room_is_low(struct room *room, const struct log *log);

#endif
