/* client_deadline_test.c: each call of libtarry ends at its own deadline, whatever the broker and other calls do, and
 * then reports what is known. With a fake broker (fake_broker.h). The time limits are far above the expected times,
 * because they only show that the call ends at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "client.h"
#include "consumer.h"
#include "fake_broker.h"

#define LATE_MS 20000u /* time in ms by which a call may end late on a busy machine */
#define TRIES 10
#define FAR_MS 600000u /* timeout in ms that no test reaches */
#define FIRST_MS 1500u /* timeout in ms of a call that must end while a call submitted with it continues */

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};
static const struct tarry_token token = {1, 1};

static tarry_client *client_to(const char *urls, uint64_t timeout_ms, uint32_t commits_in_flight) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls,
                                    .name = "client_test",
                                    .timeout_ms = timeout_ms,
                                    .commits_in_flight = commits_in_flight};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

#define SET(fake, field, value)                                                                                        \
    do {                                                                                                               \
        pthread_mutex_lock(&(fake)->lock);                                                                             \
        (fake)->field = (value);                                                                                       \
        pthread_mutex_unlock(&(fake)->lock);                                                                           \
    } while (0)

/* Starts a fake broker that handles every commit according to `deed`. */
static struct fake *fake_that_will(enum deed deed) {
    enum deed script[256];
    for (int i = 0; i < 256; i++) script[i] = deed;
    return fake_start(script, 256);
}

/* Returns the client after it has connected, because these tests are not about the time that it takes to find the
 * broker. */
static tarry_client *connected(tarry_client *client) {
    assert_int_equal(tarry_ping(client, &(struct tarry_call){.timeout_ms = FAR_MS}), TARRY_OK);
    return client;
}

/* Settings of the fake broker with which a test begins. */
enum setting {
    PLAIN = 0,
    HAS_LANE = 1,      /* consumers can subscribe */
    LACKS_ROOM = 2,    /* the broker refuses commits with schedules as busy */
    REFUSES_HELLO = 4, /* the broker refuses Hello, so no commit is sent and operations gather */
};

static tarry_client *story_begin(struct fake **out_fake, unsigned setting, uint64_t timeout_ms) {
    struct fake *fake = fake_start(NULL, 0);
    if ((setting & HAS_LANE) != 0) fake_open_lane(fake);
    fake->lacks_room = (setting & LACKS_ROOM) != 0;
    fake->refuses_hello = (setting & REFUSES_HELLO) != 0;
    *out_fake = fake;
    return connected(client_to(fake->url, timeout_ms, 1));
}

static void story_end(tarry_client *client, struct fake *fake) {
    assert_int_equal(tarry_close(client), TARRY_OK);
    fake_stop(fake);
}

struct ended {
    struct tarry_result result;
    uint64_t at_ms;
    atomic_int done;
};

static void has_ended(void *arg, const struct tarry_result *result) {
    struct ended *ended = arg;
    assert_int_equal(atomic_load(&ended->done), 0); /* exactly once */
    ended->result = *result;
    ended->at_ms = now_ms();
    atomic_store(&ended->done, 1);
}

static void has_committed(void *arg, int code, const struct tarry_result *results, size_t count) {
    has_ended(arg, &(struct tarry_result){.code = code});
}

static void await(struct ended *ended) {
    for (int i = 0; i < 30000 && !atomic_load(&ended->done); i++) sleep_ms(1);
    assert_int_equal(atomic_load(&ended->done), 1);
}

/* Submits a schedule. `timeout_ms` 0: the client's timeout. */
static void submit_within(tarry_client *client, uint64_t timeout_ms, struct ended *ended) {
    struct tarry_schedule_options options = order;
    options.call.timeout_ms = timeout_ms;
    assert_int_equal(tarry_schedule_async(client, &options, has_ended, ended), TARRY_OK);
}

static void submit(tarry_client *client, struct ended *ended) {
    submit_within(client, 0, ended);
}

/* Runs one story and returns the code of its call. If the code is TARRY_E_TIMEOUT, the story has checked nothing else.
 */
typedef int story_fn(void);

/* A request may be in flight just when its deadline comes. Its outcome is unknown then, and the library says so.
 * That is rare if the broker answers at once, so several tries are made. */
static int told(story_fn *story) {
    int code = TARRY_E_TIMEOUT;
    for (int i = 0; i < TRIES && code == TARRY_E_TIMEOUT; i++) code = story();
    return code;
}

