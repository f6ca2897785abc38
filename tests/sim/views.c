/* views.c: see views.h. */
#include "views.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "world.h"

enum { WAITING, IN_FLIGHT, DEAD };

static uint64_t base_ms(struct world *world, const struct row *row) {
    struct instant now = host_answers_at(world);
    return (row->base == ROW_WALL ? now.wall_ns : now.steady_ns) / NS_PER_MS;
}

static uint32_t state_of(struct world *world, const struct row *row) {
    if (row->state == ROW_LEASED && !host_holds_back(world, row)) return STATE_IN_FLIGHT;
    if (row->state == ROW_BURIED) return STATE_DEAD;
    return row->due_ms <= base_ms(world, row) ? STATE_READY : STATE_PENDING;
}

static bool has_expired(struct world *world, const struct row *row) {
    return row->state == ROW_WAITING && row_expires_at(row) <= base_ms(world, row);
}

/* ---- expected contents */

static bool fits(struct world *world, const Tarry__List *list, uint32_t queue, const struct row *row) {
    uint32_t states = list->states ? list->states : STATE_PENDING | STATE_READY | STATE_IN_FLIGHT;
    if (row->queue != queue || !(states & state_of(world, row)) || has_expired(world, row)) return false;
    if (row->due_ms < list->due_from_ms || (list->due_to_ms && row->due_ms >= list->due_to_ms)) return false;
    return row->key_size >= list->prefix.len &&
           (!list->prefix.len || memcmp(row->key, list->prefix.data, list->prefix.len) == 0);
}

static int compare_views(const void *a, const void *b) {
    const struct view *x = a;
    const struct view *y = b;
    return due_before(x->due, y->due) ? -1 : due_before(y->due, x->due);
}

static void expect_list(struct world *world, const Tarry__List *list, struct views *out) {
    const struct flat *head = &world->host->head;
    uint32_t queue = flat_queue_number(head, list->queue);
    out->tasks = world_alloc(world, head->next_id * sizeof *out->tasks);
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct row *row = &head->tasks[id].row;
        if (head->tasks[id].ended || !fits(world, list, queue, row)) continue;
        out->tasks[out->count++] = (struct view){{row->due_ms, row->id}, state_of(world, row)};
    }
    if (out->count > 1) qsort(out->tasks, out->count, sizeof *out->tasks, compare_views);
}

static void expect_counts(struct world *world, struct views *out) {
    const struct flat *head = &world->host->head;
    out->queues = world_alloc(world, FLAT_QUEUES_MAX * sizeof *out->queues);
    out->live = head->live;
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct row *row = &head->tasks[id].row;
        if (head->tasks[id].ended) continue;
        bool waits = row->state == ROW_WAITING || host_holds_back(world, row);
        out->queues[queue_place(row->queue)][waits ? WAITING : row->state == ROW_LEASED ? IN_FLIGHT : DEAD]++;
    }
}

struct views *views_expect(struct world *world, const Tarry__Request *request) {
    bool is_list = request->body_case == TARRY__REQUEST__BODY_LIST;
    bool is_count =
        request->body_case == TARRY__REQUEST__BODY_QUEUES || request->body_case == TARRY__REQUEST__BODY_STATS;
    if (!is_list && !is_count) return NULL;
    struct views *views = world_alloc(world, sizeof *views);
    if (is_list) expect_list(world, request->list, views);
    if (is_count) expect_counts(world, views);
    return views;
}

/* ---- contents of the reply */

static uint32_t state_named(const char *name) {
    static const char *const names[] = {"pending", "ready", "in_flight", "dead"};
    for (uint32_t i = 0; i < 4; i++) {
        if (strcmp(names[i], name) == 0) return 1u << i;
    }
    MUST(!"a state that nobody knows");
    return 0;
}

/* Checks a result page: every task in it is expected, the tasks are in order, and none is missing before the page's
 * end. */
static void check_list(const struct views *views, const Tarry__ListReply *reply) {
    struct due through = DUE_END;
    if (reply->next.len) {
        MUST(reply->next.len == sizeof through);
        memcpy(&through.due_ms, reply->next.data, sizeof through.due_ms);
        memcpy(&through.id, reply->next.data + sizeof through.due_ms, sizeof through.id);
    }
    size_t listed = 0;
    for (size_t i = 0; i < views->count && !due_before(through, views->tasks[i].due); i++, listed++) {
        MUST(listed < reply->n_tasks);
        const Tarry__TaskView *task = reply->tasks[listed];
        MUST(task->id == views->tasks[i].due.id && task->due_ms == views->tasks[i].due.due_ms);
        MUST(state_named(task->state) == views->tasks[i].state);
    }
    MUST(listed == reply->n_tasks);
}

static void check_queues(const struct world *world, const struct views *views, const Tarry__QueuesReply *reply) {
    for (size_t i = 0; i < reply->n_queues; i++) {
        const Tarry__QueueView *queue = reply->queues[i];
        const uint64_t *counts = views->queues[queue_place(flat_queue_number(&world->host->head, queue->name))];
        MUST(queue->pending == counts[WAITING] && queue->in_flight == counts[IN_FLIGHT] && queue->dead == counts[DEAD]);
    }
}

static void check_stats(const struct world *world, const struct views *views, const Tarry__StatsReply *reply) {
    for (size_t i = 0; i < reply->n_queues; i++) {
        const Tarry__QueueStats *queue = reply->queues[i];
        const uint64_t *counts = views->queues[queue_place(flat_queue_number(&world->host->head, queue->name))];
        MUST(queue->pending + queue->ready == counts[WAITING]);
        MUST(queue->in_flight == counts[IN_FLIGHT] && queue->dead == counts[DEAD]);
    }
    const Tarry__BrokerStats *broker = reply->broker;
    MUST(broker->live == views->live && broker->core_bytes <= broker->core_bytes_max); /* CALM-1 */
    MUST(broker->durable <= broker->appended && broker->indexed <= broker->durable);   /* LOG-3 */
}

void views_check(const struct world *world, const struct views *views, const Tarry__Request *request,
                 const Tarry__Reply *reply) {
    if (reply->code != TARRY__CODE__OK) {
        MUST(request->body_case == TARRY__REQUEST__BODY_LIST && reply->code == TARRY__CODE__NO_SUCH_QUEUE);
        MUST(!flat_has_queue(&world->host->head, request->list->queue));
        return;
    }
    if (reply->body_case == TARRY__REPLY__BODY_LIST) check_list(views, reply->list);
    if (reply->body_case == TARRY__REPLY__BODY_QUEUES) check_queues(world, views, reply->queues);
    if (reply->body_case == TARRY__REPLY__BODY_STATS) check_stats(world, views, reply->stats);
}
