/* http_body.c: see http_body.h. A decompressed body has at most HTTP_BODY_MAX bytes, whatever its compressed size. The
 * windows of both compressions are limited, too. */
#include "http_body.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

/* Argument `windowBits` of zlib: 15 is a window of 32 KiB; adding 16 selects the gzip format. */
#define GZIP_WINDOW (15 + 16)
#define GZIP_SIZE (48u << 10) /* size of zlib's state with its window */
#define ZSTD_WINDOW_LOG 23    /* log2 of the maximum window: RFC 9659 requires 8 MiB */
#define ZSTD_HEAD_SIZE 18     /* maximum size of the head of a zstd frame */
/* Memory for decompressing a small body: gzip's state, or zstd's state with a window of at most 64 KiB. */
#define PACKING_SMALL_MAX (384u << 10)

struct body_packing {
    bool is_gzip;
    bool is_over;
    bool is_known; /* zstd: the frame's head has been received */
    uint8_t first_size;
    uint8_t first[ZSTD_HEAD_SIZE];
    z_stream gzip;
    ZSTD_DStream *zstd;
    char piece[HTTP_PIECE];
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
    (void)door_stream_half(body->door, body->id, size, true); /* cannot fail: the size shrinks */
    door_stream_whole(body->door, body->id);
}

