/* client_once_test.c: retries, order, gathering of operations, and silence of the broker in libtarry, with a fake
 * broker (fake_broker.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "fake_broker.h"

#define FAR_MS 600000u /* timeout in ms that no test reaches */

static tarry_client *client_to(const char *urls, uint64_t timeout_ms) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .name = "client_test", .timeout_ms = timeout_ms};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

static void a_broken_builder_sends_nothing(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, FAR_MS);
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, true, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_cancel(commit, &(struct tarry_ref){0}, false), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(fake->commits, 0);
    tarry_commit_clear(commit);
    for (int i = 0; i < TARRY_OPS_PER_COMMIT_MAX; i++)
        assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_TOO_LARGE);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

/* ---- silence */

static void nobody_there_is_told_in_time(void **state) {
    tarry_client *client = client_to("ws://127.0.0.1:9,ws://127.0.0.1:10", 400);
    uint64_t before = now_ms();
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
    uint64_t took = now_ms() - before;
    assert_true(took >= 400 && took < RESEND_AFTER_MS);
    assert_int_equal(result.producer, 0);
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_get(client, &(struct tarry_ref){.id = 1}, false, NULL, &view, message), TARRY_E_NO_BROKER);
    assert_true(strlen(message) > 5);
    assert_null(view);
    tarry_consumer *consumer = NULL;
    const char *queue = "orders";
    struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1};
    assert_int_equal(tarry_consumer_open(client, &options, &consumer, message), TARRY_E_NO_BROKER);
    assert_null(consumer);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    tarry_close(client);
}

/* A common first error is a refused connection. The message names the address, in one line. */
static void a_result_keeps_its_sentence(void **state) {
    tarry_client *client = client_to("ws://127.0.0.1:9", 100);
    struct tarry_result result, other;
    char line[2 * TARRY_MESSAGE_SIZE], said[TARRY_MESSAGE_SIZE], message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
    snprintf(line, sizeof(line), "%s|%s", result.message, tarry_addresses_say(client, said));
    assert_ptr_equal(strstr(line, tarry_code_sentence(TARRY_E_NO_BROKER)), line);
    assert_non_null(strstr(line, "|ws://127.0.0.1:9: "));
    /* Later calls of any kind leave the message of the earlier result unchanged. */
    const struct tarry_result kept = result;
    struct tarry_view *view;
    assert_int_equal(tarry_cancel(client, &(struct tarry_ref){0}, false, NULL, &other), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_get(client, &(struct tarry_ref){.id = 1}, false, NULL, &view, message), TARRY_E_NO_BROKER);
    tarry_close(client);
    assert_string_equal(result.message, kept.message);
    assert_string_equal(other.message, tarry_code_sentence(TARRY_E_ARGUMENT));
    assert_ptr_equal(strstr(message, tarry_code_sentence(TARRY_E_NO_BROKER)), message);
}

static void a_silent_broker_leaves_the_outcome_unknown(void **state) { /* F-17 */
    const enum deed script[] = {SAY_NOTHING, SAY_NOTHING, SAY_NOTHING, SAY_NOTHING};
    struct fake *fake = fake_start(script, 4);
    tarry_client *client = client_to(fake->url, 2000);
    uint64_t before = now_ms();
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_TIMEOUT);
    uint64_t took = now_ms() - before;
    assert_true(took >= 2000 && took < RESEND_AFTER_MS);
    tarry_close(client);
    fake_stop(fake);
}

static void a_busy_broker_is_asked_again(void **state) {
    enum { DELAYS = 24 };
    enum deed script[DELAYS];
    for (int i = 0; i < DELAYS; i++) script[i] = i % 2 ? SAY_BUSY : SAY_STOPPING;
    struct fake *fake = fake_start(script, DELAYS);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    /* Each refused commit has given back its sequence, and the next commit used it again. */
    assert_int_equal(result.sequence, DELAYS + 1);
    assert_int_equal(fake->last_oldest, DELAYS + 1);
    assert_int_equal(fake->ops, 1);
    assert_int_equal(fake->commits, DELAYS + 1);
    tarry_close(client);
    for (int i = 0; i < 5000 && COUNT(fake, goodbyes) == 0; i++)
        sleep_ms(1); /* the client does not wait long for the reply to Goodbye */
    assert_int_equal(COUNT(fake, goodbyes), 1);
    fake_stop(fake);
}

