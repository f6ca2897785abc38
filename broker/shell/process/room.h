/* room.h: looks at how much of the disk is free, and has the engine decide who may write how much of it (CAP-1, F-4;
 * engine/disk_reserve.h). */
#ifndef TARRY_SHELL_ROOM_H
#define TARRY_SHELL_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"
#include "disk_reserve.h"

struct log;

struct room {
    const char *path;            /* the data directory */
    struct disk_reserve reserve; /* but for `low`, which is the core thread's, it stays as it was made */
    uint64_t looked_ns;          /* MONOTONIC; core thread only */
    uint64_t free;               /* bytes, then; core thread only */
};

/* `*out_disk` is what the log is opened with. There is one room in a process, and it stays where it is. */
void room_init(struct room *room, const char *path, uint64_t segment_size, struct disk *out_disk);
/* Bytes that the file system has left, and has in all; 0: it does not say. Any thread. */
void room_look(const struct room *room, uint64_t *out_free, uint64_t *out_bytes);
/* NULL: there is room for new tasks that would take up to `size` bytes of log at `position` (where the core puts its
 * next frame, which may be ahead of the log's end). Otherwise why they are to be refused, a sentence: the disk is
 * nearly full; or the log's next segment is still being made, which no thread of the core's waits for. Core thread. */
const char *room_refusal(struct room *room, struct log *log, uint64_t position, uint64_t size);
/* Writing so much to the disk would leave half of the reserve: for what gives room back in the end. Any thread. */
bool room_has(const struct room *room, uint64_t size);

/* True: the disk has `size` bytes to spare beside the reserve and the segments that the log will want next. Any thread.
 */
bool room_spares(const struct room *room, uint64_t size);

#endif
