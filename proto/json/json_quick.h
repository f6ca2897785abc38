/* json_quick.h: reads the schedules of a JSON text without a tree of values. This takes a fifth of the instructions of
 * json_read and json_op_named. A text that is not plain, or is invalid, is left to those functions: this one accepts
 * only what they accept, with the same result (json_text_test compares them). Any thread. */
#ifndef TARRY_JSON_QUICK_H
#define TARRY_JSON_QUICK_H

#include "json_in.h"

/* Maximum number of bytes of a text that is read in this way. */
#define JSON_QUICK_SIZE_MAX (64u << 10)
/* Minimum number of bytes of a task in a text, as in {"in":"0"}, */
#define JSON_QUICK_TASK_SIZE 11u

/* Plain: an object or an array of objects, as arguments of "schedule", with the members queue, key, in, in_ms,
 * delay_ms, at, due_ms, priority, serial, body and json, each at most once. `ops` has room for `max` operations. They
 * are made in the arena, and refer to no byte of the text. Returns their number; 0: ask json_read; the
 * arena is as before. */
size_t json_quick_schedules(struct json_in *in, const char *text, size_t size, Tarry__Op **ops, size_t max,
                            bool *out_is_single);

#endif
