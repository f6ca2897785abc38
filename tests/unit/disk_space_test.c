/* disk_space_test.c: how soon the broker accepts tasks again when a full disk has space again (F-4, CAP-1;
 * broker/shell/process/log_disk.c). The test replaces the clock, the disk and the log. It is linked with all parts of
 * tarryd. Other tests check how soon the log makes its next segment (log_test.c), and how soon the index is written
 * (index_schedule_test.c). */
#include "log_disk.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include <cmocka.h>

#include "log.h"

#define MIB (1ull << 20)
#define NS_PER_MS 1000000ull
/* F-4: tasks are accepted within 1 s after a full disk has space. The index (FULL_RETRY_NS) and the log
 * (PREPARE_AGAIN_MS) need up to 250 ms each, at the same time. */
#define LOOKED_AT_WITHIN_MS 100u

static struct {
    uint64_t now_ns, free;
    unsigned looks; /* number of times that the free space was read */
    int fits;       /* the log's answer */
} world;

int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out) {
    *out = (struct timespec){.tv_sec = (time_t)(world.now_ns / 1000000000u),
                             .tv_nsec = (long)(world.now_ns % 1000000000u)};
    return 0;
}

int __wrap_statvfs64(const char *path, struct statvfs *out);
int __wrap_statvfs64(const char *path, struct statvfs *out) {
    memset(out, 0, sizeof(*out));
    out->f_frsize = 1;
    out->f_blocks = 100 * 1024 * MIB;
    out->f_bavail = world.free;
    world.looks++;
    return 0;
}

int __wrap_log_fits(struct log *log, uint64_t from, uint64_t size);
int __wrap_log_fits(struct log *log, uint64_t from, uint64_t size) {
    return world.fits;
}

void __wrap_log_stats(const struct log *log, struct log_stats *out);
void __wrap_log_stats(const struct log *log, struct log_stats *out) {
    memset(out, 0, sizeof(*out));
}

static struct disk_space space;

static int begin(void **state) {
    struct disk disk;
    world.now_ns = 1000 * NS_PER_MS;
    world.free = 0;
    world.fits = 0;
    disk_space_init(&space, "/data", MIB, &disk);
    world.looks = 0;
    return 0;
}

static bool is_accepted(void) {
    return disk_space_refusal(&space, NULL, 4096, 1000) == NULL;
}

static void a_disk_that_has_space_again_is_noticed_soon(void **state) { /* F-4 */
    assert_false(is_accepted());
    world.free = 1024 * MIB;
    world.now_ns += LOOKED_AT_WITHIN_MS * NS_PER_MS;
    assert_true(is_accepted());
    world.free = 0;
    world.now_ns += LOOKED_AT_WITHIN_MS * NS_PER_MS;
    assert_false(is_accepted());
}

/* Refusals do not delay the next reading of the disk's free space. The interval begins at the last reading, not at the
 * last refusal. */
static void refusals_do_not_put_off_the_next_look(void **state) {
    assert_false(is_accepted());
    world.free = 1024 * MIB;
    for (unsigned ms = 1; ms < LOOKED_AT_WITHIN_MS; ms++) {
        world.now_ns += NS_PER_MS;
        (void)is_accepted();
    }
    assert_true(is_accepted());
}

/* The free space is not read for each commit. */
static void the_free_space_is_read_now_and_then(void **state) {
    world.free = 1024 * MIB;
    for (unsigned i = 0; i < 1000; i++) assert_true(is_accepted());
    assert_int_equal(world.looks, 1);
}

/* A frame that needs a new segment reads the free space at once. */
static void a_segment_that_is_needed_is_judged_by_the_space_of_now(void **state) {
    world.free = 1024 * MIB;
    assert_true(is_accepted());
    world.free = 33 * MIB; /* free space between half of the reserve and the whole reserve */
    world.fits = -EAGAIN;
    assert_false(is_accepted());
    world.free = 1024 * MIB;
    assert_true(is_accepted());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_disk_that_has_space_again_is_noticed_soon, begin),
        cmocka_unit_test_setup(refusals_do_not_put_off_the_next_look, begin),
        cmocka_unit_test_setup(the_free_space_is_read_now_and_then, begin),
        cmocka_unit_test_setup(a_segment_that_is_needed_is_judged_by_the_space_of_now, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
