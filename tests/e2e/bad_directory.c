/* bad_directory.c: LD_PRELOADed into tarry by select_test.py: each sync of a directory fails, as on a damaged disk. It
 * changes nothing else. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((visibility("default"))) int fsync(int fd) {
    union {
        void *symbol;
        int (*fsync)(int fd);
    } next = {.symbol = dlsym(RTLD_NEXT, "fsync")};
    struct stat status;
    if (next.symbol == NULL) abort();
    if (fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) return next.fsync(fd);
    errno = EIO;
    return -1;
}
