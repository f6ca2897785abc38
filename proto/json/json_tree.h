/* json_tree.h: reads and writes plain JSON values several times faster than jansson does. A value that is not plain, or
 * is malformed, is left to jansson: these functions accept only what jansson accepts, with the same result
 * (json_text_test compares them). Any thread.
 *
 * Plain: strings without escapes, integers of at most 18 digits, true, false, null, and arrays and objects of them.
 * With requests of 95 bytes, jansson's reader took 28 % of the door's instructions, and its writer 14 %. */
#ifndef TARRY_JSON_TREE_H
#define TARRY_JSON_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Parses a text whose depth is checked (json_scan). NULL: ask jansson. */
json_t *json_tree_read(const char *text, size_t size);
/* Writes the value as compact JSON, without a terminator. Returns the size; 0: ask jansson, or it needs more room. */
size_t json_tree_write(json_t *value, char *out, size_t room);

#endif
