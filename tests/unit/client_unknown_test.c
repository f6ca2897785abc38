/* client_unknown_test.c: commits with unknown outcome, with a fake broker (fake_broker.h): a program queries their
 * outcome, or continues them under their former sequence (tarry_once.h, ONCE-1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "client.h"
#include "fake_broker.h"

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

static struct fake *fake_that_remembers(const enum deed *script, size_t size) {
    struct fake *fake = fake_start(script, size);
    pthread_mutex_lock(&fake->lock);
    fake->keeps_producers = true;
    memset(fake->cluster, 0xc5, sizeof(fake->cluster));
    pthread_mutex_unlock(&fake->lock);
    return fake;
}

#define FAR_MS 600000u /* timeout in ms that no test reaches */

static tarry_client *client_to(const struct fake *fake, uint64_t timeout_ms) {
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url, .name = "client_test", .timeout_ms = timeout_ms};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    assert_int_equal(tarry_ping(client, &(struct tarry_call){.timeout_ms = FAR_MS}),
                     TARRY_OK); /* has no deadline, because it may take long to find the broker */
    return client;
}

/* ---- queries of the outcome */

static void what_took_effect_is_told_when_it_is_asked_for(void **state) {
    const enum deed script[] = {ANSWER, KEEP_ANSWER};
    struct fake *fake = fake_that_remembers(script, 2);
    tarry_client *client = client_to(fake, 400);
    struct tarry_result result, answer;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_TIMEOUT);
    assert_int_equal(result.sequence, 2);
    assert_int_equal(tarry_ask(client, &result, NULL, &answer), TARRY_OK);
    assert_int_equal(answer.outcome, TARRY_SCHEDULED);
    assert_int_equal(answer.id, 2);
    assert_int_equal(answer.sequence, 2);
    assert_int_equal(fake->ops, 2); /* no operation was executed twice */
    /* The outcome of an answered commit can be queried too. The query may write its result over the result that it asks
     * about. */
    assert_int_equal(tarry_ask(client, &answer, NULL, &answer), TARRY_OK);
    assert_int_equal(answer.id, 2);
    tarry_close(client);
    fake_stop(fake);
}

static void what_never_arrived_never_will(void **state) {
    const enum deed script[] = {SAY_NOTHING};
    struct fake *fake = fake_that_remembers(script, 1);
    tarry_client *client = client_to(fake, 400);
    struct tarry_result result, answer;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_TIMEOUT);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tarry_ask(client, &result, NULL, &answer), TARRY_E_ABANDONED);
        assert_string_equal(answer.message, tarry_code_sentence(TARRY_E_ABANDONED));
    }
    /* The outcome of a commit is asked for while the commit is still in flight. */
    struct tarry_commit_id id;
    tarry_commit *commit;
    const struct tarry_result *results;
    size_t count;
    assert_int_equal(tarry_result_commit_id(client, &result, &id), TARRY_OK);
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_resume(commit, &id), TARRY_OK);
    assert_int_equal(tarry_commit_run(commit, NULL, &results, &count), TARRY_E_ABANDONED);
    assert_int_equal(results[0].code, TARRY_E_ABANDONED);
    assert_int_equal(fake->ops, 0);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void an_unknown_outcome_is_left_with_its_producer(void **state) {
    const enum deed script[] = {KEEP_ANSWER};
    struct fake *fake = fake_that_remembers(script, 1);
    tarry_client *client = client_to(fake, FAR_MS);
    struct tarry_result unknown, result, answer;
    struct tarry_schedule_options brief = order;
    brief.call.timeout_ms = 400;
    assert_int_equal(tarry_schedule(client, &brief, &unknown), TARRY_E_TIMEOUT);
    for (int i = 0; i < 3 * COMMITS_PER_PRODUCER_MAX; i++) { /* sends more commits than the broker remembers replies */
        assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
        assert_int_not_equal(result.producer, unknown.producer);
    }
    assert_int_equal(tarry_ask(client, &unknown, NULL, &answer), TARRY_OK);
    assert_int_equal(answer.id, 1);
    assert_int_equal(fake->last_oldest, 1); /* the query does not make the broker forget any reply */
    assert_int_equal(fake->hellos, 2);
    tarry_close(client);
    for (int i = 0; i < 5000 && COUNT(fake, goodbyes) == 0; i++)
        sleep_ms(1); /* the client does not wait long for the reply to Goodbye */
    assert_int_equal(
        COUNT(fake, goodbyes),
        1); /* Goodbye for the producer whose replies have all come; the producer with the unknown outcome stays */
    fake_stop(fake);
}

