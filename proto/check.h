/* check.h: is what came over the wire well-formed? Pure functions; each refusal is a sentence.
 *
 * All return NULL when fine, else a static sentence without a final stop, naming the field and the limit. */
#ifndef TARRY_PROTO_CHECK_H
#define TARRY_PROTO_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* 1 … QUEUE_NAME_SIZE_MAX bytes of UTF-8 without control characters or spaces at either end. */
const char *check_queue_name(const char *name);
/* 0 … KEY_SIZE_MAX bytes of UTF-8 without control characters. */
const char *check_key(const void *key, size_t size);
/* Unpacks and checks a packed Content against the limits. `payload_max` in bytes. */
const char *check_content(const void *content, size_t size, uint32_t payload_max, bool *out_too_large);
const char *check_ref(const Tarry__Ref *ref);
/* Any operation of a commit, Content included. `*out_code` says INVALID, TOO_LARGE or UNSUPPORTED. */
const char *check_op(const Tarry__Op *op, uint32_t payload_max, Tarry__Code *out_code);
/* A request about the pair. */
const char *check_pair(const Tarry__Pair *pair);
/* A request that only asks: a follower may answer it, too. */
bool request_is_question(const Tarry__Request *request);
bool is_utf8(const void *text, size_t size);

#endif
