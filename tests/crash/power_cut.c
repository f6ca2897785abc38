/* power_cut.c: see power_cut.h. */
#include "power_cut.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECTOR_SIZE 512

struct change {
    struct change *older;
    dev_t device;
    ino_t inode;
    int descriptor; /* a duplicate of the descriptor, because the writer may have closed its own */
    off_t offset;
    size_t size;
    unsigned char *before; /* former contents; zeros where the file had none */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct change *newest;

void power_lock(void) {
    pthread_mutex_lock(&mutex);
}

void power_unlock(void) {
    pthread_mutex_unlock(&mutex);
}

void power_note_write(int descriptor, off_t offset, size_t size) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (syscall(SYS_fcntl, descriptor, F_GETFL) & O_DSYNC) return;
    struct change *change = calloc(1, sizeof(*change));
    if (change == NULL) abort();
    *change = (struct change){newest, status.st_dev, status.st_ino, dup(descriptor), offset, size, calloc(1, size + 1)};
    if (change->descriptor < 0 || change->before == NULL) abort();
    if (offset < 0) change->offset = lseek(descriptor, 0, SEEK_CUR);
    /* A file opened only for writing is new and has no former contents. */
    (void)syscall(SYS_pread64, descriptor, change->before, size, change->offset);
    newest = change;
}

void power_note_sync(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return;
    for (struct change **at = &newest; *at != NULL;) {
        struct change *change = *at;
        if (change->device != status.st_dev || change->inode != status.st_ino) {
            at = &change->older;
            continue;
        }
        *at = change->older;
        syscall(SYS_close, change->descriptor);
        free(change->before);
        free(change);
    }
}

/* Returns whether a sector's writes survive. The result is the same for all writes to the sector. */
static bool is_kept(uint64_t seed, ino_t inode, uint64_t sector) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)inode * 0xbf58476d1ce4e5b9u + sector;
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    static const unsigned of_eight[] = {0, 4, 1, 7};
    return ((x >> 40) & 7) < of_eight[seed & 3];
}

void power_cut(uint64_t seed) {
    power_lock();
    for (const struct change *change = newest; change != NULL; change = change->older) {
        size_t done = 0;
        (void)syscall(SYS_fcntl, change->descriptor, F_SETFL,
                      0); /* O_DIRECT would require whole pages instead of sectors */
        while (done < change->size) {
            uint64_t at = (uint64_t)change->offset + done;
            size_t size = SECTOR_SIZE - at % SECTOR_SIZE;
            if (size > change->size - done) size = change->size - done;
            if (!is_kept(seed, change->inode, at / SECTOR_SIZE) &&
                syscall(SYS_pwrite64, change->descriptor, change->before + done, size, at) != (ssize_t)size)
                abort();
            done += size;
        }
    }
}
