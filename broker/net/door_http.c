/* door_http.c: HTTP at the door: decides which requests may upgrade to WebSocket, and serves pages.
 *
 * libwebsockets reads heads that the strict parser has checked and rewritten (door_first.c, door_head.h). This file
 * checks the requests themselves; an upgrade is checked before any response. Allowed are GET and HEAD without a body;
 * an Origin (of a web page) must be allowed by the operator. A connection serves one HTTP request. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door_parts.h"
#include "origin.h"

#define RPC_PROTOCOL "rep.sp.nanomsg.org"
#define LANE_PROTOCOL "push.sp.nanomsg.org"
#define LANE_PATH "/lane/"
#define TEXT_SIZE 512 /* buffer size of a header; a longer value is never valid */
#define PAGE_HEAD_SIZE 1024
#define REFUSAL_SIZE 512

struct refusal {
    unsigned status; /* 0: not refused */
    const char *sentence;
    bool wants_token;
};
#define REFUSED(number, text) ((struct refusal){.status = (number), .sentence = (text)})
static const struct refusal taken;

/* Reads a header. False: it is absent, empty or too long. */
static bool header(struct lws *wsi, enum lws_token_indexes token, char out[TEXT_SIZE]) {
    out[0] = '\0';
    return lws_hdr_copy(wsi, out, TEXT_SIZE, token) > 0;
}

/* Returns whether the header is present; it may be empty. */
static bool is_present(struct lws *wsi, enum lws_token_indexes token) {
    char nothing[1];
    return lws_hdr_total_length(wsi, token) > 0 || lws_hdr_copy_fragment(wsi, nothing, sizeof(nothing), token, 0) >= 0;
}

/* Checks the Origin before all else, so that a web page learns nothing but status 403. */
static struct refusal judge_origin(const struct connection *connection) {
    char text[TEXT_SIZE];
    struct lws *wsi = connection->wsi;
    if (!is_present(wsi, WSI_TOKEN_ORIGIN)) return taken;
    if (header(wsi, WSI_TOKEN_ORIGIN, text) && origin_is_allowed(text, connection->door->limits.origins)) return taken;
    return REFUSED(403, "web pages of this origin may not use the broker (tarryd --allow-origin)");
}

const char door_host_refused[] =
    "Host is no name of this machine, and a web page may have made it up: show a token, name the broker by its address "
    "or as localhost, or allow it (tarryd --allow-origin)";

bool http_host_is_ours(const struct connection *connection, const char *host) {
    if (connection->way != CALLER_LOOPBACK || connection->over_tls || host == NULL) return true;
    return origin_host_is_ours(host, connection->door->limits.origins);
}

static struct refusal judge_host(const struct connection *connection) {
    char text[TEXT_SIZE];
    struct lws *wsi = connection->wsi;
    if (is_present(wsi, WSI_TOKEN_HTTP_AUTHORIZATION) || !is_present(wsi, WSI_TOKEN_HOST)) return taken;
    if (header(wsi, WSI_TOKEN_HOST, text) && http_host_is_ours(connection, text)) return taken;
    return REFUSED(403, door_host_refused);
}

static struct refusal judge_method(struct lws *wsi) {
    bool is_get = lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > 0;
    if (!is_get && lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI) == 0)
        return REFUSED(405, "this port takes GET and HEAD; requests to the broker travel by WebSocket");
    char length[TEXT_SIZE];
    bool is_zero = header(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH, length) && strcmp(length, "0") == 0;
    if ((is_present(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) && !is_zero) ||
        is_present(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING))
        return REFUSED(413, "a request over HTTP has no body here; requests to the broker travel by WebSocket");
    return taken;
}

/* Refuses other major versions, which may have other semantics (RFC 9110, 2.5). For a path with an escaped line end the
 * library reports no version. */
static struct refusal judge_version(struct lws *wsi) {
    char version[TEXT_SIZE];
    if (!is_present(wsi, WSI_TOKEN_HTTP)) return taken;
    bool is_known =
        header(wsi, WSI_TOKEN_HTTP, version) && (strcmp(version, "HTTP/1.1") == 0 || strcmp(version, "HTTP/1.0") == 0);
    return is_known ? taken : REFUSED(505, "this port speaks HTTP/1.1");
}