/* If the broker is busy, for example with a full disk, a waiting program can ask for the reason and the duration. */
static void what_waits_for_room_says_since_when_and_why(void **state) {
    enum deed script[256];
    for (int i = 0; i < 256; i++) script[i] = SAY_BUSY;
    struct fake *fake = fake_start(script, 256);
    tarry_client *client = client_to(fake->url, FAR_MS);
    char reason[TARRY_MESSAGE_SIZE] = "none was asked for";
    assert_int_equal(tarry_busy_ms(NULL, reason), 0);
    assert_int_equal(tarry_busy_ms(client, reason), 0);
    assert_string_equal(reason, "");
    assert_int_equal(tarry_schedule_async(client, &order, NULL, NULL), TARRY_OK);
    while (tarry_busy_ms(client, NULL) < 300) sleep_ms(5);
    assert_true(tarry_busy_ms(client, reason) >= 300);
    assert_string_not_equal(reason, "");
    pthread_mutex_lock(&fake->lock);
    fake->script_size = 0;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(tarry_busy_ms(client, NULL), 0);
    tarry_close(client);
    fake_stop(fake);
}

/* After a reply that ends the call, whatever its code, tarry_busy_ms is 0: the client no longer reports that it waits.
 */
static void a_last_refusal_ends_the_wait_for_room(void **state) {
    const enum deed script[] = {LOSE_ANSWER, SAY_BUSY, FORGET};
    struct fake *fake = fake_start(script, 3);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_FORGOTTEN);
    assert_int_equal(COUNT(fake, commits), 3);
    assert_int_equal(tarry_busy_ms(client, NULL), 0);
    tarry_close(client);
    fake_stop(fake);
}

static void who_is_not_there_any_more_is_not_busy(void **state) {
    const enum deed script[] = {SAY_BUSY, LOSE_REQUEST, SAY_NOTHING};
    struct fake *fake = fake_start(script, 3);
    tarry_client *client = client_to(fake->url, FAR_MS);
    assert_int_equal(tarry_schedule_async(client, &order, NULL, NULL), TARRY_OK);
    while (COUNT(fake, commits) < 3) sleep_ms(5);
    assert_int_equal(tarry_busy_ms(client, NULL), 0);
    tarry_close(client);
    fake_stop(fake);
}

/* ---- ONCE-1 */

static void a_lost_answer_is_asked_for_again_under_the_same_sequence(void **state) { /* F-22, ONCE-1 */
    const enum deed script[] = {LOSE_REQUEST, LOSE_ANSWER, LOSE_ANSWER, SAY_BUSY, LOSE_REQUEST};
    struct fake *fake = fake_start(script, 5);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_int_equal(result.id, 1);
    assert_int_equal(fake->ops, 1);
    assert_int_equal(fake->commits, 6);
    assert_int_equal(fake->hellos, 1);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_int_equal(result.id, 2);
    assert_int_equal(result.sequence, 2);
    assert_int_equal(fake->last_oldest, 2);
    tarry_close(client);
    fake_stop(fake);
}

static void a_forgotten_producer_that_executed_nothing_is_replaced(void **state) {
    const enum deed script[] = {ANSWER, FORGET, ANSWER};
    struct fake *fake = fake_start(script, 3);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    uint64_t first = result.producer;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_true(result.producer != first && result.sequence == 1);
    assert_int_equal(fake->ops, 2);
    assert_int_equal(fake->hellos, 2);
    tarry_close(client);
    fake_stop(fake);
}

static void a_refusal_before_the_forgetting_proves_nothing_was_executed(void **state) {
    const enum deed script[] = {SAY_BUSY, SAY_STOPPING, FORGET, ANSWER};
    struct fake *fake = fake_start(script, 4);
    tarry_client *client = client_to(fake->url, FAR_MS);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    assert_int_equal(fake->ops, 1);
    assert_int_equal(fake->hellos, 2);
    tarry_close(client);
    fake_stop(fake);
}

static void what_may_have_been_executed_is_never_sent_as_new(void **state) { /* F-22, ONCE-1 */
    const enum deed script[] = {LOSE_ANSWER, FORGET, ANSWER};
    struct fake *fake = fake_start(script, 3);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_FORGOTTEN);
    assert_int_equal(fake->ops, 1);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    tarry_close(client);
    fake_stop(fake);
}

