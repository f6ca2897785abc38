/* archive_test.c: an archived segment equals the retired one, byte for byte; any part of it can be read alone; every
 * damage of a file is found; history reads archive and log as one sequence, and reports missing parts. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

#include "../past.h"
#include "archive.h"
#include "history.h"
#include "seekable.h"

#define FRAMES 120u
#define SEGMENTS_MAX 64u
#define LEVEL 3

struct fixture {
    struct past past;
    char root[64];
    char log_directory[96];
    char directory[96];
    struct archive archive;
    uint64_t
        bases[SEGMENTS_MAX + 1]; /* positions where the closed segments begin, and after them the end of the last one */
    size_t segments;
};

static struct fixture *new_fixture(uint64_t segment_size, size_t blob_bytes) {
    struct fixture *f = calloc(1, sizeof *f);
    MUST(f != NULL);
    strcpy(f->root, "/tmp/tarry-archive-test-XXXXXX");
    MUST(mkdtemp(f->root) != NULL);
    snprintf(f->log_directory, sizeof f->log_directory, "%s/log", f->root);
    snprintf(f->directory, sizeof f->directory, "%s/archive", f->root);
    f->archive = (struct archive){.disk = &disk_posix, .directory = f->directory, .cluster = {1, 2, 3}};
    f->past = (struct past){.random = {.state = 1}, .tasks = 50, .blob_bytes = blob_bytes};
    f->past.options =
        (struct log_options){.directory = f->log_directory, .disk = &disk_posix, .segment_size = segment_size};
    memcpy(f->past.options.cluster, f->archive.cluster, sizeof f->archive.cluster);
    past_open(&f->past);
    return f;
}

static void find_segments(struct fixture *f) {
    struct log_segment segment = {.end = log_start(f->past.log)};
    f->segments = 0;
    while (log_segment_at(f->past.log, segment.end, &segment) && segment.end != 0) {
        assert_true(f->segments < SEGMENTS_MAX);
        f->bases[f->segments++] = segment.base;
        f->bases[f->segments] = segment.end;
    }
}

static int set_up(void **state) {
    struct fixture *f = new_fixture(8192, 600);
    MUST(mkdir(f->directory, 0700) == 0);
    past_go_on(&f->past, FRAMES);
    find_segments(f);
    assert_true(f->segments > 4);
    *state = f;
    return 0;
}

static int unlink_name(void *argument, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", (const char *)argument, name);
    return unlink(path);
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    log_close(f->past.log);
    disk_posix.list(NULL, f->log_directory, unlink_name, f->log_directory);
    disk_posix.list(NULL, f->directory, unlink_name, f->directory);
    rmdir(f->log_directory);
    rmdir(f->directory);
    rmdir(f->root);
    free(f);
    return 0;
}

static struct archive_info store(struct fixture *f, uint64_t base) {
    struct archive_info info = {0};
    const char *problem;
    int error = archive_store(&f->archive, f->past.log, base, LEVEL, &info, &problem);
    if (error != 0) fail_msg("%d: %s", error, problem ? problem : strerror(-error));
    return info;
}

static uint8_t *read_whole(const char *path, size_t *out_size) {
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    off_t size = lseek(fd, 0, SEEK_END);
    uint8_t *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
    close(fd);
    *out_size = (size_t)size;
    return bytes;
}

