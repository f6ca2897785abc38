/* client_queue_test.c: the order in which libtarry sends commits, which commits pass others when the broker is busy,
 * and the cost of this. With a fake broker (fake_broker.h), which refuses a commit as a whole, as tarryd does. */
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

#include "client.h"
#include "fake_broker.h"

#define FAR_MS 240000u /* timeout in ms; enough for thousands of single commits on a busy machine */

static tarry_client *client_to(const char *urls, uint32_t commits_in_flight) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .timeout_ms = FAR_MS, .commits_in_flight = commits_in_flight};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

/* ---- submitting */

struct answers {
    atomic_size_t ok;
    atomic_size_t failed;
};

static void count_answer(void *arg, const struct tarry_result *result) {
    struct answers *answers = arg;
    atomic_fetch_add(result->code == TARRY_OK ? &answers->ok : &answers->failed, 1);
}

static void schedule(tarry_client *client, const char *key, struct answers *answers) {
    const struct tarry_schedule_options options = {.queue = "orders", .key = key, .when_ms = 500};
    assert_int_equal(tarry_schedule_async(client, &options, count_answer, answers), TARRY_OK);
}

static void cancel(tarry_client *client, const char *key, struct answers *answers) {
    const struct tarry_ref ref = {.queue = "orders", .key = key};
    assert_int_equal(tarry_cancel_async(client, &ref, false, NULL, count_answer, answers), TARRY_OK);
}

static void ack(tarry_client *client, uint64_t id, struct answers *answers) {
    assert_int_equal(tarry_ack_async(client, id, (struct tarry_token){1, id}, NULL, count_answer, answers), TARRY_OK);
}

/* ---- the broker */

static void set(struct fake *fake, bool lacks_room, bool lacks_index) {
    pthread_mutex_lock(&fake->lock);
    fake->lacks_room = lacks_room;
    fake->lacks_index = lacks_index;
    pthread_mutex_unlock(&fake->lock);
}

static bool traced(struct fake *fake, const char *text) {
    pthread_mutex_lock(&fake->lock);
    bool found = strstr(fake->trace, text) != NULL;
    pthread_mutex_unlock(&fake->lock);
    return found;
}

static void await_trace(struct fake *fake, const char *text) {
    for (int i = 0; i < 20000 && !traced(fake, text); i++) sleep_ms(1);
    if (!traced(fake, text)) print_message("# waited for %s, and saw %s\n", text, fake->trace);
    assert_true(traced(fake, text));
}

static size_t pending_of(tarry_client *client) {
    pthread_mutex_lock(&client->lock);
    size_t pending = client->pending;
    pthread_mutex_unlock(&client->lock);
    return pending;
}

static void await_commits(struct fake *fake, size_t count) {
    for (int i = 0; i < 20000 && COUNT(fake, commits) < count; i++) sleep_ms(1);
    assert_true(COUNT(fake, commits) >= count);
}

static void end(struct fake *fake, tarry_client *client) {
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(tarry_close(client), TARRY_OK);
    fake_stop(fake);
}

/* ---- which commits pass others */

static void everything_goes_in_order_while_there_is_room(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    schedule(client, "a", &answers);
    ack(client, 7, &answers);
    cancel(client, "b", &answers);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_string_equal(fake->trace, "[schedule a, ack 7, cancel b] ");
    assert_int_equal(answers.ok, 3);
    end(fake, client);
}

/* A full disk: operations that end tasks or leases are not refused together with the schedules of their commit. */
static void acks_and_cancels_pass_schedules_that_are_refused(void **state) { /* CAP-1, F-4 */
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_room = true;
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    ack(client, 6, &answers);
    schedule(client, "a", &answers);
    ack(client, 7, &answers);
    cancel(client, "b", &answers);
    assert_int_equal(tarry_extend_async(client, 8, (struct tarry_token){1, 8}, 0, NULL, count_answer, &answers),
                     TARRY_OK);
    await_trace(fake, "[ack 6, ack 7, extend 8] [cancel b] ");
    schedule(client, "c", &answers);
    assert_int_equal(tarry_nack_async(client, 9, (struct tarry_token){1, 9}, NULL, count_answer, &answers), TARRY_OK);
    await_trace(fake, "[nack 9] ");
    await_commits(fake,
                  COUNT(fake, commits) + 2); /* the client sends the schedules again and again, and they stay refused */
    assert_false(traced(fake, "schedule"));
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(answers.ok, 7);
    assert_true(traced(fake, "[schedule a] [schedule c] ") || traced(fake, "[schedule a, schedule c] "));
    schedule(client, "d", &answers); /* from now on, acks and schedules gather together again */
    ack(client, 10, &answers);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_true(traced(fake, "[schedule d, ack 10] ") || traced(fake, "[schedule d] [ack 10] "));
    end(fake, client);
}

