/* check.h: checks whether messages from the wire are well-formed. No I/O.
 *
 * Each check returns NULL on success. Otherwise it returns a static sentence without a full stop, which names the
 * field and the limit. */
#ifndef TARRY_PROTO_CHECK_H
#define TARRY_PROTO_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* Checks a queue name: 1 … QUEUE_NAME_SIZE_MAX bytes of UTF-8, without control characters and without blanks at the
 * ends. */
const char *check_queue_name(const char *name);
/* Returns true if the name begins with QUEUE_RESERVED_PREFIX. Such a queue is the broker's own. No client, in any role,
 * may schedule, read, lease, settle, move, cancel, purge, pause, configure or delete in a reserved queue. Clients see
 * only the numbers of such a queue (queues, stats, calendar, metrics), and its frames in the audit. broker/access
 * checks the queue that a request names. broker/core checks the queue of a task that a request names by id. */
bool queue_is_reserved(const char *name);
/* Returns true if the queue name or key is "." or "..". Clients may not schedule such a task or set such a queue's
 * policy, because HTTP clients normalise paths: they shorten `/v1/queues/../tasks/1` to `/v1/tasks/1`, which is another
 * resource. Existing tasks and queues with such names stay usable. */
bool name_is_dots(const void *name, size_t size);
/* Checks a key: 0 … KEY_SIZE_MAX bytes of UTF-8 without control characters. */
const char *check_key(const void *key, size_t size);
/* Unpacks a packed Content and checks it against the limits. `payload_max`: bytes. */
const char *check_content(const void *content, size_t size, uint32_t payload_max, bool *out_too_large);
const char *check_ref(const Tarry__Ref *ref);
/* Checks the space of a definition: 1 … DEFINITION_SPACE_SIZE_MAX bytes of a-z, 0-9 and -. */
const char *check_space(const char *space);
/* Checks an operation of a commit, with its Content. `*out_code`: INVALID, TOO_LARGE or UNSUPPORTED. */
const char *check_op(const Tarry__Op *op, uint32_t payload_max, Tarry__Code *out_code);
/* Keys of occurrences: recur:NAME@2026-11-28T09:00:00+08:00 (docs/RECURRING.md). Only the broker itself creates tasks
 * with such keys. Otherwise a client's task could have the key of a later occurrence, and two live tasks would have one
 * key (KEEP-1). The core could detect such a conflict only by reading the index for each occurrence. */
#define OCCURRENCE_PREFIX "recur:"
#define OCCURRENCE_PREFIX_SIZE (sizeof(OCCURRENCE_PREFIX) - 1)
/* Returns the size of NAME; 0: the key is not that of an occurrence. */
size_t occurrence_name_size(const void *key, size_t size);
/* Reads N of "all:N" (RecurSet.missed). Returns false for any other text. */
bool recur_missed_count(const char *missed, uint32_t *out);
/* Checks a request about the pair. */
const char *check_pair(const Tarry__Pair *pair);
bool is_utf8(const void *text, size_t size);

/* ---- check_push.c: push URLs of queues */
/* Returns the size in bytes of the URL's origin, for example `http://host:8080` in `http://host:8080/path`. Limits
 * per host count by origin. `url` must be valid. */
size_t push_url_origin(const char *url);
/* Checks a push URL: http:// or https://, a host (name, IPv4 address, or IPv6 address in brackets), and optionally a
 * port, a path and a query. Printable ASCII, at most PUSH_URL_SIZE_MAX bytes. No fragment. No user name and password,
 * because all clients that may read policies would see them. "" is valid: the queue is not pushed. */
const char *check_push_url(const char *url);

/* ---- check.c: for check_op.c and for code that prints text */
enum text_kind {
    TEXT_PLAIN,   /* UTF-8 without control characters */
    TEXT_CONTROL, /* UTF-8 with control characters (C0, DEL, C1) but no NUL */
    TEXT_NUL,     /* UTF-8 with a NUL */
    TEXT_BROKEN,  /* not UTF-8 */
};

enum text_kind check_text(const void *text, size_t size);

/* Error sentences with the code TOO_LARGE. A caller recognises them by pointer, not by text. */
extern const char check_name_long[];
extern const char check_key_long[];

#endif
