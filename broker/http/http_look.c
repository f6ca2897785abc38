/* http_look.c: lists, counts, statistics, the audit log. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "entry.h"
#include "frame.h"
#include "http_exchange.h"
#include "json_map.h"
#include "openapi.h"
#include "queue_map.h"

#define CURSOR_SIZE 16u
#define CURSOR_TEXT_SIZE (2 * CURSOR_SIZE + 1)
#define COUNT_PAGES_MAX 1000u
#define AUDIT_WAIT_MS 5000u
#define AUDIT_BUSY_MS 200u

void handle_openapi(struct http_exchange *exchange) {
    http_respond_text(exchange, 200, "application/json", (const char *)openapi_json, openapi_json_size);
}

/* Responds with the requester's principal and roles, so that a page can hide actions that would be refused. */
void handle_caller(struct http_exchange *exchange) {
    struct text out = HTTP_TEXT;
    struct gateway_who who;
    if (!http_parameters_only(exchange, "")) return;
    gateway_who(exchange->server->gateway, &exchange->caller, &who);
    out_begin(&out, '{');
    out_text(&out, "name", who.name);
    out_key(&out, "roles");
    out_begin(&out, '[');
    for (const char *at = who.roles; *at != '\0';) {
        size_t size = strcspn(at, " ");
        out_comma(&out);
        out_string(&out, at, size);
        at += size + (at[size] == ' ');
    }
    out_end(&out, ']');
    out_bool(&out, "confined", who.is_confined);
    out_end(&out, '}');
    http_respond(exchange, 200, &out);
}

/* ---- lists */

static bool read_states(struct http_exchange *exchange, uint32_t *out) {
    static const char *const names[] = {"pending", "ready", "in_flight", "dead"};
    const struct head_text *value = head_parameter(&exchange->head, "state");
    const char *at = value != NULL ? value->text : "";
    while (*at != '\0') {
        size_t size = strcspn(at, ","), i = 0;
        while (i < 4 && (strlen(names[i]) != size || strncmp(at, names[i], size) != 0)) i++;
        if (i == 4) {
            http_refuse(exchange, 400, "invalid",
                        "unknown state: state must be a list of pending, ready, in_flight, dead");
            return false;
        }
        *out |= 1u << i;
        at += size + (at[size] == ',');
    }
    return true;
}

static bool read_cursor(struct http_exchange *exchange, ProtobufCBinaryData *out) {
    const struct head_text *value = head_parameter(&exchange->head, "cursor");
    if (value == NULL || value->size == 0) return true;
    uint8_t *made = http_make(exchange, CURSOR_SIZE);
    /* `out` must not be set, because it may be a member of the exchange, which http_make has refused and freed. */
    if (made == NULL) return false;
    out->data = made;
    bool is_good = sodium_hex2bin(out->data, CURSOR_SIZE, value->text, value->size, NULL, &out->len, NULL) == 0 &&
                   out->len == CURSOR_SIZE;
    if (!is_good)
        http_refuse(exchange, 400, "invalid",
                    "invalid cursor: use the cursor of an earlier result page of this broker");
    return is_good;
}

static bool read_list(struct http_exchange *exchange, Tarry__List *list) {
    const struct head_text *prefix = head_parameter(&exchange->head, "prefix");
    uint64_t limit = LIST_LIMIT_DEFAULT;
    bool is_dead = strcmp(exchange->head.segments[3].text, "dead") == 0;
    tarry__list__init(list);
    list->queue = (char *)exchange->in.queue;
    if (!http_parameters_only(exchange, "state due_from due_to prefix limit cursor") ||
        !read_states(exchange, &list->states) || !http_parameter_time(exchange, "due_from", &list->due_from_ms) ||
        !http_parameter_time(exchange, "due_to", &list->due_to_ms) ||
        !http_parameter_u64(exchange, "limit", LIST_LIMIT_MAX, &limit) || !read_cursor(exchange, &list->cursor))
        return false;
    if (is_dead) list->states = 8;
    if (prefix != NULL) list->prefix = (ProtobufCBinaryData){.len = prefix->size, .data = (uint8_t *)prefix->text};
    list->limit = (uint32_t)limit;
    return true;
}

static void write_cursor(struct text *out, const ProtobufCBinaryData *next) {
    char text[CURSOR_TEXT_SIZE];
    out_text(out, "next", next->len == CURSOR_SIZE ? sodium_bin2hex(text, sizeof(text), next->data, next->len) : NULL);
}

static void on_listed(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (http_answered_by_head(exchange)) return;
    out_begin(&out, '{');
    out_key(&out, "tasks");
    out_begin(&out, '[');
    for (size_t i = 0; i < reply->list->n_tasks; i++) {
        out_comma(&out);
        json_message(&out, &reply->list->tasks[i]->base);
    }
    out_end(&out, ']');
    write_cursor(&out, &reply->list->next);
    out_end(&out, '}');
    http_respond(exchange, 200, &out);
}

