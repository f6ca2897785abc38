/* json_in.h: from what a client wrote as JSON to operations of tarry.proto. Pure but for memory; any thread.
 *
 * All that is made lies in the arena, but for texts, which lie in the JSON values: those must stay. What is wrong is
 * told in a sentence that names the member. A member that is not known is refused: it is a slip, and what it was to say
 * would be lost. Durations are texts ("30m") or, in a member whose name ends in `_ms`, numbers; times are RFC 3339 or
 * Unix milliseconds. What is allowed in a queue's name, a key, … the broker checks (check.h). */
#ifndef TARRY_HTTP_JSON_IN_H
#define TARRY_HTTP_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "tarry.pb-c.h"

#define JSON_PROBLEM_SIZE 200u
/* How deep a client's JSON may be. */
#define JSON_DEPTH_MAX 64u
/* What the values of one text may weigh. */
#define JSON_WEIGHT_MAX (64u << 20)

struct json_in {
    struct arena *arena;
    const char *queue; /* of the path: what a member `queue` need not say; NULL: there is none */
    bool too_large;
    char problem[JSON_PROBLEM_SIZE];
};

/* What a text weighs: the memory, in bytes, that its values take at most once they are read, and what is made of them
 * beside the text itself (a value of two bytes takes a hundred). A scan looks at brackets, commas and quotes alone, and
 * takes a text in parts. */
struct json_scan {
    size_t weight;
    size_t depth; /* at the end of what was scanned */
    size_t depth_max;
    bool in_string;
    bool is_escaped; /* in_string: by the last byte */
};
void json_scan_begin(struct json_scan *scan);
void json_scan(struct json_scan *scan, const char *text, size_t size);
size_t json_weigh(const char *text, size_t size);
/* NULL: it is no JSON, or weighs more than JSON_WEIGHT_MAX (`too_large`); `problem` says where. The caller's to give
 * back (json_decref). */
json_t *json_read(struct json_in *in, const char *text, size_t size);
/* Returns whether `name` is one of `names`, which is one text with a blank between two names. A name that holds a blank
 * is none of them. */
bool json_names_hold(const char *names, const char *name);
/* Nothing but these members, named in one text with a blank between. */
bool json_only(struct json_in *in, json_t *object, const char *known);

/* A member that is there and not null. */
json_t *json_member(json_t *object, const char *name);
/* The following leave `*out` alone if the member is not there. */
bool json_get_u64(struct json_in *in, json_t *object, const char *name, uint64_t most, uint64_t *out);
bool json_get_text(struct json_in *in, json_t *object, const char *name, const char **out);
bool json_get_bool(struct json_in *in, json_t *object, const char *name, bool *out);
/* `name` as text ("30m"), or `name_ms` as a number. `*out_is_said` may be NULL. */
bool json_get_duration(struct json_in *in, json_t *object, const char *name, uint64_t *out, bool *out_is_said);

/* {"schedule": {…}}, {"ack": {…}}, …: one operation of a commit. NULL: `problem` says why not. */
Tarry__Op *json_op(struct json_in *in, json_t *object);
/* The operation of this name with these members. */
Tarry__Op *json_op_named(struct json_in *in, const char *name, json_t *members);
/* "epoch-position". */
bool json_token_parse(const char *text, Tarry__Token *out);
/* An id, as text or as a number. */
bool json_id_parse(json_t *value, uint64_t *out);

#endif
