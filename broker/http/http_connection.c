/* http_connection.c: the bytes of a connection: heads, bodies, and the responses in their order; see http_server.h.
 *
 * Requests are in `line` until their responses are sent. Usually the connection has one request at a time. Commits
 * can be pipelined: a commit may begin while earlier commits are under way. This has four conditions: each earlier
 * commit is one operation on a task (http_lets_others_begin); the commit's own head and body have arrived whole; its
 * head needs only the usual steps (goes_beside); memory suffices. Any other request begins when `line` is empty. So
 * commits take effect in the order of the requests, and all other requests find the effects of all earlier requests.
 *
 * Received bytes that are not parsed yet are stored in `in`, and the door counts them. They wait while too many
 * response bytes are unsent. A head must be complete within HEAD_MS, and each 64 KiB of a body within BODY_MS.
 * Between two requests a connection may be idle for REST_MS. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door_turn.h"
#include "http_connection.h"
#include "json_quick.h"

#define HEAD_MS 10000u
#define BODY_MS 30000u
#define REST_MS 60000u
#define IN_MAX                                                                                                         \
    (64u << 10) /* maximum input that is buffered in a request; also the body bytes that must arrive within BODY_MS */
#define IN_FIRST 1024u
/* For packed_max. A task with the shortest `json` is the one that grows most, because its content-type is added. */
#define PACKED_FACTOR 3u
#define PACKED_MORE 1024u
#define CLIENT "http" /* the client name in the log, before ": " and the User-Agent */
#define AGENT_SIZE_MAX (CLIENT_NAME_SIZE_MAX - (sizeof(CLIENT ": ") - 1))

static void run(struct http_connection *connection);
static void settle_put_off(struct http_connection *connection);

/* ---- exchanges */

/* Returns an empty exchange; NULL: out of memory. Used exchanges are kept for reuse, with the first block of their
 * arenas. Allocating an exchange and its arena took a quarter of a small request's time. */
static struct http_exchange *exchange_new(struct http_server *server) {
    struct http_exchange *exchange = server->spare_count > 0 ? server->spares[--server->spare_count] : NULL;
    if (exchange == NULL) {
        exchange = malloc(sizeof(*exchange));
        if (exchange == NULL) return NULL;
        arena_init(&exchange->arena, HTTP_ARENA_MAX);
    }
    *exchange = (struct http_exchange){.server = server, .out = HTTP_TEXT, .arena = exchange->arena};
    exchange->answer_last = &exchange->answer;
    exchange->in.arena = &exchange->arena;
    return exchange;
}

static void exchange_keep(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    struct arena *arena = &exchange->arena;
    bool is_small = arena->first == NULL || arena->first->size <= HTTP_SPARE_ARENA_MAX;
    if (is_small && server->spare_count < HTTP_SPARES_MAX) {
        arena_reset(arena);
        server->spares[server->spare_count++] = exchange;
        return;
    }
    arena_deinit(arena);
    free(exchange);
}

/* Clears the head, because it may contain an Authorization header. */
static void drop_head(struct http_exchange *exchange) {
    if (exchange->head_bytes != NULL) explicit_bzero(exchange->head_bytes, exchange->head_size);
    free(exchange->head_bytes);
    exchange->head_bytes = NULL;
}

static void drop_answer(struct http_exchange *exchange) {
    for (struct message *message = exchange->answer, *next; message != NULL; message = next) {
        next = message->next;
        message_free(message);
    }
}

static void exchange_free(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    http_live_end(exchange);
    gateway_forget(server->gateway, exchange->handle);
    gateway_cancel(server->gateway, exchange->handle);
    gateway_timer_cancel(server->gateway, exchange->timer);
    json_decref(exchange->json);
    http_text_drop(&exchange->out);
    drop_answer(exchange);
    if (exchange->passed_size > 0) { /* A later request has begun, and the bytes that the door counts for the connection
                                        are now those of the later request. So only `passed_size` is given back. */
        (void)door_stream_hold(server->door, -(int64_t)exchange->passed_size);
        server->passed_count--;
    } else {
        body_deinit(&exchange->body);
        (void)door_stream_half(server->door, exchange->id, 0, false);
    }
    if (server->alone == exchange) server->alone = NULL;
    drop_head(exchange);
    exchange_keep(exchange);
}

/* Ends the exchange after the client has left. If the worker still uses the exchange, it is freed later, and counted
 * until then. */