static void what_closing_leaves_unknown_is_asked_by_another_client(void **state) {
    const enum deed script[] = {ANSWER, KEEP_ANSWER};
    struct fake *fake = fake_that_remembers(script, 2);
    tarry_client *client = client_to(fake, FAR_MS);
    struct tarry_result result;
    struct tarry_commit_id id;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_int_equal(tarry_result_commit_id(client, &result, &id), TARRY_OK);
    id.sequence++;
    assert_int_equal(tarry_schedule_async(client, &order, NULL, NULL), TARRY_OK);
    while (COUNT(fake, ops) < 2) sleep_ms(2);
    tarry_close(client);
    assert_int_equal(fake->goodbyes, 0);
    client = client_to(fake, FAR_MS);
    tarry_commit *commit;
    const struct tarry_result *results;
    size_t count;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_ask(commit, &id, NULL, &results, &count), TARRY_OK);
    assert_int_equal(count, 1);
    assert_int_equal(results[0].id, 2);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void all_operations_of_a_commit_are_told(void **state) {
    const enum deed script[] = {KEEP_ANSWER};
    struct fake *fake = fake_that_remembers(script, 1);
    tarry_client *client = client_to(fake, 400);
    tarry_commit *commit;
    const struct tarry_result *results;
    size_t count;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_run(commit, NULL, &results, &count), TARRY_E_TIMEOUT);
    const struct tarry_result third = results[2];
    assert_int_equal(third.index, 2);
    struct tarry_result answer;
    assert_int_equal(tarry_ask(client, &third, NULL, &answer), TARRY_OK);
    assert_int_equal(answer.id, 3);
    struct tarry_commit_id id;
    assert_int_equal(tarry_result_commit_id(client, &third, &id), TARRY_OK);
    assert_int_equal(tarry_commit_ask(commit, &id, NULL, &results, &count), TARRY_OK);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) assert_int_equal(results[i].id, i + 1);
    struct tarry_result beyond = third;
    beyond.index = 5;
    assert_int_equal(tarry_ask(client, &beyond, NULL, &answer), TARRY_E_PROTOCOL);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void what_cannot_be_asked_is_refused(void **state) {
    struct fake *fake = fake_that_remembers(NULL, 0);
    tarry_client *client = client_to(fake, 400);
    struct tarry_result result = {.code = TARRY_E_NO_BROKER}, answer;
    struct tarry_commit_id id = {0};
    /* The call is refused, because the commit was never sent. */
    assert_int_equal(tarry_ask(client, &result, NULL, &answer), TARRY_E_ARGUMENT);
    assert_string_equal(answer.message, tarry_code_sentence(TARRY_E_ARGUMENT));
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_ask(commit, &id, NULL, NULL, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_resume(commit, &id), TARRY_E_ARGUMENT);
    id.producer = id.sequence = 7; /* no broker has issued this producer number */
    assert_int_equal(tarry_commit_ask(commit, &id, NULL, NULL, NULL), TARRY_FORGOTTEN);
    /* The commit's identity names another cluster, to which no address leads. */
    memset(id.cluster, 1, sizeof(id.cluster));
    assert_int_equal(tarry_commit_ask(commit, &id, NULL, NULL, NULL), TARRY_NOT_PRIMARY);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

/* ---- continued commits */

static struct tarry_commit_id prepared(tarry_client *client, tarry_commit **out_commit) {
    struct tarry_commit_id id;
    char message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_commit_new(client, true, out_commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(*out_commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_prepare(*out_commit, NULL, &id, message), TARRY_OK);
    return id;
}

static void a_commit_is_gone_on_with_after_a_restart(void **state) {
    const enum deed script[] = {KEEP_ANSWER};
    struct fake *fake = fake_that_remembers(script, 1);
    tarry_client *client = client_to(fake, 400);
    tarry_commit *commit;
    const struct tarry_commit_id id = prepared(client, &commit);
    assert_int_equal(id.cluster[0], 0xc5);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_E_TIMEOUT);
    tarry_commit_free(commit);
    tarry_close(client);
    for (int restart = 0; restart < 2; restart++) {
        client = client_to(fake, FAR_MS);
        const struct tarry_result *results;
        size_t count;
        assert_int_equal(tarry_commit_new(client, true, &commit), TARRY_OK);
        assert_int_equal(tarry_commit_resume(commit, &id), TARRY_OK);
        assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
        assert_int_equal(tarry_commit_run(commit, NULL, &results, &count), TARRY_OK);
        assert_int_equal(results[0].id, 1);
        assert_int_equal(results[0].producer, id.producer);
        assert_int_equal(results[0].sequence, id.sequence);
        tarry_commit_free(commit);
        tarry_close(client);
    }
    assert_int_equal(fake->ops, 1); /* ONCE-1 */
    fake_stop(fake);
}

/* A program may still query another sequence of that producer: the broker must not forget its reply. */
static void what_is_gone_on_with_makes_the_broker_forget_nothing(void **state) { /* ONCE-1 */
    struct fake *fake = fake_that_remembers(NULL, 0);
    tarry_client *client = client_to(fake, FAR_MS);
    tarry_commit *commits[2];
    struct tarry_commit_id ids[2];
    for (int i = 0; i < 2; i++) ids[i] = prepared(client, &commits[i]);
    for (int i = 0; i < 2; i++) tarry_commit_free(commits[i]); /* the service ends before it has sent the commits */
    tarry_close(client);
    client = client_to(fake, FAR_MS);
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(tarry_commit_new(client, true, &commits[i]), TARRY_OK);
        assert_int_equal(tarry_commit_resume(commits[i], &ids[i]), TARRY_OK);
        assert_int_equal(tarry_commit_schedule(commits[i], &order), TARRY_OK);
        assert_int_equal(tarry_commit_run(commits[i], NULL, NULL, NULL), TARRY_OK);
        assert_int_equal(fake->last_oldest, 1);
        tarry_commit_free(commits[i]);
    }
    tarry_close(client);
    fake_stop(fake);
}

