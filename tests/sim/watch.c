/* watch.c: see watch.h. */
#include "watch.h"
#include "laws.h"

#include <string.h>

#include "../must.h"
#include "check.h"
#include "client.h"
#include "host.h"
#include "leases.h"
#include "node.h"
#include "world.h"

#define CLAIMS_EVERY 16 /* number of steps after which check_claims checks the sessions that were not resumed */
/* If no clock was read for longer than this time, the process was certainly stopped, because
 * shell/threads/core_thread.c reads the clocks once a second. */
#define SURELY_STOPPED_NS (1000000000u + STOPPED_NS)

void watch_reset(struct watch *watch) {
    watch->commit = NULL;
    watch->started_ms = 0;
    watch->resumed_count = 0;
    watch->stopping = false;
}

void watch_commit(struct world *world, const Tarry__Commit *commit) {
    world->host->watch.commit = commit;
}

/* ---- frames */

/* Returns the number of tasks that the index cannot have absorbed yet. At least these are in the overlay. */
static uint64_t lag(struct world *world) {
    struct watch *watch = &world->host->watch;
    const struct host *host = world->host;
    uint64_t count = 0;
    watch->round++;
    /* Leaves out the last frame, which is the one that is being checked. */
    for (size_t i = host_frames_below(host, host->turn.index_news.told); i + 1 < host->frame_count; i++) {
        const Tarry__FrameBody *body = host->frames[i].body;
        for (size_t k = 0; body && k < body->n_records; k++) {
            const Tarry__Record *record = body->records[k];
            const Tarry__Task *task = NULL;
            if (record->fact_case == TARRY__RECORD__FACT_PUT) task = record->put->task;
            if (record->fact_case == TARRY__RECORD__FACT_END) task = record->end->task;
            if (!task || watch->counted[task->id] == watch->round) continue;
            watch->counted[task->id] = watch->round;
            count++;
        }
    }
    return count;
}

static bool was_asked_for(const Tarry__Commit *commit, uint64_t due_ms) {
    for (size_t i = 0; commit && i < commit->n_ops; i++) {
        const Tarry__Op *op = commit->ops[i];
        const Tarry__When *when = NULL;
        if (op->op_case == TARRY__OP__OP_SCHEDULE) when = op->schedule->when;
        if (op->op_case == TARRY__OP__OP_MOVE) when = op->move->when;
        if (when && when->kind == TARRY__WHEN__KIND__AT && when->ms == due_ms) return true;
    }
    return false;
}

/* Returns the steady time of the broker when the current request reached the machine. */
static uint64_t arrived_steady_ns(const struct host *host, uint64_t now_ns) {
    return host->clock.now.steady_ns - (now_ns - host->taken->arrived_ns);
}

/* TIME-1: checks that a delay counts from the arrival of its request or from a later time, never from an earlier one.
 */
static bool waits_long_enough(const struct world *world, const Tarry__Commit *commit, uint64_t due_ms) {
    if (!world->host->taken || !world->host->taken->arrived_ns) return true;
    uint64_t from_ns = arrived_steady_ns(world->host, world->now_ns);
    for (size_t i = 0; commit && i < commit->n_ops; i++) {
        const Tarry__Op *op = commit->ops[i];
        const Tarry__When *when = NULL;
        if (op->op_case == TARRY__OP__OP_SCHEDULE) when = op->schedule->when;
        if (op->op_case == TARRY__OP__OP_MOVE) when = op->move->when;
        bool is_delay = when && when->kind == TARRY__WHEN__KIND__DELAY;
        if (is_delay && when->ms == 0) return true; /* the task is due when it is received, so it is never early */
        if (is_delay && due_ms * NS_PER_MS >= from_ns + when->ms * NS_PER_MS) return true;
    }
    return false;
}

/* ---- requests in the sockets of a paused process */

