/* fuzz_summary.c: queries a damaged summary (summary.h), alone and through a history. A damaged summary is ignored;
 * a valid one omits no frame that names the task. A forged summary, with corrected checksums, may claim anything, but
 * no reader reads beyond its segment.
 *
 * The input is a program that changes two files: the summary of a real segment of one part,
 * and the summary of PARTS parts without a segment.
 *
 *     0  flipped bits               offset, mask
 *     1  other bytes                offset, count, the bytes
 *     2  another size               size
 *     3  bytes of another place     offset, offset there, count
 *     4  all checksums corrected    -
 *     5  a number of the head       which of them, 8 bytes */
#include <assert.h>
#include <string.h>

#include "../model_disk.h"
#include "../past.h"
#include "bytes.h"
#include "fuzz.h"
#include "history.h"
#include "input.h"

#define FRAMES 12
#define TASKS 9
#define PARTS 5
#define FRAMES_OF_PARTS 40
/* Base position of the summary without a segment. The log must have no segment at this position, because model_disk.h
 * identifies a file by the last part of its name. */
#define PARTS_BASE (1u << 20)
#define FRAME_STEP 100000u /* distance between two frames: every part except the last has ten of them */
#define OPS_MAX 16
#define PAGE 4096u
#define FILE_MAX (48 * PAGE) /* the filter has one page for each 126 KiB of the parts */

struct file {
    char name[64];
    uint64_t size;
    uint8_t bytes[FILE_MAX];
};

static struct {
    struct model_disk *model;
    struct past past;
    uint64_t named[TASKS + 1]; /* number of the log's frames about the task */
    uint64_t place[FRAMES_OF_PARTS];
    uint64_t end_of_parts;
    struct file real, parts; /* original contents */
} written;

static void read_back(struct file *file, uint64_t base) {
    snprintf(file->name, sizeof(file->name), "%016" PRIx64 ".sum", base);
    const struct model_file *model_file = model_lookup(written.model, file->name);
    MUST(model_file != NULL && model_file->cached_size <= FILE_MAX);
    file->size = model_file->cached_size;
    memcpy(file->bytes, model_file->cached, file->size);
}

/* Makes frame i about task i % TASKS + 1, without a key. */
static void write_parts(void) {
    struct summary *summary = summary_new(PARTS_BASE, PARTS * SUMMARY_PART_SIZE - 8192);
    MUST(summary != NULL);
    for (uint64_t i = 0; i < FRAMES_OF_PARTS; i++) {
        Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
        Tarry__Record record = TARRY__RECORD__INIT, *records = &record;
        Tarry__TaskEnd end = TARRY__TASK_END__INIT;
        Tarry__Task task = TARRY__TASK__INIT;
        written.place[i] = PARTS_BASE + i * FRAME_STEP;
        struct frame_header header = {.position = written.place[i],
                                      .steady_ns = i,
                                      .body_size = FRAME_STEP - FRAME_HEADER_SIZE};
        task.id = 1 + i % TASKS;
        end.task = &task;
        record.fact_case = TARRY__RECORD__FACT_END;
        record.end = &end;
        body.n_records = 1;
        body.records = &records;
        summary_add(summary, &header, &body);
    }
    written.end_of_parts = summary->end;
    MUST(summary->parts == (FRAMES_OF_PARTS - 1) * FRAME_STEP / SUMMARY_PART_SIZE + 1);
    MUST(summary_write_to(summary, &written.model->disk, "/parts") == 0);
    summary_free(summary);
    read_back(&written.parts, PARTS_BASE);
}

/* Makes the summary of the log's oldest segment; counts the frames that name each task. */
static void write_real(void) {
    struct log_segment oldest;
    struct log_cursor *cursor;
    struct log_view view;
    MUST(log_oldest(written.past.log, UINT64_MAX, &oldest));
    struct summary *summary = summary_new(oldest.base, oldest.end - oldest.base);
    MUST(summary != NULL && log_cursor_open(&cursor, written.past.log, oldest.base, false) == 0);
    while (log_cursor_next(cursor, log_durable(written.past.log), &view) == 0) {
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, view.header.body_size, view.body);
        MUST(body != NULL);
        written.named[body->records[0]->put->task->id]++;
        if (view.header.position < oldest.end) summary_add(summary, &view.header, body);
        tarry__frame_body__free_unpacked(body, NULL);
    }
    log_cursor_close(cursor);
    MUST(summary->end == oldest.end && summary_write_to(summary, &written.model->disk, "/log") == 0);
    summary_free(summary);
    read_back(&written.real, oldest.base);
}

static void write_once(void) {
    written.model = model_new(1);
    written.model->directory_exists = true;
    written.past = (struct past){.random = {.state = 1}, .tasks = TASKS, .blob_bytes = 200};
    written.past.options =
        (struct log_options){.directory = "/log", .disk = &written.model->disk, .segment_size = 1536};
    past_open(&written.past);
    past_go_on(&written.past, FRAMES);
    write_real();
    write_parts();
}

