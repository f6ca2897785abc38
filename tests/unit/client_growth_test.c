/* client_growth_test.c: programs that were built with the headers of another version than the library's (tarry.h,
 * Compatibility). The test is built three times, always with the same libtarry.so. The first program has the current
 * headers. GROWTH_OLDER: an older version's headers, in which the last field of every struct of options has no name.
 * GROWTH_NEWER: a newer version's headers, in which every struct of options has a field `tomorrow` that the library
 * does not know. growth/headers.py makes the headers. All structs of the program end at the end of their memory page,
 * so a library that reads or writes past a struct crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_broker.h"
#include "tarry.h"

#ifdef GROWTH_HEADER
#include GROWTH_HEADER
_Static_assert(GROWTH_STRUCTS == 12, "a call for each struct of options that there is");
#endif

/* Returns a copy of `data` that ends at the end of a page. The few copies of each test are never freed. */
static void *at_the_edge(const void *data, size_t size) {
    const size_t page = 4096;
    assert_true(size <= page);
    // cppcheck-suppress invalidFunctionArg ; -1 is right with MAP_ANONYMOUS
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(munmap(pages + page, page), 0);
    return memcpy(pages + page - size, data, size);
}
#define AT_THE_EDGE(object) at_the_edge(&(object), sizeof(object))

#ifdef GROWTH_NEWER
#define SET_TOMORROW(object, value) (object).tomorrow = (value)
#else
#define SET_TOMORROW(object, value) (void)(value)
#endif

/* Makes every call with options once. `tomorrow` is the value that a newer program stores in its last field. `codes`
 * gets the results. */
enum { CALLS = 16 };

struct calls {
    int codes[CALLS];
    size_t count;
};

static void note(struct calls *calls, int code) {
    assert_true(calls->count < CALLS);
    calls->codes[calls->count++] = code;
}

static void call_operations(tarry_client *client, uint64_t tomorrow, struct calls *calls) {
    struct tarry_schedule_options schedule = {.queue = "orders", .key = "order-1", .when_ms = 500};
    struct tarry_nack_options nack = {.has_delay = true, .delay_ms = 100};
    struct tarry_redact_options redact = {.task = {.id = 7}, .reason = "asked for"};
    struct tarry_policy policy = {.lease_ms = 1000};
    struct tarry_result nothing = {0}, *result = AT_THE_EDGE(nothing);
    const struct tarry_token token = {1, 2};
    SET_TOMORROW(schedule, tomorrow);
    SET_TOMORROW(nack, tomorrow);
    SET_TOMORROW(redact, tomorrow);
    struct tarry_recur_options recur = {.queue = "orders", .name = "daily", .cron = "0 9 * * *"};
    SET_TOMORROW(policy, tomorrow);
    SET_TOMORROW(recur, tomorrow);
    const struct tarry_schedule_options *schedule_edge = AT_THE_EDGE(schedule);
    const struct tarry_nack_options *nack_edge = AT_THE_EDGE(nack);
    const struct tarry_redact_options *redact_edge = AT_THE_EDGE(redact);
    const struct tarry_policy *policy_edge = AT_THE_EDGE(policy);
    note(calls, tarry_schedule(client, schedule_edge, result));
    assert_int_equal(result->code, calls->codes[0]);
    note(calls, tarry_nack(client, 7, token, nack_edge, result));
    note(calls, tarry_redact(client, redact_edge, result));
    note(calls, tarry_queue_set(client, "orders", policy_edge, TARRY_POLICY_LEASE, NULL, result));
    note(calls, tarry_recur_set(client, AT_THE_EDGE(recur), result));
    note(calls, tarry_schedule_async(client, schedule_edge, NULL, NULL));
    note(calls, tarry_nack_async(client, 7, token, nack_edge, NULL, NULL));
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    note(calls, tarry_commit_schedule(commit, schedule_edge));
    note(calls, tarry_commit_nack(commit, 7, token, nack_edge));
    note(calls, tarry_commit_redact(commit, redact_edge));
    note(calls, tarry_commit_queue_set(commit, "orders", policy_edge, TARRY_POLICY_LEASE));
    tarry_commit_free(commit);
}