static bool settles(const Tarry__Request *request, const Tarry__TaskPut *put, uint64_t lease_position) {
    const Tarry__Commit *commit = request->body_case == TARRY__REQUEST__BODY_COMMIT ? request->commit : NULL;
    for (size_t i = 0; commit && i < commit->n_ops; i++) {
        const Tarry__Op *op = commit->ops[i];
        uint64_t id = 0;
        const Tarry__Token *token = NULL;
        if (op->op_case == TARRY__OP__OP_ACK) id = op->ack->id, token = op->ack->token;
        if (op->op_case == TARRY__OP__OP_NACK) id = op->nack->id, token = op->nack->token;
        if (op->op_case == TARRY__OP__OP_EXTEND) id = op->extend->id, token = op->extend->token;
        if (token && id == put->task->id && token->position == lease_position) return true;
    }
    return false;
}

/* Returns whether the record, written by a timer, contradicts a request that has arrived but is unread. A heartbeat
 * would have kept the session, and a settlement would have settled the lease. A lease that had ended before the process
 * was stopped does not count (history 20300847). */
static bool ignores(const struct host *host, const struct frame_header *header, const Tarry__Record *record,
                    const Tarry__Request *request) {
    if (record->fact_case == TARRY__RECORD__FACT_SESSION_END) {
        const Tarry__SessionEnd *end = record->session_end;
        return end->cause == TARRY__SESSION_END__CAUSE__SILENT &&
               request->body_case == TARRY__REQUEST__BODY_HEARTBEAT && request->heartbeat->session == end->session;
    }
    if (record->fact_case != TARRY__RECORD__FACT_PUT) return false;
    const Tarry__TaskPut *put = record->put;
    uint64_t deadline_ns = put->before_lease_deadline_ms * NS_PER_MS;
    bool is_over = header->steady_ns >= deadline_ns && host->paused_steady_ns < deadline_ns;
    if (put->cause != TARRY__CAUSE__CAUSE_LEASE_LOST || !is_over) return false;
    return settles(request, put, host->head.tasks[put->task->id].row.lease_position);
}

/* TIME-2: checks that a stop of the process ends no session and no lease for which a message has arrived. That holds
 * even while the message is being handled. Messages that arrived before the node led do not count, because they would
 * have been refused. */
static void check_unheard(const struct host *host, const struct frame_header *header, const Tarry__FrameBody *body) {
    bool was_stopped =
        host->went_on_ns > host->paused_from_ns + SURELY_STOPPED_NS && host->paused_from_ns >= host->watch.began_ns;
    for (const struct unread *unread = host->unread; was_stopped && unread; unread = unread->next) {
        bool lay_there = unread->arrived_ns >= host->paused_from_ns && unread->arrived_ns <= host->went_on_ns;
        for (size_t i = 0; lay_there && unread->life == host->life && i < body->n_records; i++)
            MUST(!ignores(host, header, body->records[i], unread->request->body));
    }
}

/* Checks that a consumer of a pooled session keeps its task until the lease's deadline, even if the session ends. In a
 * bound session, whose consumers are connections of the broker's process, the end of the process also ends the leases.
 */
static void check_pooled(const struct host *host, const struct frame_header *header, const Tarry__TaskPut *put) {
    uint64_t session = host->head.tasks[put->task->id].row.session;
    if (!session_is_pooled(session) || (session_is_bound(session) && session >> 32 != header->epoch)) return;
    if (put->cause == TARRY__CAUSE__CAUSE_LEASE_LOST)
        MUST(header->steady_ns >= put->before_lease_deadline_ms * NS_PER_MS);
    if (put->cause == TARRY__CAUSE__CAUSE_RELEASED)
        MUST(host->taken && host->taken->request->body->body_case == TARRY__REQUEST__BODY_COMMIT);
}

static bool ends_session(const Tarry__FrameBody *body, uint64_t session) {
    for (size_t i = 0; i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_SESSION_END && record->session_end->session == session)
            return true;
    }
    return false;
}

/* FENCE-1: checks that a lease that was not returned lasts until its deadline, or until its session ends. */
static void check_lost(struct host *host, const struct frame_header *header, const Tarry__FrameBody *body,
                       const Tarry__TaskPut *put) {
    const struct row *lease = &host->head.tasks[put->task->id].row;
    if (put->cause != TARRY__CAUSE__CAUSE_LEASE_LOST) return;
    if (header->steady_ns >= put->before_lease_deadline_ms * NS_PER_MS)
        host->watch.run_out[lease->id] = (struct run_out){
            .epoch = lease->lease_epoch,
            .position = lease->lease_position,
            .deadline_ms = put->before_lease_deadline_ms,
            .told_at = header->position,
            .told_in = header->epoch,
        };
    else
        MUST(ends_session(body, lease->session));
}

