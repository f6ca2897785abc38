/* fuzz_segments.c: opens a log of several segments with damaged files (LOG-5, F-6 to F-9). The log opens, or
 * log_open refuses it with a sentence; a read-only reader changes nothing and finds the same. The log keeps exactly the
 * written frames, without a gap, and at least those known to be durable. After an opening the log can be written to,
 * and has the new frames when it is opened again.
 *
 * The input: where the scan starts, which position is known to be durable, and a program that damages the files: an
 * opcode, the number of a file, and operands.
 *
 *     0  flipped bits                             offset, mask
 *     1  other bytes                              offset, count, the bytes
 *     2  zeros                                    offset, count
 *     3  bytes of another file, or place          offset, file, offset there, count / 8
 *     4  the file is truncated                    size
 *     5  the file is deleted
 *     6  the file has another name                base
 *     7  a correct checksum for a segment's header    -
 *     8  a correct checksum for a frame's header  offset / 8
 *
 * After opcodes 7 and 8 the files are forged, not damaged, and may contain other frames than the written ones. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "../model_disk.h"
#include "bytes.h"
#include "fuzz.h"
#include "input.h"
#include "log.h"

#define SEGMENT_SIZE 1536u
#define HEADER_SIZE 4096u
#define FILES_MAX 8
#define FRAMES 14
#define OPS_MAX 24

struct file {
    char name[32];
    uint8_t *data;
    uint64_t size;
};

/* The original log: made once, then copied. */
static struct {
    struct file files[FILES_MAX];
    size_t file_count;
    struct frame_header frames[FRAMES];
    uint64_t end;
    uint64_t synced[FRAMES + 1]; /* ends of the durable part of the log, after each frame */
} written;

static void append(struct log *log, size_t i) {
    static uint8_t bytes[600];
    for (size_t j = 0; j < sizeof(bytes); j++) bytes[j] = (uint8_t)(i * 31 + j);
    bool is_seal = i % 5 == 4;
    struct log_piece piece = {bytes, is_seal ? 0 : i * 37 % 300};
    struct log_frame frame = {.type = is_seal ? FRAME_SEAL : FRAME_COMMIT, .epoch = 1 + (uint32_t)i / 7};
    frame.position = log_end(log);
    frame.steady_ns = frame.wall_ns = 1000 + i;
    frame.body = bytes + 1;
    frame.body_size = is_seal ? 0 : 20 + (uint32_t)(i * 53 % 200);
    frame.pieces = &piece;
    frame.piece_count = is_seal ? 0 : 1;
    int result = log_append(log, &frame);
    assert(result == 0);
    if (i % 3 == 2 || is_seal) result = log_sync(log);
    assert(result == 0);
    written.synced[i + 1] = log_durable(log);
}

static void write_once(void) {
    struct model_disk *model = model_new(1);
    model->directory_exists = true;
    struct log_options options = {.directory = "/log", .disk = &model->disk, .segment_size = SEGMENT_SIZE};
    struct log_recovery recovery;
    struct log *log;
    struct log_cursor *cursor;
    struct log_view view;
    char message[512];
    int result = log_open(&log, &options, 0, &recovery, message, sizeof(message));
    assert(result == 0);
    for (size_t i = 0; i < FRAMES; i++) append(log, i);
    result = log_write(log);
    assert(result == 0);
    written.end = log_end(log);
    result = log_cursor_open(&cursor, log, LOG_POSITION_FIRST, false);
    assert(result == 0);
    for (size_t i = 0; i < FRAMES; i++) {
        result = log_cursor_next(cursor, UINT64_MAX, &view);
        assert(result == 0);
        written.frames[i] = view.header;
    }
    log_cursor_close(cursor);
    log_close(log);
    for (size_t i = 0; i < MODEL_FILES_MAX; i++) {
        if (strstr(model->cached[i].name, ".seg") == NULL) continue;
        struct model_file *from = &model->files[model->cached[i].file];
        struct file *file = &written.files[written.file_count++];
        memcpy(file->name, model->cached[i].name, sizeof(file->name));
        file->size = from->cached_size;
        file->data = malloc(file->size);
        memcpy(file->data, from->cached, file->size);
    }
    assert(written.file_count >= 3);
    model_free(model);
}

