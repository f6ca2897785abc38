/* bytes.h: encodes and decodes integers, the same on every machine: little-endian at any address, and varints. */
#ifndef TARRY_PROTO_BYTES_H
#define TARRY_PROTO_BYTES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *put_u16(uint8_t *at, uint16_t value) {
    value = htole16(value);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static inline uint8_t *put_u32(uint8_t *at, uint32_t value) {
    value = htole32(value);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static inline uint8_t *put_u64(uint8_t *at, uint64_t value) {
    value = htole64(value);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static inline uint16_t get_u16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return le16toh(value);
}

static inline uint32_t get_u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static inline uint64_t get_u64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

/* Varints in protobuf's encoding: seven bits per byte, the low bits first. */
static inline size_t varint_size(uint64_t value) {
    size_t size = 1;
    for (; value >= 0x80; value >>= 7) size++;
    return size;
}

/* Returns the address after the last byte written. */
static inline uint8_t *put_varint(uint8_t *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

#endif
