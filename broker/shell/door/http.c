/* http.c: see http.h. A page with data from the core sends a request to the core thread, as a client does. */
#include "http.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authorizer.h"
#include "call.h"
#include "gateway_host.h"
#include "inbox.h"
#include "lanes.h"
#include "logfmt.h"
#include "lone.h"
#include "metrics.h"
#include "page.h"
#include "rpc.h"
#include "run.h"

/* Maximum number of concurrent requests for /metrics. */
#define NUMBERS_MAX 8
#define NUMBERS_ARENA_MAX (1u << 20)

/* A request for the statistics. */
struct numbers_call {
    struct call call; /* must be the first member */
    const struct http_needs *needs;
    uint64_t to; /* id of the connection that gets the metrics */
    struct arena arena;
    Tarry__Request request;
    Tarry__Stats stats;
};

static _Atomic unsigned numbers_busy;

static void respond(const struct http_needs *needs, uint64_t to, uint16_t status, const char *type, const void *body,
                    size_t size) {
    struct message *page = message_new(size);
    if (page != NULL) {
        page->status = status;
        page->type = type;
        memcpy(page->bytes, body, size);
    }
    door_page(needs->door, to, page);
}

static void readyz(const struct http_needs *needs, uint64_t to) {
    char buffer[READINESS_TEXT_SIZE], text[READINESS_TEXT_SIZE + 2];
    const char *problem = readiness_problem(&needs->readiness, buffer);
    int size = snprintf(text, sizeof(text), "%s\n", problem != NULL ? problem : "ready");
    respond(needs, to, problem != NULL ? 503 : 200, "text/plain", text, (size_t)size);
}

/* Sends the metrics. `message` NULL: the statistics are not available now. */
static void stats_told(struct call *call, struct message *message) {
    struct numbers_call *numbers = (struct numbers_call *)call;
    Tarry__Reply *reply = message != NULL ? tarry__reply__unpack(NULL, message->size, message->bytes) : NULL;
    char *text = NULL;
    size_t size = 0;
    message_free(message);
    if (reply != NULL && reply->body_case == TARRY__REPLY__BODY_STATS) text = metrics_text(reply->stats, &size);
    if (text != NULL)
        respond(numbers->needs, numbers->to, 200, METRICS_TYPE, text, size);
    else
        respond(numbers->needs, numbers->to, 503, "text/plain", "unavailable\n", 12);
    free(text);
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
    arena_deinit(&numbers->arena);
    free(numbers);
    atomic_fetch_sub(&numbers_busy, 1);
}

static void numbers(const struct http_needs *needs, uint64_t to) {
    struct numbers_call *numbers = NULL;
    if (atomic_fetch_add(&numbers_busy, 1) < NUMBERS_MAX && !atomic_load(&needs->run->stopping))
        numbers = calloc(1, sizeof(*numbers));
    if (numbers == NULL) {
        atomic_fetch_sub(&numbers_busy, 1);
        respond(needs, to, 503, "text/plain", "busy\n", 5);
        return;
    }
    struct engine_request *engine_request = &numbers->call.engine_request;
    numbers->needs = needs;
    numbers->to = to;
    tarry__request__init(&numbers->request);
    tarry__stats__init(&numbers->stats);
    numbers->request.version = WIRE_VERSION;
    numbers->request.body_case = TARRY__REQUEST__BODY_STATS;
    numbers->request.stats = &numbers->stats;
    numbers->call.answer = stats_told;
    engine_request->item.kind = ITEM_CALL;
    engine_request->hold = -1;
    arena_init(&numbers->arena, NUMBERS_ARENA_MAX);
    engine_request->arena = &numbers->arena;
    engine_request->event =
        (struct core_event){.kind = CORE_REQUEST,
                            .request = {.ticket = call_ticket(&numbers->call), .message = &numbers->request}};
    inbox_post(needs->inbox, &engine_request->item);
}

/* ---- callbacks of the door */

