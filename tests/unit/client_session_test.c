/* client_session_test.c: libtarry's consumers when the broker loses their session. With a fake broker
 * (fake_broker.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "consumer.h"
#include "fake_broker.h"

/* Messages of the client's events, each followed by "; ", truncated. For one client at a time; complete once it is
 * closed. */
static char heard[4096];

static void hear(void *arg, const struct tarry_event *event) {
    const size_t size = strlen(heard);
    snprintf(heard + size, sizeof(heard) - size, "%s; ", event->message);
}

static tarry_client *client_to(const char *urls, uint64_t timeout_ms) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .name = "client_test", .timeout_ms = timeout_ms, .on_event = hear};
    heard[0] = 0;
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static tarry_consumer *consumer_with_two_tasks(struct fake *fake, tarry_client *client) {
    tarry_consumer *consumer;
    const char *queue = "orders";
    fake_open_lane(fake);
    fake->silence_ms = SESSION_SILENCE_MIN_MS;
    const struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1};
    assert_int_equal(tarry_consumer_open(client, &options, &consumer, NULL), TARRY_OK);
    fake_deliver(fake, 1, 11, 1);
    fake_deliver(fake, 1, 12, 2);
    for (size_t held = 0; held < 2; sleep_ms(1)) {
        pthread_mutex_lock(&consumer->lock);
        held = consumer->held.count;
        pthread_mutex_unlock(&consumer->lock);
    }
    /* The broker loses the session, and the client notices it by the next heartbeat. */
    pthread_mutex_lock(&fake->lock);
    fake->session = 0;
    pthread_mutex_unlock(&fake->lock);
    for (int i = 0; i < 20000 && tarry_consumer_session(consumer) != 2; i++) sleep_ms(1);
    assert_int_equal(tarry_consumer_session(consumer), 2);
    return consumer;
}

static uint64_t next_id(tarry_consumer *consumer) {
    const struct tarry_task *task;
    assert_int_equal(tarry_consumer_next(consumer, 20000, &task), TARRY_OK);
    uint64_t id = task->id;
    tarry_task_free(task);
    return id;
}

/* Deliveries of a lost session are dropped, because other consumers may have these tasks now. */
static void deliveries_of_a_lost_session_are_not_handed_out(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, 20000);
    tarry_consumer *consumer = consumer_with_two_tasks(fake, client);
    fake_deliver(fake, 1, 13, 3); /* the delivery belongs to the former session and comes late */
    fake_deliver(fake, 2, 14, 4);
    assert_int_equal(next_id(consumer), 14);
    assert_int_equal(tarry_consumer_close(consumer, 0, NULL), TARRY_OK);
    assert_int_equal(fake->seen_count, 1);
    tarry_close(client);
    assert_non_null(strstr(heard,
                           "session 1 of orders begins; session 1 of orders is interrupted: the client subscribes "
                           "again; session 2 of orders begins; "));
    fake_stop(fake);
}

static void deliveries_of_a_resumed_session_are_handed_out_once(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake->resumes = true;
    tarry_client *client = client_to(fake->url, 20000);
    tarry_consumer *consumer = consumer_with_two_tasks(fake, client);
    fake_deliver(fake, 2, 12, 2); /* the broker delivers the tasks again, with the same token */
    fake_deliver(fake, 2, 14, 4);
    assert_int_equal(next_id(consumer), 11);
    assert_int_equal(next_id(consumer), 12);
    assert_int_equal(next_id(consumer), 14);
    assert_int_equal(tarry_consumer_close(consumer, 0, NULL), TARRY_OK);
    tarry_close(client);
    assert_non_null(strstr(heard, "session 2 of orders continues with its leases; "));
    fake_stop(fake);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deliveries_of_a_lost_session_are_not_handed_out),
        cmocka_unit_test(deliveries_of_a_resumed_session_are_handed_out_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
