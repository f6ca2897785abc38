/* input.h: reads a fuzzer's input from the front, for targets whose input is a program. Reads past the end return
 * zeros, so that every input is valid. */
#ifndef TARRY_TESTS_FUZZ_INPUT_H
#define TARRY_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *data;
    size_t size; /* remaining bytes */
};

static inline uint8_t input_byte(struct input *input) {
    if (input->size == 0) return 0;
    input->size--;
    return *input->data++;
}

/* Returns a number of `size` bytes, little-endian. */
static inline uint64_t input_number(struct input *input, unsigned size) {
    uint64_t number = 0;
    for (unsigned i = 0; i < size; i++) number |= (uint64_t)input_byte(input) << 8 * i;
    return number;
}

/* Returns a number from 0 to below - 1, from as few bytes as possible. */
static inline uint64_t input_below(struct input *input, uint64_t below) {
    unsigned size = below <= 1u << 8 ? 1 : below <= 1u << 16 ? 2 : below <= 1ull << 32 ? 4 : 8;
    return below == 0 ? 0 : input_number(input, size) % below;
}

/* Returns up to `count` bytes, fewer at the end; `*out_size` is their number. Borrowed. */
static inline const uint8_t *input_bytes(struct input *input, size_t count, size_t *out_size) {
    const uint8_t *bytes = input->data;
    *out_size = count < input->size ? count : input->size;
    input->data += *out_size;
    input->size -= *out_size;
    return bytes;
}

#endif
