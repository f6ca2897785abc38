/* log_error_test.c: for every n, the n-th call of the disk or of the allocator fails while the log opens, rolls, is
 * read and retired (F-4, F-5, F-11); and segment headers that are invalid. The caller gets the error, or the
 * result is correct; durable frames are still there afterwards. Uses the model disk with a layer that counts every
 * call, and the linker's --wrap for allocations. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../model_disk.h"
#include "log.h"

static struct { /* the call that fails */
    bool of_memory;
    uint64_t left; /* number of calls up to the failing one; 0: no call fails */
    bool met;
    unsigned inside; /* above 0: the model disk is running, and its own allocations must not fail */
} plan;

static bool strikes(bool of_memory) {
    if (plan.inside > 0 || plan.of_memory != of_memory || plan.left == 0 || --plan.left > 0) return false;
    plan.met = true;
    return true;
}

/* ---- the allocator */

#define ALLOCATING(name, parameters, arguments)                                                                        \
    void *__real_##name parameters;                                                                                    \
    void *__wrap_##name parameters;                                                                                    \
    void *__wrap_##name parameters {                                                                                   \
        return strikes(true) ? NULL : __real_##name arguments;                                                         \
    }

ALLOCATING(malloc, (size_t size), (size))
ALLOCATING(calloc, (size_t count, size_t size), (count, size))
ALLOCATING(realloc, (void *old, size_t size), (old, size))

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text) {
    return strikes(true) ? NULL : __real_strdup(text);
}

/* ---- the disk */

#define CALLING(type, name, parameters, arguments)                                                                     \
    static type failing_##name parameters {                                                                            \
        if (strikes(false)) return -EIO;                                                                               \
        const struct model_disk *model = context;                                                                      \
        plan.inside++;                                                                                                 \
        type result = model->disk.name arguments;                                                                      \
        plan.inside--;                                                                                                 \
        return result;                                                                                                 \
    }

CALLING(int, open, (void *context, const char *path, int flags, int mode), (context, path, flags, mode))
CALLING(int64_t, pread, (void *context, int handle, void *out, size_t size, uint64_t at),
        (context, handle, out, size, at))
CALLING(int64_t, pwrite, (void *context, int handle, const void *data, size_t size, uint64_t at),
        (context, handle, data, size, at))
CALLING(int, datasync, (void *context, int handle), (context, handle))
CALLING(int, sync, (void *context, int handle), (context, handle))
CALLING(int, allocate, (void *context, int handle, uint64_t size), (context, handle, size))
CALLING(int64_t, size, (void *context, int handle), (context, handle))
CALLING(int, rename, (void *context, const char *from, const char *to), (context, from, to))
CALLING(int, unlink, (void *context, const char *path), (context, path))
CALLING(int, sync_directory, (void *context, const char *path), (context, path))
CALLING(int, make_directory, (void *context, const char *path, int mode), (context, path, mode))

/* While the log stores a name in this callback, its allocations count. */
static int failing_list(void *context, const char *path, int (*each)(void *argument, const char *name),
                        void *argument) {
    const struct model_disk *model = context;
    return strikes(false) ? -EIO : model->disk.list(context, path, each, argument);
}

/* Closes the descriptor, as Linux does even if close returns an error. */
static int failing_close(void *context, int handle) {
    const struct model_disk *model = context;
    int result = model->disk.close(context, handle);
    return strikes(false) ? -EIO : result;
}

/* ---- a log with work to do */

struct fx {
    struct model_disk *model;
    struct disk disk;
    struct log_options options;
    struct log *log;
    char message[512];
    uint64_t durable; /* end of the log after the last successful sync */
};

static struct fx *fx_new(void) {
    struct fx *f = calloc(1, sizeof(*f));
    f->model = model_new(1);
    f->disk = (struct disk){
        .context = f->model,
        .open = failing_open,
        .close = failing_close,
        .pread = failing_pread,
        .pwrite = failing_pwrite,
        .datasync = failing_datasync,
        .sync = failing_sync,
        .allocate = failing_allocate,
        .size = failing_size,
        .rename = failing_rename,
        .unlink = failing_unlink,
        .sync_directory = failing_sync_directory,
        .list = failing_list,
        .make_directory = failing_make_directory,
    };
    f->options = (struct log_options){.directory = "/d/log", .disk = &f->disk, .segment_size = 4096};
    return f;
}

static void fx_free(struct fx *f) {
    log_close(f->log);
    model_free(f->model);
    free(f);
}

static int open_log(struct fx *f) {
    struct log_recovery recovery;
    f->message[0] = 0;
    return log_open(&f->log, &f->options, 0, &recovery, f->message, sizeof(f->message));
}

static void close_log(struct fx *f) {
    log_close(f->log);
    f->log = NULL;
    model_kill(f->model);
}

static int append(struct fx *f, uint16_t type, uint32_t size) {
    static uint8_t bytes[300000];
    struct log_piece piece = {bytes, 64};
    return log_append(f->log, &(struct log_frame){.type = type,
                                                  .epoch = 1,
                                                  .position = log_end(f->log),
                                                  .steady_ns = 1,
                                                  .wall_ns = 1,
                                                  .body = bytes,
                                                  .body_size = size,
                                                  .pieces = &piece,
                                                  .piece_count = type == FRAME_COMMIT});
}

static int append_all(struct fx *f) {
    static const uint32_t sizes[] = {100, 3000, 3000, 290000, 100, 0};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        int error = append(f, sizes[i] > 0 ? FRAME_COMMIT : FRAME_SEAL, sizes[i]);
        if (error == 0) error = log_sync(f->log);
        if (error != 0) return error;
        f->durable = log_durable(f->log);
    }
    return 0;
}

