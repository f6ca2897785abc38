/* client_look_test.c: libtarry's queries when something fails: a list that fails in the middle, memory that runs
 * out. With a fake broker (fake_broker.h); the linker's --wrap intercepts allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "fake_broker.h"
#include "held.h"

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

/* ---- the allocator: the n-th allocation of this thread fails, and all later ones; or every large one of any thread
 * or of the engine */

static _Thread_local size_t allocations_left = SIZE_MAX;
static atomic_size_t large_fail = SIZE_MAX; /* allocations of this many bytes or more fail */
static atomic_size_t large_fail_of_engine = SIZE_MAX;

static bool is_engine(void) {
    char name[16] = "";
    return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 && strcmp(name, "tarry-engine") == 0;
}

static bool strikes(size_t size) {
    if (size >= atomic_load(&large_fail)) return true;
    if (size >= atomic_load(&large_fail_of_engine) && is_engine()) return true;
    if (allocations_left == SIZE_MAX) return false;
    if (allocations_left == 0) return true;
    allocations_left--;
    return false;
}

#define ALLOCATING(name, size, parameters, arguments)                                                                  \
    void *__real_##name parameters;                                                                                    \
    void *__wrap_##name parameters;                                                                                    \
    void *__wrap_##name parameters {                                                                                   \
        return strikes(size) ? NULL : __real_##name arguments;                                                         \
    }

ALLOCATING(malloc, size, (size_t size), (size))
ALLOCATING(calloc, count *size, (size_t count, size_t size), (count, size))
ALLOCATING(realloc, size, (void *old, size_t size), (old, size))

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text) {
    return strikes(1) ? NULL : __real_strdup(text);
}

static tarry_client *client_to(const char *urls) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .name = "client_test", .timeout_ms = 5000};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

/* ---- a list of three pages of two tasks; the second page is refused `refusals` times */

struct pages {
    unsigned refusals;
    unsigned asked;
};

static void on_page(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply) {
    struct pages *pages = fake->argument;
    assert_int_equal(request->body_case, TARRY__REQUEST__BODY_LIST);
    const Tarry__List *list = request->list;
    unsigned page = list->cursor.len == 0 ? 0 : list->cursor.data[0];
    pages->asked++;
    if (page == 1 && pages->refusals > 0) {
        pages->refusals--;
        fake_refuse(reply, TARRY__CODE__INVALID);
        return;
    }
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__ListReply body = TARRY__LIST_REPLY__INIT;
    Tarry__TaskView views[2] = {TARRY__TASK_VIEW__INIT, TARRY__TASK_VIEW__INIT}, *tasks[2] = {&views[0], &views[1]};
    uint8_t next = (uint8_t)(page + 1);
    for (unsigned i = 0; i < 2; i++) {
        views[i].id = 1 + 2 * page + i;
        views[i].state = (char *)"pending";
        views[i].key = (ProtobufCBinaryData){3, (uint8_t *)"key"};
    }
    body.tasks = tasks;
    body.n_tasks = 2;
    if (page < 2) body.next = (ProtobufCBinaryData){1, &next};
    answer.body_case = TARRY__REPLY__BODY_LIST;
    answer.list = &body;
    fake_answer(reply, &answer);
}

static void a_list_that_fails_has_not_ended(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    struct pages pages = {.refusals = 2};
    fake->on_question = on_page;
    fake->argument = &pages;
    tarry_client *client = client_to(fake->url);
    tarry_list *list;
    const struct tarry_view *view;
    char message[TARRY_MESSAGE_SIZE];
    assert_int_equal(tarry_list_open(client, &(struct tarry_list_options){.queue = "orders"}, &list), TARRY_OK);
    for (uint64_t id = 1; id <= 6; id++) {
        for (int i = 0; id == 3 && i < 2; i++) {
            assert_int_equal(tarry_list_next(list, &view, message), TARRY_INVALID); /* never TARRY_E_END */
            assert_string_equal(message, "says the fake");
        }
        assert_int_equal(tarry_list_next(list, &view, message), TARRY_OK);
        assert_int_equal(view->id, id); /* after the failure, the list continues with the same task */
    }
    for (int i = 0; i < 2; i++) assert_int_equal(tarry_list_next(list, &view, message), TARRY_E_END);
    assert_int_equal(pages.asked, 5);
    tarry_list_close(list);
    tarry_close(client);
    fake_stop(fake);
}

