/* disk_space.h: looks at how much of the disk is free, and has the engine decide which writer may use how much of it
 * (CAP-1, F-4; engine/disk_reserve.h). */
#ifndef TARRY_SHELL_DISK_SPACE_H
#define TARRY_SHELL_DISK_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"
#include "disk_reserve.h"

struct log;

struct disk_space {
    const char *path;            /* the data directory */
    struct disk_reserve reserve; /* but for `low`, which is the core thread's, it stays as it was made */
    uint64_t looked_ns;          /* MONOTONIC; core thread only */
    uint64_t free;               /* bytes, then; core thread only */
    bool is_awaited;             /* the last refusal is for a moment: the segment is being made; core thread only */
};

/* `*out_disk` is what the log is opened with. There is one in a process, and it stays where it is. */
void disk_space_init(struct disk_space *disk_space, const char *path, uint64_t segment_size, struct disk *out_disk);
/* Bytes that the file system has left, and has in all; 0: it does not say. Any thread. */
void disk_space_look(const struct disk_space *disk_space, uint64_t *out_free, uint64_t *out_bytes);
/* NULL: the disk has space for new tasks that would take up to `size` bytes of log at `position` (where the core puts
 * its next frame, which may be ahead of the log's end). Otherwise why they are to be refused, a sentence: the disk is
 * nearly full; or the log's next segment is still being made, which no thread of the core's waits for. Core thread. */
const char *disk_space_refusal(struct disk_space *disk_space, struct log *log, uint64_t position, uint64_t size);
/* Writing so much to the disk would leave half of the reserve: for what frees space in the end. Any thread. */
bool disk_space_has(const struct disk_space *disk_space, uint64_t size);

/* True: the disk has `size` bytes to spare beside the reserve and the segments that the log will want next. Any thread.
 */
bool disk_space_spares(const struct disk_space *disk_space, uint64_t size);

#endif
