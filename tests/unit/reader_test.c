/* reader_test.c: the memory of rows that were read for requests is counted until the requests end. There are limits for
 * one request and for all together; result pages of jobs are never refused. */
#include "reader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fatal.h"
#include "inbox.h"
#include "index.h"

#define ROWS_MAX 1000u

static size_t size_of_rows; /* size in bytes of the next rows */
static int fails_with;      /* error of the next read; 0: none */
static struct reader reader;
static struct inbox *const core_inbox = (struct inbox *)&reader; /* never dereferenced */
static unsigned posted;

void worker_start(struct worker *worker, const char *name,
                  void (*run)(void *owner, struct engine_request *engine_request), void *owner) {
    worker->run = run;
    worker->owner = owner;
}

void worker_post(struct worker *worker, struct engine_request *engine_request) {
    worker->run(worker->owner, engine_request);
}

void worker_stop(struct worker *worker) {}

void inbox_post(struct inbox *inbox, struct item *item) {
    assert_ptr_equal(inbox, core_inbox);
    posted++;
}

void fatal(const char *what, int error) {
    fail_msg("%s: %d", what, error);
    abort();
}

static int take(struct arena *arena, size_t size_max, struct index_rows *out) {
    if (fails_with != 0) return fails_with;
    if (size_of_rows > size_max) return 1;
    *out = (struct index_rows){.rows = arena_alloc(arena, size_of_rows), .count = 1};
    return 0;
}

int index_lookup(struct index *index, const struct want *wants, size_t want_count, size_t size_max, struct arena *arena,
                 struct index_rows *out) {
    return take(arena, size_max, out);
}

int index_list(struct index *index, const struct index_query *query, struct arena *arena, struct index_rows *out,
               struct due *out_through) {
    *out_through = DUE_END;
    return take(arena, SIZE_MAX, out);
}

int index_scan(struct index *index, uint32_t queue, uint64_t after_id, uint64_t id_end, size_t count_max,
               size_t examine_max, struct arena *arena, struct index_rows *out, uint64_t *out_next) {
    *out_next = UINT64_MAX;
    return take(arena, SIZE_MAX, out);
}

/* Reads `size` bytes for the request, which has its own arena. Returns the code with which it is refused, or OK. */
static Tarry__Code reads(struct engine_request *request, struct arena *arena, size_t size) {
    static struct want want = {.id = 1};
    const unsigned before = posted;
    arena_init(arena, SIZE_MAX);
    *request = (struct engine_request){.item.kind = ITEM_CALL, .arena = arena, .wants = &want, .want_count = 1};
    size_of_rows = size;
    reader_post(&reader, request);
    assert_int_equal(posted, before + 1); /* the request comes back to the core, even if it was refused */
    return request->refusal.code;
}

static void end(struct engine_request *request) {
    reader_release(&reader, request);
    arena_deinit(request->arena);
}

static int set_up(void **state) {
    reader_start(&reader, NULL, core_inbox, ROWS_MAX);
    return 0;
}

static void one_request_reads_so_much(void **state) {
    struct engine_request request;
    struct arena arena;
    assert_int_equal(reads(&request, &arena, ROWS_MAX + 16), TARRY__CODE__TOO_LARGE);
    end(&request);
    assert_int_equal(reads(&request, &arena, 800), TARRY__CODE__OK);
    static struct want want = {.id = 2};
    request.wants = &want; /* the next read is for the same request */
    request.want_count = 1;
    size_of_rows = 400;
    reader_post(&reader, &request);
    assert_int_equal(request.refusal.code, TARRY__CODE__TOO_LARGE);
    end(&request);
    assert_int_equal(atomic_load(&reader.rows), 0);
}

static void all_requests_together_read_so_much(void **state) {
    struct engine_request requests[4];
    struct arena arenas[4];
    assert_int_equal(reads(&requests[0], &arenas[0], 800), TARRY__CODE__OK);
    /* A request may begin while the limit is not reached, so the last one may exceed the limit. */
    assert_int_equal(reads(&requests[1], &arenas[1], 800), TARRY__CODE__OK);
    assert_int_equal(reads(&requests[2], &arenas[2], 16), TARRY__CODE__BUSY);
    end(&requests[0]);
    assert_int_equal(reads(&requests[3], &arenas[3], 16), TARRY__CODE__OK);
    for (unsigned i = 1; i < 4; i++) end(&requests[i]);
    assert_int_equal(atomic_load(&reader.rows), 0);
}

static void a_page_of_a_list_counts_and_a_page_of_a_job_is_read(void **state) {
    struct arena arena;
    struct page_load load = {.engine_request = {.item.kind = ITEM_PAGE, .arena = &arena}};
    struct engine_request list = {.item.kind = ITEM_CALL, .arena = &arena}, other;
    struct arena others;
    arena_init(&arena, SIZE_MAX);
    size_of_rows = 1600;
    reader_post(&reader, &list);
    assert_int_equal(list.refusal.code, TARRY__CODE__OK);
    assert_true(list.filled && list.event.request.list.row_count == 1);
    assert_int_equal(reads(&other, &others, 16), TARRY__CODE__BUSY);
    end(&other);
    reader_post(&reader, &load.engine_request);
    assert_true(load.read && load.engine_request.refusal.code == TARRY__CODE__OK);
    end(&list);
    assert_int_equal(atomic_load(&reader.rows), 0);
}

/* In an earlier version this ended the process: a request can be so large that nothing else fits into its arena. */
static void a_request_that_fills_its_arena_is_refused(void **state) {
    struct engine_request request;
    struct arena arena;
    fails_with = -ENOMEM;
    assert_int_equal(reads(&request, &arena, 16), TARRY__CODE__TOO_LARGE);
    end(&request);
    arena_init(&arena, SIZE_MAX);
    struct engine_request list = {.item.kind = ITEM_CALL, .arena = &arena};
    reader_post(&reader, &list);
    assert_int_equal(list.refusal.code, TARRY__CODE__TOO_LARGE);
    end(&list);
    fails_with = 0;
    assert_int_equal(atomic_load(&reader.rows), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_request_reads_so_much, set_up),
        cmocka_unit_test_setup(all_requests_together_read_so_much, set_up),
        cmocka_unit_test_setup(a_request_that_fills_its_arena_is_refused, set_up),
        cmocka_unit_test_setup(a_page_of_a_list_counts_and_a_page_of_a_job_is_read, set_up),
    };
    return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
