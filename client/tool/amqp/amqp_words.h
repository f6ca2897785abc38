/* amqp_words.h: converts AMQP tables of arguments to JSON and back. */
#ifndef TARRY_TOOL_AMQP_WORDS_H
#define TARRY_TOOL_AMQP_WORDS_H

#include <jansson.h>

#include "amqp_codec.h"
#include "text.h"

/* Appends the table as a JSON object. */
void table_as_json(struct text *out, struct amqp_bytes table);
/* Writes a JSON object as the fields of a table. Returns NULL, or an error message: a name has more than 255 bytes, or
 * the object more than AMQP_DEPTH_MAX levels. */
const char *json_as_table(struct amqp_out *out, json_t *object);

#endif
