/* http_answer.c: HTTP responses: heads, bodies, problem details, and streams of JSON lines; see http_exchange.h. */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "http_connection.h"

#define HEAD_ROOM 1024u
#define SMALL_MAX (64u << 10) /* largest body that is sent in one message with its head */

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
                   {426, "Upgrade Required"},
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

/* Returns the header fields that this status requires. For a path in /v1, the field Allow is left out. */
static const char *fields_of(const struct http_exchange *exchange, unsigned status) {
    switch (status) {
    case 405:
        return exchange->refusal.status == 0 ? "Allow: GET, HEAD\r\n" : "";
    case 426:
        return "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    case 429:
    case 503:
        return "Retry-After: 1\r\n";
    default:
        return "";
    }
}

static size_t put(char head[HEAD_ROOM], size_t at, const char *text) {
    size_t size = strlen(text);
    assert(at + size < HEAD_ROOM);
    memcpy(head + at, text, size);
    return at + size;
}

static size_t put_number(char head[HEAD_ROOM], size_t at, size_t number) {
    char digits[24], *first = digits + sizeof(digits) - 1;
    *first = '\0';
    do *--first = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return put(head, at, first);
}

/* Writes the HTTP head of a response. `size` is the length of the response's body. For a response to HEAD it may be
 * SIZE_UNKNOWN, because RFC 9110 (8.6) requires no length in this case. The head is written without printf, which took
 * a microsecond. */
#define SIZE_UNKNOWN SIZE_MAX
static size_t write_head(const struct http_exchange *exchange, unsigned status, const char *type, size_t size,
                         char head[HEAD_ROOM]) {
    size_t at = put_number(head, put(head, 0, "HTTP/1.1 "), status);
    at = put(head, put(head, at, " "), reason_of(status));
    at = put(head, at, "\r\n");
    if (status == 401 || exchange->wants_token) at = put(head, at, "WWW-Authenticate: Bearer realm=\"tarry\"\r\n");
    at = put(head, at, fields_of(exchange, status));
    at = put(head, put(head, put(head, at, "Content-Type: "), type), "\r\n");
    if (exchange->is_stream && !exchange->is_old) at = put(head, at, "Transfer-Encoding: chunked\r\n");
    if (!exchange->is_stream && size != SIZE_UNKNOWN)
        at = put(head, put_number(head, put(head, at, "Content-Length: "), size), "\r\n");
    if (!exchange->head.stays) at = put(head, at, "Connection: close\r\n");
    return put(head, at,
               "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
               "Content-Security-Policy: frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n\r\n");
}

/* ---- texts */

/* Returns the message that contains the text's bytes; NULL if the text has no bytes yet. */
static struct message *message_of(const struct text *text) {
    if (text->data == NULL) return NULL;
    return (struct message *)(void *)(text->data - offsetof(struct message, bytes));
}

bool http_text_grow(struct text *text, size_t capacity) {
    struct message *message = message_of(text);
    if (message == NULL) {
        message = message_new(capacity);
        if (message == NULL) return false;
    } else {
        message->size = text->size;
        if (!message_grow(&message, capacity)) return false;
    }
    text->data = (char *)message->bytes;
    text->capacity = message->capacity;
    return true;
}

/* Returns the text as a message, and empties the text. NULL if the text failed or is empty. */
static struct message *http_text_take(struct text *text) {
    struct message *message = message_of(text);
    if (message != NULL) message->size = text->size;
    if (text->failed) {
        message_free(message);
        message = NULL;
    }
    *text = (struct text)HTTP_TEXT;
    return message;
}

void http_text_drop(struct text *text) {
    message_free(message_of(text));
    *text = (struct text)HTTP_TEXT;
}

/* ---- responses */

bool http_answered_by_head(struct http_exchange *exchange) {
    char head[HEAD_ROOM];
    if (exchange->head.method != HEAD_HEAD) return false;
    size_t size = write_head(exchange, 200, "application/json", SIZE_UNKNOWN, head);
    struct message *message = message_new(size);
    exchange->is_answered = true;
    if (message == NULL) {
        door_stream_kill(exchange->server->door, exchange->id);
        return true;
    }
    memcpy(message->bytes, head, size);
    exchange_send(exchange, message);
    exchange_over(exchange);
    return true;
}

/* Sends the response. Takes ownership of `body`; NULL: the body is empty. */
static void send_answer(struct http_exchange *exchange, unsigned status, const char *type, struct message *body,
                        uint64_t stamp) {
    struct door *door = exchange->server->door;
    char head[HEAD_ROOM];
    size_t size = body != NULL ? body->size : 0;
    size_t head_size = write_head(exchange, status, type, size, head);
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
    exchange_send(exchange, first);
    if (is_small)
        message_free(body);
    else
        exchange_send(exchange, body);
}

static void refuse_response(struct http_exchange *exchange) {
    http_refuse(exchange, 503, "busy", "the broker has too little memory for the response: try again in a moment");
}

