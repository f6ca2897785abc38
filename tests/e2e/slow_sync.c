/* slow_sync.c: preloaded into the program that runs the tests. Every sync of tarryd takes up to SLOW_SYNC_MS longer, as
 * on a busy disk, so a test that assumes a fast disk fails (./dev test --slow-sync). */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_some(void) {
    const char *max_ms = getenv("SLOW_SYNC_MS");
    if (max_ms == NULL || strcmp(program_invocation_short_name, "tarryd") != 0) return;
    usleep(arc4random_uniform(1000u * (unsigned)atoi(max_ms) + 1));
}

__attribute__((visibility("default"))) int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_some();
    return real(file);
}

__attribute__((visibility("default"))) int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_some();
    return real(file);
}
