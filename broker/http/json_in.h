/* json_in.h: converts JSON from clients into operations of tarry.proto. Pure except for memory; any thread.
 *
 * Objects are allocated in the arena; texts point into the JSON values, which must outlive them. An error sentence
 * names the faulty member. An unknown member is refused: it is probably a typing error, and ignoring it would lose
 * data. Durations are texts ("30m"), or numbers if the member's name ends in `_ms`. Times are RFC 3339 or Unix
 * milliseconds. The broker checks queue names, keys and so on (check.h). */
#ifndef TARRY_HTTP_JSON_IN_H
#define TARRY_HTTP_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "tarry.pb-c.h"

#define JSON_PROBLEM_SIZE 200u
/* Maximum nesting depth of a client's JSON. */
#define JSON_DEPTH_MAX 64u
/* Maximum weight of one text, in bytes (json_weigh). */
#define JSON_WEIGHT_MAX (64u << 20)

struct json_in {
    struct arena *arena;
    const char *queue; /* queue named in the path, used where the JSON has no `queue`; NULL: none */
    bool too_large;
    char problem[JSON_PROBLEM_SIZE];
};

/* Weight of a JSON text: an upper bound, in bytes, for the memory of its parsed values and of the objects made from
 * them, without the text itself. A value of 2 bytes may weigh 100. A scan counts brackets, commas and quotes, and
 * accepts the text in parts. */
struct json_scan {
    size_t weight;
    size_t depth; /* after the last scanned byte */
    size_t depth_max;
    bool in_string;
    bool is_escaped; /* in_string: the last byte was a backslash that escapes the next */
};
void json_scan_begin(struct json_scan *scan);
void json_scan(struct json_scan *scan, const char *text, size_t size);
size_t json_weigh(const char *text, size_t size);
/* Parses a text. NULL: not JSON, or heavier than JSON_WEIGHT_MAX (`too_large`); `problem` names the place. The caller
 * frees the value with json_decref. */
json_t *json_read(struct json_in *in, const char *text, size_t size);
/* Returns whether `name` is in the blank-separated list `names`. A name that contains a blank never is. */
bool json_names_hold(const char *names, const char *name);
/* Checks that the object has only members in the blank-separated list `known`. */
bool json_only(struct json_in *in, json_t *object, const char *known);

/* Returns the member; NULL: it is missing or null. */
json_t *json_member(json_t *object, const char *name);
/* The json_get functions leave `*out` unchanged if the member is missing. False: the member is invalid. */
bool json_get_u64(struct json_in *in, json_t *object, const char *name, uint64_t most, uint64_t *out);
bool json_get_text(struct json_in *in, json_t *object, const char *name, const char **out);
bool json_get_bool(struct json_in *in, json_t *object, const char *name, bool *out);
/* Reads `name` as text ("30m"), or `name_ms` as a number. `*out_is_said`: the member exists; may be NULL. */
bool json_get_duration(struct json_in *in, json_t *object, const char *name, uint64_t *out, bool *out_is_said);

/* Converts one operation of a commit, such as {"schedule": {…}}. NULL: `problem` gives the reason. */
Tarry__Op *json_op(struct json_in *in, json_t *object);
/* Converts the operation `name` with these members. */
Tarry__Op *json_op_named(struct json_in *in, const char *name, json_t *members);
/* Parses "epoch-position". */
bool json_token_parse(const char *text, Tarry__Token *out);
/* Parses an id given as text or as a number. */
bool json_id_parse(json_t *value, uint64_t *out);

#endif