static void exchange_abandon(struct http_exchange *exchange) {
    struct http_server *server = exchange->server;
    exchange->connection = NULL;
    if (!exchange->is_working || http_worker_cancel(server->worker, &exchange->job)) {
        exchange_free(exchange);
        return;
    }
    if (!door_stream_hold(server->door, (int64_t)exchange->held)) exchange->held = 0;
}

static void on_built(struct http_exchange *exchange) {
    exchange->is_working = exchange->is_building = false;
    if (exchange->connection != NULL) {
        exchange->built(exchange);
        return;
    }
    (void)door_stream_hold(exchange->server->door, -(int64_t)exchange->held);
    exchange_free(exchange);
}

void http_build(struct http_exchange *exchange, void (*build)(struct http_exchange *exchange),
                void (*built)(struct http_exchange *exchange)) {
    exchange->is_building = true;
    exchange->built = built;
    if (exchange->body.size > HTTP_INLINE_MAX) {
        exchange->is_working = true;
        http_worker_post(exchange->server->worker, &exchange->job, exchange->caller.principal, exchange, build,
                         on_built);
        return;
    }
    build(exchange);
    on_built(exchange);
}

/* ---- the line of requests */

static void line_add(struct http_connection *connection, struct http_exchange *exchange) {
    TAILQ_INSERT_TAIL(&connection->line, exchange, in_line);
    connection->count++;
    connection->exchange = exchange;
}

static void line_remove(struct http_connection *connection, struct http_exchange *exchange) {
    TAILQ_REMOVE(&connection->line, exchange, in_line);
    connection->count--;
    connection->passed_size -= exchange->passed_size;
    if (connection->exchange == exchange) connection->exchange = NULL;
}

void exchange_send(struct http_exchange *exchange, struct message *message) {
    if (TAILQ_FIRST(&exchange->connection->line) == exchange) {
        door_stream_send(exchange->server->door, exchange->id, message);
        return;
    }
    message->next = NULL;
    *exchange->answer_last = message;
    exchange->answer_last = &message->next;
}

static void send_waiting(struct http_exchange *exchange) {
    for (struct message *message = exchange->answer, *next; message != NULL; message = next) {
        next = message->next;
        door_stream_send(exchange->server->door, exchange->id, message);
    }
    exchange->answer = NULL;
    exchange->answer_last = &exchange->answer;
}

/* Frees the requests at the head of the line whose responses are complete, and sends the responses that waited for
 * them. */
static void line_advance(struct http_connection *connection) {
    struct http_exchange *first;
    while ((first = TAILQ_FIRST(&connection->line)) != NULL) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): line_remove takes a request out before it is freed
        send_waiting(first);
        if (!first->is_over) return;
        if (first->ends_all) door_stream_finish(connection->server->door, connection->id);
        line_remove(connection, first);
        exchange_free(first);
    }
    connection->is_barred = false;
}

void exchange_over(struct http_exchange *exchange) {
    struct http_connection *connection = exchange->connection;
    const bool is_last = connection->exchange == exchange;
    exchange->is_over = true;
    /* Only the last request may end the connection. An earlier request was received whole, and a later one has begun.
     */
    exchange->ends_all =
        is_last && (!exchange->head.stays || connection->state == STATE_BODY || connection->state == STATE_OVER);
    if (is_last) {
        connection->exchange = NULL;
        connection->state = exchange->ends_all ? STATE_OVER : STATE_HEAD;
    }
    line_advance(connection);
    settle_put_off(connection);
    if (connection->state == STATE_OVER) return;
    /* If run() has called this function, run() makes another pass (`is_due`) and begins the next request. */
    connection->is_due = true;
    if (connection->is_running) return;
    run(connection);
}

void http_lets_others_begin(struct http_exchange *exchange) {
    struct http_connection *connection = exchange->connection;
    /* Returns also outside of run(): the commit is then sent again after a delay, or the worker has parsed its large
     * body. */
    if (!connection->is_running || connection->exchange != exchange || connection->state != STATE_BUSY) return;
    if (!exchange->head.stays) return;
    /* If a commit needs stored tasks, the core reads them from the disk first. A later commit that needs no reading
     * would take effect before it. Commits of one operation on the same task need the same reading, which is done in
     * their order. */
    if (exchange->commit->n_ops != 1 || !http_route_changes_tasks(exchange)) return;
    connection->exchange = NULL;
    connection->state = STATE_HEAD;
    connection->is_due = true;
}