/* A commit in flight also counts as unanswered, so the broker must remember its reply while later commits are sent. */
static void the_oldest_unanswered_may_be_under_way(void **state) { /* ONCE-1 */
    const enum deed script[] = {SAY_NOTHING, SAY_NOTHING};
    struct fake *fake = fake_start(script, 2);
    const struct tarry_options options = {.urls = fake->url, .commits_in_flight = 3};
    tarry_client *client;
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(tarry_schedule_async(client, &order, NULL, NULL), TARRY_OK);
        while (COUNT(fake, commits) < i) sleep_ms(1);
        pthread_mutex_lock(&fake->lock);
        assert_int_equal(fake->last_oldest, 1);
        pthread_mutex_unlock(&fake->lock);
    }
    tarry_close(client);
    fake_stop(fake);
}

struct pinging {
    tarry_client *client;
    atomic_bool stop;
};

static void *pings(void *arg) {
    struct pinging *pinging = arg;
    while (!atomic_load(&pinging->stop)) {
        assert_int_equal(tarry_ping(pinging->client, NULL), TARRY_OK);
        sleep_ms(100);
    }
    return NULL;
}

/* One reply is lost on a connection that brings other replies. The client notices that only by a timeout. */
static void an_answer_lost_on_a_standing_connection_is_asked_for_again(void **state) { /* F-17, ONCE-1 */
    const enum deed script[] = {SAY_NOTHING};
    struct fake *fake = fake_start(script, 1);
    tarry_client *client = client_to(fake->url, FAR_MS);
    pthread_t thread;
    assert_int_equal(tarry_ping(client, NULL), TARRY_OK);
    pthread_mutex_lock(&client->lock);
    uint32_t connection = client->link.serial;
    pthread_mutex_unlock(&client->lock);
    struct pinging pinging = {.client = client};
    assert_int_equal(pthread_create(&thread, NULL, pings, &pinging), 0);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_int_equal(result.sequence, 1);
    atomic_store(&pinging.stop, true);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&client->lock);
    assert_int_equal(client->link.serial, connection);
    pthread_mutex_unlock(&client->lock);
    assert_int_equal(COUNT(fake, commits), 2);
    tarry_close(client);
    fake_stop(fake);
}

struct counted {
    atomic_size_t done;
    atomic_size_t ok;
    uint64_t last_id;
    bool ascending;
};

static void count_done(void *arg, const struct tarry_result *result) {
    struct counted *counted = arg;
    if (result->code == TARRY_OK) atomic_fetch_add(&counted->ok, 1);
    if (result->id <= counted->last_id) counted->ascending = false;
    counted->last_id = result->id;
    atomic_fetch_add(&counted->done, 1);
}

static void count_commit(void *arg, int code, const struct tarry_result *results, size_t count) {
    assert_int_equal(count, 1);
    count_done(arg, results);
}

/* A commit may have been executed and then gets BUSY, so its outcome is unknown. The broker remembers only
 * COMMITS_PER_PRODUCER_MAX replies. So at most that many later commits may be sent before this one. */
