/* table.c: see table.h. */
#include "table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "alloc.h"
#include "check.h"
#include "json_out.h"
#include "rfc3339.h"
#include "units.h"

/* ---- style */

static bool is_coloured(int fd) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color != NULL && no_color[0] != 0) return false;
    return isatty(fd) == 1 && term != NULL && strcmp(term, "dumb") != 0;
}

const char *style_begin(int fd, enum style style) {
    static const char *const codes[] = {
        [STYLE_BOLD] = "\033[1m", [STYLE_GOOD] = "\033[32m", [STYLE_WARNING] = "\033[33m", [STYLE_BAD] = "\033[31m"};
    return is_coloured(fd) ? codes[style] : "";
}

const char *style_end(int fd) {
    return is_coloured(fd) ? "\033[0m" : "";
}

/* ---- tables */

#define GAP 2u

/* Returns the number of columns of a text. */
static size_t width_of(const char *text) {
    size_t width = 0;
    /* Count each byte that is not a continuation byte of UTF-8. */
    for (; *text != 0; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static bool is_right(const char *head) {
    return head[0] == '>';
}

void table_init(struct table *table, const char *const *heads, size_t column_count) {
    assert(column_count <= TABLE_COLUMNS_MAX);
    *table = (struct table){.column_count = column_count};
    memcpy(table->heads, heads, column_count * sizeof *heads);
    for (size_t i = 0; i < column_count; i++) table->widths[i] = width_of(heads[i]) - (is_right(heads[i]) ? 1 : 0);
}

static void forget(struct table *table) {
    for (size_t i = 0; i < table->cell_count; i++) free(table->cells[i]);
    table->cell_count = 0;
}

void table_deinit(struct table *table) {
    forget(table);
    free(table->cells);
    *table = (struct table){0};
}

void table_cell(struct table *table, const char *text) {
    if (table->cell_count == table->cell_capacity) {
        size_t capacity = table->cell_capacity == 0 ? 256 : table->cell_capacity * 2;
        char **cells = tool_alloc(capacity * sizeof *cells);
        if (table->cell_count > 0) memcpy(cells, table->cells, table->cell_count * sizeof *cells);
        free(table->cells);
        table->cells = cells;
        table->cell_capacity = capacity;
    }
    char *copy = tool_strdup(text);
    for (char *at = copy; *at != 0; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7F) *at = '?';
        if ((unsigned char)at[0] == 0xC2 && (unsigned char)at[1] >= 0x80 && (unsigned char)at[1] < 0xA0)
            at[0] = at[1] = '?'; /* control characters U+0080 … U+009F */
    }
    size_t column = table->cell_count % table->column_count;
    size_t width = width_of(copy);
    if (width > table->widths[column]) table->widths[column] = width;
    table->cells[table->cell_count++] = copy;
}

void table_cell_number(struct table *table, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    table_cell(table, text);
}

void table_cell_time(struct table *table, uint64_t ms) {
    char text[RFC3339_TEXT_SIZE];
    table_cell(table, ms == 0 ? "-" : rfc3339_format(ms, text));
}

void table_cell_duration(struct table *table, uint64_t ms) {
    char text[UNITS_TEXT_SIZE];
    table_cell(table, duration_format(ms, text));
}

/* Returns the cell, cut to `width` with … at the end if it is longer. Takes ownership of the cell. */
static char *cut(char *cell, size_t width) {
    size_t at = 0;
    if (width_of(cell) <= width) return cell;
    for (size_t columns = 0;; at++)
        if (((unsigned char)cell[at] & 0xC0) != 0x80 && columns++ == width - 1) break;
    char *shorter = tool_alloc(at + sizeof "…");
    memcpy(shorter, cell, at);
    memcpy(shorter + at, "…", sizeof "…");
    free(cell);
    return shorter;
}

void table_fit(struct table *table, size_t column, size_t width) {
    size_t total = GAP * (table->column_count - 1);
    for (size_t i = 0; i < table->column_count; i++) total += table->widths[i];
    if (total <= width) return;
    size_t others = total - table->widths[column];
    table->widths[column] = others + CUT_MIN < width ? width - others : CUT_MIN;
    for (size_t i = column; i < table->cell_count; i += table->column_count)
        table->cells[i] = cut(table->cells[i], table->widths[column]);
}

size_t columns_of(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS_DEFAULT;
}

static void add_cell(const struct table *table, struct text *out, size_t column, const char *text) {
    size_t space = table->widths[column] - width_of(text);
    bool right = is_right(table->heads[column]);
    bool last = column + 1 == table->column_count;
    if (right) text_add_repeat(out, ' ', space);
    text_add_str(out, text);
    if (!right && !last) text_add_repeat(out, ' ', space);
    if (last)
        text_add_char(out, '\n');
    else
        text_add_repeat(out, ' ', GAP);
}

void table_print(struct table *table, struct text *out) {
    assert(table->cell_count % table->column_count == 0);
    if (!table->head_done) {
        text_add_str(out, style_begin(STDOUT_FILENO, STYLE_BOLD));
        for (size_t i = 0; i < table->column_count; i++)
            add_cell(table, out, i, table->heads[i] + (is_right(table->heads[i]) ? 1 : 0));
        text_add_str(out, style_end(STDOUT_FILENO));
    }
    table->head_done = true;
    for (size_t i = 0; i < table->cell_count; i++) add_cell(table, out, i % table->column_count, table->cells[i]);
    forget(table);
}

void bar_add(struct text *out, double value, double max, size_t width) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double share = max > 0 ? value / max : 0;
    if (share > 1) share = 1;
    if (share < 0) share = 0;
    size_t parts = (size_t)(share * (double)width * 8 + 0.5);
    /* A value above 0 gets at least the smallest part of a block, so that it is visible. */
    if (value > 0 && parts == 0) parts = 1;
    for (size_t i = 0; i < parts / 8; i++) text_add_str(out, "█");
    text_add_str(out, eighths[parts % 8]);
    size_t used = parts / 8 + (parts % 8 != 0 ? 1 : 0);
    if (used < width) text_add_repeat(out, ' ', width - used);
}

