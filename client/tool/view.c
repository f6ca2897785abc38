/* view.c: see view.h. */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "check.h"
#include "output.h"
#include "table.h"
#include "tarry_limits.h"

#define PAGE_ROWS 1000u
#define PAGE_BYTES (64u << 10)
#define NAME_WIDTH 11u
#define COUNT_OF(columns) (sizeof(columns) / sizeof((columns)[0]))

static const Tarry__TaskView *view_of(const ProtobufCMessage *message) {
    return (const Tarry__TaskView *)message;
}

static void say_expires(struct text *out, const ProtobufCMessage *message) {
    if (view_of(message)->expires_ms == 0) return;
    field_say(out, message, "expires_ms");
    text_add_str(out, " after due");
}

static void say_spread(struct text *out, const ProtobufCMessage *message) {
    if (view_of(message)->spread_ms == 0) return;
    field_say(out, message, "spread_ms");
    text_add_str(out, " later than asked for");
}

static void say_max_attempts(struct text *out, const ProtobufCMessage *message) {
    if (view_of(message)->max_attempts != 0) field_say(out, message, "max_attempts");
}

static void say_backoff(struct text *out, const ProtobufCMessage *message) {
    if (view_of(message)->backoff_ms != 0) field_say(out, message, "backoff_ms");
}

static void say_lease(struct text *out, const ProtobufCMessage *message) {
    if (view_of(message)->lease_ms != 0) field_say(out, message, "lease_ms");
}

static void say_attempt(struct text *out, const ProtobufCMessage *message) {
    /* The attempts of an ended task are not known. */
    if (view_of(message)->ended_ms == 0) text_add_u64(out, view_of(message)->attempt);
}

static void say_redacted(struct text *out, const ProtobufCMessage *message) {
    if (view_of(message)->redacted)
        text_add_str(out, "redacted: permanently erased (tarry history shows by whom and why)");
}

static const struct column lines[] = {
    {"id", "id", NULL},
    {"queue", "queue", NULL},
    {"key", "key", NULL},
    {"state", "state", NULL},
    {"due", "due_ms", NULL},
    {"spread", NULL, say_spread},
    {"scheduled", "scheduled_ms", NULL},
    {"expires", NULL, say_expires},
    {"priority", "priority", NULL},
    {"serial", "serial", NULL},
    {"max attempts", NULL, say_max_attempts},
    {"backoff", NULL, say_backoff},
    {"lease", NULL, say_lease},
    {"attempt", NULL, say_attempt},
    {"deliveries", "deliveries", NULL},
    {"delivered", "delivered_ms", NULL},
    {"session", "session", NULL},
    {"token", "token", NULL},
    {"lease until", "lease_deadline_ms", NULL},
    {"dead since", "dead_ms", NULL},
    {"reason", "reason", NULL},
    {"ended", "ended_ms", NULL},
    {"content", NULL, say_redacted},
};

static const struct column live_columns[] = {
    {">ID", "id", NULL},
    {"KEY", "key", NULL},
    {"STATE", "state", NULL},
    {"DUE", "due_ms", NULL},
    {">PRIORITY", "priority", NULL},
    {">ATTEMPT", "attempt", NULL},
    {">DELIVERIES", "deliveries", NULL},
};

static const struct column dead_columns[] = {
    {">ID", "id", NULL},        {"KEY", "key", NULL},          {"DEAD SINCE", "dead_ms", NULL},
    {"DUE", "due_ms", NULL},    {">ATTEMPT", "attempt", NULL}, {">DELIVERIES", "deliveries", NULL},
    {"REASON", "reason", NULL},
};

static void content_words(struct text *out, const ProtobufCBinaryData *packed) {
    Tarry__Content *content = tarry__content__unpack(NULL, packed->len, packed->data);
    for (size_t i = 0; content != NULL && i < content->n_attributes; i++) {
        text_printf(out, "%-*s %s=", (int)NAME_WIDTH, i == 0 ? "attributes" : "", content->attributes[i]->name);
        plain_add(out, content->attributes[i]->value, strlen(content->attributes[i]->value));
        text_add_char(out, '\n');
    }
    if (content != NULL && content->payload.len > 0) {
        const ProtobufCBinaryData *payload = &content->payload;
        text_printf(out, "%-*s ", (int)NAME_WIDTH, "body");
        if (is_utf8(payload->data, payload->len))
            out_string(out, payload->data,
                       payload->len); /* quoted, because control characters must not reach the terminal */
        else
            text_printf(out, "%zu bytes that are not text (--json prints them as base64)", payload->len);
        text_add_char(out, '\n');
    }
    if (content != NULL && content->properties.len > 0)
        text_printf(out, "%-*s %zu bytes (--json prints them as base64)\n", (int)NAME_WIDTH, "properties",
                    content->properties.len);
    if (content != NULL) tarry__content__free_unpacked(content, NULL);
}

