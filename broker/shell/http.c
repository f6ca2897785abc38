/* http.c: see http.h. A page that needs the core asks as a call like any other. */
#include "http.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gateway_host.h"
#include "logfmt.h"
#include "shell.h"
#include "stats.h"

/* Scrapes under way at once. */
#define METRICS_MAX 8
#define METRICS_ARENA_MAX (1u << 20)

struct metrics_call {
    struct call call; /* first */
    struct shell *shell;
    uint64_t to; /* connection */
    struct arena arena;
    Tarry__Request request;
    Tarry__Stats stats;
};

static _Atomic unsigned metrics_busy;

static void respond(struct shell *shell, uint64_t to, uint16_t status, const char *type, const void *body,
                    size_t size) {
    struct message *page = message_new(size);
    if (page != NULL) {
        page->status = status;
        page->type = type;
        memcpy(page->bytes, body, size);
    }
    door_page(shell->door, to, page);
}

static void healthz(struct shell *shell, uint64_t to) {
    bool stopping = atomic_load(&shell->stopping);
    respond(shell, to, stopping ? 503 : 200, "text/plain", stopping ? "stopping\n" : "ok\n", stopping ? 9 : 3);
}

/* The answer to a Stats request, turned into text. */
static void metrics_answer(struct call *call, struct message *message) {
    struct metrics_call *metrics = (struct metrics_call *)call;
    size_t size = 0;
    char *text = NULL;
    if (message != NULL) {
        Tarry__Reply *reply = tarry__reply__unpack(NULL, message->size, message->bytes);
        if (reply != NULL && reply->body_case == TARRY__REPLY__BODY_STATS) text = stats_text(reply->stats, &size);
        if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
        message_free(message);
    }
    if (text != NULL)
        respond(metrics->shell, metrics->to, 200, "text/plain; version=0.0.4", text, size);
    else
        respond(metrics->shell, metrics->to, 503, "text/plain", "unavailable\n", 12);
    free(text);
    arena_deinit(&metrics->arena);
    free(metrics);
    atomic_fetch_sub(&metrics_busy, 1);
}

static void metrics(struct shell *shell, uint64_t to) {
    struct metrics_call *metrics = NULL;
    if (atomic_fetch_add(&metrics_busy, 1) < METRICS_MAX && !atomic_load(&shell->stopping))
        metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL) {
        atomic_fetch_sub(&metrics_busy, 1);
        respond(shell, to, 503, "text/plain", "busy\n", 5);
        return;
    }
    struct errand *errand = &metrics->call.errand;
    metrics->shell = shell;
    metrics->to = to;
    tarry__request__init(&metrics->request);
    tarry__stats__init(&metrics->stats);
    metrics->request.version = WIRE_VERSION;
    metrics->request.body_case = TARRY__REQUEST__BODY_STATS;
    metrics->request.stats = &metrics->stats;
    metrics->call.answer = metrics_answer;
    errand->item.kind = ITEM_CALL;
    errand->hold = -1;
    arena_init(&metrics->arena, METRICS_ARENA_MAX);
    errand->arena = &metrics->arena;
    errand->event =
        (struct core_event){.kind = CORE_STATS, .request = &metrics->request, .ticket = call_ticket(&metrics->call)};
    inbox_post(&shell->inbox, &errand->item);
}

/* ---- what the door calls */

static void on_served(void *argument) {
    lone_served(argument);
}

static bool on_page(void *argument, uint64_t id, const char *path) {
    if (strcmp(path, "/healthz") == 0)
        healthz(argument, id);
    else if (strcmp(path, "/metrics") == 0)
        metrics(argument, id);
    else
        return false;
    return true;
}

static struct caller_verdict on_admit(void *argument, const struct net_caller *caller) {
    return authorizer_admit(&((struct shell *)argument)->authorizer, caller);
}

static void on_dismiss(void *argument, uint64_t principal) {
    authorizer_dismiss(principal);
}

static bool on_stays(void *argument, uint64_t principal) {
    return authorizer_stays(&((struct shell *)argument)->authorizer, principal);
}

static bool on_request(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request) {
    return rpc_request(&((struct shell *)argument)->rpc, from, principal, peer, request);
}

static bool on_counts(void *argument, uint64_t principal, size_t before, size_t after) {
    return authorizer_take_bytes(&((struct shell *)argument)->authorizer, principal_of(principal), before, after);
}

static struct message *on_refusal(void *argument, bool is_principals) {
    return rpc_refusal(is_principals);
}

static uint64_t on_lane_asks(void *argument, uint32_t lane, const char *authorization) {
    return lanes_ask(&((struct shell *)argument)->lanes, lane, authorization);
}

static bool on_lane_up(void *argument, uint32_t lane, uint64_t holder, uint64_t id) {
    return lanes_up(&((struct shell *)argument)->lanes, lane, holder, id);
}

static void on_lane_gone(void *argument, uint32_t lane, uint64_t id) {
    lanes_gone(&((struct shell *)argument)->lanes, lane, id);
}

static bool on_lane_leaves(void *argument, uint32_t lane, uint64_t turn) {
    return lanes_leave(&((struct shell *)argument)->lanes, lane, turn);
}

static void on_lane_sent(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp) {
    lanes_sent(&((struct shell *)argument)->lanes, lane, turn, left, stamp);
}

static void on_inside(void *argument, uint64_t id, const struct message *message, bool is_delivery) {
    gateway_inside(((struct shell *)argument)->gateway, id, message, is_delivery);
}

static void on_resumed(void *argument) {
    gateway_resumed(((struct shell *)argument)->gateway);
}

static void on_alarm(void *argument) {
    gateway_alarm(((struct shell *)argument)->gateway);
}

static void on_refused(void *argument, const char *peer, unsigned status, const char *sentence) {
    static struct logfmt_limit limit;
    char quoted[LOGFMT_VALUE_SIZE];
    if (logfmt_allowed(&limit))
        logfmt("http_refused", "from=%s status=%u reason=%s", peer, status, logfmt_quote(sentence, quoted));
}

static void on_trouble(void *argument, const char *text) {
    static struct logfmt_limit limit;
    char quoted[LOGFMT_VALUE_SIZE];
    if (logfmt_allowed(&limit)) logfmt("door_trouble", "reason=%s", logfmt_quote(text, quoted));
}

struct door_calls http_calls(struct shell *shell) {
    return (struct door_calls){
        .argument = shell,
        .admit = on_admit,
        .dismiss = on_dismiss,
        .stays = on_stays,
        .request = on_request,
        .counts = on_counts,
        .refusal = on_refusal,
        .lane_asks = on_lane_asks,
        .lane_up = on_lane_up,
        .lane_gone = on_lane_gone,
        .lane_leaves = on_lane_leaves,
        .lane_sent = on_lane_sent,
        .page = on_page,
        .served = on_served,
        .inside = on_inside,
        .resumed = on_resumed,
        .alarm = on_alarm,
        .refused = on_refused,
        .trouble = on_trouble,
    };
}
