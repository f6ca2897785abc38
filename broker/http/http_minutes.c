/* http_minutes.c: GET /v1/minutes: what the broker did in each of the last 1,440 minutes, over all queues. The broker
 * asks itself for its statistics once a minute, and keeps the differences in a ring of fixed size. A restart empties
 * the ring. Each node of a pair keeps its own. */
#include <stddef.h>
#include <stdlib.h>

#include "durations.h"
#include "http_exchange.h"

#define MINUTE_MS 60000u
#define MINUTES_KEPT 1440u
#define CLIENT "minutes"

/* X(name): a member of QueueStats that only grows. A minute's record contains the growth during the minute. */
#define COUNTERS(X) X(scheduled) X(delivered) X(acked) X(retried)
/* X(name): a member of QueueStats that is a number of tasks. A minute's record contains the value at the minute's
 * end. */
#define LEVELS(X) X(pending) X(ready) X(in_flight) X(dead)

struct totals {
#define FIELD(name) uint64_t name;
    COUNTERS(FIELD)
    LEVELS(FIELD)
#undef FIELD
    uint64_t lateness[DURATION_BUCKETS];
    uint64_t syncs[DURATION_BUCKETS];
    uint64_t at_ms; /* wall clock */
};

struct minute {
#define FIELD(name) uint32_t name;
    COUNTERS(FIELD)
    LEVELS(FIELD)
#undef FIELD
    uint32_t lateness[DURATION_BUCKETS];
    uint32_t syncs[DURATION_BUCKETS];
    uint64_t at_ms; /* wall clock at the minute's end */
};

struct http_minutes {
    struct gateway *gateway;
    struct totals last; /* previous sample; its at_ms is 0 before the first sample */
    uint64_t count;     /* number of minutes so far; the newest one is at (count - 1) % MINUTES_KEPT */
    struct minute minutes[MINUTES_KEPT];
};

static void add_durations(uint64_t sums[DURATION_BUCKETS], const Tarry__Durations *durations) {
    for (size_t i = 0; durations != NULL && i < DURATION_BUCKETS && i < durations->n_counts; i++)
        sums[i] += durations->counts[i];
}

static void add_up(struct totals *totals, const Tarry__StatsReply *stats) {
    *totals = (struct totals){.at_ms = stats->broker->now_ms};
    for (size_t i = 0; i < stats->n_queues; i++) {
        const Tarry__QueueStats *queue = stats->queues[i];
#define ADD(name) totals->name += queue->name;
        COUNTERS(ADD)
        LEVELS(ADD)
#undef ADD
        add_durations(totals->lateness, queue->lateness);
    }
    add_durations(totals->syncs, stats->broker->syncs);
}

/* Returns the growth of a sum over all queues; 0 if the sum has shrunk, because the counts of a deleted queue are no
 * longer part of it. */
static uint32_t growth(uint64_t now, uint64_t before) {
    uint64_t grown = now > before ? now - before : 0;
    return grown < UINT32_MAX ? (uint32_t)grown : UINT32_MAX;
}

static void record(struct http_minutes *minutes, const struct totals *now) {
    const struct totals *before = &minutes->last;
    if (before->at_ms != 0) {
        struct minute *minute = &minutes->minutes[minutes->count++ % MINUTES_KEPT];
#define GROW(name) minute->name = growth(now->name, before->name);
        COUNTERS(GROW)
#undef GROW
#define COPY(name) minute->name = growth(now->name, 0);
        LEVELS(COPY)
#undef COPY
        for (size_t i = 0; i < DURATION_BUCKETS; i++) {
            minute->lateness[i] = growth(now->lateness[i], before->lateness[i]);
            minute->syncs[i] = growth(now->syncs[i], before->syncs[i]);
        }
        minute->at_ms = now->at_ms;
    }
    minutes->last = *now;
}

static void on_stats(void *argument, const Tarry__Reply *reply) {
    struct http_minutes *minutes = argument;
    struct totals now;
    if (reply == NULL || reply->code != TARRY__CODE__OK || reply->stats == NULL)
        return; /* no sample now, so the next minute will contain the growth of two minutes */
    add_up(&now, reply->stats);
    record(minutes, &now);
}

static void on_timer(void *argument) {
    struct http_minutes *minutes = argument;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    struct gateway_caller caller = {.principal = gateway_own(minutes->gateway), .peer = "", .client = CLIENT};
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    (void)gateway_ask(minutes->gateway, &caller, &request, on_stats, minutes);
    gateway_disown(minutes->gateway, caller.principal);
    (void)gateway_timer(minutes->gateway, MINUTE_MS, on_timer, minutes);
}

struct http_minutes *http_minutes_new(struct gateway *gateway) {
    struct http_minutes *minutes = calloc(1, sizeof(*minutes));
    if (minutes != NULL) minutes->gateway = gateway;
    return minutes;
}

void http_minutes_start(struct http_minutes *minutes) {
    (void)gateway_timer(minutes->gateway, 1, on_timer, minutes);
}

void http_minutes_free(struct http_minutes *minutes) {
    free(minutes);
}

/* ---- the answer: one array for each number, oldest minute first */

static const struct minute *nth(const struct http_minutes *minutes, uint64_t i) {
    return &minutes->minutes[i % MINUTES_KEPT];
}

static void write_histograms(struct text *out, const struct http_minutes *minutes, uint64_t first, size_t offset) {
    out_begin(out, '[');
    for (uint64_t i = first; i < minutes->count; i++) {
        const uint32_t *counts = (const uint32_t *)((const char *)nth(minutes, i) + offset);
        out_comma(out);
        out_begin(out, '[');
        for (size_t j = 0; j < DURATION_BUCKETS; j++) {
            out_comma(out);
            text_add_u64(out, counts[j]);
        }
        out_end(out, ']');
    }
    out_end(out, ']');
}

/* Returns whether the principal may see the sums of all queues. */
static bool may_see_all(struct http_exchange *exchange) {
    struct gateway_who caller;
    gateway_who(exchange->server->gateway, &exchange->caller, &caller);
    if (caller.may_look && !caller.is_confined) return true;
    http_refuse(
        exchange, 403, http_code_of(403),
        "the minutes count all queues: they need the role read, operate or admin without a limit to some queues");
    return false;
}

void handle_minutes(struct http_exchange *exchange) {
    const struct http_minutes *minutes = exchange->server->minutes;
    const uint64_t first = minutes->count > MINUTES_KEPT ? minutes->count - MINUTES_KEPT : 0;
    struct text out = HTTP_TEXT;
    if (!http_parameters_only(exchange, "") || !may_see_all(exchange)) return;
    out_begin(&out, '{');
#define WRITE(name)                                                                                                    \
    out_key(&out, #name);                                                                                              \
    out_begin(&out, '[');                                                                                              \
    for (uint64_t i = first; i < minutes->count; i++) {                                                                \
        out_comma(&out);                                                                                               \
        text_add_u64(&out, nth(minutes, i)->name);                                                                     \
    }                                                                                                                  \
    out_end(&out, ']');
    WRITE(at_ms)
    COUNTERS(WRITE)
    LEVELS(WRITE)
#undef WRITE
    out_key(&out, "lateness");
    write_histograms(&out, minutes, first, offsetof(struct minute, lateness));
    out_key(&out, "syncs");
    write_histograms(&out, minutes, first, offsetof(struct minute, syncs));
    out_end(&out, '}');
    http_respond(exchange, 200, &out);
}