static struct refusal judge_request(const struct connection *connection) {
    struct refusal refusal = judge_version(connection->wsi);
    if (refusal.status == 0) refusal = judge_origin(connection);
    if (refusal.status == 0) refusal = judge_host(connection);
    return refusal.status != 0 ? refusal : judge_method(connection->wsi);
}

/* ---- clients */

/* Finds the token after "Bearer " (RFC 6750). False: Authorization exists, but has no such token. */
static bool find_token(const char *authorization, struct net_caller *caller) {
    static const char scheme[] = "Bearer ";
    const size_t scheme_size = sizeof(scheme) - 1;
    if (strncasecmp(authorization, scheme, scheme_size) != 0) return false;
    caller->token = authorization + scheme_size + strspn(authorization + scheme_size, " ");
    caller->token_size = strcspn(caller->token, " ");
    return caller->token_size > 0 && caller->token[caller->token_size] == '\0';
}

struct caller_verdict http_admit(struct connection *connection, enum caller_place place, const char *path,
                                 const char *token, size_t token_size) {
    char certificate[TLS_NAME_SIZE] = "";
    if (connection->over_tls) tls_name(lws_get_ssl(connection->wsi), certificate);
    const struct door_calls *calls = &connection->door->calls;
    const struct net_caller caller = {.peer = connection->peer,
                                      .way = connection->way,
                                      .place = place,
                                      .path = path,
                                      .session = connection->holder,
                                      .uid = connection->uid,
                                      .pid = connection->pid,
                                      .over_tls = connection->over_tls,
                                      .certificate = certificate,
                                      .token = token,
                                      .token_size = token_size,
                                      .former = connection->is_admitted ? connection->principal : 0};
    struct caller_verdict verdict = calls->admit(calls->argument, &caller);
    if (verdict.status == 0) {
        connection_dismiss(connection);
        connection->principal = verdict.principal;
        connection->is_admitted = true;
    }
    // cppcheck-suppress returnDanglingLifetime ; a verdict points to nothing of the caller's
    return verdict;
}

/* Asks `admit` about the client. An Authorization that cannot be parsed is refused like a wrong token, not ignored. */
static struct refusal judge_caller(struct connection *connection, enum caller_place place, const char *path) {
    char authorization[TEXT_SIZE];
    struct net_caller caller = {.token = ""};
    bool is_told = is_present(connection->wsi, WSI_TOKEN_HTTP_AUTHORIZATION);
    if (is_told &&
        !(header(connection->wsi, WSI_TOKEN_HTTP_AUTHORIZATION, authorization) && find_token(authorization, &caller)))
        return REFUSED(401, "Authorization is to be `Bearer TOKEN`, with a token of this broker");
    struct caller_verdict verdict = http_admit(connection, place, path, caller.token, caller.token_size);
    explicit_bzero(authorization, sizeof(authorization));
    return verdict.status != 0 ? (struct refusal){verdict.status, verdict.sentence, verdict.wants_token} : taken;
}

/* ---- upgrades */

/* Parses `/lane/N` or `/lane/N/SECRET`. With a secret, `path` is cut before it, and `*out_secret` points to it; else
 * NULL. */
static bool lane_parse(char *path, uint32_t *out_lane, const char **out_secret) {
    uint32_t lane = 0;
    if (strncmp(path, LANE_PATH, sizeof(LANE_PATH) - 1) != 0) return false;
    char *digit = path + sizeof(LANE_PATH) - 1;
    size_t digits = strspn(digit, "0123456789");
    if (digits < 1 || digits > 5 || (digit[digits] != '\0' && digit[digits] != '/')) return false;
    *out_secret = digit[digits] == '/' ? digit + digits + 1 : NULL;
    digit[digits] = '\0';
    for (; *digit != '\0'; digit++) lane = lane * 10 + (uint32_t)(*digit - '0');
    *out_lane = lane;
    return lane < LANES_MAX;
}

