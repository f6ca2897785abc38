/* web.c: see web.h. */
#include "web.h"

#include <string.h>

enum { CONTINUATION, TEXT, BINARY, CLOSE = 8, PING, PONG };

#define FRAME_SIZE_MAX_HERE (64u << 10)
#define FINAL 0x80u
#define MASKED 0x80u

/* The key need not be random: the broker only sends back its hash. */
void web_upgrade(struct out *out, const char *path, const char *protocol, const char *secret) {
    out_format(out,
               "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Protocol: %s\r\n",
               path, protocol);
    if (secret != NULL) out_format(out, "Authorization: Bearer %s\r\n", secret);
    out_text(out, "\r\n");
}

/* ---- frames */

struct frame {
    uint8_t first; /* FIN, reserved bits, opcode */
    bool unmasked;
    unsigned length_size; /* size of the extended length: 2 or 8 bytes; 0: as few as possible */
    uint64_t lie;         /* difference between the stated and the true length */
};

static void put_frame(struct random *random, struct frame frame, const uint8_t *data, size_t size, struct out *out) {
    uint64_t claimed = size + frame.lie;
    uint8_t masked = frame.unmasked ? 0 : MASKED;
    out_byte(out, frame.first);
    if (frame.length_size == 8 || (frame.length_size == 0 && claimed > UINT16_MAX)) {
        out_byte(out, masked | 127);
        out_number(out, claimed, 8);
    } else if (frame.length_size == 2 || claimed > 125) {
        out_byte(out, masked | 126);
        out_number(out, claimed, 2);
    } else {
        out_byte(out, masked | (uint8_t)claimed);
    }
    uint8_t mask[4] = {0};
    if (!frame.unmasked) {
        uint64_t bits = random_u64(random);
        memcpy(mask, &bits, sizeof(mask));
        out_bytes(out, mask, sizeof(mask));
    }
    size_t start = out->size;
    out_bytes(out, data, size);
    for (size_t i = 0; i < size; i++) out->data[start + i] ^= mask[i % 4];
}

static void put_control(struct random *random, uint8_t opcode, struct out *out) {
    uint8_t noise[200];
    size_t size = random_below(random, 8) == 0 ? 126 + random_below(random, 74) : random_below(random, 20);
    memset(noise, (int)random_u64(random) & 0xff, sizeof(noise));
    put_frame(random, (struct frame){.first = FINAL | opcode}, noise, size, out);
}

void web_message(struct random *random, const void *data, size_t size, struct out *out) {
    size_t piece_max = FRAME_SIZE_MAX_HERE, at = 0;
    if (random_below(random, 40) == 0) piece_max = 1 + random_below(random, size + 1);
    do {
        size_t piece = size - at < piece_max ? size - at : piece_max;
        uint8_t first = at == 0 ? BINARY : CONTINUATION;
        if (at + piece == size) first |= FINAL;
        put_frame(random, (struct frame){.first = first}, (const uint8_t *)data + at, piece, out);
        at += piece;
        if (at < size && random_below(random, 30) == 0)
            put_frame(random, (struct frame){.first = FINAL | PING}, NULL, 0, out);
    } while (at < size);
}

static void rude_lengths(struct random *random, const uint8_t *data, size_t size, struct out *out) {
    static const uint64_t lies[] = {1,          100,        UINT64_MAX, 1u << 20,  1u << 24,
                                    1ull << 31, 1ull << 32, 1ull << 62, 1ull << 63};
    struct frame frame = {.first = FINAL | BINARY};
    frame.lie = lies[random_below(random, sizeof(lies) / sizeof(lies[0]))];
    frame.length_size = (unsigned)random_below(random, 3) * 4;
    if (frame.length_size == 4) frame.length_size = 2;
    put_frame(random, frame, data, size, out);
}

