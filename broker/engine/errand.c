/* errand.c: see errand.h. */
#include "errand.h"

#include <assert.h>
#include <string.h>

#include "disk_reserve.h"
#include "seeded_bug.h"

void item_receive(struct item *item, struct stall *stall, uint64_t now_ns) {
    uint64_t received_ns = stall_received(stall, now_ns);
    if (item->received_ns != 0) return;
    item->received_ns = received_ns;
    item->late_ns = now_ns - received_ns;
}

/* ---- what the core must know */

/* What is redacted may have ended long ago: where it lies is looked for first. */
static enum errand_need ask_past(struct errand *errand, const struct core *core) {
    const Tarry__Commit *commit = errand->event.request->commit;
    errand->queue_numbers = arena_alloc(errand->arena, commit->n_ops * sizeof(*errand->queue_numbers));
    if (errand->queue_numbers == NULL) return ERRAND_NO_MEMORY;
    for (size_t i = 0; i < commit->n_ops; i++) {
        const Tarry__Op *op = commit->ops[i];
        bool has_queue = op->op_case == TARRY__OP__OP_REDACT && op->redact->task != NULL;
        errand->queue_numbers[i] = has_queue ? core_queue_number(core, op->redact->task->queue) : 0;
    }
    errand->past_end = core_position(core);
    errand->past_id_end = core_id_end(core);
    return ERRAND_PAST;
}

static enum errand_need ask_index(struct errand *errand, struct core *core) {
    if (errand->hold < 0 && !SEEDED_BUG(read_without_hold)) {
        errand->hold = core_hold(core);
        if (errand->hold < 0) return errand->item.kind == ITEM_PAGE ? ERRAND_HOLD : ERRAND_REFUSED;
    }
    return ERRAND_READ;
}

/* Nothing that memory knows is added: so the index must have it first, and no hold is needed. */
static enum errand_need ask_count(struct errand *errand, const struct core *core) {
    if (!core_plan_calendar(core, &errand->event, errand->arena, &errand->calendar)) return ERRAND_NO_MEMORY;
    errand->past_end = core_position(core);
    if (errand->calendar.of_all || errand->calendar.queue_count > 0) return ERRAND_COUNT;
    errand->calendar.position = errand->past_end; /* nothing is asked about, and there is nothing to read */
    errand_counted(errand);
    return ERRAND_NONE;
}

void errand_counted(struct errand *errand) {
    errand->event.calendar = &errand->calendar;
}

enum errand_need errand_next(struct errand *errand, struct core *core, core_may_exist *may_exist, const void *filter) {
    bool asks_room = errand->schedules && !errand->room_asked; /* F-4: new tasks are what is refused first */
    errand->room_asked = asks_room;
    if (asks_room) {
        errand->room = disk_commit_size(errand->size, errand->event.request->commit->n_ops);
        return ERRAND_ROOM;
    }
    if (errand->redacts && errand->event.past == NULL) return ask_past(errand, core);
    if (errand->event.kind == CORE_CALENDAR && errand->event.calendar == NULL) return ask_count(errand, core);
    const bool is_list = errand->event.kind == CORE_LIST;
    if (is_list && !errand->filled) {
        core_plan_list(core, errand->event.request->list, &errand->plan);
        return errand->plan.queue == 0 ? ERRAND_NONE : ask_index(errand, core);
    }
    errand->want_count =
        is_list ? 0 : core_wants(core, &errand->event, errand->arena, may_exist, filter, &errand->wants);
    if (errand->want_count > 0 && !SEEDED_BUG(stepped_without_facts)) return ask_index(errand, core);
    return core_look(core, &errand->event) ? ERRAND_NONE : ERRAND_TIME;
}

/* What was known already and what was read now, one after the other. */
static void *joined(struct arena *arena, const void *old, size_t old_count, const void *new, size_t new_count,
                    size_t size) {
    uint8_t *all = arena_alloc(arena, (old_count + new_count) * size);
    if (all == NULL) return NULL;
    if (old_count > 0) memcpy(all, old, old_count * size);
    if (new_count > 0) memcpy(all + old_count * size, new, new_count * size);
    return all;
}

bool errand_add_rows(struct errand *errand, const struct row *rows, size_t count) {
    struct core_facts *facts = &errand->event.facts;
    const struct row *all_rows = joined(errand->arena, facts->rows, facts->count, rows, count, sizeof(*rows));
    const struct want *all_wants = joined(errand->arena, facts->wants, facts->want_count, errand->wants,
                                          errand->want_count, sizeof(*errand->wants));
    if (all_rows == NULL || all_wants == NULL) return false;
    facts->rows = all_rows;
    facts->count += count;
    facts->wants = all_wants;
    facts->want_count += errand->want_count;
    errand->want_count = 0;
    return true;
}

void errand_end(struct errand *errand, struct core *core) {
    core_look_end(core, &errand->event);
    if (errand->hold >= 0 && !SEEDED_BUG(hold_kept)) core_unhold(core, errand->hold);
    errand->hold = -1;
    errand->room_asked = false;
}

bool errand_looks(const struct errand *errand) {
    switch (errand->event.kind) {
    case CORE_GET:
    case CORE_LIST:
    case CORE_QUEUES:
    case CORE_STATS:
    case CORE_CALENDAR:
        return true;
    default:
        return false;
    }
}

/* ---- windows */

bool window_next(struct window_rows *window, size_t max, struct core_event *out) {
    assert(max > 0);
    const size_t left = window->count - window->taken;
    const bool more = left > max;
    *out = (struct core_event){
        .kind = CORE_WINDOW,
        .rows = window->rows + window->taken,
        .row_count = more ? max : left,
        .through = window->through,
        .line = window->line,
        .more = more,
    };
    if (more && !SEEDED_BUG(window_piece_reaches_all)) {
        const struct row *last = &out->rows[out->row_count - 1];
        out->through = (struct due){last->due_ms, last->id};
    }
    window->taken += out->row_count;
    return more;
}
