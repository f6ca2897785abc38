/* doctor_process.c: finds the process tarryd that has the lock file of a data directory open. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "findings.h"

static bool is_tarryd(int process) {
    char name[32] = "";
    int fd = openat(process, "comm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t size = read(fd, name, sizeof name - 1);
    close(fd);
    return size > 0 && strcmp(name, "tarryd\n") == 0;
}

/* Returns whether the process has the file `wanted` open. */
static bool has_open(int process, const struct stat *wanted) {
    struct stat status;
    bool is_open = false;
    int fd = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *descriptors = fd < 0 ? NULL : fdopendir(fd);
    if (descriptors == NULL) {
        if (fd >= 0) close(fd);
        return false;
    }
    for (struct dirent *entry; !is_open && (entry = readdir(descriptors)) != NULL;)
        is_open = isdigit((unsigned char)entry->d_name[0]) && fstatat(fd, entry->d_name, &status, 0) == 0 &&
                  status.st_dev == wanted->st_dev && status.st_ino == wanted->st_ino;
    closedir(descriptors);
    return is_open;
}

long doctor_broker_process(const char *directory) {
    char path[4200];
    struct stat lock;
    long found = 0;
    snprintf(path, sizeof path, "%s/lock", directory);
    DIR *processes = stat(path, &lock) == 0 ? opendir("/proc") : NULL;
    if (processes == NULL) return 0;
    for (struct dirent *entry; found == 0 && (entry = readdir(processes)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        int process = openat(dirfd(processes), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (process < 0) continue;
        if (is_tarryd(process) && has_open(process, &lock)) found = strtol(entry->d_name, NULL, 10);
        close(process);
    }
    closedir(processes);
    return found;
}
