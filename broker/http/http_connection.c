/* http_connection.c: bytes of a connection: heads, bodies, and the answers in their order; see http_server.h.
 *
 * What has come and is not understood yet lies in `in`, counted, and waits while answers are unread. A head may take
 * HEAD_MS, a body BODY_MS for each 64 KiB, and between two requests a connection may rest for REST_MS. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "errors.h"
#include "http_body.h"
#include "http_connection.h"

#define HEAD_MS 10000u
#define BODY_MS 30000u
#define REST_MS 60000u
#define IN_MAX (64u << 10) /* of requests behind the one that is worked at; of a body, what must come in BODY_MS */
#define HEAD_ROOM 1024u
#define SMALL_MAX (64u << 10) /* a body that travels in one piece with its head */

static void run(struct http_connection *connection);

/* ---- the end of an exchange */

static void exchange_free(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    gateway_forget(server->gateway, exchange->handle);
    gateway_cancel(server->gateway, exchange->handle);
    gateway_timer_cancel(server->gateway, exchange->timer);
    json_decref(exchange->json);
    out_deinit(&exchange->out);
    arena_deinit(&exchange->arena);
    body_deinit(exchange);
    (void)door_stream_half(server->door, exchange->id, 0, false);
    if (exchange->head_bytes != NULL) explicit_bzero(exchange->head_bytes, strlen(exchange->head_bytes));
    free(exchange->head_bytes);
    free(exchange);
}

/* Its answer has been sent: the next, or the end. */
static void exchange_over(struct http_exchange *exchange) {
    struct http_connection *connection = exchange->connection;
    bool stays = exchange->head.stays && connection->state != STATE_BODY;
    connection->exchange = NULL;
    exchange_free(exchange);
    if (!stays) {
        connection->state = STATE_OVER;
        door_stream_finish(connection->server->door, connection->id);
        return;
    }
    connection->state = STATE_HEAD;
    connection->is_due = true; /* run() comes, and this may be within it */
    if (connection->is_running) return;
    run(connection);
}

/* ---- answers */