/* ---- postponed commits */

static void refuse_put_off(struct http_exchange *exchange) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = TARRY__CODE__BUSY;
    exchange->is_put_off = false;
    exchange->on_reply(exchange, &reply);
}

/* Returns the first postponed commit of the line; NULL: none. If `overtaken` is true, returns it only if a later
 * request of the line has its response, and so may have been executed. */
static struct http_exchange *find_put_off(const struct http_connection *connection, bool overtaken) {
    struct http_exchange *exchange = NULL, *found = NULL;
    TAILQ_FOREACH(exchange, &connection->line, in_line) {
        if (found == NULL && exchange->is_put_off) found = exchange;
        if (found != NULL && (!overtaken || exchange->is_over)) return found;
    }
    return NULL;
}

static void on_put_off(void *argument) {
    struct http_exchange *exchange = argument;
    struct http_connection *connection = exchange->connection;
    exchange->timer = 0;
    connection->is_settling = true; /* no other request begins before all postponed ones are sent */
    while ((exchange = find_put_off(connection, false)) != NULL) {
        exchange->is_put_off = false;
        http_commit_again(exchange);
    }
    connection->has_put_off = connection->is_settling = false;
    if (connection->state != STATE_OVER) run(connection);
}

/* Does nothing until each request of the line has its reply or is postponed. Then refuses the postponed commits that
 * were overtaken, and starts the timer that sends the other postponed commits again. */
static void settle_put_off(struct http_connection *connection) {
    struct http_exchange *exchange;
    if (!connection->has_put_off || connection->is_settling) return;
    TAILQ_FOREACH(exchange, &connection->line, in_line)
    if (!exchange->is_over && !exchange->is_put_off) return;
    connection->is_settling = true;
    while ((exchange = find_put_off(connection, true)) != NULL) refuse_put_off(exchange);
    exchange = find_put_off(connection, false);
    if (exchange != NULL)
        exchange->timer = gateway_timer(connection->server->gateway, connection->put_off_ms, on_put_off, exchange);
    if (exchange == NULL || exchange->timer == 0) { /* no commit is postponed any more, or no memory for the timer */
        connection->has_put_off = false;
        while ((exchange = find_put_off(connection, false)) != NULL) refuse_put_off(exchange);
    }
    connection->is_settling = false;
}

void http_put_off(struct http_exchange *exchange, uint64_t after_ms) {
    struct http_connection *connection = exchange->connection;
    exchange->is_put_off = connection->has_put_off = true;
    connection->put_off_ms = after_ms;
    settle_put_off(connection);
}

/* ---- requests */

/* Returns the input that was not consumed. */
static char *rest_of(const struct http_connection *connection) {
    return (char *)connection->in->bytes + connection->at;
}

static size_t rest_size(const struct http_connection *connection) {
    return connection->in->size - connection->at;
}

/* Refuses the request and ends the connection, because the position of the next request is unknown or cannot be
 * trusted. */
static void refuse_and_end(struct http_exchange *exchange, unsigned status, const char *sentence) {
    exchange->head.stays = false;
    door_stream_refused(exchange->server->door, exchange->id, status, sentence);
    http_refuse(exchange, status, http_code_of(status), sentence);
}

/* Checks Origin and Host before anything else: a web page of another origin learns nothing but status 403. */
static bool judge_browser(struct http_exchange *exchange, bool is_v1) {
    const struct head_text *fields = exchange->head.fields;
    const char *origin = fields[HEAD_FIELD_origin].text, *host = fields[HEAD_FIELD_host].text;
    const bool shows = fields[HEAD_FIELD_authorization].text != NULL;
    struct door *door = exchange->server->door;
    /* The broker's own page uses /v1 only. */
    if (origin != NULL && !door_stream_origin(door, exchange->id, origin, is_v1 ? host : NULL, shows)) {
        refuse_and_end(
            exchange, 403,
            "web pages of this origin may not use the broker; to allow them, start tarryd with --allow-origin");
        return false;
    }
    if (!shows && !door_stream_host(door, exchange->id, host)) {
        refuse_and_end(exchange, 403, door_host_refused);
        return false;
    }
    return true;
}

