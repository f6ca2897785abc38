/* query_stats.c: the questions about queues, counts and quantiles. */
#include <string.h>

#include "callers.h"
#include "effects.h"
#include "jobs.h"
#include "near.h"
#include "query.h"
#include "queues.h"

void query_queues(struct core *core, const struct core_request *request, struct core_effects *effects) {
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_QUEUES;
    reply->queues = must_alloc(effects->arena, sizeof *reply->queues);
    tarry__queues_reply__init(reply->queues);
    reply->queues->queues = must_alloc(effects->arena, core->tally.next_queue * sizeof(Tarry__QueueView *));
    for (uint32_t place = 1; place < core->tally.next_queue; place++) {
        struct queue *queue = &core->queues[place];
        if (queue->deleted || !caller_covers(request->caller, queue->name)) continue;
        Tarry__QueueView *view = must_alloc(effects->arena, sizeof *view);
        tarry__queue_view__init(view);
        view->name = queue->name;
        view->policy = must_copy(effects->arena, &queue->policy, sizeof queue->policy);
        view->policy->push = must_copy_text(effects->arena, queue->push);
        view->policy->filter = must_copy_text(effects->arena, queue->filter);
        view->paused = queue->paused;
        view->paused_until_ms = queue->paused_until_ms;
        view->pending = queue_waiting(core, queue);
        view->in_flight = queue_in_flight(core, queue);
        view->dead = core->tally.queues[place].dead;
        view->jobs = queue->job_count;
        reply->queues->queues[reply->queues->n_queues++] = view;
    }
    reply_send(core, effects, request->ticket, reply);
}

/* Returns the time from which the task could have been delivered: its due time, or its scheduling if that was later. */
static uint64_t deliverable_ms(const struct row *row) {
    return row->due_ms > row->scheduled_ms ? row->due_ms : row->scheduled_ms;
}

/* Counts ready tasks. The count is exact within horizons. If a horizon lies in the past, more tasks may be ready beyond
 * it, so the count is marked as a lower bound. */
static void count_ready(struct core *core, struct queue *queue, struct queue_look *look) {
    const struct queue_tally *tally = &core->tally.queues[queue_place(queue->number)];
    /* A follower's count is a lower bound, because only the leader's timers make tasks ready. */
    look->is_lower_bound = core->following;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++) {
        if (!tally->waiting[i / PRIORITY_COUNT][i % PRIORITY_COUNT]) continue;
        struct line_state *line = &queue->lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
        uint64_t now_ms = base_ms(core, line->line.base);
        look->ready += line->ready.count + line->parked.count;
        look->parked += line->parked.count;
        if (line->horizon.due_ms <= now_ms && line_index_only(core, line)) look->is_lower_bound = true;
        if (line->settling) look->is_lower_bound = true;
        const struct task *first = near_first_ready(line);
        uint64_t *oldest = &look->oldest_due_ms[line->line.base];
        if (first && deliverable_ms(&first->row) < *oldest) *oldest = deliverable_ms(&first->row);
    }
}

/* Computes the numbers of one queue that take long (over its lines and buckets). All of them are of the same moment. */
static void look_at(struct core *core, struct queue *queue, struct queue_look *out) {
    const struct histogram *lateness = &queue->lateness_us;
    *out =
        (struct queue_look){.number = queue->number, .waiting = queue_waiting(core, queue), .count = lateness->count};
    for (size_t i = 0; i < ROW_BASES; i++) out->oldest_due_ms[i] = UINT64_MAX;
    count_ready(core, queue, out);
    if (!lateness->count) return;
    out->p50 = histogram_quantile(lateness, 0.5);
    out->p99 = histogram_quantile(lateness, 0.99);
    out->p999 = histogram_quantile(lateness, 0.999);
    out->max = histogram_quantile(lateness, 1);
}

static bool is_of_all(const struct core_request *request) {
    const char *name = request->message->stats->queue;
    return !name || !*name;
}

/* Scans the queues in pieces. The numbers of one queue are of one moment; those of queues in different pieces may
 * differ in time. */
bool stats_look(struct core *core, struct core_request *request) {
    if (!is_of_all(request)) return true;
    if (!request->look && core->is_looked) return false;
    core->is_looked = true;
    if (!request->look) request->look = 1;
    uint32_t end = request->look + STATS_PER_PIECE_MAX;
    for (; request->look < end && request->look < core->tally.next_queue; request->look++)
        look_at(core, &core->queues[request->look], &core->queue_looks[request->look]);
    return request->look == core->tally.next_queue;
}

void stats_look_end(struct core *core) {
    assert(core->is_looked);
    core->is_looked = false;
}

/* Returns how long the oldest task has been overdue at the time of the step. The scan before the step may have used an
 * older time. */
static uint64_t overdue_ms(const struct core *core, const struct queue_look *look) {
    uint64_t most = 0;
    for (uint8_t base = 0; base < ROW_BASES; base++) {
        uint64_t now_ms = base_ms(core, base), due_ms = look->oldest_due_ms[base];
        if (due_ms < now_ms && now_ms - due_ms > most) most = now_ms - due_ms;
    }
    return most;
}

