/* door_upgrade.c: upgrades of HTTP connections to WebSocket: which request may upgrade, and what its connection
 * becomes. All checks come before the response. The protocol of HTTP (broker/http) has parsed the request, and has
 * checked its Origin and Host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "door_parts.h"
#include "http_head.h"
#include "ws_handshake.h"

#define RPC_PROTOCOL "rep.sp.nanomsg.org"
#define LANE_PROTOCOL "push.sp.nanomsg.org"
#define AUTHORIZATION_SIZE 512 /* buffer size for Authorization; a longer value is never valid */
#define RESPONSE_SIZE 256

#define REFUSED(number, text) ((struct caller_verdict){.status = (number), .sentence = (text)})
static const struct caller_verdict taken;

/* An upgrade request, as its path describes it. */
struct wish {
    enum connection_kind kind;
    const char *path; /* the request's path, without the lane's secret */
    const char *protocol;
    bool is_unnamed; /* a lane that a session attaches later (door_attach) */
    uint32_t lane;
    const char *secret; /* secret of a lane, from the path; NULL: none */
    char text[sizeof("/lane/12345")];
};

/* Parses `/rpc`, `/lane`, `/lane/N` and `/lane/N/SECRET`. False: another path. */
static bool parse_path(const struct head *head, struct wish *out) {
    const struct head_text *segments = head->segments;
    *out = (struct wish){.kind = KIND_RPC, .path = "/rpc", .protocol = RPC_PROTOCOL};
    if (head->segment_count == 1 && strcmp(segments[0].text, "rpc") == 0) return true;
    if (head->segment_count < 1 || strcmp(segments[0].text, "lane") != 0) return false;
    out->kind = KIND_LANE;
    out->protocol = LANE_PROTOCOL;
    out->is_unnamed = head->segment_count == 1;
    if (out->is_unnamed) return true;
    size_t digits = strspn(segments[1].text, "0123456789");
    if (digits < 1 || digits > 5 || digits != segments[1].size) return false;
    for (size_t i = 0; i < digits; i++) out->lane = out->lane * 10 + (uint32_t)(segments[1].text[i] - '0');
    snprintf(out->text, sizeof(out->text), "/lane/%.5s", segments[1].text);
    out->path = out->text;
    if (head->segment_count > 2)
        out->secret = head->segment_count == 3 ? segments[2].text : ""; /* the secret "" is never valid */
    return out->lane < LANES_MAX;
}

static struct caller_verdict judge_handshake(const struct head *head, const struct wish *wish) {
    const struct head_text *version = &head->fields[HEAD_FIELD_ws_version], *key = &head->fields[HEAD_FIELD_ws_key],
                           *protocol = &head->fields[HEAD_FIELD_ws_protocol];
    if (head->is_chunked || head->length > 0)
        return REFUSED(
            413, "a request to this path must not have a body; send requests to the broker over WebSocket or to /v1");
    if (version->text == NULL || strcmp(version->text, WS_VERSION) != 0)
        return REFUSED(426, "unsupported Sec-WebSocket-Version: only 13 is supported");
    if (key->text == NULL || !ws_key_is_valid(key->text, key->size))
        return REFUSED(400,
                       "an upgrade to WebSocket needs the headers Host and Sec-WebSocket-Key (16 bytes in base64)");
    if (protocol->text == NULL || !ws_protocols_include(protocol->text, protocol->size, wish->protocol))
        return REFUSED(400, "wrong Sec-WebSocket-Protocol for this path (proto/WIRE.md)");
    return taken;
}

const char *door_token(const struct head_text *authorization, size_t *out_size) {
    static const char scheme[] = "Bearer ";
    *out_size = 0;
    if (authorization->text == NULL) return "";
    if (strncasecmp(authorization->text, scheme, sizeof(scheme) - 1) != 0) return NULL;
    const char *token = authorization->text + sizeof(scheme) - 1;
    token += strspn(token, " ");
    *out_size = strlen(token);
    bool is_one = *out_size > 0 && strchr(token, ' ') == NULL && authorization->size < AUTHORIZATION_SIZE;
    return is_one ? token : NULL;
}

