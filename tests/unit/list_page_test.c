/* list_page_test.c: to fill a result page, a list reads pieces of the index until the page is full or LIST_READS_MAX
 * pieces were read. If the first piece has no match, the list reads the next one. */
#include "core_alone.h"
#include "engine_request.h"
#include "state.h"
#include "tarry_limits.h"

#define ROWS_MAX 20000

/* Rows of the queue "orders" in the index, earliest due first. */
static struct row rows[ROWS_MAX];
static size_t row_count;
static unsigned reads;

static void add_rows(const struct fx *f, size_t count, int64_t due_in_ms, uint64_t expires_ms) {
    for (size_t i = 0; i < count; i++, row_count++)
        rows[row_count] = (struct row){.id = 10 + row_count,
                                       .queue = 1,
                                       .due_ms = f->now_ms + (uint64_t)due_in_ms,
                                       .expires_ms = expires_ms};
}

static struct row *read_index(const struct core_list_plan *plan, size_t *out_count, struct due *out_through) {
    size_t first = 0, count = 0;
    while (first < row_count && (!due_before(plan->after, (struct due){rows[first].due_ms, rows[first].id}) ||
                                 rows[first].due_ms < plan->due_from_ms))
        first++;
    while (first + count < row_count && count < plan->count_max) count++;
    *out_count = count;
    *out_through = DUE_END;
    if (first + count == row_count) return &rows[first];
    const struct row *last = &rows[first + count - 1];
    *out_through = (struct due){last->due_ms, last->id};
    return &rows[first];
}

static const Tarry__ListReply *list(struct fx *f, uint32_t states, uint32_t limit) {
    static Tarry__List body;
    static Tarry__Request request;
    tarry__list__init(&body);
    tarry__request__init(&request);
    body.queue = "orders";
    body.states = states;
    body.limit = limit;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &body;
    request.client = "test";
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    struct engine_request engine_request = {
        .item.kind = ITEM_CALL,
        .arena = &arena,
        .hold = -1,
        .event = {.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request}},
    };
    enum engine_request_need need;
    for (reads = 0; (need = engine_request_next(&engine_request, f->core, NULL)) != ENGINE_REQUEST_NONE;) {
        if (need == ENGINE_REQUEST_TIME) continue;
        assert_int_equal(need, ENGINE_REQUEST_READ);
        size_t count;
        struct due through;
        struct row *found = read_index(&engine_request.plan, &count, &through);
        engine_request_add_page(&engine_request, found, count, count * sizeof(*found), through);
        reads++;
    }
    step(f, &engine_request.event);
    engine_request_end(&engine_request, f->core);
    arena_deinit(&arena);
    assert_int_equal(f->core->hold_count, 0);
    assert_int_equal(f->core->scan_count, 0);
    return f->effects.replies.items[0].reply->list;
}

static void begin_list(struct fx *f) {
    row_count = 0;
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op.queue_pause = &pause;
    pause.queue = "orders";
    assert_int_equal(commit(f, &op), TARRY__CODE__OK); /* makes the queue known; the memory has none of its tasks */
}

/* The first 2,000 tasks have expired, but the index does not know that. */
static void a_page_is_read_until_it_is_full(void **state) {
    struct fx *f = *state;
    begin_list(f);
    add_rows(f, 2000, -1000, 10);
    add_rows(f, 30, 1000, 0);
    const Tarry__ListReply *page = list(f, 0, 5);
    assert_int_equal(page->n_tasks, 5);
    assert_int_equal(page->tasks[0]->id, 10 + 2000);
    assert_int_equal(page->next.len, 16);
    assert_true(reads > 1 && reads <= LIST_READS_MAX);
    assert_int_equal(list(f, 0, 100)->n_tasks, 30); /* the list has no more result pages */
    assert_int_equal(f->effects.replies.items[0].reply->list->next.len, 0);
}

static void a_page_ends_once_so_much_was_read(void **state) { /* CALM-1 */
    struct fx *f = *state;
    begin_list(f);
    add_rows(f, ROWS_MAX, -1000, 10);
    const Tarry__ListReply *page = list(f, 0, 5);
    assert_int_equal(page->n_tasks, 0);
    assert_int_equal(page->next.len, 16); /* the next page begins after the rows that were read */
    assert_int_equal(reads, LIST_READS_MAX);
}

/* The first 2,000 tasks are leased or ready. In an earlier version they filled the page of pending tasks. */
static void what_is_pending_is_not_looked_for_among_the_rest(void **state) {
    struct fx *f = *state;
    begin_list(f);
    struct core_list_plan plan;
    Tarry__List body = TARRY__LIST__INIT;
    body.queue = "orders";
    body.states = STATE_PENDING;
    core_plan_list(f->core, &body, &plan);
    assert_int_equal(plan.states, 1u << ROW_WAITING);
    add_rows(f, 2000, -1000, 0);
    add_rows(f, 30, 1000, 0);
    assert_int_equal(list(f, STATE_PENDING, 5)->n_tasks, 5);
    assert_int_equal(reads, 1);
}

/* In an earlier version, all result pages of pending tasks were read although no task was ready. */
static void nothing_is_ready_behind_the_present(void **state) {
    struct fx *f = *state;
    begin_list(f);
    add_rows(f, 3, -1000, 0);
    add_rows(f, 3000, 1000, 0);
    const Tarry__ListReply *page = list(f, STATE_READY, 5);
    assert_int_equal(page->n_tasks, 3);
    assert_int_equal(page->next.len, 0);
    assert_int_equal(reads, 1);
    page = list(f, STATE_READY, 2);
    assert_int_equal(page->n_tasks, 2);
    assert_int_equal(page->next.len, 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(a_page_is_read_until_it_is_full),
        CORE_TEST(a_page_ends_once_so_much_was_read),
        CORE_TEST(what_is_pending_is_not_looked_for_among_the_rest),
        CORE_TEST(nothing_is_ready_behind_the_present),
    };
    return cmocka_run_group_tests_name("list_page", tests, NULL, NULL);
}