static void write_whole(const char *path, const void *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void segment_file(const struct fixture *f, uint64_t base, char path[256]) {
    snprintf(path, 256, "%s/%016" PRIx64 ".seg", f->log_directory, base);
}

/* ---- round trip */

static void assert_unpacks_to_segment(const struct fixture *f, uint64_t base, uint64_t end) {
    char path[ARCHIVE_PATH_SIZE];
    size_t packed_size, size, room = 4096 + (size_t)(end - base);
    archive_path(&f->archive, base, path);
    uint8_t *packed = read_whole(path, &packed_size);
    segment_file(f, base, path);
    uint8_t *segment = read_whole(path, &size);
    uint8_t *unpacked = malloc(room + 1);
    assert_non_null(unpacked);
    assert_int_equal(ZSTD_decompress(unpacked, room + 1, packed, packed_size), room);
    assert_memory_equal(unpacked, segment, room);
    free(packed);
    free(segment);
    free(unpacked);
}

static void plain_zstd_unpacks_the_segment(void **state) {
    struct fixture *f = *state;
    for (size_t i = 0; i < f->segments; i++) {
        struct archive_info info = store(f, f->bases[i]);
        assert_int_equal(info.base, f->bases[i]);
        assert_int_equal(info.end, f->bases[i + 1]);
        assert_int_equal(info.frames, info.records); /* every frame has one record, because the segment has no seal */
        assert_int_equal((info.last_ns - info.first_ns) / PAST_NS_PER_FRAME + 1, info.frames);
        assert_unpacks_to_segment(f, f->bases[i], f->bases[i + 1]);
    }
}

static bool next_is_alike(struct log_cursor *a, struct archive_cursor *b, uint64_t end) {
    struct log_view left, right;
    int error = log_cursor_next(a, end, &left);
    assert_int_equal(archive_cursor_next(b, end, &right), error);
    if (error != 0) return false;
    assert_int_equal(left.header.position, right.header.position);
    assert_memory_equal(left.header.chain, right.header.chain, FRAME_CHAIN_SIZE);
    assert_memory_equal(left.body, right.body, left.header.body_size);
    assert_memory_equal(left.blob, right.blob, left.header.blob_size);
    return true;
}

/* Starts a read at each log frame in turn, in a segment that was compressed as several zstd frames. */
static void any_part_is_read_alone(void **state) {
    struct fixture *f = new_fixture(3 << 20, PAST_BLOB_MAX);
    MUST(mkdir(f->directory, 0700) == 0);
    *state = f;
    past_go_on(&f->past, 4000);
    find_segments(f);
    assert_true(f->segments == 1);
    struct archive_info info = store(f, f->bases[0]);
    assert_true(info.end - info.base > 2 * SEEKABLE_FRAME_SIZE);
    struct log_cursor *all, *log;
    struct log_view view;
    assert_int_equal(log_cursor_open(&all, f->past.log, info.base, false), 0);
    for (uint64_t i = 0; log_cursor_position(all) < info.end; i++) {
        struct archive_cursor *cursor;
        const char *problem;
        uint64_t position = log_cursor_position(all);
        assert_int_equal(log_cursor_next(all, info.end, &view), 0);
        if (i % 97 != 0) continue;
        assert_int_equal(log_cursor_open(&log, f->past.log, position, true), 0);
        assert_int_equal(archive_cursor_open(&cursor, &f->archive, info.base, position, true, &problem), 0);
        for (int count = 0; count < 30 && next_is_alike(log, cursor, info.end); count++) {
        }
        archive_cursor_close(cursor);
        log_cursor_close(log);
    }
    log_cursor_close(all);
}

/* Storing again writes the file again, because the page cache may show bytes that are not on the disk. */
static void storing_again_makes_the_file_again(void **state) {
    struct fixture *f = *state;
    char path[ARCHIVE_PATH_SIZE];
    struct stat before, after;
    store(f, f->bases[0]);
    archive_path(&f->archive, f->bases[0], path);
    assert_int_equal(stat(path, &before), 0);
    store(f, f->bases[0]);
    assert_int_equal(stat(path, &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino);
    assert_unpacks_to_segment(f, f->bases[0], f->bases[1]);
}

static void a_damaged_file_is_made_anew_from_the_log(void **state) {
    struct fixture *f = *state;
    char path[ARCHIVE_PATH_SIZE];
    store(f, f->bases[0]);
    archive_path(&f->archive, f->bases[0], path);
    assert_int_equal(truncate(path, 300), 0);
    store(f, f->bases[0]);
    assert_unpacks_to_segment(f, f->bases[0], f->bases[1]);
}

static void what_a_killed_process_left_is_swept(void **state) {
    struct fixture *f = *state;
    char path[ARCHIVE_PATH_SIZE + 8];
    uint64_t *bases;
    size_t count;
    archive_path(&f->archive, f->bases[0], path);
    strcat(path, ".tmp");
    write_whole(path, "half", 4);
    store(f, f->bases[0]); /* replaces the file that an earlier attempt left */
    assert_int_equal(access(path, F_OK), -1);
    write_whole(path, "half", 4);
    assert_int_equal(archive_list(&f->archive, &bases, &count), 0);
    assert_int_equal(count, 1);
    free(bases);
    assert_int_equal(archive_sweep(&f->archive), 0);
    assert_int_equal(access(path, F_OK), -1);
}

static void another_brokers_file_is_refused_and_kept(void **state) {
    struct fixture *f = *state;
    struct archive_info info;
    const char *problem;
    store(f, f->bases[0]);
    f->archive.cluster[0] ^= 1;
    assert_int_equal(archive_look(&f->archive, f->bases[0], &info, &problem), LOG_FOREIGN);
    assert_int_equal(archive_store(&f->archive, f->past.log, f->bases[0], LEVEL, &info, &problem), LOG_FOREIGN);
    f->archive.cluster[0] ^= 1;
    assert_int_equal(archive_look(&f->archive, f->bases[0], &info, &problem), 0);
}

static void without_a_directory_nothing_is_stored(void **state) {
    struct fixture *f = *state;
    struct archive_info info;
    const char *problem;
    rmdir(f->directory);
    assert_int_equal(archive_store(&f->archive, f->past.log, f->bases[0], LEVEL, &info, &problem), -ENOENT);
    assert_null(problem);
    assert_int_equal(archive_store(&f->archive, f->past.log, f->bases[0] + 8, LEVEL, &info, &problem), -EINVAL);
    assert_int_equal(archive_store(&f->archive, f->past.log, f->bases[f->segments], LEVEL, &info, &problem), -EINVAL);
}

/* A disk that once reports success but writes other bytes. */
static struct {
    uint64_t calls;
    uint64_t lie_at;
} liar;

static int64_t lying_pwrite(void *context, int handle, const void *data, size_t size, uint64_t offset) {
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, data, size);
    if (++liar.calls == liar.lie_at) copy[size / 2] ^= 4;
    int64_t count = disk_posix.pwrite(context, handle, copy, size, offset);
    free(copy);
    return count;
}

static void what_does_not_read_back_gets_no_name(void **state) {
    struct fixture *f = *state;
    struct archive_info info;
    struct disk disk = disk_posix;
    const char *problem;
    int error = LOG_DAMAGED;
    disk.pwrite = lying_pwrite;
    f->archive.disk = &disk;
    for (liar.lie_at = 1; error != 0; liar.lie_at++) {
        uint64_t *bases;
        size_t count;
        liar.calls = 0;
        error = archive_store(&f->archive, f->past.log, f->bases[0], LEVEL, &info, &problem);
        if (error == 0) break; /* the wrong bytes are in the summary of the archive file, which has its own checksums */
        assert_int_equal(error, LOG_DAMAGED);
        assert_non_null(problem);
        assert_int_equal(archive_list(&f->archive, &bases, &count), 0);
        free(bases);
        assert_int_equal(count, 0);
    }
    assert_in_range(liar.lie_at, 5, 10);
    f->archive.disk = &disk_posix;
}

/* ---- damage */

static int verify(const struct fixture *f, uint64_t base) {
    uint64_t at;
    const char *problem = "?";
    int error = archive_verify(&f->archive, base, NULL, &at, &problem);
    assert_true(error == 0 || problem != NULL);
    return error;
}

/* Damages every byte of a file in turn, and cuts the file to every length. */
static void any_damage_is_found(void **state) {
    struct fixture *f = *state;
    char path[ARCHIVE_PATH_SIZE];
    size_t size;
    uint64_t base = f->bases[1];
    store(f, base);
    archive_path(&f->archive, base, path);
    uint8_t *bytes = read_whole(path, &size);
    assert_int_equal(verify(f, base), 0);
    int fd = open(path, O_RDWR);
    for (size_t i = 0; i < size; i++) {
        uint8_t wrong = bytes[i] ^ (uint8_t)(1u << (i % 8));
        assert_int_equal(pwrite(fd, &wrong, 1, (off_t)i), 1);
        int error = verify(f, base);
        if (error != LOG_DAMAGED && error != LOG_VERSION) fail_msg("byte %zu of %zu: %d", i, size, error);
        assert_int_equal(pwrite(fd, &bytes[i], 1, (off_t)i), 1);
    }
    for (size_t i = 1; i < size; i += 1 + i / 50) {
        assert_int_equal(ftruncate(fd, (off_t)(size - i)), 0);
        assert_int_equal(verify(f, base), LOG_DAMAGED);
    }
    write_whole(path, bytes, size);
    assert_int_equal(verify(f, base), 0);
    assert_int_equal(ftruncate(fd, (off_t)(size + 1)), 0);
    assert_int_equal(verify(f, base), LOG_DAMAGED);
    close(fd);
    free(bytes);
}

/* Swaps the names of two intact files. */
static void a_file_under_another_name_is_found(void **state) {
    struct fixture *f = *state;
    char from[ARCHIVE_PATH_SIZE], to[ARCHIVE_PATH_SIZE];
    store(f, f->bases[0]);
    archive_path(&f->archive, f->bases[0], from);
    archive_path(&f->archive, f->bases[1], to);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(verify(f, f->bases[1]), LOG_DAMAGED);
}

/* ---- history */

struct telling {
    uint64_t frames;
    uint64_t gaps;
    struct history_gap gap; /* the last gap (range of missing frames) that a query reported */
    struct history_stats stats;
};

static struct telling tell(const struct fixture *f, const struct history_question *question) {
    struct telling telling = {0};
    struct history *history;
    struct log_view view;
    const Tarry__FrameBody *body;
    int error;
    assert_int_equal(history_open(&history, f->past.log, &f->archive, question), 0);
    uint64_t position = history_start(history);
    while ((error = history_next(history, log_durable(f->past.log), &view, &body)) >= 0) {
        if (error == HISTORY_GAP) {
            telling.gaps++;
            history_gap(history, &telling.gap);
            assert_int_equal(telling.gap.from, position);
            assert_int_equal(history_position(history), telling.gap.to);
        } else {
            telling.frames++;
            if (question->task.id == 0) assert_int_equal(view.header.position, position);
        }
        position = history_position(history);
    }
    assert_int_equal(error, LOG_END);
    assert_int_equal(history_position(history), log_durable(f->past.log));
    history_stats(history, &telling.stats);
    history_close(history);
    return telling;
}

static const struct history_question everything;

static void retire(struct fixture *f, size_t count) {
    for (size_t i = 0; i < count; i++) {
        store(f, f->bases[i]);
        assert_int_equal(log_retire(f->past.log, f->bases[i]), 0);
    }
}

static void archive_and_log_are_one_sequence(void **state) {
    struct fixture *f = *state;
    assert_int_equal(tell(f, &everything).frames, FRAMES);
    for (size_t i = 0; i < f->segments; i++) {
        store(f, f->bases[i]); /* for a while, the log and the archive both have the segment */
        assert_int_equal(tell(f, &everything).frames, FRAMES);
        assert_int_equal(log_retire(f->past.log, f->bases[i]), 0);
        struct telling telling = tell(f, &everything);
        assert_int_equal(telling.frames, FRAMES);
        assert_int_equal(telling.gaps, 0);
        assert_int_equal(telling.stats.segments_archived, i + 1);
    }
}

static void a_question_skips_archived_segments(void **state) {
    struct fixture *f = *state;
    uint64_t of_task[51] = {0}, read = 0, skipped = 0;
    struct log_cursor *cursor;
    struct log_view view;
    assert_int_equal(log_cursor_open(&cursor, f->past.log, f->bases[0], false), 0);
    while (log_cursor_next(cursor, log_durable(f->past.log), &view) == 0) {
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, view.header.body_size, view.body);
        of_task[body->records[0]->put->task->id]++;
        tarry__frame_body__free_unpacked(body, NULL);
    }
    log_cursor_close(cursor);
    retire(f, f->segments);
    for (uint64_t id = 1; id <= 50; id++) {
        struct history_question question = {.task = {.id = id}};
        struct telling telling = tell(f, &question);
        assert_true(telling.frames >= of_task[id]);
        read += telling.stats.segments_read;
        skipped += telling.stats.segments_skipped;
    }
    assert_true(skipped > read);
    /* A query by time reads only the heads of the archive files. */
    struct history_question question = {.to_ns = 5 * PAST_NS_PER_FRAME};
    struct telling telling = tell(f, &question);
    assert_int_equal(telling.frames, 5);
    assert_int_equal(telling.stats.segments_archived, 1);
}

