/* look_queues.c: read requests for queues and statistics. */
#include "client.h"

#include <stdlib.h>

struct queues_box {
    struct tarry_queues_view view; /* must be first: see tarry_queues_free */
    struct arena arena;
};

struct stats_box {
    struct tarry_stats_view view; /* must be first: see tarry_stats_free */
    struct tarry_broker_stats broker;
    struct tarry_pair_stats pair;
    struct arena arena;
};

/* Copies the options, and writes them into `wire`. */
static int take_wish(const tarry_client *client, struct tarry_call *out, const struct tarry_call *given,
                     Tarry__Request *wire, char out_message[TARRY_MESSAGE_SIZE]) {
    int rv = OPTIONS_TAKE(*out, given);
    if (rv == TARRY_OK) rv = call_wish(client, wire, out);
    return rv == TARRY_OK ? rv : message_say(out_message, rv);
}

int tarry_queues(tarry_client *client, const struct tarry_call *given, struct tarry_queues_view **out_view,
                 char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Queues body = TARRY__QUEUES__INIT;
    wire.body_case = TARRY__REQUEST__BODY_QUEUES;
    wire.queues = &body;
    struct call call;
    struct queues_box *box = NULL;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv != TARRY_OK) goto out;
    rv = call.reply->body_case == TARRY__REPLY__BODY_QUEUES ? TARRY_OK : message_say(out_message, TARRY_E_PROTOCOL);
    if (rv != TARRY_OK) goto out;
    const Tarry__QueuesReply *reply = call.reply->queues;
    struct tarry_queue_view *queues = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*queues));
    struct tarry_policy *policies = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*policies));
    const struct tarry_queue_view **listed = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*listed));
    box = calloc(1, sizeof(*box));
    if (box == NULL || queues == NULL || policies == NULL || listed == NULL) {
        free(box);
        rv = message_say(out_message, TARRY_E_NOMEM);
        goto out;
    }
    for (size_t i = 0; i < reply->n_queues; i++) {
        const Tarry__QueueView *from = reply->queues[i];
        queues[i] = (struct tarry_queue_view){
            .name = from->name,
            .policy = &policies[i],
            .paused = from->paused,
            .paused_until_ms = from->paused_until_ms,
            .pending = from->pending,
            .in_flight = from->in_flight,
            .dead = from->dead,
            .jobs = from->jobs,
        };
        policy_from_proto(from->policy, &policies[i]);
        listed[i] = &queues[i];
    }
    box->view = (struct tarry_queues_view){reply->n_queues, listed, source_of(call.reply)};
    call_keep(&call, &box->arena);
    *out_view = &box->view;
out:
    call_end(&call);
    return rv;
}

void tarry_queues_free(struct tarry_queues_view *view) {
    if (view == NULL) return;
    struct queues_box *box = (struct queues_box *)view;
    arena_deinit(&box->arena);
    free(box);
}

/* ---- stats */

static struct tarry_quantiles quantiles(const Tarry__Quantiles *from) {
    if (from == NULL) return (struct tarry_quantiles){0};
    return (struct tarry_quantiles){from->count, from->p50, from->p99, from->p999, from->max};
}

static void fill_queue(const Tarry__QueueStats *from, struct tarry_queue_stats *out) {
    *out = (struct tarry_queue_stats){
        .name = from->name,
        .pending = from->pending,
        .ready = from->ready,
        .ready_is_lower_bound = from->ready_is_lower_bound,
        .in_flight = from->in_flight,
        .dead = from->dead,
        .paused = from->paused,
        .paused_until_ms = from->paused_until_ms,
        .scheduled = from->scheduled,
        .cancelled = from->cancelled,
        .delivered = from->delivered,
        .acked = from->acked,
        .retried = from->retried,
        .expired = from->expired,
        .dropped = from->dropped,
        .parked = from->parked,
        .oldest_overdue_ms = from->oldest_overdue_ms,
        .lateness_ms = quantiles(from->lateness_ms),
        .jobs = from->jobs,
        .consumers = from->consumers,
    };
}