static void a_forgotten_name_is_not_sent_as_new(void **state) {
    struct fake *fake = fake_that_remembers(NULL, 0);
    tarry_client *client = client_to(fake, FAR_MS);
    tarry_commit *commit;
    const struct tarry_commit_id id = {.producer = 7, .sequence = 1};
    assert_int_equal(tarry_commit_new(client, true, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_resume(commit, &id), TARRY_OK);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_FORGOTTEN);
    assert_int_equal(fake->ops, 0);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void names_hold_up_nothing_and_are_many(void **state) {
    enum { MANY = 3 * COMMITS_PER_PRODUCER_MAX };
    struct fake *fake = fake_that_remembers(NULL, 0);
    tarry_client *client = client_to(fake, FAR_MS);
    static tarry_commit *commits[MANY];
    static struct tarry_commit_id ids[MANY];
    struct tarry_result result;
    for (int i = 0; i < MANY; i++) {
        ids[i] = prepared(client, &commits[i]);
        for (int j = 0; j < i; j++)
            assert_true(ids[i].producer != ids[j].producer || ids[i].sequence != ids[j].sequence);
        assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    }
    for (int i = MANY; i-- > 0;) { /* sends the commits in reverse order; the broker remembers 64 replies of a producer
                                      and must not forget any of these */
        assert_int_equal(tarry_commit_run(commits[i], NULL, NULL, NULL), TARRY_OK);
        assert_true(fake->last_oldest <= ids[i].sequence);
    }
    assert_int_equal(fake->ops, 2 * MANY);
    for (int i = 0; i < MANY; i++) tarry_commit_free(commits[i]);
    /* Many commits, one after another, need no new producer. */
    const size_t hellos = fake->hellos;
    for (int i = 0; i < MANY; i++) {
        tarry_commit *commit;
        (void)prepared(client, &commit);
        if (i % 3 == 0) assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_OK);
        tarry_commit_free(commit); /* the commit is never sent, so its sequence is free again */
    }
    assert_true(fake->hellos <= hellos + 1);
    tarry_close(client);
    fake_stop(fake);
}

static void a_name_is_used_once(void **state) {
    struct fake *fake = fake_that_remembers(NULL, 0);
    tarry_client *client = client_to(fake, FAR_MS);
    tarry_commit *commit;
    struct tarry_commit_id id = prepared(client, &commit), other;
    char message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_commit_prepare(commit, NULL, &other, message), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_resume(commit, &id), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL, NULL), TARRY_OK); /* another commit */
    assert_int_equal(fake->ops, 2);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void a_name_as_text(void **state) {
    struct tarry_commit_id id = {UINT64_MAX, 42, {0xc5, 0, 1}}, back;
    char text[TARRY_COMMIT_ID_SIZE];
    assert_string_equal(tarry_commit_id_format(&id, text), "c5000100000000000000000000000000-18446744073709551615-42");
    assert_int_equal(tarry_commit_id_parse(text, &back), TARRY_OK);
    assert_memory_equal(&id, &back, sizeof(id));
    const char *const wrong[] = {"",
                                 "c5",
                                 "C5000100000000000000000000000000-1-42",
                                 "c5000100000000000000000000000000-1-",
                                 "c5000100000000000000000000000000-1-42 ",
                                 "c5000100000000000000000000000000-0-42",
                                 "c5000100000000000000000000000000-1-0",
                                 "c5000100000000000000000000000000-01-4",
                                 "c500010000000000000000000000000-1-42",
                                 "c5000100000000000000000000000000-18446744073709551616-42"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(tarry_commit_id_parse(wrong[i], &back), TARRY_INVALID);
    assert_int_equal(tarry_commit_id_parse(NULL, &back), TARRY_E_ARGUMENT);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_took_effect_is_told_when_it_is_asked_for),
        cmocka_unit_test(what_never_arrived_never_will),
        cmocka_unit_test(an_unknown_outcome_is_left_with_its_producer),
        cmocka_unit_test(what_closing_leaves_unknown_is_asked_by_another_client),
        cmocka_unit_test(all_operations_of_a_commit_are_told),
        cmocka_unit_test(what_cannot_be_asked_is_refused),
        cmocka_unit_test(a_commit_is_gone_on_with_after_a_restart),
        cmocka_unit_test(what_is_gone_on_with_makes_the_broker_forget_nothing),
        cmocka_unit_test(a_forgotten_name_is_not_sent_as_new),
        cmocka_unit_test(names_hold_up_nothing_and_are_many),
        cmocka_unit_test(a_name_is_used_once),
        cmocka_unit_test(a_name_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