/* The segments have a few parts each. The query does not unpack the parts that cannot name the task. */
static void a_question_reads_a_part_of_an_archived_segment(void **state) {
    struct fixture *f = *state = new_fixture(5 * SUMMARY_PART_SIZE, PAST_BLOB_MAX);
    MUST(mkdir(f->directory, 0700) == 0);
    for (uint64_t i = 0; i < 5500; i++) assert_int_equal(past_append(&f->past, 1 + i % 2000), 0);
    assert_int_equal(log_sync(f->past.log), 0);
    find_segments(f);
    retire(f, 1);
    for (uint64_t id = 200; id <= 1400; id += 97) {
        struct telling telling = tell(f, &(struct history_question){.task = {.id = id}});
        assert_int_equal(telling.frames, 3);
        assert_in_range(
            telling.stats.frames_read, 500,
            4500); /* the query reads two or three of the archive's five parts, and the log, so not all 5,500 frames */
    }
}

static void what_was_pruned_below_is_no_gap(void **state) {
    struct fixture *f = *state;
    retire(f, f->segments);
    assert_int_equal(archive_delete(&f->archive, f->bases[0]), 0);
    struct telling telling = tell(f, &everything);
    assert_int_equal(telling.gaps, 0);
    assert_in_range(telling.frames, 1, FRAMES - 1);
}