void plain_add(struct text *out, const char *string, size_t size) {
    if (check_text(string, size) == TEXT_PLAIN)
        text_add(out, string, size);
    else
        out_string(out, string, size);
}

/* ---- columns of a message */

/* Follows a path such as "inner.field": returns the message that contains the last field, and sets `*path` to that
 * field's name. NULL: the inner message is absent. */
static const ProtobufCMessage *enter(const ProtobufCMessage *message, const char **path) {
    for (const char *dot; message != NULL && (dot = strchr(*path, '.')) != NULL; *path = dot + 1) {
        char name[64];
        size_t size = (size_t)(dot - *path);
        assert(size < sizeof name);
        memcpy(name, *path, size);
        name[size] = '\0';
        const struct json_field *field = json_field_of(json_map_of(message->descriptor), name);
        assert(field != NULL && field->of->type == PROTOBUF_C_TYPE_MESSAGE);
        message = *(const ProtobufCMessage *const *)((const char *)message + field->of->offset);
    }
    return message;
}

static void say_number(struct text *out, const struct json_field *field, uint64_t number) {
    char time[RFC3339_TEXT_SIZE], duration[UNITS_TEXT_SIZE];
    if (field->form == JSON_TIME)
        text_add_str(out, number != 0 ? rfc3339_format(number, time) : "");
    else if (field->form == JSON_DURATION)
        text_add_str(out, duration_format(number, duration));
    else if (field->form != JSON_ID || number != 0)
        text_add_u64(out, number);
}

static void say_bytes(struct text *out, const struct json_field *field, const ProtobufCBinaryData *bytes) {
    if (field->form == JSON_TEXT)
        plain_add(out, (const char *)bytes->data, bytes->len);
    else
        for (size_t i = 0; i < bytes->len; i++) text_printf(out, "%02x", bytes->data[i]);
}

void field_say(struct text *out, const ProtobufCMessage *message, const char *path) {
    message = enter(message, &path);
    if (message == NULL) return;
    const struct json_field *field = json_field_of(json_map_of(message->descriptor), path);
    assert(field != NULL && field->of->label != PROTOBUF_C_LABEL_REPEATED);
    const void *at = (const char *)message + field->of->offset;
    switch (field->of->type) {
    case PROTOBUF_C_TYPE_STRING:
        plain_add(out, *(const char *const *)at, strlen(*(const char *const *)at));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        say_bytes(out, field, at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        for (const char *word = json_word_of(field, *(const int *)at); *word != '\0'; word++)
            text_add_char(out, *word == '_' ? ' ' : *word);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        if (*(const protobuf_c_boolean *)at) text_add_str(out, "yes");
        break;
    case PROTOBUF_C_TYPE_UINT64:
        say_number(out, field, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE: {
        assert(field->form == JSON_TOKEN);
        const Tarry__Token *token = *(const Tarry__Token *const *)at;
        if (token != NULL) text_printf(out, "%u-%llu", token->epoch, (unsigned long long)token->position);
        break;
    }
    default:
        assert(field->of->type == PROTOBUF_C_TYPE_UINT32);
        say_number(out, field, *(const uint32_t *)at);
    }
}

static void say(struct text *out, const struct column *column, const ProtobufCMessage *message) {
    if (column->say != NULL)
        column->say(out, message);
    else
        field_say(out, message, column->field);
}

void columns_table(struct table *table, const struct column *columns, size_t count) {
    const char *heads[TABLE_COLUMNS_MAX];
    assert(count <= TABLE_COLUMNS_MAX);
    for (size_t i = 0; i < count; i++) heads[i] = columns[i].head;
    table_init(table, heads, count);
}

void columns_row(struct table *table, const struct column *columns, size_t count, const ProtobufCMessage *message) {
    struct text text = {0};
    for (size_t i = 0; i < count; i++) {
        text_cut(&text, 0);
        say(&text, &columns[i], message);
        table_cell(table, text.size > 0 ? text_str(&text) : "-");
    }
    text_deinit(&text);
}

void columns_lines(struct text *out, const struct column *columns, size_t count, size_t width,
                   const ProtobufCMessage *message) {
    struct text text = {0};
    for (size_t i = 0; i < count; i++) {
        text_cut(&text, 0);
        say(&text, &columns[i], message);
        if (text.size == 0) continue;
        text_printf(out, "%-*s ", (int)width, columns[i].head);
        text_add(out, text.data, text.size);
        text_add_char(out, '\n');
    }
    text_deinit(&text);
}