static void ask_list(struct http_exchange *exchange,
                     void (*then)(struct http_exchange *exchange, const Tarry__Reply *reply)) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &exchange->list;
    http_ask(exchange, &request, then);
}

void handle_list(struct http_exchange *exchange) {
    if (read_list(exchange, &exchange->list)) ask_list(exchange, on_listed);
}

/* Counts one result page per request, so that other requests run in between. Counts at most COUNT_PAGES_MAX result
 * pages. */
static void on_counted(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    exchange->count += reply->list->n_tasks;
    const ProtobufCBinaryData *next = &reply->list->next;
    if (next->len == CURSOR_SIZE && ++exchange->pages < COUNT_PAGES_MAX) {
        uint8_t *cursor = exchange->list.cursor.data;
        if (cursor == NULL) cursor = http_make(exchange, CURSOR_SIZE);
        if (cursor == NULL) return;
        memcpy(cursor, next->data, CURSOR_SIZE);
        exchange->list.cursor = (ProtobufCBinaryData){.len = CURSOR_SIZE, .data = cursor};
        ask_list(exchange, on_counted);
        return;
    }
    out_begin(&out, '{');
    out_number(&out, "count", exchange->count);
    out_bool(&out, "complete", next->len == 0);
    write_cursor(&out, next);
    out_end(&out, '}');
    http_respond(exchange, 200, &out);
}

void handle_count(struct http_exchange *exchange) {
    if (!read_list(exchange, &exchange->list)) return;
    exchange->list.limit = LIST_LIMIT_MAX;
    ask_list(exchange, on_counted);
}

/* ---- statistics */

static void on_stats(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (http_answered_by_head(exchange)) return;
    json_message(&out, &reply->stats->base);
    http_respond(exchange, 200, &out);
}

void handle_stats(struct http_exchange *exchange) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    const struct head_text *queue = head_parameter(&exchange->head, "queue");
    if (!http_parameters_only(exchange, "queue job follow") ||
        !http_parameter_u64(exchange, "job", UINT64_MAX, &stats.job) ||
        !http_parameter_bool(exchange, "follow", &exchange->follows))
        return;
    if (exchange->follows && (queue != NULL || stats.job != 0)) {
        http_refuse(exchange, 400, "invalid",
                    "follow cannot be combined with queue or job: it reports all queues that the client may read");
        return;
    }
    if (exchange->follows) {
        http_live_begin(exchange);
        return;
    }
    if (queue != NULL) stats.queue = queue->text;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    http_ask(exchange, &request, on_stats);
}

static void on_consumers(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (http_answered_by_head(exchange)) return;
    json_message(&out, &reply->consumers->base);
    http_respond(exchange, 200, &out);
}

void handle_consumers(struct http_exchange *exchange) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Consumers consumers = TARRY__CONSUMERS__INIT;
    const struct head_text *queue = head_parameter(&exchange->head, "queue");
    if (!http_parameters_only(exchange, "queue")) return;
    if (queue != NULL) consumers.queue = queue->text;
    request.body_case = TARRY__REQUEST__BODY_CONSUMERS;
    request.consumers = &consumers;
    http_ask(exchange, &request, on_consumers);
}

static void on_status(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (http_answered_by_head(exchange)) return;
    json_message(&out, &reply->pair->base);
    http_respond(exchange, 200, &out);
}

void handle_status(struct http_exchange *exchange) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Pair pair = TARRY__PAIR__INIT;
    if (!http_parameters_only(exchange, "")) return;
    request.body_case = TARRY__REQUEST__BODY_PAIR;
    request.pair = &pair;
    http_ask(exchange, &request, on_status);
}

/* ---- audit: a JSON line for each record of the log */

static void audit_go_on(struct http_exchange *exchange);

/* Returns whether the record is about the requested task, for a task's history. */
static bool concerns(const struct entry *entry, const Tarry__Ref *ref) {
    const Tarry__Task *task = entry_task(entry);
    if (ref->queue == NULL) return true;
    if (entry_kind(entry) == ENTRY_REDACTED) return true;
    if (task == NULL) return false;
    if (ref->id != 0) return task->id == ref->id;
    return task->key.len == ref->key.len && memcmp(task->key.data, ref->key.data, ref->key.len) == 0 &&
           entry->queue != NULL && strcmp(entry->queue, ref->queue) == 0;
}

