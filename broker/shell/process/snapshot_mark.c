/* snapshot_mark.c: see snapshot_mark.h. */
#include "snapshot_mark.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"

#define PATH_SIZE 1400

int snapshot_want(const char *directory, uint64_t erased) {
    char text[32] = "", left[PATH_SIZE];
    /* An earlier snapshot whose process was killed at the last step has left its empty folder, which would look like a
     * complete snapshot. */
    snprintf(left, sizeof(left), "%s/" SNAPSHOT_NAME, directory);
    if (rmdir(left) != 0 && errno != ENOENT && errno != ENOTEMPTY) return -errno;
    if (erased != 0) snprintf(text, sizeof(text), "%" PRIu64 "\n", erased);
    return disk_replace(&disk_posix, directory, SNAPSHOT_WANTED_NAME ".new", SNAPSHOT_WANTED_NAME, text, strlen(text));
}

uint64_t snapshot_erased_before(const char *directory) {
    char text[32];
    int64_t size = disk_read_file(&disk_posix, directory, SNAPSHOT_WANTED_NAME, text, sizeof(text) - 1);
    if (size <= 0) return 0;
    text[size] = '\0';
    return strtoull(text, NULL, 10);
}

bool snapshot_is_wanted(const char *directory) {
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/" SNAPSHOT_WANTED_NAME, directory);
    return access(path, F_OK) == 0;
}
