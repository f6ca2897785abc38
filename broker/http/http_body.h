/* http_body.h: a body as it comes: unpacked (gzip, zstd), bounded, and counted at the door from its first byte. */
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
    size_t expected;              /* what it will be, if that is known */
    struct body_packing *packing; /* NULL: it comes as it is */
};

/* 0, or the status of a refusal. */
unsigned body_begin(struct http_body *body, const struct head *head);
unsigned body_take(struct http_body *body, const char *bytes, size_t size);
/* Why a body is refused with a status of body_take. */
const char *body_sentence(unsigned status);
/* It is whole. False: what was packed is not. */
bool body_finish(struct http_body *body);
/* What has unpacked it is given back: it is whole. */
void body_unpacked(struct http_body *body);
/* It is not needed any more: a request may be worked at for long, and would hold it as long. */
void body_deinit(struct http_body *body);

#endif
