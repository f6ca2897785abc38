/* json_valid.c: see json_valid.h. Each function parses one item at `at`, and returns its end. NULL: the item is
 * invalid. */
#include "json_valid.h"

#include <stdint.h>
#include <string.h>

#include "check.h"
#include "json_in.h"

static const char *behind_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

/* Parses the four digits of \uXXXX. */
static const char *take_unit(const char *at, const char *end, uint32_t *out) {
    static const char digits[] = "0123456789abcdef";
    *out = 0;
    if (end - at < 4) return NULL;
    for (const char *stop = at + 4; at < stop; at++) {
        const char *found = *at != '\0' ? strchr(digits, *at | (*at >= 'A' && *at <= 'F' ? 0x20 : 0)) : NULL;
        if (found == NULL) return NULL;
        *out = *out * 16 + (uint32_t)(found - digits);
    }
    return at;
}

/* Parses an escape behind its backslash. */
static const char *take_escape(const char *at, const char *end) {
    uint32_t unit, low;
    if (at == end || *at == '\0') return NULL;
    if (*at != 'u') return strchr("\"\\/bfnrt", *at) != NULL ? at + 1 : NULL;
    at = take_unit(at + 1, end, &unit);
    if (at == NULL || unit < 0xD800 || unit > 0xDFFF) return at;
    bool has_low = unit < 0xDC00 && end - at >= 2 && at[0] == '\\' && at[1] == 'u';
    at = has_low ? take_unit(at + 2, end, &low) : NULL;
    return at != NULL && low >= 0xDC00 && low <= 0xDFFF ? at : NULL;
}

static const char *take_string(const char *at, const char *end) {
    for (at++; at != NULL && at < end && *at != '"';) {
        if ((unsigned char)*at < 0x20) return NULL;
        at = *at == '\\' ? take_escape(at + 1, end) : at + 1;
    }
    return at != NULL && at < end ? at + 1 : NULL;
}

static const char *behind_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

static const char *take_digits(const char *at, const char *end) {
    const char *behind = behind_digits(at, end);
    return behind > at ? behind : NULL;
}

static const char *take_number(const char *at, const char *end) {
    if (at < end && *at == '-') at++;
    at = at < end && *at == '0' ? at + 1 : take_digits(at, end);
    if (at != NULL && at < end && *at == '.') at = take_digits(at + 1, end);
    if (at == NULL || at == end || (*at | 0x20) != 'e') return at;
    at++;
    if (at < end && (*at == '+' || *at == '-')) at++;
    return take_digits(at, end);
}

static const char *take_word(const char *at, const char *end, const char *word) {
    size_t size = strlen(word);
    return (size_t)(end - at) >= size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

static const char *take_value(const char *at, const char *end, unsigned depth);

/* Parses members or elements behind the bracket. */
static const char *take_members(const char *at, const char *end, unsigned depth, bool is_object) {
    const char bracket = is_object ? '}' : ']';
    if (depth == JSON_DEPTH_MAX) return NULL;
    at = behind_blanks(at, end);
    if (at < end && *at == bracket) return at + 1;
    while (at < end) {
        if (is_object) {
            at = *at == '"' ? take_string(at, end) : NULL;
            at = at != NULL ? behind_blanks(at, end) : NULL;
            if (at == NULL || at == end || *at != ':') return NULL;
            at = behind_blanks(at + 1, end);
        }
        at = take_value(at, end, depth + 1);
        at = at != NULL ? behind_blanks(at, end) : NULL;
        if (at == NULL || at == end) return NULL;
        if (*at == bracket) return at + 1;
        if (*at != ',') return NULL;
        at = behind_blanks(at + 1, end);
    }
    return NULL;
}

static const char *take_value(const char *at, const char *end, unsigned depth) {
    if (at == end) return NULL;
    switch (*at) {
    case '{':
    case '[':
        return take_members(at + 1, end, depth, *at == '{');
    case '"':
        return take_string(at, end);
    case 't':
        return take_word(at, end, "true");
    case 'f':
        return take_word(at, end, "false");
    case 'n':
        return take_word(at, end, "null");
    default:
        return take_number(at, end);
    }
}

bool json_is_valid(const char *text, size_t size) {
    const char *end = text + size;
    if (!is_utf8(text, size)) return false;
    const char *at = take_value(behind_blanks(text, end), end, 0);
    return at != NULL && behind_blanks(at, end) == end;
}