/* Sends parts of a message that never ends or that ends too late. */
static void rude_fragments(struct random *random, const uint8_t *data, size_t size, struct out *out) {
    size_t count = random_below(random, 30) == 0 ? 5000 : random_below(random, 40);
    put_frame(random, (struct frame){.first = BINARY}, data, size, out);
    for (size_t i = 0; i < count; i++)
        put_frame(random, (struct frame){.first = CONTINUATION}, data, random_below(random, size + 1), out);
    if (random_below(random, 2) == 0) put_frame(random, (struct frame){.first = FINAL}, data, size, out);
}

void web_rude_message(struct random *random, const void *data, size_t size, struct out *out) {
    struct frame frame = {.first = FINAL | BINARY};
    size_t start = out->size;
    switch (random_below(random, 8)) {
    case 0:
        frame.unmasked = true;
        break;
    case 1:
        frame.first = (uint8_t)random_u64(random);
        break;
    case 2:
        frame.length_size = random_below(random, 2) == 0 ? 2 : 8;
        break;
    case 3:
        rude_lengths(random, data, size, out);
        return;
    case 4:
        rude_fragments(random, data, size, out);
        return;
    case 5:
        put_control(random, (uint8_t)(CLOSE + random_below(random, 8)), out);
        break;
    case 6: /* sends the beginning of a message in the middle of another one */
        put_frame(random, (struct frame){.first = BINARY}, data, size, out);
        break;
    default: /* sends a continuation without a beginning */
        frame.first = FINAL | CONTINUATION;
    }
    put_frame(random, frame, data, size, out);
    if (random_below(random, 4) == 0) /* truncated */
        out->size -= random_below(random, out->size - start);
}

/* ---- received data */

void web_reader_deinit(struct web_reader *reader) {
    out_deinit(&reader->in);
    out_deinit(&reader->message);
}

static enum web_found next_head(struct web_reader *reader) {
    static const char end[] = "\r\n\r\n";
    struct out *in = &reader->in;
    const uint8_t *found = in->size == 0 ? NULL : memmem(in->data, in->size, end, strlen(end));
    if (found == NULL) return WEB_NOTHING;
    size_t size = (size_t)(found - in->data) + strlen(end);
    reader->upgraded = size > 12 && memcmp(in->data, "HTTP/1.1 101", 12) == 0;
    reader->refused = !reader->upgraded;
    out_drop(in, size);
    return WEB_HEAD;
}

static enum web_found next_frame(struct web_reader *reader, size_t *io_at) {
    const struct out *in = &reader->in;
    size_t at = *io_at, left = in->size - at;
    const uint8_t *head = in->data + at;
    if (left < 2) return WEB_NOTHING;
    uint64_t size = head[1] & 0x7f;
    size_t head_size = 2, wide = size == 126 ? 2 : size == 127 ? 8 : 0;
    if (left < head_size + wide) return WEB_NOTHING;
    if (wide > 0) {
        size = 0;
        for (size_t i = 0; i < wide; i++) size = size << 8 | head[2 + i];
        head_size += wide;
    }
    if ((head[1] & MASKED) != 0 || size > 64u << 20) return WEB_BROKEN;
    if (left < head_size + size) return WEB_NOTHING;
    *io_at += head_size + size;
    if ((head[0] & 0xf) >= CLOSE) return WEB_CONTROL;
    out_bytes(&reader->message, head + head_size, size);
    return (head[0] & FINAL) != 0 ? WEB_MESSAGE : WEB_NOTHING;
}

enum web_found web_next(struct web_reader *reader) {
    if (reader->refused) {
        reader->in.size = 0;
        return WEB_NOTHING;
    }
    if (!reader->upgraded) return next_head(reader);
    reader->message.size = 0;
    size_t at = 0, before;
    enum web_found found;
    do {
        before = at;
        found = next_frame(reader, &at);
    } while (found == WEB_NOTHING && at > before);
    /* A fragmented message that is incomplete is parsed again from its beginning when more data has arrived. */
    if (found != WEB_NOTHING) out_drop(&reader->in, at);
    return found;
}