static void a_gap_is_told_with_its_range(void **state) {
    struct fixture *f = *state;
    retire(f, 4);
    assert_int_equal(archive_delete(&f->archive, f->bases[1]), 0);
    assert_int_equal(archive_delete(&f->archive, f->bases[2]), 0);
    struct telling telling = tell(f, &everything);
    assert_int_equal(telling.gaps, 1);
    assert_int_equal(telling.gap.from, f->bases[1]);
    assert_int_equal(telling.gap.to, f->bases[3]);
    assert_null(telling.gap.problem);
    assert_int_equal(archive_delete(&f->archive, f->bases[3]), 0);
    telling = tell(f, &everything);
    assert_int_equal(telling.gap.to, log_start(f->past.log));
}

static void damage_in_the_archive_does_not_stop_the_rest(void **state) {
    struct fixture *f = *state;
    char path[ARCHIVE_PATH_SIZE];
    size_t size;
    retire(f, 4);
    archive_path(&f->archive, f->bases[2], path);
    uint8_t *bytes = read_whole(path, &size);
    for (size_t at = 0; at < size; at += 41) {
        bytes[at] ^= 0x20;
        write_whole(path, bytes, size);
        bytes[at] ^= 0x20;
        struct telling telling = tell(f, &everything);
        /* A read does not touch every byte, so it may miss the damage. archive_verify checks the whole file. */
        if (telling.gaps == 0) continue;
        assert_int_equal(telling.gaps, 1);
        assert_non_null(telling.gap.problem);
        assert_int_equal(telling.gap.base, f->bases[2]);
        assert_int_equal(telling.gap.to, f->bases[3]);
        assert_in_range(telling.gap.from, f->bases[2], f->bases[3] - 8);
        assert_in_range(telling.frames, 1, FRAMES - 1);
    }
    free(bytes);
}