static void a_list_that_fails_at_once_may_be_repeated(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    struct pages pages = {.refusals = 0};
    fake->is_not_primary = true;
    fake->on_question = on_page;
    fake->argument = &pages;
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url, .timeout_ms = 300};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    tarry_list *list;
    const struct tarry_view *view;
    assert_int_equal(tarry_list_open(client, &(struct tarry_list_options){.queue = "orders"}, &list), TARRY_OK);
    for (int i = 0; i < 2; i++) {
        int rv = tarry_list_next(list, &view, NULL);
        assert_true(rv == TARRY_NOT_PRIMARY || rv == TARRY_E_NO_BROKER);
    }
    pthread_mutex_lock(&fake->lock);
    fake->is_not_primary = false;
    pthread_mutex_unlock(&fake->lock);
    for (uint64_t id = 1; id <= 6; id++) {
        int rv = tarry_list_next(list, &view, NULL);
        for (int i = 0; i < 20 && (rv == TARRY_NOT_PRIMARY || rv == TARRY_E_NO_BROKER); i++)
            rv = tarry_list_next(list, &view, NULL);
        assert_int_equal(rv, TARRY_OK);
        assert_int_equal(view->id, id);
    }
    assert_int_equal(tarry_list_next(list, &view, NULL), TARRY_E_END);
    tarry_list_close(list);
    tarry_close(client);
    fake_stop(fake);
}

/* ---- memory */

/* This test is not built with sanitizers: their allocator has no counter, and they find leaks by themselves. */
static void a_list_that_is_closed_is_given_back(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url);
    const struct tarry_list_options options = {.queue = "orders"};
    /* After this call, the engine's thread has allocated all memory that it needs. */
    assert_int_equal(tarry_ping(client, NULL), TARRY_OK);
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 1000; i++) {
        tarry_list *list;
        assert_int_equal(tarry_list_open(client, &options, &list), TARRY_OK);
        tarry_list_close(list);
    }
    /* A list takes some hundred bytes, so leaked lists would take more than 128 KiB. */
    assert_true(mallinfo2().uordblks < before + ((size_t)128 << 10));
    tarry_list_close(NULL);
    tarry_close(client);
    fake_stop(fake);
}

typedef int question(tarry_client *client, char *out_message);

