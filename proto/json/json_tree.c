/* json_tree.c: see json_tree.h. */
#include "json_tree.h"

#include <stdint.h>
#include <string.h>

#include "check.h"

#define DIGITS_MAX 18 /* any integer of at most 18 digits fits into an int64_t */

/* ---- reading */

struct reader {
    const char *at, *end;
};

static json_t *read_value(struct reader *reader);

static void skip_blanks(struct reader *reader) {
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

/* Returns the next character, after blanks; 0: the end. */
static char look(struct reader *reader) {
    skip_blanks(reader);
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool take(struct reader *reader, char character) {
    if (look(reader) != character) return false;
    reader->at++;
    return true;
}

/* Reads a string's contents behind its first quote, and the last quote. NULL: not plain. */
static const char *read_text(struct reader *reader, size_t *out_size) {
    const char *begin = reader->at, *at = begin;
    unsigned char all = 0;
    for (; at < reader->end && *at != '"'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < 0x20 || byte == '\\') return NULL;
        all |= byte;
    }
    if (at == reader->end) return NULL;
    *out_size = (size_t)(at - begin);
    reader->at = at + 1;
    return all < 0x80 || is_utf8(begin, *out_size) ? begin : NULL;
}

static json_t *read_string(struct reader *reader) {
    size_t size;
    const char *text = read_text(reader, &size);
    return text != NULL ? json_stringn_nocheck(text, size) : NULL;
}

static json_t *read_integer(struct reader *reader) {
    bool is_negative = *reader->at == '-';
    if (is_negative) reader->at++;
    const char *begin = reader->at;
    json_int_t number = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        if (reader->at - begin == DIGITS_MAX) return NULL;
        number = number * 10 + (*reader->at - '0');
    }
    size_t digits = (size_t)(reader->at - begin);
    bool is_more = reader->at < reader->end && (*reader->at == '.' || *reader->at == 'e' || *reader->at == 'E');
    if (digits == 0 || (digits > 1 && *begin == '0') || is_more) return NULL;
    return json_integer(is_negative ? -number : number);
}

static json_t *read_word(struct reader *reader, const char *word, json_t *value) {
    size_t size = strlen(word), left = (size_t)(reader->end - reader->at);
    if (left < size || memcmp(reader->at, word, size) != 0) return NULL;
    reader->at += size;
    return value; /* jansson's constant for this value, which needs no json_decref */
}

/* Reads `"name": value` of an object. */
static bool read_member(struct reader *reader, json_t *object) {
    size_t size, before = json_object_size(object);
    if (!take(reader, '"')) return false;
    const char *name = read_text(reader, &size);
    if (name == NULL || !take(reader, ':')) return false;
    json_t *value = read_value(reader);
    /* A name that comes twice is an error. */
    return value != NULL && json_object_setn_new_nocheck(object, name, size, value) == 0 &&
           json_object_size(object) == before + 1;
}

static bool read_element(struct reader *reader, json_t *array) {
    json_t *value = read_value(reader);
    return value != NULL && json_array_append_new(array, value) == 0;
}

/* Reads the elements or members behind the first bracket, and the last bracket. */
static json_t *read_all(struct reader *reader, json_t *all, bool (*read_one)(struct reader *, json_t *), char last) {
    if (all == NULL || take(reader, last)) return all;
    while (read_one(reader, all)) {
        if (take(reader, ',')) continue;
        if (take(reader, last)) return all;
        break;
    }
    json_decref(all);
    return NULL;
}

static json_t *read_value(struct reader *reader) {
    switch (look(reader)) {
    case '{':
        reader->at++;
        return read_all(reader, json_object(), read_member, '}');
    case '[':
        reader->at++;
        return read_all(reader, json_array(), read_element, ']');
    case '"':
        reader->at++;
        return read_string(reader);
    case 't':
        return read_word(reader, "true", json_true());
    case 'f':
        return read_word(reader, "false", json_false());
    case 'n':
        return read_word(reader, "null", json_null());
    default:
        return reader->at < reader->end ? read_integer(reader) : NULL;
    }
}

json_t *json_tree_read(const char *text, size_t size) {
    struct reader reader = {text, text + size};
    json_t *root = read_value(&reader);
    skip_blanks(&reader);
    if (root == NULL || reader.at == reader.end) return root;
    json_decref(root);
    return NULL;
}

/* ---- writing */

struct writer {
    char *at, *end;
};

static bool write_value(struct writer *writer, json_t *value);

static bool add(struct writer *writer, const char *text, size_t size) {
    if ((size_t)(writer->end - writer->at) < size) return false;
    memcpy(writer->at, text, size);
    writer->at += size;
    return true;
}

static bool write_text(struct writer *writer, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == '"' || text[i] == '\\') return false;
    return add(writer, "\"", 1) && add(writer, text, size) && add(writer, "\"", 1);
}

static bool write_integer(struct writer *writer, json_int_t number) {
    char text[24], *at = text + sizeof(text);
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0) *--at = '-';
    return add(writer, at, (size_t)(text + sizeof(text) - at));
}

static bool write_object(struct writer *writer, json_t *object) {
    if (!add(writer, "{", 1)) return false;
    for (void *first = json_object_iter(object), *at = first; at != NULL; at = json_object_iter_next(object, at)) {
        bool is_good = (at == first || add(writer, ",", 1)) &&
                       write_text(writer, json_object_iter_key(at), json_object_iter_key_len(at)) &&
                       add(writer, ":", 1) && write_value(writer, json_object_iter_value(at));
        if (!is_good) return false;
    }
    return add(writer, "}", 1);
}

static bool write_array(struct writer *writer, json_t *array) {
    if (!add(writer, "[", 1)) return false;
    for (size_t i = 0; i < json_array_size(array); i++)
        if ((i > 0 && !add(writer, ",", 1)) || !write_value(writer, json_array_get(array, i))) return false;
    return add(writer, "]", 1);
}

static bool write_value(struct writer *writer, json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return write_object(writer, value);
    case JSON_ARRAY:
        return write_array(writer, value);
    case JSON_STRING:
        return write_text(writer, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return write_integer(writer, json_integer_value(value));
    case JSON_TRUE:
        return add(writer, "true", 4);
    case JSON_FALSE:
        return add(writer, "false", 5);
    case JSON_NULL:
        return add(writer, "null", 4);
    case JSON_REAL:
        break;
    }
    return false;
}

size_t json_tree_write(json_t *value, char *out, size_t room) {
    struct writer writer = {out, out + room};
    return write_value(&writer, value) ? (size_t)(writer.at - out) : 0;
}
