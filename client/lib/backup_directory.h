/* backup_directory.h: the directory that a backup is written into. Used by one thread. */
#ifndef TARRY_CLIENT_BACKUP_DIRECTORY_H
#define TARRY_CLIENT_BACKUP_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry_limits.h"

#define BACKUP_PATH_SIZE 4096
#define BACKUP_FOLDERS_MAX 8 /* index, log, heads, archive … */
#define BACKUP_MESSAGE_SIZE (BACKUP_PATH_SIZE + 512)

struct backup_directory {
    const char *path; /* borrowed */
    char folders[BACKUP_FOLDERS_MAX][BACKUP_NAME_SIZE_MAX + 1];
    size_t folder_count;
    int handle; /* of the file that is written; -1: none */
    uint64_t offset;
    char file_path[BACKUP_PATH_SIZE];
    char message[BACKUP_MESSAGE_SIZE]; /* why a call failed */
};

/* True if a broker may name a file so: letters, digits, `.`, `_`, `-`, one folder deep at most, no leading dot, and not
 * the marker. */
bool backup_name_is_right(const char *name);

/* All: 0, or a TARRY_ code and a sentence in `message`. */
/* Makes the directory, or empties what an unfinished backup left in it, and marks it as unfinished. */
int backup_directory_begin(struct backup_directory *directory, const char *path);
int backup_directory_create(struct backup_directory *directory, const char *name);
int backup_directory_write(struct backup_directory *directory, const void *data, size_t size);
/* The file is synced. */
int backup_directory_close(struct backup_directory *directory);
/* Everything is durable, and the mark goes last. */
int backup_directory_end(struct backup_directory *directory);
/* After a failure: closes what is open, and leaves the rest. */
void backup_directory_abandon(struct backup_directory *directory);

#endif
