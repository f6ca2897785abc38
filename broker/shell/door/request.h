/* request.h: from the bytes of a request to an event for the core. Pure but for randomness; any thread. */
#ifndef TARRY_SHELL_REQUEST_H
#define TARRY_SHELL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core.h"
#include "datadir.h"

/* What a packed request holds at its outer levels, counted before it is unpacked, so that a flood costs no memory and
 * no small lie becomes a large table (F-20, CAP-1).
 *
 * The counts may refuse a request. They never admit one, and never say what it is: protobuf-c has rules of its own
 * about fields that come twice (of a oneof the last one stays), so whatever is decided about an admitted request rests
 * on what was unpacked. */
struct request_peek {
    size_t body_count;    /* bodies that this broker knows; what was unpacked has one of them, or none */
    bool schedules;       /* there is a schedule operation in some commit */
    size_t op_count;      /* of all commits */
    size_t op_bodies_max; /* bodies of the operation that has most of them */
    size_t queue_count;   /* of all subscriptions */
};
/* False: it is no protobuf message at all. */
bool request_peek(const uint8_t *data, size_t size, struct request_peek *out);

/* Why a request is not passed on. */
struct request_refusal {
    Tarry__Code code;
    const char *sentence;
};

/* What a request is judged by. */
struct request_setting {
    const uint8_t *secret; /* IDENTITY_SECRET_SIZE bytes: of the data directory */
    const char *principal; /* the requester, as in records: a session that is to be resumed must be its own */
    uint32_t payload_max;
};

/* Unpacks, checks and prepares: kind, request, contents (one per operation of a commit; their bytes, salt included, in
 * `arena`), session (of a resumed subscription). Kind 0: it is not for the core (audit, backup, follow, pair). False:
 * `*out_refusal` says why not. */
bool request_prepare(struct arena *arena, const uint8_t *data, size_t size, const struct request_setting *setting,
                     struct core_event *out, struct request_refusal *out_refusal);
/* Whether the request is a commit that has an operation of this kind. */
bool request_has_op(const Tarry__Request *request, Tarry__Op__OpCase op_case);

#endif
