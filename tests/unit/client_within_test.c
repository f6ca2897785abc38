/* client_within_test.c: the deadline of a single call (struct tarry_call, and `timeout_ms` in options and commits). The
 * client's own deadline is far away, or there is none. With a fake broker (fake_broker.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "client.h"
#include "fake_broker.h"

#define OWN_MS 100u
#define CLIENTS_MS 400u /* ms; timeout of a client whose calls must end earlier */
#define TRIES 10
#define FAR_MS 600000u /* ms; timeout of the client */
#define LATE_MS 20000u /* ms; latest end of a call on a busy machine; far below FAR_MS */

static const struct tarry_ref order_1 = {.queue = "orders", .key = "order-1"};
static const struct tarry_token token = {1, 1};

static tarry_client *client_to(const struct fake *fake, uint64_t timeout_ms) {
    tarry_client *client;
    const struct tarry_options options = {.urls = fake->url, .timeout_ms = timeout_ms};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

/* Starts a broker that accepts requests and never replies. */
static struct fake *fake_that_hangs(void) {
    struct fake *fake = fake_start(NULL, 0);
    fake->hangs = true;
    return fake;
}

static void end(tarry_client *client, struct fake *fake) {
    assert_int_equal(tarry_close(client), TARRY_OK);
    fake_stop(fake);
}

/* ---- each call once: without a reply it ends after OWN_MS */

static int schedules(tarry_client *client) {
    const struct tarry_schedule_options order = {.queue = "orders", .when_ms = 1, .call.timeout_ms = OWN_MS};
    return tarry_schedule(client, &order, NULL);
}
static int nacks(tarry_client *client) {
    return tarry_nack(client, 7, token, &(struct tarry_nack_options){.call.timeout_ms = OWN_MS}, NULL);
}
static int redacts(tarry_client *client) {
    const struct tarry_redact_options options = {.task = {.id = 7}, .reason = "asked for", .call.timeout_ms = OWN_MS};
    return tarry_redact(client, &options, NULL);
}
static int cancels(tarry_client *client) {
    return tarry_cancel(client, &order_1, false, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int moves(tarry_client *client) {
    return tarry_move(client, &order_1, TARRY_DELAY, 1, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int acks(tarry_client *client) {
    return tarry_ack(client, 7, token, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int extends(tarry_client *client) {
    return tarry_extend(client, 7, token, 0, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int releases(tarry_client *client) {
    return tarry_release(client, 7, token, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int sets_a_policy(tarry_client *client) {
    const struct tarry_policy policy = {.lease_ms = 1000};
    return tarry_queue_set(client, "orders", &policy, TARRY_POLICY_LEASE, &(struct tarry_call){.timeout_ms = OWN_MS},
                           NULL);
}
static int pauses(tarry_client *client) {
    return tarry_queue_pause(client, "orders", true, 0, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int purges(tarry_client *client) {
    return tarry_queue_purge(client, "orders", 0, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int deletes_a_queue(tarry_client *client) {
    return tarry_queue_delete(client, "orders", &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}
static int promotes(tarry_client *client) {
    struct tarry_pair_view *view;
    return tarry_promote(client, TARRY_ASSERT_NOTHING, &(struct tarry_call){.timeout_ms = OWN_MS}, &view, NULL);
}
static int demotes(tarry_client *client) {
    struct tarry_pair_view *view;
    return tarry_demote(client, &(struct tarry_call){.timeout_ms = OWN_MS}, &view, NULL);
}
static int reads_the_record(tarry_client *client) {
    struct tarry_pair_view *view;
    return tarry_pair_record(client, false, TARRY_ASSERT_NOTHING, &(struct tarry_call){.timeout_ms = OWN_MS}, &view,
                             NULL);
}
static int requeues(tarry_client *client) {
    return tarry_dead(client, TARRY_REQUEUE, &order_1, false, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL);
}

/* Runs a commit that pauses a queue. */
static int commits(tarry_client *client) {
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_queue_pause(commit, "orders", true, 0), TARRY_OK);
    int rv = tarry_commit_run(commit, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL, NULL);
    tarry_commit_free(commit);
    return rv;
}

static int asks_after_a_commit(tarry_client *client) {
    tarry_commit *commit;
    const struct tarry_commit_id id = {.producer = 1, .sequence = 1};
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    int rv = tarry_commit_ask(commit, &id, &(struct tarry_call){.timeout_ms = OWN_MS}, NULL, NULL);
    tarry_commit_free(commit);
    return rv;
}
static int prepares(tarry_client *client) {
    tarry_commit *commit;
    struct tarry_commit_id id;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    int rv = tarry_commit_prepare(commit, &(struct tarry_call){.timeout_ms = OWN_MS}, &id, NULL);
    tarry_commit_free(commit);
    return rv;
}

static int pings(tarry_client *client) {
    return tarry_ping(client, &(struct tarry_call){.timeout_ms = OWN_MS});
}
static int gets(tarry_client *client) {
    struct tarry_view *view;
    return tarry_get(client, &order_1, false, &(struct tarry_call){.timeout_ms = OWN_MS}, &view, NULL);
}
static int lists(tarry_client *client) {
    tarry_list *list;
    const struct tarry_view *view;
    const struct tarry_list_options options = {.queue = "orders", .call.timeout_ms = OWN_MS};
    assert_int_equal(tarry_list_open(client, &options, &list), TARRY_OK);
    int rv = tarry_list_next(list, &view, NULL);
    tarry_list_close(list);
    return rv;
}
static int lists_queues(tarry_client *client) {
    struct tarry_queues_view *view;
    return tarry_queues(client, &(struct tarry_call){.timeout_ms = OWN_MS}, &view, NULL);
}
static int counts(tarry_client *client) {
    struct tarry_stats_view *view;
    return tarry_stats(client, NULL, &(struct tarry_call){.timeout_ms = OWN_MS}, &view, NULL);
}
static int looks_at_a_job(tarry_client *client) {
    struct tarry_job_view view;
    return tarry_job(client, "orders", 1, &(struct tarry_call){.timeout_ms = OWN_MS}, &view, NULL);
}
static int looks_at_the_pair(tarry_client *client) {
    struct tarry_pair_view *view;
    return tarry_pair_status(client, &(struct tarry_call){.timeout_ms = OWN_MS}, &view, NULL);
}
static int consumes(tarry_client *client) {
    tarry_consumer *consumer;
    const char *queue = "orders";
    const struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1, .call.timeout_ms = OWN_MS};
    return tarry_consumer_open(client, &options, &consumer, NULL);
}

static int drains(tarry_client *client) {
    assert_int_equal(tarry_ack_async(client, 7, token, &(struct tarry_call){.timeout_ms = TARRY_FOREVER}, NULL, NULL),
                     TARRY_OK);
    return tarry_drain(client, 0, &(struct tarry_call){.timeout_ms = OWN_MS});
}

static int (*const calls[])(tarry_client *client) = {
    schedules,
    nacks,
    redacts,
    cancels,
    moves,
    acks,
    extends,
    releases,
    requeues,
    sets_a_policy,
    pauses,
    purges,
    deletes_a_queue,
    promotes,
    demotes,
    reads_the_record,
    commits,
    prepares,
    pings,
    gets,
    lists,
    lists_queues,
    counts,
    looks_at_a_job,
    looks_at_the_pair,
    consumes,
    asks_after_a_commit,
    drains,
};

static void each_call_ends_by_its_own_deadline(void **state) {
    const uint64_t of_client[] = {FAR_MS, TARRY_FOREVER};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct fake *fake = fake_that_hangs();
        tarry_client *client = client_to(fake, of_client[i % 2]);
        uint64_t before = now_ms();
        int rv = calls[i](client);
        uint64_t took = now_ms() - before;
        if (rv != TARRY_E_TIMEOUT && rv != TARRY_E_NO_BROKER) fail_msg("call %zu: %s", i, tarry_code_name(rv));
        if (took < OWN_MS || took >= LATE_MS) fail_msg("call %zu took %llu ms", i, (unsigned long long)took);
        end(client, fake);
    }
}

/* ---- asynchronous calls */

struct ended {
    int code;
    uint64_t at_ms;
    atomic_int done;
};

static void has_ended(void *arg, const struct tarry_result *result) {
    struct ended *ended = arg;
    ended->code = result->code;
    ended->at_ms = now_ms();
    assert_int_equal(atomic_fetch_add(&ended->done, 1), 0); /* exactly once */
}

static void has_committed(void *arg, int code, const struct tarry_result *results, size_t count) {
    has_ended(arg, &(struct tarry_result){.code = code});
}

static void each_asynchronous_call_ends_by_its_own_deadline(void **state) {
    struct fake *fake = fake_that_hangs();
    tarry_client *client = client_to(fake, TARRY_FOREVER);
    const struct tarry_schedule_options order = {.queue = "orders", .when_ms = 1, .call.timeout_ms = OWN_MS};
    const struct tarry_nack_options nack = {.call.timeout_ms = OWN_MS};
    struct ended ended[9] = {{.code = -1}};
    uint64_t before = now_ms();
    assert_int_equal(tarry_schedule_async(client, &order, has_ended, &ended[0]), TARRY_OK);
    assert_int_equal(tarry_nack_async(client, 7, token, &nack, has_ended, &ended[1]), TARRY_OK);
    assert_int_equal(tarry_cancel_async(client, &order_1, false, &(struct tarry_call){.timeout_ms = OWN_MS}, has_ended,
                                        &ended[2]),
                     TARRY_OK);
    assert_int_equal(tarry_move_async(client, &order_1, TARRY_DELAY, 1, &(struct tarry_call){.timeout_ms = OWN_MS},
                                      has_ended, &ended[3]),
                     TARRY_OK);
    assert_int_equal(tarry_ack_async(client, 7, token, &(struct tarry_call){.timeout_ms = OWN_MS}, has_ended,
                                     &ended[4]),
                     TARRY_OK);
    assert_int_equal(tarry_extend_async(client, 7, token, 0, &(struct tarry_call){.timeout_ms = OWN_MS}, has_ended,
                                        &ended[5]),
                     TARRY_OK);
    assert_int_equal(tarry_release_async(client, 7, token, &(struct tarry_call){.timeout_ms = OWN_MS}, has_ended,
                                         &ended[6]),
                     TARRY_OK);
    assert_int_equal(tarry_dead_async(client, TARRY_DROP, &order_1, false, &(struct tarry_call){.timeout_ms = OWN_MS},
                                      has_ended, &ended[7]),
                     TARRY_OK);
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_ack(commit, 7, token), TARRY_OK);
    assert_int_equal(tarry_commit_submit(commit, &(struct tarry_call){.timeout_ms = OWN_MS}, has_committed, &ended[8]),
                     TARRY_OK);
    tarry_commit_free(commit);
    assert_int_equal(tarry_drain(client, 0, &(struct tarry_call){.timeout_ms = LATE_MS}), TARRY_OK);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(atomic_load(&ended[i].done), 1);
        assert_true(ended[i].code == TARRY_E_TIMEOUT || ended[i].code == TARRY_E_NO_BROKER);
        assert_true(ended[i].at_ms >= before + OWN_MS && ended[i].at_ms < before + LATE_MS);
    }
    end(client, fake);
}

/* ---- a deadline later than the client's */

/* Submits a call without a deadline and a call with the client's timeout. Returns the code of the second call. */
static int submits_one_that_has_no_end(void) {
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_room = true;
    tarry_client *client = client_to(fake, CLIENTS_MS);
    assert_int_equal(tarry_ping(client, &(struct tarry_call){.timeout_ms = FAR_MS}), TARRY_OK);
    struct tarry_schedule_options order = {.queue = "orders",
                                           .key = "1",
                                           .when_ms = 1,
                                           .call.timeout_ms = TARRY_FOREVER};
    struct ended lasting = {.code = -1}, short_lived = {.code = -1};
    assert_int_equal(tarry_schedule_async(client, &order, has_ended, &lasting), TARRY_OK);
    order.key = "2";
    order.call.timeout_ms = 0; /* the call has the client's timeout, and joins the commit of the first call */
    assert_int_equal(tarry_schedule_async(client, &order, has_ended, &short_lived), TARRY_OK);
    while (!atomic_load(&short_lived.done)) sleep_ms(1);
    assert_int_equal(atomic_load(&lasting.done), 0);
    assert_int_equal(tarry_drain(client, 0, &(struct tarry_call){.timeout_ms = OWN_MS}), TARRY_E_TIMEOUT);
    pthread_mutex_lock(&fake->lock);
    fake->lacks_room = false;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(tarry_drain(client, 0, &(struct tarry_call){.timeout_ms = TARRY_FOREVER}), TARRY_OK);
    assert_int_equal(lasting.code, TARRY_OK);
    if (short_lived.code == TARRY_BUSY) assert_int_equal(COUNT(fake, ops), 1);
    end(client, fake);
    return short_lived.code;
}

static void a_call_without_an_end_outlives_the_clients(void **state) {
    int code = TARRY_E_TIMEOUT; /* TARRY_E_TIMEOUT: the request was in flight at the deadline, so try again */
    for (int i = 0; i < TRIES && code == TARRY_E_TIMEOUT; i++) code = submits_one_that_has_no_end();
    assert_int_equal(code, TARRY_BUSY);
}

/* An operation's options have a timeout, but within a commit it has no effect: a commit ends as a whole. */
static void an_operation_of_a_commit_has_no_deadline_of_its_own(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake, OWN_MS);
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    const struct tarry_schedule_options order = {.queue = "orders", .when_ms = 1, .call.timeout_ms = 1};
    const struct tarry_redact_options redact = {.task = {.id = 7}, .reason = "asked for", .call.timeout_ms = 1};
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_nack(commit, 7, token, &(struct tarry_nack_options){.call.timeout_ms = 1}),
                     TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_redact(commit, &redact), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_E_ARGUMENT);
    tarry_commit_free(commit);
    end(client, fake);
}

static void closing_a_consumer_ends_by_its_own_deadline(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake_open_lane(fake);
    tarry_client *client = client_to(fake, TARRY_FOREVER);
    tarry_consumer *consumer;
    const char *queue = "orders";
    const struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1};
    assert_int_equal(tarry_consumer_open(client, &options, &consumer, NULL), TARRY_OK);
    pthread_mutex_lock(&fake->lock);
    fake->hangs = true;
    pthread_mutex_unlock(&fake->lock);
    /* A program that settles leases itself may wait for the reply without limit. Closing the consumer does not wait for
     * it. */
    assert_int_equal(tarry_ack_async(client, 7, token, &(struct tarry_call){.timeout_ms = TARRY_FOREVER}, NULL, NULL),
                     TARRY_OK);
    uint64_t before = now_ms();
    int rv = tarry_consumer_close(consumer, 0, &(struct tarry_call){.timeout_ms = OWN_MS});
    assert_true(rv == TARRY_E_TIMEOUT || rv == TARRY_E_NO_BROKER);
    assert_true(now_ms() - before < LATE_MS);
    end(client, fake);
}

struct verdict {
    atomic_int given;
    atomic_int told;
    int code;
};

static enum tarry_verdict says_ack(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                                   struct tarry_nack_details *details) {
    atomic_store(&((struct verdict *)arg)->given, 1);
    return TARRY_DO_ACK;
}

static void is_settled(void *arg, const struct tarry_task *task, const struct tarry_result *result) {
    struct verdict *verdict = arg;
    verdict->code = result->code;
    atomic_fetch_add(&verdict->told, 1);
}

static void close_with_a_verdict(bool is_sent, bool loops) {
    const enum deed script[] = {SAY_NOTHING};
    struct fake *fake = fake_start(script, 1);
    fake_open_lane(fake);
    tarry_client *client;
    const struct tarry_options options = {.urls = fake->url, .timeout_ms = TARRY_FOREVER, .dispatch = loops};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    tarry_consumer *consumer;
    const char *queue = "orders";
    struct verdict verdict = {.code = -1};
    const struct tarry_consumer_options consuming = {
        .queues = &queue, .queue_count = 1, .handler = says_ack, .settled = is_settled, .arg = &verdict};
    assert_int_equal(tarry_consumer_open(client, &consuming, &consumer, NULL), TARRY_OK);
    pthread_mutex_lock(&fake->lock);
    fake->hangs = !is_sent;
    pthread_mutex_unlock(&fake->lock);
    fake_deliver(fake, 1, 7, 1);
    while (!atomic_load(&verdict.given) || (is_sent && COUNT(fake, commits) == 0)) {
        if (loops) assert_int_equal(tarry_dispatch(client, 0, NULL), TARRY_OK);
        sleep_ms(1);
    }
    uint64_t before = now_ms();
    int rv = tarry_consumer_close(consumer, 0, &(struct tarry_call){.timeout_ms = OWN_MS});
    uint64_t took = now_ms() - before;
    if (!is_sent) assert_true(rv == TARRY_E_TIMEOUT || rv == TARRY_E_NO_BROKER);
    assert_true(took < LATE_MS);
    assert_int_equal(atomic_load(&verdict.told),
                     1); /* the settlement's outcome was reported once, before the close returned */
    bool is_unsent =
        verdict.code == TARRY_E_NO_BROKER ||
        verdict.code == TARRY_BUSY; /* BUSY is possible, because the broker had just answered other calls */
    assert_true(verdict.code == TARRY_E_TIMEOUT || (!is_sent && is_unsent));
    end(client, fake);
}

/* The client's calls have no deadline. A settlement (ack or nack) that gets no reply ends when the consumer is closed,
 * and its end is reported. */
static void closing_a_consumer_ends_although_its_verdict_is_not_answered(void **state) {
    for (int kind = 0; kind < 4; kind++) close_with_a_verdict((kind & 1) != 0, (kind & 2) != 0);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_ends_by_its_own_deadline),
        cmocka_unit_test(each_asynchronous_call_ends_by_its_own_deadline),
        cmocka_unit_test(a_call_without_an_end_outlives_the_clients),
        cmocka_unit_test(an_operation_of_a_commit_has_no_deadline_of_its_own),
        cmocka_unit_test(closing_a_consumer_ends_by_its_own_deadline),
        cmocka_unit_test(closing_a_consumer_ends_although_its_verdict_is_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
