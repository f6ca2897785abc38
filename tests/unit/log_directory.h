/* log_directory.h: makes and removes a temporary directory for a log. */
#ifndef TARRY_TESTS_LOG_DIRECTORY_H
#define TARRY_TESTS_LOG_DIRECTORY_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"

struct log_directory {
    char root[64];
    char path[96]; /* path for the log's directory, which does not exist yet */
};

static inline bool log_directory_make(struct log_directory *directory) {
    strcpy(directory->root, "/tmp/tarry-log-test-XXXXXX");
    if (!mkdtemp(directory->root)) return false;
    snprintf(directory->path, sizeof directory->path, "%s/log", directory->root);
    return true;
}

static inline int log_directory_unlink(void *path, const char *name) {
    char file[512];
    snprintf(file, sizeof file, "%s/%s", (const char *)path, name);
    unlink(file);
    return 0;
}

static inline void log_directory_remove(struct log_directory *directory) {
    disk_posix.list(NULL, directory->path, log_directory_unlink, directory->path);
    rmdir(directory->path);
    rmdir(directory->root);
}

#endif
