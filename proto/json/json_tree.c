/* json_tree.c: see json_tree.h. */
#include "json_tree.h"

#include <stdint.h>
#include <string.h>

#include "json_lexer.h"

/* ---- reading */

static json_t *read_value(struct json_lexer *lexer);

static json_t *read_string(struct json_lexer *lexer) {
    size_t size;
    const char *text = lex_text(lexer, &size);
    return text != NULL ? json_stringn_nocheck(text, size) : NULL;
}

static json_t *read_integer(struct json_lexer *lexer) {
    int64_t number;
    return lex_integer(lexer, &number) ? json_integer(number) : NULL;
}

/* `value` is jansson's constant for the word, which needs no json_decref. */
static json_t *read_word(struct json_lexer *lexer, const char *word, json_t *value) {
    return lex_word(lexer, word, strlen(word)) ? value : NULL;
}

/* Reads `"name": value` of an object. */
static bool read_member(struct json_lexer *lexer, json_t *object) {
    size_t size, before = json_object_size(object);
    if (!lex_take(lexer, '"')) return false;
    const char *name = lex_text(lexer, &size);
    if (name == NULL || !lex_take(lexer, ':')) return false;
    json_t *value = read_value(lexer);
    /* A name that comes twice is an error. */
    return value != NULL && json_object_setn_new_nocheck(object, name, size, value) == 0 &&
           json_object_size(object) == before + 1;
}

static bool read_element(struct json_lexer *lexer, json_t *array) {
    json_t *value = read_value(lexer);
    return value != NULL && json_array_append_new(array, value) == 0;
}

/* Reads the elements or members behind the first bracket, and the last bracket. */
static json_t *read_all(struct json_lexer *lexer, json_t *all, bool (*read_one)(struct json_lexer *, json_t *),
                        char last) {
    if (all == NULL || lex_take(lexer, last)) return all;
    while (read_one(lexer, all)) {
        if (lex_take(lexer, ',')) continue;
        if (lex_take(lexer, last)) return all;
        break;
    }
    json_decref(all);
    return NULL;
}

static json_t *read_value(struct json_lexer *lexer) {
    switch (lex_look(lexer)) {
    case '{':
        lexer->at++;
        return read_all(lexer, json_object(), read_member, '}');
    case '[':
        lexer->at++;
        return read_all(lexer, json_array(), read_element, ']');
    case '"':
        lexer->at++;
        return read_string(lexer);
    case 't':
        return read_word(lexer, "true", json_true());
    case 'f':
        return read_word(lexer, "false", json_false());
    case 'n':
        return read_word(lexer, "null", json_null());
    default:
        return lexer->at < lexer->end ? read_integer(lexer) : NULL;
    }
}

json_t *json_tree_read(const char *text, size_t size) {
    struct json_lexer lexer = {text, text + size};
    json_t *root = read_value(&lexer);
    lex_blanks(&lexer);
    if (root == NULL || lexer.at == lexer.end) return root;
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
