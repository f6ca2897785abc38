/* log.c: opens and closes the log, and answers calls of any thread. See log.h; FORMAT.md has the bytes.
 *
 *   log_load     finds segments, checks headers        log_write    append, write, sync, roll; keeps the error
 *   log_recover  the end; torn tail or damage          log_prepare  a thread that makes the next segment
 *   log_segment  segment files, their table, holds     log_cursor   reads frames in order
 *   log_block    a buffer for reading frames           log_erase    overwrites redacted contents
 *   log_serve    reads frames for another log          log_copy     appends frames of another log
 *   log_mark     the durable position, on disk
 *
 * Other modules use the log: quarantine (keeps tails that were cut off), summary. */
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"

static struct log *log_new(const struct log_options *options) {
    struct log *log = calloc(1, sizeof(*log));
    if (!log) return NULL;
    log->directory = strdup(options->directory);
    if (!log->directory) {
        free(log);
        return NULL;
    }
    log->disk = options->disk;
    log->segment_size = (options->segment_size + FRAME_ALIGN - 1) / FRAME_ALIGN * FRAME_ALIGN;
    memcpy(log->cluster, options->cluster, sizeof(log->cluster));
    log->read_only = options->read_only;
    const char *suffix = options->single ? options->single + SEGMENT_BASE_DIGITS : segment_suffix;
    assert(strlen(suffix) < LOG_SUFFIX_SIZE && (!options->single || options->read_only));
    memcpy(log->suffix, suffix, strlen(suffix) + 1);
    if (options->single) (void)segment_name_decode(options->single, suffix, &log->single);
    atomic_store_explicit(&log->claim, UINT64_MAX, memory_order_relaxed);
    pthread_mutex_init(&log->mutex, NULL);
    pthread_rwlockattr_t erasing;
    pthread_rwlockattr_init(&erasing);
    /* The lock prefers writers, so a continuous stream of readers cannot block the eraser for ever. No reader takes the
     * lock twice. */
    pthread_rwlockattr_setkind_np(&erasing, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&log->erasing, &erasing);
    pthread_rwlockattr_destroy(&erasing);
    pthread_mutex_init(&log->erase_gate, NULL);
    pthread_mutex_init(&log->preparer.mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&log->preparer.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return log;
}

void log_close(struct log *log) {
    if (!log) return;
    preparer_stop(log);
    for (size_t i = 0; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];
        /* Ignore the error: acknowledged frames were synced before. */
        if (segment->handle >= 0) (void)log->disk->close(log->disk->context, segment->handle);
        free(segment);
    }
    pthread_mutex_destroy(&log->mutex);
    pthread_rwlock_destroy(&log->erasing);
    pthread_mutex_destroy(&log->erase_gate);
    pthread_mutex_destroy(&log->preparer.mutex);
    pthread_cond_destroy(&log->preparer.changed);
    free(log->segments);
    free(log->buffer);
    free(log->directory);
    free(log);
}

/* Sets the state of writer and readers after recovery. */
static int log_begin(struct log *log, struct recovery *recovery, bool prepare_ahead) {
    atomic_store_explicit(&log->written, log->end, memory_order_relaxed);
    atomic_store_explicit(&log->durable, log->end, memory_order_relaxed);
    atomic_store_explicit(&log->start, recovery->out->start, memory_order_relaxed);
    if (log->read_only) return 0;
    if (log->segment_count > 0) {
        log->current = log->segments[log->segment_count - 1];
    } else {
        int result = segment_roll(log, 0);
        if (result < 0) return recovery_fail_io(recovery, result, "create a segment in", log->directory);
        recovery->out->segments = 1;
    }
    if (!prepare_ahead) return 0;
    int result = preparer_start(log);
    return result < 0 ? recovery_fail_io(recovery, result, "start a thread for", log->directory) : 0;
}

int log_open(struct log **out, const struct log_options *options, uint64_t scan_from, struct log_recovery *out_recovery,
             char *message, size_t message_size) {
    assert(message_size >= 256 && options->segment_size >= 1024);
    struct log_recovery found = {0};
    struct recovery recovery = {.scan_from = scan_from,
                                .durable_min = options->durable_min,
                                .out = &found,
                                .message = message,
                                .message_size = message_size};
    if (strlen(options->directory) + 32 > LOG_PATH_SIZE)
        return recovery_fail(&recovery, -ENAMETOOLONG, "the path of the log's directory is too long");
    struct log *log = log_new(options);
    if (!log) return recovery_fail(&recovery, -ENOMEM, "out of memory");
    recovery.log = log;
    int result = log_load(&recovery);
    if (result == 0) result = log_recover(&recovery);
    if (result == 0) result = log_begin(log, &recovery, options->prepare_ahead);
    free(recovery.headers);
    if (result < 0) {
        log_close(log);
        return result;
    }
    *out = log;
    *out_recovery = found;
    return 0;
}

