/* api_frame.c: the encoding of a body: compressed or not, with its length, chunked, or framed so that two parsers
 * may see different ends (api.h). */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#undef FAR /* zlib defines FAR for segmented memory */

#include "api.h"

#define BOMB_SIZE (40u << 20) /* larger than any allowed body */

static bool chance(const struct api *api, uint64_t of) {
    return random_below(api->random, of) == 0;
}

static void pack_gzip(const void *data, size_t size, struct out *out) {
    z_stream stream = {0};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    size_t room = deflateBound(&stream, size);
    uint8_t *packed = malloc(room);
    if (packed == NULL) abort();
    stream.next_in = (unsigned char *)data;
    stream.avail_in = (unsigned)size;
    stream.next_out = packed;
    stream.avail_out = (unsigned)room;
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END) abort();
    out_bytes(out, packed, room - stream.avail_out);
    deflateEnd(&stream);
    free(packed);
}

static void pack_zstd(const void *data, size_t size, bool is_wide, struct out *out) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(size);
    uint8_t *packed = malloc(room);
    if (context == NULL || packed == NULL) abort();
    ZSTD_inBuffer in = {data, size, 0};
    ZSTD_outBuffer to = {packed, room, 0};
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, is_wide ? 24 : 10);
    while (ZSTD_compressStream2(context, &to, &in, ZSTD_e_end) != 0 && to.pos < to.size) {
    }
    out_bytes(out, packed, to.pos);
    ZSTD_freeCCtx(context);
    free(packed);
}

/* Returns a compressed body of blanks, which JSON skips, or of empty lines. */
static const struct out *bomb(bool is_gzip, bool is_lines) {
    static struct out bombs[2][2];
    struct out *made = &bombs[is_gzip][is_lines];
    if (made->size > 0) return made;
    uint8_t *data = malloc(BOMB_SIZE);
    if (data == NULL) abort();
    memset(data, is_lines ? '\n' : ' ', BOMB_SIZE);
    if (is_gzip)
        pack_gzip(data, BOMB_SIZE, made);
    else
        pack_zstd(data, BOMB_SIZE, true, made);
    free(data);
    return made;
}

/* Writes the encoded body, and its Content-Encoding. */
static void pack(const struct api *api, const struct out *body, struct out *packed, struct out *out) {
    bool is_gzip = chance(api, 2);
    const char *name = is_gzip ? "gzip" : "zstd";
    if (!chance(api, 12)) {
        out_bytes(packed, body->data, body->size);
        if (chance(api, 100)) out_format(out, "Content-Encoding: %s\r\n", chance(api, 2) ? name : "br");
        return;
    }
    out_format(out, "Content-Encoding: %s\r\n", chance(api, 40) ? "gzip, zstd" : name);
    if (chance(api, 60)) {
        const struct out *made = bomb(is_gzip, chance(api, 2));
        out_bytes(packed, made->data, made->size);
    } else if (is_gzip) {
        pack_gzip(body->data, body->size, packed);
    } else {
        pack_zstd(body->data, body->size, chance(api, 4), packed);
    }
    if (chance(api, 20)) packed->size -= random_below(api->random, packed->size); /* truncated */
    if (chance(api, 20)) out_text(packed, "more");
}

static void put_chunks(const struct api *api, const struct out *body, struct out *out) {
    size_t most = chance(api, 4) ? 1 : 1 + random_below(api->random, body->size + 1);
    for (size_t at = 0; at < body->size;) {
        size_t size = 1 + random_below(api->random, most);
        if (size > body->size - at) size = body->size - at;
        out_format(out, chance(api, 2) ? "%zx\r\n" : "%zX\r\n", size);
        out_bytes(out, body->data + at, size);
        out_text(out, "\r\n");
        at += size;
    }
    out_text(out, "0\r\n\r\n");
}

/* Writes wrong or unusual chunks. */
static void put_odd_chunks(const struct api *api, const struct out *body, struct out *out) {
    static const char *const sizes[] = {"ffffffffffffffff",  "100000000", "0x5", "-1", "5;a=b", " 5", "",
                                        "00000000000000005", "5\n"};
    static const char *const ends[] = {"0\r\nTrailer: x\r\n\r\n", "0\n\n", "0\r\n", "\r\n", "0;x\r\n\r\n", "0\r\n\r"};
    out_format(out, "%s\r\n", sizes[random_below(api->random, sizeof(sizes) / sizeof(sizes[0]))]);
    out_bytes(out, body->data, body->size);
    out_format(out, "\r\n%s", ends[random_below(api->random, sizeof(ends) / sizeof(ends[0]))]);
}

/* Writes a body whose end two parsers may see at different positions. */
static enum api_end put_smuggled(const struct api *api, const struct out *body, struct out *out) {
    static const char *const fields[] = {"Content-Length: %zu\r\nTransfer-Encoding: chunked\r\n",
                                         "Transfer-Encoding: chunked\r\nContent-Length: %zu\r\n",
                                         "Content-Length: %zu\r\nContent-Length: 0\r\n",
                                         "Content-Length: +%zu\r\n",
                                         "Content-Length: %zu, 5\r\n",
                                         "Content-Length : %zu\r\n",
                                         "Content-Length: 0x%zx\r\n",
                                         "Transfer-Encoding: identity, chunked\r\n",
                                         "Transfer-Encoding:\tchunked\r\n",
                                         "Transfer-Encoding: xchunked\r\n",
                                         "Transfer-Encoding : chunked\r\n",
                                         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                                         "Transfer-Encoding: Chunked\r\n",
                                         "X: y\rTransfer-Encoding: chunked\r\n",
                                         "X: y\nContent-Length: %zu\r\n",
                                         "Content-Length: 99999999999999999999%zu\r\n",
                                         "Content-Length: 18446744073709551615\r\n"};
    const char *field = fields[random_below(api->random, sizeof(fields) / sizeof(fields[0]))];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    out_format(out, field, body->size);
#pragma GCC diagnostic pop
    out_text(out, "\r\n");
    if (chance(api, 2))
        put_odd_chunks(api, body, out);
    else
        put_chunks(api, body, out);
    out_text(out, "GET /v1/queues HTTP/1.1\r\nHost: x\r\n\r\n");
    return API_ENDS;
}

enum api_end api_frame(const struct api *api, const struct out *body, struct out *out) {
    struct out packed = {0};
    enum api_end end = API_GOES_ON;
    pack(api, body, &packed, out);
    uint64_t dice = random_below(api->random, 150);
    if (dice == 0) {
        end = put_smuggled(api, &packed, out);
    } else if (dice == 1) { /* a wrong length: larger or smaller than the body */
        size_t size = chance(api, 2) ? packed.size + 1 + random_below(api->random, 70000)
                                     : random_below(api->random, packed.size + 1);
        out_format(out, "Content-Length: %zu\r\n\r\n", size);
        out_bytes(out, packed.data, packed.size);
        end = API_HANGS;
    } else if (dice == 2) {
        out_text(out, "Transfer-Encoding: chunked\r\n\r\n");
        put_odd_chunks(api, &packed, out);
        end = API_ENDS;
    } else if (dice < 30) {
        out_text(out, "Transfer-Encoding: chunked\r\n\r\n");
        put_chunks(api, &packed, out);
    } else {
        if (packed.size > 0 || chance(api, 2)) out_format(out, "Content-Length: %zu\r\n", packed.size);
        out_text(out, "\r\n");
        out_bytes(out, packed.data, packed.size);
    }
    out_deinit(&packed);
    return end;
}
