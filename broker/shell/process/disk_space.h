/* disk_space.h: reads the free space of the disk, and asks the engine how much of it each writer may use (CAP-1, F-4;
 * engine/disk_reserve.h). */
#ifndef TARRY_SHELL_DISK_SPACE_H
#define TARRY_SHELL_DISK_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"
#include "disk_reserve.h"

struct log;

struct disk_space {
    const char *path;            /* path of the data directory */
    struct disk_reserve reserve; /* constant, except `low`, which the core thread owns */
    uint64_t looked_ns;          /* CLOCK_MONOTONIC of the last reading of the free space; core thread only */
    uint64_t free;               /* free bytes at the last reading; core thread only */
    bool is_awaited; /* the last refusal is temporary: the log's next segment is being made; core thread only */
};

/* Initializes `disk_space` and `*out_disk`, with which the log is opened. There is one disk_space per process, and it
 * must not move. */
void disk_space_init(struct disk_space *disk_space, const char *path, uint64_t segment_size, struct disk *out_disk);
/* Returns the free and total bytes of the file system; 0: not known. Any thread. */
void disk_space_look(const struct disk_space *disk_space, uint64_t *out_free, uint64_t *out_bytes);
/* Returns NULL if the disk has space for new tasks of up to `size` bytes of log at `position`, where the core puts its
 * next frame. (The position may be ahead of the log's end.) Otherwise returns the reason of the refusal: the disk is
 * nearly full, or the log's next segment is still being made. The core never waits for the segment. Core thread only.
 */
const char *disk_space_refusal(struct disk_space *disk_space, struct log *log, uint64_t position, uint64_t size);
/* Returns whether writing `size` bytes leaves half of the reserve. For writers that later free space. Any thread. */
bool disk_space_has(const struct disk_space *disk_space, uint64_t size);

/* Returns whether the disk has `size` free bytes beside the reserve and the next segments of the log. Any thread. */
bool disk_space_spares(const struct disk_space *disk_space, uint64_t size);

#endif