static int asks_get(tarry_client *client, char *out_message) {
    struct tarry_view *view = NULL;
    int rv = tarry_get(client, &(struct tarry_ref){.id = 1}, true, NULL, &view, out_message);
    if (rv == TARRY_OK) tarry_view_free(view);
    return rv;
}
static int asks_list(tarry_client *client, char *out_message) {
    tarry_list *list = NULL;
    const struct tarry_view *view;
    (void)snprintf(out_message, TARRY_MESSAGE_SIZE, "%s", "has no out_message"); /* tarry_list_open */
    int rv = tarry_list_open(client, &(struct tarry_list_options){.queue = "orders"}, &list);
    if (rv != TARRY_OK) return rv;
    out_message[0] = 0;
    for (int i = 0; i < 6 && rv == TARRY_OK; i++) rv = tarry_list_next(list, &view, out_message);
    tarry_list_close(list);
    return rv;
}
static int asks_queues(tarry_client *client, char *out_message) {
    struct tarry_queues_view *view;
    int rv = tarry_queues(client, NULL, &view, out_message);
    if (rv == TARRY_OK) tarry_queues_free(view);
    return rv;
}
static int asks_calendar(tarry_client *client, char *out_message) {
    struct tarry_calendar_view *view;
    int rv = tarry_calendar(client, &(struct tarry_calendar_options){.step_ms = 60000, .spans = 3}, &view, out_message);
    if (rv == TARRY_OK) assert_int_equal(view->count, 3);
    if (rv == TARRY_OK) tarry_calendar_free(view);
    return rv;
}
static int asks_stats(tarry_client *client, char *out_message) {
    struct tarry_stats_view *view;
    int rv = tarry_stats(client, NULL, NULL, &view, out_message);
    if (rv == TARRY_OK) tarry_stats_free(view);
    return rv;
}
static int asks_job(tarry_client *client, char *out_message) {
    struct tarry_job_view view;
    return tarry_job(client, "orders", 1, NULL, &view, out_message);
}
static int asks_pair(tarry_client *client, char *out_message) {
    struct tarry_pair_view *view;
    int rv = tarry_pair_status(client, NULL, &view, out_message);
    if (rv == TARRY_OK) tarry_pair_free(view);
    return rv;
}
static int asks_backup(tarry_client *client, char *out_message) {
    int rv =
        tarry_backup(client, &(struct tarry_backup_options){.directory = "/nonexistent/backup"}, NULL, out_message);
    return rv == TARRY_E_NOMEM ? rv : TARRY_OK; /* the directory does not exist */
}
static int asks_audit(tarry_client *client, char *out_message) {
    tarry_audit *audit;
    const struct tarry_frame *frame;
    (void)snprintf(out_message, TARRY_MESSAGE_SIZE, "%s", "has no out_message"); /* tarry_audit_open */
    int rv = tarry_audit_open(client, NULL, &audit);
    if (rv != TARRY_OK) return rv;
    out_message[0] = 0;
    rv = tarry_audit_next(audit, 5000, &frame, out_message);
    /* The audit does not wait for a request that could not be sent. The next call tries to send it again, and fails in
     * the same way. */
    if (rv == TARRY_E_NOMEM) assert_int_equal(tarry_audit_next(audit, 0, &frame, NULL), TARRY_E_NOMEM);
    tarry_audit_close(audit);
    return rv == TARRY_E_NOMEM ? rv : TARRY_OK; /* the fake broker replies UNSUPPORTED */
}
static int asks_consumer(tarry_client *client, char *out_message) {
    const char *queue = "orders";
    tarry_consumer *consumer;
    int rv = tarry_consumer_open(client, &(struct tarry_consumer_options){.queues = &queue, .queue_count = 1},
                                 &consumer, out_message);
    allocations_left = SIZE_MAX;
    if (rv == TARRY_OK) assert_int_equal(tarry_consumer_close(consumer, 0, NULL), TARRY_OK);
    return rv;
}
static int asks_name(tarry_client *client, char *out_message) {
    tarry_commit *commit;
    struct tarry_commit_id id;
    (void)snprintf(out_message, TARRY_MESSAGE_SIZE, "%s", "has no out_message"); /* tarry_commit_new */
    int rv = tarry_commit_new(client, false, &commit);
    if (rv != TARRY_OK) return rv;
    out_message[0] = 0;
    rv = tarry_commit_prepare(commit, NULL, &id, out_message);
    tarry_commit_free(commit);
    return rv;
}

static void on_any_question(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply) {
    if (request->body_case == TARRY__REQUEST__BODY_LIST)
        on_page(fake, request, reply);
    else
        fake_answer_question(request, reply);
}

