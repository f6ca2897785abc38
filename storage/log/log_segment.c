/* log_segment.c: segment files and their table.
 *
 * A segment is made in these steps; no frame in it counts before the last step (F-6):
 *   1. zero-filled under a temporary name, synced      segment_make (often by the preparer's thread, long before)
 *   2. all frames before its base are synced           by the caller
 *   3. header written, synced
 *   4. renamed to <base>.seg
 *   5. directory synced
 * Consequence: a segment with its final name has a valid header and proves that all earlier frames were durable. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "log_internal.h"
#include "tarry_limits.h"

const char segment_next_name[] = "next.tmp";
const char segment_large_name[] = "large.tmp";
const char segment_cut_name[] = "cut.tmp";
const char segment_suffix[] = ".seg";

static const char segment_magic[8] = {'T', 'A', 'R', 'R', 'Y', 'S', 'E', 'G'};

enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_HEADER_SIZE = 12,
    AT_BASE = 16,
    AT_CAPACITY = 24,
    AT_CLUSTER = 32,
    AT_PREVIOUS_BASE = 48,
    AT_EPOCH = 56,
    AT_RESERVED = 60,
    AT_STEADY = 64,
    AT_WALL = 72,
    AT_CHAIN = 80,
    AT_SUM = 112,
    AT_ZEROS = 120,
};

void log_path(const struct log *log, const char *name, char path[LOG_PATH_SIZE]) {
    int size = snprintf(path, LOG_PATH_SIZE, "%s/%s", log->directory, name);
    assert(size > 0 && (size_t)size < LOG_PATH_SIZE); /* log_open has checked the length of the directory's name */
}

void segment_path(const struct log *log, uint64_t base, char path[LOG_PATH_SIZE]) {
    char name[SEGMENT_BASE_DIGITS + LOG_SUFFIX_SIZE];
    snprintf(name, sizeof(name), "%016" PRIx64 "%s", base, log->suffix);
    log_path(log, name, path);
}

