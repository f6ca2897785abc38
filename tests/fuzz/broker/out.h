/* out.h: a growing buffer: for data to send, for data that has arrived, and for protobuf encoding.
 *
 * A test helper: when memory runs out it ends the process, so no function here can fail. */
#ifndef TARRY_TESTS_FUZZ_BROKER_OUT_H
#define TARRY_TESTS_FUZZ_BROKER_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A buffer of zeros is empty. */
struct out {
    uint8_t *data;
    size_t size, room;
};

void out_deinit(struct out *out);
void out_bytes(struct out *out, const void *data, size_t size);
void out_byte(struct out *out, uint8_t byte);
void out_text(struct out *out, const char *text);
void out_format(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a number of `size` bytes, big-endian. */
void out_number(struct out *out, uint64_t value, unsigned size);
/* Writes a varint that is `padding` bytes longer than necessary (10 bytes at most). */
void out_varint(struct out *out, uint64_t value, unsigned padding);
/* Turns the bytes from `start` on into a length-delimited field whose length is wrong by `lie`. */
void out_delimit(struct out *out, size_t start, int64_t lie);
/* Removes the first `size` bytes. */
void out_drop(struct out *out, size_t size);

#endif
