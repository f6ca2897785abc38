/* engine_request.c: see engine_request.h. */
#include "engine_request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "disk_reserve.h"
#include "requests.h"

void item_receive(struct item *item, struct stall *stall, uint64_t now_ns) {
    uint64_t received_ns = stall_received(stall, now_ns);
    if (item->received_ns != 0) return;
    item->received_ns = received_ns;
    item->late_ns = now_ns - received_ns;
}

/* ---- refusals */

void engine_request_too_large(struct engine_request *engine_request) {
    static const char sentence[] = "the request needs more rows of stored tasks than the broker reads for one request "
                                   "(FACTS_SIZE_MAX, 16 MiB; 1/16 of --memory if that is less): split the request";
    engine_request->refusal = (struct engine_refusal){TARRY__CODE__TOO_LARGE, sentence};
}

bool engine_request_exhausted(struct engine_request *engine_request, int error) {
    if (error != -ENOMEM || engine_request->arena->starved) return false;
    engine_request_too_large(engine_request);
    return true;
}

void engine_request_busy(struct engine_request *engine_request) {
    static const char sentence[] = "the broker reads too many stored tasks for other requests: try again in a moment";
    engine_request->refusal = (struct engine_refusal){TARRY__CODE__BUSY, sentence};
}

static enum engine_request_need refuse_too_large(struct engine_request *engine_request) {
    engine_request_too_large(engine_request);
    return ENGINE_REQUEST_REFUSED;
}

/* ---- data that the core needs */

static bool is_request(const struct engine_request *engine_request, Tarry__Request__BodyCase body_case) {
    return engine_request->item.kind == ITEM_CALL && engine_request->event.request.message->body_case == body_case;
}

/* Requests the tasks to redact. They may have ended long ago, so the shell first finds out where their contents are. */
static enum engine_request_need ask_past(struct engine_request *engine_request, const struct core *core) {
    const Tarry__Commit *commit = engine_request->event.request.message->commit;
    engine_request->queue_numbers =
        arena_alloc(engine_request->arena, commit->n_ops * sizeof(*engine_request->queue_numbers));
    if (engine_request->queue_numbers == NULL) return refuse_too_large(engine_request);
    for (size_t i = 0; i < commit->n_ops; i++) {
        const Tarry__Op *op = commit->ops[i];
        bool has_queue = op->op_case == TARRY__OP__OP_REDACT && op->redact->task != NULL;
        engine_request->queue_numbers[i] = has_queue ? core_queue_number(core, op->redact->task->queue) : 0;
    }
    engine_request->past_end = core_position(core);
    engine_request->past_id_end = core_id_end(core);
    return ENGINE_REQUEST_PAST;
}

static enum engine_request_need ask_index(struct engine_request *engine_request, struct core *core) {
    if (engine_request->hold < 0) {
        engine_request->hold = core_hold(core);
        if (engine_request->hold < 0 && engine_request->item.kind == ITEM_PAGE) return ENGINE_REQUEST_HOLD;
        if (engine_request->hold < 0) engine_request_busy(engine_request);
        if (engine_request->hold < 0) return ENGINE_REQUEST_REFUSED;
    }
    return ENGINE_REQUEST_READ;
}

/* Requests the counts of a calendar. The counts come from the index only, so the index must first absorb everything
 * that was recorded. No hold is needed, because no data in memory is combined with the counts. */
static enum engine_request_need ask_count(struct engine_request *engine_request, const struct core *core) {
    if (!core_plan_calendar(core, &engine_request->event.request, engine_request->arena, &engine_request->calendar))
        return refuse_too_large(engine_request);
    engine_request->past_end = core_position(core);
    if (engine_request->calendar.of_all || engine_request->calendar.queue_count > 0) return ENGINE_REQUEST_COUNT;
    engine_request->calendar.position = engine_request->past_end; /* there is no queue to count, so nothing is read */
    engine_request_counted(engine_request);
    return ENGINE_REQUEST_NONE;
}

void engine_request_counted(struct engine_request *engine_request) {
    engine_request->event.request.calendar = &engine_request->calendar;
}

/* Returns true if the result page has free rows and the index may contain more matching rows. */
static bool reads_on(struct engine_request *engine_request, struct core *core) {
    if (engine_request->reads == 0 || engine_request->reads == LIST_READS_MAX) return false;
    if (!core_list_goes_on(core, &engine_request->event.request, &engine_request->plan)) return false;
    core_look_end(core, &engine_request->event);
    engine_request->filled = false;
    return true;
}

