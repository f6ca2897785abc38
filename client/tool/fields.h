/* fields.h: one JSON line of a stream as the arguments of a call. The lines are those of POST /v1/tasks and of
 * /v1/commit: proto/json reads them.
 *
 * Only the broker checks limits of names, keys and payloads, so that each rule has one place and one message. */
#ifndef TARRY_TOOL_FIELDS_H
#define TARRY_TOOL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "tarry.h"
#include "tarry_limits.h"

enum verb { VERB_SCHEDULE, VERB_CANCEL, VERB_MOVE };

struct fields {
    json_t *root; /* owner of the strings below; NULL: the line is not JSON */
    struct arena arena;
    struct tarry_schedule_options schedule; /* VERB_SCHEDULE */
    struct tarry_ref ref;                   /* the task that the line names, with every verb and after a failure */
    enum tarry_when when;                   /* VERB_MOVE */
    uint64_t when_ms;
    bool withdraw; /* VERB_CANCEL */
    struct tarry_attribute attributes[ATTRIBUTES_MAX];
    char message[200]; /* error message, after a failure */
};

/* Returns TARRY_OK, TARRY_INVALID or TARRY_TOO_LARGE. Pass `fields` to fields_deinit in each case. */
int fields_parse(struct fields *fields, enum verb verb, const char *line, size_t size);
void fields_deinit(struct fields *fields);

#endif
