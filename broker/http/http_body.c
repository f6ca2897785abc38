/* http_body.c: see http_body.h. What is unpacked is bounded by HTTP_BODY_MAX, whatever it was packed into; the windows
 * of both packings are bounded too. */
#include "http_body.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

#define PIECE (64u << 10)
#define GZIP_WINDOW (15 + 16) /* 32 KiB, with gzip's head */
#define GZIP_SIZE (48u << 10) /* its state and its window */
#define ZSTD_WINDOW_LOG 23    /* 8 MiB: what RFC 9659 asks for */

struct body_packing {
    bool is_gzip;
    bool is_over;
    z_stream gzip;
    ZSTD_DStream *zstd;
    char piece[PIECE];
};

static void packing_free(struct http_body *body) {
    struct body_packing *packing = body->packing;
    if (packing != NULL && packing->is_gzip) inflateEnd(&packing->gzip);
    if (packing != NULL && packing->zstd != NULL) ZSTD_freeDStream(packing->zstd);
    free(packing);
    body->packing = NULL;
}

void body_unpacked(struct http_body *body) {
    if (body->packing == NULL) return;
    packing_free(body);
    size_t size = body->capacity;
    (void)door_stream_half(body->door, body->id, size, true); /* it is less than it was */
    door_stream_whole(body->door, body->id);
}

void body_deinit(struct http_body *body) {
    packing_free(body);
    free(body->bytes);
    body->bytes = NULL;
    body->size = body->capacity = 0;
    (void)door_stream_half(body->door, body->id, 0, false);
}

static bool begin_gzip(struct body_packing *packing) {
    packing->is_gzip = inflateInit2(&packing->gzip, GZIP_WINDOW) == Z_OK;
    return packing->is_gzip;
}

static bool begin_zstd(struct body_packing *packing) {
    packing->zstd = ZSTD_createDStream();
    return packing->zstd != NULL &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(packing->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG));
}

unsigned body_begin(struct http_body *body, const struct head *head) {
    const char *encoding = head->fields[HEAD_FIELD_encoding].text;
    if (head->length > HTTP_BODY_MAX) return 413;
    if (encoding == NULL || strcasecmp(encoding, "identity") == 0) {
        body->expected = head->is_chunked ? 0 : (size_t)head->length;
        return 0;
    }
    bool is_gzip = strcasecmp(encoding, "gzip") == 0;
    if (!is_gzip && strcasecmp(encoding, "zstd") != 0) return 415;
    body->packing = calloc(1, sizeof(*body->packing));
    if (body->packing == NULL) return 503;
    return (is_gzip ? begin_gzip(body->packing) : begin_zstd(body->packing)) ? 0 : 503;
}

/* What unpacking holds, its window included. */
static size_t packing_size(const struct body_packing *packing) {
    if (packing == NULL) return 0;
    return sizeof(*packing) + (packing->is_gzip ? GZIP_SIZE : ZSTD_sizeof_DStream(packing->zstd));
}

static unsigned keep(struct http_body *body, const char *bytes, size_t size) {
    size_t needed = body->size + size + 1;
    if (body->size + size > HTTP_BODY_MAX) return 413;
    if (needed > body->capacity) {
        size_t capacity = 2 * needed;
        if (body->capacity == 0 && body->expected > 0) capacity = body->expected + 1;
        if (capacity > HTTP_BODY_MAX + 1) capacity = HTTP_BODY_MAX + 1;
        size_t all = capacity + packing_size(body->packing);
        bool is_small = all <= DOOR_SMALL_MAX; /* an ack must find room, whatever else is held (CAP-1) */
        if (!door_stream_half(body->door, body->id, all, is_small)) return 503;
        char *grown = realloc(body->bytes, capacity);
        if (grown == NULL) return 503;
        body->bytes = grown;
        body->capacity = capacity;
    }
    memcpy(body->bytes + body->size, bytes, size);
    body->size += size;
    body->bytes[body->size] = '\0';
    return 0;
}

static unsigned take_gzip(struct http_body *body, const char *bytes, size_t size) {
    struct body_packing *packing = body->packing;
    packing->gzip.next_in = (unsigned char *)bytes;
    packing->gzip.avail_in = (unsigned)size;
    while (packing->gzip.avail_in > 0 || packing->gzip.avail_out == 0) {
        if (packing->is_over) return packing->gzip.avail_in > 0 ? 400 : 0;
        packing->gzip.next_out = (unsigned char *)packing->piece;
        packing->gzip.avail_out = PIECE;
        int result = inflate(&packing->gzip, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return 400;
        packing->is_over = result == Z_STREAM_END;
        unsigned status = keep(body, packing->piece, PIECE - packing->gzip.avail_out);
        if (status != 0) return status;
        if (result == Z_BUF_ERROR) break;
    }
    return 0;
}

static unsigned take_zstd(struct http_body *body, const char *bytes, size_t size) {
    struct body_packing *packing = body->packing;
    ZSTD_inBuffer in = {bytes, size, 0};
    bool is_full = true;
    while (in.pos < in.size || is_full) {
        ZSTD_outBuffer out = {packing->piece, PIECE, 0};
        if (packing->is_over) return in.pos < in.size ? 400 : 0;
        size_t result = ZSTD_decompressStream(packing->zstd, &out, &in);
        if (ZSTD_isError(result)) return 400;
        packing->is_over = result == 0;
        is_full = out.pos == out.size;
        unsigned status = keep(body, packing->piece, out.pos);
        if (status != 0) return status;
    }
    return 0;
}

unsigned body_take(struct http_body *body, const char *bytes, size_t size) {
    if (size == 0) return 0;
    if (body->packing == NULL) return keep(body, bytes, size);
    return body->packing->is_gzip ? take_gzip(body, bytes, size) : take_zstd(body, bytes, size);
}

bool body_finish(struct http_body *body) {
    return body->packing == NULL || body->packing->is_over;
}

const char *body_sentence(unsigned status) {
    if (status == 413) return "a body has 16 MiB at most, unpacked";
    if (status == 503) return "as much as may be held is held already";
    return "the body is not chunked, or not packed, as its head says, or its chunk extensions and trailers have more "
           "than 4 KiB";
}
