/* directory.h: a small data directory as tarryd leaves one: identity, lock, a log of a few segments, and an index that
 * has absorbed most of it. Made of one random history (tests/property/index_world.h), the same each time, and kept in
 * memory so that what an input has done to the files can be undone.
 *
 * It lies on a tmpfs ($TMPDIR, or /dev/shm), and is deleted when the process ends by itself. Only one a process. */
#ifndef TARRY_TESTS_FUZZ_DIRECTORY_H
#define TARRY_TESTS_FUZZ_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../property/index_world.h"

#define DIRECTORY_FILES_MAX 32
#define DIRECTORY_SEGMENT_SIZE 8192u

struct directory_file {
    char name[48]; /* below `path` */
    uint8_t *data; /* as it was made */
    size_t size;
    bool changed; /* by directory_write */
};

struct directory {
    char path[96];
    uint8_t cluster[16];
    struct directory_file files[DIRECTORY_FILES_MAX];
    size_t file_count;
    size_t frames_archived;
    struct world *world; /* the history; its last frames are in the log and not in the index */
};

/* `retired`: the first frames are gone from the log, their contents lie in the index. */
void directory_make(struct directory *directory, bool retired);
/* The oldest segments are in DIR/archive and no longer in the log; the index has absorbed their frames and no others.
 */
void directory_make_archived(struct directory *directory, size_t segments);
/* One more file that is part of it. */
void directory_add(struct directory *directory, const char *name, const uint8_t *data, size_t size);
/* Writes a file's bytes; a NULL deletes it. */
void directory_write(struct directory *directory, size_t file, const uint8_t *data, size_t size);
/* Undoes every directory_write. */
void directory_restore(struct directory *directory);

#endif
