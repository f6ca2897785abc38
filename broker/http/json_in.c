/* json_in.c: see json_in.h. Parses values; operations are in json_ops.c. */
#include "json_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rfc3339.h"
#include "units.h"

static bool wrong(struct json_in *in, const char *name, const char *what) {
    snprintf(in->problem, sizeof(in->problem), "%.60s %s", name, what);
    return false;
}

/* Estimated memory of a JSON value and the data made of it: an object with its table and its operation; an array; an
 * element or a member; a string. */
#define OBJECT_WEIGHT 512u
#define ARRAY_WEIGHT 144u
#define ELEMENT_WEIGHT 48u
#define STRING_WEIGHT 64u

void json_scan_begin(struct json_scan *scan) {
    *scan = (struct json_scan){.weight = ELEMENT_WEIGHT};
}

/* Returns the end of the string, or `end`. */
static const char *scan_string(struct json_scan *scan, const char *at, const char *end) {
    bool is_escaped = scan->is_escaped;
    for (; at < end && (is_escaped || *at != '"'); at++) is_escaped = !is_escaped && *at == '\\';
    scan->is_escaped = is_escaped;
    scan->in_string = at == end;
    return at < end ? at + 1 : end;
}

static void scan_value(struct json_scan *scan, char c) {
    if (c == ',' || c == ':') scan->weight += ELEMENT_WEIGHT;
    if (c == '{' || c == '[') {
        scan->weight += c == '{' ? OBJECT_WEIGHT : ARRAY_WEIGHT;
        if (++scan->depth > scan->depth_max) scan->depth_max = scan->depth;
    }
    if ((c == '}' || c == ']') && scan->depth > 0) scan->depth--;
}

void json_scan(struct json_scan *scan, const char *text, size_t size) {
    for (const char *at = text, *end = text + size; at < end;) {
        if (scan->in_string) {
            at = scan_string(scan, at, end);
            continue;
        }
        char c = *at++;
        scan->in_string = c == '"';
        if (c == '"')
            scan->weight += STRING_WEIGHT;
        else if (c < '0' || c > '9')
            scan_value(scan, c);
    }
}

size_t json_weigh(const char *text, size_t size) {
    struct json_scan scan;
    json_scan_begin(&scan);
    json_scan(&scan, text, size);
    return scan.weight;
}

/* Parses a JSON text. Refuses deep nesting, because freeing nested values uses stack. */
json_t *json_read(struct json_in *in, const char *text, size_t size) {
    json_error_t error;
    struct json_scan scan;
    json_scan_begin(&scan);
    json_scan(&scan, text, size);
    in->too_large = scan.weight > JSON_WEIGHT_MAX;
    if (scan.depth_max > JSON_DEPTH_MAX || in->too_large) {
        if (in->too_large)
            snprintf(in->problem, sizeof(in->problem),
                     "the JSON has too many values for one request: send it in parts");
        else
            snprintf(in->problem, sizeof(in->problem), "the JSON is nested deeper than %u levels", JSON_DEPTH_MAX);
        return NULL;
    }
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (root == NULL)
        snprintf(in->problem, sizeof(in->problem), "not JSON: %.100s (byte %d)", error.text, error.position);
    return root;
}

bool json_names_hold(const char *names, const char *name) {
    size_t size = strlen(name);
    for (const char *at = names; *at != '\0';) {
        size_t known_size = strcspn(at, " ");
        if (size > 0 && known_size == size && memcmp(at, name, size) == 0) return true;
        at += known_size + (at[known_size] == ' ');
    }
    return false;
}

bool json_only(struct json_in *in, json_t *object, const char *known) {
    const char *name;
    json_t *value;
    if (!json_is_object(object)) return wrong(in, "what is sent", "is not an object");
    json_object_foreach(object, name, value) {
        if (!json_names_hold(known, name)) return wrong(in, name, "is no member that is known here");
    }
    return true;
}

json_t *json_member(json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return value == NULL || json_is_null(value) ? NULL : value;
}

bool json_get_u64(struct json_in *in, json_t *object, const char *name, uint64_t most, uint64_t *out) {
    json_t *value = json_member(object, name);
    if (value == NULL) return true;
    if (!json_is_integer(value) || json_integer_value(value) < 0) return wrong(in, name, "is no whole number from 0");
    if ((uint64_t)json_integer_value(value) > most) return wrong(in, name, "is larger than it may be");
    *out = (uint64_t)json_integer_value(value);
    return true;
}

bool json_get_text(struct json_in *in, json_t *object, const char *name, const char **out) {
    json_t *value = json_member(object, name);
    if (value == NULL) return true;
    if (!json_is_string(value)) return wrong(in, name, "is not a string");
    if (strlen(json_string_value(value)) != json_string_length(value)) return wrong(in, name, "holds a 0 byte");
    *out = json_string_value(value);
    return true;
}

bool json_get_bool(struct json_in *in, json_t *object, const char *name, bool *out) {
    json_t *value = json_member(object, name);
    if (value == NULL) return true;
    if (!json_is_boolean(value)) return wrong(in, name, "is neither true nor false");
    *out = json_is_true(value);
    return true;
}

bool json_get_duration(struct json_in *in, json_t *object, const char *name, uint64_t *out, bool *out_is_said) {
    char name_ms[40];
    const char *text = NULL;
    snprintf(name_ms, sizeof(name_ms), "%s_ms", name);
    bool has_number = json_member(object, name_ms) != NULL;
    if (!json_get_text(in, object, name, &text) || !json_get_u64(in, object, name_ms, INT64_MAX, out)) return false;
    if (text != NULL && has_number) return wrong(in, name, "is said twice, with _ms too");
    if (text != NULL && !duration_parse(text, out)) return wrong(in, name, "is no duration such as 30m or 1h30m");
    if (out_is_said != NULL) *out_is_said = text != NULL || has_number;
    return true;
}

bool json_id_parse(json_t *value, uint64_t *out) {
    if (json_is_integer(value) && json_integer_value(value) > 0) {
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    size_t size = text != NULL ? json_string_length(value) : 0;
    if (size == 0 || size > 19 || strspn(text, "0123456789") != size) return false;
    *out = strtoull(text, NULL, 10);
    return *out > 0;
}

bool json_token_parse(const char *text, Tarry__Token *out) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    unsigned long long epoch = strtoull(text, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9' || epoch > UINT32_MAX || strlen(text) > 31) return false;
    tarry__token__init(out);
    out->epoch = (uint32_t)epoch;
    out->position = strtoull(end + 1, &end, 10);
    return *end == '\0';
}
