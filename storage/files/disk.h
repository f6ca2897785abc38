/* disk.h: the interface through which the log uses a disk; a simulator can replace the real disk.
 *
 * All functions return 0 (or a size or handle ≥ 0) or a negative errno. They retry only after EINTR. `disk_posix` is
 * the real disk. Different threads may use different handles at the same time. */
#ifndef TARRY_STORAGE_DISK_H
#define TARRY_STORAGE_DISK_H

#include <stddef.h>
#include <stdint.h>

struct disk {
    void *context;
    int (*open)(void *context, const char *path, int flags, int mode); /* → handle */
    int (*close)(void *context, int handle);
    int64_t (*pread)(void *context, int handle, void *out, size_t size, uint64_t offset);
    /* Reads only bytes that are in the page cache; -EAGAIN: it would have to wait for the disk. NULL: not supported. */
    int64_t (*pread_now)(void *context, int handle, void *out, size_t size, uint64_t offset);
    int64_t (*pwrite)(void *context, int handle, const void *data, size_t size, uint64_t offset);
    int (*datasync)(void *context, int handle);
    int (*sync)(void *context, int handle);
    int (*allocate)(void *context, int handle, uint64_t size); /* reserves `size` zero-filled bytes in an empty file */
    int64_t (*size)(void *context, int handle);
    int (*rename)(void *context, const char *from, const char *to);
    int (*unlink)(void *context, const char *path);
    int (*sync_directory)(void *context, const char *path);
    /* Calls `each` with every name in `path` except . and .., in any order. If `each` returns non-zero, stops and
     * returns that value. */
    int (*list)(void *context, const char *path, int (*each)(void *argument, const char *name), void *argument);
    int (*make_directory)(void *context, const char *path, int mode);
};

extern const struct disk disk_posix;

/* Writes all bytes, and continues after short writes (F-3). A write of 0 bytes gives -EIO. */
int disk_write_all(const struct disk *disk, int handle, const void *data, size_t size, uint64_t offset);
/* Returns the number of bytes read; less than `size` only at the end of the file. */
int64_t disk_read_all(const struct disk *disk, int handle, void *out, size_t size, uint64_t offset);
/* Like disk_read_all, but from the page cache only. -EAGAIN: not all bytes are in the page cache. */
int64_t disk_read_all_now(const struct disk *disk, int handle, void *out, size_t size, uint64_t offset);
/* Writes zeros over [from, to). */
int disk_write_zeros(const struct disk *disk, int handle, uint64_t from, uint64_t to);
/* Replaces the content of a small file in `directory`, atomically and durably: writes it under the name `temporary`,
 * syncs, renames, and syncs the directory. After a failure the file has the old or the new content. */
int disk_replace(const struct disk *disk, const char *directory, const char *temporary, const char *name,
                 const void *data, size_t size);
/* Returns the parent directory of `path`; syncing it makes the name durable. 0, or -ENAMETOOLONG. */
int disk_parent(const char *path, char *out, size_t size);
/* Reads a file, at most `room` bytes. Returns the number of bytes, or a negative errno. */
int64_t disk_read_file(const struct disk *disk, const char *directory, const char *name, void *out, size_t room);

#endif
