/* disk_test.c: the real disk when the operating system reports errors (F-3, F-4, F-5): an interrupted call is
 * repeated, except a sync; every other error is returned unchanged, and no descriptor stays open.
 *
 * The linker's --wrap intercepts the calls from disk.c to the C library. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "disk.h"

enum call { OPEN, CLOSE, PREAD, PWRITE, FDATASYNC, FSYNC, FALLOCATE, FSTAT, RENAME, UNLINK, READDIR, MKDIR, CALLS };

static struct {
    enum call call; /* the call that fails */
    unsigned times; /* number of times that the call fails */
    int error;      /* errno of the failed call; 0: the call succeeds but transfers no bytes */
    unsigned made[CALLS];
} plan;

static void fail_next(enum call call, unsigned times, int error) {
    memset(&plan, 0, sizeof(plan));
    plan.call = call;
    plan.times = times;
    plan.error = error;
}

static bool fails(enum call call) {
    plan.made[call]++;
    if (plan.call != call || plan.times == 0) return false;
    plan.times--;
    errno = plan.error;
    return true;
}

#define FAILING(call, type, failed, name, parameters, arguments)                                                       \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        return fails(call) ? (failed) : __real_##name arguments;                                                       \
    }

FAILING(OPEN, int, -1, open64, (const char *path, int flags, mode_t mode), (path, flags, mode))
FAILING(PREAD, ssize_t, plan.error ? -1 : 0, pread64, (int file, void *out, size_t size, off_t at),
        (file, out, size, at))
FAILING(PWRITE, ssize_t, plan.error ? -1 : 0, pwrite64, (int file, const void *data, size_t size, off_t at),
        (file, data, size, at))
FAILING(FDATASYNC, int, -1, fdatasync, (int file), (file))
FAILING(FSYNC, int, -1, fsync, (int file), (file))
FAILING(FALLOCATE, int, plan.error, posix_fallocate64, (int file, off_t at, off_t size), (file, at, size))
FAILING(FSTAT, int, -1, fstat64, (int file, struct stat64 *status), (file, status))
FAILING(RENAME, int, -1, rename, (const char *from, const char *to), (from, to))
FAILING(UNLINK, int, -1, unlink, (const char *path), (path))
FAILING(READDIR, struct dirent64 *, NULL, readdir64, (DIR * directory), (directory))
FAILING(MKDIR, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))

/* Closes the descriptor, as Linux does even if close returns an error. */
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file) {
    int result = __real_close(file);
    return fails(CLOSE) ? -1 : result;
}

/* ---- operations on a directory with one file of four bytes */

struct fx {
    char directory[32], path[64], other[64];
    int file;
};

static int set_up(void **state) {
    struct fx *f = calloc(1, sizeof(*f));
    if (f == NULL) return -1;
    strcpy(f->directory, "/tmp/tarry-disk-XXXXXX");
    if (mkdtemp(f->directory) == NULL) {
        free(f);
        return -1;
    }
    snprintf(f->path, sizeof(f->path), "%s/file", f->directory);
    snprintf(f->other, sizeof(f->other), "%s/other", f->directory);
    fail_next(OPEN, 0, 0);
    f->file = disk_posix.open(NULL, f->path, O_RDWR | O_CREAT, 0600);
    *state = f;
    return f->file < 0 || write(f->file, "tick", 4) != 4;
}

static int tear_down(void **state) {
    struct fx *f = *state;
    fail_next(OPEN, 0, 0);
    close(f->file);
    unlink(f->path);
    rmdir(f->other);
    unlink(f->other);
    rmdir(f->directory);
    free(f);
    return 0;
}

static int do_open(struct fx *f) {
    int file = disk_posix.open(NULL, f->path, O_RDONLY, 0);
    if (file >= 0) __real_close(file);
    return file < 0 ? file : 0;
}

static int do_close(struct fx *f) {
    int file = dup(f->file);
    int result = disk_posix.close(NULL, file);
    assert_int_equal(fcntl(file, F_GETFD), -1);
    return result;
}

static int do_read(struct fx *f) {
    char text[8];
    int64_t size = disk_read_all(&disk_posix, f->file, text, sizeof(text), 0);
    return size == 4 ? 0 : (int)size;
}

static int do_write(struct fx *f) {
    return disk_write_all(&disk_posix, f->file, "tock", 4, 0);
}

static int do_datasync(struct fx *f) {
    return disk_posix.datasync(NULL, f->file);
}

static int do_sync(struct fx *f) {
    return disk_posix.sync(NULL, f->file);
}

static int do_allocate(struct fx *f) {
    return disk_posix.allocate(NULL, f->file, 1u << 16);
}

static int do_size(struct fx *f) {
    int64_t size = disk_posix.size(NULL, f->file);
    return size < 0 ? (int)size : 0;
}

static int do_rename(struct fx *f) {
    int result = disk_posix.rename(NULL, f->path, f->other);
    if (result == 0) __real_rename(f->other, f->path);
    return result;
}