void body_deinit(struct http_body *body) {
    packing_free(body);
    free(body->bytes);
    body->bytes = NULL;
    body->size = body->capacity = 0;
    (void)door_stream_count(body->door, body->id, 0);
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

static const struct body_refusal fine;
static const struct body_refusal too_large = {413, "the request body is larger than 16 MiB after decompression"};
static const struct body_refusal no_room = {503,
                                            "the broker's buffers for request bodies are full: try again in a moment"};
static const struct body_refusal no_share = {503,
                                             "the requests of this principal reached its limit of bytes in progress "
                                             "(bytes=, tarry token): try again in a moment, or raise the limit"};
static const struct body_refusal wrong = {400, "the body is not compressed as Content-Encoding says"};
static const struct body_refusal unknown = {415, "unknown Content-Encoding: use identity, gzip or zstd"};

struct body_refusal body_begin(struct http_body *body, const struct head *head) {
    const char *encoding = head->fields[HEAD_FIELD_encoding].text;
    if (head->length > HTTP_BODY_MAX) return too_large;
    if (encoding == NULL || strcasecmp(encoding, "identity") == 0) {
        body->expected = head->is_chunked ? 0 : (size_t)head->length;
        return fine;
    }
    bool is_gzip = strcasecmp(encoding, "gzip") == 0;
    if (!is_gzip && strcasecmp(encoding, "zstd") != 0) return unknown;
    body->packing = calloc(1, sizeof(*body->packing));
    if (body->packing == NULL) return no_room;
    return (is_gzip ? begin_gzip(body->packing) : begin_zstd(body->packing)) ? fine : no_room;
}

/* Memory that decompression uses, including its window. */
static size_t packing_size(const struct body_packing *packing) {
    if (packing == NULL) return 0;
    return sizeof(*packing) + (packing->is_gzip ? GZIP_SIZE : ZSTD_sizeof_DStream(packing->zstd));
}

/* Makes room for `size` more bytes, and counts them. */
static struct body_refusal grow(struct http_body *body, size_t size) {
    size_t needed = body->size + size + 1;
    if (body->size + size > HTTP_BODY_MAX) return too_large;
    if (needed <= body->capacity) return fine;
    size_t capacity = 2 * needed;
    if (body->capacity == 0 && body->expected >= size) capacity = body->expected + 1;
    if (capacity > HTTP_BODY_MAX + 1) capacity = HTTP_BODY_MAX + 1;
    assert(capacity > body->size);
    size_t all = capacity + packing_size(body->packing);
    /* A small body always gets memory, even a compressed one, so that an ack is accepted although other requests use
     * all memory (CAP-1). The door limits the total of all half-received requests (pressure_bound_halves). */
    bool is_small = capacity <= DOOR_SMALL_MAX && all - capacity <= PACKING_SMALL_MAX;
    if (!door_stream_count(body->door, body->id, capacity)) return no_share;
    if (!door_stream_half(body->door, body->id, all, is_small)) return no_room;
    char *grown = realloc(body->bytes, capacity);
    if (grown == NULL) return no_room;
    body->bytes = grown;
    body->capacity = capacity;
    return fine;
}

static struct body_refusal keep(struct http_body *body, const char *bytes, size_t size) {
    struct body_refusal refusal = grow(body, size);
    if (refusal.status != 0) return refusal;
    if (size > 0) memcpy(body->bytes + body->size, bytes, size);
    body->size += size;
    body->bytes[body->size] = '\0';
    return fine;
}

static struct body_refusal take_gzip(struct http_body *body, const char *bytes, size_t *size, bool *out_more) {
    struct body_packing *packing = body->packing;
    z_stream *gzip = &packing->gzip;
    if (packing->is_over) return *size > 0 ? wrong : fine;
    gzip->next_in = (unsigned char *)bytes;
    gzip->avail_in = (unsigned)*size;
    gzip->next_out = (unsigned char *)packing->piece;
    gzip->avail_out = HTTP_PIECE;
    int result = inflate(gzip, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return wrong;
    packing->is_over = result == Z_STREAM_END;
    *size -= gzip->avail_in;
    *out_more = !packing->is_over && gzip->avail_out == 0;
    return keep(body, packing->piece, HTTP_PIECE - gzip->avail_out);
}

/* Checks the size that a zstd frame's head states before any byte is decompressed. */
static struct body_refusal look_at_frame(struct http_body *body, const char *bytes, size_t size) {
    struct body_packing *packing = body->packing;
    size_t part = ZSTD_HEAD_SIZE - packing->first_size;
    if (packing->is_known) return fine;
    if (part > size) part = size;
    memcpy(packing->first + packing->first_size, bytes, part);
    packing->first_size += (uint8_t)part;
    unsigned long long stated = ZSTD_getFrameContentSize(packing->first, packing->first_size);
    packing->is_known = stated != ZSTD_CONTENTSIZE_ERROR || packing->first_size == ZSTD_HEAD_SIZE;
    if (stated == ZSTD_CONTENTSIZE_ERROR || stated == ZSTD_CONTENTSIZE_UNKNOWN) return fine;
    body->expected = (size_t)stated;
    return stated > HTTP_BODY_MAX ? too_large : grow(body, body->expected);
}

static struct body_refusal take_zstd(struct http_body *body, const char *bytes, size_t *size, bool *out_more) {
    struct body_packing *packing = body->packing;
    ZSTD_inBuffer in = {bytes, *size, 0};
    ZSTD_outBuffer out = {packing->piece, HTTP_PIECE, 0};
    struct body_refusal refusal = look_at_frame(body, bytes, *size);
    if (refusal.status != 0) return refusal;
    if (packing->is_over) return *size > 0 ? wrong : fine;
    size_t result = ZSTD_decompressStream(packing->zstd, &out, &in);
    if (ZSTD_isError(result)) return wrong;
    packing->is_over = result == 0;
    *size = in.pos;
    *out_more = !packing->is_over && out.pos == out.size;
    return keep(body, packing->piece, out.pos);
}

struct body_refusal body_take(struct http_body *body, const char *bytes, size_t *size, bool *out_more) {
    *out_more = false;
    if (body->packing != NULL && body->packing->is_gzip) return take_gzip(body, bytes, size, out_more);
    if (body->packing != NULL) return take_zstd(body, bytes, size, out_more);
    if (*size > HTTP_PIECE) *size = HTTP_PIECE;
    return keep(body, bytes, *size);
}

bool body_finish(struct http_body *body) {
    return body->packing == NULL || body->packing->is_over;
}
