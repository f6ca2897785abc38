/* ndjson.c: see ndjson.h. */
#include "ndjson.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base64.h"
#include "check.h"

void ndjson_begin(struct text *out) {
    text_add_char(out, '{');
}

void ndjson_end(struct text *out) {
    text_add(out, "}\n", 2);
}

void ndjson_key(struct text *out, const char *name) {
    assert(out->size > 0);
    size_t size = strlen(name);
    char *at = text_reserve(out, size + 4), *start = at;
    if (at[-1] != '{') *at++ = ',';
    *at++ = '"';
    memcpy(at, name, size);
    at += size;
    *at++ = '"';
    *at++ = ':';
    out->size += (size_t)(at - start);
}

/* DEL and the control characters U+0080 … U+009F, which control terminals as ESC does. */
static bool is_late_control(const char *at, size_t size) {
    unsigned char first = (unsigned char)at[0];
    return first == 0x7f || (first == 0xC2 && size > 1 && (unsigned char)at[1] >= 0x80 && (unsigned char)at[1] < 0xA0);
}

/* U+2028 and U+2029: some readers treat them as a line end. */
static bool is_line_separator(const char *at, size_t size) {
    return size > 2 && (memcmp(at, "\xE2\x80\xA8", 3) == 0 || memcmp(at, "\xE2\x80\xA9", 3) == 0);
}

/* Returns the size of the well-formed UTF-8 sequence at `at`; 0: none. */
static size_t sequence_size(const char *at, size_t size) {
    unsigned char first = (unsigned char)at[0];
    size_t length = first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0;
    return length > 0 && length <= size && is_utf8(at, length) ? length : 0;
}

static void escape(struct text *out, unsigned char c) {
    static const char hex[] = "0123456789abcdef";
    switch (c) {
    case '"':
        text_add(out, "\\\"", 2);
        break;
    case '\\':
        text_add(out, "\\\\", 2);
        break;
    case '\n':
        text_add(out, "\\n", 2);
        break;
    case '\r':
        text_add(out, "\\r", 2);
        break;
    case '\t':
        text_add(out, "\\t", 2);
        break;
    default: {
        char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        text_add(out, code, sizeof code);
    }
    }
}

/* The usual case: no character needs an escape. */
static bool is_plain(const char *string, size_t size) {
    unsigned char wrong = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)string[i];
        wrong |= (unsigned char)((c < 0x20) | (c >= 0x7f) | (c == '"') | (c == '\\'));
    }
    return wrong == 0;
}

static void string_plain(struct text *out, const char *string, size_t size) {
    char *at = text_reserve(out, size + 2);
    *at = '"';
    if (size > 0) memcpy(at + 1, string, size);
    at[size + 1] = '"';
    out->size += size + 2;
}

void ndjson_string(struct text *out, const char *string, size_t size) {
    if (is_plain(string, size)) {
        string_plain(out, string, size);
        return;
    }
    bool valid = is_utf8(string, size);
    text_add_char(out, '"');
    size_t plain = 0; /* start of the part that is copied unchanged */
    for (size_t i = 0; i < size;) {
        unsigned char c = (unsigned char)string[i];
        size_t step = valid || c < 0x80 ? 1 : sequence_size(string + i, size - i);
        bool late = step > 0 && is_late_control(string + i, size - i);
        bool separator = step > 0 && is_line_separator(string + i, size - i);
        if (step > 0 && c >= 0x20 && c != '"' && c != '\\' && !late && !separator) {
            i += step;
            continue;
        }
        text_add(out, string + plain, i - plain);
        if (separator) {
            text_add(out, string[i + 2] == '\xA8' ? "\\u2028" : "\\u2029", 6);
            plain = i += 3;
            continue;
        }
        if (late && c != 0x7f)
            c = (unsigned char)string[++i]; /* the second byte of U+0080 … U+009F is the code point */
        if (step == 0)
            text_add(out, "\xEF\xBF\xBD", 3);
        else
            escape(out, c);
        plain = ++i;
    }
    text_add(out, string + plain, size - plain);
    text_add_char(out, '"');
}

void ndjson_words(struct text *out, const char *string, size_t size) {
    if (check_text(string, size) == TEXT_PLAIN)
        text_add(out, string, size);
    else
        ndjson_string(out, string, size);
}

void ndjson_bytes(struct text *out, const char *name, const char *string, size_t size) {
    ndjson_key(out, name);
    if (string == NULL)
        text_add(out, "null", 4);
    else
        ndjson_string(out, string, size);
}

void ndjson_text(struct text *out, const char *name, const char *string) {
    ndjson_bytes(out, name, string, string == NULL ? 0 : strlen(string));
}

void ndjson_number(struct text *out, const char *name, uint64_t number) {
    ndjson_key(out, name);
    text_add_u64(out, number);
}

void ndjson_real(struct text *out, const char *name, double number) {
    ndjson_key(out, name);
    if (isfinite(number))
        text_printf(out, "%.10g", number); /* more digits would be noise of the histogram */
    else
        text_add(out, "null", 4);
}

void ndjson_bool(struct text *out, const char *name, bool value) {
    ndjson_key(out, name);
    text_add_str(out, value ? "true" : "false");
}

void ndjson_null(struct text *out, const char *name) {
    ndjson_key(out, name);
    text_add(out, "null", 4);
}

void ndjson_id(struct text *out, const char *name, uint64_t id) {
    ndjson_key(out, name);
    if (id == 0) {
        text_add(out, "null", 4);
        return;
    }
    text_add_char(out, '"');
    text_add_u64(out, id);
    text_add_char(out, '"');
}

void ndjson_token(struct text *out, const char *name, struct tarry_token token) {
    char text[TARRY_TOKEN_SIZE];
    ndjson_text(out, name, tarry_token_format(token, text));
}

void ndjson_attributes(struct text *out, const struct tarry_attribute *attributes, size_t count) {
    ndjson_key(out, "attributes");
    text_add_char(out, '{');
    for (size_t i = 0; i < count; i++) {
        if (i > 0) text_add_char(out, ',');
        ndjson_string(out, attributes[i].name, strlen(attributes[i].name));
        text_add_char(out, ':');
        ndjson_string(out, attributes[i].value, strlen(attributes[i].value));
    }
    text_add_char(out, '}');
}

void ndjson_body(struct text *out, const void *payload, size_t size) {
    if (is_utf8(payload, size)) {
        ndjson_bytes(out, "body", payload, size);
        return;
    }
    ndjson_key(out, "body_base64");
    text_add_char(out, '"');
    base64_encode(out, payload, size);
    text_add_char(out, '"');
}