static struct model_disk *copy_of_it(void) {
    struct model_disk *model = model_new(1);
    model->directory_exists = true;
    for (size_t i = 0; i < written.file_count; i++) {
        struct model_file *file = &model->files[model->file_count];
        file->cached_size = file->durable_size = written.files[i].size;
        file->cached = malloc(file->cached_size);
        file->durable = malloc(file->durable_size);
        memcpy(file->cached, written.files[i].data, file->cached_size);
        memcpy(file->durable, written.files[i].data, file->durable_size);
        memcpy(model->cached[i].name, written.files[i].name, sizeof(written.files[i].name));
        model->cached[i].file = model->file_count++;
        model->durable[i] = model->cached[i];
    }
    model->entry_end = (int)written.file_count;
    return model;
}

/* ---- damage */

static void overwrite(struct model_file *file, uint64_t offset, const void *data, size_t size) {
    if (offset > file->cached_size || size > file->cached_size - offset) return;
    if (size > 0) memmove(file->cached + offset, data, size);
}

static void mend(struct model_file *file, uint64_t at, size_t summed) {
    if (at + summed + 8 <= file->cached_size) put_u64(file->cached + at + summed, frame_sum(file->cached + at, summed));
}

/* Applies one opcode. Returns true if the files are forged. */
static bool damage(struct model_disk *model, struct input *input) {
    static const uint8_t zeros[1024];
    unsigned what = input_byte(input) % 9;
    size_t number = input_byte(input) % written.file_count, size;
    struct model_file *file = &model->files[number], *other;
    struct model_entry *entry = &model->cached[number];
    uint64_t offset = what <= 4 ? input_number(input, 2) : 0;
    const uint8_t *bytes;
    switch (what) {
    case 0:
        if (offset < file->cached_size) file->cached[offset] ^= input_byte(input);
        break;
    case 1:
        bytes = input_bytes(input, input_byte(input) % 64, &size);
        overwrite(file, offset, bytes, size);
        break;
    case 2:
        size = input_number(input, 2) % sizeof(zeros);
        overwrite(file, offset, zeros, size < file->cached_size - offset ? size : 0);
        break;
    case 3:
        other = &model->files[input_byte(input) % written.file_count];
        number = input_number(input, 2);
        size = (size_t)8 * input_byte(input);
        if (number + size <= other->cached_size) overwrite(file, offset, other->cached + number, size);
        break;
    case 4:
        if (offset < file->cached_size) file->cached_size = offset;
        break;
    case 5:
        entry->name[0] = 0;
        break;
    case 6:
        snprintf(entry->name, sizeof(entry->name), "%016" PRIx64 ".seg", input_number(input, 2));
        break;
    case 7:
        mend(file, 0, 112);
        return true;
    default:
        mend(file, HEADER_SIZE + 8ull * input_byte(input), FRAME_HEADER_SIZE - 8);
        return true;
    }
    return false;
}

/* Writes the damage to the disk, not to a cache. */
static void settle(struct model_disk *model) {
    for (size_t i = 0; i < written.file_count; i++) {
        struct model_file *file = &model->files[i];
        memcpy(file->durable, file->cached, file->cached_size);
        file->durable_size = file->cached_size;
        model->durable[i] = model->cached[i];
    }
}

/* ---- checks */

static bool is_as_written(const struct frame_header *header) {
    for (size_t i = 0; i < FRAMES; i++)
        if (written.frames[i].position == header->position)
            return memcmp(&written.frames[i], header, sizeof(*header)) == 0;
    return false;
}

