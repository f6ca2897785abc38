/* stats.c: see stats.h. */
#include "stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shell.h"

static uint64_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long size, resident = 0;
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* `numbers` lives as long as `out`. */
static void stats_archive(struct shell *shell, Tarry__BrokerStats *out, struct archive_numbers *numbers) {
    archive_count_read(&shell->archivist.count, numbers);
    out->archived_segments = numbers->segments;
    out->archive_bytes = numbers->bytes;
    out->archive_oldest_ms = numbers->oldest_ms;
    out->archive_held = numbers->held;
    out->archive_error = numbers->failure;
}

/* Likewise. */
static void stats_access(struct shell *shell, Tarry__BrokerStats *out, struct authorizer_numbers *numbers) {
    authorizer_numbers(&shell->authorizer, numbers);
    out->tokens = numbers->tokens;
    out->token_failures = numbers->failures;
    out->denied = numbers->denied;
    out->limited = numbers->limited;
    out->token_problem = numbers->problem;
}

Tarry__BrokerStats *stats_broker(struct shell *shell, struct arena *arena, bool clock_held) {
    Tarry__BrokerStats *out = arena_alloc(arena, sizeof(*out));
    Tarry__Quantiles *fsync_us = arena_alloc(arena, sizeof(*fsync_us));
    char *member = arena_alloc(arena, MEMBER_TEXT_SIZE);
    struct archive_numbers *numbers = arena_alloc(arena, sizeof(*numbers));
    struct authorizer_numbers *access = arena_alloc(arena, sizeof(*access));
    if (out == NULL || fsync_us == NULL || member == NULL || numbers == NULL || access == NULL) return NULL;
    tarry__broker_stats__init(out);
    tarry__quantiles__init(fsync_us);
    latency_quantiles(&shell->fsync_us, fsync_us);
    struct log_stats log;
    struct index_stats index;
    log_stats(shell->log, &log);
    index_stats(shell->index, &index);
    uint64_t now_ms = instant_ms(clock_now(&shell->clock, NULL));
    out->version = (char *)TARRY_VERSION;
    out->epoch = atomic_load(&shell->epoch);
    out->now_ms = now_ms;
    out->uptime_ms = now_ms > shell->started_ms ? now_ms - shell->started_ms : 0; /* a pair's clock may be set back */
    out->durable = log_durable(shell->log);
    out->indexed = index_position(shell->index);
    out->erased = index_erased(shell->index);
    out->log_start = log_start(shell->log);
    out->segments = log.segments;
    out->log_bytes = log.bytes;
    out->index_bytes = index.bytes_file;
    out->resident_bytes = resident_bytes();
    out->fsync_us = fsync_us;
    out->clock_held = clock_held;
    stats_archive(shell, out, numbers);
    stats_access(shell, out, access);
    member_format(shell->dir.member.id, member);
    out->member = member;
    return out;
}

/* A label value: quotes, backslashes and line feeds escaped. */
static void put_label(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            fputs("\\n", out);
            continue;
        }
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

static void put_metric(FILE *out, const char *name, const char *type) {
    fprintf(out, "# TYPE tarry_%s %s\n", name, type);
}

static void put_quantiles(FILE *out, const char *name, const char *queue, const Tarry__Quantiles *quantiles) {
    if (quantiles == NULL) return;
    const double values[] = {quantiles->p50, quantiles->p99, quantiles->p999, quantiles->max};
    static const char *const shares[] = {"0.5", "0.99", "0.999", "1"};
    for (size_t i = 0; i < 4; i++) {
        fprintf(out, "tarry_%s{", name);
        if (queue != NULL) {
            fputs("queue=\"", out);
            put_label(out, queue);
            fputs("\",", out);
        }
        fprintf(out, "quantile=\"%s\"} %g\n", shares[i], values[i]);
    }
}

#define QUEUE_METRICS(X)                                                                                               \
    X(pending, "gauge")                                                                                                \
    X(ready, "gauge")                                                                                                  \
    X(in_flight, "gauge")                                                                                              \
    X(dead, "gauge")                                                                                                   \
    X(oldest_overdue_ms, "gauge")                                                                                      \
    X(scheduled, "counter")                                                                                            \
    X(cancelled, "counter")                                                                                            \
    X(delivered, "counter")                                                                                            \
    X(acked, "counter")                                                                                                \
    X(retried, "counter")                                                                                              \
    X(expired, "counter")                                                                                              \
    X(dropped, "counter")

