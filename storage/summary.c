/* summary.c: see summary.h. */
#include "summary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bloom.h"
#include "bytes.h"
#include "log_internal.h"
#include "row.h"

#define SUMMARY_VERSION 1u
#define HEADER_SIZE 128u
#define HEADER_SUMMED 120u
#define BLOCK_SIZE 64u
/* A record takes about 150 bytes of the log and names an id and a key: 16 bits for each of them. */
#define BYTES_PER_FILTER_BYTE 32u
#define BLOCKS_MAX (1u << 26)

static const char magic[8] = "TARRYSUM";

static struct summary *summary_with(uint64_t base, uint64_t blocks) {
    struct summary *summary = calloc(1, sizeof *summary);
    if (!summary) return NULL;
    summary->base = summary->end = base;
    summary->blocks = blocks;
    summary->filter = aligned_alloc(BLOCK_SIZE, blocks * BLOCK_SIZE);
    if (!summary->filter) {
        free(summary);
        return NULL;
    }
    memset(summary->filter, 0, blocks * BLOCK_SIZE);
    return summary;
}

struct summary *summary_new(uint64_t base, uint64_t capacity) {
    return summary_with(base, capacity / BYTES_PER_FILTER_BYTE / BLOCK_SIZE + 1);
}

void summary_free(struct summary *summary) {
    if (!summary) return;
    free(summary->filter);
    free(summary);
}

uint64_t summary_task_hash(uint64_t id) {
    uint8_t bytes[8];
    put_u64(bytes, id);
    return frame_sum(bytes, sizeof bytes);
}

uint64_t summary_key_hash(uint32_t queue, const void *key, size_t key_size) {
    return row_key_hash(queue, key, key_size);
}

static void add_task(struct summary *summary, const Tarry__Task *task) {
    if (!task) return;
    bloom_fill(summary->filter, summary->blocks, summary_task_hash(task->id));
    if (task->key.len == 0) return;
    bloom_fill(summary->filter, summary->blocks, summary_key_hash(task->queue, task->key.data, task->key.len));
}

void summary_add(struct summary *summary, const struct frame_header *header, const Tarry__FrameBody *body) {
    if (summary->end == summary->base) summary->first_ns = header->steady_ns;
    summary->last_ns = header->steady_ns;
    summary->end = header->position + frame_size(header->body_size, header->blob_size);
    for (size_t i = 0; body && i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        summary->records++;
        if (record->fact_case == TARRY__RECORD__FACT_PUT) add_task(summary, record->put->task);
        if (record->fact_case == TARRY__RECORD__FACT_END) add_task(summary, record->end->task);
    }
}

bool summary_may_name(const struct summary *summary, uint64_t hash) {
    return bloom_has(summary->filter, summary->blocks, hash);
}

/* ---- the file */

static void path_of(const struct log *log, uint64_t base, const char *suffix, char out[LOG_PATH_SIZE]) {
    char name[32];
    snprintf(name, sizeof name, "%016" PRIx64 "%s", base, suffix);
    log_path(log, name, out);
}

static void header_encode(const struct summary *summary, uint8_t out[HEADER_SIZE]) {
    memset(out, 0, HEADER_SIZE);
    memcpy(out, magic, sizeof magic);
    put_u32(out + 8, SUMMARY_VERSION);
    put_u64(out + 16, summary->base);
    put_u64(out + 24, summary->end);
    put_u64(out + 32, summary->first_ns);
    put_u64(out + 40, summary->last_ns);
    put_u64(out + 48, summary->records);
    put_u64(out + 56, summary->blocks);
    put_u64(out + 64, frame_sum(summary->filter, summary->blocks * BLOCK_SIZE));
    put_u64(out + HEADER_SUMMED, frame_sum(out, HEADER_SUMMED));
}

/* NULL: it is not what it should be, or there is no memory for it. */
static struct summary *header_decode(const uint8_t in[HEADER_SIZE], uint64_t base) {
    if (memcmp(in, magic, sizeof magic) != 0 || get_u32(in + 8) != SUMMARY_VERSION) return NULL;
    if (get_u64(in + HEADER_SUMMED) != frame_sum(in, HEADER_SUMMED) || get_u64(in + 16) != base) return NULL;
    uint64_t blocks = get_u64(in + 56);
    if (blocks == 0 || blocks > BLOCKS_MAX) return NULL;
    struct summary *summary = summary_with(base, blocks);
    if (!summary) return NULL;
    summary->end = get_u64(in + 24);
    summary->first_ns = get_u64(in + 32);
    summary->last_ns = get_u64(in + 40);
    summary->records = get_u64(in + 48);
    return summary;
}

static int write_file(const struct summary *summary, const struct disk *disk, const char *path) {
    uint8_t header[HEADER_SIZE];
    header_encode(summary, header);
    int handle = disk->open(disk->context, path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (handle < 0) return handle;
    int error = disk_write_all(disk, handle, header, HEADER_SIZE, 0);
    if (!error) error = disk_write_all(disk, handle, summary->filter, summary->blocks * BLOCK_SIZE, HEADER_SIZE);
    int closed = disk->close(disk->context, handle);
    return error ? error : closed;
}

int summary_write(const struct summary *summary, const struct log *log) {
    char temporary[LOG_PATH_SIZE], path[LOG_PATH_SIZE];
    path_of(log, summary->base, ".sum.tmp", temporary);
    path_of(log, summary->base, ".sum", path);
    int error = write_file(summary, log->disk, temporary);
    return error ? error : log->disk->rename(log->disk->context, temporary, path);
}

static int read_file(struct summary **out, const struct disk *disk, int handle, uint64_t base) {
    uint8_t header[HEADER_SIZE];
    int64_t size = disk_read_all(disk, handle, header, HEADER_SIZE, 0);
    if (size < 0) return (int)size;
    struct summary *summary = size == HEADER_SIZE ? header_decode(header, base) : NULL;
    if (!summary) return 1;
    size_t bytes = summary->blocks * BLOCK_SIZE;
    size = disk_read_all(disk, handle, summary->filter, bytes, HEADER_SIZE);
    if (size == (int64_t)bytes && frame_sum(summary->filter, bytes) == get_u64(header + 64)) {
        *out = summary;
        return 0;
    }
    summary_free(summary);
    return size < 0 ? (int)size : 1;
}

int summary_read(struct summary **out, const struct log *log, uint64_t base) {
    char path[LOG_PATH_SIZE];
    path_of(log, base, ".sum", path);
    int handle = log->disk->open(log->disk->context, path, O_RDONLY, 0);
    if (handle == -ENOENT) return 1;
    if (handle < 0) return handle;
    int result = read_file(out, log->disk, handle, base);
    log->disk->close(log->disk->context, handle);
    return result;
}

void summary_delete(const struct log *log, uint64_t base) {
    char path[LOG_PATH_SIZE];
    path_of(log, base, ".sum", path);
    log->disk->unlink(log->disk->context, path);
}