static void call_others(tarry_client *client, uint64_t tomorrow, struct calls *calls) {
    const char *queue = "orders";
    struct tarry_consumer_options consume = {.queues = &queue, .queue_count = 1};
    struct tarry_list_options list_of = {.queue = "orders"};
    struct tarry_audit_options audit_of = {.position = 0};
    struct tarry_call fresh = {.timeout_ms = 5000};
    struct tarry_calendar_options calendar_of = {.step_ms = 60000, .spans = 1};
    struct tarry_calendar_view *calendar = NULL;
    struct tarry_ref order = {.id = 7};
    SET_TOMORROW(consume, tomorrow);
    SET_TOMORROW(fresh, tomorrow);
    SET_TOMORROW(list_of, tomorrow);
    SET_TOMORROW(audit_of, tomorrow);
    SET_TOMORROW(calendar_of, tomorrow);
    tarry_consumer *consumer = NULL;
    tarry_list *list = NULL;
    tarry_audit *audit = NULL;
    struct tarry_view *view = NULL;
    note(calls, tarry_consumer_open(client, AT_THE_EDGE(consume), &consumer, NULL));
    note(calls, tarry_list_open(client, AT_THE_EDGE(list_of), &list));
    note(calls, tarry_audit_open(client, AT_THE_EDGE(audit_of), &audit));
    note(calls, tarry_get(client, &order, false, AT_THE_EDGE(fresh), &view, NULL));
    note(calls, tarry_calendar(client, AT_THE_EDGE(calendar_of), &calendar, NULL));
    tarry_calendar_free(calendar);
    tarry_view_free(view);
    tarry_list_close(list);
    tarry_audit_close(audit);
}

static tarry_client *client_to(const struct fake *fake) {
    struct tarry_options options = {.urls = fake->url, .timeout_ms = 10000};
    tarry_client *client = NULL;
    assert_int_equal(tarry_open(AT_THE_EDGE(options), &client), TARRY_OK);
    return client;
}

static struct calls all_calls(uint64_t tomorrow, size_t *out_ops) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake);
    struct calls calls = {.count = 0};
    call_operations(client, tomorrow, &calls);
    call_others(client, tomorrow, &calls);
    assert_int_equal(tarry_drain(client, 0, NULL), TARRY_OK);
    assert_int_equal(calls.count, CALLS);
    tarry_close(client);
    *out_ops = fake->ops;
    fake_stop(fake);
    return calls;
}

static void every_call_understands_this_program(void **state) {
    size_t ops;
    const struct calls calls = all_calls(0, &ops);
    for (size_t i = 0; i < CALLS; i++) /* the fake broker has no sessions */
        assert_int_equal(calls.codes[i], i == 11 ? TARRY_UNSUPPORTED : TARRY_OK);
    assert_int_equal(ops, 7); /* 7 operations: of the blocking calls, and of the two asynchronous calls */
}

static void a_program_that_sets_nothing_new_is_of_the_same_version(void **state) {
    assert_int_equal(tarry_version_number(), TARRY_VERSION_NUMBER);
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", TARRY_VERSION_MAJOR, TARRY_VERSION_MINOR, TARRY_VERSION_PATCH);
    assert_string_equal(tarry_version(), text);
}

static void a_program_for_a_newer_library_is_refused(void **state) {
    tarry_client *client = NULL;
    const struct tarry_options options = {.urls = "ws://127.0.0.1:9"};
    assert_int_equal(tarry_open_version(&options, TARRY_VERSION_NUMBER + 1000, &client), TARRY_E_VERSION);
    assert_int_equal(tarry_open_version(&options, TARRY_VERSION_NUMBER + 1000000, &client), TARRY_E_VERSION);
    assert_null(client);
    assert_non_null(strstr(tarry_code_sentence(TARRY_E_VERSION), tarry_version()));
    assert_string_equal(tarry_code_name(TARRY_E_VERSION), "version");
    /* The library accepts a program that was built for another patch version. */
    assert_int_equal(tarry_open_version(&options, TARRY_VERSION_NUMBER + 1, &client), TARRY_OK);
    tarry_close(client);
}

#ifdef GROWTH_NEWER
static void what_this_library_does_not_know_is_refused(void **state) {
    size_t ops;
    const struct calls calls = all_calls(1, &ops);
    for (size_t i = 0; i < CALLS; i++) assert_int_equal(calls.codes[i], TARRY_E_VERSION);
    assert_int_equal(ops, 0);
    struct tarry_options options = {.urls = "ws://127.0.0.1:9", .tomorrow = 1};
    struct tarry_backup_options backup = {.directory = "/nonexistent", .tomorrow = 1};
    tarry_client *client = NULL;
    assert_int_equal(tarry_open(&options, &client), TARRY_E_VERSION);
    char message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_backup(NULL, &backup, NULL, message), TARRY_E_VERSION);
    assert_string_equal(message, tarry_code_sentence(TARRY_E_VERSION));
    struct tarry_result result;
    struct tarry_schedule_options schedule = {.queue = "orders", .tomorrow = UINT64_MAX};
    assert_int_equal(tarry_schedule(NULL, &schedule, &result), TARRY_E_VERSION);
    assert_string_equal(result.message, tarry_code_sentence(TARRY_E_VERSION));
}
#endif

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_understands_this_program),
        cmocka_unit_test(a_program_that_sets_nothing_new_is_of_the_same_version),
        cmocka_unit_test(a_program_for_a_newer_library_is_refused),
#ifdef GROWTH_NEWER
        cmocka_unit_test(what_this_library_does_not_know_is_refused),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
