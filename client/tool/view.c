/* view.c: see view.h. */
#include "view.h"

#include <string.h>

#include "check.h"
#include "ndjson.h"
#include "output.h"
#include "rfc3339.h"
#include "units.h"

#define PAGE_ROWS 1000u
#define PAGE_BYTES (64u << 10)

static void json_state(struct text *out, const struct tarry_view *view) {
    if (view->delivered_ms != 0) ndjson_number(out, "delivered_ms", view->delivered_ms);
    if (view->session != 0) ndjson_id(out, "session", view->session);
    if (view->outcome == TARRY_IN_FLIGHT) {
        ndjson_token(out, "token", view->token);
        ndjson_number(out, "lease_deadline_ms", view->lease_deadline_ms);
    }
    if (view->outcome == TARRY_DEAD) {
        ndjson_number(out, "dead_ms", view->dead_ms);
        ndjson_text(out, "reason", view->reason);
    }
    if (view->ended_ms != 0) ndjson_number(out, "ended_ms", view->ended_ms);
    if (view->redacted) ndjson_bool(out, "redacted", true);
}

void view_json(struct text *out, const struct tarry_view *view) {
    ndjson_begin(out);
    ndjson_id(out, "id", view->id);
    ndjson_text(out, "queue", view->queue);
    ndjson_bytes(out, "key", view->key, view->key_size);
    ndjson_text(out, "state", view->state);
    ndjson_number(out, "due_ms", view->due_ms);
    ndjson_number(out, "priority", view->priority);
    if (view->ended_ms == 0)
        ndjson_number(out, "attempt", view->attempt);
    else
        ndjson_text(out, "attempt", NULL); /* unknown for a task that has ended */
    ndjson_number(out, "deliveries", view->deliveries);
    if (view->scheduled_ms != 0) ndjson_number(out, "scheduled_ms", view->scheduled_ms);
    if (view->expires_ms != 0) ndjson_number(out, "expires_ms", view->expires_ms);
    json_state(out, view);
    if (view->has_content) {
        ndjson_attributes(out, view->attributes, view->attribute_count);
        ndjson_body(out, view->payload, view->payload_size);
    }
    json_source(out, &view->source);
    ndjson_end(out);
}

static void words_time(struct text *out, const char *name, uint64_t ms) {
    char time[RFC3339_TEXT_SIZE];
    if (ms != 0) text_printf(out, "%-11s %s\n", name, rfc3339_format(ms, time));
}

static void words_content(struct text *out, const struct tarry_view *view) {
    for (size_t i = 0; i < view->attribute_count; i++) {
        text_printf(out, "%-11s %s=", i == 0 ? "attributes" : "", view->attributes[i].name);
        ndjson_words(out, view->attributes[i].value, strlen(view->attributes[i].value));
        text_add_char(out, '\n');
    }
    if (view->payload_size == 0) return;
    text_printf(out, "%-11s ", "body");
    if (is_utf8(view->payload, view->payload_size))
        ndjson_string(out, view->payload,
                      view->payload_size); /* quoted: control characters in a payload must not reach the terminal */
    else
        text_printf(out, "%zu bytes that are no text (--json prints them as base64)", view->payload_size);
    text_add_char(out, '\n');
}

void view_words(struct text *out, const struct tarry_view *view) {
    char duration[UNITS_TEXT_SIZE], token[TARRY_TOKEN_SIZE];
    text_printf(out, "%-11s %llu\n%-11s %s\n", "id", (unsigned long long)view->id, "queue", view->queue);
    if (view->key != NULL) text_printf(out, "%-11s %s\n", "key", view->key);
    text_printf(out, "%-11s %s\n", "state", view->state);
    words_time(out, "due", view->due_ms);
    words_time(out, "scheduled", view->scheduled_ms);
    if (view->expires_ms != 0)
        text_printf(out, "%-11s %s after due\n", "expires", duration_format(view->expires_ms, duration));
    text_printf(out, "%-11s %u\n", "priority", view->priority);
    if (view->ended_ms == 0) text_printf(out, "%-11s %u\n", "attempt", view->attempt);
    text_printf(out, "%-11s %u\n", "deliveries", view->deliveries);
    words_time(out, "delivered", view->delivered_ms);
    if (view->session != 0) text_printf(out, "%-11s %llu\n", "session", (unsigned long long)view->session);
    if (view->outcome == TARRY_IN_FLIGHT) {
        text_printf(out, "%-11s %s\n", "token", tarry_token_format(view->token, token));
        words_time(out, "lease until", view->lease_deadline_ms);
    }
    if (view->outcome == TARRY_DEAD) {
        words_time(out, "dead since", view->dead_ms);
        if (view->reason[0] != 0) {
            text_printf(out, "%-11s ", "reason");
            ndjson_words(out, view->reason, strlen(view->reason));
            text_add_char(out, '\n');
        }
    }
    words_time(out, "ended", view->ended_ms);
    if (view->redacted)
        text_printf(out, "%-11s redacted: erased for good (tarry history says who and why)\n", "content");
    if (view->has_content) words_content(out, view);
}

static void row(struct table *table, const struct tarry_view *view, bool dead) {
    table_cell_number(table, view->id);
    table_cell(table, view->key != NULL ? view->key : "-");
    if (dead) {
        table_cell_time(table, view->dead_ms);
        table_cell_time(table, view->due_ms);
    } else {
        table_cell(table, view->state);
        table_cell_time(table, view->due_ms);
        table_cell_number(table, view->priority);
    }
    table_cell_number(table, view->attempt);
    table_cell_number(table, view->deliveries);
    if (dead) table_cell(table, view->reason[0] != 0 ? view->reason : "-");
}

static const char *const live_heads[] = {">ID", "KEY", "STATE", "DUE", ">PRIORITY", ">ATTEMPT", ">DELIVERIES"};
static const char *const dead_heads[] = {">ID", "KEY", "DEAD SINCE", "DUE", ">ATTEMPT", ">DELIVERIES", "REASON"};

int view_print_list(struct tool *tool, const struct tarry_list_options *options, bool dead,
                    bool (*keep)(const void *argument, const struct tarry_view *view), const void *argument,
                    uint64_t *out_count) {
    struct table table;
    struct text out = {0};
    tarry_list *list = NULL;
    const struct tarry_view *view;
    char message[TARRY_MESSAGE_SIZE] = "";
    uint64_t count = 0;
    struct tarry_source source = {0}; /* source of the newest result page */
    table_init(&table, dead ? dead_heads : live_heads, 7);
    int code = tarry_list_open(tool->client, options, &list);
    while (code == TARRY_OK && !output_lost() && (code = tarry_list_next(list, &view, message)) == TARRY_OK) {
        if (source.position < view->source.position) source = view->source;
        if (keep != NULL && !keep(argument, view)) continue;
        count++;
        if (tool->json)
            view_json(&out, view);
        else
            row(&table, view, dead);
        if (!tool->json && count % PAGE_ROWS == 0) table_print(&table, &out);
        if (out.size >= PAGE_BYTES) output_write(&out, false);
    }
    if (!tool->json && count > 0) table_print(&table, &out);
    int status = output_flush(&out, EXIT_FINE);
    if (code != TARRY_OK && code != TARRY_E_END) status = tool_failed(tool, code, message);
    tool_say_source(tool, &source);
    if (out_count != NULL) *out_count = count;
    tarry_list_close(list);
    table_deinit(&table);
    text_deinit(&out);
    return status;
}
