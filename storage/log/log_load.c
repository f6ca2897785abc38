/* log_load.c: finds the segments, and checks that their headers form one log.
 *
 * log_recover.c checks the frames. A segment was complete and durable before it got its name, so an invalid header is
 * damage, never a torn write. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"
#include "tarry_limits.h"

int recovery_fail(struct recovery *recovery, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(recovery->message, recovery->message_size, format, arguments);
    va_end(arguments);
    return code;
}

int recovery_fail_io(struct recovery *recovery, int code, const char *what, const char *path) {
    char buffer[128];
    const char *sentence = strerror_r(-code, buffer, sizeof(buffer));
    return recovery_fail(recovery, code, "cannot %s %s: %s", what, path, sentence);
}

struct names {
    const struct log *log;
    uint64_t *bases;
    size_t count;
    size_t room;
    bool next_left; /* true: an earlier run has left temporary files */
    bool large_left;
    bool cut_left;
};

static int names_take(void *argument, const char *name) {
    struct names *names = argument;
    uint64_t base;
    if (strcmp(name, segment_next_name) == 0) names->next_left = true;
    if (strcmp(name, segment_large_name) == 0) names->large_left = true;
    if (strcmp(name, segment_cut_name) == 0) names->cut_left = true;
    if (!segment_name_decode(name, names->log->suffix, &base)) return 0; /* not a file of the log: ignore it */
    if (names->log->single != 0 && base != names->log->single) return 0;
    if (names->count == names->room) {
        size_t room = names->room ? names->room * 2 : 64;
        uint64_t *bases = realloc(names->bases, room * sizeof(*bases));
        if (!bases) return -ENOMEM;
        names->bases = bases;
        names->room = room;
    }
    names->bases[names->count++] = base;
    return 0;
}

static int compare_bases(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Makes the directory's own name durable (F-6). */
static int sync_parent(struct recovery *recovery) {
    const struct log *log = recovery->log;
    char parent[LOG_PATH_SIZE];
    int result = disk_parent(log->directory, parent, sizeof(parent));
    if (result == 0) result = log->disk->sync_directory(log->disk->context, parent);
    return result < 0 ? recovery_fail_io(recovery, result, "sync", parent) : 0;
}

static int list_names(struct recovery *recovery, struct names *names) {
    struct log *log = recovery->log;
    const struct disk *disk = log->disk;
    int result = disk->list(disk->context, log->directory, names_take, names);
    if (result == -ENOENT && !log->read_only) {
        result = disk->make_directory(disk->context, log->directory, 0700);
        if (result < 0 && result != -EEXIST) return recovery_fail_io(recovery, result, "make", log->directory);
        result = disk->list(disk->context, log->directory, names_take, names);
    }
    if (result < 0) return recovery_fail_io(recovery, result, "list", log->directory);
    /* Sync the directory's parent before the first segment is made: an earlier start may have made the directory and
     * died before that sync. */
    if (names->count == 0) return log->read_only ? 0 : sync_parent(recovery);
    qsort(names->bases, names->count, sizeof(*names->bases), compare_bases);
    return 0;
}

static int delete_left_over(struct recovery *recovery, const char *name) {
    char path[LOG_PATH_SIZE];
    log_path(recovery->log, name, path);
    int result = recovery->log->disk->unlink(recovery->log->disk->context, path);
    return result < 0 ? recovery_fail_io(recovery, result, "delete", path) : 0;
}

/* Checks the header against the file's name, this program's version and this cluster. */
static int judge_header(struct recovery *recovery, const char *path, uint64_t base, const uint8_t *bytes,
                        struct segment_header *out) {
    struct segment_header header;
    const char *problem = segment_header_decode(bytes, &header);
    if (problem) return recovery_fail(recovery, LOG_DAMAGED, "%s, offset 0: the file %s", path, problem);
    if (header.version != FORMAT_VERSION)
        return recovery_fail(recovery, LOG_VERSION,
                             "%s: the file has format version %" PRIu32 "; this program reads version %u", path,
                             header.version, FORMAT_VERSION);
    if (memcmp(header.cluster, recovery->log->cluster, sizeof(header.cluster)) != 0)
        return recovery_fail(recovery, LOG_FOREIGN, "%s: the file belongs to another cluster", path);
    if (header.base != base)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s: by its header the file begins at position %" PRIu64 ", by its name at %" PRIu64, path,
                             header.base, base);
    *out = header;
    return 0;
}