static void a_cancel_does_not_pass_what_names_its_task(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_room = true;
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    schedule(client, "a", &answers);
    cancel(client, "a", &answers);
    cancel(client, "b", &answers);
    await_trace(fake, "[cancel b] ");
    cancel(client, "a", &answers); /* must wait behind the first cancel of a; the cancel of c need not wait */
    cancel(client, "c", &answers);
    const struct tarry_ref by_id = {.id = 5};
    assert_int_equal(tarry_dead_async(client, TARRY_REQUEUE, &by_id, false, NULL, count_answer, &answers), TARRY_OK);
    assert_int_equal(tarry_cancel_async(client, &by_id, false, NULL, count_answer, &answers), TARRY_OK);
    await_trace(fake, "[cancel c] ");
    await_commits(fake, COUNT(fake, commits) + 2);
    assert_false(traced(fake, "cancel a"));
    assert_false(traced(fake, "cancel 5"));
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(answers.ok, 7);
    assert_true(traced(fake, "[schedule a, cancel a] [cancel a, other, cancel 5] "));
    end(fake, client);
}

/* If the index lags, cancels and moves are refused too. They wait in their own commits, and acks pass them. */
static void acks_pass_cancels_that_are_refused(void **state) { /* CAP-1 */
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_room = fake->lacks_index = true;
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    cancel(client, "b", &answers);
    schedule(client, "a", &answers);
    ack(client, 7, &answers);
    await_trace(fake, "[ack 7] ");
    await_commits(fake, COUNT(fake, commits) + 4);
    assert_string_equal(fake->trace, "[ack 7] ");
    set(fake, true, false);
    await_trace(fake, "[cancel b] ");
    ack(client, 8, &answers);
    await_trace(fake, "[ack 8] ");
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_string_equal(fake->trace, "[ack 7] [cancel b] [ack 8] [schedule a] ");
    assert_int_equal(answers.ok, 4);
    end(fake, client);
}

static void commits_of_the_users_pass_whole_or_not_at_all(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_room = true;
    tarry_client *client = client_to(fake->url, 1);
    const struct tarry_schedule_options next = {.queue = "orders", .key = "next", .when_ms = 500};
    const struct tarry_token token = {1, 1};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, true, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_ack(commit, 5, token), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &next), TARRY_OK);
    assert_int_equal(tarry_commit_submit(commit, NULL, NULL, NULL), TARRY_OK);
    assert_int_equal(tarry_commit_ack(commit, 6, token), TARRY_OK);
    assert_int_equal(tarry_commit_nack(commit, 7, token, NULL), TARRY_OK);
    assert_int_equal(tarry_commit_submit(commit, NULL, NULL, NULL), TARRY_OK);
    await_trace(fake, "[ack 6, nack 7] ");
    assert_int_equal(tarry_commit_release(commit, 8, token), TARRY_OK);
    assert_int_equal(tarry_commit_cancel(commit, &(struct tarry_ref){.queue = "orders", .key = "other"}, false),
                     TARRY_OK);
    assert_int_equal(tarry_commit_submit(commit, NULL, NULL, NULL), TARRY_OK);
    await_trace(fake, "[release 8, cancel other] ");
    assert_int_equal(tarry_commit_ack(commit, 9, token), TARRY_OK); /* task 9 is also named by a commit that waits */
    assert_int_equal(tarry_commit_cancel(commit, &(struct tarry_ref){.queue = "orders", .key = "next"}, false),
                     TARRY_OK);
    assert_int_equal(tarry_commit_submit(commit, NULL, NULL, NULL), TARRY_OK);
    await_commits(fake, COUNT(fake, commits) + 2);
    assert_string_equal(fake->trace, "[ack 6, nack 7] [release 8, cancel other] ");
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_string_equal(fake->trace, "[ack 6, nack 7] [release 8, cancel other] [ack 5, schedule next] "
                                     "[ack 9, cancel next] ");
    tarry_commit_free(commit);
    end(fake, client);
}

