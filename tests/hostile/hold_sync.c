/* hold_sync.c: preloaded into tarryd: no fdatasync returns while the file $HOLD_SYNC_FILE exists. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *held = getenv("HOLD_SYNC_FILE");
    while (held != NULL && access(held, F_OK) == 0) usleep(10000);
    return real(file);
}