/* Notes the withdrawal of a lease ahead of time whose delivery was not sent. */
static void note_taken_back(struct watch *watch, const struct flat *head, uint64_t position, uint64_t id) {
    const struct row *row = &head->tasks[id].row;
    if (row->state != ROW_LEASED || watch->given[id] == row->lease_position) return;
    watch->taken_back[id] = (struct taken_back){position, row->session};
}

/* TRUE-1: checks that a new queue gets the place of a deleted queue only when the broker remembers no outcome of the
 * deleted queue. */
static void law_of_endings(const struct world *world, const struct frame_header *header, const Tarry__QueuePut *put) {
    const struct flat *head = &world->host->head;
    const struct core_options *options = &world->options.core;
    const uint32_t former = flat_queue_of(head, put->number)->put.number;
    if (!former || former == put->number || flat_queue_of(head, put->number)->put.forgets) return;
    const uint64_t now_ms = header->steady_ns / NS_PER_MS, retention_ms = options->outcome_retention_ms;
    for (size_t i = 0; i < head->ending_count; i++) {
        const struct flat_task *task = &head->tasks[head->endings[i]];
        if (task->row.queue != former) continue;
        bool is_old = now_ms > retention_ms && task->ended_ms < now_ms - retention_ms;
        MUST(is_old || head->ending_count - i > options->outcomes_max);
    }
}

/* ---- limits of deliveries (HERD-1) */

static uint64_t period_ns(const Tarry__Policy *policy) {
    return (policy->rate_period_ms ? policy->rate_period_ms : RATE_PERIOD_DEFAULT_MS) * NS_PER_MS;
}

/* Notes that the token bucket of the queue is empty now. */
static void empty_bucket(struct watch *watch, uint32_t number, uint64_t now_ns) {
    struct watch_rate *rate = &watch->rates[queue_place(number)];
    rate->number = number;
    rate->since_ns = now_ns;
    rate->count = 0;
}

static void note_limits(struct watch *watch, const struct flat *head, const Tarry__QueuePut *put, uint64_t now_ns) {
    const struct flat_queue *queue = flat_queue_of(head, put->number);
    const Tarry__Policy *before = queue->put.policy, *after = put->policy;
    bool is_same = queue->put.number == put->number && before->rate == after->rate && before->burst == after->burst &&
                   period_ns(before) == period_ns(after);
    if (!is_same) empty_bucket(watch, put->number, now_ns);
}

/* Checks the queue's rate limit at this lease, for every window of time that ends now: at most burst + rate * window
 * tasks may be leased. Since the queue's bucket was last known to be empty, at most rate * time may be leased. The
 * broker uses a simpler method (one stored time). */
static void law_of_rate(struct watch *watch, const Tarry__Policy *policy, uint32_t number, uint64_t now_ns) {
    struct watch_rate *rate = &watch->rates[queue_place(number)];
    if (!policy->rate || rate->number != number || rate->count == WATCH_LEASES_MAX) return;
    rate->leased_ns[rate->count++] = now_ns;
    const uint64_t period = period_ns(policy), allowed = policy->rate;
    const uint64_t burst =
        policy->burst ? policy->burst : (allowed * RATE_BURST_DEFAULT_MS * NS_PER_MS + period - 1) / period;
    MUST(rate->count * period <= allowed * (now_ns - rate->since_ns));
    for (size_t i = 0; i < rate->count; i++) {
        const uint64_t count = rate->count - i, window_ns = now_ns - rate->leased_ns[i];
        MUST(count <= burst || (count - burst) * period <= allowed * window_ns);
    }
}

/* Checks that no lease is made while `max_in_flight` tasks are leased. `before` is the number of leases of the queue
 * earlier in the same frame. */
static void law_of_flight(const struct flat *head, const Tarry__Policy *policy, uint32_t number, uint32_t before) {
    uint32_t in_flight = before;
    if (!policy->max_in_flight) return;
    for (uint64_t id = 1; id < head->next_id; id++)
        in_flight +=
            !head->tasks[id].ended && head->tasks[id].row.state == ROW_LEASED && head->tasks[id].row.queue == number;
    MUST(in_flight < policy->max_in_flight);
}

