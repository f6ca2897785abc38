/* asof_list.c: lists the tasks as of an earlier time, by queue and due time, as 'tarry list' would have done then.
 * Tasks whose `expires` time had passed are left out. */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "arena.h"
#include "asof.h"
#include "columns.h"
#include "output.h"
#include "question.h"

#define PAGE_TASKS 1000u
#define PAGE_BYTES (64u << 10)

struct listing {
    struct asof *asof;
    struct text *out;
    struct table table;
    struct arena arena;
    uint64_t count; /* printed */
};

/* Returns a copy in the arena, with a final 0. */
static char *copy(struct arena *arena, const char *text, size_t size) {
    char *out = arena_alloc(arena, size + 1);
    if (out == NULL) tool_out_of_memory();
    if (size > 0) memcpy(out, text, size);
    out[size] = 0;
    return out;
}

/* Returns the row as it was before a lease ahead of time whose delivery had not left. The earlier holder is unknown,
 * because the lease's record does not name it. */
static struct row not_yet_leased(const struct row *row) {
    struct row waiting = *row;
    waiting.attempt--;
    waiting.deliveries--;
    waiting.session = waiting.delivered_ms = waiting.lease_deadline_ms = 0;
    waiting.lease_epoch = 0;
    waiting.lease_position = 0;
    return waiting;
}

static void view_of(struct listing *listing, const struct row *as_recorded, uint32_t state, Tarry__TaskView *out,
                    Tarry__Token *token) {
    const bool is_ahead = as_recorded->state == ROW_LEASED && state != STATE_IN_FLIGHT;
    const struct row waiting = not_yet_leased(as_recorded), *row = is_ahead ? &waiting : as_recorded;
    tarry__task_view__init(out);
    out->id = row->id;
    out->queue = (char *)listing->asof->queues[queue_place(row->queue)].name;
    out->key = (ProtobufCBinaryData){row->key_size, (uint8_t *)as_recorded->key};
    out->state = (char *)state_bit_name(state);
    out->due_ms = row->due_ms;
    out->absolute = row->base == ROW_WALL;
    out->priority = row->priority;
    out->attempt = row->attempt;
    out->deliveries = row->deliveries;
    out->scheduled_ms = row->scheduled_ms;
    out->expires_ms = row->expires_ms;
    out->delivered_ms = row->delivered_ms;
    out->session = row->session;
    if (state == STATE_IN_FLIGHT) {
        tarry__token__init(token);
        token->epoch = row->lease_epoch;
        token->position = row->lease_position;
        out->token = token;
        out->lease_deadline_ms = row->lease_deadline_ms;
    } else if (state == STATE_DEAD) {
        out->dead_ms = row->dead_ms;
        out->reason = copy(&listing->arena, row->reason, row->reason_size);
    }
}

static void say_session(struct text *out, const ProtobufCMessage *message) {
    if (((const Tarry__TaskView *)message)->token != NULL) field_say(out, message, "session");
}

static const struct column columns[] = {
    {">ID", "id", NULL},
    {"QUEUE", "queue", NULL},
    {"KEY", "key", NULL},
    {"STATE", "state", NULL},
    {"DUE", "due_ms", NULL},
    {">PRIORITY", "priority", NULL},
    {">ATTEMPT", "attempt", NULL},
    {">DELIVERIES", "deliveries", NULL},
    {">HELD BY", NULL, say_session},
    {"UNTIL", "lease_deadline_ms", NULL},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static void take(struct listing *listing, const struct row *row) {
    struct asof *asof = listing->asof;
    uint32_t wanted = asof->states != 0 ? asof->states : STATE_PENDING | STATE_READY | STATE_IN_FLIGHT;
    uint32_t state = as_of_state(&asof->moment, row);
    if (listing->count == asof->limit || (wanted & state) == 0) return;
    Tarry__TaskView view;
    Tarry__Token token;
    view_of(listing, row, state, &view, &token);
    listing->count++;
    if (asof->tool->json)
        json_line(listing->out, &view.base, &(struct tarry_source){.follower = false});
    else
        columns_row(&listing->table, columns, COLUMNS, &view.base);
}

static uint32_t row_states(uint32_t wanted) {
    uint32_t states = 0;
    if (wanted == 0) wanted = STATE_PENDING | STATE_READY | STATE_IN_FLIGHT;
    if (wanted & (STATE_PENDING | STATE_READY)) states |= 1u << ROW_WAITING;
    if (wanted & (STATE_IN_FLIGHT | STATE_PENDING))
        states |= 1u << ROW_LEASED; /* tasks leased ahead of time count as pending */
    if (wanted & STATE_DEAD) states |= 1u << ROW_BURIED;
    return states;
}

static int list_queue(struct listing *listing, uint32_t number) {
    struct asof *asof = listing->asof;
    struct index_query query = {
        .queue = number,
        .states = row_states(asof->states),
        .prefix = asof->prefix,
        .prefix_size = asof->prefix != NULL ? strlen(asof->prefix) : 0,
        .count_max = PAGE_TASKS,
    };
    while (query.after.due_ms != UINT64_MAX && listing->count < asof->limit && !output_lost()) {
        struct index_rows rows;
        arena_reset(&listing->arena);
        int error = index_list(asof->moment.index, &query, &listing->arena, &rows, &query.after);
        if (error != 0) return asof_failed(asof, error);
        for (size_t i = 0; i < rows.count; i++) take(listing, &rows.rows[i]);
        if (!asof->tool->json && rows.count > 0) table_print(&listing->table, listing->out);
        if (listing->out->size >= PAGE_BYTES) output_write(listing->out, false);
    }
    return 0;
}

int asof_list(struct asof *asof, struct text *out) {
    struct listing listing = {.asof = asof, .out = out};
    struct text summary = {0};
    int status = 0;
    columns_table(&listing.table, columns, COLUMNS);
    arena_init(&listing.arena, SIZE_MAX);
    for (uint32_t place = 1; place <= QUEUE_PLACES && status == 0; place++)
        if (asof_is_wanted(asof, place)) status = list_queue(&listing, asof->queues[place].number);
    if (status == 0 && !asof->tool->json) {
        asof_words(asof, &summary);
        tool_say("%llu tasks as of %s", (unsigned long long)listing.count, text_str(&summary));
    }
    text_deinit(&summary);
    arena_deinit(&listing.arena);
    table_deinit(&listing.table);
    return status;
}