int log_make(struct log **out, const struct log_options *options, const struct log_origin *origin) {
    assert(options->segment_size >= 1024 && origin->previous_base != 0 && origin->position % FRAME_ALIGN == 0);
    if (strlen(options->directory) + 32 > LOG_PATH_SIZE) return -ENAMETOOLONG;
    int result = options->disk->make_directory(options->disk->context, options->directory, 0700);
    if (result < 0) return result;
    struct log *log = log_new(options);
    if (!log) return -ENOMEM;
    log->read_only = false;
    log->end = origin->position;
    log->previous_base = origin->previous_base;
    log->epoch = origin->epoch;
    log->steady_ns = origin->steady_ns;
    log->wall_ns = origin->wall_ns;
    memcpy(log->chain, origin->chain, FRAME_CHAIN_SIZE);
    atomic_store_explicit(&log->written, log->end, memory_order_relaxed);
    atomic_store_explicit(&log->durable, log->end, memory_order_relaxed);
    atomic_store_explicit(&log->start, log->end, memory_order_relaxed);
    result = segment_roll(log, 0);
    if (result < 0) {
        log_close(log);
        return result;
    }
    *out = log;
    return 0;
}

uint64_t log_end(const struct log *log) {
    return log->end;
}

uint64_t log_durable(const struct log *log) {
    return atomic_load_explicit(&log->durable, memory_order_acquire);
}

uint64_t log_start(const struct log *log) {
    return atomic_load_explicit(&log->start, memory_order_acquire);
}

void log_claim(struct log *log, uint64_t position) {
    atomic_store_explicit(&log->claim, position, memory_order_release);
}

void log_chain(const struct log *log, uint8_t out[FRAME_CHAIN_SIZE]) {
    memcpy(out, log->chain, FRAME_CHAIN_SIZE);
}

/* Reads from a held segment, up to `end`. `now`: reads only the page cache. */
static int read_held(struct log *log, const struct segment *segment, uint64_t end, uint64_t position, void *out,
                     size_t size, bool now) {
    if (size > end - position) return LOG_END;
    uint64_t offset = SEGMENT_HEADER_SIZE + (position - segment->base);
    int busy = now ? pthread_rwlock_tryrdlock(&log->erasing) : pthread_rwlock_rdlock(&log->erasing);
    if (busy) return -EAGAIN;
    int64_t count = now ? disk_read_all_now(log->disk, segment->handle, out, size, offset)
                        : disk_read_all(log->disk, segment->handle, out, size, offset);
    pthread_rwlock_unlock(&log->erasing);
    if (count < 0) return (int)count;
    /* The file is shorter than the segment only if another process has shortened it. */
    return (size_t)count == size ? 0 : LOG_DAMAGED;
}

int log_read(struct log *log, uint64_t position, void *out, size_t size) {
    struct segment *segment;
    uint64_t end;
    int result = segment_hold(log, position, &segment, &end);
    if (result < 0) return result;
    result = read_held(log, segment, end, position, out, size, false);
    segment_drop(log, segment);
    return result;
}

int log_read_now(struct log *log, uint64_t position, void *out, size_t size) {
    struct segment *segment;
    uint64_t end;
    int result = segment_hold_now(log, position, &segment, &end);
    if (result < 0) return result;
    result = read_held(log, segment, end, position, out, size, true);
    segment_drop(log, segment);
    return result;
}

int log_segment_header(struct log *log, uint64_t base, uint8_t out[SEGMENT_HEADER_SIZE]) {
    struct segment *segment;
    uint64_t end;
    int result = segment_hold(log, base, &segment, &end);
    if (result < 0) return result;
    bool is_base = segment->base == base;
    int64_t count = is_base ? disk_read_all(log->disk, segment->handle, out, SEGMENT_HEADER_SIZE, 0) : 0;
    segment_drop(log, segment);
    if (!is_base) return LOG_END;
    if (count < 0) return (int)count;
    return count == SEGMENT_HEADER_SIZE ? 0 : LOG_DAMAGED;
}