static bool has_same_serial(const struct row *a, const struct row *b) {
    return a->queue == b->queue && a->serial_size && a->serial_size == b->serial_size &&
           memcmp(a->serial, b->serial, a->serial_size) == 0;
}

/* SERIAL-1: checks the lease in body->records[at]. No other task with the same serial name may be leased at that
 * moment. */
static void law_of_serial(const struct flat *head, const Tarry__FrameBody *body, size_t at) {
    struct row row;
    MUST(row_from_task(body->records[at]->put->task, &row));
    if (!row.serial_size) return;
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct flat_task *task = &head->tasks[id];
        bool is_leased = !task->ended && task->row.state == ROW_LEASED;
        for (size_t i = 0; i < at; i++) { /* follows the changes by earlier records of the same frame */
            const Tarry__Record *record = body->records[i];
            bool is_end = record->fact_case == TARRY__RECORD__FACT_END;
            if (!is_end && record->fact_case != TARRY__RECORD__FACT_PUT) continue;
            const Tarry__Task *now = is_end ? record->end->task : record->put->task;
            if (now->id == id) is_leased = !is_end && now->state == TARRY__TASK__STATE__LEASED;
        }
        MUST(!is_leased || id == row.id || !has_same_serial(&task->row, &row));
    }
}

/* ---- overdue tasks after an outage (broker/core/overdue.h) */

static bool has_waiting(const struct flat *head, uint32_t number) {
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct flat_task *task = &head->tasks[id];
        if (!task->ended && task->row.queue == number && task->row.state == ROW_WAITING) return true;
    }
    return false;
}

/* Notes the outage that a start ends: it began at the log's last frame. It concerns each queue that has a policy for
 * overdue tasks. */
static void note_outage(struct watch *watch, const struct flat *head, const struct frame_header *header) {
    for (size_t place = 1; place < FLAT_QUEUES_MAX; place++) {
        const Tarry__QueuePut *put = &head->queues[place].put;
        struct watch_outage *outage = &watch->outages[place];
        *outage = (struct watch_outage){0};
        if (!put->number || put->deleted || put->policy->lease_before_due || !has_waiting(head, put->number)) continue;
        const Tarry__Policy *policy = put->policy;
        outage->number = put->number;
        tarry__overdue__init(&outage->judgement);
        outage->judgement.after_steady_ms = head->steady_ns / NS_PER_MS;
        outage->judgement.until_steady_ms = header->steady_ns / NS_PER_MS;
        outage->judgement.after_wall_ms = head->wall_ns / NS_PER_MS;
        outage->judgement.until_wall_ms = header->wall_ns / NS_PER_MS;
        outage->judgement.id_end = head->next_id;
        outage->judgement.overdue_expire_ms = policy->overdue_expire_ms;
        outage->judgement.overdue_dead_ms = policy->overdue_dead_ms;
        outage->judgement.overdue_spread_ms = policy->overdue_spread_ms;
    }
}

/* Checks the newest recorded outage of a queue. Either it is the outage that this start ended, or the queue had this
 * record before. */
static void law_of_judgement(const struct watch *watch, const struct flat *head, const Tarry__QueuePut *put) {
    if (!put->n_overdue) return;
    const Tarry__QueuePut *before = &flat_queue_of(head, put->number)->put;
    const Tarry__Overdue *newest = put->overdue[put->n_overdue - 1];
    const struct watch_outage *outage = &watch->outages[queue_place(put->number)];
    const Tarry__Overdue *expected = &outage->judgement;
    bool is_old = before->number == put->number && before->n_overdue &&
                  before->overdue[before->n_overdue - 1]->until_steady_ms == newest->until_steady_ms;
    if (is_old) return;
    MUST(outage->number == put->number && newest->after_steady_ms == expected->after_steady_ms &&
         newest->until_steady_ms == expected->until_steady_ms && newest->after_wall_ms == expected->after_wall_ms &&
         newest->until_wall_ms == expected->until_wall_ms && newest->id_end == expected->id_end);
    MUST(newest->overdue_expire_ms == expected->overdue_expire_ms &&
         newest->overdue_dead_ms == expected->overdue_dead_ms &&
         newest->overdue_spread_ms == expected->overdue_spread_ms);
}