/* Checks a request for a page. */
static bool judge_page(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    bool is_read = head->method == HEAD_GET || head->method == HEAD_HEAD,
         has_body = head->is_chunked || head->length > 0;
    if (!is_read)
        refuse_and_end(exchange, 405,
                       "this path takes GET and HEAD; /v1/openapi.json names the paths that take others");
    else if (has_body)
        refuse_and_end(exchange, 413, "a request for this path has no body");
    return is_read && !has_body;
}

/* Authenticates the request. If the Authorization header is the same as before, reuses the last result. */
static bool admit(struct http_exchange *exchange, bool is_page) {
    struct http_connection *connection = exchange->connection;
    const struct head_text *authorization = &exchange->head.fields[HEAD_FIELD_authorization];
    const char *shown = authorization->text != NULL ? authorization->text : "";
    size_t size;
    /* The page has its own access rule (broker/access), so access is checked for each request. */
    enum caller_place place = is_page ? CALLER_PAGE : CALLER_RPC;
    char path[HEAD_PATH_SIZE];
    if (connection->is_admitted && !is_page && strcmp(shown, connection->shown) == 0) return true;
    const char *token = door_token(authorization, &size);
    struct caller_verdict verdict = {
        .status = 401, .sentence = "the Authorization header must be `Bearer TOKEN`, with a token of this broker"};
    if (token != NULL)
        verdict = door_stream_admit(exchange->server->door, exchange->id, place,
                                    is_page ? head_path(&exchange->head, path) : "/v1", token, size);
    connection->is_admitted = verdict.status == 0 && !is_page;
    exchange->wants_token = verdict.wants_token;
    if (verdict.status == 0) {
        connection->principal = exchange->caller.principal = verdict.principal;
        snprintf(connection->shown, sizeof(connection->shown), "%s", shown);
        return true;
    }
    refuse_and_end(exchange, verdict.status, verdict.sentence);
    return false;
}

/* Passes the connection to the door's WebSocket. If the upgrade is refused, responds with the reason in plain text,
 * because WebSocket libraries show it. */
static void upgrade(struct http_exchange *exchange) {
    struct http_connection *connection = exchange->connection;
    char text[CALLER_SENTENCE_MAX + 2];
    struct caller_verdict verdict = door_stream_upgrade(exchange->server->door, exchange->id, &exchange->head,
                                                        rest_of(connection), rest_size(connection));
    connection->state = STATE_OVER;
    if (verdict.status == 0) return; /* on_gone follows */
    int size = snprintf(text, sizeof(text), "%s\n", verdict.sentence);
    assert(size > 0 && (size_t)size < sizeof(text));
    exchange->head.stays = false;
    exchange->wants_token = verdict.wants_token;
    door_stream_refused(exchange->server->door, exchange->id, verdict.status, verdict.sentence);
    http_respond_text(exchange, verdict.status, "text/plain", text, (size_t)size);
}

/* Checks the client's permission by the head. Returns false if the body must not be read. */
static bool judge(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    bool is_v1 = head->segment_count > 0 && strcmp(head->segments[0].text, "v1") == 0;
    if (!judge_browser(exchange, is_v1)) return false;
    if (head->is_upgrade && !is_v1) {
        upgrade(exchange);
        return false;
    }
    return (is_v1 || judge_page(exchange)) && admit(exchange, !is_v1);
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
    if (!exchange->drops_body && !body_finish(&exchange->body)) {
        http_refuse(exchange, 400, "invalid",
                    "the body is not compressed as Content-Encoding says, or it is incomplete");
        return;
    }
    body_unpacked(&exchange->body);
    http_route(exchange);
}

/* Decides from the head how to receive the body. Returns false if the request is refused and the connection ends. */
static bool begin_body(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    const bool has_body = head->is_chunked || head->length > 0;
    const bool is_read = head->method != HEAD_GET && head->method != HEAD_HEAD;
    http_route_find(exchange);
    exchange->drops_body = !is_read || exchange->refusal.status != 0;
    if (exchange->refusal.status != 0 && has_body && (head->length > HTTP_DROP_MAX || head->wants_go_ahead)) {
        refuse_and_end(exchange, exchange->refusal.status, exchange->refusal.sentence);
        return false;
    }
    struct body_refusal refusal = body_begin(&exchange->body, head);
    if (refusal.status != 0) {
        refuse_and_end(exchange, refusal.status, refusal.sentence);
        return false;
    }
    json_scan_begin(&exchange->scan);
    if (head->fields[HEAD_FIELD_idempotency].text != NULL) http_fingerprint_begin(exchange);
    if (has_body && head->wants_go_ahead && rest_size(exchange->connection) == 0) go_ahead(exchange);
    return true;
}