static int read_all(struct fx *f, bool with_blobs) {
    struct log_cursor *cursor;
    struct log_view view;
    uint8_t bytes[64];
    int error = log_cursor_open(&cursor, f->log, log_start(f->log), with_blobs);
    if (error != 0) return error;
    while ((error = log_cursor_next(cursor, log_durable(f->log), &view)) == 0) {
        error = log_read(f->log, view.header.position, bytes, sizeof(bytes));
        if (error != 0) break;
    }
    uint64_t at = log_cursor_position(cursor);
    log_cursor_close(cursor);
    if (error == LOG_END) assert_int_equal(at, log_durable(f->log));
    return error == LOG_END ? 0 : error;
}

static int live(struct fx *f) {
    struct log_segment oldest;
    int error = open_log(f);
    if (error != 0 && f->message[0] == 0) fail_msg("%d without a sentence", error);
    if (error == 0) error = append_all(f);
    if (error == 0) error = read_all(f, true);
    if (error == 0) error = read_all(f, false);
    if (error == 0 && log_oldest(f->log, log_durable(f->log), &oldest)) error = log_retire(f->log, oldest.base);
    return error;
}

/* Lets call number `n` fail while a log is used. Before that, the log is used `lives` times without a failure. Returns
 * false if there were fewer than `n` calls. */
static bool try(bool of_memory, unsigned lives, uint64_t n) {
    struct fx *f = fx_new();
    for (unsigned i = 0; i < lives; i++) {
        assert_int_equal(live(f), 0);
        if (i == 0) assert_int_equal(append(f, FRAME_COMMIT, 50), 0); /* the last frames are written but not synced */
        assert_int_equal(log_write(f->log), 0);
        close_log(f);
        f->model->disk.close(f->model, f->model->disk.open(f->model, "/d/log/next.tmp", O_CREAT | O_RDWR, 0600));
        f->model->disk.close(f->model, f->model->disk.open(f->model, "/d/log/large.tmp", O_CREAT | O_RDWR, 0600));
    }
    plan.of_memory = of_memory;
    plan.met = false;
    plan.left = n;
    int error = live(f);
    plan.left = 0;
    if (error != 0 && (!plan.met || error != (of_memory ? -ENOMEM : -EIO)))
        fail_msg("call %" PRIu64 " of %s, life %u: %d %s", n, of_memory ? "memory" : "the disk", lives, error,
                 f->message);
    close_log(f);
    if (open_log(f) != 0) fail_msg("after call %" PRIu64 ", life %u: %s", n, lives, f->message);
    assert_true(log_end(f->log) >= f->durable); /* no acknowledged frame is lost */
    assert_int_equal(read_all(f, true), 0);
    fx_free(f);
    return plan.met;
}

static void every_failing_call_of_the_disk_is_reported(void **state) {
    for (unsigned lives = 0; lives < 3; lives++)
        for (uint64_t n = 1; try(false, lives, n); n++) {
        }
}

static void every_failing_allocation_is_reported(void **state) { /* F-11 */
    for (unsigned lives = 0; lives < 3; lives++)
        for (uint64_t n = 1; try(true, lives, n); n++) {
        }
}

/* ---- headers that no version of Tarry wrote, with correct checksums (FORMAT.md) */

static void a_header_that_makes_no_sense_is_refused(void **state) {
    static const struct {
        size_t at, size;
        uint64_t value;
        const char *says;
    } cases[] = {
        {12, 4, 100, "has an invalid header"}, /* size of the header, with an invalid value */
        {72, 8, 1, NULL},                      /* field: a time, for which any value is accepted */
        {16, 8, 8, "has an invalid header"},   /* field: base, with a value below the first position */
        {16, 8, LOG_POSITION_FIRST + 1, "has an invalid header"},
        {16, 8, UINT64_MAX / 2 & ~7ull, "has an invalid header"},
        {24, 8, 4097, "has an invalid header"}, /* capacity */
        {24, 8, UINT64_MAX & ~7ull, "has an invalid header"},
        {200, 8, 1, "not zero"}, /* bytes after the fields of the header */
        {0, 1, 'X', "is not a segment"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fx *f = fx_new();
        assert_int_equal(open_log(f), 0);
        close_log(f);
        char name[32];
        snprintf(name, sizeof(name), "%016" PRIx64 ".seg", (uint64_t)LOG_POSITION_FIRST);
        struct model_file *file = model_lookup(f->model, name);
        memcpy(file->cached + cases[i].at, &cases[i].value, cases[i].size);
        uint64_t sum = frame_sum(file->cached, 112);
        memcpy(file->cached + 112, &sum, sizeof(sum));
        int error = open_log(f);
        if (cases[i].says == NULL) {
            assert_int_equal(error, 0);
        } else {
            assert_int_equal(error, LOG_DAMAGED);
            if (strstr(f->message, cases[i].says) == NULL) fail_msg("case %zu: %s", i, f->message);
        }
        fx_free(f);
    }
}

static void a_directory_with_a_name_that_is_too_long_is_refused(void **state) {
    struct fx *f = fx_new();
    char directory[5000] = "/d/";
    memset(directory + 3, 'x', sizeof(directory) - 4);
    f->options.directory = directory;
    assert_int_equal(open_log(f), -ENAMETOOLONG);
    fx_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_call_of_the_disk_is_reported),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(a_header_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_directory_with_a_name_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests_name("log_error", tests, NULL, NULL);
}
