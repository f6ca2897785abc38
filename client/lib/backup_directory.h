/* backup_directory.h: writes the directory of a backup. One thread uses it. */
#ifndef TARRY_CLIENT_BACKUP_DIRECTORY_H
#define TARRY_CLIENT_BACKUP_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry_limits.h"

#define BACKUP_PATH_SIZE 4096
#define BACKUP_FOLDERS_MAX 8 /* maximum number of folders in a backup: index, log, heads, archive … */
#define BACKUP_MESSAGE_SIZE (BACKUP_PATH_SIZE + 512)

struct backup_directory {
    const char *path; /* borrowed */
    char folders[BACKUP_FOLDERS_MAX][BACKUP_NAME_SIZE_MAX + 1];
    size_t folder_count;
    int handle; /* descriptor of the file that is being written; -1: none */
    uint64_t offset;
    char file_path[BACKUP_PATH_SIZE];
    char message[BACKUP_MESSAGE_SIZE]; /* reason for the last failure */
};

/* True if a broker may use this file name: letters, digits, `.`, `_`, `-`, at most one folder, no leading dot, and
 * not backup.partial. */
bool backup_name_is_right(const char *name);

/* All functions below return 0, or a TARRY_ code with a sentence in `message`. */
/* Creates the directory, or deletes the files of an unfinished backup in it, and marks it as unfinished
 * (backup.partial). */
int backup_directory_begin(struct backup_directory *directory, const char *path);
int backup_directory_create(struct backup_directory *directory, const char *name);
int backup_directory_write(struct backup_directory *directory, const void *data, size_t size);
/* Syncs and closes the file. */
int backup_directory_close(struct backup_directory *directory);
/* Syncs all directories, then removes the mark backup.partial. */
int backup_directory_end(struct backup_directory *directory);
/* Closes open files after a failure. The unfinished files stay. */
void backup_directory_abandon(struct backup_directory *directory);

#endif
