/* base64.c: see base64.h. */
#include "base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct text *out, const void *data, size_t size) {
    const unsigned char *in = data;
    char *at = text_reserve(out, size / 3 * 4 + 4);
    char *start = at;
    for (; size >= 3; size -= 3, in += 3) {
        uint32_t bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        for (int shift = 18; shift >= 0; shift -= 6) *at++ = alphabet[bits >> shift & 63];
    }
    if (size > 0) {
        uint32_t bits = (uint32_t)in[0] << 16 | (size == 2 ? (uint32_t)in[1] << 8 : 0);
        *at++ = alphabet[bits >> 18 & 63];
        *at++ = alphabet[bits >> 12 & 63];
        *at++ = size == 2 ? alphabet[bits >> 6 & 63] : '=';
        *at++ = '=';
    }
    out->size += (size_t)(at - start);
}

static int digit(char character) {
    if (character >= 'A' && character <= 'Z') return character - 'A';
    if (character >= 'a' && character <= 'z') return character - 'a' + 26;
    if (character >= '0' && character <= '9') return character - '0' + 52;
    if (character == '+') return 62;
    return character == '/' ? 63 : -1;
}

bool base64_decode(const char *text, size_t size, unsigned char *out, size_t *out_size) {
    if (size % 4 == 0 && size > 0 && text[size - 1] == '=') size -= text[size - 2] == '=' ? 2 : 1;
    if (size % 4 == 1) return false;
    uint32_t bits = 0;
    unsigned bit_count = 0;
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        int value = digit(text[i]);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            out[count++] = (unsigned char)(bits >> bit_count & 255);
        }
    }
    if ((bits & ((1u << bit_count) - 1)) != 0) return false; /* two spellings of one payload: refuse one of them */
    *out_size = count;
    return true;
}
