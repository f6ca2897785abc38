/* client_dispatch_test.c: callbacks in the program's own loop, and connection events (tarry_loop.h), with a fake
 * broker. tests/e2e/handler_test.py tests handlers in a loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "fake_broker.h"

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

static tarry_client *dispatching_client(const struct fake *fake) {
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url, .timeout_ms = 10000, .dispatch = true};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static bool is_readable(tarry_client *client, int wait_ms) {
    struct pollfd waiting = {.fd = tarry_client_fd(client), .events = POLLIN};
    return poll(&waiting, 1, wait_ms) == 1;
}

struct seen {
    tarry_client *client;
    size_t count;
    size_t elsewhere; /* number of callbacks on another thread than the test's */
    int last;
    pthread_t thread;
    uint64_t last_id;
    bool out_of_order;
};

static void count_done(void *arg, const struct tarry_result *result) {
    struct seen *seen = arg;
    seen->count++;
    seen->elsewhere += !pthread_equal(seen->thread, pthread_self());
    seen->last = result->code;
    if (result->code == TARRY_OK && result->id <= seen->last_id) seen->out_of_order = true;
    seen->last_id = result->id;
}

static void callbacks_wait_for_the_loop(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = dispatching_client(fake);
    struct seen seen = {.client = client, .thread = pthread_self()};
    size_t count = 77;
    assert_false(is_readable(client, 0));
    for (int i = 0; i < 300; i++) assert_int_equal(tarry_schedule_async(client, &order, count_done, &seen), TARRY_OK);
    assert_true(is_readable(client, 10000));
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK); /* returns when all operations have their replies */
    assert_int_equal(seen.count, 0); /* no callback has run yet, because the loop has not dispatched */
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result),
                     TARRY_OK); /* a blocking call works without dispatch too */
    assert_int_equal(tarry_dispatch(client, 100, &count), TARRY_OK);
    assert_int_equal(count, 100);
    assert_int_equal(seen.count, 100);
    assert_true(is_readable(client, 0));
    assert_int_equal(tarry_dispatch(client, 0, &count), TARRY_OK);
    assert_int_equal(count, 200);
    assert_false(is_readable(client, 0));
    assert_int_equal(tarry_dispatch(client, 0, &count), TARRY_OK);
    assert_int_equal(count, 0);
    assert_int_equal(seen.count, 300);
    assert_int_equal(seen.elsewhere, 0);
    assert_false(seen.out_of_order);
    tarry_close(client);
    fake_stop(fake);
}

static void without_a_loop_there_is_no_descriptor(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    assert_int_equal(tarry_client_fd(client), -1);
    assert_int_equal(tarry_dispatch(client, 0, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_client_fd(NULL), -1);
    assert_int_equal(tarry_dispatch(NULL, 0, NULL), TARRY_E_ARGUMENT);
    tarry_close(client);
    fake_stop(fake);
}

static void closing_tells_what_is_left(void **state) {
    const enum deed script[] = {ANSWER, SAY_NOTHING};
    struct fake *fake = fake_start(script, 2);
    tarry_client *client = dispatching_client(fake);
    struct seen seen = {.client = client, .thread = pthread_self()};
    assert_int_equal(tarry_schedule_async(client, &order, count_done, &seen), TARRY_OK);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(tarry_schedule_async(client, &order, count_done, &seen), TARRY_OK);
    assert_int_equal(seen.count, 0);
    tarry_close(client);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.elsewhere, 0);
    assert_int_equal(seen.last, TARRY_E_CLOSED);
    fake_stop(fake);
}

static void look_around(void *arg, const struct tarry_result *result) {
    struct seen *seen = arg;
    struct tarry_result inner;
    seen->count++;
    assert_int_equal(tarry_dispatch(seen->client, 0, NULL), TARRY_E_CALLBACK);
    assert_int_equal(tarry_close(seen->client), TARRY_E_CALLBACK);
    assert_int_equal(tarry_schedule(seen->client, &order, &inner),
                     TARRY_OK); /* a blocking call is allowed here, because this thread is not the engine's */
}

