/* http_exchange.h: a request and its answer, for handlers; what the files of this folder share.
 *
 * A handler is called once the body is whole. It answers by http_respond or http_refuse, now or later, once; or by
 * http_stream_begin, http_stream_write …, http_stream_end. Until then it may wait for one thing at a time: a reply of
 * the gateway (http_ask, http_commit) or a lease. If the client goes first, what is waited for is forgotten, and the
 * handler hears nothing more. */
#ifndef TARRY_HTTP_HTTP_EXCHANGE_H
#define TARRY_HTTP_HTTP_EXCHANGE_H

#include <jansson.h>
#include <sodium.h>

#include "arena.h"
#include "door.h"
#include "door_stream.h"
#include "gateway.h"
#include "http_body.h"
#include "http_head.h"
#include "http_server.h"
#include "http_worker.h"
#include "json_in.h"
#include "json_out.h"
#include "message.h"
#include "tarry_limits.h"

/* What a handler's structures may take. */
#define HTTP_ARENA_MAX (8ull * REQUEST_SIZE_MAX)

/* A request of which all that it says weighs no more than this finds room, whatever else is held (CAP-1). */
#define HTTP_SMALL_MAX (128u << 10)

/* A body up to this size is read as JSON on the door's thread, a larger one on the worker's (http_worker.h). */
#define HTTP_INLINE_MAX (32u << 10)
/* The body of a request that is refused by its head is read to its end, up to this size, and the connection stays. */
#define HTTP_DROP_MAX (1u << 20)

/* Streams of numbers at once (GET /v1/stats?follow=true), one to a connection, and how often each says something. */
#define HTTP_LIVE_MAX 64u
#define HTTP_LIVE_EVERY_MS 2000u

struct http_live;
struct route;

struct http_server {
    struct door *door;
    struct gateway *gateway;
    struct http_worker *worker;
    struct http_exchange *alone; /* weighs more than there is room for: one may, however large; NULL: none does */
    unsigned live_count;         /* streams of numbers */
    struct door_stream_calls calls;
};

/* Why a request is refused; status 0: it is not. */
struct http_refusal {
    unsigned status;
    const char *code;
    char sentence[GATEWAY_SENTENCE_SIZE];
};

struct http_exchange {
    crypto_generichash_state hash; /* of all that is asked for, as far as it has come, if it has a key */
    struct http_server *server;
    struct http_connection *connection; /* to be answered on; how, it knows alone. NULL: it has gone */
    const struct route *route;          /* NULL: no path of /v1 */
    struct http_refusal refusal;        /* found by the head, or while the request is built: told later */
    bool drops_body;                    /* the body is read to its end and not kept */
    bool has_paid;                      /* one operation of its principal's rate, before its body was read */
    bool is_building;                   /* a handler runs to read the body and makes no answer; on either thread */
    bool is_old;                        /* HTTP/1.0 */
    bool is_working;                    /* the worker has the job … */
    struct http_job job;
    void (*built)(struct http_exchange *exchange); /* … and then */
    struct json_scan scan;                         /* of the body, as far as it has come */
    size_t held;                                   /* bytes that http_hold counts */
    uint64_t id;                                   /* of the connection */
    struct gateway_caller caller;                  /* the requester */
    char *head_bytes;
    struct head head;
    struct http_body body;
    struct arena arena;
    struct json_in in; /* with the arena */
    json_t *json;      /* the body; NULL: there is none, or it was not read */
    void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply);
    void (*on_leased)(struct http_exchange *exchange, const struct gateway_leased *leased);
    void (*on_drained)(struct http_exchange *exchange);
    uint64_t handle; /* of what is waited for; 0: nothing */
    uint64_t timer;
    uint64_t retried_ms;    /* time that the commit has waited while the broker was busy for a moment */
    struct http_live *live; /* a stream of numbers; NULL: it is none */
    struct json_out out;    /* the handler's */
    uint8_t fingerprint[GATEWAY_FINGERPRINT_SIZE]; /* of all that is asked for, if there is an Idempotency-Key */
    /* The handler's own. */
    const char *const *names; /* of operations, one each */
    Tarry__Commit *commit;
    struct gateway_lease_options lease; /* count of queues 0: none is asked for */
    const char *line_at;                /* JSON lines: what has not been read of the body … */
    const char *lines_end;              /* … and where the next commit begins … */
    size_t lines_weight;                /* … what they weigh … */
    uint64_t line;                      /* … the number of the last one that was … */
    uint64_t *lines;                    /* … and those of the operations under way */
    uint64_t count;
    uint64_t pages;
    uint64_t position;
    uint64_t from_ms;
    uint64_t until_ms;
    uint64_t step_ms;
    bool is_single; /* one operation, answered by itself */
    bool is_by_queue;
    bool follows;
    bool is_stream;
    bool is_answered;
    Tarry__List list;
    Tarry__Ref ref;
};

/* ---- answers */
/* Takes `out` over. */
void http_respond(struct http_exchange *exchange, unsigned status, struct json_out *out);
void http_respond_text(struct http_exchange *exchange, unsigned status, const char *type, const char *text,
                       size_t size);
