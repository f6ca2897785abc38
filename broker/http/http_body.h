/* http_body.h: receives a request body. It decompresses gzip and zstd piece by piece, and enforces a size limit. From
 * the first byte on, the decompressed size counts at the door and against the principal's byte limit. */
#ifndef TARRY_HTTP_HTTP_BODY_H
#define TARRY_HTTP_HTTP_BODY_H

#include "door.h"
#include "door_stream.h"
#include "http_head.h"
#include "tarry_limits.h"

/* Maximum bytes of a decompressed body. */
#define HTTP_BODY_MAX REQUEST_SIZE_MAX

struct http_body {
    struct door *door; /* the door that counts the bytes */
    uint64_t id;       /* the connection for which the bytes are counted */
    /* Decompressed bytes received so far, then a NUL; NULL: the request has no body, or its body was parsed and
     * freed. */
    char *bytes;
    size_t size;
    size_t capacity;
    size_t expected;              /* decompressed size as stated by the head or the zstd frame; 0: unknown */
    struct body_packing *packing; /* state of the decompressor; NULL: the body is not compressed */
};

/* The reason for refusing a body. */
struct body_refusal {
    unsigned status; /* HTTP status; 0: not refused */
    const char *sentence;
};

struct body_refusal body_begin(struct http_body *body, const struct head *head);
/* Consumes some of the next `*size` bytes, and sets `*size` to the number consumed. The decompressed body grows by at
 * most HTTP_PIECE. If `*out_more` is true, the decompressor has more output: call again with the remaining bytes, even
 * if no byte remains. */
#define HTTP_PIECE (64u << 10)
struct body_refusal body_take(struct http_body *body, const char *bytes, size_t *size, bool *out_more);
/* Ends the body after its last byte. False: the compressed data is incomplete. */
bool body_finish(struct http_body *body);
/* Frees the decompressor once the body is complete. */
void body_unpacked(struct http_body *body);
/* Frees the body, and counts no bytes for the connection. Call it as soon as the body is parsed, because a long request
 * would keep the memory until its end. */
void body_deinit(struct http_body *body);

#endif
