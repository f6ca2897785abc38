/* pending_erasures.c: see pending_erasures.h. */
#include "pending_erasures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"
#include "frame.h"
#include "log.h"

#define PATH_SIZE 1400
#define SUM_SIZE sizeof(uint64_t)

static int read_file(const char *path, uint8_t **out, size_t *out_size) {
    int handle = disk_posix.open(NULL, path, O_RDONLY, 0);
    if (handle < 0) return handle;
    int64_t size = disk_posix.size(NULL, handle);
    *out = size >= 0 ? malloc((size_t)size + 1) : NULL;
    int64_t count = size < 0       ? size
                    : *out == NULL ? -ENOMEM
                                   : disk_read_all(&disk_posix, handle, *out, (size_t)size, 0);
    disk_posix.close(NULL, handle);
    if (count < 0) free(*out);
    if (count < 0) return (int)count;
    *out_size = (size_t)count;
    return 0;
}

static Tarry__FrameBody *parse(const uint8_t *bytes, size_t size) {
    uint64_t sum;
    if (size < SUM_SIZE) return NULL;
    memcpy(&sum, bytes + size - SUM_SIZE, SUM_SIZE);
    if (frame_sum(bytes, size - SUM_SIZE) != sum) return NULL;
    Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, size - SUM_SIZE, bytes);
    for (size_t i = 0; body != NULL && i < body->n_records; i++) {
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_REDACTION) continue;
        tarry__frame_body__free_unpacked(body, NULL);
        return NULL;
    }
    return body;
}

int pending_erasures_read(const char *directory, Tarry__FrameBody **out) {
    char path[PATH_SIZE];
    uint8_t *bytes = NULL;
    size_t size = 0;
    *out = NULL;
    snprintf(path, sizeof(path), "%s/" UNERASED_NAME, directory);
    int error = read_file(path, &bytes, &size);
    if (error != 0) return error == -ENOENT ? 0 : error;
    *out = parse(bytes, size);
    free(bytes);
    return *out != NULL ? 0 : LOG_DAMAGED;
}

int pending_erasures_write(const char *directory, const Tarry__FrameBody *body) {
    size_t size = tarry__frame_body__get_packed_size(body);
    uint8_t *bytes = malloc(size + SUM_SIZE);
    if (bytes == NULL) return -ENOMEM;
    tarry__frame_body__pack(body, bytes);
    uint64_t sum = frame_sum(bytes, size);
    memcpy(bytes + size, &sum, SUM_SIZE);
    int error = disk_replace(&disk_posix, directory, UNERASED_NAME ".new", UNERASED_NAME, bytes, size + SUM_SIZE);
    free(bytes);
    return error;
}

int pending_erasures_end(const char *directory) {
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/" UNERASED_NAME, directory);
    int error = disk_posix.unlink(NULL, path);
    return error == 0 ? disk_posix.sync_directory(NULL, directory) : error;
}