/* Opens a segment's file and checks its header. Keeps the last segment open, for writing unless read-only. */
static int load_segment(struct recovery *recovery, uint64_t base, bool is_last, struct segment_header *out_header,
                        int64_t *out_size, int *out_handle) {
    struct log *log = recovery->log;
    const struct disk *disk = log->disk;
    char path[LOG_PATH_SIZE];
    segment_path(log, base, path);
    int handle = disk->open(disk->context, path, is_last && !log->read_only ? O_RDWR : O_RDONLY, 0);
    if (handle < 0) return recovery_fail_io(recovery, handle, "open", path);
    uint8_t bytes[SEGMENT_HEADER_SIZE] = {0};
    int64_t count = disk_read_all(disk, handle, bytes, sizeof(bytes), 0);
    int result;
    if (count < 0)
        result = recovery_fail_io(recovery, (int)count, "read", path);
    else
        result = judge_header(recovery, path, base, bytes, out_header);
    if (result == 0) {
        *out_size = disk->size(disk->context, handle);
        if (*out_size < 0) result = recovery_fail_io(recovery, (int)*out_size, "read the size of", path);
    }
    if (result == 0 && is_last) {
        *out_handle = handle;
        return 0;
    }
    (void)disk->close(disk->context, handle); /* ignore the error: the file was only read */
    return result;
}

/* Checks that `header` follows the previous segment, whose file has `before_size` bytes, without a gap. */
static int judge_neighbours(struct recovery *recovery, const struct segment_header *before, int64_t before_size,
                            const struct segment_header *header) {
    char path[LOG_PATH_SIZE];
    segment_path(recovery->log, header->base, path);
    if (header->previous_base != before->base)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s: the segment before it is missing: it continues %016" PRIx64
                             ".seg, but the newest earlier segment is %016" PRIx64 ".seg",
                             path, header->previous_base, before->base);
    if (header->base - before->base > before->capacity)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s: the file begins at position %" PRIu64
                             ", after the largest possible end of %016" PRIx64 ".seg before it",
                             path, header->base, before->base);
    if (before_size < (int64_t)(SEGMENT_HEADER_SIZE + (header->base - before->base))) {
        segment_path(recovery->log, before->base, path);
        return recovery_fail(recovery, LOG_DAMAGED, "%s, offset %" PRId64 ": the file is truncated", path, before_size);
    }
    return 0;
}

static int fill_table(struct recovery *recovery, const struct names *names) {
    struct log *log = recovery->log;
    int64_t before_size = 0;
    for (size_t i = 0; i < names->count; i++) {
        struct segment_header *header = &recovery->headers[i];
        bool is_last = i + 1 == names->count;
        int handle = -1;
        int64_t size = 0;
        int result = load_segment(recovery, names->bases[i], is_last, header, &size, &handle);
        if (result < 0) return result;
        if (i > 0) {
            result = judge_neighbours(recovery, header - 1, before_size, header);
            if (result == 0) {
                log->segments[i - 1]->end = header->base;
                log->segments[i - 1]->wall_ns = header->wall_ns;
            }
        }
        before_size = size;
        log->previous_base = header->previous_base;
        struct segment segment = {.base = header->base,
                                  .capacity = header->capacity,
                                  .end = header->base,
                                  .wall_ns = header->wall_ns,
                                  .handle = handle,
                                  .users = is_last ? 1 : 0};
        if (result == 0 && (result = segment_add(log, &segment)) < 0) recovery_fail(recovery, result, "out of memory");
        if (result < 0) {
            if (handle >= 0) (void)log->disk->close(log->disk->context, handle);
            return result;
        }
    }
    return 0;
}

int log_load(struct recovery *recovery) {
    struct log *log = recovery->log;
    struct names names = {.log = log};
    int result = list_names(recovery, &names);
    if (result < 0) goto out;
    if (!log->read_only) {
        if (names.next_left && (result = delete_left_over(recovery, segment_next_name)) < 0) goto out;
        if (names.large_left && (result = delete_left_over(recovery, segment_large_name)) < 0) goto out;
        if (names.cut_left && (result = delete_left_over(recovery, segment_cut_name)) < 0) goto out;
    }
    if ((result = mark_load(recovery, &log->mark)) < 0) goto out;
    if (recovery->durable_min < log->mark) recovery->durable_min = log->mark;
    recovery->headers = calloc(names.count + 1, sizeof(*recovery->headers));
    if (!recovery->headers) {
        result = recovery_fail(recovery, -ENOMEM, "out of memory");
        goto out;
    }
    result = fill_table(recovery, &names);
out:
    free(names.bases);
    return result;
}
