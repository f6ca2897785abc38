/* query_stats.c: queues, counts and quantiles. */
#include <string.h>

#include "jobs.h"
#include "near.h"
#include "push.h"
#include "query.h"
#include "queues.h"
#include "reply.h"

static uint64_t waiting_of(const struct core *core, const struct queue *queue) {
    const struct queue_tally *tally = &core->tally.queues[queue->number];
    uint64_t waiting = 0;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++) {
        waiting += tally->waiting[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
    }
    return waiting;
}

void query_queues(struct core *core, const struct core_event *event, struct core_effects *effects) {
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_QUEUES;
    reply->queues = must_alloc(effects->arena, sizeof *reply->queues);
    tarry__queues_reply__init(reply->queues);
    reply->queues->queues = must_alloc(effects->arena, core->tally.next_queue * sizeof(Tarry__QueueView *));
    for (uint32_t number = 1; number < core->tally.next_queue; number++) {
        struct queue *queue = &core->queues[number];
        Tarry__QueueView *view = must_alloc(effects->arena, sizeof *view);
        tarry__queue_view__init(view);
        view->name = queue->name;
        view->policy = must_copy(effects->arena, &queue->policy, sizeof queue->policy);
        view->paused = queue->paused;
        view->paused_until_ms = queue->paused_until_ms;
        view->pending = waiting_of(core, queue);
        view->in_flight = core->tally.queues[number].in_flight;
        view->dead = core->tally.queues[number].dead;
        view->jobs = queue->job_count;
        reply->queues->queues[reply->queues->n_queues++] = view;
    }
    reply_send(core, effects, event->ticket, reply);
}

/* Ready within the windows is exact; behind a horizon that has passed there may be more: a lower bound, and said so. */
static void count_ready(struct core *core, struct queue *queue, Tarry__QueueStats *stats) {
    uint64_t oldest_ms = 0;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++) {
        struct line_state *line = &queue->lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
        uint64_t now_ms = base_ms(core, line->line.base);
        stats->ready += line->ready.count;
        if (line->horizon.due_ms <= now_ms && line_index_only(core, line)) stats->ready_is_lower_bound = true;
        if (line->settling) stats->ready_is_lower_bound = true;
        if (core->following) stats->ready_is_lower_bound = true; /* the leader's timers say what is ready */
        const struct ready_node *first = ready_min(&line->ready);
        if (first && now_ms - first->due_ms > oldest_ms) oldest_ms = now_ms - first->due_ms;
    }
    stats->oldest_overdue_ms = oldest_ms;
}

static Tarry__Quantiles *quantiles_of(const struct histogram *histogram, double unit, struct arena *arena) {
    Tarry__Quantiles *out = must_alloc(arena, sizeof *out);
    tarry__quantiles__init(out);
    out->count = histogram->count;
    out->p50 = (double)histogram_quantile(histogram, 0.5) / unit;
    out->p99 = (double)histogram_quantile(histogram, 0.99) / unit;
    out->p999 = (double)histogram_quantile(histogram, 0.999) / unit;
    out->max = (double)histogram_quantile(histogram, 1) / unit;
    return out;
}

static Tarry__QueueStats *stats_of(struct core *core, struct queue *queue, struct arena *arena) {
    const struct queue_tally *tally = &core->tally.queues[queue->number];
    Tarry__QueueStats *stats = must_alloc(arena, sizeof *stats);
    tarry__queue_stats__init(stats);
    stats->name = queue->name;
    count_ready(core, queue, stats);
    stats->pending = waiting_of(core, queue) - stats->ready;
    stats->in_flight = tally->in_flight;
    stats->dead = tally->dead;
    stats->paused = queue->paused;
    stats->paused_until_ms = queue->paused_until_ms;
    stats->scheduled = tally->scheduled;
    stats->cancelled = tally->cancelled;
    stats->delivered = tally->delivered;
    stats->acked = tally->acked;
    stats->retried = tally->retried;
    stats->expired = tally->expired;
    stats->dropped = tally->dropped;
    stats->lateness_ms = quantiles_of(&queue->lateness_us, 1000, arena);
    stats->jobs = queue->job_count;
    return stats;
}

static void fill_broker(const struct core *core, Tarry__BrokerStats *broker) {
    broker->version = (char *)core->options.version;
    broker->epoch = core->epoch;
    broker->now_ms = steady_ms(core);
    broker->appended = core->position;
    broker->durable = core->durable;
    broker->indexed = core->indexed;
    broker->near_tasks = core->task_count;
    broker->core_bytes = slab_used(core->slab);
    broker->core_bytes_max = slab_capacity(core->slab);
    broker->sessions = core->session_count;
    broker->producers = core->producer_count;
    broker->live = core->tally.live;
    broker->digest = core->tally.digest;
}

/* NULL: it is not known, or not any more. */
static Tarry__JobView *job_of(struct core *core, uint64_t id, struct arena *arena) {
    const struct job *job = job_find(core, id);
    const struct ended_job *ended = NULL;
    for (size_t i = 0; i < JOBS_MAX && !job && !ended; i++)
        if (core->ended_jobs[i].id == id) ended = &core->ended_jobs[i];
    if (!job && !ended) return NULL;
    Tarry__JobView *view = must_alloc(arena, sizeof *view);
    tarry__job_view__init(view);
    view->job = id;
    view->running = job != NULL;
    view->done = job ? job->done : ended->done;
    view->left = job ? job->left : ended->left;
    return view;
}

void query_stats(struct core *core, const struct core_event *event, struct core_effects *effects) {
    const char *name = event->request->stats->queue;
    bool is_one = name && *name;
    if (is_one && !queue_find(core, name)) {
        reply_refuse(core, effects, event->ticket, TARRY__CODE__NO_SUCH_QUEUE, "there is no such queue");
        return;
    }
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_STATS;
    reply->stats = must_alloc(effects->arena, sizeof *reply->stats);
    tarry__stats_reply__init(reply->stats);
    reply->stats->queues = must_alloc(effects->arena, core->tally.next_queue * sizeof(Tarry__QueueStats *));
    for (uint32_t number = 1; number < core->tally.next_queue; number++) {
        struct queue *queue = &core->queues[number];
        if (is_one && strcmp(queue->name, name) != 0) continue;
        reply->stats->queues[reply->stats->n_queues++] = stats_of(core, queue, effects->arena);
    }
    if (event->request->stats->job) reply->stats->job = job_of(core, event->request->stats->job, effects->arena);
    if (event->broker) {
        fill_broker(core, event->broker);
        reply->stats->broker = event->broker;
    }
    reply_send(core, effects, event->ticket, reply);
}
