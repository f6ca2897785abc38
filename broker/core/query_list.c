/* query_list.c: a result page of tasks in order of (due, id). The page consists of rows read from the index, and of
 * tasks in memory that the index does not have yet. If memory has a newer state of a task, the row from the index is
 * not used.
 *
 * The tasks that the index does not have are in the overlay, which may be long. So the overlay is scanned in pieces
 * before the step (core_look). The scan keeps the earliest matching tasks, as many as the page has space for. A task
 * that changes during the scan moves to the end of the overlay, which the scan does not reach. So list_saw offers such
 * a task to the scan at once.
 *
 * The page shows the state at the step, so each candidate is checked again in the step. A candidate that no longer
 * matches may have displaced another task, and a trimmed task is only in the index. In these cases the page is shorter.
 * Each page says up to which (due, id) it is complete.
 *
 * Rows from the index may not match, because the index knows neither expiry nor the time. While the page has space and
 * the index has more, the shell continues to read (core_list_goes_on), at most LIST_READS_MAX times. */
#include <stdlib.h>
#include <string.h>

#include "effects.h"
#include "query.h"
#include "queues.h"
#include "tasks.h"

#define CURSOR_SIZE 16u

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

void core_plan_list(const struct core *core, const Tarry__List *list, struct core_list_plan *out) {
    const struct queue *queue = queue_find_live(core, list->queue);
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
    /* A task that was leased ahead of time counts as pending and stays in the overlay until it is due (near_trim). The
     * scan of the overlay finds it, so leased rows are not read from the index for pending tasks. */
    if (wanted & (STATE_PENDING | STATE_READY)) out->states |= 1u << ROW_WAITING;
    if (wanted & STATE_IN_FLIGHT) out->states |= 1u << ROW_LEASED;
    if (wanted & STATE_DEAD) out->states |= 1u << ROW_BURIED;
    uint64_t steady = steady_ms(core), wall = base_ms(core, ROW_WALL), pending_ms = (steady < wall ? steady : wall) + 1;
    if (wanted == STATE_PENDING && out->due_from_ms < pending_ms) out->due_from_ms = pending_ms;
}

static bool matches(const struct core *core, const struct list_scan *scan, uint32_t wanted, const struct row *row) {
    const struct core_list_plan *plan = &scan->plan;
    struct due due = row_due(row);
    if (row->queue != plan->queue || !(wanted & query_state_bit(core, row))) return false;
    if (row->state == ROW_WAITING && is_expired(core, row)) return false;
    if (!due_before(plan->after, due) || due_before(scan->through, due)) return false;
    if (row->due_ms < plan->due_from_ms || row->due_ms >= plan->due_to_ms) return false;
    return row->key_size >= plan->prefix_size &&
           (!plan->prefix_size || memcmp(row->key, plan->prefix, plan->prefix_size) == 0);
}

/* ---- the earliest candidates so far: a heap with the latest on top */

static void sift_up(struct list_candidate *heap, size_t at) {
    while (at > 0 && due_before(heap[(at - 1) / 2].due, heap[at].due)) {
        struct list_candidate parent = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = heap[at];
        heap[at] = parent;
        at = (at - 1) / 2;
    }
}

static void sift_down(struct list_candidate *heap, size_t count) {
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && due_before(heap[child].due, heap[child + 1].due)) child++;
        if (!due_before(heap[at].due, heap[child].due)) return;
        struct list_candidate last = heap[at];
        heap[at] = heap[child];
        heap[child] = last;
    }
}

/* Offers a task to the scan. `read`: row from the index; NULL: the task is in memory. */
static void offer(const struct core *core, struct list_scan *scan, const struct row *row, const struct row *read) {
    /* Time alone may make a pending task ready before the step, so a pending task is also a candidate for ready
     * tasks. */
    uint32_t wanted = scan->wanted | (scan->wanted & STATE_READY ? STATE_PENDING : 0);
    if (!matches(core, scan, wanted, row)) return;
    struct list_candidate candidate = {.due = row_due(row), .read = read};
    if (scan->count < scan->plan.count_max) {
        scan->heap[scan->count] = candidate;
        sift_up(scan->heap, scan->count++);
        return;
    }
    scan->is_cut = true;
    if (!due_before(candidate.due, scan->heap[0].due)) return;
    scan->heap[0] = candidate;
    sift_down(scan->heap, scan->count);
}