/* The commit, ack included, may have been executed under its sequence, so the client does not divide it. */
static void a_commit_of_unknown_fate_is_not_divided(void **state) { /* ONCE-1 */
    const enum deed script[] = {LOSE_ANSWER};
    struct fake *fake = fake_start(script, 1);
    fake->lacks_room = true;
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    schedule(client, "a", &answers);
    ack(client, 7, &answers);
    await_commits(fake, 4);
    ack(client, 8, &answers); /* the ack of task 8 has never been sent */
    await_trace(fake, "[ack 8] ");
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_string_equal(fake->trace, "[schedule a, ack 7] [ack 8] ");
    assert_int_equal(answers.ok, 3);
    assert_int_equal(fake->hellos, 1);
    end(fake, client);
}

/* A later commit does not pass an undecided one if it names the same task. */
static void nothing_passes_a_commit_of_unknown_fate_that_names_its_task(void **state) {
    const enum deed script[] = {LOSE_REQUEST};
    struct fake *fake = fake_start(script, 1);
    fake->lacks_room = true;
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    schedule(client, "x", &answers);
    cancel(client, "a", &answers);
    await_commits(fake, 4);
    cancel(client, "a", &answers);
    cancel(client, "b", &answers);
    await_trace(fake, "[cancel b] ");
    await_commits(fake, COUNT(fake, commits) + 2);
    assert_string_equal(fake->trace, "[cancel b] ");
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_string_equal(fake->trace, "[cancel b] [schedule x, cancel a] [cancel a] ");
    assert_int_equal(answers.ok, 4);
    end(fake, client);
}

static void a_schedule_does_not_pass_a_cancel_that_is_refused(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    fake->lacks_index = true;
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    cancel(client, "a", &answers);
    await_commits(fake, 3);
    schedule(client, "a", &answers);
    await_commits(fake, COUNT(fake, commits) + 3);
    assert_string_equal(fake->trace, "");
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_string_equal(fake->trace, "[cancel a] [schedule a] ");
    end(fake, client);
}

/* ---- a mix: the broker has space or not, replies are lost; each operation takes effect once, in order */

enum { STORMS = 6, KEYS = 40, OPS = 4000, KINDS_MAX = 1024 };

struct storm {
    /* Kinds of the operations of each key, one letter each (schedule, cancel, move), in order of submission. */
    char submitted[KEYS][KINDS_MAX];
    char executed[KEYS][KINDS_MAX];
    bool settled[OPS + 1];
    struct answers answers;
};

static void note_kind(char kinds[KEYS][KINDS_MAX], ProtobufCBinaryData key, char kind) {
    assert_int_equal(key.len, 2);
    char *of = kinds[(key.data[0] - '0') * 10 + key.data[1] - '0'];
    size_t size = strlen(of);
    assert_true(size + 1 < KINDS_MAX);
    of[size] = kind;
}

static void storm_executed(struct fake *fake, const Tarry__Op *op) {
    struct storm *storm = fake->argument;
    if (op->op_case == TARRY__OP__OP_SCHEDULE) note_kind(storm->executed, op->schedule->key, 's');
    if (op->op_case == TARRY__OP__OP_CANCEL) note_kind(storm->executed, op->cancel->task->key, 'c');
    if (op->op_case == TARRY__OP__OP_MOVE) note_kind(storm->executed, op->move->task->key, 'm');
    if (op->op_case != TARRY__OP__OP_ACK) return;
    assert_false(storm->settled[op->ack->id]);
    storm->settled[op->ack->id] = true;
}

static uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random >> 11;
}