void view_words(struct text *out, const Tarry__TaskView *view) {
    columns_lines(out, lines, COUNT_OF(lines), NAME_WIDTH, &view->base);
    for (size_t i = 0; i < view->n_shares; i++)
        text_printf(out, "share       %s: %s, task %" PRIu64 ", deliveries %u\n", view->shares[i]->queue,
                    view->shares[i]->state, view->shares[i]->id, view->shares[i]->deliveries);
    if (view->content.len > 0) content_words(out, &view->content);
}

/* ---- lists */

struct printing {
    struct tool *tool;
    struct view_list *list;
    const struct column *columns;
    size_t column_count;
    struct table table;
    struct text out;
    struct tarry_source source; /* the broker that answered the newest result page, and its position */
    uint64_t left;              /* number of tasks that may still be printed */
};

static bool is_wanted(const struct view_list *list, const Tarry__TaskView *view) {
    const size_t size = list->key != NULL ? strlen(list->key) : 0;
    return list->key == NULL || (size == view->key.len && memcmp(list->key, view->key.data, size) == 0);
}

static void print_task(struct printing *printing, const Tarry__TaskView *view) {
    struct view_list *list = printing->list;
    if (!is_wanted(list, view)) return;
    list->count++;
    if (printing->tool->json)
        json_line(&printing->out, &view->base, &printing->source);
    else
        columns_row(&printing->table, printing->columns, printing->column_count, &view->base);
    if (!printing->tool->json && list->count % PAGE_ROWS == 0) table_print(&printing->table, &printing->out);
    if (printing->out.size >= PAGE_BYTES) output_write(&printing->out, false);
}

/* Asks for result page after result page, so that the broker serves other requests in between. */
static int print_pages(struct printing *printing, char message[TARRY_MESSAGE_SIZE]) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__List list = printing->list->list;
    uint8_t cursor[64];
    int code = TARRY_OK;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &list;
    for (bool is_over = printing->left == 0; !is_over && !output_lost();) {
        struct answer_of answer;
        list.limit = printing->left < LIST_LIMIT_MAX ? (uint32_t)printing->left : LIST_LIMIT_MAX;
        code = question_ask(printing->tool->client, &request, &printing->tool->fresh, &answer, message);
        if (code != TARRY_OK) break;
        const Tarry__ListReply *page = answer.reply->list;
        printing->source = answer.source;
        for (size_t i = 0; i < page->n_tasks && !output_lost(); i++) print_task(printing, page->tasks[i]);
        printing->left -= page->n_tasks < printing->left ? page->n_tasks : printing->left;
        is_over = page->next.len == 0 || page->next.len > sizeof cursor || printing->left == 0;
        if (!is_over) memcpy(cursor, page->next.data, page->next.len);
        list.cursor = (ProtobufCBinaryData){page->next.len, cursor};
        answer_free(&answer);
    }
    return code;
}

int view_print_list(struct tool *tool, struct view_list *list) {
    char message[TARRY_MESSAGE_SIZE] = "";
    struct printing printing = {
        .tool = tool,
        .list = list,
        .columns = list->dead ? dead_columns : live_columns,
        .column_count = COUNT_OF(live_columns),
        .left = list->limit != 0 ? list->limit : UINT64_MAX,
    };
    _Static_assert(COUNT_OF(live_columns) == COUNT_OF(dead_columns), "one count for both");
    columns_table(&printing.table, printing.columns, printing.column_count);
    int code = print_pages(&printing, message);
    if (!tool->json && list->count > 0) table_print(&printing.table, &printing.out);
    int status = output_flush(&printing.out, EXIT_FINE);
    if (code != TARRY_OK) status = tool_failed(tool, code, message);
    tool_say_source(tool, &printing.source);
    table_deinit(&printing.table);
    text_deinit(&printing.out);
    return status;
}
