/* query.c: one task, and a page of them. Counts are in query_stats.c. */
#include "query.h"

#include <stdlib.h>
#include <string.h>

#include "decide.h"
#include "need.h"
#include "push.h"
#include "reply.h"
#include "tasks.h"

#define CURSOR_SIZE 16u

static uint32_t state_bit(const struct core *core, const struct row *row) {
    if (row->state == ROW_LEASED) return STATE_IN_FLIGHT;
    if (row->state == ROW_BURIED) return STATE_DEAD;
    return row->due_ms <= base_ms(core, row->base) ? STATE_READY : STATE_PENDING;
}

static Tarry__TaskView *view_of(struct core *core, const struct row *row, struct arena *arena) {
    Tarry__TaskView *view = must_alloc(arena, sizeof *view);
    tarry__task_view__init(view);
    view->id = row->id;
    view->queue = core->queues[row->queue].name;
    view->key.data = must_copy(arena, row->key, row->key_size);
    view->key.len = row->key_size;
    view->state = (char *)state_bit_name(state_bit(core, row));
    view->due_ms = row->due_ms;
    view->priority = row->priority;
    view->attempt = row->attempt;
    view->deliveries = row->deliveries;
    view->scheduled_ms = row->scheduled_ms;
    view->expires_ms = row->expires_ms;
    view->delivered_ms = row->delivered_ms;
    view->session = row->session;
    view->absolute = row->base == ROW_WALL;
    if (row->state == ROW_LEASED) {
        view->lease_deadline_ms = row->lease_deadline_ms;
        view->token = must_alloc(arena, sizeof *view->token);
        tarry__token__init(view->token);
        view->token->epoch = row->lease_epoch;
        view->token->position = row->lease_position;
    } else if (row->state == ROW_BURIED) {
        char *reason = must_alloc(arena, (size_t)row->reason_size + 1);
        if (row->reason_size) memcpy(reason, row->reason, row->reason_size);
        view->reason = reason;
        view->dead_ms = row->dead_ms;
    }
    return view;
}

static const char *ended_name(Tarry__Outcome outcome) {
    switch (outcome) {
    case TARRY__OUTCOME__ACKED:
        return "acked";
    case TARRY__OUTCOME__ALREADY_CANCELLED:
        return "cancelled";
    case TARRY__OUTCOME__EXPIRED:
        return "expired";
    case TARRY__OUTCOME__DROPPED:
        return "dropped";
    default:
        return "";
    }
}

/* What is still known of a task that has ended. */
static Tarry__TaskView *view_of_ended(struct core *core, const Tarry__Get *get, const Tarry__OpResult *result,
                                      struct arena *arena) {
    Tarry__TaskView *view = must_alloc(arena, sizeof *view);
    tarry__task_view__init(view);
    const struct outcome *outcome = outcomes_by_id(core->outcomes, result->id);
    view->id = result->id;
    if (outcome) {
        view->queue = core->queues[outcome->queue].name;
        view->key.data = must_copy(arena, outcome->key, outcome->key_size);
        view->key.len = outcome->key_size;
        view->priority = outcome->priority;
        view->redacted = outcome->redacted;
    } else {
        view->queue = get->task->queue;
        view->key = get->task->key;
    }
    view->state = (char *)ended_name(result->outcome);
    view->due_ms = result->due_ms;
    view->deliveries = result->deliveries;
    view->session = result->session;
    view->delivered_ms = result->delivered_ms;
    view->ended_ms = result->at_ms;
    return view;
}

static Tarry__Outcome live_outcome(const struct row *row) {
    if (row->state == ROW_LEASED) return TARRY__OUTCOME__IN_FLIGHT;
    return row->state == ROW_BURIED ? TARRY__OUTCOME__DEAD : TARRY__OUTCOME__PENDING;
}

void query_get(struct core *core, const struct core_event *event, struct core_effects *effects) {
    const Tarry__Get *get = event->request->get;
    struct draft draft;
    draft_init(&draft, core, effects->arena, &event->facts, 1);
    Tarry__OpResult result = TARRY__OP_RESULT__INIT;
    struct decision d = {.core = core, .draft = &draft, .effects = effects, .result = &result};
    struct known known;
    enum resolved resolved = resolve(&d, get->task, &known);
    struct need need = {0};
    if (draft.record_count) need_rows(&need, event->facts.rows, event->facts.count);
    if (!need_fits(core, &need, ROOM_ALL)) { /* CAP-1: not even for one more ending */
        reply_refuse(core, effects, event->ticket, TARRY__CODE__BUSY,
                     "memory for tasks is full: try again in a moment");
        return;
    }
    /* It may just have been found to be expired. */
    if (!core->stopping && is_deciding(core)) draft_commit(&draft, NULL, effects);
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_GET;
    reply->get = must_alloc(effects->arena, sizeof *reply->get);
    tarry__task_reply__init(reply->get);
    struct core_reply *out = reply_send(core, effects, event->ticket, reply);
    if (resolved != RESOLVED_ENDED) {
        struct row *row = must_copy(effects->arena, &known.row, sizeof known.row);
        reply->get->outcome = live_outcome(row);
        reply->get->task = view_of(core, row, effects->arena);
        if (get->with_content) out->content = row;
    } else if (result.outcome == TARRY__OUTCOME__UNKNOWN) {
        reply->get->outcome = result.outcome;
        reply->get->known_since_ms = result.known_since_ms;
    } else {
        reply->get->outcome = result.outcome;
        reply->get->task = view_of_ended(core, get, &result, effects->arena);
    }
}

