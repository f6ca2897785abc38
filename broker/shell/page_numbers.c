/* page_numbers.c: see page_numbers.h. */
#include "page_numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Beside what JSON wants, what HTML would take for markup, though nobody is to take this for HTML. */
static void put_text(FILE *out, const char *name, const char *text) {
    fprintf(out, ",\"%s\":\"", name);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_counts(FILE *out, const char *name, const Tarry__Durations *durations) {
    fprintf(out, ",\"%s\":[", name);
    for (size_t i = 0; durations != NULL && i < durations->n_counts; i++)
        fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", durations->counts[i]);
    fputc(']', out);
}

#define NUMBER(out, name, value) fprintf(out, ",\"" name "\":%" PRIu64, (uint64_t)(value))
#define FLAG(out, name, value) fprintf(out, ",\"" name "\":%s", (value) ? "true" : "false")
#define X(of, field) NUMBER(out, #field, (of)->field);

#define BROKER_FIELDS(X, b)                                                                                            \
    X(b, epoch)                                                                                                        \
    X(b, uptime_ms)                                                                                                    \
    X(b, durable)                                                                                                      \
    X(b, indexed)                                                                                                      \
    X(b, segments)                                                                                                     \
    X(b, log_bytes)                                                                                                    \
    X(b, index_bytes)                                                                                                  \
    X(b, core_bytes)                                                                                                   \
    X(b, core_bytes_max)                                                                                               \
    X(b, resident_bytes)                                                                                               \
    X(b, sessions)                                                                                                     \
    X(b, archive_bytes)                                                                                                \
    X(b, disk_free)                                                                                                    \
    X(b, disk_bytes)                                                                                                   \
    X(b, signed_position)                                                                                              \
    X(b, signed_ms)
#define QUEUE_FIELDS(X, q)                                                                                             \
    X(q, ready) X(q, in_flight) X(q, dead) X(q, scheduled) X(q, cancelled) X(q, delivered) X(q, acked) X(q, retried)
#define PAIR_FIELDS(X, p) X(p, role) X(p, epoch) X(p, since_ms)
#define PEER_FIELDS(X, p) X(p, lag_frames) X(p, lag_bytes) X(p, lag_ms)

static void put_broker(FILE *out, const Tarry__BrokerStats *broker) {
    fprintf(out, ",\"broker\":{\"digest\":\"%016" PRIx64 "\"", broker->digest);
    BROKER_FIELDS(X, broker)
    put_text(out, "version", broker->version);
    put_text(out, "archive_error", broker->archive_error);
    FLAG(out, "clock_held", broker->clock_held);
    put_counts(out, "syncs", broker->syncs);
    fputc('}', out);
}

static void put_queue(FILE *out, const Tarry__QueueStats *queue) {
    fprintf(out, "{\"pending\":%" PRIu64, queue->pending);
    QUEUE_FIELDS(X, queue)
    NUMBER(out, "overdue_ms", queue->oldest_overdue_ms);
    put_text(out, "name", queue->name);
    FLAG(out, "paused", queue->paused);
    FLAG(out, "ready_is_lower_bound", queue->ready_is_lower_bound);
    put_counts(out, "lateness", queue->lateness);
    fputc('}', out);
}

static void put_pair(FILE *out, const Tarry__PairReply *pair) {
    static const Tarry__PairPeer nobody = TARRY__PAIR_PEER__INIT;
    const Tarry__PairPeer *peer = pair->peer != NULL ? pair->peer : &nobody;
    fputs(",\"pair\":{\"known\":true", out);
    PAIR_FIELDS(X, pair)
    PEER_FIELDS(X, peer)
    NUMBER(out, "compared_ms", pair->digest != NULL ? pair->digest->compared_ms : 0);
    put_text(out, "primary", pair->primary);
    put_text(out, "peer", peer->url);
    put_text(out, "coordinator", pair->coordinator);
    put_text(out, "problem", pair->problem);
    FLAG(out, "in_sync", pair->in_sync);
    fputc('}', out);
}

char *page_numbers(const Tarry__StatsReply *stats, const Tarry__PairReply *pair, size_t *out_size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, out_size);
    if (out == NULL) return NULL;
    fprintf(out, "{\"now_ms\":%" PRIu64, stats->broker != NULL ? stats->broker->now_ms : 0);
    if (stats->broker != NULL) put_broker(out, stats->broker);
    if (pair != NULL) put_pair(out, pair);
    fputs(",\"queues\":[", out);
    for (size_t i = 0; i < stats->n_queues; i++) {
        if (i > 0) fputc(',', out);
        put_queue(out, stats->queues[i]);
    }
    fputs("]}", out);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