static void a_callback_in_the_loop_may_block(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = dispatching_client(fake);
    struct seen seen = {.client = client};
    assert_int_equal(tarry_schedule_async(client, &order, look_around, &seen), TARRY_OK);
    while (seen.count == 0) {
        assert_true(is_readable(client, 10000));
        assert_int_equal(tarry_dispatch(client, 0, NULL), TARRY_OK);
    }
    tarry_close(client);
    assert_int_equal(fake->ops, 2);
    fake_stop(fake);
}

struct closing {
    tarry_client *client;
    tarry_consumer *consumer;
    int of_consumer;
    int of_client;
    bool has_tried;
};

static void tries_to_close(struct closing *closing) {
    closing->of_consumer = tarry_consumer_close(closing->consumer, 0, NULL);
    closing->of_client = tarry_close(closing->client);
    closing->has_tried = true;
}

static enum tarry_verdict closes_from_its_handler(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                                                  struct tarry_nack_details *details) {
    tries_to_close(arg);
    return TARRY_DO_ACK;
}

static void closes_from_a_callback(void *arg, const struct tarry_result *result) {
    tries_to_close(arg);
}

/* The close waits for the callback that the loop is running. */
static void closing_from_the_loop_is_refused(void **state) {
    for (int from_handler = 0; from_handler < 2; from_handler++) {
        struct fake *fake = fake_start(NULL, 0);
        fake_open_lane(fake);
        tarry_client *client = dispatching_client(fake);
        struct closing closing = {.client = client};
        const char *queue = "orders";
        const struct tarry_consumer_options options = {.queues = &queue,
                                                       .queue_count = 1,
                                                       .handler = closes_from_its_handler,
                                                       .arg = &closing};
        assert_int_equal(tarry_consumer_open(client, &options, &closing.consumer, NULL), TARRY_OK);
        if (from_handler == 1)
            fake_deliver(fake, 1, 7, 1);
        else
            assert_int_equal(tarry_schedule_async(client, &order, closes_from_a_callback, &closing), TARRY_OK);
        while (!closing.has_tried) {
            assert_true(is_readable(client, 10000));
            assert_int_equal(tarry_dispatch(client, 1, NULL), TARRY_OK);
        }
        assert_int_equal(closing.of_consumer, TARRY_E_CALLBACK);
        /* The client has an open consumer, which must be closed first. */
        assert_int_equal(closing.of_client, TARRY_E_ARGUMENT);
        assert_int_equal(tarry_consumer_close(closing.consumer, 0, NULL), TARRY_OK);
        assert_int_equal(COUNT(fake, unsubscribes), 1);
        assert_int_equal(COUNT(fake, ops), 1);
        assert_int_equal(tarry_close(client), TARRY_OK);
        fake_stop(fake);
    }
}

static void count_commit(void *arg, int code, const struct tarry_result *results, size_t count) {
    struct seen *seen = arg;
    seen->count += count;
    seen->last = code;
    seen->elsewhere += !pthread_equal(seen->thread, pthread_self());
    for (size_t i = 0; i < count; i++) assert_int_equal(results[i].id, i + 1);
}

static void commits_wait_for_the_loop_too(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = dispatching_client(fake);
    struct seen seen = {.thread = pthread_self(), .last = -1};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_submit(commit, NULL, count_commit, &seen), TARRY_OK);
    tarry_commit_free(commit);
    assert_true(is_readable(client, 10000));
    assert_int_equal(seen.last, -1);
    assert_int_equal(tarry_dispatch(client, 0, NULL), TARRY_OK);
    assert_int_equal(seen.last, TARRY_OK);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.elsewhere, 0);
    tarry_close(client);
    fake_stop(fake);
}

/* ---- events */

struct heard {
    pthread_mutex_t lock;
    size_t kinds[4];
    size_t blocked; /* number of blocking calls that were refused */
    char last[TARRY_MESSAGE_SIZE];
    char all[4096]; /* all events as "URL: MESSAGE; ", truncated */
    char url[64];
    tarry_client *client; /* the event's callback calls this client; NULL: it makes no call */
    pthread_t thread;
    size_t elsewhere;
};