/* ---- the caller's result */

static int schedules_where_there_is_no_room(void) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, LACKS_ROOM, 600);
    struct tarry_result result;
    uint64_t before = now_ms();
    const int code = tarry_schedule(client, &order, &result);
    uint64_t took = now_ms() - before;
    assert_true(took >= 600 && took < LATE_MS);
    assert_int_equal(COUNT(fake, ops), 0);
    if (code == TARRY_BUSY) {
        assert_non_null(strstr(result.message, "nothing was done"));
        assert_non_null(strstr(result.message, "says the fake")); /* the reason */
        assert_int_equal(result.producer, 0);
        SET(fake, lacks_room, false);
        assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    }
    story_end(client, fake);
    return code;
}

static int submits_where_there_is_no_room(void) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, LACKS_ROOM, 600);
    struct ended ended = {.done = 0};
    submit(client, &ended);
    assert_int_equal(tarry_drain(client, 0, &(struct tarry_call){.timeout_ms = LATE_MS}), TARRY_OK);
    assert_int_equal(COUNT(fake, ops), 0);
    story_end(client, fake);
    return ended.result.code;
}

static void a_busy_broker_puts_off_no_deadline(void **state) {
    assert_int_equal(told(schedules_where_there_is_no_room), TARRY_BUSY);
    assert_int_equal(told(submits_where_there_is_no_room), TARRY_BUSY);
}

static int schedules_while_it_stops(void) {
    struct fake *fake = fake_that_will(SAY_STOPPING);
    tarry_client *client = connected(client_to(fake->url, 400, 1));
    struct tarry_result result;
    const int code = tarry_schedule(client, &order, &result);
    if (code == TARRY_STOPPING) assert_non_null(strstr(result.message, "nothing was done"));
    assert_int_equal(COUNT(fake, ops), 0);
    story_end(client, fake);
    return code;
}

static void a_stopping_broker_puts_off_no_deadline(void **state) {
    assert_int_equal(told(schedules_while_it_stops), TARRY_STOPPING);
}

static int schedules_while_the_disk_fails(void) {
    struct fake *fake = fake_that_will(FAIL_AND_EXECUTE);
    tarry_client *client = connected(client_to(fake->url, 400, 1));
    struct tarry_result result;
    const int code = tarry_schedule(client, &order, &result);
    assert_int_equal(result.sequence, 1); /* the outcome can be queried under this sequence */
    assert_int_equal(COUNT(fake, ops), 1);
    story_end(client, fake);
    return code;
}

/* After FAILED the commit may have been recorded. So the client must neither report "nothing was done" nor use a new
 * sequence. */
static void failed_means_that_nobody_knows(void **state) { /* LOG-4, ONCE-1 */
    struct fake *fake;
    tarry_client *client;
    struct tarry_result result;
    assert_int_equal(told(schedules_while_the_disk_fails), TARRY_FAILED);
    const enum deed forgets[] = {FAIL_AND_EXECUTE, FORGET};
    fake = fake_start(forgets, 2);
    client = client_to(fake->url, FAR_MS, 1);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_FORGOTTEN);
    assert_int_equal(COUNT(fake, ops), 1); /* the operation was not executed again under another producer */
    story_end(client, fake);
}

/* A call that waited behind slow calls was not sent, and its error says so although a broker answered other calls. */
static void what_was_never_sent_says_so(void **state) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, LACKS_ROOM, 500);
    struct ended first = {.done = 0}, second = {.done = 0};
    submit_within(client, FAR_MS, &first);
    while (COUNT(fake, commits) == 0)
        sleep_ms(1); /* waits until the first commit is sent, so that the next operation goes into another commit */
    submit(client, &second);
    await(&second);
    assert_int_equal(second.result.code, TARRY_BUSY);
    assert_non_null(strstr(second.result.message, "nothing was done"));
    story_end(client, fake);
}

/* ---- which deadline counts */

