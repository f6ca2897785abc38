/* note_trim.c: preloaded into tarryd: makes the file $NOTE_TRIM_FILE when malloc_trim is called. */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int malloc_trim(size_t pad) {
    int (*real)(size_t) = (int (*)(size_t))dlsym(RTLD_NEXT, "malloc_trim");
    const char *path = getenv("NOTE_TRIM_FILE");
    int file = path == NULL ? -1 : open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
    return real == NULL ? 0 : real(pad);
}