void http_respond(struct http_exchange *exchange, unsigned status, struct text *out) {
    struct message *body = http_text_take(out);
    if (body == NULL) {
        refuse_response(exchange);
        return;
    }
    send_answer(exchange, status, status < 400 ? "application/json" : "application/problem+json", body, 0);
    exchange_over(exchange);
}

void http_respond_leased(struct http_exchange *exchange, struct text *out) {
    uint64_t lease = exchange->handle;
    struct message *body = http_text_take(out);
    exchange->handle = 0;
    if (body == NULL) {
        gateway_left(exchange->server->gateway, lease, false);
        refuse_response(exchange);
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
    if (exchange->is_stream) { /* the response has begun, so only a broken connection shows the client that it is
                                  incomplete */
        door_stream_kill(exchange->server->door, exchange->id);
        return;
    }
    struct text out = HTTP_TEXT;
    out_begin(&out, '{');
    out_key(&out, "type");
    text_add_str(&out, "\"urn:tarry:code:");
    text_add_str(&out, code);
    text_add_str(&out, "\"");
    out_text(&out, "title", reason_of(status));
    out_number(&out, "status", status);
    out_text(&out, "code", code);
    out_text(&out, "detail", sentence);
    if (primary != NULL && primary[0] != '\0') out_text(&out, "primary", primary);
    out_end(&out, '}');
    struct message *body = http_text_take(&out);
    send_answer(exchange, status, "application/problem+json", body, 0);
    exchange_over(exchange);
}

void http_refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence) {
    if (exchange->is_building) { /* the worker's thread may be running this code, so the refusal is sent later, on the
                                    door's thread */
        exchange->refusal.status = status;
        exchange->refusal.code = code;
        snprintf(exchange->refusal.sentence, sizeof(exchange->refusal.sentence), "%s", sentence);
        return;
    }
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
    default: /* all other codes, such as BUSY, STOPPING, BEHIND and TOO_OLD */
        return 503;
    }
}

const char *http_code_of(unsigned status) {
    switch (status) {
    case 401:
    case 403:
        return "denied";
    case 404:
        return "not_found";
    case 405:
        return "method_not_allowed";
    case 408:
        return "timeout";
    case 413:
    case 431:
        return "too_large";
    case 415:
        return "unsupported_media_type";
    case 422:
        return "key_reused";
    case 429:
    case 503:
        return "busy";
    case 500:
        return "failed";
    case 417:
    case 501:
    case 505:
        return "unsupported";
    default:
        return "invalid";
    }
}

void http_refuse_code(struct http_exchange *exchange, Tarry__Code code, const char *sentence, const char *primary) {
    unsigned status = http_status_of(code);
    bool is_said = sentence != NULL && sentence[0] != '\0';
    bool is_reused = is_said && code == TARRY__CODE__INVALID && strcmp(sentence, gateway_once_differs) == 0;
    if (is_reused) status = 422;
    refuse_with(exchange, status, is_reused ? http_code_of(status) : code_name(code),
                is_said ? sentence : code_sentence(code), primary);
}

bool http_refused(struct http_exchange *exchange, const Tarry__Reply *reply) {
    if (reply != NULL && reply->code == TARRY__CODE__OK) return false;
    if (reply == NULL)
        http_refuse_code(
            exchange, TARRY__CODE__FAILED,
            "the broker had too little memory for the response: whether the request took effect is unknown", NULL);
    else
        http_refuse_code(exchange, reply->code, reply->message, reply->primary);
    return true;
}

/* ---- streams */

void http_stream_begin(struct http_exchange *exchange, const char *type) {
    char head[HEAD_ROOM];
    exchange->is_stream = true;
    if (exchange->is_old) exchange->head.stays = false;
    size_t size = write_head(exchange, 200, type, 0, head);
    struct message *message = message_new(size);
    exchange->is_answered = true;
    if (message == NULL) {
        door_stream_kill(exchange->server->door, exchange->id);
        return;
    }
    memcpy(message->bytes, head, size);
    exchange_send(exchange, message);
}

bool http_stream_write(struct http_exchange *exchange, struct text *out) {
    struct door *door = exchange->server->door;
    bool failed = out->failed;
    struct message *body = http_text_take(out);
    if (failed) { /* close the connection, so that the client notices the missing part */
        door_stream_kill(door, exchange->id);
        return true;
    }
    if (body == NULL || body->size == 0 || exchange->head.method == HEAD_HEAD) {
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
    exchange_send(exchange, piece);
    return door_stream_unsent(door, exchange->id) < HTTP_UNSENT_MAX;
}

void http_stream_end(struct http_exchange *exchange) {
    static const char last[] = "0\r\n\r\n";
    bool has_last = !exchange->is_old && exchange->head.method != HEAD_HEAD;
    struct message *message = has_last ? message_new(sizeof(last) - 1) : NULL;
    if (message != NULL) {
        memcpy(message->bytes, last, sizeof(last) - 1);
        exchange_send(exchange, message);
    }
    exchange_over(exchange);
}

void http_respond_page(struct http_exchange *exchange, struct message *page) {
    send_answer(exchange, page->status, page->type, page, 0);
    exchange_over(exchange);
}
