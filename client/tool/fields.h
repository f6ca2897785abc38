/* fields.h: one line of a stream, decoded into the call that it asks for.
 *
 * What only the broker can judge (limits of names, keys, payloads) is left to it, so that there is one judge and one
 * sentence; refused here is what cannot be put into a request at all. A member that is null counts as absent. */
#ifndef TARRY_TOOL_FIELDS_H
#define TARRY_TOOL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tarry.h"
#include "tarry_limits.h"

enum verb { VERB_SCHEDULE, VERB_CANCEL, VERB_MOVE };

struct fields {
    json_t *root;                           /* owns the strings below; NULL: it was no JSON object */
    struct tarry_schedule_options schedule; /* VERB_SCHEDULE */
    struct tarry_ref ref;                   /* VERB_CANCEL, VERB_MOVE */
    enum tarry_when when;                   /* VERB_MOVE */
    uint64_t when_ms;
    bool withdraw;          /* VERB_CANCEL */
    unsigned char *decoded; /* owned: body_base64 */
    struct tarry_attribute attributes[ATTRIBUTES_MAX];
    char message[160]; /* what is wrong; after a failure */
};

/* TARRY_OK, TARRY_INVALID or TARRY_TOO_LARGE. `fields` goes to fields_deinit in any case; what was understood of queue
 * and key (ref.queue, ref.key, ref.id, for every verb) can be quoted then too. */
int fields_parse(struct fields *fields, enum verb verb, const char *line, size_t size);
void fields_deinit(struct fields *fields);

#endif