enum engine_request_need engine_request_next(struct engine_request *engine_request, struct core *core,
                                             const struct core_filter *filter) {
    if (engine_request->refusal.code != TARRY__CODE__OK) return ENGINE_REQUEST_REFUSED;
    /* F-4: before anything is read, new tasks are refused if the disk is full. */
    bool asks_room = engine_request->schedules && !engine_request->room_asked;
    engine_request->room_asked = asks_room;
    if (asks_room) {
        engine_request->room =
            disk_commit_size(engine_request->size, engine_request->event.request.message->commit->n_ops);
        return ENGINE_REQUEST_ROOM;
    }
    if (engine_request->redacts && engine_request->event.request.commit.past == NULL)
        return ask_past(engine_request, core);
    if (is_request(engine_request, TARRY__REQUEST__BODY_CALENDAR) && engine_request->event.request.calendar == NULL)
        return ask_count(engine_request, core);
    const bool is_list = is_request(engine_request, TARRY__REQUEST__BODY_LIST);
    if (is_list && !engine_request->filled) {
        if (engine_request->reads == 0)
            core_plan_list(core, engine_request->event.request.message->list, &engine_request->plan);
        return engine_request->plan.queue == 0 ? ENGINE_REQUEST_NONE : ask_index(engine_request, core);
    }
    engine_request->want_count =
        is_list ? 0 : core_wants(core, &engine_request->event, engine_request->arena, filter, &engine_request->wants);
    if (engine_request->want_count == WANTS_NO_MEMORY) return refuse_too_large(engine_request);
    if (engine_request->want_count > 0) return ask_index(engine_request, core);
    if (!core_look(core, &engine_request->event)) return ENGINE_REQUEST_TIME;
    return is_list && reads_on(engine_request, core) ? ask_index(engine_request, core) : ENGINE_REQUEST_NONE;
}

/* Joins the known items and the items just read. Returns NULL if the arena is exhausted. */
static const void *joined(struct arena *arena, const void *old, size_t old_count, const void *new, size_t new_count,
                          size_t size) {
    if (old_count == 0) return new;
    uint8_t *all = arena_alloc(arena, (old_count + new_count) * size);
    if (all == NULL) return NULL;
    memcpy(all, old, old_count * size);
    if (new_count > 0) memcpy(all + old_count * size, new, new_count * size);
    return all;
}

void engine_request_add_rows(struct engine_request *engine_request, const struct row *rows, size_t count, size_t size) {
    struct core_facts *facts = core_facts_of(&engine_request->event);
    const struct row *all_rows = joined(engine_request->arena, facts->rows, facts->count, rows, count, sizeof(*rows));
    const struct want *all_wants = joined(engine_request->arena, facts->wants, facts->want_count, engine_request->wants,
                                          engine_request->want_count, sizeof(*engine_request->wants));
    engine_request->facts_size += size;
    if ((all_rows == NULL && facts->count + count > 0) || all_wants == NULL) {
        engine_request_too_large(engine_request);
        return;
    }
    facts->rows = all_rows;
    facts->count += count;
    facts->wants = all_wants;
    facts->want_count += engine_request->want_count;
    engine_request->want_count = 0;
}

void engine_request_add_page(struct engine_request *engine_request, const struct row *rows, size_t count, size_t size,
                             struct due through) {
    struct core_request *request = &engine_request->event.request;
    const struct row *all =
        joined(engine_request->arena, request->list.rows, request->list.row_count, rows, count, sizeof(*rows));
    engine_request->facts_size += size;
    engine_request->reads++;
    engine_request->filled = true;
    if (all == NULL && request->list.row_count + count > 0) {
        engine_request_too_large(engine_request);
        return;
    }
    request->list.rows = all;
    request->list.row_count += count;
    request->list.through = through;
}

size_t engine_request_room(const struct engine_request *engine_request, size_t size_max) {
    return size_max > engine_request->facts_size ? size_max - engine_request->facts_size : 0;
}

void engine_request_end(struct engine_request *engine_request, struct core *core) {
    core_look_end(core, &engine_request->event);
    if (engine_request->hold >= 0) core_unhold(core, engine_request->hold);
    engine_request->hold = -1;
    engine_request->room_asked = false;
}

bool engine_request_looks(const struct engine_request *engine_request) {
    return engine_request->item.kind == ITEM_CALL && request_is_question(engine_request->event.request.message);
}

/* ---- windows */

bool window_next(struct window_rows *window, size_t max, struct core_event *out) {
    assert(max > 0);
    const size_t left = window->count - window->taken;
    const bool more = left > max;
    *out = (struct core_event){
        .kind = CORE_WINDOW,
        .window = {.rows = window->rows + window->taken,
                   .row_count = more ? max : left,
                   .through = window->through,
                   .line = window->line,
                   .more = more},
    };
    struct core_loaded *piece = &out->window;
    if (more) {
        const struct row *last = &piece->rows[piece->row_count - 1];
        piece->through = (struct due){last->due_ms, last->id};
    }
    window->taken += piece->row_count;
    return more;
}