/* Checks that no task is leased that the outage before this start requires to expire or to become a dead letter. The
 * check does not use the broker's own record of the outage. */
static void law_of_outage(const struct watch *watch, const struct flat *head, const Tarry__TaskPut *put) {
    const struct row *row = &head->tasks[put->task->id].row;
    if (put->fresh || put->cause != TARRY__CAUSE__CAUSE_LEASED || session_is_mover(put->task->session)) return;
    const struct watch_outage *outage = &watch->outages[queue_place(row->queue)];
    const enum fate fate = outage->number == row->queue ? fate_by(&outage->judgement, row) : FATE_NONE;
    MUST(fate == FATE_NONE || fate == FATE_SPREAD); /* law_of_overdue has checked the due time of a spread task */
}

static void check_limits(struct watch *watch, const struct flat *head, const struct frame_header *header,
                         const Tarry__FrameBody *body) {
    uint32_t leased[FLAT_QUEUES_MAX] = {0}; /* number of leases in this frame, indexed by the place of the queue */
    for (size_t i = 0; body && i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_EPOCH) note_outage(watch, head, header);
        if (record->fact_case == TARRY__RECORD__FACT_PUT) law_of_outage(watch, head, record->put);
        if (record->fact_case == TARRY__RECORD__FACT_QUEUE) law_of_judgement(watch, head, record->queue);
        if (record->fact_case == TARRY__RECORD__FACT_EPOCH)
            for (size_t place = 0; place < FLAT_QUEUES_MAX; place++)
                empty_bucket(watch, head->queues[place].put.number, header->steady_ns);
        if (record->fact_case == TARRY__RECORD__FACT_QUEUE) note_limits(watch, head, record->queue, header->steady_ns);
        if (record->fact_case != TARRY__RECORD__FACT_PUT || record->put->cause != TARRY__CAUSE__CAUSE_LEASED) continue;
        law_of_serial(head, body, i);
        if (session_is_mover(record->put->task->session))
            continue; /* the limits of rate and of tasks in flight hold for consumers only */
        const uint32_t number = record->put->task->queue;
        const Tarry__Policy *policy = flat_queue_of(head, number)->put.policy;
        law_of_rate(watch, policy, number, header->steady_ns);
        law_of_flight(head, policy, number, leased[queue_place(number)]++);
    }
}

/* Returns whether the task is an occurrence that a recurrence creates in this frame (laws_of_recur checks its time). */
static bool is_occurrence(const Tarry__FrameBody *body, const Tarry__TaskPut *put) {
    if (!put->fresh || !occurrence_name_size(put->task->key.data, put->task->key.len)) return false;
    for (size_t i = 0; i < body->n_records; i++)
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_RECUR) return true;
    return false;
}

/* Checks that the task's spread_ms is less than its queue's spread. If the same commit sets a larger spread, that one
 * counts. */
static void law_of_spread(const struct watch *watch, const struct flat *head, const Tarry__Task *task) {
    const Tarry__QueuePut *queue = &flat_queue_of(head, task->queue)->put;
    uint64_t most_ms = queue->number == task->queue ? queue->policy->spread_ms : 0;
    for (size_t i = 0; watch->commit && i < watch->commit->n_ops; i++) {
        const Tarry__Op *op = watch->commit->ops[i];
        if (op->op_case == TARRY__OP__OP_QUEUE_SET && op->queue_set->policy->spread_ms > most_ms)
            most_ms = op->queue_set->policy->spread_ms;
    }
    MUST(!task->spread_ms || task->spread_ms < most_ms);
}

/* ---- a task's own settings (OWN-1) */

static const Tarry__Schedule *schedule_of(const Tarry__Commit *commit, const Tarry__Task *task) {
    for (size_t i = 0; commit && i < commit->n_ops; i++) {
        const Tarry__Schedule *schedule =
            commit->ops[i]->op_case == TARRY__OP__OP_SCHEDULE ? commit->ops[i]->schedule : NULL;
        if (schedule && schedule->max_attempts == task->max_attempts && schedule->backoff_ms == task->backoff_ms &&
            schedule->lease_ms == task->lease_ms)
            return schedule;
    }
    return NULL;
}