/* The log repeatedly retires segments while a reader reads them. */
static void a_reader_goes_over_to_the_archive(void **state) {
    struct fixture *f = *state;
    struct history *history;
    struct log_view view;
    const Tarry__FrameBody *body;
    uint64_t frames = 0, position = f->bases[0];
    size_t retired = 0;
    assert_int_equal(history_open(&history, f->past.log, &f->archive, &everything), 0);
    while (history_next(history, log_durable(f->past.log), &view, &body) == 0) {
        assert_int_equal(view.header.position, position);
        position = history_position(history);
        if (++frames % 10 == 5 && retired < f->segments) {
            store(f, f->bases[retired]);
            assert_int_equal(log_retire(f->past.log, f->bases[retired++]), 0);
        }
    }
    assert_int_equal(frames, FRAMES);
    history_close(history);
}

/* ---- erasing */

static void erased_contents_leave_the_rest_as_it_was(void **state) {
    struct fixture *f = *state;
    struct archive_cursor *cursor;
    struct log_view view;
    const char *problem;
    struct archive_range ranges[2] = {{0}};
    uint8_t secret[2][8];
    size_t count = 0, size;
    store(f, f->bases[1]);
    assert_int_equal(archive_cursor_open(&cursor, &f->archive, f->bases[1], f->bases[1], true, &problem), 0);
    for (int i = 0; archive_cursor_next(cursor, UINT64_MAX, &view) == 0; i++) {
        if (i % 4 != 1 || count == 2) continue;
        assert_true(view.header.blob_size >= 16);
        ranges[count] = (struct archive_range){frame_blob_position(view.header.position), view.header.blob_size};
        memcpy(secret[count++], view.blob, 8);
    }
    archive_cursor_close(cursor);
    assert_int_equal(archive_erase(&f->archive, f->bases[1], ranges, count, LEVEL, &problem), 0);
    assert_int_equal(verify(f, f->bases[1]), 0);
    char path[ARCHIVE_PATH_SIZE];
    archive_path(&f->archive, f->bases[1], path);
    uint8_t *packed = read_whole(path, &size);
    size_t room = 1 << 20;
    uint8_t *bytes = malloc(room);
    assert_non_null(bytes);
    size_t unpacked = ZSTD_decompress(bytes, room, packed, size);
    assert_false(ZSTD_isError(unpacked));
    for (size_t i = 0; i < count; i++) assert_null(memmem(bytes, unpacked, secret[i], 8));
    free(packed);
    free(bytes);
    struct archive_info info;
    assert_int_equal(archive_look(&f->archive, f->bases[1], &info, &problem), 0);
    assert_int_equal(info.erased, 2);
    /* Erasing the same contents again is harmless. */
    assert_int_equal(archive_erase(&f->archive, f->bases[1], ranges, count, LEVEL, &problem), 0);
    assert_int_equal(verify(f, f->bases[1]), 0);
}

