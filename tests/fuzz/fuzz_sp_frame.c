/* fuzz_sp_frame.c: received bytes of nng's own transports (proto/sp_frame.h).
 *
 * The decoder's events agree with those of a second decoder, which reads the whole stream at once. The events do not
 * depend on the sizes of the received parts. They lie within the limits and within the given bytes. Encoding the events
 * again gives the same bytes.
 *
 * Input: a byte of choices (the lowest bit is the transport, the others the size of the parts), two bytes of limit, a
 * hello, messages. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sp_frame.h"

#define INPUT_MAX 4096u

/* The decoder's events as bytes. A message is 'M', a length, the payload and 'E', also if the decoder reports it in
 * several parts. 'L' and 'B' are errors. */
struct trace {
    uint8_t bytes[4 * INPUT_MAX];
    size_t size;
    uint64_t rest;
};

static void put(struct trace *trace, const void *bytes, size_t size) {
    assert(size <= sizeof(trace->bytes) - trace->size);
    if (size > 0) memcpy(trace->bytes + trace->size, bytes, size);
    trace->size += size;
}

/* ---- the second decoder */

static void refer(struct trace *trace, enum sp_transport transport, uint64_t max, const uint8_t *bytes, size_t size) {
    const size_t head = transport == SP_IPC ? 9 : 8;
    for (size_t at = 0; at < size;) {
        uint64_t length = 0;
        if (transport == SP_IPC && bytes[at] != 1) {
            put(trace, "B", 1);
            return;
        }
        if (size - at < head) return;
        for (size_t i = head - 8; i < head; i++) length = length * 256 + bytes[at + i];
        if (length > max) {
            put(trace, "L", 1);
            return;
        }
        at += head;
        const size_t part = size - at < length ? size - at : (size_t)length;
        put(trace, "M", 1);
        put(trace, &length, sizeof(length));
        put(trace, bytes + at, part);
        if (part == length) put(trace, "E", 1);
        at += part;
    }
}

/* ---- the first one */

static void take(struct trace *trace, const struct sp_event *event, uint64_t max) {
    const uint64_t length = event->size + event->rest;
    switch (event->kind) {
    case SP_DATA:
        assert(length <= max && event->ends_message == (event->rest == 0));
        if (event->begins_message) {
            assert(trace->rest == 0);
            put(trace, "M", 1);
            put(trace, &length, sizeof(length));
        } else {
            assert(event->size > 0 && length == trace->rest);
        }
        put(trace, event->data, event->size);
        if (event->ends_message) put(trace, "E", 1);
        trace->rest = event->rest;
        break;
    case SP_TOO_LARGE:
        put(trace, "L", 1);
        break;
    case SP_MALFORMED:
        put(trace, "B", 1);
        break;
    case SP_NEEDS_MORE:
        break;
    }
}

/* Decodes in parts of `step` bytes, each in memory of its own. */
static void decode(struct trace *trace, enum sp_transport transport, uint64_t max, const uint8_t *bytes, size_t size,
                   size_t step) {
    struct sp_decoder decoder;
    struct sp_event event = {.kind = SP_NEEDS_MORE};
    sp_decoder_init(&decoder, transport, max);
    for (size_t at = 0; at < size && event.kind == SP_NEEDS_MORE; at += step) {
        const size_t part_size = step < size - at ? step : size - at;
        uint8_t *part = malloc(part_size);
        assert(part != NULL);
        memcpy(part, bytes + at, part_size);
        size_t used = 0;
        do {
            used += sp_decode(&decoder, part + used, part_size - used, &event);
            assert(used <= part_size);
            take(trace, &event, max);
        } while (event.kind == SP_DATA);
        assert(event.kind != SP_NEEDS_MORE || used == part_size);
        free(part);
    }
}

/* Checks that the complete messages of a trace, when they are sealed again, become the bytes that were decoded. */
static void seal(const struct trace *trace, enum sp_transport transport, const uint8_t *bytes) {
    static uint8_t room[SP_HEAD_MAX + INPUT_MAX];
    uint64_t length;
    for (size_t at = 0; at < trace->size && trace->bytes[at] == 'M'; at += 1 + sizeof(length) + length + 1) {
        memcpy(&length, trace->bytes + at + 1, sizeof(length));
        if (length + 2 + sizeof(length) > trace->size - at)
            return; /* ends here, because the last message is incomplete */
        memcpy(room + SP_HEAD_MAX, trace->bytes + at + 1 + sizeof(length), length);
        const size_t head_size = sp_seal(transport, room + SP_HEAD_MAX, length);
        assert(head_size == sp_head_size(transport));
        assert(memcmp(room + SP_HEAD_MAX - head_size, bytes, head_size + length) == 0);
        bytes += head_size + length;
    }
}

static void greet(const uint8_t *hello) {
    uint8_t again[SP_HELLO_SIZE];
    const int protocol = sp_hello_decode(hello);
    for (size_t size = 0; size < SP_HELLO_SIZE; size++)
        assert(sp_hello_begins(hello, size) || !sp_hello_begins(hello, size + 1));
    assert((protocol >= 0) == sp_hello_begins(hello, SP_HELLO_SIZE));
    if (protocol < 0) return;
    sp_hello_encode((enum sp_protocol)protocol, again);
    assert(memcmp(again, hello, SP_HELLO_SIZE) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct trace expected, whole, parts;
    if (size < 3 + SP_HELLO_SIZE || size > INPUT_MAX) return 0;
    const enum sp_transport transport = (data[0] & 1) != 0 ? SP_IPC : SP_TCP;
    const size_t step = 1 + (data[0] >> 1);
    const uint64_t max = data[1] * 256u + data[2];
    greet(data + 3);
    data += 3 + SP_HELLO_SIZE;
    size -= 3 + SP_HELLO_SIZE;
    expected.size = whole.size = parts.size = whole.rest = parts.rest = 0;
    refer(&expected, transport, max, data, size);
    decode(&whole, transport, max, data, size, size + 1);
    decode(&parts, transport, max, data, size, step);
    assert(whole.size == expected.size && memcmp(whole.bytes, expected.bytes, whole.size) == 0);
    assert(parts.size == expected.size && memcmp(parts.bytes, expected.bytes, parts.size) == 0);
    seal(&whole, transport, data);
    return 0;
}