/* Adds the User-Agent to the client's name. The text may be hostile, so every byte except printable ASCII becomes `?`.
 */
static void name_client(struct http_exchange *exchange) {
    const struct head_text *agent = &exchange->head.fields[HEAD_FIELD_agent];
    size_t size = agent->size < AGENT_SIZE_MAX ? agent->size : AGENT_SIZE_MAX;
    if (agent->text == NULL || size == 0) return;
    char *at = exchange->client + sizeof(CLIENT ": ") - 1;
    memcpy(exchange->client, CLIENT ": ", sizeof(CLIENT ": ") - 1);
    for (size_t i = 0; i < size; i++) *at++ = agent->text[i] < ' ' || agent->text[i] > '~' ? '?' : agent->text[i];
    *at = '\0';
    exchange->caller.client = exchange->client;
}

/* Returns the maximum size of a packed commit with this body. Each operation may get the queue's name of the path. */
static size_t packed_max(size_t body_size) {
    return PACKED_FACTOR * body_size + (body_size / JSON_QUICK_TASK_SIZE + 1) * QUEUE_NAME_SIZE_MAX + PACKED_MORE;
}

/* Returns whether a commit may begin now although other requests are under way. */
static bool has_room_beside(const struct http_connection *connection) {
    const struct http_server *server = connection->server;
    const struct gateway_caller caller = {.principal = connection->principal};
    const size_t body = rest_size(connection) < DOOR_SMALL_MAX ? rest_size(connection) : DOOR_SMALL_MAX;
    return !connection->is_barred && !connection->has_put_off && connection->is_admitted &&
           connection->count < HTTP_PIPELINED_MAX && connection->passed_size < HTTP_PIPELINED_BYTES &&
           server->passed_count < HTTP_PASSED_MAX && rest_size(connection) > 0 &&
           gateway_has_spare(server->gateway, &caller, packed_max(body));
}

/* Counts the bytes of the last request of the line separately (`passed_size`), because a later request begins. From
 * then on the door counts the connection's bytes for the later request. */
static bool pass_last(struct http_connection *connection) {
    struct http_exchange *last = TAILQ_LAST(&connection->line, http_line);
    struct door *door = connection->server->door;
    size_t count = last->commit != NULL ? last->commit->n_ops : 0;
    if (last->passed_size > 0) return true;
    size_t size = sizeof(*last) + last->head_size + last->held + count * HTTP_RESULT_ROOM;
    if (connection->passed_size + size > HTTP_PIPELINED_BYTES || !door_stream_hold(door, (int64_t)size)) return false;
    body_deinit(&last->body); /* a refused request, or one whose handler needs no body, still has it */
    last->passed_size = size;
    connection->passed_size += size;
    connection->server->passed_count++;
    return true;
}

/* Returns whether this request, whose head has `size` bytes, is a commit that may begin while earlier commits are under
 * way. The body must be in the buffer, so that no request is half-received while earlier ones are under way. A
 * request that could end the connection, or needs several steps, must begin alone. */
static bool goes_beside(struct http_connection *connection, struct http_exchange *exchange, size_t size) {
    const struct head *head = &exchange->head;
    const struct head_text *fields = head->fields;
    const char *shown = fields[HEAD_FIELD_authorization].text;
    return head->stays && !head->is_old && !head->is_chunked && !head->is_upgrade && !head->wants_go_ahead &&
           head->length <= DOOR_SMALL_MAX && head->length <= rest_size(connection) - size &&
           fields[HEAD_FIELD_encoding].text == NULL && fields[HEAD_FIELD_idempotency].text == NULL &&
           fields[HEAD_FIELD_origin].text == NULL && strcmp(shown != NULL ? shown : "", connection->shown) == 0 &&
           http_route_changes_tasks(exchange) && pass_last(connection);
}

static void ready_for_body(struct http_connection *connection, const struct head *head) {
    connection->left = head->length;
    connection->chunks = (struct chunks){0};
    connection->part_left = 0;
    connection->is_whole = connection->has_more = false;
    connection->dropped = 0;
    connection->body_come = connection->body_timed = 0;
    connection->head_is_timed = false;
    connection->state = STATE_BODY;
}