static void fill_broker(const Tarry__BrokerStats *from, struct tarry_broker_stats *out) {
    *out = (struct tarry_broker_stats){.version = "", .member = "", .archive_error = ""};
    if (from == NULL) return;
    *out = (struct tarry_broker_stats){
        .version = from->version,
        .epoch = from->epoch,
        .now_ms = from->now_ms,
        .uptime_ms = from->uptime_ms,
        .appended = from->appended,
        .durable = from->durable,
        .indexed = from->indexed,
        .log_start = from->log_start,
        .segments = from->segments,
        .log_bytes = from->log_bytes,
        .index_bytes = from->index_bytes,
        .near_tasks = from->near_tasks,
        .core_bytes = from->core_bytes,
        .core_bytes_max = from->core_bytes_max,
        .resident_bytes = from->resident_bytes,
        .sessions = from->sessions,
        .producers = from->producers,
        .live = from->live,
        .fsync_us = quantiles(from->fsync_us),
        .digest = from->digest,
        .clock_held = from->clock_held,
        .member = from->member,
        .erased = from->erased,
        .archived_segments = from->archived_segments,
        .archive_bytes = from->archive_bytes,
        .archive_oldest_ms = from->archive_oldest_ms,
        .archive_held = from->archive_held,
        .archive_error = from->archive_error,
        .disk_free_bytes = from->disk_free,
        .disk_size_bytes = from->disk_bytes,
        .signed_position = from->signed_position,
        .signed_ms = from->signed_ms,
        .host_ms = from->host_ms,
    };
}

static const struct tarry_pair_stats *fill_pair(const Tarry__StatsReply *reply, struct tarry_pair_stats *out) {
    const Tarry__PairStats *from = reply->broker != NULL ? reply->broker->pair : NULL;
    if (from == NULL) return NULL;
    *out = (struct tarry_pair_stats){
        .role = (enum tarry_role)from->role,
        .epoch = from->epoch,
        .in_sync = from->in_sync,
        .alone = from->alone,
        .committed = from->committed,
        .applied = from->applied,
        .lag_frames = from->lag_frames,
        .lag_size = from->lag_bytes,
        .lag_ms = from->lag_ms,
        .digest_position = from->digest_position,
        .compared_count = from->digests_compared,
        .copied_size = from->copied,
        .copy_size = from->copy_bytes,
        .left_ms = from->left_ms,
    };
    return out;
}

/* Converts the broker's statistics. Returns NULL if memory is used up. */
static const struct tarry_push_stats *const *fill_push(const Tarry__BrokerStats *from, struct arena *arena) {
    size_t count = from != NULL ? from->n_push : 0;
    struct tarry_push_stats *rows = arena_alloc(arena, (count + 1) * sizeof(*rows));
    const struct tarry_push_stats **listed = arena_alloc(arena, (count + 1) * sizeof(*listed));
    if (rows == NULL || listed == NULL) return NULL;
    for (size_t i = 0; i < count; i++) {
        const Tarry__PushTarget *row = from->push[i];
        rows[i] = (struct tarry_push_stats){
            .queue = row->queue,
            .in_flight = row->in_flight,
            .sent = row->sent,
            .acked = row->acked,
            .failed = row->failed,
            .refused = row->refused,
            .status = row->status,
            .succeeded_ms = row->succeeded_ms,
            .failed_ms = row->failed_ms,
            .error = row->error,
            .resting_until_ms = row->resting_until_ms,
            .url = row->url,
            .signs = row->signs,
        };
        listed[i] = &rows[i];
    }
    return listed;
}

int tarry_stats(tarry_client *client, const char *queue, const struct tarry_call *given,
                struct tarry_stats_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Stats body = TARRY__STATS__INIT;
    if (queue != NULL) body.queue = (char *)queue;
    wire.body_case = TARRY__REQUEST__BODY_STATS;
    wire.stats = &body;
    struct call call;
    struct stats_box *box = NULL;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv != TARRY_OK) goto out;
    rv = call.reply->body_case == TARRY__REPLY__BODY_STATS ? TARRY_OK : message_say(out_message, TARRY_E_PROTOCOL);
    if (rv != TARRY_OK) goto out;
    const Tarry__StatsReply *reply = call.reply->stats;
    struct tarry_queue_stats *queues = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*queues));
    const struct tarry_queue_stats **listed = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*listed));
    const struct tarry_push_stats *const *push = fill_push(reply->broker, &call.arena);
    box = calloc(1, sizeof(*box));
    if (box == NULL || queues == NULL || listed == NULL || push == NULL) {
        free(box);
        rv = message_say(out_message, TARRY_E_NOMEM);
        goto out;
    }
    for (size_t i = 0; i < reply->n_queues; i++) {
        fill_queue(reply->queues[i], &queues[i]);
        listed[i] = &queues[i];
    }
    box->view.count = reply->n_queues;
    box->view.queues = listed;
    box->view.source = source_of(call.reply);
    fill_broker(reply->broker, &box->broker);
    box->view.broker = &box->broker;
    box->view.pair = fill_pair(reply, &box->pair);
    box->view.push_count = reply->broker != NULL ? reply->broker->n_push : 0;
    box->view.push = push;
    call_keep(&call, &box->arena);
    *out_view = &box->view;
