/* filter.c: see filter.h. One recursive-descent reader both checks and evaluates. It evaluates every test, even if the
 * result is already known, so that a filter takes the same time for each task. */
#include "filter.h"

#include <string.h>

#include "tarry_limits.h"

_Static_assert(FILTER_DEPTH_MAX == 16, "the sentence below");

struct reader {
    const char *text;
    const char *at;
    const char *problem; /* error message; NULL: no error so far */
    const char *problem_at;
    unsigned depth;
    Tarry__Attribute *const *attributes;
    size_t attribute_count;
};

/* A piece of the filter's text. */
struct piece {
    const char *bytes;
    size_t size;
};

static bool fail(struct reader *in, const char *problem) {
    if (in->problem == NULL) {
        in->problem = problem;
        in->problem_at = in->at;
    }
    return false;
}

static void skip_blanks(struct reader *in) {
    while (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r') in->at++;
}

static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c != 0 && strchr("_-./", c));
}

static size_t word_size(const struct reader *in) {
    size_t size = 0;
    while (is_name_byte(in->at[size])) size++;
    return size;
}

static bool is_word(const struct piece *piece, const char *word) {
    return piece->size == strlen(word) && memcmp(piece->bytes, word, piece->size) == 0;
}

/* Skips the word if it is next. Returns whether it was. */
static bool take_word(struct reader *in, const char *word) {
    skip_blanks(in);
    const struct piece piece = {in->at, word_size(in)};
    if (!is_word(&piece, word)) return false;
    in->at += piece.size;
    return true;
}

static bool take_sign(struct reader *in, const char *sign) {
    skip_blanks(in);
    if (strncmp(in->at, sign, strlen(sign)) != 0) return false;
    in->at += strlen(sign);
    return true;
}

static bool is_reserved(const struct piece *piece) {
    static const char *const words[] = {"and", "or", "not", "in", "prefix", "exists"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is_word(piece, words[i])) return true;
    return false;
}

static bool read_name(struct reader *in, struct piece *out) {
    skip_blanks(in);
    if (*in->at == '"') {
        const char *end = strchr(in->at + 1, '"');
        if (end == NULL) return fail(in, "the double quote is not closed");
        if (end == in->at + 1) return fail(in, "the name is empty");
        *out = (struct piece){in->at + 1, (size_t)(end - in->at) - 1};
        in->at = end + 1;
        return true;
    }
    *out = (struct piece){in->at, word_size(in)};
    if (out->size == 0) return fail(in, "expected the name of an attribute");
    if (is_reserved(out))
        return fail(in, "expected the name of an attribute (write a name that is a word in double quotes)");
    in->at += out->size;
    return true;
}

/* Reads a text in single quotes. Outputs the bytes between the quotes; each quote within the text is still doubled. */
static bool read_text(struct reader *in, struct piece *out) {
    skip_blanks(in);
    if (*in->at != '\'') return fail(in, "expected a text in single quotes");
    const char *end = in->at + 1;
    while (*end != 0 && (*end != '\'' || end[1] == '\'')) end += *end == '\'' ? 2 : 1;
    if (*end == 0) return fail(in, "the single quote is not closed");
    *out = (struct piece){in->at + 1, (size_t)(end - in->at) - 1};
    in->at = end + 1;
    return true;
}

static const char *value_of(const struct reader *in, const struct piece *name) {
    for (size_t i = 0; i < in->attribute_count; i++) {
        const Tarry__Attribute *attribute = in->attributes[i];
        if (strlen(attribute->name) == name->size && memcmp(attribute->name, name->bytes, name->size) == 0)
            return attribute->value;
    }
    return NULL;
}

/* Returns true if the value begins with the text. With `whole`, only if the value is equal to the text. */
static bool begins_with(const char *value, const struct piece *text, bool whole) {
    if (value == NULL) return false;
    for (size_t i = 0; i < text->size; i++, value++) {
        if (*value == 0 || *value != text->bytes[i]) return false;
        i += text->bytes[i] == '\''; /* skips the second quote: a quote within a text is doubled */
    }
    return !whole || *value == 0;
}

static bool read_list(struct reader *in, const char *value) {
    bool matches = false;
    struct piece text;
    if (!take_sign(in, "(")) return fail(in, "expected ( after in");
    do {
        if (!read_text(in, &text)) return false;
        matches |= begins_with(value, &text, true);
    } while (take_sign(in, ","));
    if (!take_sign(in, ")")) return fail(in, "expected , or ) in the list");
    return matches;
}

static bool read_test(struct reader *in) {
    struct piece name, text;
    if (take_word(in, "exists")) return read_name(in, &name) && value_of(in, &name) != NULL;
    if (!read_name(in, &name)) return false;
    const char *value = value_of(in, &name);
    if (take_sign(in, "!=")) return read_text(in, &text) && !begins_with(value, &text, true);
    if (take_sign(in, "=")) return read_text(in, &text) && begins_with(value, &text, true);
    if (take_word(in, "prefix")) return read_text(in, &text) && begins_with(value, &text, false);
    if (take_word(in, "in")) return read_list(in, value);
    return fail(in, "expected =, !=, in or prefix after the name");
}

static bool read_or(struct reader *in);

static bool read_not(struct reader *in) { /* NOLINT(misc-no-recursion): at most FILTER_DEPTH_MAX */
    if (in->problem != NULL) return false;
    if (in->depth == FILTER_DEPTH_MAX) return fail(in, "more than 16 nested parentheses and nots (FILTER_DEPTH_MAX)");
    in->depth++;
    bool matches;
    if (take_word(in, "not")) {
        matches = !read_not(in);
    } else if (take_sign(in, "(")) {
        matches = read_or(in);
        if (!take_sign(in, ")")) (void)fail(in, "expected ), and or or");
    } else {
        matches = read_test(in);
    }
    in->depth--;
    return matches;
}

static bool read_and(struct reader *in) { /* NOLINT(misc-no-recursion) */
    bool matches = read_not(in);
    while (in->problem == NULL && take_word(in, "and")) matches &= read_not(in);
    return matches;
}

static bool read_or(struct reader *in) { /* NOLINT(misc-no-recursion) */
    bool matches = read_and(in);
    while (in->problem == NULL && take_word(in, "or")) matches |= read_and(in);
    return matches;
}

static bool read_filter(struct reader *in) {
    bool matches = take_sign(in, "*") || read_or(in);
    skip_blanks(in);
    if (*in->at != 0) (void)fail(in, "expected the end, and or or");
    return matches && in->problem == NULL;
}

const char *filter_check(const char *filter, size_t *out_column) {
    struct reader in = {.text = filter, .at = filter};
    (void)read_filter(&in);
    if (in.problem != NULL) *out_column = (size_t)(in.problem_at - in.text) + 1;
    return in.problem;
}

bool filter_matches(const char *filter, Tarry__Attribute *const *attributes, size_t count) {
    struct reader in = {.text = filter, .at = filter, .attributes = attributes, .attribute_count = count};
    return read_filter(&in);
}
