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

/* Unit of a number: unchanged, or in seconds converted from milliseconds. */
enum unit { AS_IT_IS, FROM_MS };

static void put_number(FILE *out, uint64_t value, enum unit unit) {
    if (unit == FROM_MS)
        fprintf(out, "%" PRIu64 ".%03u\n", value / 1000, (unsigned)(value % 1000));
    else
        fprintf(out, "%" PRIu64 "\n", value);
}

/* ---- single metrics: X(name, type, unit, value, help); `b` is BrokerStats, `p` is PairStats */

#define BROKER_METRICS(X)                                                                                              \
    X("uptime_seconds", "gauge", FROM_MS, b->uptime_ms, "How long this process has run.")                              \
    X("epoch", "gauge", AS_IT_IS, b->epoch, "The broker's epoch: it grows with each start as primary.")                \
    X("live_tasks", "gauge", AS_IT_IS, b->live, "Tasks that wait or are in flight, in all queues.")                    \
    X("near_tasks", "gauge", AS_IT_IS, b->near_tasks, "Tasks that are held in memory.")                                \
    X("sessions", "gauge", AS_IT_IS, b->sessions, "Consumers.")                                                        \
    X("producers", "gauge", AS_IT_IS, b->producers, "Producers whose answers are remembered.")                         \
    X("core_memory_bytes", "gauge", AS_IT_IS, b->core_bytes, "Memory that tasks take.")                                \
    X("core_memory_limit_bytes", "gauge", AS_IT_IS, b->core_bytes_max, "Memory that tasks may take.")                  \
    X("resident_memory_bytes", "gauge", AS_IT_IS, b->resident_bytes, "Resident memory of the process.")                \
    X("log_appended_bytes_total", "counter", AS_IT_IS, b->appended, "The log's end: a position in bytes.")             \
    X("log_durable_bytes_total", "counter", AS_IT_IS, b->durable, "Up to where the log is on disk.")                   \
    X("log_indexed_bytes_total", "counter", AS_IT_IS, b->indexed, "Up to where the log is in the index.")              \
    X("log_segments", "gauge", AS_IT_IS, b->segments, "Segments of the log.")                                          \
    X("log_size_bytes", "gauge", AS_IT_IS, b->log_bytes, "The log's files.")                                           \
    X("index_size_bytes", "gauge", AS_IT_IS, b->index_bytes, "The index's file.")                                      \
    X("archive_segments", "gauge", AS_IT_IS, b->archived_segments, "Segments in the archive.")                         \
    X("archive_size_bytes", "gauge", AS_IT_IS, b->archive_bytes, "The archive's files.")                               \
    X("archive_oldest_timestamp_seconds", "gauge", FROM_MS, b->archive_oldest_ms,                                      \
      "When the archive's oldest segment ended; 0: there is none.")                                                    \
    X("archive_held_segments", "gauge", AS_IT_IS, b->archive_held, "Archived segments that a hold keeps.")             \
    X("archive_failing", "gauge", AS_IT_IS, b->archive_error[0] != '\0', "1: nothing can be archived just now.")       \
    X("disk_free_bytes", "gauge", AS_IT_IS, b->disk_free, "What the data directory's file system has left.")           \
    X("disk_size_bytes", "gauge", AS_IT_IS, b->disk_bytes, "The data directory's file system.")                        \
    X("clock_held", "gauge", AS_IT_IS, b->clock_held ? 1 : 0, "1: the clock has jumped, and absolute times wait.")     \
    X("signed_bytes_total", "counter", AS_IT_IS, b->signed_position, "Up to where the log is signed.")                 \
    X("signed_timestamp_seconds", "gauge", FROM_MS, b->signed_ms, "When the last head was signed; 0: never.")          \
    X("tokens", "gauge", AS_IT_IS, b->tokens, "Rows of the file of tokens.")                                           \
    X("tokens_wrong", "gauge", AS_IT_IS, b->token_problem[0] != '\0', "1: the file of tokens cannot be read.")         \
    X("token_failures_total", "counter", AS_IT_IS, b->token_failures, "Wrong, expired and missing tokens.")            \
    X("denied_total", "counter", AS_IT_IS, b->denied, "What was refused for want of a role or a queue.")               \
    X("limited_total", "counter", AS_IT_IS, b->limited, "What was refused for a limit of the principal's.")

#define PAIR_METRICS(X)                                                                                                \
    X("pair_primary", "gauge", AS_IT_IS, p->primary ? 1 : 0, "1: this node leads.")                                    \
    X("pair_role", "gauge", AS_IT_IS, p->role,                                                                         \
      "1 primary, 2 follower, 3 looking, 4 promoting, 5 handing over, 6 copying.")                                     \
    X("pair_epoch", "gauge", AS_IT_IS, p->epoch, "The epoch that this node leads or follows.")                         \
    X("pair_in_sync", "gauge", AS_IT_IS, p->in_sync ? 1 : 0, "1: what is acknowledged is durable on both.")            \
    X("pair_alone", "gauge", AS_IT_IS, p->alone ? 1 : 0,                                                               \
      "1: the primary has acknowledged without the follower since they were last in sync.")                            \
    X("pair_alone_seconds", "gauge", FROM_MS, p->alone_ms,                                                             \
      "For how long what is acknowledged has been on the primary's disk alone; 0: it is not.")                         \
    X("pair_committed_bytes_total", "counter", AS_IT_IS, p->committed, "Up to where the log is committed.")            \
    X("pair_applied_bytes_total", "counter", AS_IT_IS, p->applied, "Up to where answers show the log.")                \
    X("pair_lag_frames", "gauge", AS_IT_IS, p->lag_frames, "Frames of the log that the follower lacks.")               \
    X("pair_lag_bytes", "gauge", AS_IT_IS, p->lag_bytes, "Bytes of the log that the follower lacks.")                  \
    X("pair_lag_seconds", "gauge", FROM_MS, p->lag_ms, "The age of the oldest frame that the follower lacks.")         \
    X("pair_copied_bytes", "gauge", AS_IT_IS, p->copied, "What the follower has fetched of a snapshot.")               \
    X("pair_copy_bytes", "gauge", AS_IT_IS, p->copy_bytes, "That snapshot's size; 0: it fetches none.")                \
    X("pair_left_seconds", "gauge", FROM_MS, p->left_ms, "About so long until the follower has what it lacks.")        \
    X("pair_digest_position_bytes", "gauge", AS_IT_IS, p->digest_position,                                             \
      "Where the states of both were compared last, and equal.")                                                       \
    X("pair_digests_compared_total", "counter", AS_IT_IS, p->digests_compared, "Comparisons of both states.")