/* Takes over what the door has made (its status and type are set). */
void http_respond_page(struct http_exchange *exchange, struct message *page);
/* Problem details (RFC 9457). Within a stream: its end, which shows that it is not whole. */
void http_refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence);
void http_refuse_code(struct http_exchange *exchange, Tarry__Code code, const char *sentence, const char *primary);
/* If the reply is a refusal, or none, says so and is true. */
bool http_refused(struct http_exchange *exchange, const Tarry__Reply *reply);
unsigned http_status_of(Tarry__Code code);
/* JSON lines, or events. A write takes `out` over; more than HTTP_UNSENT_MAX unsent: wait for on_drained. */
#define HTTP_UNSENT_MAX (256u << 10)
void http_stream_begin(struct http_exchange *exchange, const char *type);
bool http_stream_write(struct http_exchange *exchange, struct json_out *out);
void http_stream_end(struct http_exchange *exchange);
/* The answer whose first byte leaves is that of a lease: see gateway_left. */
void http_respond_leased(struct http_exchange *exchange, struct json_out *out);

/* ---- what is asked of the broker */
void http_ask(struct http_exchange *exchange, Tarry__Request *request,
              void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply));
/* A commit that the broker refuses for a moment is sent again, for so long in all. */
#define HTTP_RETRIED_MAX_MS 1000u
void http_commit(struct http_exchange *exchange, Tarry__Commit *commit,
                 void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply));
void http_lease(struct http_exchange *exchange, const struct gateway_lease_options *options,
                void (*on_leased)(struct http_exchange *exchange, const struct gateway_leased *leased));

/* The body as JSON, in a handler of a route that has one. False: refused. `optional`: none is an empty object. */
bool http_read_json(struct http_exchange *exchange, bool optional);
/* The body is whole: `build` reads it, here or on the worker's thread, and `built` goes on here. */
void http_build(struct http_exchange *exchange, void (*build)(struct http_exchange *exchange),
                void (*built)(struct http_exchange *exchange));
/* What is read of the body, which is held beside it as far as it is there, weighs so much (json_weigh). False: there is
 * no room for it now. */
bool http_hold(struct http_exchange *exchange, size_t weight);
/* It holds so many bytes from now on, counted, until its end: of which it wants few (HTTP_SMALL_MAX), or there is room.
 */
bool http_keep(struct http_exchange *exchange, size_t size);
/* More of the body has come, unpacked. */
void http_body_came(struct http_exchange *exchange, const char *bytes, size_t size);
/* The head is whole: what follows is about all that is asked for. */
void http_fingerprint_begin(struct http_exchange *exchange);
/* A parameter as a number from 0 to `most`, or as a boolean. False: refused. */
bool http_parameter_u64(struct http_exchange *exchange, const char *name, uint64_t most, uint64_t *out);
bool http_parameter_bool(struct http_exchange *exchange, const char *name, bool *out);
bool http_parameter_time(struct http_exchange *exchange, const char *name, uint64_t *out_ms);
/* The query has no parameters but these, named in one text with a blank between, and each once. False: refused. */
bool http_parameters_only(struct http_exchange *exchange, const char *known);
/* Zeroed memory of the exchange; NULL: refused. */
void *http_make(struct http_exchange *exchange, size_t size);

/* A request that has none of the answer's bytes to show (HEAD) is answered with its head alone, before anything is
 * rendered; it has no Content-Length. False: the answer's body is wanted. */
bool http_answered_by_head(struct http_exchange *exchange);

/* ---- http_routes.c */
/* By the head alone: whose request it is, whether the requester may make it, and whether its rate allows it now. What
 * is refused is told once the body was dropped (exchange->refusal). */
void http_route_find(struct http_exchange *exchange);
/* The body is whole. */
void http_route(struct http_exchange *exchange);

/* ---- http_tasks.c */
/* A commit of one operation, with the members of the body. */
void http_commit_one(struct http_exchange *exchange, const char *name);

/* ---- http_live.c */
void http_live_begin(struct http_exchange *exchange);
void http_live_end(struct http_exchange *exchange);

/* ---- handlers (http_tasks.c, http_queues.c, http_look.c) */
void handle_tasks_post(struct http_exchange *exchange);
void handle_lines(struct http_exchange *exchange);
void handle_task_get(struct http_exchange *exchange);
void handle_task_delete(struct http_exchange *exchange);
void handle_task_patch(struct http_exchange *exchange);
void handle_commit(struct http_exchange *exchange);
void handle_settle(struct http_exchange *exchange);
void handle_lease(struct http_exchange *exchange);
void handle_list(struct http_exchange *exchange);
void handle_count(struct http_exchange *exchange);
void handle_queues(struct http_exchange *exchange);
void handle_queue_get(struct http_exchange *exchange);
void handle_queue_change(struct http_exchange *exchange);
void handle_stats(struct http_exchange *exchange);
void handle_calendar(struct http_exchange *exchange);
void handle_status(struct http_exchange *exchange);
void handle_audit(struct http_exchange *exchange);
void handle_caller(struct http_exchange *exchange);
/* What was built is a commit, a lease, or a refusal: asks for it, or tells. */
void http_built(struct http_exchange *exchange);
void handle_openapi(struct http_exchange *exchange);

/* ---- http_words.c: answers as JSON */
void words_result(struct json_out *out, const char *name, const Tarry__Op *op, const Tarry__OpResult *result);
void words_view(struct json_out *out, const Tarry__TaskView *view);
void words_delivered(struct json_out *out, const Tarry__DeliveredTask *task);

#endif
