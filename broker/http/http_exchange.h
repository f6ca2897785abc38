/* http_exchange.h: one HTTP request and its reply, for handlers; shared by the files of this folder.
 *
 * A handler is called once the body is complete. It replies exactly once, at once or later, with http_respond or
 * http_refuse; or it streams with http_stream_begin, http_stream_write …, http_stream_end. Until it replies, it may
 * wait for one thing at a time: a reply of the gateway (http_ask, http_commit) or a lease. If the client disconnects
 * first, the wait is cancelled, and the handler is not called again. */
#ifndef TARRY_HTTP_HTTP_EXCHANGE_H
#define TARRY_HTTP_HTTP_EXCHANGE_H

#include <jansson.h>
#include <sodium.h>
#include <sys/queue.h>

#include "arena.h"
#include "door.h"
#include "door_stream.h"
#include "gateway.h"
#include "http_body.h"
#include "http_head.h"
#include "http_server.h"
#include "http_worker.h"
#include "json_map.h"
#include "message.h"
#include "tarry_limits.h"

/* Maximum number of bytes that a handler allocates for one request. */
#define HTTP_ARENA_MAX (8ull * REQUEST_SIZE_MAX)

/* A request that holds at most this many bytes is always accepted, however much memory is in use (CAP-1). */
#define HTTP_SMALL_MAX (128u << 10)

/* A body up to this size is parsed as JSON on the door's thread; a larger one on the worker's thread (http_worker.h).
 */
#define HTTP_INLINE_MAX (32u << 10)
/* If the head of a request leads to a refusal, up to this many body bytes are read and dropped, so that the connection
 * can stay open. */
#define HTTP_DROP_MAX (1u << 20)

/* Maximum number of statistics streams (GET /v1/stats?follow=true), one per connection, and the interval of their
 * events. */
#define HTTP_LIVE_MAX 64u
#define HTTP_LIVE_EVERY_MS 2000u

/* Maximum number of unused exchanges that are kept, and size of the first block of their arenas. */
#define HTTP_SPARES_MAX 64u
#define HTTP_SPARE_ARENA_MAX (256u << 10)

/* Pipelining: while commits of a connection have no answer yet, further commits of it may begin *beside* them. */
/* Maximum number of requests of a connection that are under way or whose answers wait for an earlier one. */
#define HTTP_PIPELINED_MAX 16u
/* Maximum bytes that the requests of a connection hold while they are under way, answers included. A commit with a body
 * larger than DOOR_SMALL_MAX begins only when no other request is under way. */
#define HTTP_PIPELINED_BYTES (128u << 10)
/* Maximum number of requests under way, over all connections, that are followed by a later request of the same
 * connection. */
#define HTTP_PASSED_MAX 512u
/* Bytes that are reserved for the result of each operation, besides the operation's own text. */
#define HTTP_RESULT_ROOM 512u

struct http_live;
struct http_minutes;
struct route;

struct http_server {
    struct door *door;
    struct gateway *gateway;
    struct http_worker *worker;
    struct http_minutes *minutes;
    struct http_exchange *alone; /* the one request that may exceed the memory limit; NULL: none does */
    unsigned live_count;         /* number of statistics streams */
    /* Number of requests under way that are followed by a later request of the same connection (HTTP_PASSED_MAX). */
    unsigned passed_count;
    struct http_exchange *spares[HTTP_SPARES_MAX];
    unsigned spare_count;
    struct door_stream_calls calls;
};

/* The reason for refusing a request; status 0: not refused. */
struct http_refusal {
    unsigned status;
    const char *code;
    char sentence[GATEWAY_SENTENCE_SIZE];
};

