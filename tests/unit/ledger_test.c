/* ledger_test.c: the ledger of the demonstration must detect the faults of a broken broker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

#define LIMIT_US 500000u

struct fx {
    struct orders orders;
    struct ledger *ledger;
};

static void begin(struct fx *f) {
    f->orders = (struct orders){NULL, 0, 0};
    assert_int_equal(orders_make_up(&f->orders, 7, 10), 0);
    f->ledger = ledger_new(&f->orders, LIMIT_US);
    assert_non_null(f->ledger);
    for (size_t i = 0; i < 10; i++) {
        ledger_submitted(f->ledger, i, 1000000);
        ledger_placed(f->ledger, i);
    }
}

static struct ledger_totals end(struct fx *f) {
    struct ledger_totals totals;
    ledger_totals(f->ledger, &totals);
    ledger_free(f->ledger);
    orders_free(&f->orders);
    return totals;
}

static void close_order(struct fx *f, size_t order, uint64_t after_us, double lateness_ms) {
    ledger_closed(f->ledger, f->orders.items[order].id, 1000000 + after_us, lateness_ms);
}

static void a_good_day(void **state) {
    struct fx f;
    begin(&f);
    for (size_t i = 0; i < 5; i++) ledger_paid(f.ledger, i, 0);
    assert_false(ledger_is_settled(f.ledger));
    for (size_t i = 5; i < 10; i++) close_order(&f, i, LIMIT_US, (double)i);
    assert_true(ledger_is_settled(f.ledger));
    ledger_late(f.ledger, 9);
    struct ledger_totals totals = end(&f);
    assert_true(totals.paid == 5 && totals.closed == 5 && totals.late == 1 && totals.placed == 10);
    assert_true(totals.early == 0 && totals.broken == 0 && totals.lost == 0 && totals.duplicates == 0);
    assert_true(totals.lateness_p50_ms == 7 && totals.lateness_max_ms == 9);
}

static void too_early_by_a_microsecond(void **state) {
    struct fx f;
    begin(&f);
    close_order(&f, 0, LIMIT_US - 1, 0);
    close_order(&f, 1, LIMIT_US, 0);
    assert_int_equal(end(&f).early, 1);
}

static void closed_although_paid_in_either_order(void **state) {
    struct fx f;
    begin(&f);
    ledger_paid(f.ledger, 0, 0);
    close_order(&f, 0, LIMIT_US, 0);
    close_order(&f, 1, LIMIT_US, 0);
    ledger_paid(f.ledger, 1, 0);
    assert_int_equal(end(&f).broken, 2);
}

/* A consumer has received the task and died. Its output shows whether it had closed the order. */
static void paid_with_a_warning(void **state) {
    struct fx f;
    begin(&f);
    ledger_paid(f.ledger, 0, 1);
    ledger_paid(f.ledger, 1, 1);
    close_order(&f, 1, LIMIT_US, 0);
    close_order(&f, 2, LIMIT_US, 0);
    ledger_paid(f.ledger, 2, 1);
    struct ledger_totals totals = end(&f);
    assert_true(totals.broken == 0 && totals.paid == 1 && totals.closed == 2 && totals.lost == 7);
}

static void closed_twice_and_never(void **state) {
    struct fx f;
    begin(&f);
    close_order(&f, 0, LIMIT_US, 0);
    close_order(&f, 0, LIMIT_US + 1, 0);
    ledger_closed(f.ledger, "somebody else's", 5000000, 0);
    struct ledger_totals totals = end(&f);
    assert_true(totals.duplicates == 1 && totals.closed == 1 && totals.lost == 9);
}

static void a_file_of_orders(void **state) {
    char path[] = "/tmp/ledger_test_XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    fputs("order_id,placed_at,paid_at,status\na,86401,86411,paid\nb,172800,,open\r\nc,5,4,paid\n", file);
    fclose(file);
    struct orders orders = {NULL, 0, 0};
    assert_int_equal(orders_read(&orders, path), 0);
    assert_int_equal(orders.count, 3);
    assert_true(orders.items[0].placed_s == 1 && orders.items[0].paid_after == 10);
    assert_true(orders.items[1].placed_s == 0 && orders.items[1].paid_after == -1);
    assert_true(orders.items[2].paid_after == 0);
    orders_free(&orders);
    file = fopen(path, "w");
    fputs("order_id,placed_at,paid_at,status\na,yesterday,,open\n", file);
    fclose(file);
    assert_int_equal(orders_read(&orders, path), -1);
    orders_free(&orders);
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_day),
        cmocka_unit_test(too_early_by_a_microsecond),
        cmocka_unit_test(closed_although_paid_in_either_order),
        cmocka_unit_test(paid_with_a_warning),
        cmocka_unit_test(closed_twice_and_never),
        cmocka_unit_test(a_file_of_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