/* Reads every frame from the start to the end. Frames of segments that were not scanned may be damaged. */
static void read_all(struct log *log, const struct log_recovery *recovery, uint64_t scan_from, bool forged) {
    struct log_cursor *cursor;
    struct log_view view;
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint64_t at = recovery->start;
    bool first = true;
    int result = log_cursor_open(&cursor, log, recovery->start, true);
    assert(result == 0);
    for (; (result = log_cursor_next(cursor, UINT64_MAX, &view)) == 0; first = false) {
        assert(view.header.position == at && view.header.synced_to <= at);
        assert(view.header.body_sum == frame_sum(view.body, view.header.body_size));
        if (!(view.header.flags & FRAME_FLAG_ERASED))
            assert(view.header.blob_sum == frame_sum(view.blob, view.header.blob_size));
        if (scan_from <= recovery->start && !first) { /* only the scan checks the chain, so a frame before the scan's
                                                         start may belong to another chain */
            frame_chain(chain, &view.header, view.body, chain);
            assert(memcmp(chain, view.header.chain, sizeof(chain)) == 0);
        }
        memcpy(chain, view.header.chain, sizeof(chain));
        if (!forged && at >= scan_from) assert(is_as_written(&view.header));
        at += frame_size(view.header.body_size, view.header.blob_size);
    }
    if (result == LOG_END)
        assert(log_cursor_position(cursor) == recovery->end && at == recovery->end);
    else
        assert(result == LOG_DAMAGED && at < scan_from);
    log_cursor_close(cursor);
}

static int try_open(const struct log_options *options, uint64_t scan_from, bool forged, struct log_recovery *recovery,
                    bool then_append) {
    struct log *log = NULL;
    char message[512] = "";
    int result = log_open(&log, options, scan_from, recovery, message, sizeof(message));
    if (result != 0) {
        assert(result == LOG_DAMAGED || result == LOG_VERSION || result == LOG_FOREIGN);
        assert(log == NULL && strlen(message) > 20);
        return result;
    }
    assert(recovery->end >= recovery->start && recovery->end >= options->durable_min);
    read_all(log, recovery, scan_from, forged);
    if (then_append) {
        struct log_frame frame = {.type = FRAME_COMMIT, .epoch = recovery->epoch, .position = log_end(log)};
        frame.body = "more", frame.body_size = 4;
        result = log_append(log, &frame);
        if (result == 0) result = log_sync(log);
        assert(result == 0);
        log_chain(log, recovery->chain);
        recovery->end = log_end(log);
        recovery->start = log_start(log);
    }
    log_close(log);
    return 0;
}

static bool any_left(const struct model_disk *model) {
    for (size_t i = 0; i < written.file_count; i++)
        if (model->cached[i].name[0] != 0) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1024) return 0;
    if (written.file_count == 0) write_once();
    struct input input = {data, size};
    struct model_disk *model = copy_of_it();
    struct log_options options = {.directory = "/log", .disk = &model->disk, .segment_size = SEGMENT_SIZE};
    uint64_t scan_from = input_byte(&input) % 2 ? LOG_POSITION_FIRST + input_number(&input, 2) : 0;
    options.durable_min = written.synced[input_byte(&input) % (FRAMES + 1)];
    bool forged = false;
    for (unsigned i = 0; i < OPS_MAX && input.size > 0; i++) forged = damage(model, &input) || forged;
    settle(model);

    if (any_left(model)) {
        struct log_recovery recovery, same, again;
        options.read_only = true;
        uint64_t calls = model->calls;
        int read_only = try_open(&options, scan_from, forged, &same, false);
        assert(model->calls == calls); /* the reader made no call that changes the disk */
        model_kill(model);
        options.read_only = false;
        int result = try_open(&options, scan_from, forged, &recovery, true);
        assert(result == read_only);
        if (result == 0) {
            assert(same.start == recovery.start && same.end < recovery.end && same.cut_at == recovery.cut_at);
            model_crash(model); /* all writes on which the log depends must have been synced */
            result = try_open(&options, scan_from, true, &again, false);
            assert(result == 0 && again.cut_bytes == 0);
            assert(again.end == recovery.end && again.start == recovery.start);
            assert(memcmp(again.chain, recovery.chain, FRAME_CHAIN_SIZE) == 0);
        }
    }
    model_free(model);
    return 0;
}
