/* fuzz_archive.c: reads a damaged archive file (archive.h, seekable.h) and the small files beside it
 * (archive_keep.h). Damage is reported by a result with a phrase. Frames that a reader returned before it noticed
 * are the archived ones. history reports the missing part and returns the rest.
 *
 * The input is a program that damages the files. Each line: an opcode, what it does or writes, and its operands.
 *
 *     0  flipped bits                      offset, mask
 *     1  other bytes                       offset, count, the bytes
 *     2  another size                      size
 *     3  bytes of another place            offset, offset there, count
 *     4  a correct checksum for the head   -
 *     5  correct checksums and size        -
 *     6  a hold file with these bytes      count, the bytes
 *     7  an owner file with these bytes    count, the bytes
 *
 * After opcodes 4 and 5 the file is forged, not damaged, and may return other frames than the archived ones. */
#include <assert.h>
#include <string.h>

#include "../model_disk.h"
#include "../past.h"
#include "archive_internal.h"
#include "archive_keep.h"
#include "bytes.h"
#include "fuzz.h"
#include "history.h"
#include "input.h"

#define FRAMES 12
#define OPS_MAX 16
#define SIZE_MAX_OF_FILE (64u << 10)
#define HEAD_END (SEEKABLE_SKIPPABLE_SIZE + ARCHIVE_HEAD_SIZE)

static struct {
    struct model_disk *model;
    struct past past;
    struct archive archive;
    struct archive_info info;
    uint8_t *data; /* the file as it was written */
    uint64_t size;
    struct frame_header frames[FRAMES];
    size_t frame_count;
} written;

static char file_name[64];

static void write_once(void) {
    const char *problem;
    struct archive_cursor *cursor;
    struct log_segment oldest;
    struct log_view view;
    written.model = model_new(1);
    written.model->directory_exists = true;
    written.past = (struct past){.random = {.state = 1}, .tasks = 9, .blob_bytes = 200};
    written.past.options =
        (struct log_options){.directory = "/log", .disk = &written.model->disk, .segment_size = 1536};
    written.archive = (struct archive){.disk = &written.model->disk, .directory = "/archive"};
    past_open(&written.past);
    past_go_on(&written.past, FRAMES);
    bool found = log_oldest(written.past.log, UINT64_MAX, &oldest);
    assert(found);
    int error = archive_store(&written.archive, written.past.log, oldest.base, 3, &written.info, &problem);
    assert(error == 0);
    error = archive_cursor_open(&cursor, &written.archive, oldest.base, oldest.base, false, &problem);
    assert(error == 0);
    while (archive_cursor_next(cursor, UINT64_MAX, &view) == 0) written.frames[written.frame_count++] = view.header;
    archive_cursor_close(cursor);
    error = log_retire(written.past.log, oldest.base);
    assert(error == 0 && written.frame_count > 2);
    snprintf(file_name, sizeof(file_name), "%016" PRIx64 ".seg.zst", oldest.base);
    const struct model_file *file = model_lookup(written.model, file_name);
    written.size = file->cached_size;
    written.data = malloc(written.size);
    MUST(written.data != NULL);
    memcpy(written.data, file->cached, written.size);
}

struct target {
    uint8_t bytes[SIZE_MAX_OF_FILE];
    uint64_t size;
    bool is_forged;
};

static void put_file(const char *name, const void *bytes, uint64_t size) {
    struct disk *disk = &written.model->disk;
    char path[128];
    snprintf(path, sizeof(path), "/archive/%s", name);
    (void)disk->unlink(disk->context, path);
    int handle = disk->open(disk->context, path, O_CREAT | O_WRONLY, 0600);
    assert(handle >= 0);
    int error = disk_write_all(disk, handle, bytes, size, 0);
    assert(error == 0);
    disk->close(disk->context, handle);
    disk->sync_directory(disk->context, "/archive");
}

static void forge(struct target *target, bool whole) {
    uint8_t *head = target->bytes + SEEKABLE_SKIPPABLE_SIZE;
    if (target->size < HEAD_END) return;
    if (whole) {
        put_u64(head + 136, target->size);
        put_u64(head + 144, frame_sum(target->bytes + HEAD_END, target->size - HEAD_END));
    }
    put_u64(head + 240, frame_sum(head, 240));
    target->is_forged = true;
}

static void small_file(struct input *input, const char *name) {
    size_t size;
    const uint8_t *bytes = input_bytes(input, input_byte(input), &size);
    put_file(name, bytes, size);
}