static void storm_submit(tarry_client *client, struct storm *storm, uint64_t *random, uint64_t number) {
    char key[3];
    uint64_t kind = next_random(random) % 8, key_number = next_random(random) % KEYS;
    snprintf(key, sizeof(key), "%02u", (unsigned)(key_number % KEYS));
    ProtobufCBinaryData bytes = {2, (uint8_t *)key};
    const struct tarry_ref ref = {.queue = "orders", .key = key};
    if (kind < 3) {
        note_kind(storm->submitted, bytes, 's');
        schedule(client, key, &storm->answers);
    } else if (kind == 3) {
        note_kind(storm->submitted, bytes, 'c');
        cancel(client, key, &storm->answers);
    } else if (kind == 4) {
        note_kind(storm->submitted, bytes, 'm');
        assert_int_equal(tarry_move_async(client, &ref, TARRY_DELAY, 10, NULL, count_answer, &storm->answers),
                         TARRY_OK);
    } else {
        ack(client, number, &storm->answers);
    }
}

static void play_storm(uint64_t seed) {
    enum { SCRIPT = 256 };
    enum deed script[SCRIPT];
    uint64_t random = seed * 0x9E3779B97F4A7C15ull + 1;
    static const enum deed deeds[] = {ANSWER,   ANSWER,      ANSWER,       ANSWER,
                                      SAY_BUSY, LOSE_ANSWER, LOSE_REQUEST, SAY_STOPPING};
    for (int i = 0; i < SCRIPT; i++) script[i] = deeds[next_random(&random) % 8];
    struct storm *storm = calloc(1, sizeof(*storm));
    struct fake *fake = fake_start(script, SCRIPT);
    fake->argument = storm;
    fake->on_executed = storm_executed;
    tarry_client *client = client_to(fake->url, 1);
    for (uint64_t i = 1; i <= OPS; i++) {
        storm_submit(client, storm, &random, i);
        if (i % 50 == 0) set(fake, next_random(&random) % 2, next_random(&random) % 3 == 0);
        if (i % 10 == 0) sleep_ms((next_random(&random) % 3));
    }
    set(fake, false, false);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(storm->answers.ok, OPS);
    assert_int_equal(storm->answers.failed, 0);
    assert_int_equal(fake->ops, OPS);
    for (int i = 0; i < KEYS; i++) assert_string_equal(storm->executed[i], storm->submitted[i]);
    end(fake, client);
    free(storm);
}

/* Proves ONCE-1, F-16 and F-22. */
static void in_a_storm_each_takes_effect_once_and_in_its_order(void **state) {
    for (uint64_t seed = 1; seed <= STORMS; seed++) play_storm(seed);
}

/* ---- operations of which a commit may have only a few */

static void *redacts(void *arg) {
    const struct tarry_redact_options options = {.task = {.id = 1}, .reason = "test"};
    struct tarry_result result;
    assert_int_equal(tarry_redact(arg, &options, &result), TARRY_OK);
    return NULL;
}

static void *purges(void *arg) {
    assert_int_equal(tarry_queue_purge(arg, "orders", 0, NULL, NULL), TARRY_OK);
    return NULL;
}

static void *deletes(void *arg) {
    assert_int_equal(tarry_queue_delete(arg, "orders", NULL, NULL), TARRY_OK);
    return NULL;
}

static void *requeues(void *arg) {
    const struct tarry_ref all = {.queue = "orders"};
    assert_int_equal(tarry_dead(arg, TARRY_REQUEUE, &all, true, NULL, NULL), TARRY_OK);
    return NULL;
}

/* The broker refuses a commit with 65 redactions, a second purge, or operations that do not fit after a redaction. */
static void redactions_and_purges_travel_alone(void **state) {
    enum { EACH = 10, REDACTIONS = 70, THREADS = 3 * EACH + REDACTIONS };
    /* Each of the threads submits one purge, deletion, requeue or redaction. */
    static void *(*const calls[])(void *) = {purges, deletes, requeues};
    struct fake *fake = fake_start(NULL, 0);
    fake->refuses_hello = true; /* makes all requests wait until Hello succeeds */
    tarry_client *client = client_to(fake->url, 1);
    pthread_t threads[THREADS];
    struct answers answers = {.ok = 0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 3 * EACH ? calls[i / EACH] : redacts, client), 0);
    schedule(client, "a", &answers);
    schedule(client, "b", &answers);
    while (pending_of(client) < THREADS + 2) sleep_ms(1);
    pthread_mutex_lock(&fake->lock);
    fake->refuses_hello = false;
    pthread_mutex_unlock(&fake->lock);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(fake->ops, THREADS + 2);
    assert_false(traced(fake, "other,"));
    assert_false(traced(fake, ", other"));
    assert_int_equal(answers.ok, 2);
    end(fake, client);
}

