/* json_quick.h: reads the schedules of a JSON text without a tree of values. This takes a fifth of the instructions of
 * json_read and json_op_named. The function accepts only texts that json_read accepts, and yields the same operations
 * (json_text_test compares them). The caller passes every other text to json_read. Any thread. */
#ifndef TARRY_JSON_QUICK_H
#define TARRY_JSON_QUICK_H

#include "json_in.h"

/* Maximum number of bytes of a text that is read in this way. */
#define JSON_QUICK_SIZE_MAX (64u << 10)
/* Minimum number of bytes of a task in a text, as in {"in":"0"}, */
#define JSON_QUICK_TASK_SIZE 11u

/* Reads a text that is an object, or an array of objects, with the arguments of "schedule". Only the members queue,
 * key, in, in_ms, delay_ms, at, due_ms, priority, serial, body and json may occur, each at most once. `ops` has room
 * for `max` operations. They are made in the arena, and refer to no byte of the text. Returns the number of operations;
 * 0: the caller must use json_read, and the arena is as before. */
size_t json_quick_schedules(struct json_in *in, const char *text, size_t size, Tarry__Op **ops, size_t max,
                            bool *out_is_single);

#endif
