/* inbox_test.c: a thread that posts a single call may act as the core thread, and meanwhile no other thread does
 * (broker/shell/queues/inbox.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "inbox.h"

#define LONG_NS (3600ull * 1000000000ull)
#define ITEMS 200000
#define BY_OTHERS 20000

static struct inbox inbox;
static struct item alone[ITEMS], others[BY_OTHERS];
/* Variables of the core's thread for checking the order of the items. */
static size_t alone_taken, others_taken;
static unsigned stood_in;
static atomic_bool is_core; /* true while a thread acts as the core */

/* Does the core's work: takes the items, checks that they come in the order of posting, and that only one thread does
 * this at a time. */
static void be_core(const struct turn_load *load) {
    assert_false(atomic_exchange(&is_core, true));
    for (struct item *item = load->first; item != NULL; item = item->next) {
        if (item->kind == ITEM_CALL)
            assert_ptr_equal(item, &alone[alone_taken++]);
        else
            assert_ptr_equal(item, &others[others_taken++]);
    }
    if (load->first != NULL && alone_taken % 8 == 0) sched_yield();
    atomic_store(&is_core, false);
}

static void *be_core_thread(void *argument) {
    while (alone_taken < ITEMS || others_taken < BY_OTHERS) {
        struct turn_load load;
        /* If a wake-up is lost, this test hangs. Some sleeps are short, so that their timeouts are tested too. */
        inbox_take(&inbox, alone_taken % 3 == 0 ? 20000 : LONG_NS, true, &load);
        be_core(&load);
    }
    return NULL;
}

static void *post_others(void *argument) {
    for (int i = 0; i < BY_OTHERS; i++) {
        others[i].kind = ITEM_LANE;
        inbox_post(&inbox, &others[i]);
        if (i % 16 == 0) sched_yield();
    }
    return NULL;
}

static void one_at_a_time_is_the_core_and_nothing_is_lost(void **state) {
    pthread_t core, poster;
    inbox_init(&inbox);
    pthread_create(&core, NULL, be_core_thread, NULL);
    pthread_create(&poster, NULL, post_others, NULL);
    for (int i = 0; i < ITEMS; i++) {
        struct turn_load load;
        alone[i].kind = ITEM_CALL;
        inbox_post_quietly(&inbox, &alone[i]);
        if (i % 7 == 0) { /* wakes the core thread, so that this thread cannot handle the item itself */
            inbox_wake(&inbox);
        } else if (inbox_borrow(&inbox, &load)) {
            stood_in++;
            be_core(&load);
            inbox_give_back(&inbox, i % 5 == 0 ? 0 : LONG_NS);
        }
    }
    pthread_join(core, NULL);
    pthread_join(poster, NULL);
    assert_true(stood_in > 0);
}

/* ---- when no thread may act for the core */

static atomic_bool has_taken;
static bool lends;

static void *sleep_as_core(void *argument) {
    struct turn_load load;
    inbox_take(&inbox, LONG_NS, lends, &load);
    assert_non_null(load.first);
    atomic_store(&has_taken, true);
    return NULL;
}

static bool is_asleep(void) {
    return inbox.stall.asleep_until_ns != 0;
}

static bool is_awake(void) {
    return !inbox.is_lendable;
}

static void wait_for(bool (*is_so)(void)) {
    for (bool ends = false; !ends; sched_yield()) {
        pthread_mutex_lock(&inbox.mutex);
        ends = is_so();
        pthread_mutex_unlock(&inbox.mutex);
    }
}

