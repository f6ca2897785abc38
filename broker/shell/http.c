/* http.c: see http.h. A page that needs the core asks as a call like any other, and completes nng's aio when answered.
 */
#include "http.h"

#include <nng/nng.h>
#include <nng/supplemental/http/http.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shell.h"
#include "stats.h"

/* Scrapes under way at once. */
#define METRICS_MAX 8
#define METRICS_ARENA_MAX (1u << 20)

struct metrics_call {
    struct call call; /* first */
    nng_aio *aio;
    struct arena arena;
    Tarry__Request request;
    Tarry__Stats stats;
};

static struct shell *http_shell; /* handlers outlive no one: the process ends with them */
static _Atomic unsigned metrics_busy;

static void respond(nng_aio *aio, uint16_t status, const char *type, const void *body, size_t size) {
    nng_http_res *response = NULL;
    int error = nng_http_res_alloc(&response);
    if (error == 0) error = nng_http_res_set_status(response, status);
    if (error == 0) error = nng_http_res_set_header(response, "Content-Type", type);
    if (error == 0) error = nng_http_res_copy_data(response, body, size);
    if (error == 0) {
        nng_aio_set_output(aio, 0, response);
    } else if (response != NULL) {
        nng_http_res_free(response);
    }
    nng_aio_finish(aio, error);
}

static void healthz(nng_aio *aio) {
    bool stopping = atomic_load(&http_shell->stopping);
    respond(aio, stopping ? 503 : 200, "text/plain", stopping ? "stopping\n" : "ok\n", stopping ? 9 : 3);
}

/* The answer to a Stats request, turned into text. */
static void metrics_answer(struct call *call, nng_msg *message) {
    struct metrics_call *metrics = (struct metrics_call *)call;
    size_t size = 0;
    char *text = NULL;
    if (message != NULL) {
        Tarry__Reply *reply = tarry__reply__unpack(NULL, nng_msg_len(message), nng_msg_body(message));
        if (reply != NULL && reply->body_case == TARRY__REPLY__BODY_STATS) text = stats_text(reply->stats, &size);
        if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
        nng_msg_free(message);
    }
    if (text != NULL)
        respond(metrics->aio, 200, "text/plain; version=0.0.4", text, size);
    else
        respond(metrics->aio, 503, "text/plain", "unavailable\n", 12);
    free(text);
    arena_deinit(&metrics->arena);
    free(metrics);
    atomic_fetch_sub(&metrics_busy, 1);
}

static void metrics(nng_aio *aio) {
    struct metrics_call *metrics = NULL;
    if (atomic_fetch_add(&metrics_busy, 1) < METRICS_MAX && !atomic_load(&http_shell->stopping))
        metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL) {
        atomic_fetch_sub(&metrics_busy, 1);
        respond(aio, 503, "text/plain", "busy\n", 5);
        return;
    }
    struct errand *errand = &metrics->call.errand;
    metrics->aio = aio;
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
    inbox_post(&http_shell->inbox, &errand->item);
}

static int add_page(nng_http_server *server, const char *path, void (*page)(nng_aio *)) {
    nng_http_handler *handler = NULL;
    int error = nng_http_handler_alloc(&handler, path, page);
    if (error == 0) error = nng_http_handler_collect_body(handler, true, 0);
    if (error == 0) error = nng_http_server_add_handler(server, handler);
    if (error != 0 && handler != NULL) nng_http_handler_free(handler);
    return error;
}

int http_open(struct shell *shell) {
    http_shell = shell;
    nng_url *url = NULL;
    nng_http_server *server = NULL;
    int error = nng_url_parse(&url, shell->url);
    if (error == 0) error = nng_http_server_hold(&server, url);
    if (error == 0) error = add_page(server, "/healthz", healthz);
    if (error == 0) error = add_page(server, "/metrics", metrics);
    if (error == 0) error = nng_http_server_start(server);
    nng_url_free(url);
    return error;
}

int http_keepalive(nng_socket socket) {
    return nng_socket_set_bool(socket, NNG_OPT_TCP_KEEPALIVE, true);
}
