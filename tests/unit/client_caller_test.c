/* client_caller_test.c: if only one caller waits, its thread reads the reply itself (client/lib/caller.c). Meanwhile
 * the client still handles other replies, deadlines and lost connections. With a fake broker (fake_broker.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "client.h"
#include "fake_broker.h"

/* Time in ms within which a reply must come, even on a busy machine. It is far below RESEND_AFTER_MS + LENT_MS, so that
 * the tests notice a request that was sent again. */
#define LATE_MS 5000u
#define ENOUGH 8 /* number of consecutive calls after which the engine lends the connection to the caller */

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

struct story {
    struct fake *fake;
    tarry_client *client;
};

static struct story story_begin(void) {
    struct story story = {.fake = fake_start(NULL, 0)};
    const struct tarry_options options = {.urls = story.fake->url, .name = "client_test"};
    assert_int_equal(tarry_open(&options, &story.client), TARRY_OK);
    return story;
}

static void story_end(const struct story *story) {
    assert_int_equal(tarry_close(story->client), TARRY_OK);
    fake_stop(story->fake);
}

static bool is_lent(tarry_client *client) {
    pthread_mutex_lock(&client->lock);
    const bool is_lent = client->link.connection.is_lent;
    pthread_mutex_unlock(&client->lock);
    return is_lent;
}

/* Makes calls until the engine has lent the connection to the caller's thread. On a very busy machine that takes more
 * calls, because the engine's thread must begin to wait between two calls. */
static void call_alone(const struct story *story) {
    for (int i = 0; i < ENOUGH || (!is_lent(story->client) && i < 2000); i++) {
        if (i >= 50) sleep_ms(1);
        assert_int_equal(tarry_schedule(story->client, &order, NULL), TARRY_OK);
    }
    assert_true(is_lent(story->client));
}

/* Sets what the broker does with the next commit. Returns the number of operations executed so far. */
static size_t next_deed(struct fake *fake, enum deed deed) {
    pthread_mutex_lock(&fake->lock);
    assert_true(fake->commits < sizeof(fake->script) / sizeof(fake->script[0]));
    for (size_t i = 0; i < fake->commits; i++) fake->script[i] = ANSWER;
    fake->script[fake->commits] = deed;
    fake->script_size = fake->commits + 1;
    const size_t ops = fake->ops;
    pthread_mutex_unlock(&fake->lock);
    return ops;
}

static void ping(tarry_client *client) {
    assert_int_equal(tarry_ping(client, NULL), TARRY_OK);
}

static void run_commit(tarry_client *client) {
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_OK);
    tarry_commit_free(commit);
}

static void schedule(tarry_client *client) {
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
}

/* The connection stays lent to the caller's thread from one call to the next. The engine takes the connection back if
 * it wakes up by chance, or if the caller's thread does nothing for LENT_MS. So a busy machine needs several attempts.
 */
static void every_kind_of_blocking_call_reads_by_itself(void **state) {
    void (*const calls[])(tarry_client * client) = {ping, run_commit, schedule};
    const struct story story = story_begin();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        bool stays_lent = false;
        for (int attempt = 0; attempt < 100 && !stays_lent; attempt++) {
            call_alone(&story);
            calls[i](story.client);
            stays_lent = is_lent(story.client);
        }
        assert_true(stays_lent);
    }
    story_end(&story);
}

struct ended {
    atomic_int done;
    int code;
    bool was_engine;
    tarry_client *client;
};

static void has_ended(void *arg, const struct tarry_result *result) {
    struct ended *ended = arg;
    ended->code = result->code;
    ended->was_engine = engine_is_me(ended->client);
    atomic_fetch_add(&ended->done, 1);
}

static void await(struct ended *ended) {
    for (int i = 0; i < 30000 && !atomic_load(&ended->done); i++) sleep_ms(1);
    assert_int_equal(atomic_load(&ended->done), 1);
    assert_int_equal(ended->code, TARRY_OK);
}