/* ---- scan of the overlay */

/* Begins a scan. Returns NULL if LIST_SCANS_MAX scans are active. */
static struct list_scan *scan_begin(struct core *core, const struct core_request *request) {
    struct list_scan *scan = core->scans;
    while (scan < core->scans + LIST_SCANS_MAX && scan->is_used) scan++;
    if (scan == core->scans + LIST_SCANS_MAX) return NULL;
    struct list_candidate *heap = scan->heap;
    *scan = (struct list_scan){.is_used = true, .heap = heap, .through = request->list.through, .end = core->position};
    scan->wanted = wanted_states(request->message->list);
    core_plan_list(core, request->message->list, &scan->plan);
    scan->next = TAILQ_FIRST(&core->overlay);
    core->scan_count++;
    for (size_t i = 0; i < request->list.row_count; i++) {
        const struct task *task = task_find(core, request->list.rows[i].id);
        if (!task || !task->dirty) offer(core, scan, &request->list.rows[i], &request->list.rows[i]);
    }
    return scan;
}

static void scan_end(struct core *core, struct list_scan *scan) {
    assert(scan->is_used);
    scan->is_used = false;
    core->scan_count--;
}

/* Scans one piece of the overlay. Returns true if the scan is complete. */
static bool scan_piece(const struct core *core, struct list_scan *scan, uint64_t count_max) {
    for (uint64_t i = 0; scan->next && scan->next->changed < scan->end; i++) {
        if (i == count_max) return false;
        const struct task *task = scan->next;
        scan->next = TAILQ_NEXT(task, overlay);
        if (task->place != PLACE_ENDED) offer(core, scan, &task->row, NULL);
    }
    scan->next = NULL;
    return true;
}

void list_saw(struct core *core, const struct task *task) {
    if (task->place == PLACE_ENDED) return;
    for (size_t i = 0; i < LIST_SCANS_MAX; i++)
        if (core->scans[i].is_used) offer(core, &core->scans[i], &task->row, NULL);
}

void list_passes(struct core *core, const struct task *task) {
    for (size_t i = 0; i < LIST_SCANS_MAX; i++) {
        struct list_scan *scan = &core->scans[i];
        if (scan->is_used && scan->next == task) scan->next = TAILQ_NEXT(task, overlay);
    }
}

void list_trims(struct core *core, const struct task *task) {
    for (size_t i = 0; i < LIST_SCANS_MAX; i++) {
        struct list_scan *scan = &core->scans[i];
        if (!scan->is_used || scan->next != task) continue;
        scan->next = TAILQ_NEXT(task, overlay);
        if (task->place != PLACE_ENDED && task->changed < scan->end) offer(core, scan, &task->row, NULL);
    }
}

bool list_look(struct core *core, struct core_request *request) {
    if (!request->look) {
        const struct list_scan *begun = scan_begin(core, request);
        if (!begun) return false;
        request->look = 1 + (uint32_t)(begun - core->scans);
    }
    return scan_piece(core, &core->scans[request->look - 1], per_step(core, LIST_PER_PIECE_MAX));
}

void list_look_end(struct core *core, const struct core_request *request) {
    scan_end(core, &core->scans[request->look - 1]);
}

/* ---- the result page */

static int compare_candidates(const void *a, const void *b) {
    const struct list_candidate *x = a, *y = b;
    if (due_before(x->due, y->due)) return -1;
    return due_before(y->due, x->due);
}

/* Returns the task's current row if it still matches the candidate; otherwise NULL. */
static const struct row *still(const struct core *core, const struct list_scan *scan,
                               const struct list_candidate *candidate) {
    const struct task *task = task_find(core, candidate->due.id);
    if (task && task->place == PLACE_ENDED) return NULL;
    const struct row *row = task ? &task->row : candidate->read;
    assert(row); /* is_in_reach has checked that the row exists */
    struct due due = row_due(row);
    bool is_same = !due_before(due, candidate->due) && !due_before(candidate->due, due);
    return is_same && matches(core, scan, scan->wanted, row) ? row : NULL;
}

/* Returns false if the candidate came from the overlay and has left memory since. The List has no row of it from the
 * index, because the task was in memory when the index was read. The List's hold (core_hold) does not keep such a task,
 * because the index had absorbed the task before the hold. */
