/* reader.c: see reader.h. */
#include "reader.h"

#include <errno.h>

#include "fatal.h"
#include "inbox.h"
#include "index.h"

/* Rows that a page of a job may look at, of any queue, before it comes back. */
#define EXAMINE_MAX 65536

static void read_facts(struct reader *reader, struct errand *errand) {
    struct index_rows rows;
    int error = index_lookup(reader->index, errand->wants, errand->want_count, errand->arena, &rows);
    if (error != 0) fatal("index_lookup_failed", error);
    if (!errand_add_rows(errand, rows.rows, rows.count)) fatal("facts_failed", -ENOMEM);
}

static void read_list(struct reader *reader, struct errand *errand) {
    const struct core_list_plan *plan = &errand->plan;
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
    int error = index_list(reader->index, &query, errand->arena, &rows, &errand->event.through);
    if (error != 0) fatal("index_list_failed", error);
    errand->event.rows = rows.rows;
    errand->event.row_count = rows.count;
    errand->filled = true;
}

static void read_page(struct reader *reader, struct page_load *load) {
    const struct core_page *page = &load->page;
    struct index_rows rows;
    int error = index_scan(reader->index, page->queue, page->after_id, page->id_end, page->count_max, EXAMINE_MAX,
                           load->errand.arena, &rows, &load->errand.event.next_id);
    if (error != 0) fatal("index_scan_failed", error);
    load->errand.event.rows = rows.rows;
    load->errand.event.row_count = rows.count;
    load->read = true;
}

static void read_errand(void *owner, struct errand *errand) {
    struct reader *reader = owner;
    if (errand->want_count > 0)
        read_facts(reader, errand);
    else if (errand->item.kind == ITEM_PAGE)
        read_page(reader, (struct page_load *)errand);
    else
        read_list(reader, errand);
    inbox_post(reader->inbox, &errand->item);
}

void reader_start(struct reader *reader, struct index *index, struct inbox *inbox) {
    reader->index = index;
    reader->inbox = inbox;
    worker_start(&reader->worker, "tarry-reader", read_errand, reader);
}

void reader_post(struct reader *reader, struct errand *errand) {
    worker_post(&reader->worker, errand);
}

void reader_stop(struct reader *reader) {
    worker_stop(&reader->worker);
}