/* A nack without a delay delays the task for at least its own backoff. A commit may have several nacks of a task, of
 * which one has an effect. */
static void law_of_backoff(const struct watch *watch, const struct frame_header *header, const Tarry__Task *task) {
    bool has_nack = false, has_delay = false;
    for (size_t i = 0; watch->commit && i < watch->commit->n_ops; i++) {
        const Tarry__Op *op = watch->commit->ops[i];
        if (op->op_case != TARRY__OP__OP_NACK || op->nack->id != task->id) continue;
        has_nack = true;
        has_delay |= op->nack->has_delay;
    }
    if (has_nack && !has_delay) MUST(task->due_ms * NS_PER_MS >= header->steady_ns + task->backoff_ms * NS_PER_MS);
}

/* The lease lasts as long as the task says, unless its session asked for a lease duration. */
static void law_of_lease(struct world *world, const Tarry__Task *task) {
    const struct watch *watch = &world->host->watch;
    const struct watch_session *session = &watch->sessions[task->session % WATCH_SESSIONS];
    if (!task->lease_ms || session->session != task->session || session->lease_ms) return;
    const bool is_ahead =
        task->delivered_ms == task->due_ms && task->lease_deadline_ms == task->due_ms + 1 + task->lease_ms;
    MUST(is_ahead || task->lease_deadline_ms == (host_from_ns(world) + NS_PER_MS - 1) / NS_PER_MS + task->lease_ms);
}

static void laws_of_own(struct world *world, const struct frame_header *header, const Tarry__TaskPut *put,
                        bool is_clients) {
    const struct watch *watch = &world->host->watch;
    if (put->cause == TARRY__CAUSE__CAUSE_SCHEDULED && is_clients) MUST(schedule_of(watch->commit, put->task));
    if (put->cause == TARRY__CAUSE__CAUSE_RETRIED) law_of_backoff(watch, header, put->task);
    if (put->cause == TARRY__CAUSE__CAUSE_LEASED) law_of_lease(world, put->task);
}

static void note_session(struct watch *watch, const Tarry__SessionPut *put) {
    watch->sessions[put->session % WATCH_SESSIONS] = (struct watch_session){put->session, put->lease_ms};
}

void watch_frame(struct world *world, const struct frame_header *header, const Tarry__FrameBody *body) {
    struct watch *watch = &world->host->watch;
    const struct core_options *options = &world->options.core;
    bool schedules = false;
    bool leases = false;
    check_limits(watch, &world->host->head, header, body);
    who_frame(&watch->who, &world->host->head, body, watch->commit);
    for (size_t i = 0; body && i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        if (record->fact_case == TARRY__RECORD__FACT_EPOCH) {
            watch_reset(watch);
            watch->started_ms = header->steady_ns / NS_PER_MS;
            watch->began_ns = world->now_ns;
        }
        if (record->fact_case == TARRY__RECORD__FACT_QUEUE) law_of_endings(world, header, record->queue);
        if (record->fact_case == TARRY__RECORD__FACT_SESSION) note_session(watch, record->session);
        if (record->fact_case != TARRY__RECORD__FACT_PUT) continue;
        const Tarry__TaskPut *put = record->put;
        schedules |= put->cause == TARRY__CAUSE__CAUSE_SCHEDULED;
        leases |= put->cause == TARRY__CAUSE__CAUSE_LEASED;
        if (put->cause == TARRY__CAUSE__CAUSE_UNSENT)
            note_taken_back(watch, &world->host->head, header->position, put->task->id);
        const bool is_clients = !put->share_of && !is_occurrence(body, put);
        const bool sets_due = (put->cause == TARRY__CAUSE__CAUSE_SCHEDULED && is_clients) ||
                              (put->cause == TARRY__CAUSE__CAUSE_MOVED && !is_spread(put));
        laws_of_own(world, header, put, is_clients);
        check_pooled(world->host, header, put);
        check_lost(world->host, header, body, put);
        if (sets_due) law_of_spread(watch, &world->host->head, put->task);
        if (sets_due && put->task->time_base == TARRY__TASK__BASE__WALL)
            MUST(was_asked_for(watch->commit,
                               put->task->due_ms -
                                   put->task->spread_ms)); /* TIME-2: a delay is never measured by the wall clock */
        if (sets_due && put->task->time_base == TARRY__TASK__BASE__STEADY)
            MUST(waits_long_enough(world, watch->commit, put->task->due_ms - put->task->spread_ms));
    }
    if (body) check_unheard(world->host, header, body);
    if (schedules && options->index_lag_max) MUST(lag(world) <= options->index_lag_max); /* CAP-1 */
    if (leases && options->index_lag_hard) MUST(lag(world) <= options->index_lag_hard);  /* CAP-1 */
}