/* ---- what it costs */

static void count_commit(void *arg, int code, const struct tarry_result *results, size_t count) {
    atomic_fetch_add(code == TARRY_OK ? &((struct answers *)arg)->ok : &((struct answers *)arg)->failed, 1);
}

/* Returns how often the engine examined a waiting request while `commits` commits waited and then got replies. */
static uint64_t looks_of(size_t commits, bool is_busy) {
    struct fake *fake = fake_start(NULL, 0);
    fake->refuses_hello = true; /* commits gather while Hello is refused */
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    const struct tarry_schedule_options options = {.queue = "orders", .key = "a", .when_ms = 500};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (size_t i = 0; i < commits; i++) {
        if (i % 3 != 0) assert_int_equal(tarry_commit_schedule(commit, &options), TARRY_OK);
        if (i % 3 != 1) assert_int_equal(tarry_commit_ack(commit, i, (struct tarry_token){1, i}), TARRY_OK);
        assert_int_equal(tarry_commit_submit(commit, NULL, count_commit, &answers), TARRY_OK);
    }
    if (is_busy)
        for (size_t i = 0; i < 100; i++) fake->script[i * 2] = SAY_BUSY;
    pthread_mutex_lock(&fake->lock);
    fake->script_size = is_busy ? 200 : 0;
    fake->refuses_hello = false;
    pthread_mutex_unlock(&fake->lock);
    while (answers.ok + answers.failed < commits) sleep_ms(1);
    assert_int_equal(answers.failed, 0);
    pthread_mutex_lock(&client->lock);
    uint64_t looks = client->looks;
    pthread_mutex_unlock(&client->lock);
    tarry_commit_free(commit);
    end(fake, client);
    return looks;
}

static void an_answer_costs_the_same_however_much_waits(void **state) {
    assert_true(looks_of(500, false) <= (uint64_t)8 * 500);
    assert_true(looks_of(5000, false) <= (uint64_t)8 * 5000);
}

/* On each BUSY reply, only commits that are not yet split are looked at. */
static void a_refusal_costs_the_same_however_much_waits(void **state) {
    assert_true(looks_of(5000, true) <= (uint64_t)10 * 5000);
}