out:
    call_end(&call);
    return rv;
}

void tarry_stats_free(struct tarry_stats_view *view) {
    if (view == NULL) return;
    struct stats_box *box = (struct stats_box *)view;
    arena_deinit(&box->arena);
    free(box);
}

/* ---- jobs */

int tarry_job(tarry_client *client, const char *queue, uint64_t job, const struct tarry_call *given,
              struct tarry_job_view *out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || queue == NULL || job == 0 || out_view == NULL)
        return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Stats body = TARRY__STATS__INIT;
    body.queue = (char *)queue;
    body.job = job;
    wire.body_case = TARRY__REQUEST__BODY_STATS;
    wire.stats = &body;
    struct call call;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv == TARRY_OK && call.reply->body_case != TARRY__REPLY__BODY_STATS)
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    if (rv == TARRY_OK) {
        const Tarry__JobView *view = call.reply->stats->job;
        *out_view = (struct tarry_job_view){.known = view != NULL, .source = source_of(call.reply)};
        if (view != NULL) out_view->running = view->running, out_view->done = view->done, out_view->left = view->left;
    }
    call_end(&call);
    return rv;
}

/* ---- recurrences */

struct recur_box {
    struct tarry_recur_view view; /* must be first: see tarry_recur_free */
    struct arena arena;
};

static void fill_recur(const Tarry__RecurView *from, struct tarry_recur_view *out) {
    *out = (struct tarry_recur_view){
        .queue = from->queue,
        .name = from->name,
        .cron = from->cron,
        .rrule = from->rrule,
        .zone = from->zone,
        .every_ms = from->every_ms,
        .from_ms = from->from_ms,
        .until_ms = from->until_ms,
        .count = from->count,
        .jitter_ms = from->jitter_ms,
        .gap = from->gap,
        .fold = from->fold,
        .missed = from->missed,
        .overlap = from->overlap,
        .days = from->days,
        .state = from->state,
        .problem = from->problem,
        .next_ms = from->next_ms,
        .next_due_ms = from->next_due_ms,
        .next_id = from->next_id,
        .last_ms = from->last_ms,
        .occurrences = from->occurrences,
        .missed_count = from->missed_count,
        .skipped_count = from->skipped_count,
        .open = from->open,
        .tzdata = from->tzdata,
        .last_state = from->last_state,
        .last_ended_ms = from->last_ended_ms,
    };
}

/* Makes the view of the reply's recurrence. */
static int take_recur(struct call *call, struct tarry_recur_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    const Tarry__RecurrencesReply *reply = call->reply->recurrences;
    if (reply->n_recurrences == 0) {
        *out_view = NULL;
        return TARRY_OK;
    }
    const Tarry__RecurView *from = reply->recurrences[0];
    struct recur_box *box = calloc(1, sizeof(*box));
    uint64_t *times = arena_alloc(&call->arena, (from->n_times + 1) * sizeof(*times));
    if (box == NULL || times == NULL) {
        free(box);
        return message_say(out_message, TARRY_E_NOMEM);
    }
    fill_recur(from, &box->view);
    for (size_t i = 0; i < from->n_times; i++) times[i] = from->times[i]->at_ms;
    box->view.times = times;
    box->view.time_count = from->n_times;
    box->view.source = source_of(call->reply);
    call_keep(call, &box->arena);
    *out_view = &box->view;
    return TARRY_OK;
}

int tarry_recur_get(tarry_client *client, const char *queue, const char *name, uint32_t times,
                    const struct tarry_call *given, struct tarry_recur_view **out_view,
                    char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || queue == NULL || name == NULL || out_view == NULL)
        return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Recurrences body = TARRY__RECURRENCES__INIT;
    body.queue = (char *)queue;
    body.name = (char *)name;
    body.times = times;
    wire.body_case = TARRY__REQUEST__BODY_RECURRENCES;
    wire.recurrences = &body;
    struct call call;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv == TARRY_OK && call.reply->body_case != TARRY__REPLY__BODY_RECURRENCES)
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    if (rv == TARRY_OK) rv = take_recur(&call, out_view, out_message);
    call_end(&call);
    return rv;
}

void tarry_recur_free(struct tarry_recur_view *view) {
    if (view == NULL) return;
    struct recur_box *box = (struct recur_box *)view;
    arena_deinit(&box->arena);
    free(box);
}
