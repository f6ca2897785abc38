/* json_in.c: see json_in.h. */
#include "json_in.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_tree.h"
#include "rfc3339.h"
#include "units.h"

bool json_wrong(struct json_in *in, const char *name, const char *sentence) {
    snprintf(in->problem, sizeof(in->problem), "%.60s: %s", name, sentence);
    return false;
}

/* ---- names that are nearly the same */

#define NAME_SIZE_MAX 32u
#define FAR 3u /* no name is suggested for a name from which it has at least this edit distance */

/* Number of letters to insert, drop or exchange to get from one name to the other (Levenshtein). */
static unsigned distance(const char *a, const char *b) {
    size_t a_size = strlen(a), b_size = strlen(b);
    unsigned row[NAME_SIZE_MAX + 1];
    if (a_size > NAME_SIZE_MAX || b_size > NAME_SIZE_MAX) return FAR;
    for (unsigned j = 0; j <= b_size; j++) row[j] = j;
    for (unsigned i = 1; i <= a_size; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b_size; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_size];
}

bool json_unknown(struct json_in *in, const char *name, const char *const *known, size_t count) {
    const char *nearest = NULL;
    unsigned least = FAR;
    for (size_t i = 0; i < count; i++) {
        unsigned far = distance(name, known[i]);
        if (far >= least || far >= strlen(known[i])) continue;
        least = far;
        nearest = known[i];
    }
    if (nearest != NULL)
        snprintf(in->problem, sizeof(in->problem), "unknown field \"%.60s\" (did you mean \"%s\"?)", name, nearest);
    else
        snprintf(in->problem, sizeof(in->problem), "unknown field \"%.60s\"", name);
    return false;
}

/* ---- texts */

/* Estimated memory, in bytes, of a JSON value and of the data made from it. ELEMENT_WEIGHT covers an array's element or
 * an object's member. */
#define ARRAY_WEIGHT 144u
#define ELEMENT_WEIGHT 48u
#define STRING_WEIGHT 64u

void json_scan_begin(struct json_scan *scan) {
    *scan = (struct json_scan){.weight = ELEMENT_WEIGHT};
}

/* Returns the end of the string, or `end`. */
static const char *scan_string(struct json_scan *scan, const char *at, const char *end) {
    if (scan->is_escaped && at < end) at++;
    scan->is_escaped = false;
    for (; at < end && *at != '"'; at++) {
        if (*at != '\\') continue;
        scan->is_escaped = ++at == end;
        if (scan->is_escaped) break;
    }
    scan->in_string = at == end;
    return at < end ? at + 1 : end;
}

static void scan_value(struct json_scan *scan, char c) {
    if (c == ',' || c == ':') scan->weight += ELEMENT_WEIGHT;
    if (c == '{' || c == '[') {
        scan->weight += c == '{' ? JSON_OBJECT_WEIGHT : ARRAY_WEIGHT;
        if (++scan->depth > scan->depth_max) scan->depth_max = scan->depth;
    }
    if ((c == '}' || c == ']') && scan->depth > 0) scan->depth--;
}

/* Bytes that matter to the scan outside of strings: scan_value handles them, and a quote begins a string. The scan
 * skips every other byte. */
static const bool weighs[256] = {
    [','] = true, [':'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true, ['"'] = true};

void json_scan(struct json_scan *scan, const char *text, size_t size) {
    for (const char *at = text, *end = text + size; at < end;) {
        if (scan->in_string) {
            at = scan_string(scan, at, end);
            continue;
        }
        char c = *at++;
        if (!weighs[(unsigned char)c]) continue;
        scan->in_string = c == '"';
        if (c == '"')
            scan->weight += STRING_WEIGHT;
        else
            scan_value(scan, c);
    }
}

size_t json_weigh(const char *text, size_t size) {
    struct json_scan scan;
    json_scan_begin(&scan);
    json_scan(&scan, text, size);
    return scan.weight;
}

/* Returns what is wrong with the encoding of a text; NULL: nothing. */
static const char *wrong_encoding(const char *text, size_t size) {
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return "the JSON begins with a byte order mark (BOM): save it as UTF-8 without one";
    if (size >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0))
        return "the JSON is UTF-16: save it as UTF-8";
    return NULL;
}

/* Parses a JSON text. Refuses deep nesting, because freeing nested values uses stack. */
json_t *json_read(struct json_in *in, const char *text, size_t size) {
    json_error_t error;
    struct json_scan scan;
    json_scan_begin(&scan);
    json_scan(&scan, text, size);
    in->too_large = scan.weight > JSON_WEIGHT_MAX;
    const char *encoding = wrong_encoding(text, size);
    if (encoding != NULL || scan.depth_max > JSON_DEPTH_MAX || in->too_large) {
        if (encoding != NULL)
            snprintf(in->problem, sizeof(in->problem), "%s", encoding);
        else if (in->too_large)
            snprintf(in->problem, sizeof(in->problem),
                     "the JSON has too many values for one request: send it in parts");
        else
            snprintf(in->problem, sizeof(in->problem), "the JSON is nested deeper than %u levels", JSON_DEPTH_MAX);
        return NULL;
    }
    json_t *root = json_tree_read(text, size);
    if (root != NULL) return root;
    root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (root == NULL)
        snprintf(in->problem, sizeof(in->problem), "not JSON: %.100s (byte %d)", error.text, error.position);
    return root;
}

