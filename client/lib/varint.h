/* varint.h: numbers as protobuf has them on the wire, for what is packed by hand (pack.c, request.c). */
#ifndef TARRY_VARINT_H
#define TARRY_VARINT_H

#include <stddef.h>
#include <stdint.h>

static inline size_t varint_size(uint64_t value) {
    return (size_t)(70 - __builtin_clzll(value | 1)) / 7;
}

static inline uint8_t *put_varint(uint8_t *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

#endif
