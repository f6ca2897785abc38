/* metrics.c: see metrics.h. */
#include "metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Writes a label's value, with quotes, backslashes and newlines escaped. */
static void put_value(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            fputs("\\n", out);
            continue;
        }
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

static void put_head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP tarry_%s %s\n# TYPE tarry_%s %s\n", name, help, name, type);
}

/* How a number is printed: unchanged, or as seconds (the number is in milliseconds). */
enum unit { AS_IT_IS, FROM_MS };

static void put_number(FILE *out, uint64_t value, enum unit unit) {
    if (unit == FROM_MS)
        fprintf(out, "%" PRIu64 ".%03u\n", value / 1000, (unsigned)(value % 1000));
    else
        fprintf(out, "%" PRIu64 "\n", value);
}

/* ---- single metrics: X(name, type, unit, value, help); `b` is BrokerStats, `p` is PairStats */

#define BROKER_METRICS(X)                                                                                              \
    X("uptime_seconds", "gauge", FROM_MS, b->uptime_ms, "Seconds since this process started.")                         \
    X("epoch", "gauge", AS_IT_IS, b->epoch, "The broker's epoch; it grows with each start as primary.")                \
    X("live_tasks", "gauge", AS_IT_IS, b->live,                                                                        \
      "Tasks of all queues that are waiting or in flight; dead letters do not count.")                                 \
    X("near_tasks", "gauge", AS_IT_IS, b->near_tasks, "Tasks in memory.")                                              \
    X("sessions", "gauge", AS_IT_IS, b->sessions, "Connected consumers.")                                              \
    X("producers", "gauge", AS_IT_IS, b->producers, "Producers whose replies the broker remembers.")                   \
    X("recurrences", "gauge", AS_IT_IS, b->recurrences, "Recurring tasks.")                                            \
    X("recurrences_stuck", "gauge", AS_IT_IS, b->recurrences_stuck,                                                    \
      "Recurring tasks whose next occurrence cannot be computed.")                                                     \
    X("occurrences_total", "counter", AS_IT_IS, b->occurrences,                                                        \
      "Occurrences of recurring tasks that fell due since this node became the primary.")                              \
    X("occurrences_missed_total", "counter", AS_IT_IS, b->occurrences_missed,                                          \
      "Occurrences that were missed, because no broker served.")                                                       \
    X("occurrences_skipped_total", "counter", AS_IT_IS, b->occurrences_skipped,                                        \
      "Occurrences that were skipped, because an earlier one had not ended.")                                          \
    X("core_memory_bytes", "gauge", AS_IT_IS, b->core_bytes, "Memory that tasks use, in bytes.")                       \
    X("core_memory_limit_bytes", "gauge", AS_IT_IS, b->core_bytes_max, "Memory that tasks may use, in bytes.")         \
    X("resident_memory_bytes", "gauge", AS_IT_IS, b->resident_bytes, "Resident memory of the process, in bytes.")      \
    X("log_appended_bytes_total", "counter", AS_IT_IS, b->appended, "Log position of the log's end, in bytes.")        \
    X("log_durable_bytes_total", "counter", AS_IT_IS, b->durable, "Log position up to which the log is durable.")      \
    X("log_indexed_bytes_total", "counter", AS_IT_IS, b->indexed,                                                      \
      "Log position up to which the index has absorbed the log.")                                                      \
    X("log_segments", "gauge", AS_IT_IS, b->segments, "Number of log segments.")                                       \
    X("log_size_bytes", "gauge", AS_IT_IS, b->log_bytes, "Size of the log's files, in bytes.")                         \
    X("index_size_bytes", "gauge", AS_IT_IS, b->index_bytes, "Size of the index's file, in bytes.")                    \
    X("archive_segments", "gauge", AS_IT_IS, b->archived_segments, "Number of archived segments.")                     \
    X("archive_size_bytes", "gauge", AS_IT_IS, b->archive_bytes, "Size of the archive's files, in bytes.")             \
    X("archive_oldest_timestamp_seconds", "gauge", FROM_MS, b->archive_oldest_ms,                                      \
      "Unix time at which the archive's oldest segment ended; 0: the archive is empty.")                               \
    X("archive_held_segments", "gauge", AS_IT_IS, b->archive_held,                                                     \
      "Number of archived segments that a hold protects.")                                                             \
    X("archive_failing", "gauge", AS_IT_IS, b->archive_error[0] != '\0', "1: the broker cannot archive segments.")     \
    X("disk_free_bytes", "gauge", AS_IT_IS, b->disk_free, "Free bytes of the data directory's file system.")           \
    X("disk_size_bytes", "gauge", AS_IT_IS, b->disk_bytes, "Size of the data directory's file system, in bytes.")      \
    X("clock_held", "gauge", AS_IT_IS, b->clock_held ? 1 : 0,                                                          \
      "1: the wall clock has jumped, and tasks with absolute due times wait.")                                         \
    X("signed_bytes_total", "counter", AS_IT_IS, b->signed_position, "Log position up to which the log is signed.")    \
    X("signed_timestamp_seconds", "gauge", FROM_MS, b->signed_ms,                                                      \
      "Unix time at which the last head was signed; 0: never.")                                                        \
    X("tokens", "gauge", AS_IT_IS, b->tokens, "Number of rows in the file of tokens.")                                 \
    X("tokens_wrong", "gauge", AS_IT_IS, b->token_problem[0] != '\0', "1: the file of tokens cannot be read.")         \
    X("token_failures_total", "counter", AS_IT_IS, b->token_failures,                                                  \
      "Refused attempts with a wrong, an expired or no token.")                                                        \
    X("denied_total", "counter", AS_IT_IS, b->denied,                                                                  \
      "Requests that were refused because the principal lacks a role or may not use the queue.")                       \
    X("limited_total", "counter", AS_IT_IS, b->limited,                                                                \
      "Requests that were refused because the principal reached a limit.")