/* Begins a request whose head is complete: the first `size` bytes of the input. */
static bool begin_exchange(struct http_connection *connection, size_t size) {
    struct http_exchange *exchange = exchange_new(connection->server);
    struct head_refusal refusal = {503, "the broker has too little memory: try again in a moment"};
    size_t used = 0;
    char *bytes = malloc(size + 1);
    if (exchange == NULL || bytes == NULL) {
        if (exchange != NULL) exchange_keep(exchange);
        free(bytes);
        door_stream_kill(connection->server->door, connection->id);
        return false;
    }
    memcpy(bytes, rest_of(connection), size);
    bytes[size] = '\0';
    exchange->connection = connection;
    exchange->id = connection->id;
    exchange->caller =
        (struct gateway_caller){.principal = connection->principal, .peer = connection->peer, .client = CLIENT};
    exchange->body = (struct http_body){.door = connection->server->door, .id = connection->id};
    exchange->head_bytes = bytes;
    exchange->head_size = size;
    enum head_result result = http_head_parse(bytes, size, &exchange->head, &used, &refusal);
    exchange->is_old = exchange->head.is_old;
    if (connection->count > 0 && (result != HEAD_DONE || !goes_beside(connection, exchange, size))) {
        connection->is_barred = true;
        drop_head(exchange);
        exchange_keep(exchange);
        return false;
    }
    line_add(connection, exchange);
    if (result != HEAD_DONE) {
        refuse_and_end(exchange, refusal.status, refusal.sentence);
        return false;
    }
    name_client(exchange);
    connection->at += size;
    ready_for_body(connection, &exchange->head);
    return judge(exchange) && begin_body(exchange);
}

/* Returns the size of the request's head, including the empty line; 0: the head is incomplete. For a usual head this
 * takes a third of the time of memmem. */
