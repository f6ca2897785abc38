/* summary.c: see summary.h. */
#include "summary.h"

#include <assert.h>
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

#define SUMMARY_VERSION 2u
#define PAGE_SIZE 4096u
/* The head is a header of HEADER_SIZE bytes, then the table of the parts; its size is rounded up to whole pages. */
#define HEADER_SIZE 128u
#define HEADER_SUMMED 120u
/* Layout of a filter page: blocks, then the segment's base and the page number. */
#define BLOCK_SIZE 64u
#define PAGE_BLOCKS 63u
#define PAGE_BASE (PAGE_BLOCKS * BLOCK_SIZE)
#define PAGE_SUMMED (PAGE_SIZE - 8u)
/* Bytes of the log for each byte of the filter. A record takes about 150 bytes of the log and names an id and a key,
 * which get 16 bits each. */
#define BYTES_PER_FILTER_BYTE 32u
/* Maximum number of filter pages: enough for segments of 32 to 64 GiB. A file that claims more is damaged. */
#define PAGES_MAX (1u << 20)
#define PARTS_MAX (1u << 16)

static const char magic[8] = "TARRYSUM";

static struct summary *summary_sized(uint64_t base, uint64_t parts_max, uint64_t pages) {
    struct summary *summary = calloc(1, sizeof *summary);
    if (!summary) return NULL;
    summary->base = summary->end = base;
    summary->parts_max = parts_max;
    summary->starts = calloc(parts_max, sizeof *summary->starts);
    summary->pages = pages;
    summary->filter = aligned_alloc(BLOCK_SIZE, summary->pages * PAGE_SIZE);
    if (!summary->filter || !summary->starts) {
        summary_free(summary);
        return NULL;
    }
    memset(summary->filter, 0, summary->pages * PAGE_SIZE);
    return summary;
}

struct summary *summary_new(uint64_t base, uint64_t capacity) {
    return summary_sized(base, (SEGMENT_HEADER_SIZE + capacity) / SUMMARY_PART_SIZE + 1,
                         capacity / BYTES_PER_FILTER_BYTE / (PAGE_BLOCKS * BLOCK_SIZE) + 1);
}