struct http_exchange {
    /* Hash of the part of the request received so far; used if the request has an Idempotency-Key. */
    crypto_generichash_state hash;
    struct http_server *server;
    struct http_connection *connection; /* where the reply is sent; only http_connection.c and http_answer.c use its
                                           members; NULL: closed */
    TAILQ_ENTRY(http_exchange) in_line; /* entry in the connection's list of requests, in their order */
    struct message *answer;             /* messages of the response that wait for earlier responses */
    struct message **answer_last;
    /* Bytes counted for this request since a later request of the connection has begun; 0: no later request has
     * begun. */
    size_t passed_size;
    const struct route *route; /* route of the path; NULL: the path is not in /v1 */
    /* A refusal that was decided while the head was read or the request was built; it is sent later. */
    struct http_refusal refusal;
    struct http_job job;                           /* the worker's job for this exchange */
    void (*built)(struct http_exchange *exchange); /* called on the door's thread when the worker is done */
    /* State of the scan that computes the body's weight (json_in.h, json_weigh: memory of the parsed JSON) while the
     * body arrives. */
    struct json_scan scan;
    size_t held;                  /* bytes counted by http_hold */
    uint64_t id;                  /* id of the connection */
    struct gateway_caller caller; /* the client's principal, address and name */
    /* The protocol's name and the User-Agent; valid if the request has a User-Agent. */
    char client[CLIENT_NAME_SIZE_MAX + 1];
    char *head_bytes;
    size_t head_size;
    struct head head;
    struct http_body body;
    struct arena arena;
    struct json_in in; /* state for reading JSON; allocates in `arena` */
    json_t *json;      /* the parsed body; NULL: no body, or not parsed */
    void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply);
    void (*on_leased)(struct http_exchange *exchange, const struct gateway_leased *leased);
    void (*on_drained)(struct http_exchange *exchange);
    uint64_t handle; /* handle of the awaited reply or lease; 0: none */
    uint64_t timer;
    uint64_t retried_ms;    /* time that the commit has spent in retries while the broker was briefly busy */
    struct http_live *live; /* a statistics stream; NULL: not a stream */
    struct text out;        /* free for the handler's use */
    uint8_t fingerprint[GATEWAY_FINGERPRINT_SIZE]; /* hash of the whole request; valid if there is an Idempotency-Key */
    /* Only the handler uses the following members. */
    const char *const *names; /* name of each operation */
    Tarry__Commit *commit;
    struct gateway_lease_options lease; /* options of the lease that the request asks for; no queues: no lease */
    const char *line_at;                /* JSON lines: the unparsed rest of the body */
    const char *lines_end;              /* JSON lines: start of the next commit in the body */
    size_t lines_weight;                /* JSON lines: bytes of memory that the parsed lines need (json_weigh) */
    uint64_t line;                      /* JSON lines: number of the last parsed line */
    uint64_t *lines;                    /* JSON lines: line numbers of the operations in the current commit */
    uint64_t count;
    uint64_t pages;
    uint64_t position;
    uint64_t from_ms;
    uint64_t until_ms;
    uint64_t step_ms;
    Tarry__List list;
    Tarry__Ref ref;
    bool is_single; /* true: the request has one operation, and the reply has only its result */
    bool follows;   /* the response ends only when the client leaves (`follow`) */
    bool is_stream;
    bool is_answered;
    bool is_over;    /* the whole response was passed on; it may wait in `answer` */
    bool ends_all;   /* the connection ends after the response */
    bool is_put_off; /* the commit was refused as BUSY with a Reply.retry_ms, and will be sent again */
    /* The handler must not use the members below. */
    bool drops_body;  /* the body is read and dropped */
    bool has_paid;    /* true: one operation was charged to the principal's rate before the body was read */
    bool is_building; /* a handler is parsing the body, on either thread, and must not reply */
    bool is_old;      /* HTTP/1.0 */
    bool is_working;  /* the worker owns the exchange */
    bool wants_token; /* the reply is a refusal, and another token may succeed */
};

/* Initializes a JSON text in the memory of a message, so that a large text is sent without a copy. */
#define HTTP_TEXT_MAX (64u << 20)
#define HTTP_TEXT                                                                                                      \
    { .size_max = HTTP_TEXT_MAX, .grow = http_text_grow }
bool http_text_grow(struct text *text, size_t capacity);
void http_text_drop(struct text *text);

/* ---- replies */
/* Sends `out` as the reply, and takes ownership of it. */
void http_respond(struct http_exchange *exchange, unsigned status, struct text *out);
void http_respond_text(struct http_exchange *exchange, unsigned status, const char *type, const char *text,
                       size_t size);
/* Sends a page that the door made (`status` and `type` are set), and takes ownership of it. */
void http_respond_page(struct http_exchange *exchange, struct message *page);
/* Refuses the request with problem details (RFC 9457). If a stream has begun, breaks it off, so that the client sees
 * that it is incomplete. */
void http_refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence);
/* Refuses a request for which the broker has too little memory. */
static inline void http_refuse_memory(struct http_exchange *exchange) {
    http_refuse(exchange, 503, "busy", "the broker has too little memory for this request: try again in a moment");
}
void http_refuse_code(struct http_exchange *exchange, Tarry__Code code, const char *sentence, const char *primary);
/* Returns true if the reply is missing or is a refusal. In that case, it has sent the refusal to the client. */
bool http_refused(struct http_exchange *exchange, const Tarry__Reply *reply);
unsigned http_status_of(Tarry__Code code);
/* Returns the `code` of a refusal that HTTP itself requires: "not_found", "method_not_allowed", … */
const char *http_code_of(unsigned status);
/* Streams JSON lines or events. http_stream_write takes ownership of `out`. A handler with more than HTTP_UNSENT_MAX
 * unsent bytes must wait for on_drained. */
#define HTTP_UNSENT_MAX (256u << 10)
void http_stream_begin(struct http_exchange *exchange, const char *type);
bool http_stream_write(struct http_exchange *exchange, struct text *out);
void http_stream_end(struct http_exchange *exchange);
/* Sends leased tasks. When the first byte is sent, gateway_left reports the tasks as delivered. */
void http_respond_leased(struct http_exchange *exchange, struct text *out);