static void hear(void *arg, const struct tarry_event *event) {
    struct heard *heard = arg;
    pthread_mutex_lock(&heard->lock);
    heard->kinds[event->kind]++;
    assert_true(event->at_ms > 1600000000000ull);
    snprintf(heard->last, sizeof(heard->last), "%s", event->message);
    snprintf(heard->url, sizeof(heard->url), "%s", event->url);
    const size_t size = strlen(heard->all);
    snprintf(heard->all + size, sizeof(heard->all) - size, "%s: %s; ", event->url, event->message);
    heard->elsewhere += !pthread_equal(heard->thread, pthread_self());
    tarry_client *client = heard->client;
    pthread_mutex_unlock(&heard->lock);
    if (client == NULL) return;
    const bool is_refused = tarry_ping(client, NULL) == TARRY_E_CALLBACK;
    assert_int_equal(tarry_schedule_async(client, &order, NULL, NULL), TARRY_OK);
    pthread_mutex_lock(&heard->lock);
    heard->blocked += is_refused;
    heard->client = NULL;
    pthread_mutex_unlock(&heard->lock);
}

static size_t heard_of(struct heard *heard, enum tarry_event_kind kind) {
    pthread_mutex_lock(&heard->lock);
    size_t count = heard->kinds[kind];
    pthread_mutex_unlock(&heard->lock);
    return count;
}

static void connections_are_told_of(void **state) {
    const enum deed script[] = {ANSWER, LOSE_ANSWER};
    struct fake *fake = fake_start(script, 2);
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER};
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url, .on_event = hear, .event_arg = &heard};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    assert_int_equal(heard_of(&heard, TARRY_CONNECTED), 1);
    assert_string_equal(heard.url, fake->url);
    pthread_mutex_lock(&heard.lock);
    heard.client = client;
    pthread_mutex_unlock(&heard.lock);
    /* The connection was lost before this call. */
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    while (heard_of(&heard, TARRY_CONNECTED) < 2) sleep_ms(1);
    assert_int_equal(heard_of(&heard, TARRY_DISCONNECTED), 1);
    /* The call also waits for the schedule that the event's callback submitted. */
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    tarry_close(client);
    assert_int_equal(heard.kinds[TARRY_DISCONNECTED], 2);
    assert_string_equal(heard.last, "the client was closed");
    assert_int_equal(heard.blocked, 1);
    assert_int_equal(fake->ops, 3);
    fake_stop(fake);
}

static void a_try_that_fails_is_told_of_once(void **state) {
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER};
    tarry_client *client;
    struct tarry_options options = {.urls = "ws://127.0.0.1:9",
                                    .timeout_ms = 1500,
                                    .on_event = hear,
                                    .event_arg = &heard};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    assert_int_equal(tarry_schedule(client, &order, NULL),
                     TARRY_E_NO_BROKER); /* the call fails at its deadline, after several connection attempts */
    tarry_close(client);
    assert_int_equal(heard.kinds[TARRY_CONNECTED], 0);
    assert_true(heard.kinds[TARRY_LOG] >= 1 && heard.kinds[TARRY_LOG] <= 3);
    assert_non_null(strstr(heard.all, "ws://127.0.0.1:9: "));
    assert_non_null(strstr(heard.all, ": no broker answered within the timeout"));
}

static void events_wait_for_the_loop_too(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .thread = pthread_self()};
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url, .dispatch = true, .on_event = hear, .event_arg = &heard};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    assert_int_equal(heard_of(&heard, TARRY_CONNECTED), 0);
    assert_true(is_readable(client, 10000));
    assert_int_equal(tarry_dispatch(client, 0, NULL), TARRY_OK);
    assert_int_equal(heard_of(&heard, TARRY_CONNECTED), 1);
    assert_int_equal(heard.elsewhere, 0);
    tarry_close(client);
    fake_stop(fake);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_wait_for_the_loop),      cmocka_unit_test(without_a_loop_there_is_no_descriptor),
        cmocka_unit_test(closing_tells_what_is_left),       cmocka_unit_test(a_callback_in_the_loop_may_block),
        cmocka_unit_test(closing_from_the_loop_is_refused), cmocka_unit_test(commits_wait_for_the_loop_too),
        cmocka_unit_test(connections_are_told_of),          cmocka_unit_test(a_try_that_fails_is_told_of_once),
        cmocka_unit_test(events_wait_for_the_loop_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
