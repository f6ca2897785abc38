/* slow_note.c: preloaded into tarryd: each sync of a pair's state file takes SLOW_NOTE_MS. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_note(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strstr(path, "/pair.") != NULL;
}

__attribute__((visibility("default"))) int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *wait_ms = getenv("SLOW_NOTE_MS");
    if (wait_ms != NULL && is_note(file)) usleep(1000u * (unsigned)atoi(wait_ms));
    return real(file);
}