#define BROKER_METRICS(X)                                                                                              \
    X(uptime_ms, "counter")                                                                                            \
    X(appended, "counter")                                                                                             \
    X(durable, "counter")                                                                                              \
    X(indexed, "counter")                                                                                              \
    X(segments, "gauge")                                                                                               \
    X(log_bytes, "gauge")                                                                                              \
    X(archived_segments, "gauge")                                                                                      \
    X(archive_bytes, "gauge")                                                                                          \
    X(archive_oldest_ms, "gauge")                                                                                      \
    X(archive_held, "gauge")                                                                                           \
    X(index_bytes, "gauge")                                                                                            \
    X(near_tasks, "gauge")                                                                                             \
    X(core_bytes, "gauge")                                                                                             \
    X(core_bytes_max, "gauge")                                                                                         \
    X(resident_bytes, "gauge")                                                                                         \
    X(sessions, "gauge")                                                                                               \
    X(producers, "gauge")                                                                                              \
    X(live, "gauge")                                                                                                   \
    X(tokens, "gauge")                                                                                                 \
    X(token_failures, "counter")                                                                                       \
    X(denied, "counter")                                                                                               \
    X(limited, "counter")

#define PAIR_METRICS(X)                                                                                                \
    X(primary, "gauge")                                                                                                \
    X(in_sync, "gauge")                                                                                                \
    X(committed, "counter")                                                                                            \
    X(applied, "counter")                                                                                              \
    X(lag_frames, "gauge")                                                                                             \
    X(lag_bytes, "gauge")                                                                                              \
    X(lag_ms, "gauge")                                                                                                 \
    X(copied, "gauge")                                                                                                 \
    X(copy_bytes, "gauge")                                                                                             \
    X(left_ms, "gauge")                                                                                                \
    X(role, "gauge")                                                                                                   \
    X(epoch, "gauge")                                                                                                  \
    X(alone, "gauge")                                                                                                  \
    X(alone_ms, "gauge")                                                                                               \
    X(digest_position, "counter")                                                                                      \
    X(digests_compared, "counter")

static void put_pair(FILE *out, const Tarry__PairStats *pair) {
#define X(field, type)                                                                                                 \
    put_metric(out, "pair_" #field, type);                                                                             \
    fprintf(out, "tarry_pair_" #field " %" PRIu64 "\n", (uint64_t)pair->field);
    PAIR_METRICS(X)
#undef X
}

static void put_queues(FILE *out, const Tarry__StatsReply *stats) {
#define X(field, type)                                                                                                 \
    put_metric(out, "queue_" #field, type);                                                                            \
    for (size_t i = 0; i < stats->n_queues; i++) {                                                                     \
        fputs("tarry_queue_" #field "{queue=\"", out);                                                                 \
        put_label(out, stats->queues[i]->name);                                                                        \
        fprintf(out, "\"} %" PRIu64 "\n", (uint64_t)stats->queues[i]->field);                                          \
    }
    QUEUE_METRICS(X)
#undef X
    put_metric(out, "queue_lateness_ms", "summary");
    for (size_t i = 0; i < stats->n_queues; i++)
        put_quantiles(out, "queue_lateness_ms", stats->queues[i]->name, stats->queues[i]->lateness_ms);
}

char *stats_text(const Tarry__StatsReply *stats, size_t *out_size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, out_size);
    if (out == NULL) return NULL;
    const Tarry__BrokerStats *broker = stats->broker;
    if (broker != NULL) {
#define X(field, type)                                                                                                 \
    put_metric(out, #field, type);                                                                                     \
    fprintf(out, "tarry_" #field " %" PRIu64 "\n", (uint64_t)broker->field);
        BROKER_METRICS(X)
#undef X
        if (broker->pair != NULL) put_pair(out, broker->pair);
        put_metric(out, "clock_held", "gauge");
        fprintf(out, "tarry_clock_held %d\n", broker->clock_held ? 1 : 0);
        put_metric(out, "archive_failing", "gauge");
        fprintf(out, "tarry_archive_failing %d\n", broker->archive_error[0] != '\0' ? 1 : 0);
        put_metric(out, "tokens_wrong", "gauge");
        fprintf(out, "tarry_tokens_wrong %d\n", broker->token_problem[0] != '\0' ? 1 : 0);
        put_metric(out, "fsync_us", "summary");
        put_quantiles(out, "fsync_us", NULL, broker->fsync_us);
    }
    put_queues(out, stats);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