static void put_pair(FILE *out, const Tarry__PairStats *p) {
#define X(name, type, unit, value, help)                                                                               \
    put_head(out, name, type, help);                                                                                   \
    fputs("tarry_" name " ", out);                                                                                     \
    put_number(out, (uint64_t)(value), unit);
    PAIR_METRICS(X)
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
    put_head(out, "build_info", "gauge", "1; its label says which version this is.");
    fputs("tarry_build_info{version=\"", out);
    put_value(out, b->version);
    fputs("\"} 1\n", out);
    BROKER_METRICS(X)
#undef X
    put_head(out, "log_sync_duration_seconds", "histogram", "How long the log's way to the disk took.");
    put_histogram(out, "log_sync_duration_seconds", NULL, b->syncs);
    put_head(out, "call_duration_seconds", "histogram", "How long requests took, from arrival to answer.");
    put_histogram(out, "call_duration_seconds", NULL, b->calls);
    if (b->pair != NULL) put_pair(out, b->pair);
}

/* ---- queues: X(name, type, unit, field, help) */

#define QUEUE_STATES(X) X(pending) X(ready) X(in_flight) X(dead)

#define QUEUE_COUNTERS(X)                                                                                              \
    X("scheduled_total", scheduled, "Tasks scheduled.")                                                                \
    X("cancelled_total", cancelled, "Tasks cancelled.")                                                                \
    X("delivered_total", delivered, "Deliveries.")                                                                     \
    X("acked_total", acked, "Tasks acknowledged.")                                                                     \
    X("retried_total", retried, "Tasks that wait again after a failed attempt.")                                       \
    X("expired_total", expired, "Tasks that expired.")                                                                 \
    X("dropped_total", dropped, "Dead letters thrown away.")

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
    put_head(out, "queue_oldest_overdue_seconds", "gauge", "How long the oldest ready task has been due; 0: none.");
    for (size_t i = 0; i < count; i++)
        put_queue_gauge(out, queues[i], "oldest_overdue_seconds", queues[i]->oldest_overdue_ms, FROM_MS);
    put_head(out, "queue_paused", "gauge", "1: an operator has paused the queue.");
    for (size_t i = 0; i < count; i++) put_queue_gauge(out, queues[i], "paused", queues[i]->paused ? 1 : 0, AS_IT_IS);
#define X(name, field, help)                                                                                           \
    put_head(out, "queue_" name, "counter", help);                                                                     \
    for (size_t i = 0; i < count; i++) put_queue_gauge(out, queues[i], name, queues[i]->field, AS_IT_IS);
    QUEUE_COUNTERS(X)
#undef X
    put_head(out, "queue_lateness_seconds", "histogram", "How late deliveries were, behind their due times.");
    for (size_t i = 0; i < count; i++)
        put_histogram(out, "queue_lateness_seconds", queues[i]->name, queues[i]->lateness);
}

/* ---- queues with webhooks, at most PUSH_QUEUES_MAX: X(name, type, unit, field, help) */
#define PUSH_METRICS(X)                                                                                                \
    X("push_requests_in_flight", "gauge", AS_IT_IS, in_flight, "Webhook requests on their way.")                       \
    X("push_requests_total", "counter", AS_IT_IS, sent, "Webhook requests that have ended.")                           \
    X("push_acked_total", "counter", AS_IT_IS, acked, "Webhook requests that were answered with 2xx.")                 \
    X("push_failed_total", "counter", AS_IT_IS, failed, "Webhook requests answered otherwise, or not at all.")         \
    X("push_refused_total", "counter", AS_IT_IS, refused, "Of the failed ones, those answered with 410.")              \
    X("push_last_status", "gauge", AS_IT_IS, status, "HTTP status of the last request; 0: it had no answer.")          \
    X("push_succeeded_timestamp_seconds", "gauge", FROM_MS, succeeded_ms, "The last success; 0: none.")                \
    X("push_failed_timestamp_seconds", "gauge", FROM_MS, failed_ms, "The last failure; 0: none.")                      \
    X("push_resting_until_timestamp_seconds", "gauge", FROM_MS, resting_until_ms, "Nothing is sent before; 0: it is.")

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
    put_head(out, "queues_left_out", "gauge", "Queues without series of their own, the youngest: there are too many.");
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
    put_head(out, "lateness_seconds", "histogram", "How late deliveries of all queues were, behind their due times.");
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