static void a_call_made_late_in_a_silence_has_its_whole_time(void **state) {
    tarry_client *client = client_to("ws://127.0.0.1:9", 800, 1);
    struct ended first = {.done = 0}, second = {.done = 0}, third = {.done = 0};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    uint64_t before = now_ms();
    submit(client, &first);
    sleep_ms(400);
    uint64_t between = now_ms();
    submit(client, &second); /* the second call joins the commit of the first one */
    assert_int_equal(tarry_commit_submit(commit, NULL, has_committed, &third), TARRY_OK);
    tarry_commit_free(commit);
    struct tarry_view *view;
    assert_int_equal(tarry_get(client, &(struct tarry_ref){.id = 1}, false, NULL, &view, NULL), TARRY_E_NO_BROKER);
    assert_true(now_ms() >= between + 800);
    await(&first);
    await(&second);
    await(&third);
    assert_int_equal(first.result.code, TARRY_E_NO_BROKER);
    assert_int_equal(second.result.code, TARRY_E_NO_BROKER);
    assert_int_equal(third.result.code, TARRY_E_NO_BROKER);
    assert_true(first.at_ms >= before + 800 && second.at_ms >= between + 800 && third.at_ms >= between + 800);
    assert_true(first.at_ms < second.at_ms);
    tarry_close(client);
}

/* Two calls in one commit: the call whose deadline comes is removed from the commit, and returns that nothing was
 * done. */
static int submits_two_where_there_is_no_room(void) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, LACKS_ROOM | REFUSES_HELLO, FAR_MS);
    struct ended first = {.done = 0}, second = {.done = 0};
    submit_within(client, FIRST_MS, &first);
    submit(client, &second);
    SET(fake, refuses_hello, false);
    await(&first);
    assert_int_equal(atomic_load(&second.done), 0);
    SET(fake, lacks_room, false);
    await(&second);
    assert_int_equal(second.result.code, TARRY_OK);
    if (first.result.code == TARRY_BUSY) assert_int_equal(COUNT(fake, ops), 1);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    story_end(client, fake);
    return first.result.code;
}

static void one_call_ends_and_the_other_goes_on(void **state) {
    assert_int_equal(told(submits_two_where_there_is_no_room), TARRY_BUSY);
}

static bool nothing_waits(tarry_client *client) {
    pthread_mutex_lock(&client->lock);
    const bool is_so = client->queued_size == 0 && client->waiting == 0;
    pthread_mutex_unlock(&client->lock);
    return is_so;
}

/* A sent commit has no reply. The call whose deadline comes returns that the outcome is unknown. The commit continues
 * under its sequence for the other call. */
static void one_call_is_told_and_the_commit_goes_on(void **state) { /* ONCE-1 */
    struct fake *fake = fake_that_will(LOSE_REQUEST);
    fake->refuses_hello = fake->keeps_producers = true;
    tarry_client *client = connected(client_to(fake->url, FAR_MS, 1));
    struct ended first = {.done = 0}, second = {.done = 0};
    submit_within(client, FIRST_MS, &first);
    submit(client, &second);
    SET(fake, refuses_hello, false);
    await(&first);
    assert_int_equal(first.result.code, TARRY_E_TIMEOUT);
    assert_int_equal(first.result.sequence, 1);
    assert_int_equal(atomic_load(&second.done), 0);
    SET(fake, script_size, 0);
    await(&second);
    assert_int_equal(second.result.code, TARRY_OK);
    assert_int_equal(second.result.sequence, 1);
    assert_int_equal(COUNT(fake, ops), 2); /* the commit had been sent, so the client did not split it into two */
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    /* Wait until the client has requested the next producer. */
    for (int i = 0; i < 5000 && !nothing_waits(client); i++) sleep_ms(1);
    assert_true(nothing_waits(client));
    story_end(client, fake);
}

/* Opens a consumer, which fails at the client's deadline. */
static int opens_in_vain(Tarry__Code refusal, uint32_t lane_number) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, HAS_LANE, 500);
    const char *queue = "orders";
    const struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1};
    tarry_consumer *consumer;
    SET(fake, refuses_sessions, refusal);
    SET(fake, lane_number, lane_number);
    const uint64_t before = now_ms();
    const int code = tarry_consumer_open(client, &options, &consumer, NULL);
    assert_true(now_ms() - before >= 500 && now_ms() - before < LATE_MS);
    story_end(client, fake);
    return code;
}

static int opens_at_who_is_busy(void) {
    return opens_in_vain(TARRY__CODE__BUSY, 1);
}

static void a_question_to_who_is_busy_ends(void **state) {
    assert_int_equal(told(opens_at_who_is_busy), TARRY_BUSY);
}

/* ---- waits for other calls */

struct submitting {
    tarry_client *client;
    atomic_bool stop;
};