static void whoever_runs_out_of_memory_says_so(void **state) { /* F-11 */
    static question *const questions[] = {asks_get,  asks_list,   asks_queues, asks_calendar, asks_stats, asks_job,
                                          asks_pair, asks_backup, asks_audit,  asks_consumer, asks_name};
    struct fake *fake = fake_start(NULL, 0);
    fake_open_lane(fake);
    struct pages pages = {.refusals = 0};
    fake->on_question = on_any_question;
    fake->argument = &pages;
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        int rv = TARRY_E_NOMEM;
        for (size_t n = 0; rv != TARRY_OK; n++) {
            char message[TARRY_MESSAGE_SIZE] = "";
            /* A new client, because a used one has memory that it could reuse. */
            tarry_client *client = client_to(fake->url);
            assert_true(n < 100);
            allocations_left = n;
            rv = questions[i](client, message);
            allocations_left = SIZE_MAX;
            assert_true(rv == TARRY_E_NOMEM || (rv == TARRY_OK && n > 0));
            if (rv != TARRY_OK) assert_string_not_equal(message, "");
            tarry_close(client);
        }
    }
    fake_stop(fake);
}

static void a_lease_without_memory_is_not_held(void **state) { /* F-11 */
    struct held held = {.capacity = 0};
    for (uint64_t id = 1; id < 100; id++) { /* so many entries that the array is extended several times */
        const struct held_entry entry = {.id = id, .token = {1, id}};
        allocations_left = 0;
        const bool is_held = held_take(&held, entry);
        allocations_left = SIZE_MAX;
        if (!is_held) {
            assert_null(held_find(&held, id));
            assert_true(held_take(&held, entry));
        }
        assert_true(id > 1 || !is_held);
        for (uint64_t each = 1; each <= id; each++) assert_non_null(held_find(&held, each));
    }
    held_deinit(&held);
}

/* TARRY_E_NOMEM promises that nothing was done. So the library allocates memory for all results before it sends the
 * commit. */
static void a_commit_without_memory_for_its_results_is_not_sent(void **state) { /* F-11 */
    enum { OPS = 8000 };
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url);
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (int i = 0; i < OPS; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    atomic_store(&large_fail, OPS * sizeof(struct tarry_result));
    const struct tarry_result *results = NULL;
    size_t count = 1;
    assert_int_equal(tarry_commit_run(commit, NULL, &results, &count), TARRY_E_NOMEM);
    assert_int_equal(count, 0);
    assert_null(results);
    assert_int_equal(COUNT(fake, commits), 0);
    atomic_store(&large_fail, SIZE_MAX);
    assert_int_equal(tarry_commit_run(commit, NULL, &results, &count),
                     TARRY_OK); /* the commit still exists, so it can be run again */
    assert_int_equal(count, OPS);
    assert_int_equal(COUNT(fake, ops), OPS);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

/* The broker sends a reply, but the client has no memory to read it. So the client sends the request again (ONCE-1). */
/* Proves F-11, F-22 and ONCE-1. */
static void an_answer_without_memory_to_read_it_is_asked_for_again(void **state) {
    enum { OPS = 8000 };
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url);
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, false, &commit), TARRY_OK);
    for (int i = 0; i < OPS; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    /* The second block of the reply's arena cannot be allocated. */
    atomic_store(&large_fail_of_engine, (size_t)512 << 10);
    struct tarry_result first = {.code = -1};
    assert_int_equal(tarry_commit_submit(commit, NULL, NULL, NULL), TARRY_OK);
    while (COUNT(fake, commits) < 2) sleep_ms(1);
    atomic_store(&large_fail_of_engine, SIZE_MAX);
    assert_int_equal(tarry_schedule(client, &order, &first), TARRY_OK);
    assert_int_equal(first.id, OPS + 1);
    assert_int_equal(first.sequence, 2);
    assert_int_equal(COUNT(fake, ops), OPS + 1);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_that_fails_has_not_ended),
        cmocka_unit_test(a_list_that_fails_at_once_may_be_repeated),
        cmocka_unit_test(a_list_that_is_closed_is_given_back),
        cmocka_unit_test(whoever_runs_out_of_memory_says_so),
        cmocka_unit_test(a_lease_without_memory_is_not_held),
        cmocka_unit_test(a_commit_without_memory_for_its_results_is_not_sent),
        cmocka_unit_test(an_answer_without_memory_to_read_it_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
