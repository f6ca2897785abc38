/* json_out.c: see json_out.h. */
#include "json_out.h"

#include <assert.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "rfc3339.h"

static char last(const struct text *out) {
    return out->size > 0 ? out->data[out->size - 1] : '{';
}

void out_comma(struct text *out) {
    char before = last(out);
    if (before != '{' && before != '[' && before != ',' && before != ':' && before != '\n') text_add_char(out, ',');
}

void out_begin(struct text *out, char bracket) {
    text_add_char(out, bracket);
}

void out_end(struct text *out, char bracket) {
    text_add_char(out, bracket);
}

void out_line_end(struct text *out) {
    text_add(out, "}\n", 2);
}

void out_key(struct text *out, const char *name) {
    size_t size = strlen(name);
    out_comma(out);
    char *at = text_reserve(out, size + 3);
    if (at == NULL) return;
    *at = '"';
    memcpy(at + 1, name, size);
    memcpy(at + 1 + size, "\":", 2);
    out->size += size + 3;
}

/* Returns the size of the well-formed UTF-8 sequence that starts at `at`; 0: none starts there. */
static size_t sequence_size(const unsigned char *at, size_t size) {
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xC0 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : at[0] < 0xF8 ? 4 : 0;
    return length > 0 && length <= size && is_utf8(at, length) ? length : 0;
}

/* How a byte is written in a JSON string. 0: unchanged. 'u': as \u00XX. 'l': the byte may begin a character that
 * late_escape escapes. Any other character: as a backslash and that character. */
static const char escapes[256] = {
    [0x00 ... 0x08] = 'u', ['\t'] = 't',  ['\n'] = 'n', [0x0b ... 0x0c] = 'u', ['\r'] = 'r', [0x0e ... 0x1f] = 'u',
    ['"'] = '"',           ['\\'] = '\\', [0x7f] = 'u', [0xC2] = 'l',          [0xE2] = 'l'};

static void escape(struct text *out, unsigned char c, char kind) {
    static const char digits[] = "0123456789abcdef";
    const char code[] = {'\\', kind, '0', '0', digits[c >> 4], digits[c & 15]};
    text_add(out, code, kind == 'u' ? sizeof(code) : 2);
}

/* Returns the size of a character at `at` that is escaped although it is not ASCII: U+0080 … U+009F, which control
 * terminals as ESC does, and U+2028 and U+2029, which some readers treat as a line end. 0: another character. */
static size_t late_size(const unsigned char *at, size_t size) {
    if (size >= 2 && at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0) return 2;
    return size >= 3 && at[0] == 0xE2 && at[1] == 0x80 && (at[2] == 0xA8 || at[2] == 0xA9) ? 3 : 0;
}

static void late_escape(struct text *out, const unsigned char *at) {
    if (at[0] == 0xC2)
        escape(out, at[1], 'u');
    else
        text_add_str(out, at[2] == 0xA8 ? "\\u2028" : "\\u2029");
}

/* Writes bytes that are not all UTF-8. */
static void write_broken(struct text *out, const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size;) {
        size_t step = sequence_size(bytes + i, size - i);
        char kind = bytes[i] < 0x80 ? escapes[bytes[i]] : 0;
        if (step == 0)
            text_add_str(out, "\xEF\xBF\xBD");
        else if (kind != 0)
            escape(out, bytes[i], kind);
        else if (late_size(bytes + i, step) != 0)
            late_escape(out, bytes + i);
        else
            text_add(out, bytes + i, step);
        i += step > 0 ? step : 1;
    }
}

/* The usual case: no byte needs an escape, and all are ASCII. */
static bool is_plain(const unsigned char *bytes, size_t size) {
    unsigned char wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong |= (unsigned char)((bytes[i] < 0x20) | (bytes[i] >= 0x7f) | (bytes[i] == '"') | (bytes[i] == '\\'));
    return wrong == 0;
}