static int do_unlink(struct fx *f) {
    int file = __real_open64(f->other, O_CREAT | O_WRONLY, 0600);
    __real_close(file);
    return disk_posix.unlink(NULL, f->other);
}

static int do_sync_directory(struct fx *f) {
    int free_before = dup(f->file);
    __real_close(free_before);
    int result = disk_posix.sync_directory(NULL, f->directory);
    int free_after = dup(f->file);
    __real_close(free_after);
    assert_int_equal(free_after, free_before); /* no descriptor stays open */
    return result;
}

static int each_name(void *argument, const char *name) {
    int *count = argument;
    ++*count;
    return strcmp(name, "file") == 0 ? 0 : 1;
}

static int do_list(struct fx *f) {
    int count = 0, result = disk_posix.list(NULL, f->directory, each_name, &count);
    if (result == 0) assert_int_equal(count, 1);
    return result;
}

static int do_make_directory(struct fx *f) {
    int result = disk_posix.make_directory(NULL, f->other, 0700);
    if (result == 0) rmdir(f->other);
    return result;
}

static const struct deed {
    const char *name;
    int (*run)(struct fx *f);
    enum call call;
    bool tries_again; /* true: the function repeats the call after EINTR */
} deeds[] = {
    {"open", do_open, OPEN, true},
    {"read", do_read, PREAD, true},
    {"write", do_write, PWRITE, true},
    {"datasync", do_datasync, FDATASYNC, false},
    {"sync", do_sync, FSYNC, false},
    {"allocate", do_allocate, FALLOCATE, true},
    {"zeros of allocate", do_allocate, PWRITE, true},
    {"size", do_size, FSTAT, false},
    {"rename", do_rename, RENAME, false},
    {"unlink", do_unlink, UNLINK, false},
    {"open of a directory", do_sync_directory, OPEN, true},
    {"sync of a directory", do_sync_directory, FSYNC, false},
    {"close of a directory", do_sync_directory, CLOSE, false},
    {"list", do_list, READDIR, false},
    {"make a directory", do_make_directory, MKDIR, false},
};
#define DEEDS (sizeof(deeds) / sizeof(*deeds))

static void an_error_is_passed_on_at_once(void **state) {
    static const int errors[] = {EIO, ENOSPC, EDQUOT, ENOMEM};
    for (size_t i = 0; i < DEEDS; i++) {
        for (size_t j = 0; j < sizeof(errors) / sizeof(*errors); j++) {
            fail_next(deeds[i].call, UINT32_MAX, errors[j]);
            int result = deeds[i].run(*state);
            if (result != -errors[j]) fail_msg("%s: %d for errno %d", deeds[i].name, result, errors[j]);
            assert_int_equal(plan.made[deeds[i].call], 1); /* LOG-4: a failed call is not repeated */
        }
        fail_next(OPEN, 0, 0);
        assert_int_equal(deeds[i].run(*state), 0);
    }
}

static void an_interruption_is_not_an_error_save_in_a_sync(void **state) {
    for (size_t i = 0; i < DEEDS; i++) {
        if (deeds[i].call == CLOSE) continue;
        fail_next(deeds[i].call, 3, EINTR);
        int result = deeds[i].run(*state);
        if (result != (deeds[i].tries_again ? 0 : -EINTR)) fail_msg("%s: %d", deeds[i].name, result);
        if (!deeds[i].tries_again) assert_int_equal(plan.made[deeds[i].call], 1); /* LOG-4 */
    }
}

static void a_descriptor_is_closed_whatever_close_says(void **state) {
    fail_next(CLOSE, 1, EINTR);
    assert_int_equal(do_close(*state), 0);
    fail_next(CLOSE, 1, EIO);
    assert_int_equal(do_close(*state), -EIO);
    assert_int_equal(do_close(*state), 0);
}

/* A write that transfers no bytes is an error. Otherwise it would be repeated for ever (F-3). */
static void a_write_that_moves_nothing_is_an_error(void **state) {
    fail_next(PWRITE, UINT32_MAX, 0);
    assert_int_equal(do_write(*state), -EIO);
}

static void what_is_not_there_cannot_be_listed(void **state) {
    struct fx *f = *state;
    int count = 0;
    assert_int_equal(disk_posix.list(NULL, f->other, each_name, &count), -ENOENT);
    assert_int_equal(disk_posix.sync_directory(NULL, f->other), -ENOENT);
    assert_int_equal(do_unlink(f), 0);
    int file = __real_open64(f->other, O_CREAT | O_WRONLY, 0600);
    __real_close(file);
    /* A callback that returns non-zero ends the listing. */
    assert_int_equal(disk_posix.list(NULL, f->directory, each_name, &count), 1);
}

#define DISK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        DISK_TEST(an_error_is_passed_on_at_once),
        DISK_TEST(an_interruption_is_not_an_error_save_in_a_sync),
        DISK_TEST(a_descriptor_is_closed_whatever_close_says),
        DISK_TEST(a_write_that_moves_nothing_is_an_error),
        DISK_TEST(what_is_not_there_cannot_be_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
