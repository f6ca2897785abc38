/* fair_test.c: owners are served one after another, whatever the number of their waiting items. */
#include "fair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MANY 1000

/* F-20, CALM-1. */
static void an_owner_with_many_items_delays_another_by_one(void **state) {
    static struct fair_item many[MANY];
    struct fair fair;
    struct fair_item one = {0};
    memset(many, 0, sizeof many);
    fair_init(&fair);
    for (size_t i = 0; i < MANY; i++) fair_add(&fair, &many[i], 1);
    fair_add(&fair, &one, 2);
    assert_ptr_equal(fair_take(&fair), &many[0]);
    assert_ptr_equal(fair_take(&fair), &one);
    for (size_t i = 1; i < MANY; i++) assert_ptr_equal(fair_take(&fair), &many[i]);
    assert_null(fair_take(&fair));
    assert_true(fair_is_empty(&fair));
}

/* Three owners are served in rotation while items are removed from the front, the middle and the end of a queue. */
static void removed_items_change_nobodys_turn(void **state) {
    struct fair_item items[9] = {0};
    struct fair fair;
    fair_init(&fair);
    for (size_t i = 0; i < 9; i++) fair_add(&fair, &items[i], i / 3);
    fair_remove(&fair, &items[0]); /* the first item of owner 0 leaves, and the second takes its place */
    fair_remove(&fair, &items[4]); /* the second item of owner 1 */
    fair_remove(&fair, &items[8]); /* the last item of owner 2 */
    fair_remove(&fair, &items[8]); /* the item is not waiting, so this has no effect */
    static const int order[] = {1, 3, 6, 2, 5, 7};
    for (size_t i = 0; i < 6; i++) {
        struct fair_item *taken = fair_take(&fair);
        assert_ptr_equal(taken, &items[order[i]]);
        assert_false(taken->is_waiting);
    }
    assert_true(fair_is_empty(&fair));
    fair_add(&fair, &items[0], 7); /* the item may wait again */
    fair_remove(&fair, &items[0]);
    assert_true(fair_is_empty(&fair));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_with_many_items_delays_another_by_one),
        cmocka_unit_test(removed_items_change_nobodys_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