static void a_commit_of_unknown_fate_is_not_left_behind(void **state) { /* ONCE-1 */
    enum { COMMITS = 500 };
    const enum deed script[] = {LOSE_REQUEST};
    struct fake *fake = fake_start(script, 1);
    fake->first_busy = UINT32_MAX;
    const struct tarry_options options = {.urls = fake->url, .timeout_ms = FAR_MS, .commits_in_flight = 16};
    tarry_client *client;
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    struct counted counted = {.ascending = true};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (int i = 0; i < COMMITS; i++) {
        assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
        assert_int_equal(tarry_commit_submit(commit, NULL, count_commit, &counted), TARRY_OK);
    }
    while (COUNT(fake, widest) < COMMITS_PER_PRODUCER_MAX - 1) sleep_ms(1);
    pthread_mutex_lock(&fake->lock);
    fake->first_busy = 2;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(counted.ok, COMMITS);
    assert_int_equal(fake->ops, COMMITS);
    assert_int_equal(fake->widest, COMMITS_PER_PRODUCER_MAX - 1);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

/* A mix of all faults, with many waiting requests: each operation takes effect once, in the order of submission. */
static void operations_take_effect_once_and_in_order(void **state) { /* F-16, ONCE-1 */
    enum { SCRIPT = 200, OPS = 50000, OWN_REQUEST_EVERY = 200 };
    enum deed script[SCRIPT];
    uint64_t random = 42;
    for (int i = 0; i < SCRIPT; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        const enum deed deeds[] = {ANSWER, LOSE_ANSWER, LOSE_REQUEST, SAY_BUSY, ANSWER, SAY_STOPPING};
        script[i] = deeds[(random >> 33) % 6];
    }
    struct fake *fake = fake_start(script, SCRIPT);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct counted counted = {.ascending = true};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (int i = 0; i < OPS; i++) {
        if (i % OWN_REQUEST_EVERY == 0) {
            assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
            assert_int_equal(tarry_commit_submit(commit, NULL, count_commit, &counted), TARRY_OK);
        } else {
            assert_int_equal(tarry_schedule_async(client, &order, count_done, &counted), TARRY_OK);
        }
    }
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(counted.done, OPS);
    assert_int_equal(counted.ok, OPS);
    assert_true(counted.ascending);
    assert_int_equal(fake->ops, OPS);
    assert_int_equal(fake->hellos, 1);
    assert_false(fake->out_of_order);
    assert_true(fake->commits > SCRIPT); /* the broker has used the whole script */
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void requests_coalesce(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct counted counted = {.ascending = true};
    enum { OPS = 200000 };
    uint64_t before = now_ms();
    for (int i = 0; i < OPS; i++)
        assert_int_equal(tarry_schedule_async(client, &order, count_done, &counted), TARRY_OK);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    uint64_t took = now_ms() - before;
    print_message("# %d operations in %llu ms, %zu commits, at most %zu operations in one\n", OPS,
                  (unsigned long long)took, fake->commits, fake->ops_most);
    assert_int_equal(counted.ok, OPS);
    assert_true(fake->ops_most <= OPS_PER_COMMIT_MAX);
    /* There are usually 1,000 operations in a commit. If the library is slower than its caller (TSan), fewer operations
     * gather in a commit. */
    assert_true(fake->commits < OPS / 10);
    tarry_close(client);
    fake_stop(fake);
}

static void a_commit_is_a_request_of_its_own_in_order(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct counted counted = {.ascending = true};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, true, &commit), TARRY_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(tarry_schedule_async(client, &order, count_done, &counted), TARRY_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    const struct tarry_result *results;
    size_t count;
    assert_int_equal(tarry_commit_run(commit, NULL, &results, &count), TARRY_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) assert_int_equal(results[i].id, 6 + i);
    assert_int_equal(counted.done, 5);
    /* From now on the broker refuses an atomic commit as a whole. */
    fake->atomic_aborts = true;
    for (int i = 0; i < 3; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_run(commit, NULL, &results, &count), TARRY_ABORTED);
    assert_int_equal(results[0].code, TARRY_ABORTED);
    assert_int_equal(results[2].code, TARRY_EXISTS);
    assert_string_equal(results[2].message, "a live task has this key");
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void an_answer_without_sense_is_told(void **state) { /* F-20 */
    const enum deed script[] = {GARBAGE, ANSWER};
    struct fake *fake = fake_start(script, 2);
    tarry_client *client = client_to(fake->url, FAR_MS);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_E_PROTOCOL);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    assert_int_equal(tarry_ping(client, NULL), TARRY_OK);
    struct tarry_queues_view *view;
    char message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_queues(client, NULL, &view, message), TARRY_OK);
    tarry_queues_free(view);
    tarry_audit *audit;
    const struct tarry_frame *frame;
    assert_int_equal(tarry_audit_open(client, NULL, &audit), TARRY_OK);
    assert_int_equal(tarry_audit_next(audit, 5000, &frame, message), TARRY_UNSUPPORTED);
    assert_string_equal(message, "says the fake");
    tarry_audit_close(audit);
    tarry_close(client);
    fake_stop(fake);
}

static void what_the_broker_cannot_take_is_not_sent(void **state) {
    struct fake *fake = fake_start(NULL, 0); /* accepts payloads of at most 1 MiB */
    tarry_client *client = client_to(fake->url, FAR_MS);
    struct tarry_schedule_options large = order;
    large.payload_size = 2 << 20;
    large.payload = calloc(1, large.payload_size);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &large, &result), TARRY_TOO_LARGE);
    assert_int_equal(fake->commits, 0);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    free((void *)large.payload);
    tarry_close(client);
    fake_stop(fake);
}

static void blocking_in_a_callback(void *arg, const struct tarry_result *result) {
    struct tarry_result inner;
    *(int *)arg = tarry_schedule(*(tarry_client **)((char *)arg + sizeof(void *)), &order, &inner);
}