/* ---- deliveries */

/* Returns whether the task should have been delivered before `leased`: it is waiting, or it is a due lease ahead of
 * time of the same session that was not sent. Excepted is a lease ahead of time that another session lost in this step
 * (at a position from `before` on), because it ran out of credit. The core settles one session after the other (history
 * --ahead 7000497). */
static bool is_left_behind(const struct watch *watch, const struct flat *head, const struct row *row,
                           const struct row *leased, uint64_t before) {
    const struct taken_back *taken_back = &watch->taken_back[row->id];
    bool is_back_now = taken_back->position >= before && taken_back->session != leased->session;
    if (row->state == ROW_WAITING) return !is_back_now;
    bool is_ahead = row->state == ROW_LEASED && row->session == leased->session && row->lease_epoch == head->epoch &&
                    watch->given[row->id] != row->lease_position;
    return is_ahead && row->due_ms <= leased->delivered_ms;
}

/* Returns whether the task is parked: another task with its serial name is leased (SERIAL-1). */
static bool is_parked(const struct flat *head, const struct row *row, const struct row *leased) {
    if (!row->serial_size || has_same_serial(row, leased))
        return false; /* a waiting task with the serial name of `leased` should have been delivered first */
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct flat_task *task = &head->tasks[id];
        if (!task->ended && task->row.state == ROW_LEASED && has_same_serial(&task->row, row)) return true;
    }
    return false;
}

/* Checks that `leased` overtakes no task of the same queue, time base and priority that was due earlier. */
static void check_overtaken(const struct watch *watch, const struct flat *head, const struct row *leased,
                            uint64_t before) {
    /* A sharer (the part of the broker that shares a topic's tasks) leases tasks before their due time. Their order is
     * not checked, because the shares wait in the groups until they are due. */
    const uint64_t now_ms = (leased->base == ROW_WALL ? head->wall_ns : head->steady_ns) / NS_PER_MS;
    if (session_is_sharer(leased->session) && leased->due_ms > now_ms) return;
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct row *row = &head->tasks[id].row;
        bool is_movers = !session_is_mover(leased->session) && flat_is_early(head, leased->queue) &&
                         row->due_ms <= (row->base == ROW_WALL ? head->wall_ns : head->steady_ns) / NS_PER_MS;
        if (is_movers) continue;
        bool is_rival = !head->tasks[id].ended && row->queue == leased->queue && row->base == leased->base &&
                        row->priority == leased->priority && is_left_behind(watch, head, row, leased, before) &&
                        !is_parked(head, row, leased);
        MUST(!is_rival || due_before((struct due){leased->due_ms, leased->id}, (struct due){row->due_ms, row->id}));
    }
}

/* Checks the order within a delivery of new leases: highest priority first, then due time, then id. */
static void check_order(struct watch *watch, const struct flat *head, const struct core_delivery *delivery,
                        uint64_t before) {
    for (size_t i = 0; i < delivery->count; i++)
        watch->given[delivery->tasks[i].row.id] = delivery->tasks[i].row.lease_position;
    if (delivery->tasks[0].row.lease_position < before && !delivery->departs)
        return; /* deliveries that are sent again have no order */
    for (size_t i = 0; i < delivery->count; i++) check_overtaken(watch, head, &delivery->tasks[i].row, before);
    for (size_t i = 1; i < delivery->count; i++) {
        const struct row *first = &delivery->tasks[i - 1].row;
        const struct row *then = &delivery->tasks[i].row;
        MUST(first->priority >= then->priority);
        if (first->priority != then->priority) continue;
        MUST(due_before((struct due){first->due_ms, first->id}, (struct due){then->due_ms, then->id}));
    }
}