static bool is_in_reach(const struct core *core, const struct list_candidate *candidate) {
    return candidate->read || task_find(core, candidate->due.id);
}

/* Returns the (due, id) up to which the page is complete. */
static struct due reach_of(const struct list_scan *scan) {
    return scan->is_cut ? scan->heap[0].due : scan->through;
}

/* Returns true if no wanted task can be due after `reach`. Only pending tasks are due later than now. A task in flight
 * or a dead letter was due when it was leased; two nodes' clocks and leases ahead of time make a difference of at most
 * LIST_CLOCKS_MAX_MS. The exception is a queue with lease_before_due, in which a task may be leased and become a dead
 * letter at any time before it is due. */
static bool is_past_all(const struct core *core, const struct list_scan *scan, struct due reach) {
    uint64_t steady = steady_ms(core), wall = base_ms(core, ROW_WALL), now_ms = steady > wall ? steady : wall;
    uint64_t margin_ms = scan->wanted == STATE_READY ? 0 : LIST_CLOCKS_MAX_MS;
    if (scan->wanted != STATE_READY && queue_at(core, scan->plan.queue)->policy.lease_before_due) return false;
    return !(scan->wanted & STATE_PENDING) && reach.due_ms > now_ms + margin_ms;
}

bool core_list_goes_on(const struct core *core, const struct core_request *request, struct core_list_plan *out) {
    const struct list_scan *scan = &core->scans[request->look - 1];
    bool has_room = scan->count < scan->plan.count_max && scan->through.due_ms != UINT64_MAX;
    if (!has_room || is_past_all(core, scan, scan->through)) return false;
    size_t count_max = request->list.row_count > 0 ? 4 * request->list.row_count : LIST_LIMIT_MAX;
    *out = scan->plan;
    out->after = scan->through;
    out->count_max = count_max < LIST_LIMIT_MAX ? count_max : LIST_LIMIT_MAX;
    return true;
}

static void set_cursor(Tarry__ListReply *reply, struct due due, struct arena *arena) {
    reply->next.data = must_alloc(arena, CURSOR_SIZE);
    reply->next.len = CURSOR_SIZE;
    memcpy(reply->next.data, &due.due_ms, 8);
    memcpy(reply->next.data + 8, &due.id, 8);
}

static Tarry__ListReply *make_page(struct core *core, struct list_scan *scan, struct arena *arena) {
    Tarry__ListReply *list = must_alloc(arena, sizeof *list);
    tarry__list_reply__init(list);
    const struct due reach = reach_of(scan);
    if (scan->count) qsort(scan->heap, scan->count, sizeof *scan->heap, compare_candidates);
    list->tasks = must_alloc(arena, scan->count * sizeof(Tarry__TaskView *));
    for (size_t i = 0; i < scan->count; i++) {
        const struct list_candidate *candidate = &scan->heap[i];
        if (!is_in_reach(core, candidate)) { /* the next page will read the candidate from the index */
            set_cursor(list, (struct due){candidate->due.due_ms, candidate->due.id - 1}, arena);
            return list;
        }
        /* True if the task changed and was offered twice. */
        bool is_twice = i > 0 && compare_candidates(candidate - 1, candidate) == 0;
        const struct row *row = is_twice ? NULL : still(core, scan, candidate);
        if (row) list->tasks[list->n_tasks++] = query_view(core, row, arena);
    }
    if (reach.due_ms != UINT64_MAX && !is_past_all(core, scan, reach)) set_cursor(list, reach, arena);
    return list;
}

void query_list(struct core *core, const struct core_request *request, struct core_effects *effects) {
    if (!queue_find_live(core, request->message->list->queue)) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__NO_SUCH_QUEUE, "the queue does not exist");
        return;
    }
    struct list_scan *scan = request->look ? &core->scans[request->look - 1] : scan_begin(core, request);
    assert(scan); /* a free scan exists: a caller that does not use core_look has only one scan at a time */
    bool is_all = scan_piece(core, scan, UINT64_MAX);
    assert(is_all);
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_LIST;
    reply->list = make_page(core, scan, effects->arena);
    if (!request->look) scan_end(core, scan);
    reply_send(core, effects, request->ticket, reply);
}
