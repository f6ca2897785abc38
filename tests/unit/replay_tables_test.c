/* replay_tables_test.c: the containers of tarry replay: a map by id, and an agenda. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../random.h"
#include "tables.h"

/* Number of different ids: few, so that the table's probe sequences are long and contain removed entries. */
#define IDS 3000u
#define STEPS 60000u

static void count_value(void *argument, void *value) {
    size_t *sum = argument;
    *sum += (size_t)(uintptr_t)value;
}

static void a_map_knows_what_was_put_last(void **state) {
    struct random random = {.state = random_seed(5)};
    struct id_map map = {0};
    uintptr_t naive[IDS] = {0};
    assert_null(id_map_get(&map, 1));
    assert_null(id_map_take(&map, 1));
    for (size_t i = 1; i <= STEPS; i++) {
        uint64_t place = random_below(&random, IDS), id = (place + 1) << 20; /* the low bits of all ids are equal */
        if (random_below(&random, 3) > 0) {
            id_map_put(&map, id, (void *)i);
            naive[place] = i;
        } else {
            assert_int_equal((uintptr_t)id_map_take(&map, id), naive[place]);
            naive[place] = 0;
        }
        uint64_t other = random_below(&random, IDS);
        assert_int_equal((uintptr_t)id_map_get(&map, (other + 1) << 20), naive[other]);
    }
    size_t sum = 0, expected = 0, count = 0;
    for (size_t i = 0; i < IDS; i++) {
        expected += naive[i];
        count += naive[i] != 0;
    }
    id_map_each(&map, count_value, &sum);
    assert_int_equal(sum, expected);
    assert_int_equal(map.count, count);
    id_map_deinit(&map);
}

static void the_earliest_comes_first_and_ties_in_order(void **state) {
    struct random random = {.state = random_seed(6)};
    struct agenda agenda = {0};
    struct agenda_entry last = {0};
    assert_null(agenda_first(&agenda));
    for (size_t i = 0; i < STEPS; i++) {
        bool adds = agenda.count == 0 || random_below(&random, 5) < 3;
        if (adds) { /* the new entry is never earlier than the last one taken, because time does not go back */
            struct agenda_entry item = {.at_ns = last.at_ns + random_below(&random, 4),
                                        .position = random_below(&random, 3)};
            if (item.at_ns == last.at_ns && item.position < last.position) item.position = last.position;
            agenda_add(&agenda, &item);
            continue;
        }
        uint64_t first = agenda_first(&agenda)->number;
        struct agenda_entry item = agenda_take(&agenda);
        assert_int_equal(item.number, first);
        assert_true(item.at_ns >= last.at_ns);
        if (item.at_ns == last.at_ns) assert_true(item.position >= last.position);
        if (item.at_ns == last.at_ns && item.position == last.position)
            assert_true(item.number > last.number || i == 0);
        last = item;
    }
    agenda_deinit(&agenda);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_knows_what_was_put_last),
        cmocka_unit_test(the_earliest_comes_first_and_ties_in_order),
    };
    return cmocka_run_group_tests_name("replay tables", tests, NULL, NULL);
}