/* CALM-1: checks that no session gets more tasks than its prefetch permits. */
static void check_prefetch(const struct world *world, const struct core_delivery *delivery, uint64_t before) {
    const struct flat *head = &world->host->head;
    const struct client *client = world->host->lanes[delivery->lane].client;
    if (session_is_pooled(delivery->session)) { /* a resumed pooled session gets no task again, because its consumers
                                                   still have them */
        MUST(delivery->tasks[0].row.lease_position >= before);
        MUST(delivery->count <= who_may_get(&world->host->watch.who, delivery->session));
        return;
    }
    if (!client || client->session != delivery->session || client->subscribing)
        return; /* nothing is checked, because the prefetch that the client asked for is not known yet */
    uint64_t held = 0;
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct flat_task *task = &head->tasks[id];
        held += !task->ended && task->row.state == ROW_LEASED && task->row.session == delivery->session;
    }
    MUST(held <= client->prefetch);
}

/* ---- sessions from before a restart */

static bool has_come_back(const struct watch *watch, uint64_t session) {
    for (size_t i = 0; i < watch->resumed_count; i++) {
        if (watch->resumed[i] == session) return true;
    }
    return false;
}

static void note_lane(struct watch *watch, const struct flat *head, const struct core_lane *lane) {
    bool is_older = lane->session >> 32 != head->epoch;
    if (!lane->open || !is_older || has_come_back(watch, lane->session)) return;
    MUST(watch->resumed_count < WATCH_RESUMED_MAX);
    watch->resumed[watch->resumed_count++] = lane->session;
}

/* Checks sessions whose lane was closed and that got no other lane: the log must record the end of such a session. */
static void check_left(const struct watch *watch, const struct core_effects *effects) {
    for (size_t i = 0; i < effects->lanes.count; i++) {
        const struct core_lane *lane = &effects->lanes.items[i];
        bool is_moved = false;
        for (size_t k = i + 1; k < effects->lanes.count; k++) {
            is_moved |= effects->lanes.items[k].session == lane->session && effects->lanes.items[k].open;
        }
        if (!lane->open && !is_moved) who_left(&watch->who, lane->session);
    }
}

/* Checks that a leased task whose session was not resumed in time after a start is ready again. A task of a bound
 * session, whose consumers were connections of the former process, must be ready at once. */
static void check_claims(const struct world *world) {
    const struct flat *head = &world->host->head;
    const struct watch *watch = &world->host->watch;
    bool follows = world->host->node && (!world->host->node->writes || world->host->node->applier);
    const uint64_t now_ms = head->steady_ns / NS_PER_MS;
    if (follows || watch->stopping || now_ms <= watch->started_ms) return;
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct flat_task *task = &head->tasks[id];
        if (task->ended || task->row.state != ROW_LEASED) continue;
        bool is_claimed = task->row.session >> 32 == head->epoch || has_come_back(watch, task->row.session);
        bool is_bound = session_is_bound(task->row.session);
        bool is_early = now_ms <= watch->started_ms + CLAIM_AFTER_START_MS && !is_bound;
        bool is_held = session_is_pooled(task->row.session) &&
                       !is_bound; /* the lease stays, because a consumer of the pooled session has the task */
        MUST(is_claimed || is_held || is_early);
    }
}

void watch_step(struct world *world, const struct core_event *event, const struct core_effects *effects, size_t first,
                uint64_t before) {
    const struct flat *head = &world->host->head;
    if (event->kind == CORE_STOP) world->host->watch.stopping = true;
    if (event->kind == CORE_CREDIT) who_credit(&world->host->watch.who, event->lane.session, event->lane.credit);
    if (event->kind == CORE_RESUME) world->host->watch.stopping = false;
    for (size_t i = 0; i < effects->lanes.count; i++) note_lane(&world->host->watch, head, &effects->lanes.items[i]);
    check_left(&world->host->watch, effects);
    for (size_t i = first; i < effects->deliveries.count; i++) {
        check_order(&world->host->watch, head, &effects->deliveries.items[i], before);
        check_prefetch(world, &effects->deliveries.items[i], before);
    }
    if (world->host->steps % CLAIMS_EVERY == 0) check_claims(world);
}