#define PAIR_METRICS(X)                                                                                                \
    X("pair_primary", "gauge", AS_IT_IS, p->primary ? 1 : 0, "1: this node leads.")                                    \
    X("pair_role", "gauge", AS_IT_IS, p->role,                                                                         \
      "Role of this node: 1 primary, 2 follower, 3 looking for a leader, 4 promoting, 5 handing over, 6 copying.")     \
    X("pair_epoch", "gauge", AS_IT_IS, p->epoch, "Epoch that this node leads or follows.")                             \
    X("pair_in_sync", "gauge", AS_IT_IS, p->in_sync ? 1 : 0, "1: acknowledged changes are durable on both nodes.")     \
    X("pair_alone", "gauge", AS_IT_IS, p->alone ? 1 : 0,                                                               \
      "1: the primary has acknowledged changes without the follower since they were last in sync.")                    \
    X("pair_alone_seconds", "gauge", FROM_MS, p->alone_ms,                                                             \
      "Seconds since acknowledged changes are only on the primary's disk; 0: they are on both disks.")                 \
    X("pair_committed_bytes_total", "counter", AS_IT_IS, p->committed,                                                 \
      "Log position up to which the log is committed.")                                                                \
    X("pair_applied_bytes_total", "counter", AS_IT_IS, p->applied, "Log position up to which replies show the log.")   \
    X("pair_lag_frames", "gauge", AS_IT_IS, p->lag_frames, "Number of log frames that the follower lacks.")            \
    X("pair_lag_bytes", "gauge", AS_IT_IS, p->lag_bytes, "Number of log bytes that the follower lacks.")               \
    X("pair_lag_seconds", "gauge", FROM_MS, p->lag_ms,                                                                 \
      "Age of the oldest log frame that the follower lacks, in seconds.")                                              \
    X("pair_copied_bytes", "gauge", AS_IT_IS, p->copied, "Bytes of a snapshot that the follower has fetched.")         \
    X("pair_copy_bytes", "gauge", AS_IT_IS, p->copy_bytes,                                                             \
      "Size of the snapshot that the follower fetches, in bytes; 0: none.")                                            \
    X("pair_left_seconds", "gauge", FROM_MS, p->left_ms, "Estimated seconds until the follower has caught up.")        \
    X("pair_digest_position_bytes", "gauge", AS_IT_IS, p->digest_position,                                             \
      "Log position of the last comparison at which the states of both nodes were equal.")                             \
    X("pair_digests_compared_total", "counter", AS_IT_IS, p->digests_compared,                                         \
      "Number of comparisons of the states of both nodes.")