/* ---- requests to the broker */
void http_ask(struct http_exchange *exchange, Tarry__Request *request,
              void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply));
/* Maximum total time in which a commit that the broker refuses as briefly busy is retried. */
#define HTTP_RETRIED_MAX_MS 1000u
void http_commit(struct http_exchange *exchange, Tarry__Commit *commit,
                 void (*on_reply)(struct http_exchange *exchange, const Tarry__Reply *reply));
/* Sends a commit again that the broker refused as BUSY with a Reply.retry_ms. */
void http_commit_again(struct http_exchange *exchange);
void http_lease(struct http_exchange *exchange, const struct gateway_lease_options *options,
                void (*on_leased)(struct http_exchange *exchange, const struct gateway_leased *leased));

/* Returns whether the request has a body, and its Content-Type is JSON. Otherwise refuses the request. */
bool http_has_json(struct http_exchange *exchange);
/* Parses the body as JSON, in a handler of a route with a body. With `optional`, a missing body counts as an empty
 * object. Returns false if the request is refused. */
bool http_read_json(struct http_exchange *exchange, bool optional);
/* Runs `build` on the complete body, on this thread or the worker's, and then `built` on the door's thread. */
void http_build(struct http_exchange *exchange, void (*build)(struct http_exchange *exchange),
                void (*built)(struct http_exchange *exchange));
/* Reserves memory for parsed values of `weight` bytes (json_weigh), in addition to the body. False: the memory limit is
 * reached. */
bool http_hold(struct http_exchange *exchange, size_t weight);
/* Sets the number of bytes that the exchange holds until its end. Returns false if that is more than HTTP_SMALL_MAX and
 * the memory limit is reached. */
bool http_keep(struct http_exchange *exchange, size_t size);
/* Passes further decompressed body bytes to the exchange's JSON scan and to the request's fingerprint. */
void http_body_came(struct http_exchange *exchange, const char *bytes, size_t size);
/* Starts the fingerprint of the whole request, once the head is complete. */
void http_fingerprint_begin(struct http_exchange *exchange);
/* Reads a query parameter as a number from 0 to `most`, or as a boolean. False: refused. */
bool http_parameter_u64(struct http_exchange *exchange, const char *name, uint64_t most, uint64_t *out);
bool http_parameter_bool(struct http_exchange *exchange, const char *name, bool *out);
bool http_parameter_time(struct http_exchange *exchange, const char *name, uint64_t *out_ms);
/* Checks that the query has only parameters in the blank-separated list `known`, each at most once. False: refused. */
bool http_parameters_only(struct http_exchange *exchange, const char *known);
/* Allocates zeroed memory that lives as long as the exchange; NULL: refused. */
void *http_make(struct http_exchange *exchange, size_t size);

/* Responds to a HEAD request before a body is rendered; the response has no Content-Length. Returns false if the
 * request is not HEAD. */
bool http_answered_by_head(struct http_exchange *exchange);

/* ---- http_connection.c */
/* Lets further commits begin while this one is under way, if they cannot take effect before it. */
void http_lets_others_begin(struct http_exchange *exchange);
/* Sends the commit again after `after_ms`. Later commits of the connection wait for it. If a later commit was executed
 * meanwhile, this commit is refused, because the requests of a connection take effect in their order. */
void http_put_off(struct http_exchange *exchange, uint64_t after_ms);

/* ---- http_routes.c */
/* Finds the route by the head alone, and checks the client's permission and rate. A refusal is stored in
 * exchange->refusal, and sent after the body was dropped. */
void http_route_find(struct http_exchange *exchange);
/* Returns whether the head asks for a commit of operations on tasks, whose body is a JSON value or empty. */
bool http_route_changes_tasks(struct http_exchange *exchange);
/* Runs the route's handler once the body is complete. */
void http_route(struct http_exchange *exchange);

/* ---- http_minutes.c */
struct http_minutes *http_minutes_new(struct gateway *gateway);
/* Starts the counts per minute. Call it before the door starts. */
void http_minutes_start(struct http_minutes *minutes);
void http_minutes_free(struct http_minutes *minutes);
void handle_minutes(struct http_exchange *exchange);

/* ---- http_tasks.c */
/* Commits one operation with the members of the body. */
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
void handle_recurrences(struct http_exchange *exchange);
void handle_recurrence_get(struct http_exchange *exchange);
void handle_recurrence_change(struct http_exchange *exchange);
void handle_stats(struct http_exchange *exchange);
void handle_consumers(struct http_exchange *exchange);
void handle_calendar(struct http_exchange *exchange);
void handle_status(struct http_exchange *exchange);
void handle_audit(struct http_exchange *exchange);
void handle_caller(struct http_exchange *exchange);
/* Sends the built commit or lease to the broker, or the refusal to the client. */
void http_built(struct http_exchange *exchange);
void handle_openapi(struct http_exchange *exchange);

#endif