static void what_is_no_content_is_not_erased(void **state) {
    struct fixture *f = *state;
    const char *problem;
    store(f, f->bases[1]);
    const struct archive_range wrong[] = {
        {f->bases[1], 8},                        /* a header */
        {frame_blob_position(f->bases[1]), 0},   /* not erased, because the content is empty */
        {frame_blob_position(f->bases[1]), 700}, /* not erased, because the range reaches into the frame's body */
        {f->bases[0], 8},                        /* not erased, because the range is before the segment */
        {f->bases[2] + 200, 8},                  /* not erased, because the range is after the segment */
        {UINT64_MAX - 3, 8},
        {frame_blob_position(f->bases[1]), UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(archive_erase(&f->archive, f->bases[1], &wrong[i], 1, LEVEL, &problem), -EINVAL);
    assert_unpacks_to_segment(f, f->bases[1], f->bases[2]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(plain_zstd_unpacks_the_segment),
        cmocka_unit_test_teardown(any_part_is_read_alone, tear_down),
        TEST(storing_again_makes_the_file_again),
        TEST(a_damaged_file_is_made_anew_from_the_log),
        TEST(what_a_killed_process_left_is_swept),
        TEST(another_brokers_file_is_refused_and_kept),
        TEST(without_a_directory_nothing_is_stored),
        TEST(what_does_not_read_back_gets_no_name),
        TEST(any_damage_is_found),
        TEST(a_file_under_another_name_is_found),
        TEST(archive_and_log_are_one_sequence),
        TEST(a_question_skips_archived_segments),
        cmocka_unit_test_teardown(a_question_reads_a_part_of_an_archived_segment, tear_down),
        TEST(what_was_pruned_below_is_no_gap),
        TEST(a_gap_is_told_with_its_range),
        TEST(damage_in_the_archive_does_not_stop_the_rest),
        TEST(a_reader_goes_over_to_the_archive),
        TEST(erased_contents_leave_the_rest_as_it_was),
        TEST(what_is_no_content_is_not_erased),
    };
    return cmocka_run_group_tests_name("archive", tests, NULL, NULL);
}
