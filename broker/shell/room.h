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
    uint64_t free;         /* bytes, then; core thread only */
    bool low;              /* as it was last said; core thread only */
};

/* `*out_disk` is what the log is opened with. There is one room in a process, and it stays where it is. */
void room_init(struct room *room, const char *path, uint64_t segment_size, struct disk *out_disk);
/* True: new tasks that would take up to `size` bytes of log at `position` (where the core puts its next frame, which
 * may be ahead of the log's end) are to be refused. Waits while the log's next segment is being made if only that can
 * tell. Core thread. */
bool room_is_low(struct room *room, struct log *log, uint64_t position, uint64_t size);

#endif
