/* http_live.c: GET /v1/stats?follow=true: changing statistics of the queues and the broker as server-sent events (the
 * HTML standard, 9.2), for web pages. Each event is an object on one line:
 *
 *   event: stats
 *   data: {"status": {…}, "broker": {…}, "all": true, "queues": [ … ]}
 *
 * An event contains the queues that have changed since the last event. If `all` is true, the event contains every
 * queue; a queue that is missing no longer exists. An event is made every HTTP_LIVE_EVERY_MS, but only if less than
 * HTTP_UNSENT_MAX bytes of earlier events are unsent. So a slow reader gets fewer events. Each event is a new
 * request of the stream's principal, so it shows only what the principal may see at that moment. A revoked
 * permission ends the stream (door_review). */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "http_exchange.h"

static const char text_stream[] = "text/event-stream";

struct live_row {
    uint64_t name; /* hash of the queue's name with a secret `key`, so that clients cannot choose names whose hashes
                      collide */
    uint64_t content;
};

struct http_live {
    uint8_t key[crypto_shorthash_KEYBYTES];
    struct live_row *rows; /* rows of the queues in the last event, in the same order */
    size_t count;
    size_t capacity;
};

static uint64_t hash(const struct http_live *live, const void *bytes, size_t size) {
    uint64_t out;
    _Static_assert(sizeof(out) == crypto_shorthash_BYTES, "SipHash-2-4");
    crypto_shorthash((unsigned char *)&out, bytes, size, live->key);
    return out;
}

void http_live_end(struct http_exchange *exchange) {
    struct http_live *live = exchange->live;
    if (live == NULL) return;
    exchange->server->live_count--;
    exchange->live = NULL;
    free(live->rows);
    free(live);
}

/* Allocates memory for `count` queues, and counts it as memory of the request. */
static bool grow(struct http_exchange *exchange, size_t count) {
    struct http_live *live = exchange->live;
    if (count <= live->capacity) return true;
    size_t capacity = count + count / 4, size = capacity * sizeof(struct live_row);
    if (!http_keep(exchange, size)) return false;
    struct live_row *rows = realloc(live->rows, size);
    if (rows == NULL) return false;
    live->rows = rows;
    live->capacity = capacity;
    return true;
}

/* Returns whether the list of queues begins with the queues of the last event in the same order. More queues may
 * follow. */
static bool goes_on(const struct http_live *live, const Tarry__StatsReply *stats) {
    if (live->count == 0 || stats->n_queues < live->count) return false;
    for (size_t i = 0; i < live->count; i++) {
        const char *name = stats->queues[i]->name;
        if (hash(live, name, strlen(name)) != live->rows[i].name) return false;
    }
    return true;
}

static void write_queues(struct http_live *live, struct text *out, const Tarry__StatsReply *stats) {
    const bool is_all = !goes_on(live, stats);
    const size_t known = is_all ? 0 : live->count;
    out_bool(out, "all", is_all);
    out_key(out, "queues");
    out_begin(out, '[');
    for (size_t i = 0; i < stats->n_queues && !out->failed; i++) {
        const Tarry__QueueStats *queue = stats->queues[i];
        const size_t before = out->size;
        out_comma(out);
        const size_t from = out->size;
        json_message(out, &queue->base);
        if (out->failed) break;
        const struct live_row row = {.name = hash(live, queue->name, strlen(queue->name)),
                                     .content = hash(live, out->data + from, out->size - from)};
        if (i < known && row.content == live->rows[i].content) text_cut(out, before);
        live->rows[i] = row;
    }
    live->count = stats->n_queues;
    out_end(out, ']');
}

static void live_go_on(struct http_exchange *exchange);

static void on_time(void *argument) {
    struct http_exchange *exchange = argument;
    exchange->timer = 0;
    live_go_on(exchange);
}

static void live_wait(struct http_exchange *exchange) {
    exchange->timer = gateway_timer(exchange->server->gateway, HTTP_LIVE_EVERY_MS, on_time, exchange);
    if (exchange->timer == 0) http_stream_end(exchange);
}

/* Returns false for an OK reply. Otherwise handles the reply and returns true. Before the stream begins, the request is
 * refused. During the stream, a busy broker is asked again after a delay, and any other reply ends the stream. */
static bool is_over(struct http_exchange *exchange, const Tarry__Reply *reply) {
    if (reply != NULL && reply->code == TARRY__CODE__OK) return false;
    if (!exchange->is_stream) return http_refused(exchange, reply);
    http_text_drop(&exchange->out);
    if (reply == NULL || reply->code == TARRY__CODE__BUSY)
        live_wait(exchange);
    else
        http_stream_end(exchange);
    return true;
}

static void on_stats(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text *out = &exchange->out;
    if (is_over(exchange, reply)) return;
    if (!grow(exchange, reply->stats->n_queues)) {
        if (exchange->is_stream)
            http_stream_end(exchange);
        else
            http_refuse_memory(exchange);
        return;
    }
    if (!exchange->is_stream) http_stream_begin(exchange, text_stream);
    if (exchange->head.method == HEAD_HEAD) {
        http_stream_end(exchange);
        return;
    }
    out_key(out, "broker");
    if (reply->stats->broker != NULL)
        json_message(out, &reply->stats->broker->base);
    else
        text_add_str(out, "{}");
    write_queues(exchange->live, out, reply->stats);
    text_add_str(out, "}\n\n");
    if (http_stream_write(exchange, out))
        live_wait(exchange);
    else
        exchange->on_drained = live_wait;
}

static void on_status(struct http_exchange *exchange, const Tarry__Reply *reply) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    struct text *out = &exchange->out;
    if (is_over(exchange, reply)) return;
    text_add_str(out, "event: stats\ndata: {");
    out_key(out, "status");
    json_message(out, &reply->pair->base);
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    http_ask(exchange, &request, on_stats);
}

static void live_go_on(struct http_exchange *exchange) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Pair pair = TARRY__PAIR__INIT;
    request.body_case = TARRY__REQUEST__BODY_PAIR;
    request.pair = &pair;
    http_ask(exchange, &request, on_status);
}

void http_live_begin(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    if (server->live_count >= HTTP_LIVE_MAX) {
        http_refuse(exchange, 503, "busy",
                    "the broker serves at most 64 live statistics streams (HTTP_LIVE_MAX): close one first");
        return;
    }
    exchange->live = calloc(1, sizeof(*exchange->live));
    if (exchange->live == NULL) {
        http_refuse_memory(exchange);
        return;
    }
    server->live_count++;
    crypto_shorthash_keygen(exchange->live->key);
    live_go_on(exchange);
}
