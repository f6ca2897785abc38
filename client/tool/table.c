/* table.c: see table.h. */
#include "table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "alloc.h"
#include "check.h"
#include "json_out.h"
#include "rfc3339.h"
#include "style.h"
#include "units.h"

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
    if (value > 0 && parts == 0) parts = 1; /* a value above 0 is always visible */
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
