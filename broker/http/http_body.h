/* http_body.h: a body as it comes: unpacked (gzip, zstd) in pieces, bounded, and counted from its first byte: at the
 * door, and among its principal's bytes, as large as it is unpacked. */
#ifndef TARRY_HTTP_HTTP_BODY_H
#define TARRY_HTTP_HTTP_BODY_H

#include "door.h"
#include "door_stream.h"
#include "http_head.h"
#include "tarry_limits.h"

/* Bytes of a body, unpacked. */
#define HTTP_BODY_MAX REQUEST_SIZE_MAX

struct http_body {
    struct door *door; /* where it is counted … */
    uint64_t id;       /* … for this connection */
    char *bytes;       /* as far as it has come, unpacked, with a zero behind; NULL: it was read, or there is none */
    size_t size;
    size_t capacity;
    size_t expected;              /* its size, unpacked, as its head or its frame says; 0: not known */
    struct body_packing *packing; /* NULL: it comes as it is */
};

/* Why a body is refused with HTTP's status `status`. */
struct body_refusal {
    unsigned status; /* 0: it is not refused */
    const char *sentence;
};

struct body_refusal body_begin(struct http_body *body, const struct head *head);
/* Takes some of the next `*size` bytes, which becomes how many were taken; unpacked they grow the body by HTTP_PIECE at
 * most. `*out_more`: call again, with what is left or with nothing, for the unpacker has more. */
#define HTTP_PIECE (64u << 10)
struct body_refusal body_take(struct http_body *body, const char *bytes, size_t *size, bool *out_more);
/* It is whole. False: what was packed is not. */
bool body_finish(struct http_body *body);
/* What has unpacked it is given back: it is whole. */
void body_unpacked(struct http_body *body);
/* It is not needed any more: a request may be worked at for long, and would hold it as long. */
void body_deinit(struct http_body *body);

#endif