/* Returns the processor time of the engine's thread per query, in µs, while `waiting` commits wait. */
static uint64_t cpu_us_of_a_question(size_t waiting) {
    enum { QUESTIONS = 200 };
    struct fake *fake = fake_start(NULL, 0);
    fake->refuses_hello = true; /* commits wait while Hello is refused */
    tarry_client *client = client_to(fake->url, 1);
    struct answers answers = {.ok = 0};
    const struct tarry_schedule_options options = {.queue = "orders", .key = "a", .when_ms = 500};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (size_t i = 0; i < waiting; i++) {
        assert_int_equal(tarry_commit_schedule(commit, &options), TARRY_OK);
        assert_int_equal(tarry_commit_submit(commit, NULL, count_commit, &answers), TARRY_OK);
    }
    clockid_t clock;
    struct timespec before, after;
    assert_int_equal(pthread_getcpuclockid(client->engine, &clock), 0);
    assert_int_equal(tarry_ping(client, NULL), TARRY_OK);
    clock_gettime(clock, &before);
    for (int i = 0; i < QUESTIONS; i++) assert_int_equal(tarry_ping(client, NULL), TARRY_OK);
    clock_gettime(clock, &after);
    tarry_commit_free(commit);
    assert_int_equal(tarry_close(client), TARRY_OK);
    assert_int_equal(answers.failed, waiting);
    fake_stop(fake);
    return (uint64_t)((after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000) / QUESTIONS;
}

/* The client counts examined requests only in some places. The CPU time shows work in all other places. */
static void a_turn_of_the_engine_takes_the_same_time_however_much_waits(void **state) {
    enum { TRIES = 3, TIMES = 4 };
    bool is_the_same = false;
    for (int i = 0; i < TRIES && !is_the_same; i++) {
        const uint64_t few_us = cpu_us_of_a_question(10), many_us = cpu_us_of_a_question(10000);
        is_the_same = many_us <= TIMES * (few_us + 1);
        print_message("# %llu us with few, %llu us with many\n", (unsigned long long)few_us,
                      (unsigned long long)many_us);
    }
    assert_true(is_the_same);
}

/* ---- blocking calls of several threads */

#define BRIEF_MS 700u

static struct tarry_schedule_options brief(const char *key) {
    return (struct tarry_schedule_options){.queue = "orders", .key = key, .when_ms = 500, .call.timeout_ms = BRIEF_MS};
}

static void *schedule_blocking(void *arg) {
    const struct tarry_schedule_options options = brief("blocking");
    assert_int_equal(tarry_schedule(arg, &options, NULL), TARRY_E_TIMEOUT);
    return NULL;
}

/* Blocking calls of different threads have no order among each other, so two commits of blocking calls may be in
 * flight. */
static void two_commits_of_blocking_calls_are_under_way(void **state) {
    const enum deed script[] = {KEEP_ANSWER};
    struct fake *fake = fake_start(script, 1);
    tarry_client *client = client_to(fake->url, 1);
    const struct tarry_schedule_options other = brief("other");
    pthread_t first;
    assert_int_equal(pthread_create(&first, NULL, schedule_blocking, client), 0);
    await_trace(fake, "[schedule blocking]");
    assert_int_equal(tarry_schedule(client, &other, NULL), TARRY_OK);
    pthread_join(first, NULL);
    assert_true(traced(fake, "[schedule blocking] [schedule other]"));
    end(fake, client);
}

/* Asynchronous operations keep their order. So if one commit in flight has an asynchronous operation, the client sends
 * no other commit meanwhile. */
static void what_does_not_wait_keeps_its_place(void **state) {
    for (int is_first = 0; is_first < 2; is_first++) {
        const enum deed script[] = {KEEP_ANSWER};
        struct fake *fake = fake_start(script, 1);
        tarry_client *client = client_to(fake->url, 1);
        struct tarry_schedule_options behind = brief("behind"), first = brief("blocking");
        struct answers answers = {0};
        pthread_t thread;
        behind.call.timeout_ms = BRIEF_MS / 2;
        if (is_first == 1)
            assert_int_equal(tarry_schedule_async(client, &first, count_answer, &answers), TARRY_OK);
        else
            assert_int_equal(pthread_create(&thread, NULL, schedule_blocking, client), 0);
        await_trace(fake, "[schedule blocking]");
        if (is_first == 1)
            assert_int_not_equal(tarry_schedule(client, &behind, NULL), TARRY_OK);
        else
            assert_int_equal(tarry_schedule_async(client, &behind, count_answer, &answers), TARRY_OK);
        while (answers.failed + answers.ok < 1) sleep_ms(1);
        assert_false(traced(fake, "behind"));
        if (is_first == 0) pthread_join(thread, NULL);
        end(fake, client);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_goes_in_order_while_there_is_room),
        cmocka_unit_test(acks_and_cancels_pass_schedules_that_are_refused),
        cmocka_unit_test(a_cancel_does_not_pass_what_names_its_task),
        cmocka_unit_test(acks_pass_cancels_that_are_refused),
        cmocka_unit_test(commits_of_the_users_pass_whole_or_not_at_all),
        cmocka_unit_test(a_commit_of_unknown_fate_is_not_divided),
        cmocka_unit_test(nothing_passes_a_commit_of_unknown_fate_that_names_its_task),
        cmocka_unit_test(a_schedule_does_not_pass_a_cancel_that_is_refused),
        cmocka_unit_test(in_a_storm_each_takes_effect_once_and_in_its_order),
        cmocka_unit_test(redactions_and_purges_travel_alone),
        cmocka_unit_test(two_commits_of_blocking_calls_are_under_way),
        cmocka_unit_test(what_does_not_wait_keeps_its_place),
        cmocka_unit_test(an_answer_costs_the_same_however_much_waits),
        cmocka_unit_test(a_refusal_costs_the_same_however_much_waits),
        cmocka_unit_test(a_turn_of_the_engine_takes_the_same_time_however_much_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