static void put_pair(FILE *out, const Tarry__PairStats *p) {
#define X(name, type, unit, value, help)                                                                               \
    put_head(out, name, type, help);                                                                                   \
    fputs("tarry_" name " ", out);                                                                                     \
    put_number(out, (uint64_t)(value), unit);
    PAIR_METRICS(X)
}

#define AMQP_METRICS(X)                                                                                                \
    X("amqp_connections", "gauge", AS_IT_IS, a->connections, "Open AMQP connections.")                                 \
    X("amqp_channels", "gauge", AS_IT_IS, a->channels, "Open channels of all AMQP connections.")                       \
    X("amqp_consumers", "gauge", AS_IT_IS, a->consumers, "Consumers of all AMQP channels.")                            \
    X("amqp_blocked_connections", "gauge", AS_IT_IS, a->blocked,                                                       \
      "AMQP connections whose publishes wait because the broker has no capacity.")                                     \
    X("amqp_exchanges", "gauge", AS_IT_IS, a->exchanges, "Declared AMQP exchanges, including the predeclared ones.")   \
    X("amqp_queues", "gauge", AS_IT_IS, a->queues, "Declared AMQP queues.")                                            \
    X("amqp_bindings", "gauge", AS_IT_IS, a->bindings, "Bindings of AMQP exchanges.")

static void put_amqp(FILE *out, const Tarry__AmqpStats *a) {
    AMQP_METRICS(X)
}

/* ---- histograms */

/* Writes `NAME_bucket{queue="Q",le="…"}` and the like; `queue` NULL: without that label. */
static void put_sample(FILE *out, const char *name, const char *part, const char *queue, const char *bound) {
    fprintf(out, "tarry_%s_%s", name, part);
    if (queue == NULL && bound == NULL) return;
    fputc('{', out);
    if (queue != NULL) {
        fputs("queue=\"", out);
        put_value(out, queue);
        fputs(bound != NULL ? "\"," : "\"", out);
    }
    if (bound != NULL) fprintf(out, "le=\"%s\"", bound);
    fputc('}', out);
}

static void put_histogram(FILE *out, const char *name, const char *queue, const Tarry__Durations *durations) {
#define Y(us, seconds) seconds,
    static const char *const bounds[DURATION_BUCKETS] = {DURATION_BOUNDS(Y) "+Inf"};
#undef Y
    uint64_t count = 0;
    for (size_t i = 0; i < DURATION_BUCKETS; i++) {
        if (durations != NULL && i < durations->n_counts) count += durations->counts[i];
        put_sample(out, name, "bucket", queue, bounds[i]);
        fprintf(out, " %" PRIu64 "\n", count);
    }
    const uint64_t sum_us = durations != NULL ? durations->sum_us : 0;
    put_sample(out, name, "sum", queue, NULL);
    fprintf(out, " %" PRIu64 ".%06u\n", sum_us / 1000000, (unsigned)(sum_us % 1000000));
    put_sample(out, name, "count", queue, NULL);
    fprintf(out, " %" PRIu64 "\n", count);
}

static void put_broker(FILE *out, const Tarry__BrokerStats *b) {
    put_head(out, "build_info", "gauge", "Always 1; the label contains the version.");
    fputs("tarry_build_info{version=\"", out);
    put_value(out, b->version);
    fputs("\"} 1\n", out);
    BROKER_METRICS(X)
#undef X
    put_head(out, "log_sync_duration_seconds", "histogram", "Duration of syncing the log to disk, in seconds.");
    put_histogram(out, "log_sync_duration_seconds", NULL, b->syncs);
    put_head(out, "call_duration_seconds", "histogram", "Duration of requests from arrival to reply, in seconds.");
    put_histogram(out, "call_duration_seconds", NULL, b->calls);
    if (b->pair != NULL) put_pair(out, b->pair);
    if (b->amqp != NULL) put_amqp(out, b->amqp);
}

/* ---- queues: X(name, type, unit, field, help) */

