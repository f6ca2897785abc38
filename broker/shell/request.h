/* request.h: from the bytes of a request to an event for the core. Pure but for randomness; any thread. */
#ifndef TARRY_SHELL_REQUEST_H
#define TARRY_SHELL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core.h"
#include "datadir.h"

/* What can be told without unpacking, so that a flood costs no memory and no small lie becomes a large table. */
struct request_peek {
    bool commit;
    bool schedules;     /* a commit with at least one schedule operation */
    bool redacts;       /* … redact operation */
    bool follows;       /* the other node of a pair asks */
    size_t op_count;    /* of a commit */
    size_t queue_count; /* of a subscription */
};
/* False: it is no protobuf message at all. */
bool request_peek(const uint8_t *data, size_t size, struct request_peek *out);

/* Why a request is not passed on. */
struct request_refusal {
    Tarry__Code code;
    const char *sentence;
};

/* Unpacks, checks and prepares: kind, request, contents (one per operation of a commit; their bytes, salt included, in
 * `arena`), session (of a resumed subscription). Kind 0: it is not for the core (audit, backup, pair). False:
 * `*out_refusal` says why not. */
bool request_prepare(struct arena *arena, const uint8_t *data, size_t size, uint32_t payload_max,
                     const uint8_t secret[IDENTITY_SECRET_SIZE], struct request_peek *out_peek, struct core_event *out,
                     struct request_refusal *out_refusal);

#endif