/* Returns true if the thread could act as the core; false if the core thread has taken the call. */
static bool comes_alone(bool core_lends, enum item_kind kind, void (*before)(struct inbox *)) {
    struct item item = {.kind = kind};
    struct turn_load load;
    pthread_t core;
    lends = core_lends;
    inbox_init(&inbox);
    pthread_create(&core, NULL, sleep_as_core, NULL);
    wait_for(is_asleep);
    inbox_post_quietly(&inbox, &item);
    if (before != NULL) {
        before(&inbox);
        while (!atomic_load(&has_taken)) sched_yield(); /* waits until the core thread has taken the item */
    }
    bool borrows = inbox_borrow(&inbox, &load);
    if (borrows) {
        assert_ptr_equal(load.first, &item);
        struct item next = {.kind = ITEM_CALL};
        inbox_post(&inbox, &next);
        wait_for(is_awake);
        pthread_mutex_lock(&inbox.mutex);
        assert_ptr_equal(inbox.first, &next); /* the core thread is awake, so it takes the item later */
        pthread_mutex_unlock(&inbox.mutex);
        inbox_give_back(&inbox, LONG_NS);
    }
    pthread_join(core, NULL);
    atomic_store(&has_taken, false);
    return borrows;
}

static void second(struct inbox *to) {
    static struct item item;
    item = (struct item){.kind = ITEM_CALL};
    inbox_post(to, &item);
}

static void second_quiet(struct inbox *to) {
    static struct item item;
    item = (struct item){.kind = ITEM_CALL};
    inbox_post_quietly(to, &item);
    inbox_wake(to);
}

static void pause(struct inbox *to) {
    inbox_pause(to, true);
}

static void only_a_single_call_is_borrowed_from_a_core_that_lends(void **state) {
    assert_true(comes_alone(true, ITEM_CALL, NULL));
    assert_false(comes_alone(false, ITEM_CALL, NULL));
    assert_false(comes_alone(true, ITEM_LANE, NULL));
    assert_false(comes_alone(true, ITEM_CALL, second));
    assert_false(comes_alone(true, ITEM_CALL, second_quiet));
}

static void of_two_quiet_calls_none_is_borrowed(void **state) {
    struct item items[2] = {{.kind = ITEM_CALL}, {.kind = ITEM_CALL}};
    struct turn_load load;
    inbox_init(&inbox);
    inbox.is_lendable = true;
    for (int i = 0; i < 2; i++) inbox_post_quietly(&inbox, &items[i]);
    assert_true(inbox.owes_wake);
    assert_false(inbox_borrow(&inbox, &load));
    assert_false(inbox.owes_wake); /* the core thread was woken */
    assert_ptr_equal(inbox.first, &items[0]);
}

/* The core thread was woken, but does not run yet. */
static bool lends_before_it_wakes(void (*tell)(struct inbox *)) {
    struct item item = {.kind = ITEM_CALL};
    struct turn_load load;
    inbox_init(&inbox);
    inbox.is_lendable = true;
    if (tell != NULL) tell(&inbox);
    inbox_post_quietly(&inbox, &item);
    bool borrows = inbox_borrow(&inbox, &load);
    if (!borrows) assert_ptr_equal(inbox.first, &item);
    return borrows;
}

/* Simulates that the process was stopped (stall.h) and has just continued. */
static void stop_process(struct inbox *to) {
    stall_sleep(&to->stall, boottime_ns() - 2 * STOPPED_NS, STOPPED_NS / 4);
}

static void what_the_core_thread_was_told_is_left_to_it(void **state) {
    assert_true(lends_before_it_wakes(NULL));
    assert_false(lends_before_it_wakes(inbox_nudge));
    assert_false(lends_before_it_wakes(inbox_stop));
    assert_false(lends_before_it_wakes(pause));
    assert_false(lends_before_it_wakes(stop_process));
}

/* Simulates that the process was stopped while the core thread was working, after its last look at the clock. */
static void stop_awake(struct inbox *to) {
    struct turn_load load;
    inbox_init(to);
    inbox_take(to, 0, false, &load);
    assert_true(to->stall.looked_ns != 0);
    to->stall.looked_ns -= 2 * STOPPED_NS;
}

