/* fuzz_copy.c: a follower gets arbitrary bytes as its leader's frames (R2). It takes all of them, or refuses them
 * with a phrase and changes nothing. Complete frames that continue the log are taken. Frames that were taken and
 * synced survive every crash and can be read.
 *
 * The input is a program of opcodes and operands. Opcodes 0 to 3 append to the leader's answer.
 *
 *     0  a correct next frame                          body size, blob size, synced_to back, epochs on and flag
 *     1  a header with a correct checksum, any values  type, sizes (4 bytes each), position back, epoch
 *     2  raw bytes                                     count, the bytes
 *     3  a flipped bit                                 offset (2 bytes), bit
 *     4  the answer is handed over                     bytes to omit at its end, promised epoch
 *     5  the log is synced
 *     6  the power fails                               seed
 *     7  the log is marked */
#include <assert.h>
#include <string.h>

#include "../model_disk.h"
#include "fuzz.h"
#include "input.h"
#include "log_copy.h"
#include "log_serve.h"

#define SEGMENT_SIZE 4096u
#define ANSWER_SIZE 16384u

struct copier {
    struct model_disk *model;
    struct log_options options;
    struct log *log;
    uint64_t confirmed; /* end of the durable frames: no frame before it may ever be missing */
    uint8_t chain_confirmed[FRAME_CHAIN_SIZE];
    /* Answer that is being made. */
    uint8_t bytes[ANSWER_SIZE];
    size_t size;
    bool is_right; /* the answer contains only data of opcode 0 */
    uint64_t position;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

static void begin_answer(struct copier *copier) {
    struct log_point point;
    int result = log_point(copier->log, log_end(copier->log), &point);
    assert(result == 0);
    copier->size = 0;
    copier->is_right = true;
    copier->position = point.position;
    copier->epoch = point.epoch;
    memcpy(copier->chain, point.chain, sizeof point.chain);
}

static void good_frame(struct copier *copier, struct input *input) {
    struct frame_header header = {.type = FRAME_COMMIT, .position = copier->position};
    header.body_size = input_byte(input);
    header.blob_size = input_byte(input);
    header.synced_to = header.position - 8ull * input_byte(input);
    if (header.synced_to > header.position || header.synced_to < LOG_POSITION_FIRST) header.synced_to = header.position;
    uint8_t more = input_byte(input);
    header.epoch = copier->epoch + (more & 1) + (copier->epoch == 0);
    if (header.body_size == 0) {
        header.type = FRAME_SEAL;
        header.blob_size = 0;
    }
    if ((more & 2) && header.blob_size > 0) header.flags = FRAME_FLAG_ERASED;
    uint64_t size = frame_size(header.body_size, header.blob_size);
    if (size > sizeof copier->bytes - copier->size) return;
    uint8_t *start = copier->bytes + copier->size, *blob = start + FRAME_HEADER_SIZE, *body = blob + header.blob_size;
    memset(start, 0, size);
    memset(body, 0xb0, header.body_size);
    memset(blob, 0xb1, header.blob_size);
    header.body_sum = frame_sum(body, header.body_size);
    header.blob_sum = frame_sum(blob, header.blob_size);
    if (header.flags) memset(blob, 0, header.blob_size / 2u);
    frame_chain(copier->chain, &header, body, header.chain);
    memcpy(copier->chain, header.chain, FRAME_CHAIN_SIZE);
    frame_header_encode(&header, start);
    copier->size += size;
    copier->position += size;
    copier->epoch = header.epoch;
}

static void any_header(struct copier *copier, struct input *input) {
    struct frame_header header = {.type = input_byte(input) % 4};
    header.body_size = (uint32_t)input_number(input, 4);
    header.blob_size = (uint32_t)input_number(input, 4);
    header.position = log_end(copier->log) + copier->size - 8ull * input_byte(input);
    header.synced_to = header.position;
    header.epoch = copier->epoch + input_byte(input);
    if (FRAME_HEADER_SIZE > sizeof copier->bytes - copier->size) return;
    memcpy(header.chain, copier->chain, FRAME_CHAIN_SIZE);
    frame_header_encode(&header, copier->bytes + copier->size);
    copier->size += FRAME_HEADER_SIZE;
    copier->is_right = false;
}

static void raw_bytes(struct copier *copier, struct input *input) {
    size_t size, count = input_byte(input);
    const uint8_t *bytes = input_bytes(input, count, &size);
    if (size > sizeof copier->bytes - copier->size) return;
    if (size > 0) memcpy(copier->bytes + copier->size, bytes, size);
    copier->size += size;
    copier->is_right = false;
}

static void hand_over(struct copier *copier, struct input *input) {
    size_t left_out = input_byte(input);
    uint32_t epoch_max = input_byte(input) % 2 == 0 ? UINT32_MAX : copier->epoch / 2;
    size_t size = left_out < copier->size ? copier->size - left_out : 0;
    /* Copies the answer into memory of exactly its size, so that a read past its end is detected. */
    uint8_t *bytes = malloc(size + 1);
    assert(bytes);
    memcpy(bytes, copier->bytes, size);
    uint64_t end = log_end(copier->log), at = 0;
    uint8_t before[FRAME_CHAIN_SIZE], after[FRAME_CHAIN_SIZE];
    const char *problem = NULL;
    log_chain(copier->log, before);
    int result = log_copy(copier->log, bytes, size, epoch_max, &at, &problem);
    log_chain(copier->log, after);
    assert(problem && (result == 0 || result == LOG_UNFIT));
    if (result == 0) {
        assert(log_end(copier->log) == end + size);
    } else {
        assert(strlen(problem) > 10 && at >= end && at <= end + size);
        assert(log_end(copier->log) == end && memcmp(before, after, sizeof before) == 0);
        assert(!copier->is_right || left_out > 0 || copier->epoch > epoch_max);
    }
    free(bytes);
}

static void sync_log(struct copier *copier) {
    int result = log_sync(copier->log);
    assert(result == 0 && log_durable(copier->log) == log_end(copier->log));
}

/* Reads the log from the beginning to the end, and checks every frame without the log's own checks. */
static void read_all(struct copier *copier, const struct log_recovery *recovery) {
    struct log_cursor *cursor;
    struct log_view view;
    uint8_t chain[FRAME_CHAIN_SIZE] = {0};
    uint64_t at = recovery->start;
    uint32_t epoch = 0;
    int result = log_cursor_open(&cursor, copier->log, recovery->start, true);
    assert(result == 0);
    while ((result = log_cursor_next(cursor, UINT64_MAX, &view)) == 0) {
        assert(view.header.position == at && view.header.synced_to <= at && view.header.epoch >= epoch);
        assert(view.header.body_sum == frame_sum(view.body, view.header.body_size));
        frame_chain(chain, &view.header, view.body, chain);
        assert(memcmp(chain, view.header.chain, FRAME_CHAIN_SIZE) == 0);
        at += frame_size(view.header.body_size, view.header.blob_size);
        epoch = view.header.epoch;
        if (at == copier->confirmed) assert(memcmp(chain, copier->chain_confirmed, FRAME_CHAIN_SIZE) == 0);
    }
    assert(result == LOG_END && at == recovery->end);
    log_cursor_close(cursor);
}

static void open_log(struct copier *copier) {
    struct log_recovery recovery;
    char message[512] = "";
    int result = log_open(&copier->log, &copier->options, 0, &recovery, message, sizeof message);
    assert(result == 0);
    assert(recovery.end >= copier->confirmed);
    read_all(copier, &recovery);
}

static void crash(struct copier *copier, struct input *input) {
    copier->confirmed = log_durable(copier->log);
    bool is_known = log_end(copier->log) == copier->confirmed;
    if (is_known) log_chain(copier->log, copier->chain_confirmed);
    log_close(copier->log);
    copier->model->seed = input_byte(input);
    model_crash(copier->model);
    if (!is_known) copier->confirmed = 0; /* the next frame would need a chain hash, which is not known */
    open_log(copier);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    struct copier *copier = calloc(1, sizeof *copier);
    assert(copier);
    copier->model = model_new(1);
    copier->model->directory_exists = true;
    copier->options =
        (struct log_options){.directory = "/log", .disk = &copier->model->disk, .segment_size = SEGMENT_SIZE};
    open_log(copier);
    begin_answer(copier);
    while (input.size > 0) {
        uint8_t what = input_byte(&input) % 8;
        if (what == 0) good_frame(copier, &input);
        if (what == 1) any_header(copier, &input);
        if (what == 2) raw_bytes(copier, &input);
        if (what == 3) {
            size_t at = input_number(&input, 2);
            uint8_t bit = input_byte(&input) % 8;
            if (at < copier->size) copier->bytes[at] ^= (uint8_t)(1u << bit);
            copier->is_right = false;
        }
        if (what == 4) hand_over(copier, &input);
        if (what == 5) sync_log(copier);
        if (what == 6) crash(copier, &input);
        if (what == 7) {
            int result = log_mark(copier->log);
            assert(result == 0);
        }
        if (what >= 4 && what != 5 && what != 7) begin_answer(copier);
    }
    sync_log(copier);
    input = (struct input){0};
    crash(copier, &input);
    log_close(copier->log);
    model_free(copier->model);
    free(copier);
    return 0;
}
