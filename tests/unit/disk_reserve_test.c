/* disk_reserve_test.c: which writes are allowed when the disk is short (engine/disk_reserve.h). */
#include "disk_reserve.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB (1ull << 20)

static void the_reserve_is_an_eighth_of_a_small_disk(void **state) { /* F-4 */
    assert_int_equal(disk_reserve_of(80 * MIB, MIB).bytes, 10 * MIB);
    assert_int_equal(disk_reserve_of(512 * MIB, MIB).bytes, 64 * MIB);
    assert_int_equal(disk_reserve_of(1ull << 40, MIB).bytes, 64 * MIB);
    assert_int_equal(disk_reserve_of(0, MIB).bytes, 64 * MIB); /* the size of the disk is not known */
}

static void a_segment_leaves_the_reserve_alone(void **state) { /* CAP-1, F-4 */
    struct disk_reserve reserve = disk_reserve_of(80 * MIB, MIB);
    assert_true(disk_reserve_admits_segment(&reserve, 11 * MIB, MIB));
    assert_false(disk_reserve_admits_segment(&reserve, 11 * MIB - 1, MIB));
    assert_false(disk_reserve_admits_segment(&reserve, MIB - 1, MIB));
}

static void the_archive_may_write_into_half_of_it(void **state) { /* F-4 */
    struct disk_reserve reserve = disk_reserve_of(80 * MIB, MIB);
    assert_true(disk_reserve_admits_archive(&reserve, 6 * MIB, MIB));
    assert_false(disk_reserve_admits_archive(&reserve, 6 * MIB - 1, MIB));
}

static void a_copy_leaves_two_segments_beside_it(void **state) { /* F-4 */
    struct disk_reserve reserve = disk_reserve_of(80 * MIB, MIB);
    assert_true(disk_reserve_admits_copy(&reserve, 15 * MIB, 3 * MIB));
    assert_false(disk_reserve_admits_copy(&reserve, 15 * MIB - 1, 3 * MIB));
    assert_false(disk_reserve_admits_copy(&reserve, 12 * MIB - 1, 0));
}

/* ---- a commit that schedules */

struct fx {
    struct disk_reserve reserve; /* a reserve of 10 MiB, with segments of 1 MiB */
    struct disk_admission admission;
};

static void setup(struct fx *f, uint64_t free) {
    f->reserve = disk_reserve_of(80 * MIB, MIB);
    disk_admission_begin(&f->admission, &f->reserve, free, 1000);
}

static void nothing_is_asked_of_the_log_when_half_of_the_reserve_is_gone(void **state) { /* CAP-1 */
    struct fx f;
    setup(&f, 5 * MIB - 1);
    assert_int_equal(f.admission.question, DISK_DECIDED);
    assert_int_equal(f.admission.error, -ENOSPC);
    setup(&f, 5 * MIB);
    assert_int_equal(f.admission.question, DISK_ASKS_LOG);
}

static void half_a_segment_stays_behind_the_commit(void **state) { /* CAP-1 */
    struct fx f;
    setup(&f, 20 * MIB);
    assert_int_equal(f.admission.size, 2000 + MIB / 2);
    disk_admission_of_log(&f.admission, &f.reserve, 0);
    assert_int_equal(f.admission.question, DISK_DECIDED);
    assert_int_equal(f.admission.error, 0);
    setup(&f, 20 * MIB);
    disk_admission_of_log(&f.admission, &f.reserve, -EIO); /* the next segment cannot be made, whatever the reason */
    assert_int_equal(f.admission.question, DISK_DECIDED);
    assert_int_equal(f.admission.error, -EIO);
}

static void an_eighth_stays_while_the_next_segment_is_being_made(void **state) { /* CAP-1 */
    struct fx f;
    setup(&f, 20 * MIB);
    disk_admission_of_log(&f.admission, &f.reserve, -EINPROGRESS);
    assert_int_equal(f.admission.question, DISK_ASKS_LOG);
    assert_int_equal(f.admission.size, 2000 + MIB / 8);
    struct disk_admission asked = f.admission;
    disk_admission_of_log(&f.admission, &f.reserve, 0);
    assert_int_equal(f.admission.error, 0);
    /* The next segment is not ready yet: the request does not wait, and the client must try again. */
    disk_admission_of_log(&asked, &f.reserve, -EINPROGRESS);
    assert_int_equal(asked.question, DISK_DECIDED);
    assert_int_equal(asked.error, -EINPROGRESS);
}

static void for_more_than_a_segment_the_disk_is_asked(void **state) { /* CAP-1 */
    struct fx f;
    setup(&f, 20 * MIB);
    disk_admission_of_log(&f.admission, &f.reserve, -EAGAIN);
    assert_int_equal(f.admission.question, DISK_ASKS_DISK);
    struct disk_admission asked = f.admission;
    disk_admission_of_disk(&f.admission, &f.reserve, 12 * MIB + 2000);
    assert_int_equal(f.admission.question, DISK_DECIDED);
    assert_int_equal(f.admission.error, 0);
    disk_admission_of_disk(&asked, &f.reserve, 12 * MIB + 1999);
    assert_int_equal(asked.error, -ENOSPC);
}

static void a_commit_counts_with_the_record_of_each_operation(void **state) { /* CAP-1 */
    assert_int_equal(disk_commit_size(1000, 0), 1000);
    assert_int_equal(disk_commit_size(1000, 3), 1768);
}

static void it_is_said_when_the_disk_becomes_low_and_when_it_is_fine(void **state) { /* F-4 */
    struct disk_reserve reserve = disk_reserve_of(80 * MIB, MIB);
    assert_false(disk_reserve_note(&reserve, 0, 0));
    assert_true(disk_reserve_note(&reserve, -ENOSPC, -ENOSPC));
    assert_true(reserve.low);
    assert_false(disk_reserve_note(&reserve, -ENOSPC, -ENOSPC));
    assert_false(
        disk_reserve_note(&reserve, 0,
                          -ENOSPC)); /* a small write that succeeds does not show that the disk has space again */
    assert_true(reserve.low);
    assert_true(disk_reserve_note(&reserve, 0, 0));
    assert_false(reserve.low);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reserve_is_an_eighth_of_a_small_disk),
        cmocka_unit_test(a_segment_leaves_the_reserve_alone),
        cmocka_unit_test(the_archive_may_write_into_half_of_it),
        cmocka_unit_test(a_copy_leaves_two_segments_beside_it),
        cmocka_unit_test(nothing_is_asked_of_the_log_when_half_of_the_reserve_is_gone),
        cmocka_unit_test(half_a_segment_stays_behind_the_commit),
        cmocka_unit_test(an_eighth_stays_while_the_next_segment_is_being_made),
        cmocka_unit_test(for_more_than_a_segment_the_disk_is_asked),
        cmocka_unit_test(a_commit_counts_with_the_record_of_each_operation),
        cmocka_unit_test(it_is_said_when_the_disk_becomes_low_and_when_it_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