static void what_came_to_a_process_that_was_stopped_in_a_turn_is_judged_before_it(void **state) { /* TIME-2, F-13 */
    struct item item = {.kind = ITEM_CALL};
    struct turn_load load;
    stop_awake(&inbox);
    uint64_t since_ns = inbox.stall.looked_ns;
    inbox_post(&inbox, &item); /* the item arrives before the core thread knows that the process was stopped */
    assert_int_equal(item.received_ns, since_ns);
    assert_true(item.late_ns >= STOPPED_NS);
    stop_awake(&inbox);
    since_ns = inbox.stall.looked_ns;
    inbox_take(&inbox, 0, false, &load);
    assert_int_equal(load.taken_ns, since_ns);
    assert_int_equal(load.settle_ns, SETTLE_NS);
    stop_awake(&inbox); /* the process is stopped after the thread has computed how long to sleep */
    since_ns = inbox.stall.looked_ns;
    inbox_take(&inbox, 1, false, &load);
    assert_int_equal(inbox.stall.stopped_ns, since_ns);
    stop_awake(&inbox);
    since_ns = inbox.stall.looked_ns;
    inbox_look(&inbox);
    assert_int_equal(inbox.stall.stopped_ns, since_ns);
    assert_true(inbox.stall.looked_ns >= since_ns + 2 * STOPPED_NS);
}

/* A call may make a timer due earlier. That must wake the core thread, which sleeps until a later timer. */
static void *sleep_towards_later(void *argument) {
    struct turn_load load;
    inbox_take(&inbox, LONG_NS, true, &load); /* sleeps until another thread wakes this one */
    assert_null(load.first);
    return NULL;
}

static void a_deadline_that_came_nearer_wakes_the_core_thread(void **state) {
    struct item item = {.kind = ITEM_CALL};
    struct turn_load load;
    pthread_t core;
    inbox_init(&inbox);
    pthread_create(&core, NULL, sleep_towards_later, NULL);
    wait_for(is_asleep);
    inbox_post_quietly(&inbox, &item);
    assert_true(inbox_borrow(&inbox, &load));
    inbox_give_back(&inbox, LONG_NS / 2);
    pthread_join(core, NULL);
}

/* Takes events without waiting; the core thread must have been nudged. */
static struct turn_load take_news(void) {
    struct turn_load load;
    assert_true(inbox.nudged);
    inbox_take(&inbox, LONG_NS, false, &load);
    assert_false(inbox.nudged);
    assert_null(load.first);
    return load;
}

static void what_is_new_wakes_the_core_thread_and_is_told(void **state) {
    struct turn_load load;
    inbox_init(&inbox);
    inbox_follow(&inbox, 100);
    load = take_news();
    assert_true(load.follow_to == 100 && !load.lead && !load.pause && !load.stop);
    inbox_lead(&inbox, 200);
    load = take_news();
    assert_true(load.follow_to == 200 && load.lead);
    inbox_pause(&inbox, true);
    assert_true(take_news().pause);
    inbox_nudge(&inbox);
    assert_true(take_news().pause); /* the pause lasts until it is revoked */
    inbox_pause(&inbox, false);
    assert_false(take_news().pause);
    inbox_indexed(&inbox, 50);
    assert_int_equal(take_news().indexed, 50);
    inbox_durable(&inbox, 60);
    assert_false(inbox.nudged); /* the core is not woken: only a stopping core waits for this event */
    inbox_stop(&inbox);
    load = take_news();
    assert_true(load.stop && load.durable == 60);
    inbox_durable(&inbox, 70);
    assert_int_equal(take_news().durable, 70);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time_is_the_core_and_nothing_is_lost),
        cmocka_unit_test(only_a_single_call_is_borrowed_from_a_core_that_lends),
        cmocka_unit_test(of_two_quiet_calls_none_is_borrowed),
        cmocka_unit_test(what_the_core_thread_was_told_is_left_to_it),
        cmocka_unit_test(what_came_to_a_process_that_was_stopped_in_a_turn_is_judged_before_it),
        cmocka_unit_test(a_deadline_that_came_nearer_wakes_the_core_thread),
        cmocka_unit_test(what_is_new_wakes_the_core_thread_and_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