static void put_file(const char *directory, const struct file *file) {
    struct disk *disk = &written.model->disk;
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", directory, file->name);
    (void)disk->unlink(disk->context, path);
    int handle = disk->open(disk->context, path, O_CREAT | O_WRONLY, 0600);
    assert(handle >= 0);
    int error = disk_write_all(disk, handle, file->bytes, file->size, 0);
    assert(error == 0);
    disk->close(disk->context, handle);
    /* Sync the directory, because otherwise the model disk would remember every deleted file. */
    disk->sync_directory(disk->context, directory);
}

static void forge(struct file *file) {
    if (file->size < PAGE) return;
    uint64_t parts = get_u64(file->bytes + 64);
    uint64_t head = parts < FILE_MAX ? (128 + 8 * parts + PAGE - 1) / PAGE * PAGE : PAGE;
    if (head > file->size) head = file->size;
    put_u64(file->bytes + 72, frame_sum(file->bytes + 128, head - 128));
    put_u64(file->bytes + 120, frame_sum(file->bytes, 120));
    for (uint64_t at = head; at + PAGE <= file->size; at += PAGE)
        put_u64(file->bytes + at + PAGE - 8, frame_sum(file->bytes + at, PAGE - 8));
}

/* Applies one opcode. Returns true if the file is forged. */
static bool run_op(struct file *file, struct input *input) {
    uint64_t at, from, count;
    size_t size;
    const uint8_t *bytes;
    switch (input_byte(input) % 6) {
    case 0:
        at = input_number(input, 2);
        uint8_t mask = input_byte(input);
        if (at < file->size) file->bytes[at] ^= mask;
        return false;
    case 1:
        at = input_number(input, 2);
        bytes = input_bytes(input, input_byte(input), &size);
        if (at + size <= file->size && size > 0) memcpy(file->bytes + at, bytes, size);
        return false;
    case 2:
        file->size = input_number(input, 2);
        return false;
    case 3:
        at = input_number(input, 2), from = input_number(input, 2), count = input_byte(input);
        if (at + count <= file->size && from + count <= file->size)
            memmove(file->bytes + at, file->bytes + from, count);
        return false;
    case 4:
        forge(file);
        return true;
    default:
        at = 16 + 8 * (input_byte(input) %
                       24ull); /* position of one of the numbers in the header, or of the first one in the table */
        put_u64(file->bytes + at, input_number(input, 8));
        return false;
    }
}

static bool covers(const struct summary_answer *answer, uint64_t position) {
    for (size_t i = 0; i < answer->count; i++)
        if (answer->ranges[i].from <= position && position < answer->ranges[i].to) return true;
    return false;
}

static void ask_parts(bool is_whole, bool is_forged, uint64_t id) {
    struct summary_answer answer;
    uint64_t hash = id != 0 ? summary_task_hash(id) : 0;
    int error = summary_ask(&answer, &written.model->disk, "/parts", PARTS_BASE, hash);
    assert(error == 0 || error == 1);
    assert(error == 0 || !is_whole);
    for (size_t i = 0; i < answer.count; i++) {
        assert(answer.ranges[i].from >= PARTS_BASE && answer.ranges[i].from < answer.ranges[i].to);
        assert(answer.ranges[i].to <= answer.end);
        assert(i == 0 || answer.ranges[i - 1].to < answer.ranges[i].from);
    }
    if (error == 0 && !is_forged) {
        assert(answer.end == written.end_of_parts && answer.first_ns == 0 && answer.last_ns == FRAMES_OF_PARTS - 1);
        for (uint64_t i = 0; i < FRAMES_OF_PARTS; i++)
            assert((id != 0 && 1 + i % TASKS != id) || covers(&answer, written.place[i]));
    }
    summary_answer_deinit(&answer);
}

static void ask_history(bool is_whole, bool is_forged, uint64_t id) {
    struct history *history;
    struct history_stats stats;
    struct log_view view;
    const Tarry__FrameBody *body;
    uint64_t count = 0, end = log_durable(written.past.log);
    struct history_question question = {.task = {.id = id}};
    int error = history_open(&history, written.past.log, NULL, &question);
    assert(error == 0);
    while ((error = history_next(history, end, &view, &body)) == 0) {
        assert(body != NULL && view.header.position < end);
        count += body->records[0]->put->task->id == id;
    }
    history_stats(history, &stats);
    assert(error == LOG_END || (is_forged && error == LOG_DAMAGED));
    assert(is_forged || count == (id <= TASKS ? written.named[id] : 0));
    assert(!is_whole || id <= TASKS || stats.segments_skipped > 0);
    history_close(history);
}

static bool is_same(const struct file *a, const struct file *b) {
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct file real, parts;
    struct input input = {data, size}, again = input;
    bool is_forged = false;
    if (written.model == NULL) write_once();
    real = written.real;
    parts = written.parts;
    for (int i = 0; i < OPS_MAX && input.size > 0; i++) is_forged |= run_op(&real, &input);
    for (int i = 0; i < OPS_MAX && again.size > 0; i++) run_op(&parts, &again);
    put_file("/log", &real);
    for (uint64_t id = 1; id <= TASKS + 3; id++) ask_history(is_same(&real, &written.real), is_forged, id);
    put_file("/parts", &parts);
    for (uint64_t id = 0; id <= TASKS + 3; id++) ask_parts(is_same(&parts, &written.parts), is_forged, id);
    return 0;
}