static void write_utf8(struct text *out, const unsigned char *bytes, size_t size) {
    size_t plain = 0; /* start of the part that is copied unchanged */
    for (size_t i = 0; i < size;) {
        char kind = escapes[bytes[i]];
        size_t step = kind == 'l' ? late_size(bytes + i, size - i) : 1;
        if (kind == 0 || step == 0) {
            i++;
            continue;
        }
        text_add(out, bytes + plain, i - plain);
        if (kind == 'l')
            late_escape(out, bytes + i);
        else
            escape(out, bytes[i], kind);
        plain = i += step;
    }
    text_add(out, bytes + plain, size - plain);
}

void out_string(struct text *out, const void *text, size_t size) {
    const unsigned char *bytes = text;
    text_add_char(out, '"');
    if (is_plain(bytes, size))
        text_add(out, bytes, size);
    else if (is_utf8(text, size))
        write_utf8(out, bytes, size);
    else
        write_broken(out, bytes, size);
    text_add_char(out, '"');
}

void out_base64(struct text *out, const uint8_t *bytes, size_t size) {
    /* Size of the base64 text, including its final 0. */
    size_t room = sodium_base64_encoded_len(size, sodium_base64_VARIANT_ORIGINAL);
    char *at = text_reserve(out, room + 1);
    if (at == NULL) return;
    *at = '"';
    sodium_bin2base64(at + 1, room, bytes, size, sodium_base64_VARIANT_ORIGINAL);
    at[room] = '"';
    out->size += room + 1;
}

void out_hex(struct text *out, const uint8_t *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    char *at = text_reserve(out, 2 + 2 * size);
    if (at == NULL) return;
    *at++ = '"';
    for (size_t i = 0; i < size; i++) {
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    *at = '"';
    out->size += 2 + 2 * size;
}

void out_double(struct text *out, double number) {
    if (isfinite(number))
        text_printf(out, "%.10g", number);
    else
        text_add_str(out, "null");
}

void out_token_value(struct text *out, uint32_t epoch, uint64_t position) {
    text_add_char(out, '"');
    text_add_u64(out, epoch);
    text_add_char(out, '-');
    text_add_u64(out, position);
    text_add_char(out, '"');
}

/* ---- members */

void out_bytes(struct text *out, const char *name, const void *bytes, size_t size) {
    out_key(out, name);
    if (bytes == NULL)
        text_add_str(out, "null");
    else
        out_string(out, bytes, size);
}

void out_text(struct text *out, const char *name, const char *text) {
    out_bytes(out, name, text, text != NULL ? strlen(text) : 0);
}

void out_number(struct text *out, const char *name, uint64_t number) {
    out_key(out, name);
    text_add_u64(out, number);
}

void out_bool(struct text *out, const char *name, bool value) {
    out_key(out, name);
    text_add_str(out, value ? "true" : "false");
}

void out_null(struct text *out, const char *name) {
    out_bytes(out, name, NULL, 0);
}

void out_id(struct text *out, const char *name, uint64_t id) {
    if (id == 0) {
        out_null(out, name);
        return;
    }
    out_key(out, name);
    text_add_char(out, '"');
    text_add_u64(out, id);
    text_add_char(out, '"');
}

void out_token(struct text *out, const char *name, const Tarry__Token *token) {
    if (token == NULL) return;
    out_key(out, name);
    out_token_value(out, token->epoch, token->position);
}

#define TIME_NAME_MAX 60u
void out_time(struct text *out, const char *name, uint64_t ms) {
    char text[RFC3339_TEXT_SIZE], key[TIME_NAME_MAX + sizeof("_ms")];
    const size_t size = strlen(name);
    if (ms == 0) return;
    assert(size <= TIME_NAME_MAX);
    memcpy(key, name, size);
    memcpy(key + size, "_ms", sizeof("_ms"));
    out_number(out, key, ms);
    out_text(out, name, rfc3339_format(ms, text));
}