void log_stats(const struct log *log, struct log_stats *out) {
    struct log *shared = (struct log *)log; /* not const, because the call locks the log's mutexes */
    struct log_stats stats = {0};
    pthread_mutex_lock(&shared->mutex);
    stats.segments = log->segment_count;
    for (size_t i = 0; i < log->segment_count; i++) stats.bytes += SEGMENT_HEADER_SIZE + log->segments[i]->capacity;
    if (log->current)
        stats.reserved =
            log->current->base + log->current->capacity - atomic_load_explicit(&log->written, memory_order_acquire);
    pthread_mutex_unlock(&shared->mutex);
    pthread_mutex_lock(&shared->preparer.mutex);
    stats.prepare_error = log->preparer.error;
    if (log->preparer.state == PREPARER_READY) {
        stats.reserved += log->segment_size;
        stats.bytes += SEGMENT_HEADER_SIZE + log->segment_size;
    }
    pthread_mutex_unlock(&shared->preparer.mutex);
    *out = stats;
}

bool log_oldest(const struct log *log, uint64_t below, struct log_segment *out) {
    struct log *shared = (struct log *)log;
    bool found = false;
    pthread_mutex_lock(&shared->mutex);
    bool is_free = log->pins == 0 && log->segment_count > 0 && log->segments[0] != log->current;
    if (is_free && log->segments[0]->end <= below) {
        const struct segment *segment = log->segments[0];
        *out = (struct log_segment){.base = segment->base,
                                    .end = segment->end,
                                    .wall_ns = segment->wall_ns,
                                    .bytes = SEGMENT_HEADER_SIZE + segment->capacity};
        found = true;
    }
    pthread_mutex_unlock(&shared->mutex);
    return found;
}

bool log_segment_at(const struct log *log, uint64_t position, struct log_segment *out) {
    struct log *shared = (struct log *)log;
    bool found = false;
    pthread_mutex_lock(&shared->mutex);
    for (size_t i = log->segment_count; i-- > 0 && !found;) {
        const struct segment *segment = log->segments[i];
        if (segment->base > position) continue;
        bool is_open = segment == log->current;
        found = true;
        *out = (struct log_segment){.base = segment->base,
                                    .end = is_open ? 0 : segment->end,
                                    .wall_ns = is_open ? 0 : segment->wall_ns,
                                    .bytes = SEGMENT_HEADER_SIZE + segment->capacity};
    }
    pthread_mutex_unlock(&shared->mutex);
    return found;
}

/* Removes the oldest segment from the table; afterwards readers get LOG_RETIRED. */
static int retire_from_table(struct log *log, uint64_t base, struct segment **out) {
    pthread_mutex_lock(&log->mutex);
    int result = log->retire_error;
    if (result == 0 && log->pins > 0) result = LOG_PINNED;
    if (result == 0) {
        assert(!log->read_only);
        assert(log->segment_count > 1 && log->segments[0]->base == base && log->segments[0] != log->current);
        struct segment *oldest = log->segments[0];
        atomic_store_explicit(&log->start, oldest->end, memory_order_release);
        log->segment_count--;
        memmove(log->segments, log->segments + 1, log->segment_count * sizeof(struct segment *));
        oldest->retired = true;
        oldest->users++; /* hold the segment until its file is deleted */
        *out = oldest;
    }
    pthread_mutex_unlock(&log->mutex);
    return result;
}

uint64_t log_pin(struct log *log) {
    pthread_mutex_lock(&log->erase_gate);
    pthread_mutex_lock(&log->mutex);
    log->pins++;
    uint64_t start = atomic_load_explicit(&log->start, memory_order_relaxed);
    pthread_mutex_unlock(&log->mutex);
    pthread_mutex_unlock(&log->erase_gate);
    return start;
}

bool log_is_pinned(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    bool is_pinned = log->pins > 0;
    pthread_mutex_unlock(&log->mutex);
    return is_pinned;
}

void log_unpin(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    assert(log->pins > 0);
    log->pins--;
    pthread_mutex_unlock(&log->mutex);
}

int log_retire(struct log *log, uint64_t base) {
    struct segment *segment;
    int result = retire_from_table(log, base, &segment);
    if (result != 0) return result;
    char path[LOG_PATH_SIZE];
    segment_path(log, base, path);
    result = log->disk->unlink(log->disk->context, path);
    /* Sync before the next retirement; otherwise a crash could leave a gap between segments. */
    if (result == 0) result = log->disk->sync_directory(log->disk->context, log->directory);
    segment_drop(log, segment);
    if (result < 0) {
        pthread_mutex_lock(&log->mutex);
        log->retire_error = result;
        pthread_mutex_unlock(&log->mutex);
    }
    return result;
}
