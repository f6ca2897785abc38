/* table.c: see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"

void table_begin(struct table *table) {
    flat_init(&table->flat);
    memset(table->chain, 0, sizeof table->chain);
    table->log_start = LOG_POSITION_FIRST;
    table->redaction_count = 0;
}

void table_copy(struct table *to, const struct table *from) {
    flat_copy(&to->flat, &from->flat);
    memcpy(to->chain, from->chain, sizeof to->chain);
    to->log_start = from->log_start;
    to->redaction_count = from->redaction_count;
    memcpy(to->redactions, from->redactions, from->redaction_count * sizeof from->redactions[0]);
}

void table_absorb(struct table *table, const struct frame_header *header, const Tarry__FrameBody *body) {
    flat_apply(&table->flat, header, body);
    memcpy(table->chain, header->chain, sizeof table->chain);
    for (size_t i = 0; body && i < body->n_records; i++) {
        if (body->records[i]->fact_case != TARRY__RECORD__FACT_REDACTION) continue;
        MUST(table->redaction_count < TABLE_REDACTIONS_MAX);
        table->redactions[table->redaction_count++] = body->records[i]->redaction;
    }
}

void table_redactions_done(struct table *table, size_t count) {
    table->redaction_count -= count;
    memmove(table->redactions, table->redactions + count, table->redaction_count * sizeof table->redactions[0]);
}

bool table_is_redacting(const struct table *table, const Tarry__Redaction *redaction) {
    size_t i = 0;
    while (i < table->redaction_count && table->redactions[i] != redaction) i++;
    return i < table->redaction_count;
}

/* ---- retirement */

static void *keep(struct arena *arena, const void *data, size_t size) {
    void *copy = arena_alloc(arena, size);
    MUST(copy);
    memcpy(copy, data, size);
    return copy;
}

bool table_retire(struct table *table, const struct frame_header *header, const Tarry__FrameBody *body,
                  const uint8_t *blob, struct arena *arena) {
    struct flat *flat = &table->flat;
    for (size_t i = 0; i < body->n_records; i++) {
        const Tarry__TaskPut *put = body->records[i]->put;
        if (body->records[i]->fact_case != TARRY__RECORD__FACT_PUT || !put->fresh || !put->task->blob_size) continue;
        struct flat_task *task = &flat->tasks[put->task->id];
        if (task->ended) continue;
        uint64_t offset = put->task->blob_at - frame_blob_position(header->position);
        if (offset > header->blob_size || put->task->blob_size > header->blob_size - offset) return false;
        task->content = keep(arena, blob + offset, put->task->blob_size);
    }
    struct flat_result *result = (struct flat_result *)flat_result(flat, body->producer, body->sequence);
    if (!body->producer || !result) return true;
    ProtobufCBinaryData reply = {.data = keep(arena, body->reply.data, body->reply.len), .len = body->reply.len};
    result->reply = keep(arena, &reply, sizeof reply);
    return true;
}

/* ---- reading */

static void add_row(struct table_rows *rows, const struct row *row, struct arena *arena) {
    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity ? rows->capacity * 2 : 16;
        struct row *grown = arena_alloc(arena, rows->capacity * sizeof *grown);
        MUST(grown);
        if (rows->count) memcpy(grown, rows->rows, rows->count * sizeof *grown);
        rows->rows = grown;
    }
    rows->rows[rows->count++] = *row;
}

static const struct row *row_at(const struct table *table, uint64_t id) {
    const struct flat_task *task = &table->flat.tasks[id];
    return task->ended ? NULL : &task->row;
}

static bool matches(const struct want *want, const struct row *row) {
    return row->queue == want->queue && row->key_size == want->key_size &&
           memcmp(row->key, want->key, want->key_size) == 0;
}

void table_lookup(const struct table *table, const struct want *wants, size_t want_count, struct arena *arena,
                  struct table_rows *out) {
    for (size_t i = 0; i < want_count; i++) {
        if (wants[i].id) {
            const struct row *row = wants[i].id < table->flat.next_id ? row_at(table, wants[i].id) : NULL;
            if (row) add_row(out, row, arena);
            continue;
        }
        for (uint64_t id = 1; id < table->flat.next_id; id++) {
            const struct row *row = row_at(table, id);
            bool is_wanted = row && matches(&wants[i], row) && (row->state != ROW_BURIED || !wants[i].live_only);
            if (is_wanted) add_row(out, row, arena);
        }
    }
}

static int compare_rows(const void *a, const void *b) {
    const struct row *x = a;
    const struct row *y = b;
    if (due_before((struct due){x->due_ms, x->id}, (struct due){y->due_ms, y->id})) return -1;
    return 1;
}

static void sort_rows(struct table_rows *rows) {
    if (rows->count > 1) qsort(rows->rows, rows->count, sizeof *rows->rows, compare_rows);
}

struct due table_window(const struct table *table, const struct core_window *window, struct arena *arena,
                        struct table_rows *out) {
    bool more = false;
    for (uint64_t id = 1; id < table->flat.next_id; id++) {
        const struct row *row = row_at(table, id);
        bool fits = row && row->state == ROW_WAITING && row->queue == window->line.queue &&
                    row->base == window->line.base && row->priority == window->line.priority &&
                    due_before(window->after, (struct due){row->due_ms, row->id});
        if (!fits) continue;
        more |= row->due_ms > window->until_ms;
        if (row->due_ms <= window->until_ms) add_row(out, row, arena);
    }
    sort_rows(out);
    if (out->count > window->count_max) {
        out->count = window->count_max;
        return (struct due){out->rows[out->count - 1].due_ms, out->rows[out->count - 1].id};
    }
    return more ? (struct due){window->until_ms, UINT64_MAX} : DUE_END;
}

uint64_t table_page(const struct table *table, const struct core_page *page, size_t count_max, struct arena *arena,
                    struct table_rows *out) {
    for (uint64_t id = page->after_id + 1; id < page->id_end && id < table->flat.next_id; id++) {
        const struct row *row = row_at(table, id);
        if (!row || row->queue != page->queue) continue;
        add_row(out, row, arena);
        if (out->count == count_max) return id;
    }
    return UINT64_MAX;
}

struct due table_list(const struct table *table, const struct core_list_plan *plan, size_t count_max,
                      struct arena *arena, struct table_rows *out) {
    for (uint64_t id = 1; id < table->flat.next_id; id++) {
        const struct row *row = row_at(table, id);
        bool fits = row && row->queue == plan->queue && (plan->states & 1u << row->state) &&
                    row->due_ms >= plan->due_from_ms && row->due_ms < plan->due_to_ms &&
                    row->key_size >= plan->prefix_size &&
                    (!plan->prefix_size || memcmp(row->key, plan->prefix, plan->prefix_size) == 0) &&
                    due_before(plan->after, (struct due){row->due_ms, row->id});
        if (fits) add_row(out, row, arena);
    }
    sort_rows(out);
    if (count_max > plan->count_max) count_max = plan->count_max;
    if (out->count <= count_max) return DUE_END;
    out->count = count_max;
    return (struct due){out->rows[count_max - 1].due_ms, out->rows[count_max - 1].id};
}