static void *submits_on_and_on(void *arg) {
    struct submitting *submitting = arg;
    while (!atomic_load(&submitting->stop)) {
        int rv = tarry_schedule_async(submitting->client, &order, NULL, NULL);
        assert_true(rv == TARRY_OK || rv == TARRY_E_FULL);
        sleep_ms(20);
    }
    return NULL;
}

static void draining_ends_although_others_submit(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_room = true;
    struct submitting submitting = {.client = connected(client_to(fake->url, 700, 1))};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, submits_on_and_on, &submitting), 0);
    while (COUNT(fake, commits) == 0) sleep_ms(1);
    uint64_t before = now_ms();
    assert_int_equal(tarry_drain(submitting.client, 0, NULL), TARRY_E_TIMEOUT);
    assert_true(now_ms() - before >= 700 && now_ms() - before < LATE_MS);
    atomic_store(&submitting.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(tarry_drain(submitting.client, 0, NULL),
                     TARRY_OK); /* when this returns, all submitted operations have ended */
    tarry_close(submitting.client);
    fake_stop(fake);
}

static void waiting_for_room_in_the_queue_ends(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_room = true;
    tarry_client *client;
    const struct tarry_options options = {.urls = fake->url, .timeout_ms = 600, .queued_size_max = 4000};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    struct submitting submitting = {.client = connected(client)};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) /* these threads use every free byte of the client's queue */
        assert_int_equal(pthread_create(&threads[i], NULL, submits_on_and_on, &submitting), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t before = now_ms();
        int rv = tarry_schedule(client, &order, NULL);
        /* TARRY_E_TIMEOUT: the request was in flight at the deadline. */
        assert_true(rv == TARRY_E_FULL || rv == TARRY_BUSY || rv == TARRY_E_TIMEOUT);
        assert_true(now_ms() - before < LATE_MS);
    }
    atomic_store(&submitting.stop, true);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    story_end(client, fake);
}

/* ---- consumers */

static tarry_consumer *consumer_of(tarry_client *client, tarry_handler_fn handler, void *arg) {
    tarry_consumer *consumer;
    const char *queue = "orders";
    const struct tarry_consumer_options options = {
        .queues = &queue, .queue_count = 1, .handler = handler, .arg = arg, .call.timeout_ms = FAR_MS};
    assert_int_equal(tarry_consumer_open(client, &options, &consumer, NULL), TARRY_OK);
    return consumer;
}

static int opens_and_is_forgotten(void) {
    return opens_in_vain(TARRY__CODE__NO_SUCH_SESSION, 1);
}

static int opens_without_a_lane(void) {
    return opens_in_vain(TARRY__CODE__OK, 9);
}

/* Opening a consumer fails: the broker accepts each subscription and then forgets it, or names a lane that does not
 * exist. */
static void opening_a_consumer_ends(void **state) {
    assert_int_equal(told(opens_and_is_forgotten), TARRY_NO_SUCH_SESSION);
    assert_int_equal(told(opens_without_a_lane), TARRY_E_NO_BROKER);
}

struct kept {
    atomic_bool is_kept;
    atomic_bool goes_on;
    /* Client to which the callback submits another operation, so that its engine has work and does not wait; NULL: no
     * operation. */
    tarry_client *client;
};

static void keeps_the_engine(void *arg, const struct tarry_result *result) {
    struct kept *kept = arg;
    atomic_store(&kept->is_kept, true);
    while (!atomic_load(&kept->goes_on)) sleep_ms(1);
    if (kept->client != NULL) assert_int_equal(tarry_schedule_async(kept->client, &order, NULL, NULL), TARRY_OK);
}

/* A callback blocks the engine's thread. Normally that thread ends tarry_consumer_open at its deadline; here the call
 * must end by itself. */
static void opening_a_consumer_ends_although_a_callback_keeps_the_engine(void **state) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, HAS_LANE, FAR_MS);
    struct kept kept = {.is_kept = false};
    assert_int_equal(tarry_schedule_async(client, &order, keeps_the_engine, &kept), TARRY_OK);
    while (!atomic_load(&kept.is_kept)) sleep_ms(1);
    tarry_consumer *consumer;
    const char *queue = "orders";
    const struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1, .call.timeout_ms = 300};
    const uint64_t before = now_ms();
    assert_int_equal(tarry_consumer_open(client, &options, &consumer, NULL), TARRY_E_TIMEOUT);
    assert_true(now_ms() - before >= 300 && now_ms() - before < LATE_MS);
    atomic_store(&kept.goes_on, true);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK); /* the client still works without that consumer */
    story_end(client, fake);
}