#define QUEUE_STATES(X) X(pending) X(ready) X(in_flight) X(dead)

#define QUEUE_COUNTERS(X)                                                                                              \
    X("scheduled_total", scheduled, "Tasks scheduled.")                                                                \
    X("cancelled_total", cancelled, "Tasks cancelled, withdrawn, replaced or purged.")                                 \
    X("delivered_total", delivered, "Deliveries.")                                                                     \
    X("acked_total", acked, "Tasks acknowledged.")                                                                     \
    X("retried_total", retried, "Nacks after which the task waits again.")                                             \
    X("expired_total", expired, "Tasks that expired.")                                                                 \
    X("dropped_total", dropped, "Dead letters dropped.")

static void put_queue_label(FILE *out, const Tarry__QueueStats *queue) {
    fputs("{queue=\"", out);
    put_value(out, queue->name);
    fputc('"', out);
}

static void put_queue_gauge(FILE *out, const Tarry__QueueStats *queue, const char *name, uint64_t value,
                            enum unit unit) {
    fprintf(out, "tarry_queue_%s", name);
    put_queue_label(out, queue);
    fputs("} ", out);
    put_number(out, value, unit);
}

static void put_queues(FILE *out, Tarry__QueueStats *const *queues, size_t count) {
    put_head(out, "queue_tasks", "gauge", "Tasks of a queue by state: pending, ready, in_flight, dead.");
    for (size_t i = 0; i < count; i++) {
#define X(state)                                                                                                       \
    fputs("tarry_queue_tasks", out);                                                                                   \
    put_queue_label(out, queues[i]);                                                                                   \
    fprintf(out, ",state=\"" #state "\"} %" PRIu64 "\n", queues[i]->state);
        QUEUE_STATES(X)
#undef X
    }
    put_head(out, "queue_oldest_overdue_seconds", "gauge",
             "Seconds since the oldest ready task was due; 0: no task is ready.");
    for (size_t i = 0; i < count; i++)
        put_queue_gauge(out, queues[i], "oldest_overdue_seconds", queues[i]->oldest_overdue_ms, FROM_MS);
    put_head(out, "queue_parked", "gauge",
             "Ready tasks that wait until no other task of their serial name is in flight.");
    for (size_t i = 0; i < count; i++) put_queue_gauge(out, queues[i], "parked", queues[i]->parked, AS_IT_IS);
    put_head(out, "queue_consumers", "gauge", "Connected consumers of a queue.");
    for (size_t i = 0; i < count; i++) put_queue_gauge(out, queues[i], "consumers", queues[i]->consumers, AS_IT_IS);
    put_head(out, "queue_paused", "gauge", "1: an operator has paused the queue.");
    for (size_t i = 0; i < count; i++) put_queue_gauge(out, queues[i], "paused", queues[i]->paused ? 1 : 0, AS_IT_IS);
#define X(name, field, help)                                                                                           \
    put_head(out, "queue_" name, "counter", help);                                                                     \
    for (size_t i = 0; i < count; i++) put_queue_gauge(out, queues[i], name, queues[i]->field, AS_IT_IS);
    QUEUE_COUNTERS(X)
#undef X
    put_head(out, "queue_lateness_seconds", "histogram", "Time from the due time to the delivery, in seconds.");
    for (size_t i = 0; i < count; i++)
        put_histogram(out, "queue_lateness_seconds", queues[i]->name, queues[i]->lateness);
}

/* ---- queues with webhooks, at most PUSH_QUEUES_MAX: X(name, type, unit, field, help) */
#define PUSH_METRICS(X)                                                                                                \
    X("push_requests_in_flight", "gauge", AS_IT_IS, in_flight, "Webhook requests in progress.")                        \
    X("push_requests_total", "counter", AS_IT_IS, sent, "Webhook requests that have ended, successful or not.")        \
    X("push_acked_total", "counter", AS_IT_IS, acked, "Webhook requests with a 2xx response.")                         \
    X("push_failed_total", "counter", AS_IT_IS, failed,                                                                \
      "Failed webhook requests: the response was not 2xx, or there was none.")                                         \
    X("push_refused_total", "counter", AS_IT_IS, refused, "Failed webhook requests with a 410 response.")              \
    X("push_last_status", "gauge", AS_IT_IS, status,                                                                   \
      "HTTP status of the last webhook response; 0: the last request had no response.")                                \
    X("push_succeeded_timestamp_seconds", "gauge", FROM_MS, succeeded_ms,                                              \
      "Unix time of the last successful webhook request; 0: none.")                                                    \
    X("push_failed_timestamp_seconds", "gauge", FROM_MS, failed_ms,                                                    \
      "Unix time of the last failed webhook request; 0: none.")                                                        \
    X("push_resting_until_timestamp_seconds", "gauge", FROM_MS, resting_until_ms,                                      \
      "Unix time before which the broker sends no webhook request, because it backs off; 0: it does not back off.")

static void put_pushed(FILE *out, Tarry__PushTarget *const *targets, size_t count) {
#define X(name, type, unit, field, help)                                                                               \
    put_head(out, name, type, help);                                                                                   \
    for (size_t i = 0; i < count; i++) {                                                                               \
        fputs("tarry_" name "{queue=\"", out);                                                                         \
        put_value(out, targets[i]->queue);                                                                             \
        fputs("\"} ", out);                                                                                            \
        put_number(out, targets[i]->field, unit);                                                                      \
    }
    PUSH_METRICS(X)
#undef X
}

/* Writes the sums over all queues, including those without series of their own. */
static void put_sums(FILE *out, const Tarry__StatsReply *stats, size_t shown) {
    put_head(out, "queues", "gauge", "Queues.");
    fprintf(out, "tarry_queues %zu\n", stats->n_queues);
    put_head(out, "queues_left_out", "gauge",
             "Number of queues that have no series of their own, because there are too many queues.");
    fprintf(out, "tarry_queues_left_out %zu\n", stats->n_queues - shown);
    put_head(out, "tasks", "gauge", "Tasks of all queues by state: pending, ready, in_flight, dead.");
    uint64_t sum;
#define SUM(field)                                                                                                     \
    sum = 0;                                                                                                           \
    for (size_t i = 0; i < stats->n_queues; i++) sum += stats->queues[i]->field;
#define X(state)                                                                                                       \
    SUM(state)                                                                                                         \
    fprintf(out, "tarry_tasks{state=\"" #state "\"} %" PRIu64 "\n", sum);
    QUEUE_STATES(X)
#undef X
#define X(name, field, help)                                                                                           \
    put_head(out, "tasks_" name, "counter", help);                                                                     \
    SUM(field)                                                                                                         \
    fprintf(out, "tarry_tasks_" name " %" PRIu64 "\n", sum);
    QUEUE_COUNTERS(X)
#undef X
#undef SUM
}

static void put_all_lateness(FILE *out, const Tarry__StatsReply *stats) {
    uint64_t counts[DURATION_BUCKETS] = {0};
    Tarry__Durations all = TARRY__DURATIONS__INIT;
    all.counts = counts;
    all.n_counts = DURATION_BUCKETS;
    for (size_t i = 0; i < stats->n_queues; i++) {
        const Tarry__Durations *one = stats->queues[i]->lateness;
        if (one == NULL) continue;
        for (size_t j = 0; j < DURATION_BUCKETS && j < one->n_counts; j++) counts[j] += one->counts[j];
        all.sum_us += one->sum_us;
    }
    put_head(out, "lateness_seconds", "histogram",
             "Time from the due time to the delivery, for all queues, in seconds.");
    put_histogram(out, "lateness_seconds", NULL, &all);
}

char *metrics_text(const Tarry__StatsReply *stats, size_t *out_size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, out_size);
    if (out == NULL) return NULL;
    const size_t shown = stats->n_queues < METRICS_QUEUES_MAX ? stats->n_queues : METRICS_QUEUES_MAX;
    if (stats->broker != NULL) put_broker(out, stats->broker);
    put_sums(out, stats, shown);
    put_all_lateness(out, stats);
    put_queues(out, stats->queues, shown);
    if (stats->broker != NULL && stats->broker->n_push > 0) put_pushed(out, stats->broker->push, stats->broker->n_push);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
