/* host_shim.c: preloaded into `tarry doctor` by doctor_test.py: replaces properties of the host by values that the test
 * chooses. Properties without a variable below are the machine's.
 *
 * TARRY_HOST_OFFSET_US: the clock is synchronized, with this offset in microseconds. TARRY_HOST_DISK: "FREE ALL", the
 * numbers of free and of all 4 KiB blocks of every file system. TARRY_HOST_MEMORY: the content of memory.max of the
 * cgroup of every process. TARRY_HOST_HIDES_PROCESSES: processes cannot be listed.
 *
 * This file is compiled for large files, like the tool: the linker sees fopen and statvfs as fopen64 and statvfs64. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

#define EXPORT __attribute__((visibility("default")))
#define BLOCK_SIZE 4096u

/* Returns the function of that name in the next library, usually the C library. */
static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) abort();
    return found;
}

EXPORT int adjtimex(struct timex *clock) {
    const char *offset_us = getenv("TARRY_HOST_OFFSET_US");
    if (offset_us == NULL) return ((int (*)(struct timex *))real("adjtimex"))(clock);
    *clock = (struct timex){.offset = strtol(offset_us, NULL, 10)};
    return TIME_OK;
}

EXPORT int statvfs(const char *path, struct statvfs *out) {
    const char *disk = getenv("TARRY_HOST_DISK");
    if (((int (*)(const char *, struct statvfs *))real("statvfs64"))(path, out) != 0) return -1;
    if (disk == NULL) return 0;
    out->f_frsize = out->f_bsize = BLOCK_SIZE;
    return sscanf(disk, "%lu %lu", &out->f_bavail, &out->f_blocks) == 2 ? 0 : -1;
}

EXPORT DIR *opendir(const char *path) {
    if (getenv("TARRY_HOST_HIDES_PROCESSES") != NULL && strcmp(path, "/proc") == 0) return NULL;
    return ((DIR * (*)(const char *)) real("opendir"))(path);
}

static FILE *file_of(const char *text) {
    FILE *file = tmpfile();
    if (file == NULL) abort();
    fputs(text, file);
    rewind(file);
    return file;
}

EXPORT FILE *fopen(const char *path, const char *mode) {
    const char *memory = getenv("TARRY_HOST_MEMORY"), *end = strrchr(path, '/');
    if (memory != NULL && end != NULL && strcmp(end, "/cgroup") == 0) return file_of("0::/tarry\n");
    if (memory != NULL && strcmp(path, "/sys/fs/cgroup/tarry/memory.max") == 0) return file_of(memory);
    return ((FILE * (*)(const char *, const char *)) real("fopen64"))(path, mode);
}
