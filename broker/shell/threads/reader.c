/* reader.c: see reader.h. */
#include "reader.h"

#include "fatal.h"
#include "inbox.h"
#include "index.h"

/* Maximum number of rows, of any queue, that a job's result page may examine before it is returned. */
#define EXAMINE_MAX 65536

static void count_rows(struct reader *reader, size_t size) {
    atomic_fetch_add(&reader->rows, size);
}

void reader_release(struct reader *reader, struct engine_request *engine_request) {
    atomic_fetch_sub(&reader->rows, engine_request->facts_size);
    engine_request->facts_size = 0;
}

/* Reads the wanted rows, within the limits of one request and of all requests (CALM-1). */
static void read_facts(struct reader *reader, struct engine_request *engine_request) {
    struct index_rows rows;
    const size_t used = engine_request->arena->used;
    size_t size_max = reader->rows_max < FACTS_SIZE_MAX ? reader->rows_max : FACTS_SIZE_MAX;
    int error = index_lookup(reader->index, engine_request->wants, engine_request->want_count,
                             engine_request_room(engine_request, size_max), engine_request->arena, &rows);
    if (error == 1) engine_request_too_large(engine_request);
    if (error == 1 || engine_request_exhausted(engine_request, error)) return;
    if (error != 0) fatal("index_lookup_failed", error);
    const size_t size = engine_request->arena->used - used;
    count_rows(reader, size);
    engine_request_add_rows(engine_request, rows.rows, rows.count, size);
}

static void read_list(struct reader *reader, struct engine_request *engine_request) {
    const struct core_list_plan *plan = &engine_request->plan;
    struct index_query query = {
        .queue = plan->queue,
        .states = plan->states,
        .due_from_ms = plan->due_from_ms,
        .due_to_ms = plan->due_to_ms,
        .prefix = plan->prefix,
        .prefix_size = plan->prefix_size,
        .after = plan->after,
        .count_max = plan->count_max,
    };
    struct index_rows rows;
    const size_t used = engine_request->arena->used;
    struct due through;
    int error = index_list(reader->index, &query, engine_request->arena, &rows, &through);
    if (engine_request_exhausted(engine_request, error)) return;
    if (error != 0) fatal("index_list_failed", error);
    const size_t size = engine_request->arena->used - used;
    count_rows(reader, size);
    engine_request_add_page(engine_request, rows.rows, rows.count, size, through);
}

static void read_page(struct reader *reader, struct page_load *load) {
    const struct core_page *page = &load->page;
    struct index_rows rows;
    int error = index_scan(reader->index, page->queue, page->after_id, page->id_end, page->count_max, EXAMINE_MAX,
                           load->engine_request.arena, &rows, &load->engine_request.event.page.next_id);
    if (error != 0) fatal("index_scan_failed", error);
    load->engine_request.event.page.rows = rows.rows;
    load->engine_request.event.page.row_count = rows.count;
    load->read = true;
}

static void read_request(void *owner, struct engine_request *engine_request) {
    struct reader *reader = owner;
    const bool is_page = engine_request->item.kind == ITEM_PAGE;
    if (!is_page && atomic_load(&reader->rows) >= reader->rows_max)
        engine_request_busy(engine_request);
    else if (engine_request->want_count > 0)
        read_facts(reader, engine_request);
    else if (is_page)
        read_page(reader, (struct page_load *)engine_request);
    else
        read_list(reader, engine_request);
    inbox_post(reader->inbox, &engine_request->item);
}

void reader_start(struct reader *reader, struct index *index, struct inbox *inbox, size_t rows_max) {
    reader->index = index;
    reader->inbox = inbox;
    reader->rows_max = rows_max;
    atomic_init(&reader->rows, 0);
    worker_start(&reader->worker, "tarry-reader", read_request, reader);
}

void reader_post(struct reader *reader, struct engine_request *engine_request) {
    worker_post(&reader->worker, engine_request);
}

void reader_stop(struct reader *reader) {
    worker_stop(&reader->worker);
}
