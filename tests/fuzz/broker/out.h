/* out.h: bytes that grow: what is about to be sent, what has arrived, and the encoding of protobuf.
 *
 * A test program's helper: it ends the process when memory ends, so nothing here fails. */
#ifndef TARRY_TESTS_FUZZ_BROKER_OUT_H
#define TARRY_TESTS_FUZZ_BROKER_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct out {
    uint8_t *data;
    size_t size, room;
};

void out_deinit(struct out *out);
void out_bytes(struct out *out, const void *data, size_t size);
void out_byte(struct out *out, uint8_t byte);
void out_text(struct out *out, const char *text);
void out_format(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Big-endian, `size` bytes. */
void out_number(struct out *out, uint64_t value, unsigned size);
/* `padding` bytes longer than it must be (10 bytes at most). */
void out_varint(struct out *out, uint64_t value, unsigned padding);
/* What has been written from `start` on becomes length-delimited, the length `lie` away from the truth. */
void out_delimit(struct out *out, size_t start, int64_t lie);
/* Takes the first `size` bytes away. */
void out_drop(struct out *out, size_t size);

#endif
