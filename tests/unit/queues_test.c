/* queues_test.c: the queues between the shell's threads (broker/shell/queues). The number of batches in flight is
 * limited. The core is woken when a batch is free again. A reused batch is empty. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "batch.h"
#include "clock.h"
#include "core_turn.h"
#include "delivery_sender.h"
#include "inbox.h"
#include "refusals_told.h"

static struct inbox inbox;
static struct batches batches;
static struct batch *taken[TURN_BATCHES_MAX + 1]; /* batches taken by the test; the last one exceeds the limit */

static int set_up(void **state) {
    inbox_init(&inbox);
    batches_init(&batches, &inbox);
    for (unsigned i = 0; i < TURN_BATCHES_MAX; i++) {
        assert_false(batches_has_none(&batches));
        taken[i] = batch_take(&batches);
    }
    return 0;
}

static int tear_down(void **state) {
    for (unsigned i = 0; i < TURN_BATCHES_MAX + 1; i++) {
        if (taken[i] == NULL) continue;
        arena_deinit(&taken[i]->arena);
        free(taken[i]);
        taken[i] = NULL;
    }
    return 0;
}

/* The core asks for a free batch before it takes one, because it must not wait in batch_take while it has other work.
 */
static void a_core_that_asked_in_vain_is_nudged_once(void **state) {
    assert_true(batches_has_none(&batches));
    assert_false(inbox.nudged);
    batch_drop(&batches, taken[0]);
    assert_true(inbox.nudged);
    inbox.nudged = false;
    batch_drop(&batches, taken[1]);
    assert_false(inbox.nudged);
    assert_false(batches_has_none(&batches));
    assert_ptr_equal(batch_take(&batches), taken[1]);
    assert_null(taken[1]->next); /* another batch is still free */
    batch_drop(&batches, taken[2]);
    assert_false(inbox.nudged);
}

static void the_last_user_frees_a_batch_and_leaves_it_empty(void **state) {
    struct batch *batch = taken[0];
    batch->answers = arena_alloc(&batch->arena, sizeof(*batch->answers));
    batch->answer_count = 1;
    batch->must_be_read = batch->reads_late = true;
    batch->end = 7;
    batch_hold(&batches, batch);
    batch_drop(&batches, batch);
    assert_true(batches_has_none(&batches));
    batch_drop(&batches, batch);
    assert_false(batches_has_none(&batches));
    assert_ptr_equal(batch_take(&batches), batch);
    assert_null(batch->next);
    assert_null(batch->answers);
    assert_int_equal(batch->answer_count, 0);
    assert_false(batch->must_be_read || batch->reads_late);
    assert_int_equal(batch->end, 0);
    assert_int_equal(batch->users, 1);
}

static void a_broker_that_stops_waits_for_none(void **state) {
    assert_true(batches_has_none(&batches));
    batches_stop(&batches);
    assert_false(batches_has_none(&batches));
    taken[TURN_BATCHES_MAX] = batch_take(&batches);
    assert_non_null(taken[TURN_BATCHES_MAX]);
}

static void *wait_for_batch(void *argument) {
    return batch_take(&batches);
}

static uint64_t looked_ns(void) {
    pthread_mutex_lock(&inbox.mutex);
    uint64_t ns = inbox.stall.looked_ns;
    pthread_mutex_unlock(&inbox.mutex);
    return ns;
}

/* A core that waits for a batch calls the function that notices when the process was stopped. */
static void a_core_that_waits_for_a_batch_shows_that_it_is_awake(void **state) { /* TIME-2, F-13 */
    pthread_t core;
    void *batch;
    pthread_create(&core, NULL, wait_for_batch, NULL);
    while (looked_ns() == 0) sched_yield();
    batch_drop(&batches, taken[3]);
    pthread_join(core, &batch);
    assert_ptr_equal(batch, taken[3]);
}

/* A reused batch has no successor, although it had one when it was last in flight. */
static void a_batch_that_comes_again_is_the_last_of_the_sender(void **state) {
    struct delivery_sender sender = {.last = &sender.first};
    pthread_mutex_init(&sender.mutex, NULL);
    pthread_cond_init(&sender.posted, NULL);
    taken[0]->next_out = taken[2];
    delivery_sender_post(&sender, taken[1]);
    delivery_sender_post(&sender, taken[0]);
    assert_ptr_equal(sender.first, taken[1]);
    assert_ptr_equal(taken[1]->next_out, taken[0]);
    assert_null(taken[0]->next_out);
    assert_ptr_equal(sender.last, &taken[0]->next_out);
}

/* The authorizer counts time from 1 ms, so it notes BOOTTIME plus 1 ms. The test repeats the try if the clock advanced
 * during it. */
static void a_refusal_is_as_long_ago_as_it_was_noted(void **state) {
    const uint64_t ago_ms = 700;
    struct refusals_told told = {.is_offered = true, .count = 1};
    const struct core_refusal *refusal;
    struct arena arena;
    uint64_t now_ms;
    arena_init(&arena, 1 << 20);
    do {
        now_ms = boottime_ns() / NS_PER_MS;
        told.rows[0] = (struct refusal){.count = 3, .first_ms = now_ms + 1 - ago_ms, .last_ms = now_ms + 1};
        arena_reset(&arena);
        assert_int_equal(refusals_told_pack(&told, &arena, &refusal), 1);
    } while (boottime_ns() / NS_PER_MS != now_ms);
    assert_int_equal(refusal->count, 3);
    assert_int_equal(refusal->first_ago_ms, ago_ms);
    assert_int_equal(refusal->last_ago_ms, 0);
    arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_core_that_asked_in_vain_is_nudged_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_user_frees_a_batch_and_leaves_it_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broker_that_stops_waits_for_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_core_that_waits_for_a_batch_shows_that_it_is_awake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_batch_that_comes_again_is_the_last_of_the_sender, set_up, tear_down),
        cmocka_unit_test(a_refusal_is_as_long_ago_as_it_was_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