static Tarry__Quantiles *lateness_of(const struct queue_look *look, struct arena *arena) {
    const double unit = 1000;
    Tarry__Quantiles *out = must_alloc(arena, sizeof *out);
    tarry__quantiles__init(out);
    out->count = look->count;
    out->p50 = (double)look->p50 / unit;
    out->p99 = (double)look->p99 / unit;
    out->p999 = (double)look->p999 / unit;
    out->max = (double)look->max / unit;
    return out;
}

static Tarry__Durations *durations_of(const struct durations *durations, struct arena *arena) {
    Tarry__Durations *out = must_alloc(arena, sizeof *out);
    tarry__durations__init(out);
    out->n_counts = DURATION_BUCKETS;
    out->counts = must_copy(arena, durations->counts, sizeof durations->counts);
    out->sum_us = durations->sum_us;
    return out;
}

/* Returns the count of deliveries for Stats. The count never decreases: a delivery that is being sent counts, even if
 * it is never sent in the end. */
static uint64_t delivered_of(const struct core *core, struct queue *queue) {
    uint64_t delivered = core->tally.queues[queue_place(queue->number)].delivered - queue->ahead_count;
    if (delivered > queue->delivered_told) queue->delivered_told = delivered;
    return queue->delivered_told;
}

static Tarry__QueueStats *stats_of(const struct core *core, struct queue *queue, const struct queue_look *look,
                                   struct arena *arena) {
    const struct queue_tally *tally = &core->tally.queues[queue_place(queue->number)];
    Tarry__QueueStats *stats = must_alloc(arena, sizeof *stats);
    tarry__queue_stats__init(stats);
    stats->name = queue->name;
    stats->ready = look->ready;
    stats->ready_is_lower_bound = look->is_lower_bound;
    stats->parked = look->parked;
    stats->oldest_overdue_ms = overdue_ms(core, look);
    stats->pending = look->waiting - look->ready;
    stats->in_flight = queue_in_flight(core, queue);
    stats->dead = tally->dead;
    stats->paused = queue->paused;
    stats->paused_until_ms = queue->paused_until_ms;
    stats->scheduled = tally->scheduled;
    stats->cancelled = tally->cancelled;
    stats->delivered = delivered_of(core, queue);
    stats->acked = tally->acked;
    stats->retried = tally->retried;
    stats->expired = tally->expired;
    stats->dropped = tally->dropped;
    stats->lateness_ms = lateness_of(look, arena);
    stats->jobs = queue->job_count;
    stats->consumers = queue->consumer_count;
    stats->lateness = durations_of(&queue->lateness, arena);
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
    broker->recurrences = core->recur_count;
    broker->recurrences_stuck = core->recur_stuck;
    broker->occurrences = core->recur_totals.due;
    broker->occurrences_missed = core->recur_totals.missed;
    broker->occurrences_skipped = core->recur_totals.skipped;
    broker->core_bytes = slab_used(core->slab);
    broker->core_bytes_max = slab_capacity(core->slab);
    broker->sessions = core->session_count;
    broker->producers = core->producer_count;
    broker->live = core->tally.live;
    broker->digest = core->tally.digest;
}

/* Returns a job or its result; NULL: unknown, or forgotten. */
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

/* Removes push statistics that the caller may not see or has not requested. */
static void keep_pushed(const struct core_request *request, const char *only) {
    Tarry__BrokerStats *broker = request->broker;
    size_t count = 0;
    for (size_t i = 0; i < broker->n_push; i++) {
        Tarry__PushTarget *target = broker->push[i];
        if (!caller_covers(request->caller, target->queue) || (only && strcmp(target->queue, only) != 0)) continue;
        broker->push[count++] = target;
    }
    broker->n_push = count;
}

void query_stats(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const char *name = request->message->stats->queue;
    bool is_one = !is_of_all(request);
    if (is_one && !queue_find_live(core, name)) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__NO_SUCH_QUEUE, "the queue does not exist");
        return;
    }
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_STATS;
    reply->stats = must_alloc(effects->arena, sizeof *reply->stats);
    tarry__stats_reply__init(reply->stats);
    reply->stats->queues = must_alloc(effects->arena, core->tally.next_queue * sizeof(Tarry__QueueStats *));
    for (uint32_t place = 1; place < core->tally.next_queue; place++) {
        struct queue *queue = &core->queues[place];
        if (queue->deleted || !caller_covers(request->caller, queue->name)) continue;
        if (is_one && strcmp(queue->name, name) != 0) continue;
        struct queue_look look;
        bool is_looked = place < request->look && core->queue_looks[place].number == queue->number;
        if (!is_looked) look_at(core, queue, &look);
        reply->stats->queues[reply->stats->n_queues++] =
            stats_of(core, queue, is_looked ? &core->queue_looks[place] : &look, effects->arena);
    }
    if (request->message->stats->job) reply->stats->job = job_of(core, request->message->stats->job, effects->arena);
    if (request->broker) {
        fill_broker(core, request->broker);
        keep_pushed(request, is_one ? name : NULL);
        reply->stats->broker = request->broker;
    }
    reply_send(core, effects, request->ticket, reply);
}