/* ---- members and values */

bool json_names_hold(const char *names, const char *name) {
    size_t size = strlen(name);
    for (const char *at = names; *at != '\0';) {
        size_t known_size = strcspn(at, " ");
        if (size > 0 && known_size == size && memcmp(at, name, size) == 0) return true;
        at += known_size + (at[known_size] == ' ');
    }
    return false;
}

#define KNOWN_MAX 16u

bool json_only(struct json_in *in, json_t *object, const char *known) {
    char copy[160];
    const char *names[KNOWN_MAX], *name;
    size_t count = 0;
    json_t *value;
    if (!json_is_object(object)) {
        snprintf(in->problem, sizeof(in->problem), "the JSON must be an object");
        return false;
    }
    json_object_foreach(object, name, value) {
        if (json_names_hold(known, name)) continue;
        snprintf(copy, sizeof(copy), "%s", known);
        for (char *rest, *at = strtok_r(copy, " ", &rest); at != NULL && count < KNOWN_MAX;
             at = strtok_r(NULL, " ", &rest))
            names[count++] = at;
        return json_unknown(in, name, names, count);
    }
    return true;
}

json_t *json_member(json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return value == NULL || json_is_null(value) ? NULL : value;
}

/* Accepts whole numbers from 0, also written like 1.5e3. */
bool json_take_u64(struct json_in *in, json_t *value, const char *name, uint64_t most, uint64_t *out) {
    double real = json_is_real(value) ? json_real_value(value) : -1;
    uint64_t number;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        number = (uint64_t)json_integer_value(value);
    else if (real >= 0 && real <= 9007199254740992.0 && real == (double)(uint64_t)real)
        number = (uint64_t)real;
    else
        return json_wrong(in, name, "must be a whole number from 0");
    if (number > most) {
        snprintf(in->problem, sizeof(in->problem), "%.60s: %llu is more than %llu", name, (unsigned long long)number,
                 (unsigned long long)most);
        return false;
    }
    *out = number;
    return true;
}

bool json_take_text(struct json_in *in, json_t *value, const char *name, const char **out) {
    if (!json_is_string(value)) return json_wrong(in, name, "must be a string");
    if (strlen(json_string_value(value)) != json_string_length(value))
        return json_wrong(in, name, "must not contain a 0 byte");
    *out = json_string_value(value);
    return true;
}

bool json_take_bool(struct json_in *in, json_t *value, const char *name, bool *out) {
    if (!json_is_boolean(value)) return json_wrong(in, name, "must be true or false");
    *out = json_is_true(value);
    return true;
}

bool json_take_duration(struct json_in *in, json_t *value, const char *name, uint64_t *out) {
    const char *text = NULL;
    if (!json_take_text(in, value, name, &text)) return false;
    return duration_parse(text, out) || json_wrong(in, name, "must be a duration such as 30m or 1h30m");
}

bool json_take_time(struct json_in *in, json_t *value, const char *name, uint64_t *out) {
    const char *text = NULL;
    if (!json_take_text(in, value, name, &text)) return false;
    const char *problem = rfc3339_parse(text, out);
    return problem == NULL || json_wrong(in, name, problem);
}

bool json_get_u64(struct json_in *in, json_t *object, const char *name, uint64_t most, uint64_t *out) {
    json_t *value = json_member(object, name);
    return value == NULL || json_take_u64(in, value, name, most, out);
}

bool json_get_bool(struct json_in *in, json_t *object, const char *name, bool *out) {
    json_t *value = json_member(object, name);
    return value == NULL || json_take_bool(in, value, name, out);
}

bool json_get_duration(struct json_in *in, json_t *object, const char *name, uint64_t *out) {
    char name_ms[40];
    snprintf(name_ms, sizeof(name_ms), "%s_ms", name);
    json_t *text = json_member(object, name), *number = json_member(object, name_ms);
    if (text != NULL && number != NULL) return json_wrong(in, name, "is given twice, with _ms too");
    if (text != NULL) return json_take_duration(in, text, name, out);
    return number == NULL || json_take_u64(in, number, name_ms, INT64_MAX, out);
}

bool json_id_parse(json_t *value, uint64_t *out) {
    if (json_is_integer(value) && json_integer_value(value) > 0) {
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    size_t size = text != NULL ? json_string_length(value) : 0;
    if (size == 0 || size > 20 || strspn(text, "0123456789") != size) return false;
    errno = 0;
    unsigned long long id = strtoull(text, NULL, 10);
    if (id == 0 || errno != 0) return false;
    *out = id;
    return true;
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