static void a_blocking_call_in_a_callback_is_refused(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    struct {
        union {
            int code;
            void *align;
        } first;
        tarry_client *client;
    } args = {.first = {.align = NULL}};
    args.client = client_to(fake->url, FAR_MS);
    assert_int_equal(tarry_schedule_async(args.client, &order, blocking_in_a_callback, &args), TARRY_OK);
    assert_int_equal(tarry_drain(args.client, 0, NULL), TARRY_OK);
    assert_int_equal(args.first.code, TARRY_E_CALLBACK);
    tarry_close(args.client);
    fake_stop(fake);
}

static void count_closed(void *arg, const struct tarry_result *result) {
    if (result->code == TARRY_E_CLOSED) (*(int *)arg)++;
}

static void closing_completes_what_waits(void **state) {
    const enum deed script[] = {SAY_NOTHING};
    struct fake *fake = fake_start(script, 1);
    tarry_client *client = client_to(fake->url, TARRY_FOREVER);
    int closed = 0;
    for (int i = 0; i < 100; i++)
        assert_int_equal(tarry_schedule_async(client, &order, count_closed, &closed), TARRY_OK);
    usleep(100000);
    tarry_close(client);
    assert_int_equal(closed, 100);
    fake_stop(fake);
}

static void *thread_of_calls(void *arg) {
    for (int i = 0; i < 500; i++) assert_int_equal(tarry_schedule(arg, &order, NULL), TARRY_OK);
    return NULL;
}

static void threads_share_a_client(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, FAR_MS);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, thread_of_calls, client), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    assert_int_equal(fake->ops, 4000);
    assert_true(fake->commits < 4000);
    tarry_close(client);
    fake_stop(fake);
}

static void the_next_address_is_tried(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    char urls[128];
    snprintf(urls, sizeof(urls), "ws://127.0.0.1:9,%s", fake->url);
    tarry_client *client = client_to(urls, FAR_MS);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    tarry_close(client);
    fake_stop(fake);
}

static void full_means_nothing_was_done(void **state) {
    const enum deed script[] = {SAY_NOTHING};
    struct fake *fake = fake_start(script, 1);
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url, .queued_size_max = 10000};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    size_t accepted = 0;
    int rv, closed = 0;
    while ((rv = tarry_schedule_async(client, &order, count_closed, &closed)) == TARRY_OK) accepted++;
    assert_int_equal(rv, TARRY_E_FULL);
    assert_true(accepted > 50 && accepted < 1000);
    tarry_close(client);
    assert_int_equal(closed, accepted);
    fake_stop(fake);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_builder_sends_nothing),
        cmocka_unit_test(nobody_there_is_told_in_time),
        cmocka_unit_test(a_result_keeps_its_sentence),
        cmocka_unit_test(a_silent_broker_leaves_the_outcome_unknown),
        cmocka_unit_test(a_busy_broker_is_asked_again),
        cmocka_unit_test(what_waits_for_room_says_since_when_and_why),
        cmocka_unit_test(a_last_refusal_ends_the_wait_for_room),
        cmocka_unit_test(who_is_not_there_any_more_is_not_busy),
        cmocka_unit_test(a_lost_answer_is_asked_for_again_under_the_same_sequence),
        cmocka_unit_test(a_forgotten_producer_that_executed_nothing_is_replaced),
        cmocka_unit_test(a_refusal_before_the_forgetting_proves_nothing_was_executed),
        cmocka_unit_test(what_may_have_been_executed_is_never_sent_as_new),
        cmocka_unit_test(the_oldest_unanswered_may_be_under_way),
        cmocka_unit_test(an_answer_lost_on_a_standing_connection_is_asked_for_again),
        cmocka_unit_test(a_commit_of_unknown_fate_is_not_left_behind),
        cmocka_unit_test(operations_take_effect_once_and_in_order),
        cmocka_unit_test(requests_coalesce),
        cmocka_unit_test(a_commit_is_a_request_of_its_own_in_order),
        cmocka_unit_test(an_answer_without_sense_is_told),
        cmocka_unit_test(what_the_broker_cannot_take_is_not_sent),
        cmocka_unit_test(a_blocking_call_in_a_callback_is_refused),
        cmocka_unit_test(closing_completes_what_waits),
        cmocka_unit_test(threads_share_a_client),
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(full_means_nothing_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
