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
/* The one rule about the broker's own queues: names that begin with QUEUE_RESERVED_PREFIX are reserved. No client
 * schedules, reads, leases, settles, moves, cancels, purges, pauses, configures or deletes there, whatever its roles;
 * numbers of them are shown (queues, stats, calendar, metrics), and the audit is whole. broker/access asks this for
 * queues that a request names, broker/core for tasks that it names by id. */
bool queue_is_reserved(const char *name);
/* Is the name of a queue, or a key, "." or ".."? No client schedules such a task or sets such a queue's policy: clients
 * of HTTP take these out of a path, with what stands before them, so that `/v1/queues/../tasks/1` names another task.
 * What is there already is named as ever. */
bool name_is_dots(const void *name, size_t size);
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

/* ---- check_push.c: where a queue may be pushed to */
/* The origin of a push URL: `http://host:8080` of `http://host:8080/path`; what counts as one host for limits. Its size
 * in bytes. `url` must be a valid one. */
size_t push_url_origin(const char *url);
/* http:// or https://, a host (a name, an IPv4 address, or an IPv6 address in brackets), perhaps a port, a path, a
 * query: printable ASCII, PUSH_URL_SIZE_MAX bytes at most. No user and password, which everybody would read who may
 * read policies, and no fragment. Empty is fine: the queue is not pushed. NULL, or a sentence as check.h has them. */
const char *check_push_url(const char *url);

/* ---- check.c, for check_op.c and whoever prints text */
enum text_kind {
    TEXT_PLAIN,   /* UTF-8 without control characters */
    TEXT_CONTROL, /* UTF-8 with control characters (C0, DEL, C1), none of them NUL */
    TEXT_NUL,     /* UTF-8 with a NUL */
    TEXT_BROKEN,  /* not UTF-8 */
};

enum text_kind check_text(const void *text, size_t size);

/* Refusals that mean TOO_LARGE, recognised by their address. */
extern const char check_name_long[];
extern const char check_key_long[];

#endif