static void *schedules(void *client) {
    const struct tarry_schedule_options options = {.queue = "orders", .when_ms = 500, .call.timeout_ms = 500};
    return (void *)(intptr_t)tarry_schedule(client, &options, NULL);
}

static int is_answered_while_the_engine_stands_still(void) {
    struct fake *fake;
    struct kept kept = {.client = story_begin(&fake, PLAIN, FAR_MS)};
    pthread_t caller;
    void *code;
    assert_int_equal(tarry_schedule_async(kept.client, &order, keeps_the_engine, &kept), TARRY_OK);
    while (!atomic_load(&kept.is_kept)) sleep_ms(1);
    assert_int_equal(pthread_create(&caller, NULL, schedules, kept.client), 0);
    sleep_ms(1000); /* blocks the engine like a stopped process */
    atomic_store(&kept.goes_on, true);
    pthread_join(caller, &code);
    story_end(kept.client, fake);
    return (int)(intptr_t)code;
}

static void an_answer_that_lies_in_the_socket_is_taken_before_the_time_is_over(void **state) { /* F-13 */
    assert_int_equal(told(is_answered_while_the_engine_stands_still), TARRY_OK);
}

static void closing_a_consumer_ends_although_the_broker_is_silent(void **state) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, HAS_LANE, 900);
    tarry_consumer *consumer = consumer_of(client, NULL, NULL);
    SET(fake, hangs, true);
    assert_int_equal(tarry_ack_async(client, 7, token, NULL, NULL, NULL), TARRY_OK);
    uint64_t before = now_ms();
    int rv = tarry_consumer_close(consumer, 0, NULL); /* the consumer is closed, whatever the result is */
    assert_true(rv == TARRY_E_TIMEOUT || rv == TARRY_E_NO_BROKER);
    assert_true(now_ms() - before < LATE_MS);
    story_end(client, fake);
}

/* Closing a consumer waits for operations that settle leases, and not for other operations. */
static void closing_a_consumer_does_not_wait_for_schedules(void **state) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, HAS_LANE | LACKS_ROOM, 60000);
    tarry_consumer *consumer = consumer_of(client, NULL, NULL);
    const struct tarry_task *task;
    fake_deliver(fake, 1, 7, 1);
    assert_int_equal(tarry_consumer_next(consumer, 10000, &task), TARRY_OK);
    struct ended schedule = {.done = 0};
    submit(client, &schedule);
    assert_int_equal(tarry_ack_async(client, task->id, task->token, NULL, NULL, NULL), TARRY_OK);
    uint64_t before = now_ms();
    assert_int_equal(tarry_consumer_close(consumer, 0, NULL), TARRY_OK);
    assert_true(now_ms() - before < 30000);
    assert_int_equal(COUNT(fake, ops), 1);
    assert_int_equal(fake->seen_count, 0); /* the ack had its reply before the end of the session */
    assert_int_equal(atomic_load(&schedule.done), 0);
    tarry_task_free(task);
    tarry_close(client);
    await(&schedule);
    assert_int_equal(schedule.result.code, TARRY_E_CLOSED);
    fake_stop(fake);
}

/* Closing a consumer waits for the reply to its own ack. Replies to other commits must not end this wait. */
static void closing_a_consumer_waits_for_its_own_acks(void **state) {
    const enum deed script[] = {ANSWER_LATE};
    struct fake *fake = fake_start(script, 1);
    fake->late_ms = 1000;
    fake_open_lane(fake);
    tarry_client *client = client_to(fake->url, 60000, 2);
    tarry_consumer *consumer = consumer_of(client, NULL, NULL);
    const struct tarry_task *task;
    fake_deliver(fake, 1, 7, 1);
    assert_int_equal(tarry_consumer_next(consumer, 10000, &task), TARRY_OK);
    assert_int_equal(tarry_ack_async(client, task->id, task->token, NULL, NULL, NULL), TARRY_OK);
    while (COUNT(fake, commits) == 0) sleep_ms(1);
    struct submitting submitting = {.client = client};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, submits_on_and_on, &submitting), 0);
    assert_int_equal(tarry_consumer_close(consumer, 0, NULL), TARRY_OK);
    assert_true(COUNT(fake, ops) > 1); /* other commits got their replies meanwhile */
    atomic_store(&submitting.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(COUNT(fake, unsubscribes), 1);
    assert_int_equal(fake->seen_count, 0);
    tarry_task_free(task);
    story_end(client, fake);
}