/* ---- lists */

static struct due cursor_decode(const ProtobufCBinaryData *cursor) {
    struct due due = {0};
    if (cursor->len == CURSOR_SIZE) {
        memcpy(&due.due_ms, cursor->data, 8);
        memcpy(&due.id, cursor->data + 8, 8);
    }
    return due;
}

static uint32_t wanted_states(const Tarry__List *list) {
    return list->states ? list->states : STATE_PENDING | STATE_READY | STATE_IN_FLIGHT;
}

uint32_t core_queue_number(const struct core *core, const char *name) {
    const struct queue *queue = queue_find(core, name);
    return queue ? queue->number : 0;
}

uint64_t core_id_end(const struct core *core) {
    return core->tally.next_id;
}

void core_plan_list(const struct core *core, const Tarry__List *list, struct core_list_plan *out) {
    const struct queue *queue = queue_find(core, list->queue);
    uint32_t wanted = wanted_states(list);
    uint32_t limit = list->limit && list->limit < LIST_LIMIT_MAX ? list->limit : LIST_LIMIT_MAX;
    *out = (struct core_list_plan){
        .queue = queue ? queue->number : 0,
        .due_from_ms = list->due_from_ms,
        .due_to_ms = list->due_to_ms ? list->due_to_ms : UINT64_MAX,
        .prefix = (const char *)list->prefix.data,
        .prefix_size = list->prefix.len,
        .after = cursor_decode(&list->cursor),
        .count_max = limit,
    };
    if (wanted & (STATE_PENDING | STATE_READY)) out->states |= 1u << ROW_WAITING;
    if (wanted & STATE_IN_FLIGHT) out->states |= 1u << ROW_LEASED;
    if (wanted & STATE_DEAD) out->states |= 1u << ROW_BURIED;
}

static bool list_matches(const struct core *core, const struct core_list_plan *plan, uint32_t wanted,
                         struct due through, const struct row *row) {
    struct due due = row_due(row);
    if (row->queue != plan->queue || !(wanted & state_bit(core, row))) return false;
    if (row->state == ROW_WAITING && is_expired(core, row)) return false;
    if (!due_before(plan->after, due) || due_before(through, due)) return false;
    if (row->due_ms < plan->due_from_ms || row->due_ms >= plan->due_to_ms) return false;
    return row->key_size >= plan->prefix_size &&
           (!plan->prefix_size || memcmp(row->key, plan->prefix, plan->prefix_size) == 0);
}

static int compare_rows(const void *a, const void *b) {
    struct due x = row_due(*(const struct row *const *)a);
    struct due y = row_due(*(const struct row *const *)b);
    if (due_before(x, y)) return -1;
    return due_before(y, x);
}

struct page {
    const struct row **rows;
    size_t count;
    size_t capacity;
};

static void page_add(struct page *page, struct arena *arena, const struct row *row) {
    const struct row **slot = push_room(arena, (void *)page->rows, &page->count, &page->capacity, sizeof *slot);
    page->rows = slot;
    page->rows[page->count - 1] = row;
}

/* The page that was read, less what memory knows better, plus what the index does not have yet. */
static void merge_page(struct core *core, const struct core_event *event, const struct core_list_plan *plan,
                       struct page *page, struct arena *arena) {
    uint32_t wanted = wanted_states(event->request->list);
    for (size_t i = 0; i < event->row_count; i++) {
        const struct row *row = &event->rows[i];
        if (task_find(core, row->id) && task_find(core, row->id)->dirty) continue;
        if (list_matches(core, plan, wanted, event->through, row)) page_add(page, arena, row);
    }
    const struct task *task = NULL;
    TAILQ_FOREACH(task, &core->overlay, overlay) {
        if (task->place == PLACE_ENDED) continue;
        if (list_matches(core, plan, wanted, event->through, &task->row)) page_add(page, arena, &task->row);
    }
    if (page->count) qsort((void *)page->rows, page->count, sizeof(struct row *), compare_rows);
}

static void set_cursor(Tarry__ListReply *reply, struct due due, struct arena *arena) {
    reply->next.data = must_alloc(arena, CURSOR_SIZE);
    reply->next.len = CURSOR_SIZE;
    memcpy(reply->next.data, &due.due_ms, 8);
    memcpy(reply->next.data + 8, &due.id, 8);
}

void query_list(struct core *core, const struct core_event *event, struct core_effects *effects) {
    struct core_list_plan plan;
    core_plan_list(core, event->request->list, &plan);
    if (!plan.queue) {
        reply_refuse(core, effects, event->ticket, TARRY__CODE__NO_SUCH_QUEUE, "there is no such queue");
        return;
    }
    struct page page = {0};
    merge_page(core, event, &plan, &page, effects->arena);
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_LIST;
    Tarry__ListReply *list = must_alloc(effects->arena, sizeof *list);
    tarry__list_reply__init(list);
    reply->list = list;
    bool is_cut = page.count > plan.count_max;
    size_t count = is_cut ? plan.count_max : page.count;
    list->tasks = must_alloc(effects->arena, count * sizeof(Tarry__TaskView *));
    list->n_tasks = count;
    for (size_t i = 0; i < count; i++) list->tasks[i] = view_of(core, page.rows[i], effects->arena);
    if (is_cut) {
        set_cursor(list, row_due(page.rows[count - 1]), effects->arena);
    } else if (event->through.due_ms != UINT64_MAX) {
        set_cursor(list, event->through, effects->arena);
    }
    reply_send(core, effects, event->ticket, reply);
}
