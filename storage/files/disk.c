/* disk.c: the real disk, and helpers for any disk: complete reads and writes, and small files.
 *
 * These functions pass every error on unchanged, and retry only after EINTR. */
#include "disk.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes per write of zeros. */
#define ZEROS_SIZE ((size_t)1 << 20)
#define PATH_SIZE 4096
static const uint8_t zeros[ZEROS_SIZE];

static int posix_open(void *context, const char *path, int flags, int mode) {
    int handle;
    do handle = open(path, flags | O_CLOEXEC, mode);
    while (handle < 0 && errno == EINTR);
    return handle < 0 ? -errno : handle;
}

static int posix_close(void *context, int handle) {
    /* Linux closes the descriptor even if close returns EINTR. */
    if (close(handle) == 0 || errno == EINTR) return 0;
    return -errno;
}

static int64_t posix_pread(void *context, int handle, void *out, size_t size, uint64_t offset) {
    ssize_t count;
    do count = pread(handle, out, size, (off_t)offset);
    while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

/* Reads only bytes that are in the page cache; otherwise -EAGAIN. A file system that does not support RWF_NOWAIT
 * (EOPNOTSUPP) counts as having no bytes in the page cache. */
static int64_t posix_pread_now(void *context, int handle, void *out, size_t size, uint64_t offset) {
    struct iovec part = {.iov_base = out, .iov_len = size};
    ssize_t count;
    do count = preadv2(handle, &part, 1, (off_t)offset, RWF_NOWAIT);
    while (count < 0 && errno == EINTR);
    if (count < 0) return errno == EOPNOTSUPP ? -EAGAIN : -errno;
    return count;
}

static int64_t posix_pwrite(void *context, int handle, const void *data, size_t size, uint64_t offset) {
    ssize_t count;
    do count = pwrite(handle, data, size, (off_t)offset);
    while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

/* Never retries a sync, not even after EINTR, because a second sync could succeed for pages that the first one dropped
 * (LOG-4). */
static int posix_datasync(void *context, int handle) {
    return fdatasync(handle) < 0 ? -errno : 0;
}

static int posix_sync(void *context, int handle) {
    return fsync(handle) < 0 ? -errno : 0;
}

/* Reserves space, then writes zeros, so later syncs need no extent changes and are faster (DESIGN.md 5). Starts
 * write-back early, so the following sync does not delay other syncs for long. */
#define PIECE_WRITTEN (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

static int posix_allocate(void *context, int handle, uint64_t size) {
    const uint64_t writeback_size = 8 * ZEROS_SIZE;
    int error;
    do error = posix_fallocate(handle, 0, (off_t)size);
    while (error == EINTR);
    if (error) return -error;
    for (uint64_t offset = 0; offset < size;) {
        uint64_t end = size - offset < writeback_size ? size : offset + writeback_size;
        int result = disk_write_zeros(&disk_posix, handle, offset, end);
        if (result < 0) return result;
        /* Write back one piece at a time, so a concurrent sync of the log waits for one piece, not for the whole file
         * (64 MiB at once: 31 ms). The sync reports write errors. */
        (void)sync_file_range(handle, (off_t)offset, (off_t)(end - offset), PIECE_WRITTEN);
        offset = end;
    }
    return 0;
}

static int64_t posix_size(void *context, int handle) {
    struct stat status;
    return fstat(handle, &status) < 0 ? -errno : (int64_t)status.st_size;
}

static int posix_rename(void *context, const char *from, const char *to) {
    return rename(from, to) < 0 ? -errno : 0;
}

static int posix_unlink(void *context, const char *path) {
    return unlink(path) < 0 ? -errno : 0;
}

static int posix_sync_directory(void *context, const char *path) {
    int handle = posix_open(context, path, O_RDONLY | O_DIRECTORY, 0);
    if (handle < 0) return handle;
    int result = posix_sync(context, handle);
    int closed = posix_close(context, handle);
    return result < 0 ? result : closed;
}

static int posix_list(void *context, const char *path, int (*each)(void *argument, const char *name), void *argument) {
    DIR *directory = opendir(path);
    if (!directory) return -errno;
    int result = 0;
    while (result == 0) {
        errno = 0;
        /* readdir is safe, because only this thread uses the stream; readdir_r is deprecated in glibc. */
        // cppcheck-suppress readdirCalled
        const struct dirent *entry = readdir(directory);
        if (!entry) {
            result = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        result = each(argument, entry->d_name);
    }
    closedir(directory);
    return result;
}

static int posix_make_directory(void *context, const char *path, int mode) {
    return mkdir(path, (mode_t)mode) < 0 ? -errno : 0;
}

const struct disk disk_posix = {
    .open = posix_open,
    .close = posix_close,
    .pread = posix_pread,
    .pread_now = posix_pread_now,
    .pwrite = posix_pwrite,
    .datasync = posix_datasync,
    .sync = posix_sync,
    .allocate = posix_allocate,
    .size = posix_size,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .sync_directory = posix_sync_directory,
    .list = posix_list,
    .make_directory = posix_make_directory,
};

int disk_write_all(const struct disk *disk, int handle, const void *data, size_t size, uint64_t offset) {
    const uint8_t *bytes = data;
    while (size > 0) {
        int64_t count = disk->pwrite(disk->context, handle, bytes, size, offset);
        if (count < 0) return (int)count;
        if (count == 0) return -EIO;
        assert((size_t)count <= size);
        bytes += count;
        size -= (size_t)count;
        offset += (uint64_t)count;
    }
    return 0;
}

typedef int64_t disk_pread(void *context, int handle, void *out, size_t size, uint64_t offset);

static int64_t read_all(const struct disk *disk, disk_pread *pread, int handle, uint8_t *bytes, size_t size,
                        uint64_t offset) {
    size_t done = 0;
    while (done < size) {
        int64_t count = pread(disk->context, handle, bytes + done, size - done, offset + done);
        if (count < 0) return count;
        if (count == 0) break;
        assert((size_t)count <= size - done);
        done += (size_t)count;
    }
    return (int64_t)done;
}

int64_t disk_read_all(const struct disk *disk, int handle, void *out, size_t size, uint64_t offset) {
    return read_all(disk, disk->pread, handle, out, size, offset);
}

int64_t disk_read_all_now(const struct disk *disk, int handle, void *out, size_t size, uint64_t offset) {
    return disk->pread_now ? read_all(disk, disk->pread_now, handle, out, size, offset) : -EAGAIN;
}

int disk_write_zeros(const struct disk *disk, int handle, uint64_t from, uint64_t to) {
    for (uint64_t offset = from; offset < to;) {
        size_t size = to - offset < ZEROS_SIZE ? (size_t)(to - offset) : ZEROS_SIZE;
        int result = disk_write_all(disk, handle, zeros, size, offset);
        if (result < 0) return result;
        offset += size;
    }
    return 0;
}

/* Returns false if "directory/name" is too long. */
static bool path_join(const char *directory, const char *name, char path[PATH_SIZE]) {
    int size = snprintf(path, PATH_SIZE, "%s/%s", directory, name);
    return size > 0 && size < PATH_SIZE;
}

int disk_replace(const struct disk *disk, const char *directory, const char *temporary, const char *name,
                 const void *data, size_t size) {
    char from[PATH_SIZE], to[PATH_SIZE];
    if (!path_join(directory, temporary, from) || !path_join(directory, name, to)) return -ENAMETOOLONG;
    (void)disk->unlink(disk->context, from); /* ignore errors: usually there is no such temporary file */
    int handle = disk->open(disk->context, from, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (handle < 0) return handle;
    int error = disk_write_all(disk, handle, data, size, 0);
    if (error == 0) error = disk->sync(disk->context, handle);
    int closed = disk->close(disk->context, handle);
    if (error == 0) error = closed;
    if (error == 0) error = disk->rename(disk->context, from, to);
    return error == 0 ? disk->sync_directory(disk->context, directory) : error;
}

int disk_parent(const char *path, char *out, size_t size) {
    if (size < 2 || (size_t)snprintf(out, size, "%s", path) >= size) return -ENAMETOOLONG;
    char *slash = strrchr(out, '/');
    if (!slash)
        memcpy(out, ".", 2);
    else if (slash == out)
        out[1] = 0;
    else
        *slash = 0;
    return 0;
}

int64_t disk_read_file(const struct disk *disk, const char *directory, const char *name, void *out, size_t room) {
    char path[PATH_SIZE];
    if (!path_join(directory, name, path)) return -ENAMETOOLONG;
    int handle = disk->open(disk->context, path, O_RDONLY, 0);
    if (handle < 0) return handle;
    int64_t size = disk_read_all(disk, handle, out, room, 0);
    (void)disk->close(disk->context, handle); /* ignore the error: the file was only read */
    return size;
}