static struct refusal judge_handshake(struct lws *wsi, const char *upgrade, const char *protocol) {
    char text[TEXT_SIZE];
    if (strcasecmp(upgrade, "websocket") != 0) return REFUSED(400, "the one upgrade that there is here is websocket");
    if (!header(wsi, WSI_TOKEN_VERSION, text) || strcmp(text, "13") != 0)
        return REFUSED(426, "this port speaks version 13 of WebSocket");
    if (!header(wsi, WSI_TOKEN_KEY, text) || strlen(text) != 24 || !header(wsi, WSI_TOKEN_HOST, text))
        return REFUSED(400, "an upgrade needs a Host and a Sec-WebSocket-Key of 16 bytes");
    if (!header(wsi, WSI_TOKEN_PROTOCOL, text) || strcmp(text, protocol) != 0)
        return REFUSED(400, "Sec-WebSocket-Protocol is not that of this path (proto/WIRE.md)");
    return taken;
}

/* Checks a lane request. The session's secret may be in Authorization, or in the path for libraries that send no custom
 * headers (mangos, nanomsg, a browser). */
static struct refusal judge_lane(struct connection *connection, const char *path, const char *secret) {
    const struct door_calls *calls = &connection->door->calls;
    char authorization[TEXT_SIZE];
    bool is_told = header(connection->wsi, WSI_TOKEN_HTTP_AUTHORIZATION, authorization);
    if (secret != NULL && is_present(connection->wsi, WSI_TOKEN_HTTP_AUTHORIZATION))
        return REFUSED(400, "a lane's secret stands in Authorization or in the path, and not in both");
    if (secret != NULL) snprintf(authorization, sizeof(authorization), "Bearer %s", secret);
    connection->holder =
        calls->lane_asks(calls->argument, connection->lane, is_told || secret != NULL ? authorization : NULL);
    explicit_bzero(authorization, sizeof(authorization));
    if (connection->holder == 0) return REFUSED(401, "this lane needs the secret of the session that holds it");
    return judge_caller(connection, CALLER_LANE, path);
}

static struct refusal judge_upgrade(struct connection *connection, const char *upgrade) {
    struct lws *wsi = connection->wsi;
    const char *secret = NULL;
    char path[TEXT_SIZE];
    struct refusal refusal = judge_request(connection);
    if (refusal.status != 0) return refusal;
    bool is_rpc = header(wsi, WSI_TOKEN_GET_URI, path) && strcmp(path, "/rpc") == 0;
    if (!is_rpc && !lane_parse(path, &connection->lane, &secret))
        return REFUSED(404, "there is no such path to upgrade at");
    refusal = judge_handshake(wsi, upgrade, is_rpc ? RPC_PROTOCOL : LANE_PROTOCOL);
    if (refusal.status == 0)
        refusal = is_rpc ? judge_caller(connection, CALLER_RPC, path) : judge_lane(connection, path, secret);
    explicit_bzero(path, sizeof(path));
    return refusal;
}

static const char *status_text(unsigned status) {
    switch (status) {
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed\r\nAllow: GET, HEAD";
    case 413:
        return "Content Too Large";
    case 426:
        return "Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
    case 417:
        return "Expectation Failed";
    case 429:
        return "Too Many Requests\r\nRetry-After: 1";
    case 431:
        return "Request Header Fields Too Large";
    case 501:
        return "Not Supported";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Bad Request";
    }
}

/* Sends a refusal and ends the connection. The library's own response to an upgrade would use HTTP/1.0. */
static int refuse(struct connection *connection, struct refusal refusal) {
    const struct door_calls *calls = &connection->door->calls;
    char answer[LWS_PRE + REFUSAL_SIZE];
    calls->refused(calls->argument, connection->peer, refusal.status, refusal.sentence);
    int size =
        snprintf(answer + LWS_PRE, REFUSAL_SIZE,
                 "HTTP/1.1 %u %s\r\n%sContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
                 refusal.status, status_text(refusal.status),
                 refusal.wants_token || refusal.status == 401 ? "WWW-Authenticate: Bearer realm=\"tarry\"\r\n" : "",
                 strlen(refusal.sentence) + 1, refusal.sentence);
    assert(size > 0 && (size_t)size < REFUSAL_SIZE); /* CALLER_SENTENCE_MAX */
    (void)lws_write(connection->wsi, (uint8_t *)answer + LWS_PRE, (size_t)size, LWS_WRITE_HTTP_HEADERS);
    return -1;
}

