/* hung_disk_test.c: how long a disk has delayed a write, counting only the time in which this node was awake (F-13,
 * F-31a). */
#include "hung_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS PAIR_NS_PER_MS
#define BEGAN (1000 * MS)

/* Checks the disk at each time that its timer names, up to `until_ns`. */
static void look_until(struct hung_disk *disk, uint64_t until_ns) {
    while (hung_disk_timer(disk) < until_ns) hung_disk_look(disk, disk->write.since_ns, hung_disk_timer(disk));
    hung_disk_look(disk, disk->write.since_ns, until_ns);
}

static void a_disk_that_is_looked_at_in_time_has_waited_for_all_of_it(void **state) { /* F-31a */
    struct hung_disk disk = {0};
    assert_int_equal(hung_disk_timer(&disk), UINT64_MAX);
    hung_disk_look(&disk, BEGAN, BEGAN + 7 * MS);
    assert_int_equal(hung_disk_ms(&disk), 7);
    assert_int_equal(hung_disk_timer(&disk), BEGAN + (7 + HUNG_DISK_LOOK_MS) * MS);
    look_until(&disk, BEGAN + 6007 * MS);
    assert_int_equal(hung_disk_ms(&disk), 6007);
    hung_disk_look(&disk, BEGAN,
                   BEGAN); /* the time may be before that of the last call, because two threads read the clock */
    assert_int_equal(hung_disk_ms(&disk), 6007);
}

static void what_a_node_stood_still_for_does_not_count(void **state) { /* F-13 */
    struct hung_disk disk = {0};
    hung_disk_look(&disk, BEGAN, BEGAN + 9000 * MS); /* the process was stopped right after the write began */
    assert_int_equal(hung_disk_ms(&disk), HUNG_DISK_LOOK_COUNTS_MS);
    look_until(&disk, BEGAN + 10000 * MS);
    assert_int_equal(hung_disk_ms(&disk), HUNG_DISK_LOOK_COUNTS_MS + 1000);
    hung_disk_look(&disk, BEGAN, BEGAN + 70000 * MS);
    assert_int_equal(hung_disk_ms(&disk), 2 * HUNG_DISK_LOOK_COUNTS_MS + 1000);
}

static void each_write_waits_for_itself(void **state) {
    struct hung_disk disk = {0};
    hung_disk_look(&disk, BEGAN, BEGAN + 400 * MS);
    hung_disk_look(&disk, BEGAN + 500 * MS, BEGAN + 501 * MS);
    assert_int_equal(hung_disk_ms(&disk), 1);
    hung_disk_look(&disk, 0, BEGAN + 502 * MS);
    assert_int_equal(hung_disk_ms(&disk), 0);
    assert_int_equal(hung_disk_timer(&disk), UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_that_is_looked_at_in_time_has_waited_for_all_of_it),
        cmocka_unit_test(what_a_node_stood_still_for_does_not_count),
        cmocka_unit_test(each_write_waits_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