static size_t find_head_end(const char *begin, size_t size) {
    const char *at = begin, *end = begin + size, *line_end;
    while ((line_end = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at = line_end + 1;
        if (at - begin >= 4 && memcmp(at - 4, "\r\n\r\n", 4) == 0) return (size_t)(at - begin);
    }
    return 0;
}

/* Parses a head from the input. False: no progress is possible with the bytes received so far. */
static bool take_head(struct http_connection *connection) {
    struct door *door = connection->server->door;
    const bool is_beside = connection->count > 0;
    if (is_beside && !has_room_beside(connection)) return false;
    char *begin = rest_of(connection);
    size_t size = rest_size(connection);
    size_t head_size = find_head_end(begin, size);
    if (head_size > 0) return begin_exchange(connection, head_size);
    if (is_beside) return false;
    if (size < HEAD_SIZE_MAX) {
        struct head head;
        struct head_refusal refusal;
        size_t used;
        /* Refuse an invalid head at once, without waiting for the rest of it. */
        bool is_bad = size > 0 && http_head_parse(begin, size, &head, &used, &refusal) == HEAD_BAD;
        if (!is_bad) {
            bool is_timed = connection->head_is_timed && size > 0;
            if (!is_timed) door_stream_deadline(door, connection->id, size > 0 ? HEAD_MS : REST_MS);
            connection->head_is_timed = size > 0;
            return false;
        }
    }
    return begin_exchange(connection, size);
}

/* Finds the next bytes of the body in the input. Sets `*size` to the number of bytes of chunk framing before them, and
 * `part_left` to the number of the body's bytes. Returns false if the framing is malformed. */
static bool find_part(struct http_connection *connection, char *bytes, size_t *size) {
    const struct http_exchange *exchange = connection->exchange;
    char *part = bytes;
    size_t all = *size;
    if (connection->part_left > 0) {
        *size = 0;
        return true;
    }
    if (!exchange->head.is_chunked) {
        connection->part_left = all < connection->left ? all : (size_t)connection->left;
        connection->left -= connection->part_left;
        *size = 0;
        return true;
    }
    enum head_result result = chunks_take(&connection->chunks, bytes, &all, &part, &connection->part_left);
    connection->is_whole = result == HEAD_DONE;
    *size = all - connection->part_left;
    return result != HEAD_BAD;
}

static const struct body_refusal no_body = {413, "this request has no body: the broker ignores at most 1 MiB of one"};

/* Drops body bytes of a refused request. Above HTTP_DROP_MAX bytes, returns a refusal that ends the connection. */
static struct body_refusal drop(struct http_connection *connection, size_t size) {
    const struct http_refusal *refusal = &connection->exchange->refusal;
    connection->dropped += size;
    if (connection->dropped <= HTTP_DROP_MAX) return (struct body_refusal){0};
    return refusal->status != 0 ? (struct body_refusal){refusal->status, refusal->sentence} : no_body;
}

/* Consumes some of the body's next bytes; sets `*size` to their number. False: the request is refused. */
static bool take_part(struct http_connection *connection, char *bytes, size_t *size) {
    struct http_exchange *exchange = connection->exchange;
    struct http_body *body = &exchange->body;
    struct body_refusal refusal = {
        400, "the body is not valid chunked encoding, or its chunk extensions and trailers are larger than 4 KiB"};
    size_t before = body->size, at = *size;
    bool is_good = find_part(connection, bytes, &at);
    size_t part = connection->part_left;
    if (is_good && exchange->drops_body)
        refusal = drop(connection, part);
    else if (is_good)
        refusal = body_take(body, bytes + at, &part, &connection->has_more);
    if (refusal.status != 0) {
        refuse_and_end(exchange, refusal.status, refusal.sentence);
        return false;
    }
    *size = at + part;
    connection->part_left -= part;
    if (body->size > before) http_body_came(exchange, body->bytes + before, body->size - before);
    return true;
}

/* Returns whether the whole body was received and consumed. */
static bool is_whole(const struct http_connection *connection) {
    bool has_come = connection->exchange->head.is_chunked ? connection->is_whole : connection->left == 0;
    return has_come && connection->part_left == 0 && !connection->has_more;
}

static bool take_body(struct http_connection *connection, struct door_turn *turn) {
    struct http_exchange *exchange = connection->exchange;
    assert(exchange != NULL); /* take_head has found the request's head */
    const size_t began = connection->at;
    bool goes_on = true;
    while (goes_on && !connection->is_cut && !is_whole(connection) &&
           (rest_size(connection) > 0 || connection->has_more)) {
        size_t before = exchange->body.size, size = rest_size(connection);
        goes_on = take_part(connection, rest_of(connection), &size);
        connection->at += goes_on ? size : 0;
        connection->is_cut = goes_on && !door_turn_goes_on(turn, size + exchange->body.size - before);
    }
    if (connection->state != STATE_BODY) return false;
    connection->body_come += connection->at - began;
    if (is_whole(connection)) {
        dispatch(exchange);
        return true;
    }
    if (connection->body_come >= connection->body_timed) {
        connection->body_timed = connection->body_come + IN_MAX;
        door_stream_deadline(connection->server->door, connection->id, BODY_MS);
    }
    return false;
}

/* The rest of the input is moved once for all requests and chunks, because each may have few bytes. */
static void drop_consumed(struct http_connection *connection) {
    struct message *in = connection->in;
    in->size -= connection->at;
    memmove(in->bytes, in->bytes + connection->at, in->size);
    connection->at = 0;
}

/* Replaces the empty input buffer by a small one, so that other connections can use the memory. */
static void shrink(struct http_connection *connection) {
    struct message *small = message_new(IN_FIRST);
    if (small == NULL) return;
    small->size = 0;
    message_free(connection->in);
    connection->in = small;
    (void)door_stream_keep(connection->server->door, connection->id, 0);
}

static bool step(struct http_connection *connection, struct door_turn *turn) {
    switch (connection->state) {
    case STATE_HEAD:
        connection->is_unread = door_stream_unsent(connection->server->door, connection->id) >= HTTP_UNSENT_MAX;
        return !connection->is_unread && take_head(connection); /* if responses are unsent, on_drained continues */
    case STATE_BODY:
        return take_body(connection, turn);
    default:
        return false;
    }
}

/* Returns whether the connection's request waits for tasks, or is an endless stream (`follow`). */
static bool awaits_more(const struct http_connection *connection) {
    const struct http_exchange *exchange = connection->exchange;
    return exchange != NULL && (exchange->on_leased != NULL || exchange->follows);
}

/* Ends the connection if its client will send nothing more and no complete request is left. A lease or an endless
 * stream ends at once, because a client that has gone looks the same, and must get no task. */
static void finish_if_done(struct http_connection *connection) {
    struct http_exchange *exchange = connection->exchange;
    const bool is_endless = awaits_more(connection); /* true: the request began after the client's half-close */
    if (!connection->is_deaf || connection->is_running || connection->is_unread || connection->is_cut) return;
    if (!is_endless && connection->state != STATE_BODY && (connection->state != STATE_HEAD || connection->count > 0))
        return;
    if (is_endless) {
        line_remove(connection, exchange);
        exchange_abandon(exchange);
    }
    connection->state = STATE_OVER;
    door_stream_finish(connection->server->door, connection->id);
}

/* Processes the input during one turn of the connection. */
static void run(struct http_connection *connection) {
    struct door *door = connection->server->door;
    struct door_turn turn;
    if (connection->is_running) return;
    connection->is_unread = connection->is_cut = false;
    connection->is_running = true;
    bool has_turn = door_turn_begin(door, connection->id, &turn), goes_on = has_turn;
    while (goes_on && !connection->is_cut) {
        connection->is_due = false;
        goes_on = step(connection, &turn) || connection->is_due;
        if (goes_on) connection->is_cut |= !door_turn_goes_on(&turn, 0);
    }
    connection->is_running = false;
    drop_consumed(connection);
    if (has_turn) door_turn_end(door, connection->id, &turn, connection->is_cut);
    if (connection->state == STATE_OVER) return;
    connection->is_cut |= !has_turn;
    if (connection->in->size == 0 && connection->in->capacity > IN_FIRST) shrink(connection);
    bool waits = connection->state == STATE_BUSY || connection->count > 0 || connection->is_unread;
    bool is_full = waits && connection->state != STATE_BODY && connection->in->size >= IN_MAX;
    door_stream_pause(door, connection->id, is_full || connection->is_cut);
    finish_if_done(connection);
}

/* ---- callbacks of the door */

static void *on_opened(void *argument, uint64_t id, const char *peer) {
    struct http_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) return NULL;
    connection->in = message_new(IN_FIRST);
    if (connection->in == NULL) {
        free(connection);
        return NULL;
    }
    connection->in->size = 0;
    TAILQ_INIT(&connection->line);
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
        size_t grown = 2 * (in->size + size);
        struct door *door = connection->server->door;
        bool has_room = door_stream_keep(door, connection->id, grown);
        if (!has_room)
            door_stream_refused(door, connection->id, 503,
                                "the broker's buffers for request bodies are full: try again in a moment");
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

/* Handles the client's half-close. Requests that have arrived completely are answered. */
static bool on_ended(void *argument) {
    struct http_connection *connection = argument;
    if (awaits_more(connection)) return false;
    connection->is_deaf = true;
    finish_if_done(connection);
    return true;
}

static void on_drained(void *argument) {
    struct http_connection *connection = argument;
    struct http_exchange *exchange = connection->exchange;
    void (*tell)(struct http_exchange * exchange) = exchange != NULL ? exchange->on_drained : NULL;
    if (exchange == NULL && connection->is_unread)
        run(connection); /* the next request was waiting until earlier responses are sent */
    if (tell == NULL) return;
    exchange->on_drained = NULL;
    tell(exchange);
}

static void on_turn(void *argument) {
    run(argument);
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
    http_respond_page(exchange, page);
}

static void on_gone(void *argument) {
    struct http_connection *connection = argument;
    struct http_exchange *exchange;
    while ((exchange = TAILQ_FIRST(&connection->line)) != NULL) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): line_remove takes a request out before it is freed
        line_remove(connection, exchange);
        exchange_abandon(exchange);
    }
    message_free(connection->in);
    explicit_bzero(connection->shown, sizeof(connection->shown));
    free(connection);
}

/* ---- the server */

struct http_server *http_server_new(struct gateway *gateway) {
    struct http_server *server = calloc(1, sizeof(*server));
    if (server == NULL) return NULL;
    server->gateway = gateway;
    server->worker = http_worker_new(gateway);
    server->minutes = http_minutes_new(gateway);
    if (server->worker == NULL || server->minutes == NULL) {
        http_server_free(server);
        return NULL;
    }
    server->calls = (struct door_stream_calls){.argument = server,
                                               .opened = on_opened,
                                               .received = on_received,
                                               .ended = on_ended,
                                               .drained = on_drained,
                                               .turn = on_turn,
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

void http_server_count_minutes(struct http_server *server) {
    http_minutes_start(server->minutes);
}

void http_server_free(struct http_server *server) {
    if (server == NULL) return;
    http_worker_free(server->worker);
    http_minutes_free(server->minutes);
    for (unsigned i = 0; i < server->spare_count; i++) {
        arena_deinit(&server->spares[i]->arena);
        free(server->spares[i]);
    }
    free(server);
}