static void who_does_not_wait_is_answered_by_the_engine(void **state) {
    const struct story story = story_begin();
    for (int round = 0; round < 3; round++) {
        struct ended ended = {.client = story.client};
        call_alone(&story);
        const uint64_t before = now_ms();
        assert_int_equal(tarry_schedule_async(story.client, &order, has_ended, &ended), TARRY_OK);
        /* The connection is given back at once, because otherwise no thread would read it. */
        assert_false(is_lent(story.client));
        await(&ended);
        assert_true(now_ms() - before < LATE_MS);
        assert_true(ended.was_engine); /* tarry.h promises that callbacks run on the engine's thread */
    }
    story_end(&story);
}

/* Returns how many calls failed. (A cmocka assertion must not fail on another thread.) */
static void *call_often(void *arg) {
    uintptr_t wrong = 0;
    for (int i = 0; i < 300; i++) {
        struct tarry_result result;
        if (tarry_schedule(arg, &order, &result) == TARRY_OK) continue;
        fprintf(stderr, "call %d: %d %s\n", i, result.code, result.message);
        wrong++;
    }
    return (void *)wrong;
}

static void callers_come_and_go(void **state) {
    const struct story story = story_begin();
    const uint64_t before = now_ms();
    for (int round = 0; round < 5; round++) {
        pthread_t threads[3];
        call_alone(&story);
        for (size_t i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, story.client), 0);
        /* Asynchronous calls with callbacks, between the blocking calls of the threads. */
        for (int i = 0; i < 20; i++) {
            struct ended ended = {.client = story.client};
            assert_int_equal(tarry_schedule_async(story.client, &order, has_ended, &ended), TARRY_OK);
            await(&ended);
            assert_true(ended.was_engine);
        }
        for (size_t i = 0; i < 3; i++) {
            void *wrong;
            assert_int_equal(pthread_join(threads[i], &wrong), 0);
            assert_null(wrong);
        }
    }
    assert_true(now_ms() - before < 10 * LATE_MS);
    story_end(&story);
}

/* The engine still watches the deadline of a caller that reads by itself. If it did not, the commit would be sent again
 * after RESEND_AFTER_MS, and get a reply. Only the last call has the short timeout, because the calls before may be
 * slow on a busy machine. */
static void a_caller_that_reads_ends_by_its_deadline(void **state) {
    const struct story story = story_begin();
    call_alone(&story);
    next_deed(story.fake, SAY_NOTHING);
    story.client->timeout_ms = 400;
    const uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(story.client, &order, NULL), TARRY_E_TIMEOUT);
    assert_true(now_ms() - before >= 400);
    story_end(&story);
}

/* ONCE-1: the commit in flight is sent again under the same sequence. */
static void a_connection_that_is_lost_under_a_caller_is_opened_anew(void **state) {
    const struct story story = story_begin();
    call_alone(&story);
    const size_t before_ops = next_deed(story.fake, LOSE_ANSWER);
    const uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(story.client, &order, NULL), TARRY_OK);
    assert_true(now_ms() - before < LATE_MS);
    assert_int_equal(story.fake->ops, before_ops + 1);
    story_end(&story);
}

static void the_engine_takes_back_what_nobody_reads(void **state) {
    const struct story story = story_begin();
    call_alone(&story);
    for (int i = 0; i < 30000 && is_lent(story.client); i++) sleep_ms(1);
    assert_false(is_lent(story.client));
    call_alone(&story); /* the engine lends the connection again */
    story_end(&story);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_blocking_call_reads_by_itself),
        cmocka_unit_test(who_does_not_wait_is_answered_by_the_engine),
        cmocka_unit_test(callers_come_and_go),
        cmocka_unit_test(a_caller_that_reads_ends_by_its_deadline),
        cmocka_unit_test(a_connection_that_is_lost_under_a_caller_is_opened_anew),
        cmocka_unit_test(the_engine_takes_back_what_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