static const char *reason_of(unsigned status) {
    static const struct {
        unsigned status;
        const char *reason;
    } reasons[] = {{200, "OK"},
                   {201, "Created"},
                   {202, "Accepted"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {410, "Gone"},
                   {413, "Content Too Large"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {421, "Misdirected Request"},
                   {422, "Unprocessable Content"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Unsupported"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status) return reasons[i].reason;
    return "Status";
}

static int write_head(const struct http_exchange *exchange, unsigned status, const char *type, size_t size,
                      char head[HEAD_ROOM]) {
    char length[48];
    snprintf(length, sizeof(length), "Content-Length: %zu\r\n", size);
    bool is_old = exchange->is_stream && exchange->is_old;
    return snprintf(head, HEAD_ROOM, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\n%s%s%s%s%s\r\n", status, reason_of(status),
                    type,
                    !exchange->is_stream ? length
                    : is_old             ? ""
                                         : "Transfer-Encoding: chunked\r\n",
                    exchange->head.stays ? "" : "Connection: close\r\n",
                    status == 401 ? "WWW-Authenticate: Bearer realm=\"tarry\"\r\n" : "",
                    status == 503 || status == 429 ? "Retry-After: 1\r\n" : "",
                    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
                    "Content-Security-Policy: frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n");
}

/* Takes `body` over; NULL: it is empty. */
static void send_answer(struct http_exchange *exchange, unsigned status, const char *type, struct message *body,
                        uint64_t stamp) {
    struct door *door = exchange->server->door;
    char head[HEAD_ROOM];
    size_t size = body != NULL ? body->size : 0;
    size_t head_size = (size_t)write_head(exchange, status, type, size, head);
    size_t sent_size = exchange->head.method == HEAD_HEAD ? 0 : size;
    bool is_small = sent_size <= SMALL_MAX;
    struct message *first = message_new(head_size + (is_small ? sent_size : 0));
    exchange->is_answered = true;
    if (first == NULL) {
        message_free(body);
        if (stamp != 0) gateway_left(exchange->server->gateway, stamp, false);
        door_stream_kill(door, exchange->id);
        return;
    }
    memcpy(first->bytes, head, head_size);
    if (is_small && sent_size > 0) memcpy(first->bytes + head_size, body->bytes, sent_size);
    first->stamp = stamp;
    door_stream_send(door, exchange->id, first);
    if (is_small)
        message_free(body);
    else
        door_stream_send(door, exchange->id, body);
}

void http_respond(struct http_exchange *exchange, unsigned status, struct json_out *out) {
    struct message *body = out_take(out);
    if (body == NULL) {
        http_refuse(exchange, 503, "busy", "there is not enough memory for the answer");
        return;
    }
    send_answer(exchange, status, status < 400 ? "application/json" : "application/problem+json", body, 0);
    exchange_over(exchange);
}

void http_respond_leased(struct http_exchange *exchange, struct json_out *out) {
    uint64_t lease = exchange->handle;
    struct message *body = out_take(out);
    exchange->handle = 0;
    if (body == NULL) {
        gateway_left(exchange->server->gateway, lease, false);
        http_refuse(exchange, 503, "busy", "there is not enough memory for the answer");
        return;
    }
    send_answer(exchange, 200, "application/json", body, lease);
    exchange_over(exchange);
}

void http_respond_text(struct http_exchange *exchange, unsigned status, const char *type, const char *text,
                       size_t size) {
    struct message *body = message_new(size);
    if (body != NULL) memcpy(body->bytes, text, size);
    send_answer(exchange, status, type, body, 0);
    exchange_over(exchange);
}

static void refuse_with(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence,
                        const char *primary) {
    struct json_out out = {0};
    out_begin(&out, '{');
    out_key(&out, "type");
    out_literal(&out, "\"urn:tarry:code:");
    out_literal(&out, code);
    out_literal(&out, "\"");
    out_text(&out, "title", reason_of(status));
    out_number(&out, "status", status);
    out_text(&out, "code", code);
    out_text(&out, "detail", sentence);
    if (primary != NULL && primary[0] != '\0') out_text(&out, "primary", primary);
    out_end(&out, '}');
    struct message *body = out_take(&out);
    send_answer(exchange, status, "application/problem+json", body, 0);
    exchange_over(exchange);
}

void http_refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence) {
    refuse_with(exchange, status, code, sentence, NULL);
}

unsigned http_status_of(Tarry__Code code) {
    switch (code) {
    case TARRY__CODE__OK:
        return 200;
    case TARRY__CODE__INVALID:
        return 400;
    case TARRY__CODE__TOO_LARGE:
        return 413;
    case TARRY__CODE__UNSUPPORTED:
        return 501;
    case TARRY__CODE__NO_SUCH_QUEUE:
        return 404;
    case TARRY__CODE__EXISTS:
    case TARRY__CODE__NOT_DONE:
    case TARRY__CODE__STALE_TOKEN:
    case TARRY__CODE__ABORTED:
        return 409;
    case TARRY__CODE__FORGOTTEN:
    case TARRY__CODE__NO_SUCH_SESSION:
        return 410;
    case TARRY__CODE__DENIED:
        return 403;
    case TARRY__CODE__NOT_PRIMARY:
        return 421;
    case TARRY__CODE__FAILED:
        return 500;
    default: /* BUSY, STOPPING, BEHIND, TOO_OLD */
        return 503;
    }
}

void http_refuse_code(struct http_exchange *exchange, Tarry__Code code, const char *sentence, const char *primary) {
    unsigned status = http_status_of(code);
    bool is_said = sentence != NULL && sentence[0] != '\0';
    if (is_said && code == TARRY__CODE__INVALID && strcmp(sentence, gateway_once_differs) == 0) status = 422;
    refuse_with(exchange, status, code_name(code), is_said ? sentence : code_sentence(code), primary);
}

bool http_refused(struct http_exchange *exchange, const Tarry__Reply *reply) {
    if (reply != NULL && reply->code == TARRY__CODE__OK) return false;
    if (reply == NULL)
        http_refuse(exchange, 503, "busy",
                    "there was not enough memory for the answer: what was asked for may have been done");
    else
        http_refuse_code(exchange, reply->code, reply->message, reply->primary);
    return true;
}

/* ---- streams */

void http_stream_begin(struct http_exchange *exchange) {
    char head[HEAD_ROOM];
    exchange->is_stream = true;
    if (exchange->is_old) exchange->head.stays = false;
    size_t size = (size_t)write_head(exchange, 200, "application/x-ndjson", 0, head);
    struct message *message = message_new(size);
    exchange->is_answered = true;
    if (message == NULL) {
        door_stream_kill(exchange->server->door, exchange->id);
        return;
    }
    memcpy(message->bytes, head, size);
    door_stream_send(exchange->server->door, exchange->id, message);
}

bool http_stream_write(struct http_exchange *exchange, struct json_out *out) {
    struct door *door = exchange->server->door;
    struct message *body = out_take(out);
    if (body == NULL || body->size == 0) {
        message_free(body);
        return door_stream_unsent(door, exchange->id) < HTTP_UNSENT_MAX;
    }
    struct message *piece = message_new(body->size + 32);
    if (piece == NULL) {
        message_free(body);
        door_stream_kill(door, exchange->id);
        return true;
    }
    char *at = (char *)piece->bytes;
    size_t size = exchange->is_old ? 0 : (size_t)snprintf(at, 24, "%zx\r\n", body->size);
    memcpy(at + size, body->bytes, body->size);
    size += body->size;
    if (!exchange->is_old) {
        memcpy(at + size, "\r\n", 2);
        size += 2;
    }
    piece->size = size;
    message_free(body);
    door_stream_send(door, exchange->id, piece);
    return door_stream_unsent(door, exchange->id) < HTTP_UNSENT_MAX;
}

void http_stream_end(struct http_exchange *exchange) {
    static const char last[] = "0\r\n\r\n";
    struct message *message = exchange->is_old ? NULL : message_new(sizeof(last) - 1);
    if (message != NULL) {
        memcpy(message->bytes, last, sizeof(last) - 1);
        door_stream_send(exchange->server->door, exchange->id, message);
    }
    exchange_over(exchange);
}

/* ---- requests */

/* What ends the connection with a refusal: where the next request begins is not known, or not to be trusted. */
static void refuse_and_end(struct http_exchange *exchange, unsigned status, const char *sentence) {
    exchange->head.stays = false;
    door_stream_refused(exchange->server->door, exchange->id, status, sentence);
    const char *code = status == 413                    ? "too_large"
                       : status == 401 || status == 403 ? "denied"
                       : status == 429 || status == 503 ? "busy"
                                                        : "invalid";
    http_refuse(exchange, status, code, sentence);
}

static const char *token_of(const struct head_text *authorization, size_t *out_size) {
    static const char scheme[] = "Bearer ";
    *out_size = 0;
    if (authorization->text == NULL) return "";
    if (strncasecmp(authorization->text, scheme, sizeof(scheme) - 1) != 0) return NULL;
    const char *token = authorization->text + sizeof(scheme) - 1;
    token += strspn(token, " ");
    *out_size = strlen(token);
    return *out_size > 0 && strchr(token, ' ') == NULL ? token : NULL;
}

/* Who asks: as the request before it, if it shows the same. */
static bool admit(struct http_exchange *exchange) {
    struct http_connection *connection = exchange->connection;
    const struct head_text *authorization = &exchange->head.fields[HEAD_FIELD_authorization];
    const char *shown = authorization->text != NULL ? authorization->text : "";
    const char *origin = exchange->head.fields[HEAD_FIELD_origin].text;
    size_t size;
    if (origin != NULL && !door_stream_origin(exchange->server->door, origin)) {
        refuse_and_end(exchange, 403, "web pages of this origin may not use the broker (tarryd --allow-origin)");
        return false;
    }
    /* A page has a rule of its own (broker/access), and is judged by it each time. */
    const struct head *head = &exchange->head;
    bool is_page = head->segment_count == 0 || strcmp(head->segments[0].text, "v1") != 0;
    enum caller_place place = is_page ? CALLER_PAGE : CALLER_RPC;
    if (connection->is_admitted && !is_page && strcmp(shown, connection->shown) == 0) return true;
    const char *token = token_of(authorization, &size);
    struct caller_verdict verdict = {.status = 401,
                                     .sentence = "Authorization is to be `Bearer TOKEN`, with a token of this broker"};
    if (token != NULL && authorization->size < sizeof(connection->shown))
        verdict =
            door_stream_admit(exchange->server->door, exchange->id, place, is_page ? head->target : "/v1", token, size);
    connection->is_admitted = verdict.status == 0 && !is_page;
    if (verdict.status == 0) {
        connection->principal = verdict.principal;
        snprintf(connection->shown, sizeof(connection->shown), "%s", shown);
        return true;
    }
    refuse_and_end(exchange, verdict.status, verdict.sentence);
    return false;
}

static void go_ahead(struct http_exchange *exchange) {
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct message *message = message_new(sizeof(text) - 1);
    if (message == NULL) return;
    memcpy(message->bytes, text, sizeof(text) - 1);
    door_stream_send(exchange->server->door, exchange->id, message);
}

static void dispatch(struct http_exchange *exchange) {
    struct http_connection *connection = exchange->connection;
    connection->state = STATE_BUSY;
    door_stream_whole(connection->server->door, connection->id);
    door_stream_deadline(connection->server->door, connection->id, 0);
    if (!body_finish(exchange)) {
        http_refuse(exchange, 400, "invalid", "the body is not what Content-Encoding says, or ends too early");
        return;
    }
    http_route(exchange);
}

/* The head is whole: `size` bytes at the beginning of what has come. */
static bool begin_exchange(struct http_connection *connection, size_t size) {
    struct http_exchange *exchange = calloc(1, sizeof(*exchange));
    struct head_refusal refusal = {503, "there is not enough memory"};
    size_t used = 0;
    char *bytes = malloc(size + 1);
    if (exchange == NULL || bytes == NULL) {
        free(exchange);
        free(bytes);
        door_stream_kill(connection->server->door, connection->id);
        return false;
    }
    memcpy(bytes, connection->in->bytes, size);
    bytes[size] = '\0';
    *exchange = (struct http_exchange){.server = connection->server,
                                       .connection = connection,
                                       .id = connection->id,
                                       .head_bytes = bytes};
    arena_init(&exchange->arena, HTTP_ARENA_MAX);
    exchange->in.arena = &exchange->arena;
    connection->exchange = exchange;
    enum head_result result = http_head_parse(bytes, size, &exchange->head, &used, &refusal);
    exchange->is_old = exchange->head.is_old;
    if (result != HEAD_DONE) {
        refuse_and_end(exchange, refusal.status, refusal.sentence);
        return false;
    }
    connection->in->size -= size;
    memmove(connection->in->bytes, connection->in->bytes + size, connection->in->size);
    connection->left = exchange->head.length;
    connection->chunks = (struct chunks){0};
    connection->body_come = connection->body_timed = 0;
    connection->head_is_timed = false;
    connection->state = STATE_BODY;
    if (!admit(exchange)) return false;
    unsigned status = body_begin(exchange);
    if (status != 0) {
        refuse_and_end(exchange, status,
                       status == 415 ? "the Content-Encoding is none of identity, gzip and zstd"
                                     : "a body has 16 MiB at most");
        return false;
    }
    bool has_body = exchange->head.is_chunked || exchange->head.length > 0;
    if (has_body && exchange->head.wants_go_ahead && connection->in->size == 0) go_ahead(exchange);
    return true;
}

/* False: nothing more can be done with what has come. */
static bool take_head(struct http_connection *connection) {
    struct door *door = connection->server->door;
    const char *end = memmem(connection->in->bytes, connection->in->size, "\r\n\r\n", 4);
    size_t size = end != NULL ? (size_t)(end + 4 - (const char *)connection->in->bytes) : connection->in->size;
    if (end == NULL && size < HEAD_SIZE_MAX) {
        struct head head;
        struct head_refusal refusal;
        size_t used;
        /* What is wrong already is told already: nobody waits for the rest of it. */
        bool is_bad =
            size > 0 && http_head_parse((char *)connection->in->bytes, size, &head, &used, &refusal) == HEAD_BAD;
        if (!is_bad) {
            bool is_timed = connection->head_is_timed && size > 0;
            if (!is_timed) door_stream_deadline(door, connection->id, size > 0 ? HEAD_MS : REST_MS);
            connection->head_is_timed = size > 0;
            return false;
        }
    }
    return begin_exchange(connection, size);
}

static bool take_body(struct http_connection *connection) {
    struct http_exchange *exchange = connection->exchange;
    struct message *in = connection->in;
    assert(exchange != NULL && in != NULL); /* its head was in it */
    while (in->size > 0 && connection->state == STATE_BODY) {
        size_t size = in->size, part_size;
        char *part = (char *)in->bytes;
        enum head_result result = HEAD_MORE;
        if (exchange->head.is_chunked) {
            result = chunks_take(&connection->chunks, part, &size, &part, &part_size);
        } else {
            if (size > connection->left) size = (size_t)connection->left;
            part_size = size;
            connection->left -= size;
        }
        unsigned status = result == HEAD_BAD ? 400 : body_take(exchange, part, part_size);
        if (status != 0) {
            refuse_and_end(exchange, status, body_sentence(status));
            return false;
        }
        in->size -= size;
        connection->body_come += size;
        memmove(in->bytes, in->bytes + size, in->size);
        if (result == HEAD_DONE) connection->left = 0;
        bool is_whole = exchange->head.is_chunked ? result == HEAD_DONE : connection->left == 0;
        if (!is_whole) continue;
        dispatch(exchange);
        return true;
    }
    if (connection->state == STATE_BODY && !exchange->head.is_chunked && connection->left == 0) {
        dispatch(exchange);
        return true;
    }
    if (connection->body_come >= connection->body_timed) {
        connection->body_timed = connection->body_come + IN_MAX;
        door_stream_deadline(connection->server->door, connection->id, BODY_MS);
    }
    return false;
}

static void run(struct http_connection *connection) {
    bool goes_on = true, is_unread = false;
    if (connection->is_running) return;
    connection->is_running = true;
    while (goes_on) {
        connection->is_due = false;
        switch (connection->state) {
        case STATE_HEAD:
            is_unread = door_stream_unsent(connection->server->door, connection->id) >= HTTP_UNSENT_MAX;
            goes_on = !is_unread && (take_head(connection) || connection->is_due); /* else on_drained goes on */
            break;
        case STATE_BODY:
            goes_on = take_body(connection) || connection->is_due;
            break;
        default:
            goes_on = false;
        }
    }
    connection->is_running = false;
    bool is_full = (connection->state == STATE_BUSY || is_unread) && connection->in->size >= IN_MAX;
    door_stream_pause(connection->server->door, connection->id, is_full);
}

/* ---- what the door calls */

static void *on_opened(void *argument, uint64_t id, const char *peer) {
    struct http_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) return NULL;
    connection->in = message_new(1024);
    if (connection->in == NULL) {
        free(connection);
        return NULL;
    }
    connection->in->size = 0;
    connection->server = argument;
    connection->id = id;
    connection->peer = peer;
    door_stream_deadline(connection->server->door, id, HEAD_MS);
    return connection;
}

static void on_received(void *argument, const uint8_t *bytes, size_t size) {
    struct http_connection *connection = argument;
    struct message *in = connection->in;
    if (connection->state == STATE_OVER) return;
    if (in->size + size > in->capacity) {
        size_t grown = 2 * (in->size + size), more = grown - in->capacity;
        struct door *door = connection->server->door;
        bool has_room = door_stream_hold(door, (int64_t)more);
        if (!has_room) door_stream_refused(door, connection->id, 503, "as much as may be held is held already");
        if (has_room) connection->held += more;
        if (!has_room || !message_grow(&connection->in, grown)) {
            door_stream_kill(door, connection->id);
            connection->state = STATE_OVER;
            return;
        }
        in = connection->in;
    }
    memcpy(in->bytes + in->size, bytes, size);
    in->size += size;
    run(connection);
}

static void on_drained(void *argument) {
    struct http_connection *connection = argument;
    struct http_exchange *exchange = connection->exchange;
    void (*tell)(struct http_exchange * exchange) = exchange != NULL ? exchange->on_drained : NULL;
    if (exchange == NULL) run(connection); /* the next request has waited for it */
    if (tell == NULL) return;
    exchange->on_drained = NULL;
    tell(exchange);
}

static void on_sent(void *argument, uint64_t stamp, bool left) {
    gateway_left(((struct http_server *)argument)->gateway, stamp, left);
}

static void on_page(void *argument, struct message *page) {
    struct http_connection *connection = argument;
    struct http_exchange *exchange = connection->exchange;
    if (exchange == NULL || page == NULL) {
        message_free(page);
        return;
    }
    send_answer(exchange, page->status, page->type, page, 0);
    exchange_over(exchange);
}

static void on_gone(void *argument) {
    struct http_connection *connection = argument;
    if (connection->exchange != NULL) exchange_free(connection->exchange);
    if (connection->held > 0) (void)door_stream_hold(connection->server->door, -(int64_t)connection->held);
    message_free(connection->in);
    explicit_bzero(connection->shown, sizeof(connection->shown));
    free(connection);
}

/* ---- the server */

struct http_server *http_server_new(struct gateway *gateway) {
    struct http_server *server = calloc(1, sizeof(*server));
    if (server == NULL) return NULL;
    server->gateway = gateway;
    server->calls = (struct door_stream_calls){.argument = server,
                                               .opened = on_opened,
                                               .received = on_received,
                                               .drained = on_drained,
                                               .sent = on_sent,
                                               .page = on_page,
                                               .gone = on_gone};
    return server;
}

const struct door_stream_calls *http_server_calls(const struct http_server *server) {
    return &server->calls;
}

void http_server_serve(struct http_server *server, struct door *door) {
    server->door = door;
}

void http_server_free(struct http_server *server) {
    free(server);
}