static const struct http_needs *needs_of(void *argument) {
    return argument;
}

static void on_served(void *argument) {
    lone_served(needs_of(argument)->lone);
}

static bool on_page(void *argument, uint64_t id, const char *path) {
    if (strcmp(path, "/healthz") == 0)
        respond(argument, id, 200, "text/plain", "ok\n", 3);
    else if (strcmp(path, "/readyz") == 0)
        readyz(argument, id);
    else if (strcmp(path, "/metrics") == 0)
        numbers(argument, id);
    else if (strcmp(path, "/") == 0)
        respond(argument, id, 200, PAGE_TYPE, page_html, page_html_size);
    else
        return false;
    return true;
}

static struct caller_verdict on_admit(void *argument, const struct net_caller *caller) {
    return authorizer_admit(needs_of(argument)->authorizer, caller);
}

static void on_dismiss(void *argument, uint64_t principal, uint64_t id) {
    authorizer_dismiss(principal);
    rpc_gone(needs_of(argument)->rpc, id);
}

static bool on_stays(void *argument, uint64_t principal) {
    return authorizer_stays(needs_of(argument)->authorizer, principal);
}

static bool on_request(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request) {
    return rpc_request(needs_of(argument)->rpc, from, principal, peer, request);
}

static bool on_counts(void *argument, uint64_t principal, size_t before, size_t after) {
    return authorizer_take_bytes(needs_of(argument)->authorizer, principal_of(principal), before, after);
}

static struct message *on_refusal(void *argument, bool is_principals) {
    return rpc_refusal(is_principals);
}

static uint64_t on_lane_asks(void *argument, uint32_t lane, const char *authorization) {
    return lanes_ask(needs_of(argument)->lanes, lane, authorization);
}

static struct message *on_lane_ticket(void *argument, const uint8_t *ticket, size_t size) {
    Tarry__Delivery delivery = TARRY__DELIVERY__INIT;
    (void)argument;
    delivery.ticket = (ProtobufCBinaryData){size, (uint8_t *)ticket};
    struct message *message = message_new(tarry__delivery__get_packed_size(&delivery));
    if (message != NULL) tarry__delivery__pack(&delivery, message->bytes);
    return message;
}

static bool on_lane_up(void *argument, uint32_t lane, uint64_t holder, uint64_t id) {
    return lanes_up(needs_of(argument)->lanes, lane, holder, id);
}

static void on_lane_gone(void *argument, uint32_t lane, uint64_t id) {
    lanes_gone(needs_of(argument)->lanes, lane, id);
}

static bool on_lane_leaves(void *argument, uint32_t lane, uint64_t turn) {
    return lanes_leave(needs_of(argument)->lanes, lane, turn);
}

static void on_lane_sent(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp) {
    lanes_sent(needs_of(argument)->lanes, lane, turn, left, stamp);
}

static void on_inside(void *argument, uint64_t id, const struct message *message, bool is_delivery) {
    gateway_inside(needs_of(argument)->gateway, id, message, is_delivery);
}

static void on_resumed(void *argument) {
    gateway_resumed(needs_of(argument)->gateway);
}

static void on_alarm(void *argument) {
    gateway_alarm(needs_of(argument)->gateway);
}

static void on_refused(void *argument, const char *peer, unsigned status, const char *sentence) {
    static struct logfmt_limit limit;
    char quoted[LOGFMT_VALUE_SIZE];
    if (logfmt_allowed(&limit))
        logfmt("http_refused", "from=%s status=%u reason=%s", peer, status, logfmt_quote(sentence, quoted));
}

struct door_calls http_calls(const struct http_needs *needs) {
    return (struct door_calls){
        .argument = (void *)needs,
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
        .lane_ticket = on_lane_ticket,
        .page = on_page,
        .served = on_served,
        .inside = on_inside,
        .resumed = on_resumed,
        .alarm = on_alarm,
        .refused = on_refused,
    };
}
