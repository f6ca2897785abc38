/* fields.h: one JSON line of a stream, decoded into the arguments of a call.
 *
 * Only the broker checks limits of names, keys and payloads, so that each rule has one place and one message. This
 * file refuses only input that cannot be put into a request. A member that is null is treated as absent. */
#ifndef TARRY_TOOL_FIELDS_H
#define TARRY_TOOL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tarry.h"
#include "tarry_limits.h"

enum verb { VERB_SCHEDULE, VERB_CANCEL, VERB_MOVE };

struct fields {
    json_t *root;                           /* owner of the strings below; NULL: the line is not a JSON object */
    struct tarry_schedule_options schedule; /* VERB_SCHEDULE */
    struct tarry_ref ref;                   /* VERB_CANCEL, VERB_MOVE */
    enum tarry_when when;                   /* VERB_MOVE */
    uint64_t when_ms;
    bool withdraw;          /* VERB_CANCEL */
    unsigned char *decoded; /* owned: body_base64 */
    struct tarry_attribute attributes[ATTRIBUTES_MAX];
    char message[160]; /* error message, after a failure */
};

/* Returns TARRY_OK, TARRY_INVALID or TARRY_TOO_LARGE. Pass `fields` to fields_deinit in each case. After a failure
 * ref.queue, ref.key and ref.id have what was decoded so far, for every verb. */
int fields_parse(struct fields *fields, enum verb verb, const char *line, size_t size);
void fields_deinit(struct fields *fields);

#endif
