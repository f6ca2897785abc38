/* heads.c: see heads.h. */
#include "heads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static void path_of(const struct heads *heads, char out[HEADS_PATH_SIZE + 8]) {
    snprintf(out, HEADS_PATH_SIZE + 8, "%s/" HEADS_NAME, heads->directory);
}

int heads_read(const struct heads *heads, uint64_t index, struct head *out) {
    uint8_t bytes[HEAD_SIZE];
    int64_t size = disk_read_all(heads->disk, heads->handle, bytes, sizeof(bytes), index * HEAD_SIZE);
    if (size < 0) return (int)size;
    return size == HEAD_SIZE && head_decode(bytes, out) ? 0 : 1;
}

/* Counts the complete entries of the file. */
static int measure(struct heads *heads) {
    int64_t size = heads->disk->size(heads->disk->context, heads->handle);
    if (size < 0) return (int)size;
    heads->count = (uint64_t)size / HEAD_SIZE;
    heads->torn_bytes = (uint64_t)size % HEAD_SIZE;
    if (heads->count == 0 || heads->torn_bytes > 0) return 0;
    struct head last;
    int result = heads_read(heads, heads->count - 1, &last);
    if (result <= 0) return result;
    heads->count--;
    heads->torn_bytes = HEAD_SIZE;
    return 0;
}

int heads_open_file(struct heads *heads, const struct disk *disk, const char *path) {
    *heads = (struct heads){.disk = disk, .handle = -1};
    int handle = disk->open(disk->context, path, O_RDONLY, 0);
    if (handle < 0) return handle;
    heads->handle = handle;
    int result = measure(heads);
    if (result < 0) heads_close(heads);
    return result;
}

int heads_open(struct heads *heads, const struct disk *disk, const char *directory) {
    char path[HEADS_PATH_SIZE + 8];
    snprintf(path, sizeof(path), "%s/" HEADS_NAME, directory);
    if (strlen(directory) >= sizeof(heads->directory)) return -ENAMETOOLONG;
    int result = heads_open_file(heads, disk, path);
    memcpy(heads->directory, directory, strlen(directory) + 1);
    return result == -ENOENT ? 0 : result;
}

void heads_close(struct heads *heads) {
    if (heads->handle >= 0)
        (void)heads->disk->close(heads->disk->context, heads->handle); /* ignore errors: all data was synced before */
    heads->handle = -1;
}

int heads_last(const struct heads *heads, const uint8_t signer[SIGN_KEY_ID_SIZE], struct head *out,
               uint64_t *out_damaged) {
    *out_damaged = UINT64_MAX;
    for (uint64_t index = heads->count; index-- > 0;) {
        int result = heads_read(heads, index, out);
        if (result == 1) *out_damaged = index;
        if (result != 0 || memcmp(out->signer, signer, SIGN_KEY_ID_SIZE) == 0) return result;
    }
    return 1;
}

/* Opens the file for writing, and makes it if it is missing. */
static int writable(struct heads *heads, int *out_handle) {
    char path[HEADS_PATH_SIZE + 8];
    path_of(heads, path);
    const struct disk *disk = heads->disk;
    int handle = disk->open(disk->context, path, O_RDWR | O_CREAT, 0600);
    if (handle < 0) return handle;
    if (heads->handle < 0) {
        /* Sync the directory: the name must be durable before the file's content counts (F-6). */
        int result = disk->sync_directory(disk->context, heads->directory);
        if (result < 0) {
            (void)disk->close(disk->context, handle);
            return result;
        }
    }
    *out_handle = handle;
    return 0;
}

int heads_append(struct heads *heads, const struct head *head) {
    const struct disk *disk = heads->disk;
    uint8_t bytes[HEAD_SIZE];
    int handle;
    int result = writable(heads, &handle);
    if (result < 0) return result;
    head_encode(head, bytes);
    result = disk_write_all(disk, handle, bytes, sizeof(bytes), heads->count * HEAD_SIZE);
    if (result == 0) result = disk->datasync(disk->context, handle);
    if (heads->handle < 0)
        heads->handle = handle;
    else
        (void)disk->close(disk->context, handle);
    if (result < 0) return result;
    heads->count++;
    heads->torn_bytes = 0;
    return 0;
}