/* Replaces `WebSocket` by `websocket`, which nng 1.5.2's dialer compares byte by byte. `end` is the end of the response
 * headers; the text before it is always the same. */
static int spell_upgrade(const struct connection *connection, char *end, const char *protocol) {
    static const char before[] = "Upgrade: ", word[] = "WebSocket", right[] = "websocket";
    const size_t accept_size = 28;
    size_t behind = strlen("\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ") + accept_size +
                    strlen("\r\nSec-WebSocket-Protocol: ") + strlen(protocol) + strlen("\r\n");
    char *at = end - behind - strlen(word);
    if (memcmp(at, word, strlen(word)) != 0 || memcmp(at - strlen(before), before, strlen(before)) != 0) {
        connection->door->calls.trouble(
            connection->door->calls.argument,
            "libwebsockets answers upgrades otherwise than it is known to: nobody is served");
        return -1;
    }
    memcpy(at, right, strlen(right));
    return 0;
}

/* ---- pages */

static int ask_for_page(struct connection *connection, const char *path) {
    const struct door_calls *calls = &connection->door->calls;
    if (connection->is_answered || connection->is_admitted)
        return -1; /* only one request, because only one verdict is dismissed */
    struct refusal refusal = judge_request(connection);
    if (refusal.status == 0) refusal = judge_caller(connection, CALLER_PAGE, path);
    if (refusal.status != 0) return refuse(connection, refusal);
    connection->wants_head_only = lws_hdr_total_length(connection->wsi, WSI_TOKEN_HEAD_URI) > 0;
    lws_rx_flow_control(connection->wsi, 0);
    connection->awaits_page = true;
    if (calls->page(calls->argument, connection->id, path)) return 0;
    connection->awaits_page = false;
    return refuse(connection, REFUSED(404, "there is no such page; there are /, /healthz, /readyz and /metrics"));
}

/* Security headers: no MIME sniffing, no framing, no caching, no referrer. (The page at `/` sets its own script policy:
 * page/make_page.py.) */
static const struct {
    const char *name, *value;
} page_headers[] = {
    {"x-content-type-options:", "nosniff"},
    {"x-frame-options:", "DENY"},
    {"content-security-policy:", "frame-ancestors 'none'"},
    {"referrer-policy:", "no-referrer"},
    {"cache-control:", "no-store"},
};

static bool write_page_head(const struct connection *connection, const struct message *page) {
    struct lws *wsi = connection->wsi;
    uint8_t head[LWS_PRE + PAGE_HEAD_SIZE], *start = head + LWS_PRE, *at = start, *end = head + sizeof(head) - 1;
    if (lws_add_http_common_headers(wsi, page->status, page->type, page->size, &at, end) != 0) return false;
    for (size_t i = 0; i < sizeof(page_headers) / sizeof(page_headers[0]); i++)
        if (lws_add_http_header_by_name(wsi, (const uint8_t *)page_headers[i].name,
                                        (const uint8_t *)page_headers[i].value, (int)strlen(page_headers[i].value), &at,
                                        end) != 0)
            return false;
    if (lws_add_http_header_by_token(wsi, WSI_TOKEN_CONNECTION, (const uint8_t *)"close", 5, &at, end) != 0)
        return false;
    return lws_finalize_write_http_header(wsi, start, &at, end) == 0;
}

