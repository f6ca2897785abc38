/* fuzz_log.c: opens a log with an arbitrary last segment (LOG-5). The log opens, or log_open refuses it with a
 * sentence. An opened log can be read from end to end, looks the same to a read-only reader, and stays the same when
 * opened again.
 *
 * The input is a program that fills the segment. Each line: an opcode, what it writes, and its operands.
 *
 *     0  a frame with correct header, checksums and chain     body size, blob size
 *     1  a frame header with a correct checksum, without data type, body size, 8 × position, 8 × synced_to back
 *     2  raw bytes                                            count, the bytes
 *     3  zeros                                                count
 *     4  a flipped bit in earlier bytes                       8 × offset back, bit */
#include <assert.h>
#include <string.h>

#include "../model_disk.h"
#include "fuzz.h"
#include "log.h"

#define SEGMENT_SIZE 8192u
#define HEADER_SIZE 4096u

struct program {
    const uint8_t *data;
    size_t size;
    uint8_t *segment; /* SEGMENT_SIZE bytes, to be filled with frames */
    size_t used;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

static uint8_t next(struct program *program) {
    if (program->size == 0) return 0;
    program->size--;
    return *program->data++;
}

static void good_frame(struct program *program) {
    struct frame_header header = {.type = FRAME_COMMIT,
                                  .epoch = 1,
                                  .body_size = next(program),
                                  .blob_size = next(program),
                                  .position = LOG_POSITION_FIRST + program->used};
    header.synced_to = header.position - program->used % 64 / 8 * 8;
    if (header.synced_to < LOG_POSITION_FIRST) header.synced_to = LOG_POSITION_FIRST;
    uint64_t size = frame_size(header.body_size, header.blob_size);
    if (size > SEGMENT_SIZE - program->used) return;
    uint8_t *start = program->segment + program->used;
    memset(start, 0, size);
    uint8_t *blob = start + FRAME_HEADER_SIZE, *body = blob + header.blob_size;
    memset(blob, 0xb1, header.blob_size);
    memset(body, 0xb0, header.body_size);
    header.body_sum = frame_sum(body, header.body_size);
    header.blob_sum = frame_sum(blob, header.blob_size);
    frame_chain(program->chain, &header, body, header.chain);
    memcpy(program->chain, header.chain, FRAME_CHAIN_SIZE);
    frame_header_encode(&header, start);
    program->used += size;
}

static void bare_header(struct program *program) {
    struct frame_header header = {.type = next(program) % 4, .epoch = 1, .body_size = next(program)};
    header.position = LOG_POSITION_FIRST + program->used + 8ull * (uint8_t)(next(program) + 1) - 8;
    header.synced_to = header.position - 8ull * next(program);
    if (FRAME_HEADER_SIZE > SEGMENT_SIZE - program->used) return;
    frame_header_encode(&header, program->segment + program->used);
    program->used += FRAME_HEADER_SIZE;
}

static void fill(struct program *program, bool raw) {
    size_t count = next(program);
    for (size_t i = 0; i < count && program->used < SEGMENT_SIZE; i++)
        program->segment[program->used++] = raw ? next(program) : 0;
    program->used = (program->used + 7) / 8 * 8;
}

static void flip(struct program *program) {
    size_t back = (size_t)8 * next(program);
    uint8_t bit = next(program);
    if (back < program->used) program->segment[program->used - 1 - back] ^= (uint8_t)(1u << bit % 8);
}

static void run(struct program *program) {
    while (program->size > 0) {
        switch (next(program) % 5) {
        case 0:
            good_frame(program);
            break;
        case 1:
            bare_header(program);
            break;
        case 2:
            fill(program, true);
            break;
        case 3:
            fill(program, false);
            break;
        default:
            flip(program);
            break;
        }
    }
}

/* Checks, without the log's own checks, that every frame continues the one before, and that its checksums are right. */
static void read_all(struct log *log, const struct log_recovery *recovery) {
    struct log_cursor *cursor;
    struct log_view view;
    uint8_t chain[FRAME_CHAIN_SIZE] = {0};
    uint64_t at = recovery->start;
    int result = log_cursor_open(&cursor, log, recovery->start, true);
    assert(result == 0);
    while ((result = log_cursor_next(cursor, UINT64_MAX, &view)) == 0) {
        const struct frame_header *header = &view.header;
        assert(header->position == at && header->synced_to <= at);
        assert(header->body_sum == frame_sum(view.body, header->body_size));
        assert((header->flags & FRAME_FLAG_ERASED) || header->blob_sum == frame_sum(view.blob, header->blob_size));
        frame_chain(chain, header, view.body, chain);
        assert(memcmp(chain, header->chain, FRAME_CHAIN_SIZE) == 0);
        at += frame_size(header->body_size, header->blob_size);
    }
    assert(result == LOG_END && log_cursor_position(cursor) == recovery->end && at == recovery->end);
    assert(memcmp(chain, recovery->chain, FRAME_CHAIN_SIZE) == 0);
    log_cursor_close(cursor);
}

static int open_and_read(const struct log_options *options, struct log_recovery *recovery) {
    struct log *log = NULL;
    char message[512] = "";
    int result = log_open(&log, options, 0, recovery, message, sizeof(message));
    if (result < 0) {
        assert(result == LOG_DAMAGED && !log && strlen(message) > 20);
        return result;
    }
    read_all(log, recovery);
    log_close(log);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model_disk *model = model_new(1);
    model->directory_exists = true;
    struct log_options options = {.directory = "/log", .disk = &model->disk, .segment_size = SEGMENT_SIZE};
    struct log_recovery recovery, same, again;
    int result = open_and_read(&options, &recovery);
    assert(result == 0);
    struct program program = {.data = data, .size = size};
    program.segment = model_lookup(model, "0000000000001000.seg")->cached + HEADER_SIZE;
    run(&program);

    options.read_only = true;
    int read_only = open_and_read(&options, &same);
    model_kill(model);
    options.read_only = false;
    result = open_and_read(&options, &recovery);
    assert(result == read_only);
    if (result == 0) {
        assert(same.end == recovery.end && same.cut_bytes == recovery.cut_bytes && same.cut_at == recovery.cut_at);
        result = open_and_read(&options, &again);
        assert(result == 0 && again.end == recovery.end && again.cut_bytes == 0);
        assert(memcmp(again.chain, recovery.chain, FRAME_CHAIN_SIZE) == 0);
    }
    model_free(model);
    return 0;
}