static void copy_within(struct target *target, struct input *input) {
    uint64_t to = input_number(input, 2), from = input_number(input, 2), count = input_byte(input);
    if (to + count <= target->size && from + count <= target->size)
        memmove(target->bytes + to, target->bytes + from, count);
}

static void other_bytes(struct target *target, struct input *input) {
    uint64_t to = input_number(input, 2);
    size_t size;
    const uint8_t *bytes = input_bytes(input, input_byte(input), &size);
    if (to + size <= target->size && size > 0) memcpy(target->bytes + to, bytes, size);
}

static void run_op(struct target *target, struct input *input) {
    uint64_t at;
    switch (input_byte(input) % 8) {
    case 0:
        at = input_number(input, 2);
        uint8_t mask = input_byte(input);
        if (at < target->size) target->bytes[at] ^= mask;
        break;
    case 1:
        other_bytes(target, input);
        break;
    case 2:
        target->size = input_number(input, 2);
        break;
    case 3:
        copy_within(target, input);
        break;
    case 4:
        forge(target, false);
        break;
    case 5:
        forge(target, true);
        break;
    case 6:
        small_file(input, "00000001.hold");
        break;
    default:
        small_file(input, "owner");
    }
}

/* Checks that the result is one that a reader may return, with a phrase. */
static void is_told(int error, const char *problem) {
    assert(error == LOG_DAMAGED || error == LOG_VERSION || error == LOG_FOREIGN);
    assert(problem != NULL && strlen(problem) > 5);
}

static void read_frames(const struct target *target, bool is_whole) {
    struct archive_cursor *cursor;
    struct log_view view;
    const char *problem;
    size_t count = 0;
    int error = archive_cursor_open(&cursor, &written.archive, written.info.base, written.info.base, true, &problem);
    if (error != 0) {
        is_told(error, problem);
        return;
    }
    while ((error = archive_cursor_next(cursor, UINT64_MAX, &view)) == 0) {
        if (!target->is_forged)
            assert(count < written.frame_count &&
                   memcmp(view.header.chain, written.frames[count].chain, FRAME_CHAIN_SIZE) == 0);
        count++;
    }
    if (error != LOG_END) is_told(error, archive_cursor_problem(cursor));
    assert(!is_whole || (error == LOG_END && count == written.frame_count));
    archive_cursor_close(cursor);
}

static void tell(const struct target *target) {
    struct history *history;
    struct log_view view;
    const Tarry__FrameBody *body;
    int error = history_open(&history, written.past.log, &written.archive, &(struct history_question){0});
    assert(error == 0);
    uint64_t position = history_start(history), frames = 0, end = log_durable(written.past.log);
    while ((error = history_next(history, end, &view, &body)) >= 0) {
        struct history_gap gap;
        if (error == HISTORY_GAP) {
            history_gap(history, &gap);
            assert(gap.from == position && gap.to > gap.from && gap.problem != NULL);
        } else {
            frames++;
        }
        assert(history_position(history) > position);
        position = history_position(history);
    }
    assert(error == LOG_END && position == end);
    assert(target->is_forged || frames <= FRAMES);
    assert(target->is_forged || frames >= FRAMES - written.frame_count);
    history_close(history);
}

static void keep(void) {
    struct archive_holds holds;
    struct archive_owner owner;
    bool all;
    int error = archive_holds_read(&written.archive, &holds);
    assert(error == 0 && holds.count <= 1);
    assert(holds.count == 0 || (holds.holds[0].number == 1 && strlen(holds.holds[0].reason) < ARCHIVE_REASON_SIZE));
    (void)archive_held_by(&holds, &written.info, &all);
    assert(all == (holds.unreadable != 0));
    archive_holds_free(&holds);
    error = archive_owner_read(&written.archive, &owner);
    assert(error == 0 || error == -ENOENT || error == LOG_DAMAGED || error == LOG_VERSION);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct target target;
    struct input input = {data, size};
    uint64_t at;
    const char *problem = NULL;
    if (written.model == NULL) write_once();
    memset(&target, 0, sizeof(target));
    memcpy(target.bytes, written.data, written.size);
    target.size = written.size;
    for (int i = 0; i < OPS_MAX && input.size > 0; i++) run_op(&target, &input);
    put_file(file_name, target.bytes, target.size);
    bool is_whole = target.size == written.size && memcmp(target.bytes, written.data, written.size) == 0;
    int error = archive_verify(&written.archive, written.info.base, NULL, &at, &problem);
    assert(!is_whole || error == 0);
    assert(is_whole || target.is_forged || error != 0);
    if (error != 0) is_told(error, problem);
    read_frames(&target, is_whole);
    tell(&target);
    keep();
    return 0;
}
