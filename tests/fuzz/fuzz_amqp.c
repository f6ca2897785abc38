/* fuzz_amqp.c: parses bytes of an AMQP client, and definitions. The parser reads nothing past the end of the bytes. The
 * test encodes each parsed value again; parsing the result must give the same value. The input: a byte that selects the
 * kind of the remaining bytes (frames, properties, a table, a definition, an envelope, a topic). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "amqp_codec.h"
#include "amqp_message.h"
#include "amqp_topology.h"
#include "fuzz.h"

static void walk(struct amqp_bytes table, bool is_array, unsigned depth) {
    struct amqp_field field;
    while (amqp_field_next(&table, is_array, &field)) {
        assert(amqp_field_same(&field, &field));
        if ((field.type == 'F' || field.type == 'A') && depth < AMQP_DEPTH_MAX)
            walk(field.value, field.type == 'A', depth + 1);
    }
}

static void frames(struct amqp_bytes bytes) {
    struct amqp_frame frame;
    struct amqp_method method;
    struct amqp_content_head head;
    size_t size;
    while (amqp_frame_read(bytes, AMQP_FRAME_MIN, &frame, &size) == AMQP_FRAME_WHOLE) {
        assert(size <= bytes.size && size <= AMQP_FRAME_MIN && frame.payload.size == size - AMQP_FRAME_OVERHEAD);
        if (frame.type == AMQP_FRAME_METHOD) (void)amqp_method_read(frame.payload, &method);
        if (frame.type == AMQP_FRAME_CONTENT) (void)amqp_content_read(frame.payload, &head);
        bytes.at += size;
        bytes.size -= size;
    }
}

static void properties(struct amqp_bytes bytes) {
    struct amqp_properties read, again;
    struct amqp_out out = {0};
    if (!amqp_properties_read(bytes, &read)) return;
    amqp_put_properties(&out, &read);
    assert(amqp_properties_read((struct amqp_bytes){out.bytes, out.size}, &again));
    assert(read.present == again.present && out.size == bytes.size && memcmp(out.bytes, bytes.at, out.size) == 0);
    amqp_out_free(&out);
}

static void definition(struct amqp_bytes bytes) {
    struct amqp_topology topology;
    struct amqp_out out = {0};
    if (!amqp_topology_init(&topology)) return;
    size_t queues = topology.queues.count;
    if (amqp_define(&topology, bytes) == AMQP_DEFINED && topology.queues.count > queues) {
        for (size_t i = 0; i < topology.queues.capacity; i++)
            if (topology.queues.buckets[i] != NULL)
                amqp_put_queue(&out, (struct amqp_queue *)topology.queues.buckets[i]);
        assert(amqp_define(&topology, (struct amqp_bytes){out.bytes, out.size}) == AMQP_DEFINED);
        amqp_out_free(&out);
    }
    amqp_topology_deinit(&topology);
}

static void envelope(struct amqp_bytes bytes) {
    struct amqp_out made = {0}, dead = {0};
    struct amqp_envelope read;
    struct amqp_properties died;
    Tarry__Content content = TARRY__CONTENT__INIT;
    struct amqp_queue *queue = amqp_queue_new(amqp_text("q"), (struct amqp_bytes){0});
    content.properties = (ProtobufCBinaryData){.data = (uint8_t *)bytes.at, .len = bytes.size};
    if (queue != NULL && amqp_envelope_of(&content, "q", &made, &read)) {
        amqp_put_dead(&dead, &read, queue, AMQP_DEATH_REJECTED, 1);
        assert(amqp_properties_read((struct amqp_bytes){dead.bytes, dead.size}, &died));
        assert(!amqp_death_circles(died.bytes[AMQP_HEADERS],
                                   "q")); /* a rejected message that returns to its queue is no dead-letter cycle */
    }
    amqp_out_free(&made);
    amqp_out_free(&dead);
    amqp_queue_free(queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    /* The copy is in memory of exactly its size, so that a read past its end is detected. */
    uint8_t *copy = malloc(size);
    if (copy == NULL) return 0;
    memcpy(copy, data, size);
    struct amqp_bytes bytes = {copy + 1, size - 1};
    switch (copy[0] % 6) {
    case 0:
        frames(bytes);
        break;
    case 1:
        properties(bytes);
        break;
    case 2:
        if (amqp_table_valid(bytes)) walk(bytes, false, 1);
        break;
    case 3:
        definition(bytes);
        break;
    case 4:
        envelope(bytes);
        break;
    default:
        (void)amqp_topic_matches((struct amqp_bytes){bytes.at, bytes.size / 2},
                                 (struct amqp_bytes){bytes.at + bytes.size / 2, bytes.size - bytes.size / 2});
    }
    free(copy);
    return 0;
}