static void write_frame(struct text *out, const Tarry__AuditFrame *frame, const Tarry__Ref *ref,
                        const struct queue_map *queues) {
    struct frame_header header;
    if (frame->header.len != FRAME_HEADER_SIZE || !frame_header_decode(frame->header.data, &header)) return;
    Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, frame->body.len, frame->body.data);
    if (body == NULL) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < body->n_records; i++) {
        struct entry entry = {.header = &header, .body = body, .record = body->records[i], .queues = queues};
        entry.queue = entry_queue_name(&entry, entry_queue(&entry));
        if (concerns(&entry, ref)) json_entry(out, &entry);
    }
    tarry__frame_body__free_unpacked(body, NULL);
}

static void write_page(struct text *out, const Tarry__AuditReply *page, const Tarry__Ref *ref) {
    struct queue_map queues = {0};
    for (size_t i = 0; i < page->n_queues; i++)
        if (queue_map_get(&queues, page->queues[i]->number) == NULL &&
            !queue_map_put(&queues, page->queues[i]->number, page->queues[i]->name))
            out->failed = true;
    for (size_t i = 0; i < page->n_frames; i++)
        if (page->frames[i]->body.len > 0) write_frame(out, page->frames[i], ref, &queues);
    queue_map_deinit(&queues, NULL);
}

static void audit_later(void *argument) {
    struct http_exchange *exchange = argument;
    exchange->timer = 0;
    audit_go_on(exchange);
}

static void on_audit(struct http_exchange *exchange, const Tarry__Reply *reply) {
    bool is_refused = reply == NULL || reply->code != TARRY__CODE__OK;
    if (is_refused && !exchange->is_stream) {
        (void)http_refused(exchange, reply);
        return;
    }
    /* The broker is busy or is no longer the primary. The lines sent until now are right, and reading can continue at
     * `position`. */
    if (is_refused) {
        bool is_busy = reply != NULL && reply->code == TARRY__CODE__BUSY;
        if (is_busy) exchange->timer = gateway_timer(exchange->server->gateway, AUDIT_BUSY_MS, audit_later, exchange);
        if (exchange->timer == 0) http_stream_end(exchange);
        return;
    }
    const Tarry__AuditReply *page = reply->audit;
    if (!exchange->is_stream) http_stream_begin(exchange, "application/x-ndjson");
    if (exchange->head.method == HEAD_HEAD) {
        http_stream_end(exchange);
        return;
    }
    if (page->gap_to != 0) {
        out_begin(&exchange->out, '{');
        out_id(&exchange->out, "gap_to", page->gap_to);
        out_text(&exchange->out, "problem",
                 page->gap_problem[0] != '\0' ? page->gap_problem
                                              : "the log and the archive no longer have these records");
        text_add_str(&exchange->out, "}\n");
    }
    write_page(&exchange->out, page, &exchange->ref);
    exchange->position = page->next;
    bool is_over = page->end && !exchange->follows;
    bool has_room = http_stream_write(exchange, &exchange->out);
    if (is_over)
        http_stream_end(exchange);
    else if (has_room)
        audit_go_on(exchange);
    else
        exchange->on_drained = audit_go_on;
}

static void audit_go_on(struct http_exchange *exchange) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Audit audit = TARRY__AUDIT__INIT;
    audit.position = exchange->position;
    audit.from_ms = exchange->from_ms;
    audit.to_ms = exchange->until_ms;
    audit.wait_ms = exchange->follows && exchange->is_stream ? AUDIT_WAIT_MS : 0;
    if (exchange->ref.id != 0 || exchange->ref.queue != NULL) audit.task = &exchange->ref;
    request.body_case = TARRY__REQUEST__BODY_AUDIT;
    request.audit = &audit;
    http_ask(exchange, &request, on_audit);
}

void handle_audit(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    bool is_history = head->segment_count > 2;
    if (!http_parameters_only(exchange, "position from to follow") ||
        !http_parameter_u64(exchange, "position", UINT64_MAX, &exchange->position) ||
        !http_parameter_time(exchange, "from", &exchange->from_ms) ||
        !http_parameter_time(exchange, "to", &exchange->until_ms) ||
        !http_parameter_bool(exchange, "follow", &exchange->follows))
        return;
    tarry__ref__init(&exchange->ref);
    exchange->ref.queue = NULL;
    if (is_history && head->segment_count == 4) {
        json_t *id = json_stringn(head->segments[2].text, head->segments[2].size);
        bool is_id = json_id_parse(id, &exchange->ref.id);
        json_decref(id);
        if (!is_id) {
            http_refuse(exchange, 400, "invalid", "invalid task id in the path: it must be a whole number from 1");
            return;
        }
        exchange->ref.queue = "";
    } else if (is_history) {
        exchange->ref.queue = (char *)exchange->in.queue;
        exchange->ref.key =
            (ProtobufCBinaryData){.len = head->segments[4].size, .data = (uint8_t *)head->segments[4].text};
    }
    audit_go_on(exchange);
}