/* Sends as much as the kernel takes. False: the connection is broken. */
static bool write_page(struct connection *connection) {
    const struct message *page = connection->page;
    struct lws *wsi = connection->wsi;
    for (;;) {
        /* A write of 0 bytes makes the library send the rest of the last part. */
        if (lws_partial_buffered(wsi) && lws_write(wsi, NULL, 0, LWS_WRITE_HTTP) < 0) return false;
        size_t rest = page->size - connection->page_at, part = rest < DOOR_FRAME_OUT ? rest : DOOR_FRAME_OUT;
        if (lws_partial_buffered(wsi) || rest == 0) return true;
        uint8_t *bytes = connection->page->bytes + connection->page_at;
        connection->page_at += part;
        if (lws_write(wsi, bytes, part, part < rest ? LWS_WRITE_HTTP : LWS_WRITE_HTTP_FINAL) < 0) return false;
    }
}

void http_drop_page(struct connection *connection) {
    struct door *door = connection->door;
    if (connection->page == NULL) return;
    TAILQ_REMOVE(&door->pages, connection, in_pages);
    door->pages_size -= connection->page->capacity;
    door_done(door, connection->page);
    connection->page = NULL;
}

/* Sends the rest of a page. When all is sent, the connection ends at its next writable event. */
static void push(struct connection *connection) {
    bool ok = write_page(connection);
    if (ok && (connection->page_at < connection->page->size || lws_partial_buffered(connection->wsi))) return;
    http_drop_page(connection);
    if (!ok) {
        connection_kill(connection);
        return;
    }
    lws_rx_flow_control(connection->wsi, 1);
    lws_callback_on_writable(connection->wsi);
}

void http_push(struct door *door) {
    struct connection *connection = TAILQ_FIRST(&door->pages), *next;
    for (; connection != NULL; connection = next) {
        next = TAILQ_NEXT(connection, in_pages);
        push(connection);
    }
}

/* Starts to send a page, and stops reading until all of it is in the kernel. The library reads nothing while it has
 * bytes to send, so further input would wake the thread again and again. The library reports no writable event for such
 * a connection, but does wait for it; http_push then sends. */
void http_answer(struct connection *connection, struct message *page) {
    struct door *door = connection->door;
    bool ok = connection->awaits_page && write_page_head(connection, page);
    connection->awaits_page = false;
    connection->is_answered = true;
    if (!ok) {
        door_done(door, page);
        connection_kill(connection);
        return;
    }
    if (connection->wants_head_only) page->size = 0;
    connection->page = page;
    TAILQ_INSERT_TAIL(&door->pages, connection, in_pages);
    door->pages_size += page->capacity;
    lws_set_timeout(connection->wsi, PENDING_TIMEOUT_USER_REASON_BASE, DOOR_UNREAD_S);
    push(connection);
    while (door->pages_size > door->limits.held_max / DOOR_PAGES_SHARE &&
           (connection = TAILQ_FIRST(&door->pages)) != TAILQ_LAST(&door->pages, connection_list)) {
        door->calls.refused(door->calls.argument, connection->peer, 503, "too many pages are not read: it was first");
        http_drop_page(connection);
        connection_kill(connection);
    }
}

int http_event(struct connection *connection, enum lws_callback_reasons reason, void *in, size_t size) {
    struct refusal refusal;
    switch (reason) {
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        if (connection->is_answered || connection->is_admitted) return -1;
        refusal = judge_upgrade(connection, in);
        if (refusal.status != 0) return refuse(connection, refusal);
        connection_leave_http(connection);
        connection->kind = connection->holder != 0 ? CONNECTION_LANE : CONNECTION_RPC;
        return 0;
    case LWS_CALLBACK_ADD_HEADERS:
        if (connection->kind == CONNECTION_HTTP) return 0;
        return spell_upgrade(connection, (char *)((struct lws_process_html_args *)in)->p,
                             connection->kind == CONNECTION_RPC ? RPC_PROTOCOL : LANE_PROTOCOL);
    case LWS_CALLBACK_HTTP:
        return ask_for_page(connection, in);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return connection->is_answered ? -1 : 0;
    case LWS_CALLBACK_RAW_ADOPT: /* a head that door_first.c refuses */
        assert(connection->early.status != 0);
        return refuse(connection, REFUSED(connection->early.status, connection->early.sentence));
    /* A request body: refused. */
    case LWS_CALLBACK_HTTP_BODY:
    case LWS_CALLBACK_RAW_RX:
        return -1;
    default:
        return 0;
    }
}
