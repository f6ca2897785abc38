/* disk.h: the few calls through which the log touches a disk, so that a simulator can be one.
 *
 * All return 0 (or a size / descriptor ≥ 0) or a negative errno, and never retry on their own, save EINTR.
 * The real one is `disk_posix`. Calls on different handles may come from different threads. */
#ifndef TARRY_STORAGE_DISK_H
#define TARRY_STORAGE_DISK_H

#include <stddef.h>
#include <stdint.h>

struct disk {
    void *context;
    int (*open)(void *context, const char *path, int flags, int mode); /* → handle */
    int (*close)(void *context, int handle);
    int64_t (*pread)(void *context, int handle, void *out, size_t size, uint64_t offset);
    /* What memory holds of it; -EAGAIN: nothing, the disk would have to be waited for. NULL: that cannot be told. */
    int64_t (*pread_now)(void *context, int handle, void *out, size_t size, uint64_t offset);
    int64_t (*pwrite)(void *context, int handle, const void *data, size_t size, uint64_t offset);
    int (*datasync)(void *context, int handle);
    int (*sync)(void *context, int handle);
    int (*allocate)(void *context, int handle,
                    uint64_t size); /* of an empty file: zero-filled, reserved up to `size` */
    int64_t (*size)(void *context, int handle);
    int (*rename)(void *context, const char *from, const char *to);
    int (*unlink)(void *context, const char *path);
    int (*sync_directory)(void *context, const char *path);
    /* Calls `each` with every name in `path` but . and .., in any order; stops if it returns non-zero, and returns it.
     */
    int (*list)(void *context, const char *path, int (*each)(void *argument, const char *name), void *argument);
    int (*make_directory)(void *context, const char *path, int mode);
};

extern const struct disk disk_posix;

/* Writes all of it, going on after short writes (F-3); one that writes nothing is -EIO. */
int disk_write_all(const struct disk *disk, int handle, const void *data, size_t size, uint64_t offset);
/* Reads up to the end of the file at most. → bytes read, less than `size` only at the end of the file. */
int64_t disk_read_all(const struct disk *disk, int handle, void *out, size_t size, uint64_t offset);
/* Likewise, of what is in memory. -EAGAIN: not all of it is. */
int64_t disk_read_all_now(const struct disk *disk, int handle, void *out, size_t size, uint64_t offset);
/* Writes zeros over [from, to). */
int disk_write_zeros(const struct disk *disk, int handle, uint64_t from, uint64_t to);
/* Gives a small file of `directory` this content, all of it or none of it, durably: written under the name
 * `temporary`, synced, renamed, the directory synced. After a failure either content may be there. */
int disk_replace(const struct disk *disk, const char *directory, const char *temporary, const char *name,
                 const void *data, size_t size);
/* The directory that `path` lies in: to sync it makes the name durable. 0, or -ENAMETOOLONG. */
int disk_parent(const char *path, char *out, size_t size);
/* The file's bytes, at most `room` of them. → how many, or a negative errno. */
int64_t disk_read_file(const struct disk *disk, const char *directory, const char *name, void *out, size_t room);

#endif