void summary_free(struct summary *summary) {
    if (!summary) return;
    free(summary->starts);
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

/* ---- the filter */

/* Returns the page that has the block of the hash. */
static uint64_t page_of(uint64_t pages, uint64_t hash) {
    return bloom_place(pages * PAGE_BLOCKS, hash) / PAGE_BLOCKS;
}

/* `page` is aligned to a block, as every page of the filter is. */
static uint64_t *block_of(uint8_t *page, uint64_t pages, uint64_t hash) {
    return (uint64_t *)(void *)(page + bloom_place(pages * PAGE_BLOCKS, hash) % PAGE_BLOCKS * BLOCK_SIZE);
}

/* Returns the bits of a hash in the filter of one part. Each part has different bits for the same hash. The steps are
 * those of splitmix64 (G. Steele, D. Lea, C. Flood, Fast Splittable Pseudorandom Number Generators, 2014). */
static uint64_t bits_of(uint64_t hash, uint64_t part) {
    uint64_t mixed = hash + (part + 1) * 0x9E3779B97F4A7C15ull;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBull;
    return bloom_bits(mixed ^ mixed >> 31);
}

/* Hashes whose bits are not set yet. The filter is larger than the CPU cache, so the blocks of these hashes are
 * prefetched first. The order in which bits are set does not change the file. */
#define NOTES_MAX 16u
struct notes {
    struct summary *summary;
    size_t count;
    uint64_t hashes[NOTES_MAX];
};

static void notes_flush(struct notes *notes) {
    struct summary *summary = notes->summary;
    for (size_t i = 0; i < notes->count; i++) {
        const uint64_t hash = notes->hashes[i];
        uint8_t *page = summary->filter + page_of(summary->pages, hash) * PAGE_SIZE;
        bloom_block_fill(block_of(page, summary->pages, hash), bits_of(hash, summary->parts - 1));
    }
    notes->count = 0;
}

static void note_hash(struct notes *notes, uint64_t hash) {
    const struct summary *summary = notes->summary;
    if (notes->count == NOTES_MAX) notes_flush(notes);
    __builtin_prefetch(block_of(summary->filter + page_of(summary->pages, hash) * PAGE_SIZE, summary->pages, hash), 1);
    notes->hashes[notes->count++] = hash;
}

static void note_task(struct notes *notes, uint64_t id, uint32_t queue, const ProtobufCBinaryData *key) {
    note_hash(notes, summary_task_hash(id));
    if (key->len > 0) note_hash(notes, summary_key_hash(queue, key->data, key->len));
}

static void note_record(struct notes *notes, const Tarry__Record *record) {
    const Tarry__Task *task = NULL;
    if (record->fact_case == TARRY__RECORD__FACT_PUT) task = record->put->task;
    if (record->fact_case == TARRY__RECORD__FACT_END) task = record->end->task;
    if (task) note_task(notes, task->id, task->queue, &task->key);
    if (record->fact_case != TARRY__RECORD__FACT_REDACTION) return;
    const Tarry__Redaction *redaction = record->redaction;
    note_task(notes, redaction->id, redaction->queue, &redaction->key);
}

void summary_add(struct summary *summary, const struct frame_header *header, const Tarry__FrameBody *body) {
    uint64_t part = (SEGMENT_HEADER_SIZE + (header->position - summary->base)) / SUMMARY_PART_SIZE;
    assert(part < summary->parts_max);
    if (summary->end == summary->base) summary->first_ns = header->steady_ns;
    summary->last_ns = header->steady_ns;
    summary->end = header->position + frame_size(header->body_size, header->blob_size);
    while (summary->parts <= part) summary->starts[summary->parts++] = header->position;
    struct notes notes = {.summary = summary};
    for (size_t i = 0; body && i < body->n_records; i++) {
        summary->records++;
        note_record(&notes, body->records[i]);
    }
    notes_flush(&notes);
}

/* ---- the file */

/* Writes the path of the summary. Returns false if the directory's path is too long. */
static bool path_of(const char *directory, uint64_t base, const char *suffix, char out[LOG_PATH_SIZE]) {
    int size = snprintf(out, LOG_PATH_SIZE, "%s/%016" PRIx64 "%s", directory, base, suffix);
    return size > 0 && (size_t)size < LOG_PATH_SIZE;
}

/* Returns the size of the head in bytes; whole pages. */
static size_t head_size(uint64_t parts) {
    return (size_t)((HEADER_SIZE + 8 * parts + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE);
}

static void header_encode(const struct summary *summary, uint64_t table_sum, uint8_t out[HEADER_SIZE]) {
    memset(out, 0, HEADER_SIZE);
    memcpy(out, magic, sizeof magic);
    put_u32(out + 8, SUMMARY_VERSION);
    put_u64(out + 16, summary->base);
    put_u64(out + 24, summary->end);
    put_u64(out + 32, summary->first_ns);
    put_u64(out + 40, summary->last_ns);
    put_u64(out + 48, summary->records);
    put_u64(out + 56, summary->pages);
    put_u64(out + 64, summary->parts);
    put_u64(out + 72, table_sum);
    put_u64(out + HEADER_SUMMED, frame_sum(out, HEADER_SUMMED));
}

/* Decodes and checks the header. Returns false if it is invalid. */
static bool header_decode(const uint8_t in[HEADER_SIZE], uint64_t base, struct summary *out) {
    uint8_t again[HEADER_SIZE];
    *out = (struct summary){.base = get_u64(in + 16),
                            .end = get_u64(in + 24),
                            .first_ns = get_u64(in + 32),
                            .last_ns = get_u64(in + 40),
                            .records = get_u64(in + 48),
                            .pages = get_u64(in + 56),
                            .parts = get_u64(in + 64)};
    header_encode(out, get_u64(in + 72), again);
    /* True if magic, version and checksum are right and reserved bytes are zeros. */
    bool is_whole = memcmp(in, again, HEADER_SIZE) == 0;
    return is_whole && out->base == base && out->end >= base && out->pages > 0 && out->pages <= PAGES_MAX &&
           out->parts <= PARTS_MAX && (out->parts == 0) == (out->end == base);
}

static uint8_t *head_encode(const struct summary *summary, size_t size) {
    uint8_t *head = calloc(1, size);
    if (!head) return NULL;
    for (uint64_t i = 0; i < summary->parts; i++) put_u64(head + HEADER_SIZE + 8 * i, summary->starts[i]);
    header_encode(summary, frame_sum(head + HEADER_SIZE, size - HEADER_SIZE), head);
    return head;
}

static void seal_pages(struct summary *summary) {
    for (uint64_t i = 0; i < summary->pages; i++) {
        uint8_t *page = summary->filter + i * PAGE_SIZE;
        put_u64(page + PAGE_BASE, summary->base);
        put_u64(page + PAGE_BASE + 8, i);
        put_u64(page + PAGE_SUMMED, frame_sum(page, PAGE_SUMMED));
    }
}

static bool page_is_right(const uint8_t page[PAGE_SIZE], uint64_t base, uint64_t number) {
    return get_u64(page + PAGE_BASE) == base && get_u64(page + PAGE_BASE + 8) == number &&
           get_u64(page + PAGE_SUMMED) == frame_sum(page, PAGE_SUMMED);
}

static int write_file(struct summary *summary, const struct disk *disk, const char *path) {
    size_t size = head_size(summary->parts);
    uint8_t *head = head_encode(summary, size);
    if (!head) return -ENOMEM;
    int handle = disk->open(disk->context, path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    int error = handle < 0 ? handle : disk_write_all(disk, handle, head, size, 0);
    free(head);
    if (handle < 0) return error;
    seal_pages(summary);
    if (!error) error = disk_write_all(disk, handle, summary->filter, summary->pages * PAGE_SIZE, size);
    int closed = disk->close(disk->context, handle);
    return error ? error : closed;
}

int summary_write_to(struct summary *summary, const struct disk *disk, const char *directory) {
    char temporary[LOG_PATH_SIZE], path[LOG_PATH_SIZE];
    bool fits = path_of(directory, summary->base, ".sum.tmp", temporary);
    if (!fits || !path_of(directory, summary->base, ".sum", path)) return -ENAMETOOLONG;
    /* Ignore errors: a killed process may have left the file, but usually there is none. */
    (void)disk->unlink(disk->context, temporary);
    int error = write_file(summary, disk, temporary);
    return error ? error : disk->rename(disk->context, temporary, path);
}

int summary_write(struct summary *summary, const struct log *log) {
    return summary_write_to(summary, log->disk, log->directory);
}

void summary_delete(const struct log *log, uint64_t base) {
    char path[LOG_PATH_SIZE];
    if (path_of(log->directory, base, ".sum", path)) log->disk->unlink(log->disk->context, path);
}

/* ---- queries */

struct asking {
    const struct disk *disk;
    int handle;
    struct summary said; /* header of the summary. It has no filter, and only `starts` must be freed */
    uint64_t hash;
};

void summary_answer_deinit(struct summary_answer *answer) {
    free(answer->ranges);
    *answer = (struct summary_answer){0};
}

/* Reads `size` bytes that the file must have. Returns 0; 1: the file is too short; negative errno. */
static int read_exactly(const struct asking *asking, void *out, size_t size, uint64_t offset) {
    int64_t count = disk_read_all(asking->disk, asking->handle, out, size, offset);
    if (count < 0) return (int)count;
    return (size_t)count == size ? 0 : 1;
}

/* Checks the table of positions, because readers jump to them. */
static int take_table(struct asking *asking, const uint8_t *head, size_t size) {
    struct summary *said = &asking->said;
    if (frame_sum(head + HEADER_SIZE, size - HEADER_SIZE) != get_u64(head + 72)) return 1;
    said->starts = malloc((said->parts + 1) * sizeof *said->starts);
    if (!said->starts) return -ENOMEM;
    uint64_t least = said->base;
    for (uint64_t i = 0; i < said->parts; i++) {
        uint64_t start = said->starts[i] = get_u64(head + HEADER_SIZE + 8 * i);
        if (start < least || start >= said->end || (i == 0 && start != said->base)) return 1;
        least = start;
    }
    said->starts[said->parts] = said->end;
    return 0;
}

static int read_head(struct asking *asking, uint64_t base) {
    uint8_t first[PAGE_SIZE];
    int error = read_exactly(asking, first, PAGE_SIZE, 0);
    if (error) return error;
    if (!header_decode(first, base, &asking->said)) return 1;
    size_t size = head_size(asking->said.parts);
    if (size == PAGE_SIZE) return take_table(asking, first, size);
    uint8_t *head = malloc(size);
    if (!head) return -ENOMEM;
    memcpy(head, first, PAGE_SIZE);
    error = read_exactly(asking, head + PAGE_SIZE, size - PAGE_SIZE, PAGE_SIZE);
    if (!error) error = take_table(asking, head, size);
    free(head);
    return error;
}

static void add_range(struct summary_answer *answer, uint64_t from, uint64_t to) {
    if (from == to) return; /* no frame starts in this part, so there is no range */
    if (answer->count > 0 && answer->ranges[answer->count - 1].to == from)
        answer->ranges[answer->count - 1].to = to;
    else
        answer->ranges[answer->count++] = (struct summary_range){from, to};
}

static int find_ranges(struct asking *asking, struct summary_answer *answer) {
    _Alignas(BLOCK_SIZE) uint8_t page[PAGE_SIZE];
    const struct summary *said = &asking->said;
    if (asking->hash == 0) {
        add_range(answer, said->base, said->end);
        return 0;
    }
    uint64_t number = page_of(said->pages, asking->hash);
    int error = read_exactly(asking, page, PAGE_SIZE, head_size(said->parts) + number * PAGE_SIZE);
    if (error) return error;
    if (!page_is_right(page, said->base, number)) return 1;
    const uint64_t *block = block_of(page, said->pages, asking->hash);
    for (uint64_t i = 0; i < said->parts; i++)
        if (bloom_block_has(block, bits_of(asking->hash, i))) add_range(answer, said->starts[i], said->starts[i + 1]);
    return 0;
}

static int ask(struct asking *asking, uint64_t base, struct summary_answer *out) {
    int error = read_head(asking, base);
    if (error) return error;
    const struct summary *said = &asking->said;
    *out = (struct summary_answer){.end = said->end, .first_ns = said->first_ns, .last_ns = said->last_ns};
    out->ranges = calloc(said->parts + 1, sizeof *out->ranges);
    return out->ranges ? find_ranges(asking, out) : -ENOMEM;
}

/* Opens the file. Returns 0: asking->handle is open; 1: no such file. */
static int open_file(struct asking *asking, const char *directory, uint64_t base) {
    char path[LOG_PATH_SIZE];
    if (!path_of(directory, base, ".sum", path)) return -ENAMETOOLONG;
    asking->handle = asking->disk->open(asking->disk->context, path, O_RDONLY, 0);
    if (asking->handle == -ENOENT) return 1;
    return asking->handle < 0 ? asking->handle : 0;
}

static void close_file(struct asking *asking) {
    asking->disk->close(asking->disk->context, asking->handle);
    free(asking->said.starts);
}

int summary_ask(struct summary_answer *out, const struct disk *disk, const char *directory, uint64_t base,
                uint64_t hash) {
    *out = (struct summary_answer){0};
    struct asking asking = {.disk = disk, .hash = hash};
    int result = open_file(&asking, directory, base);
    if (result) return result;
    result = ask(&asking, base, out);
    close_file(&asking);
    if (result) summary_answer_deinit(out);
    return result;
}

int summary_ask_log(struct summary_answer *out, const struct log *log, uint64_t base, uint64_t hash) {
    return summary_ask(out, log->disk, log->directory, base, hash);
}

/* ---- checking */

static int read_page(const struct asking *asking, uint64_t number, uint8_t page[PAGE_SIZE]) {
    return read_exactly(asking, page, PAGE_SIZE, head_size(asking->said.parts) + number * PAGE_SIZE);
}

int summary_like(struct summary **out, const struct disk *disk, const char *directory, uint64_t base) {
    uint8_t page[PAGE_SIZE];
    struct asking asking = {.disk = disk};
    int result = open_file(&asking, directory, base);
    if (result) return result;
    result = read_head(&asking, base);
    /* Reading the last page shows that the file is as long as its header says. */
    if (!result) result = read_page(&asking, asking.said.pages - 1, page);
    if (!result) *out = summary_sized(base, PARTS_MAX, asking.said.pages);
    if (!result && !*out) result = -ENOMEM;
    close_file(&asking);
    return result;
}

/* Compares a filter page. A damaged page hides no frame, because queries do not use it. */
static int check_page(const struct summary *summary, const struct asking *asking, uint64_t number) {
    uint8_t page[PAGE_SIZE];
    const uint8_t *made = summary->filter + number * PAGE_SIZE;
    int error = read_page(asking, number, page);
    if (error) return error;
    if (!page_is_right(page, summary->base, number)) return 0;
    for (size_t i = 0; i < PAGE_BASE; i++)
        if (made[i] & ~page[i]) return SUMMARY_LIES;
    return 0;
}

static int check_file(const struct summary *summary, struct asking *asking) {
    const struct summary *said = &asking->said;
    int result = read_head(asking, summary->base);
    if (result || said->end != summary->end)
        return result ? result : 1; /* the file and the frames end at different positions, so no reader uses the file */
    if (said->pages != summary->pages || said->parts != summary->parts) return SUMMARY_LIES;
    if (said->first_ns > summary->first_ns || said->last_ns < summary->last_ns) return SUMMARY_LIES;
    if (memcmp(said->starts, summary->starts, said->parts * sizeof *said->starts) != 0) return SUMMARY_LIES;
    for (uint64_t i = 0; i < said->pages && !result; i++) result = check_page(summary, asking, i);
    return result;
}

int summary_check(const struct summary *summary, const struct disk *disk, const char *directory) {
    struct asking asking = {.disk = disk};
    int result = open_file(&asking, directory, summary->base);
    if (result) return result;
    result = check_file(summary, &asking);
    close_file(&asking);
    return result;
}
