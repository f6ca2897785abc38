/* json_in.h: parses JSON texts and single values. json_map.h converts objects to messages. Any thread.
 *
 * The only JSON reader of Tarry: jansson, with a quick path (json_tree.h), behind limits for depth and memory. An error
 * sentence names the faulty member. An unknown member is refused: it is probably a typing error, and ignoring it would
 * lose data. */
#ifndef TARRY_JSON_IN_H
#define TARRY_JSON_IN_H

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
/* Weight of each object in a text, in bytes: estimated memory of the object with its table and its operation. */
#define JSON_OBJECT_WEIGHT 512u

struct json_in {
    struct arena *arena; /* memory for messages; their texts point into the JSON values, which must outlive them */
    const char *queue;   /* queue named in the path, used where the JSON has no `queue`; NULL: none */
    /* True: the reader ignores a member that the operation does not take, if printed tasks or results have such a
     * member. */
    bool takes_printed;
    bool too_large;
    char problem[JSON_PROBLEM_SIZE];
};

/* Weight of a JSON text: an upper bound, in bytes, for the memory of its parsed values and of the objects made from
 * them, without the text itself. A value of 2 bytes may weigh 100. json_scan counts brackets, commas and quotes. The
 * caller may pass a text to json_scan in several parts. */
struct json_scan {
    size_t weight;
    size_t depth; /* nesting depth after the last scanned byte */
    size_t depth_max;
    bool in_string;
    bool is_escaped; /* true: the scan is inside a string, right after a backslash that escapes the next byte */
};
void json_scan_begin(struct json_scan *scan);
void json_scan(struct json_scan *scan, const char *text, size_t size);
size_t json_weigh(const char *text, size_t size);
/* Parses a text. NULL: not JSON, or heavier than JSON_WEIGHT_MAX (`too_large`); `problem` names the place. The caller
 * frees the value with json_decref. */
json_t *json_read(struct json_in *in, const char *text, size_t size);
/* Returns whether `name` is in the blank-separated list `names`. False for a name that contains a blank. */
bool json_names_hold(const char *names, const char *name);
/* Checks that the object has only members in the blank-separated list `known`. */
bool json_only(struct json_in *in, json_t *object, const char *known);
/* Sets `problem` for an unknown member, with the nearest of `count` known names. Returns false. */
bool json_unknown(struct json_in *in, const char *name, const char *const *known, size_t count);

/* Returns the member; NULL: it is missing or null. */
json_t *json_member(json_t *object, const char *name);
/* The json_get functions leave `*out` unchanged if the member is missing. False: the member is invalid. */
bool json_get_u64(struct json_in *in, json_t *object, const char *name, uint64_t most, uint64_t *out);
bool json_get_bool(struct json_in *in, json_t *object, const char *name, bool *out);
/* Reads `name` as text ("30m"), or `name_ms` as a number. */
bool json_get_duration(struct json_in *in, json_t *object, const char *name, uint64_t *out);
/* The json_take functions read a value; `name` is for the error. */
bool json_take_u64(struct json_in *in, json_t *value, const char *name, uint64_t most, uint64_t *out);
bool json_take_text(struct json_in *in, json_t *value, const char *name, const char **out);
bool json_take_bool(struct json_in *in, json_t *value, const char *name, bool *out);
bool json_take_duration(struct json_in *in, json_t *value, const char *name, uint64_t *out);
bool json_take_time(struct json_in *in, json_t *value, const char *name, uint64_t *out);
/* Sets `problem` to "NAME: SENTENCE", and returns false. */
bool json_wrong(struct json_in *in, const char *name, const char *sentence);

/* Parses "epoch-position". */
bool json_token_parse(const char *text, Tarry__Token *out);
/* Parses an id given as text or as a number. */
bool json_id_parse(json_t *value, uint64_t *out);

#endif
