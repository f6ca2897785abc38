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
    int64_t (*pwrite)(void *context, int handle, const void *data, size_t size, uint64_t offset);
    int (*datasync)(void *context, int handle);
    int (*sync)(void *context, int handle);
    int (*allocate)(void *context, int handle, uint64_t size); /* zero-filled and reserved up to `size` */
    int (*truncate)(void *context, int handle, uint64_t size);
    int64_t (*size)(void *context, int handle);
    int (*rename)(void *context, const char *from, const char *to);
    int (*unlink)(void *context, const char *path);
    int (*sync_directory)(void *context, const char *path);
    /* Calls `each` with every name in `path` but . and .., in any order; stops if it returns non-zero, and returns it.
     */
    int (*list)(void *context, const char *path, int (*each)(void *argument, const char *name), void *argument);
};

extern const struct disk disk_posix;

#endif