bool segment_name_decode(const char *name, const char *suffix, uint64_t *out_base) {
    if (strlen(name) < SEGMENT_BASE_DIGITS || strcmp(name + SEGMENT_BASE_DIGITS, suffix) != 0) return false;
    uint64_t base = 0;
    for (size_t i = 0; i < SEGMENT_BASE_DIGITS; i++) {
        char digit = name[i];
        if (digit >= '0' && digit <= '9')
            base = base << 4 | (uint64_t)(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            base = base << 4 | (uint64_t)(digit - 'a' + 10);
        else
            return false;
    }
    *out_base = base;
    return true;
}

void segment_header_encode(const struct segment_header *header, uint8_t out[SEGMENT_HEADER_SIZE]) {
    memset(out, 0, SEGMENT_HEADER_SIZE);
    memcpy(out + AT_MAGIC, segment_magic, sizeof(segment_magic));
    put_u32(out + AT_VERSION, header->version);
    put_u32(out + AT_HEADER_SIZE, SEGMENT_HEADER_SIZE);
    put_u64(out + AT_BASE, header->base);
    put_u64(out + AT_CAPACITY, header->capacity);
    memcpy(out + AT_CLUSTER, header->cluster, sizeof(header->cluster));
    put_u64(out + AT_PREVIOUS_BASE, header->previous_base);
    put_u32(out + AT_EPOCH, header->epoch);
    put_u64(out + AT_STEADY, header->steady_ns);
    put_u64(out + AT_WALL, header->wall_ns);
    memcpy(out + AT_CHAIN, header->chain, FRAME_CHAIN_SIZE);
    put_u64(out + AT_SUM, frame_sum(out, AT_SUM));
}

const char *segment_header_decode(const uint8_t in[SEGMENT_HEADER_SIZE], struct segment_header *out) {
    if (memcmp(in + AT_MAGIC, segment_magic, sizeof(segment_magic)) != 0) return "is not a segment of a log";
    if (get_u64(in + AT_SUM) != frame_sum(in, AT_SUM)) return "has a header with a wrong checksum";
    struct segment_header header = {
        .version = get_u32(in + AT_VERSION),
        .base = get_u64(in + AT_BASE),
        .capacity = get_u64(in + AT_CAPACITY),
        .previous_base = get_u64(in + AT_PREVIOUS_BASE),
        .epoch = get_u32(in + AT_EPOCH),
        .steady_ns = get_u64(in + AT_STEADY),
        .wall_ns = get_u64(in + AT_WALL),
    };
    memcpy(header.cluster, in + AT_CLUSTER, sizeof(header.cluster));
    memcpy(header.chain, in + AT_CHAIN, FRAME_CHAIN_SIZE);
    /* Check the remaining fields only if the header has this program's version, because another version may lay them
     * out differently. The caller refuses other versions. */
    if (header.version == FORMAT_VERSION) {
        if (get_u32(in + AT_HEADER_SIZE) != SEGMENT_HEADER_SIZE || get_u32(in + AT_RESERVED) != 0)
            return "has an invalid header";
        for (size_t i = AT_ZEROS; i < SEGMENT_HEADER_SIZE; i++)
            if (in[i] != 0) return "has bytes after its header that are not zero";
        if (header.base < LOG_POSITION_FIRST || header.base % FRAME_ALIGN != 0 || header.capacity % FRAME_ALIGN != 0 ||
            header.capacity > SEGMENT_SIZE_MAX || header.base > UINT64_MAX / 4)
            return "has an invalid header";
    }
    *out = header;
    return NULL;
}

int segment_make(const struct log *log, const char *name, uint64_t capacity) {
    const struct disk *disk = log->disk;
    char path[LOG_PATH_SIZE];
    log_path(log, name, path);
    int handle = disk->open(disk->context, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (handle < 0) return handle;
    int result = disk->allocate(disk->context, handle, SEGMENT_HEADER_SIZE + capacity);
    if (result == 0) result = disk->sync(disk->context, handle);
    if (result == 0) return handle;
    /* Report the first error only; the next start deletes the leftover file. */
    (void)disk->close(disk->context, handle);
    (void)disk->unlink(disk->context, path);
    return result;
}

/* Does steps 3 to 5 of the list at the top of this file: writes the header and gives the file its name. */
static int segment_publish(const struct log *log, int handle, const char *name, uint64_t capacity) {
    const struct disk *disk = log->disk;
    struct segment_header header = {
        .version = FORMAT_VERSION,
        .base = log->end,
        .capacity = capacity,
        .previous_base = log->previous_base,
        .epoch = log->epoch,
        .steady_ns = log->steady_ns,
        .wall_ns = log->wall_ns,
    };
    memcpy(header.cluster, log->cluster, sizeof(header.cluster));
    memcpy(header.chain, log->chain, FRAME_CHAIN_SIZE);
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    segment_header_encode(&header, bytes);
    int result = disk_write_all(disk, handle, bytes, sizeof(bytes), 0);
    if (result < 0) return result;
    result = disk->datasync(disk->context, handle);
    if (result < 0) return result;
    char from[LOG_PATH_SIZE], to[LOG_PATH_SIZE];
    log_path(log, name, from);
    segment_path(log, log->end, to);
    if ((result = disk->rename(disk->context, from, to)) < 0) return result;
    return disk->sync_directory(disk->context, log->directory);
}

/* Closes the descriptor of a segment without holds. The caller has the mutex. */
static void segment_close(struct log *log, struct segment *segment) {
    assert(segment->users == 0 && segment->handle >= 0);
    /* Ignore the error: the descriptor was only used for reading. */
    (void)log->disk->close(log->disk->context, segment->handle);
    segment->handle = -1;
    log->handles_open--;
}

/* Closes descriptors, the least recently used first, until at most `max` are open or all are in use. The caller has the
 * mutex. */
static void handles_trim(struct log *log, uint32_t max) {
    while (log->handles_open > max) {
        struct segment *oldest = NULL;
        for (size_t i = 0; i < log->segment_count; i++) {
            struct segment *candidate = log->segments[i];
            if (candidate->handle < 0 || candidate->users > 0) continue;
            if (!oldest || candidate->used < oldest->used) oldest = candidate;
        }
        if (!oldest) return;
        segment_close(log, oldest);
    }
}

/* Makes `segment` the current segment, instead of the previous one if any. */
static int segment_switch(struct log *log, const struct segment *segment) {
    struct segment *old = log->current;
    if (!old) {
        int result = segment_add(log, segment);
        if (result == 0) log->current = log->segments[log->segment_count - 1];
        return result;
    }
    pthread_mutex_lock(&log->mutex);
    if (old->base == segment->base) {
        /* The segment `old` had no frame, so no reader holds it. A larger file has replaced its file. */
        assert(old->users == 1);
        int handle = old->handle;
        *old = *segment;
        pthread_mutex_unlock(&log->mutex);
        /* Ignore the error: the file has no name any more. */
        (void)log->disk->close(log->disk->context, handle);
        return 0;
    }
    old->end = log->end;
    old->wall_ns = log->wall_ns;
    pthread_mutex_unlock(&log->mutex);
    int result = segment_add(log, segment);
    if (result < 0) return result;
    pthread_mutex_lock(&log->mutex);
    log->current = log->segments[log->segment_count - 1];
    log->handles_open++; /* count the descriptor of `old`, because `old` is now a closed segment */
    old->used = ++log->holds;
    handles_trim(log, SEGMENT_HANDLES_MAX);
    pthread_mutex_unlock(&log->mutex);
    segment_drop(log, old);
    return 0;
}

/* Starts a segment from the prepared file `handle` with that name. If the handle is negative, makes the file first. */
static int roll_to(struct log *log, int handle, const char *name, uint64_t capacity) {
    if (handle < 0) handle = segment_make(log, name, capacity);
    if (handle < 0) return handle;
    bool replaces = log->current && log->current->base == log->end;
    if (log->current && !replaces) log->previous_base = log->current->base;
    int result = segment_publish(log, handle, name, capacity);
    if (result == 0) {
        struct segment segment = {.base = log->end, .capacity = capacity, .handle = handle, .users = 1};
        result = segment_switch(log, &segment);
        if (result == 0) return 0;
    }
    /* The caller poisons the log; recovery repairs the incomplete step. */
    (void)log->disk->close(log->disk->context, handle);
    return result;
}

int segment_roll(struct log *log, uint64_t capacity_min) {
    assert(atomic_load_explicit(&log->durable, memory_order_relaxed) == log->end);
    if (capacity_min > log->segment_size) return roll_to(log, -1, segment_large_name, capacity_min);
    int result = roll_to(log, preparer_take(log), segment_next_name, log->segment_size);
    preparer_give_back(log);
    return result;
}

int segment_add(struct log *log, const struct segment *segment) {
    struct segment *copy = malloc(sizeof(*copy));
    if (!copy) return -ENOMEM;
    *copy = *segment;
    pthread_mutex_lock(&log->mutex);
    if (log->segment_count == log->segment_room) {
        size_t room = log->segment_room ? log->segment_room * 2 : 64;
        struct segment **segments = realloc(log->segments, room * sizeof(struct segment *));
        if (!segments) {
            pthread_mutex_unlock(&log->mutex);
            free(copy);
            return -ENOMEM;
        }
        log->segments = segments;
        log->segment_room = room;
    }
    assert(log->segment_count == 0 || log->segments[log->segment_count - 1]->base < copy->base);
    log->segments[log->segment_count++] = copy;
    pthread_mutex_unlock(&log->mutex);
    return 0;
}

/* Opens the file of a held segment for reading. Without the mutex, because open may wait for the disk and the writer
 * needs the mutex. Drops the hold on failure. */
static int segment_open(struct log *log, struct segment *segment) {
    char path[LOG_PATH_SIZE];
    segment_path(log, segment->base, path);
    int handle = log->disk->open(log->disk->context, path, O_RDONLY, 0);
    pthread_mutex_lock(&log->mutex);
    bool is_open = segment->handle >= 0; /* true: another thread opened the segment first */
    bool is_retired = segment->retired;
    if (!is_open && handle >= 0) {
        handles_trim(log, SEGMENT_HANDLES_MAX - 1);
        segment->handle = handle;
        log->handles_open++;
    }
    pthread_mutex_unlock(&log->mutex);
    /* This descriptor is not needed, because another thread has opened the file. */
    if (is_open && handle >= 0) (void)log->disk->close(log->disk->context, handle);
    if (is_open || handle >= 0) return 0;
    segment_drop(log, segment);
    return is_retired ? LOG_RETIRED : handle;
}

/* Returns the segment with the greatest base ≤ position. The caller has the mutex. */
static struct segment *segment_find(const struct log *log, uint64_t position) {
    size_t low = 0, high = log->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->segments[middle]->base <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? NULL : log->segments[low - 1];
}

enum {
    HOLD_END = 1,
    HOLD_NOW = 2
}; /* options of a hold: END allows the end of the written frames as position; NOW requires an open segment */

static int hold(struct log *log, uint64_t position, unsigned how, struct segment **out, uint64_t *out_end) {
    bool must_open = false;
    int result = 0;
    pthread_mutex_lock(&log->mutex);
    if (position < atomic_load_explicit(&log->start, memory_order_relaxed)) {
        result = LOG_RETIRED;
        goto out;
    }
    struct segment *segment = segment_find(log, position);
    if (!segment) {
        result = LOG_END;
        goto out;
    }
    uint64_t end = segment == log->current ? atomic_load_explicit(&log->written, memory_order_acquire) : segment->end;
    if (position > end || (position == end && !(how & HOLD_END))) {
        result = LOG_END;
        goto out;
    }
    must_open = segment->handle < 0;
    if (must_open && how & HOLD_NOW) {
        result = -EAGAIN;
        goto out;
    }
    segment->users++;
    segment->used = ++log->holds;
    *out = segment;
    *out_end = end;
out:
    pthread_mutex_unlock(&log->mutex);
    return result == 0 && must_open ? segment_open(log, *out) : result;
}

int segment_hold(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end) {
    return hold(log, position, 0, out, out_end);
}

int segment_hold_now(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end) {
    return hold(log, position, HOLD_NOW, out, out_end);
}

int segment_hold_end(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end) {
    return hold(log, position, HOLD_END, out, out_end);
}

void segment_drop(struct log *log, struct segment *segment) {
    pthread_mutex_lock(&log->mutex);
    assert(segment->users > 0);
    segment->users--;
    bool gone = segment->retired && segment->users == 0;
    if (gone && segment->handle >= 0) segment_close(log, segment);
    pthread_mutex_unlock(&log->mutex);
    if (gone) free(segment);
}