static enum tarry_verdict acks(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                               struct tarry_nack_details *details) {
    return TARRY_DO_ACK;
}

static void add_to_queued(tarry_client *client, size_t size, bool add) {
    pthread_mutex_lock(&client->lock);
    client->queued_size = add ? client->queued_size + size : client->queued_size - size;
    pthread_mutex_unlock(&client->lock);
}

/* The client's own queue is full and stays full. */
static void a_call_that_waits_for_room_has_its_own_end(void **state) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, PLAIN, FAR_MS);
    struct tarry_schedule_options brief = order;
    brief.call.timeout_ms = 300;
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    add_to_queued(client, QUEUED_SIZE_MAX_DEFAULT, true);
    const uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(client, &brief, NULL), TARRY_E_FULL);
    const uint64_t between = now_ms();
    assert_int_equal(tarry_commit_run(commit, &(struct tarry_call){.timeout_ms = 300}, NULL, NULL), TARRY_E_FULL);
    assert_true(between >= before + 300 && now_ms() >= between + 300 && now_ms() < before + LATE_MS);
    add_to_queued(client, QUEUED_SIZE_MAX_DEFAULT, false);
    tarry_commit_free(commit);
    assert_int_equal(COUNT(fake, ops), 0);
    story_end(client, fake);
}

/* After the time limit the handler's thread gives up its ack. */
static void closing_a_consumer_ends_although_its_handler_finds_no_room(void **state) {
    struct fake *fake;
    tarry_client *client = story_begin(&fake, HAS_LANE, TARRY_FOREVER);
    tarry_consumer *consumer = consumer_of(client, acks, NULL);
    add_to_queued(client, QUEUED_SIZE_MAX_DEFAULT, true);
    fake_deliver(fake, 1, 7, 1);
    for (bool is_seen = false; !is_seen; sleep_ms(1)) {
        pthread_mutex_lock(&consumer->lock);
        const struct held_entry *entry = held_find(&consumer->held, 7);
        is_seen = entry != NULL && entry->seen;
        pthread_mutex_unlock(&consumer->lock);
    }
    uint64_t before = now_ms();
    assert_int_equal(tarry_consumer_close(consumer, 0, &(struct tarry_call){.timeout_ms = 900}), TARRY_OK);
    assert_true(now_ms() - before < LATE_MS);
    assert_int_equal(COUNT(fake, ops), 0);
    assert_true(fake->seen_count == 1 && fake->seen[0] == 7); /* the consumer had the task and has not settled it */
    add_to_queued(client, QUEUED_SIZE_MAX_DEFAULT, false);
    story_end(client, fake);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_broker_puts_off_no_deadline),
        cmocka_unit_test(a_stopping_broker_puts_off_no_deadline),
        cmocka_unit_test(failed_means_that_nobody_knows),
        cmocka_unit_test(what_was_never_sent_says_so),
        cmocka_unit_test(a_call_made_late_in_a_silence_has_its_whole_time),
        cmocka_unit_test(one_call_ends_and_the_other_goes_on),
        cmocka_unit_test(one_call_is_told_and_the_commit_goes_on),
        cmocka_unit_test(a_question_to_who_is_busy_ends),
        cmocka_unit_test(draining_ends_although_others_submit),
        cmocka_unit_test(waiting_for_room_in_the_queue_ends),
        cmocka_unit_test(a_call_that_waits_for_room_has_its_own_end),
        cmocka_unit_test(opening_a_consumer_ends),
        cmocka_unit_test(opening_a_consumer_ends_although_a_callback_keeps_the_engine),
        cmocka_unit_test(an_answer_that_lies_in_the_socket_is_taken_before_the_time_is_over),
        cmocka_unit_test(closing_a_consumer_ends_although_the_broker_is_silent),
        cmocka_unit_test(closing_a_consumer_does_not_wait_for_schedules),
        cmocka_unit_test(closing_a_consumer_waits_for_its_own_acks),
        cmocka_unit_test(closing_a_consumer_ends_although_its_handler_finds_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
