/* lost_zone.c: LD_PRELOADed into tarryd by http_codes_test.py: tzdata does not have the zone LOST_ZONE, as after an
 * update that dropped it. It changes nothing else. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TZDATA "/usr/share/zoneinfo/"

static bool is_lost(const char *path) {
    const char *zone = getenv("LOST_ZONE");
    const size_t start = sizeof(TZDATA) - 1;
    return zone != NULL && strncmp(path, TZDATA, start) == 0 && strcmp(path + start, zone) == 0;
}

static FILE *open_with(const char *name, const char *path, const char *mode) {
    union {
        void *symbol;
        FILE *(*open)(const char *path, const char *mode);
    } next = {.symbol = dlsym(RTLD_NEXT, name)};
    if (next.symbol == NULL) abort();
    if (!is_lost(path)) return next.open(path, mode);
    errno = ENOENT;
    return NULL;
}

/* A program calls fopen or fopen64, depending on _FILE_OFFSET_BITS, so this file defines both names. */
#undef fopen
#undef fopen64
__attribute__((visibility("default"))) FILE *lost_fopen(const char *path, const char *mode) __asm__("fopen");
__attribute__((visibility("default"))) FILE *lost_fopen64(const char *path, const char *mode) __asm__("fopen64");

FILE *lost_fopen(const char *path, const char *mode) {
    return open_with("fopen", path, mode);
}

FILE *lost_fopen64(const char *path, const char *mode) {
    return open_with("fopen64", path, mode);
}