/* Checks a lane's secret. It may be in Authorization, or in the path for libraries that send no custom headers (mangos,
 * nanomsg, a browser). */
static struct caller_verdict judge_lane(struct connection *connection, const struct head *head, const struct wish *wish,
                                        uint64_t *out_holder) {
    const struct door_calls *calls = &connection->door->calls;
    const char *shown = head->fields[HEAD_FIELD_authorization].text;
    char authorization[AUTHORIZATION_SIZE];
    if (wish->secret != NULL && shown != NULL)
        return REFUSED(400, "send the lane's secret either in Authorization or in the path, not in both");
    snprintf(authorization, sizeof(authorization), "Bearer %s", wish->secret != NULL ? wish->secret : "");
    *out_holder = calls->lane_asks(calls->argument, wish->lane, wish->secret != NULL ? authorization : shown);
    explicit_bzero(authorization, sizeof(authorization));
    return *out_holder != 0 ? taken : REFUSED(401, "the secret of the session that owns this lane is missing or wrong");
}

static struct caller_verdict judge(struct connection *connection, const struct head *head, struct wish *wish,
                                   uint64_t *out_holder) {
    if (!parse_path(head, wish)) return REFUSED(404, "unknown WebSocket path (proto/WIRE.md)");
    struct caller_verdict verdict = judge_handshake(head, wish);
    /* A client whose request names no lane is admitted when a session attaches its lane. */
    if (wish->is_unnamed) return verdict;
    if (verdict.status == 0 && wish->kind == KIND_LANE) verdict = judge_lane(connection, head, wish, out_holder);
    if (verdict.status != 0) return verdict;
    size_t size;
    const char *token = door_token(&head->fields[HEAD_FIELD_authorization], &size);
    if (token == NULL)
        return REFUSED(401, "the Authorization header must be `Bearer TOKEN`, with a token of this broker");
    enum caller_place place = wish->kind == KIND_LANE ? CALLER_LANE : CALLER_RPC;
    return connection_admit(connection, place, wish->path, *out_holder, token, size);
}

/* Queues the 101 response. False: out of memory. */
static bool respond(struct connection *connection, const struct head *head, const struct wish *wish) {
    struct message *response = message_new(RESPONSE_SIZE);
    if (response == NULL) return false;
    response->size =
        ws_response(head->fields[HEAD_FIELD_ws_key].text, wish->protocol, (char *)response->bytes, RESPONSE_SIZE);
    response->kind = ORDER_CONTROL;
    io_queue(connection, response);
    return true;
}

bool upgrade_begin(struct connection *connection, const struct upgrade *upgrade, const void *behind) {
    struct upgrade *kept = malloc(sizeof(*kept) + upgrade->size);
    if (kept == NULL) return false;
    *kept = *upgrade;
    if (kept->size > 0) memcpy(kept->bytes, behind, kept->size);
    connection->stream.upgrade = kept;
    deadline_cancel(&connection->deadline);
    if (!LISTED(connection, in_again)) LIST_LAST(&connection->door->again, connection, in_again);
    return true;
}

struct caller_verdict door_stream_upgrade(struct door *door, uint64_t id, const struct head *head, const void *behind,
                                          size_t size) {
    struct connection *connection = connection_find(door, id);
    struct wish wish;
    uint64_t holder = 0;
    if (connection == NULL || connection->kind != KIND_STREAM || connection->state != STATE_OPEN)
        return REFUSED(400, "the connection has ended");
    struct caller_verdict verdict = judge(connection, head, &wish, &holder);
    if (verdict.status != 0) return verdict;
    const struct upgrade upgrade = {
        .kind = wish.kind, .framing = FRAMING_WS, .lane = wish.lane, .holder = holder, .size = size};
    if (connection->has_ended || !upgrade_begin(connection, &upgrade, behind) || !respond(connection, head, &wish))
        connection_kill(connection);
    return taken;
}

void upgrade_finish(struct connection *connection) {
    struct upgrade *upgrade = connection->stream.upgrade;
    connection->stream.upgrade = NULL;
    stream_gone(connection);
    deadline_cancel(&connection->deadline);
    memset(&connection->stream, 0, sizeof(connection->stream));
    ws_begin(connection, upgrade);
    free(upgrade);
}
