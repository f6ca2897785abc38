/* directory.h: a small data directory with the files that tarryd leaves: identity, lock, a log of a few segments, and
 * an index that has absorbed most of the log. The directory is made from one random history
 * (tests/property/index_world.h), which is always the same. A copy is kept in memory, so that changes of the files can
 * be undone. The directory is on a tmpfs ($TMPDIR, or /dev/shm), and is deleted when the process ends normally. A
 * process can have only one such directory. */
#ifndef TARRY_TESTS_FUZZ_DIRECTORY_H
#define TARRY_TESTS_FUZZ_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../property/index_world.h"

#define DIRECTORY_FILES_MAX 32
#define DIRECTORY_SEGMENT_SIZE 8192u

struct directory_file {
    char name[48]; /* name below `path` */
    uint8_t *data; /* the original contents */
    size_t size;
    bool changed; /* changed by directory_write */
};

struct directory {
    char path[96];
    uint8_t cluster[16];
    struct directory_file files[DIRECTORY_FILES_MAX];
    size_t file_count;
    size_t frames_archived;
    struct world *world; /* the history; its last frames are in the log but not in the index */
};

/* Makes the directory. `retired`: the first frames are removed from the log, and only the index has their contents. */
void directory_make(struct directory *directory, bool retired);
/* Makes a directory whose oldest segments are in DIR/archive and no longer in the log; the index has absorbed
 * exactly their frames. */
void directory_make_archived(struct directory *directory, size_t segments);
/* Adds a file to the directory. */
void directory_add(struct directory *directory, const char *name, const uint8_t *data, size_t size);
/* Writes a file's bytes; NULL deletes the file. */
void directory_write(struct directory *directory, size_t file, const uint8_t *data, size_t size);
/* Undoes every directory_write. */
void directory_restore(struct directory *directory);

#endif
