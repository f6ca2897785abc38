/* wire_test.c: packs and unpacks random messages of every kind that needs no reflection. Bytes and meaning must be the
 * same as with protobuf-c (wire_same.h). Also uses truncated messages, changed bytes and doubled pieces. TARRY_SEED
 * sets the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fuzz/wire_same.h"
#include "../random.h"
#include "arena.h"
#include "tarry.pb-c.h"

#define MESSAGES 4000
#define VARIANTS 24 /* number of damaged variants per message */
#define REPEATED_MAX 4
#define DEPTH_MAX 6
#define SPOILT_MORE 11u

static struct arena arena;
static struct random random_state;
static bool is_usual; /* true: most fields are present, with typical sizes */
static bool is_full;  /* true: all fields are present, with the largest numbers */

static void *room(size_t size) {
    void *memory = arena_alloc(&arena, size);
    assert_non_null(memory);
    memset(memory, 0, size);
    return memory;
}

static ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *descriptor, unsigned depth);

static ProtobufCBinaryData random_bytes(void) {
    size_t size = (size_t)random_below(&random_state, random_below(&random_state, 20) == 0 ? 300 : 24);
    uint8_t *bytes = room(size + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] =
            (uint8_t)(1 + random_below(&random_state, 255)); /* not 0, because a text must not contain a NUL byte */
    return (ProtobufCBinaryData){size, bytes};
}

/* Writes one random value of the field's type to the address `member`. */
static void random_value(const ProtobufCFieldDescriptor *field, void *member, unsigned depth) {
    uint64_t number = random_magnitude(&random_state, is_usual ? 45 : 64);
    uint32_t number32 = (uint32_t)random_magnitude(&random_state, 32);
    ProtobufCBinaryData bytes;
    if (is_full) number = UINT64_MAX, number32 = UINT32_MAX;
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(member, &number, sizeof(number));
        break;
    case PROTOBUF_C_TYPE_UINT32:
        memcpy(member, &number32, sizeof(number32));
        break;
    case PROTOBUF_C_TYPE_ENUM:
        if (!is_full && random_below(&random_state, 16) != 0)
            number32 %= 20; /* mostly a small number; once in 16 times any number, also a negative one */
        memcpy(member, &number32, sizeof(number32));
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)member = (protobuf_c_boolean)random_below(&random_state, 2);
        break;
    case PROTOBUF_C_TYPE_STRING:
        *(char **)member = (char *)random_bytes().data;
        break;
    case PROTOBUF_C_TYPE_BYTES:
        bytes = random_bytes();
        memcpy(member, &bytes, sizeof(bytes));
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)member = random_message(field->descriptor, depth + 1);
        break;
    default:
        fail_msg("a type that no message had when this was written: %s", field->name);
    }
}

static void random_list(const ProtobufCFieldDescriptor *field, uint8_t *message, unsigned depth) {
    size_t count = (size_t)random_below(&random_state, REPEATED_MAX + 1);
    size_t each = field->type == PROTOBUF_C_TYPE_UINT32 ? 4 : 8; /* pointers and 64-bit numbers have 8 bytes */
    if (field->type == PROTOBUF_C_TYPE_BYTES) each = sizeof(ProtobufCBinaryData);
    uint8_t *items = room(count * each + 1);
    for (size_t i = 0; i < count; i++) random_value(field, items + i * each, depth);
    memcpy(message + field->quantifier_offset, &count, sizeof(count));
    memcpy(message + field->offset, &items, sizeof(items));
}

static void add_unknown(ProtobufCMessage *message) {
    ProtobufCMessageUnknownField *unknown = room(sizeof(*unknown));
    ProtobufCBinaryData bytes = random_bytes();
    uint8_t *data = room(bytes.len + 2);
    data[0] = (uint8_t)bytes.len; /* all lengths are below 128, so each takes one byte */
    memcpy(data + 1, bytes.data, bytes.len);
    if (bytes.len >= 0x80) return;
    *unknown = (ProtobufCMessageUnknownField){.tag = 900,
                                              .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                              .len = bytes.len + 1,
                                              .data = data};
    message->n_unknown_fields = 1;
    message->unknown_fields = unknown;
}

static bool is_one_of(const ProtobufCFieldDescriptor *field) {
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* Returns whether wire_generate.c lists the field. It lists all fields of most messages. */
static bool is_hot(const ProtobufCMessageDescriptor *descriptor, const ProtobufCFieldDescriptor *field) {
    if (descriptor == &tarry__request__descriptor) return field->id <= 7 || field->id == TARRY__REQUEST__BODY_COMMIT;
    if (descriptor == &tarry__reply__descriptor) return field->id == 4 || field->id == TARRY__REPLY__BODY_COMMIT;
    if (descriptor == &tarry__record__descriptor) return field->id <= TARRY__RECORD__FACT_END;
    return descriptor != &tarry__op__descriptor || field->id <= TARRY__OP__OP_RELEASE;
}

/* Returns the field of a oneof that is present. */
static const ProtobufCFieldDescriptor *random_one_of(const ProtobufCMessageDescriptor *descriptor, bool only_hot) {
    const ProtobufCFieldDescriptor *chosen = NULL;
    unsigned count = 0;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (!is_one_of(field) || (only_hot && !is_hot(descriptor, field))) continue;
        if (random_below(&random_state, ++count) == 0) chosen = field;
    }
    return chosen;
}

static ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *descriptor, unsigned depth) {
    uint8_t *message = room(descriptor->sizeof_message);
    descriptor->message_init((ProtobufCMessage *)message);
    const bool only_hot = is_usual && random_below(&random_state, 4) != 0;
    const ProtobufCFieldDescriptor *one_of = random_one_of(descriptor, only_hot);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        bool is_in_oneof = is_one_of(field);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth >= DEPTH_MAX) continue;
        if (is_in_oneof && field != one_of) continue;
        if (only_hot && !is_hot(descriptor, field)) continue;
        if (!is_in_oneof && !is_full && random_below(&random_state, is_usual ? 8 : 2) == 0) continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            random_list(field, message, depth);
            continue;
        }
        random_value(field, message + field->offset, depth);
        if (is_in_oneof) memcpy(message + field->quantifier_offset, &field->id, sizeof(uint32_t));
    }
    if (!is_usual && random_below(&random_state, 16) == 0) add_unknown((ProtobufCMessage *)message);
    return (ProtobufCMessage *)message;
}

/* Damages a message: truncates it, changes a byte, lengthens a number's encoding, or repeats a part. Returns the new
 * size. The buffer must hold twice `size` plus SPOILT_MORE bytes. */
static size_t spoil(uint8_t *bytes, size_t size) {
    size_t at = (size_t)random_below(&random_state, size), piece = (size_t)random_below(&random_state, size - at) + 1;
    const size_t longer = (size_t)random_below(&random_state, SPOILT_MORE) + 1;
    switch (random_below(&random_state, 5)) {
    case 0:
        return at;
    case 1:
        bytes[at] ^= (uint8_t)(1u << random_below(&random_state, 8));
        return size;
    case 2:
        bytes[at] = (uint8_t)random_u64(&random_state);
        return size;
    case 3:
        memmove(bytes + at + longer, bytes + at, size - at);
        bytes[at] = bytes[at + longer] | 0x80;
        memset(bytes + at + 1, 0x80, longer);
        bytes[at + longer] = 0;
        return size + longer;
    default:
        memmove(bytes + at + piece, bytes + at, size - at);
        return size + piece;
    }
}

static void one_message(const struct wire_kind *kind) {
    is_usual = random_below(&random_state, 3) != 0;
    is_full = random_below(&random_state, 16) == 0;
    const ProtobufCMessage *message = random_message(kind->descriptor, 0);
    if (kind->is_packed) wire_same_packed(kind, message);
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = room(size + 1), *spoilt = room(2 * size + SPOILT_MORE);
    protobuf_c_message_pack(message, bytes);
    wire_same_unpacked(kind, bytes, size);
    for (int i = 0; i < VARIANTS && size > 0; i++) {
        memcpy(spoilt, bytes, size);
        wire_same_unpacked(kind, spoilt, spoil(spoilt, size));
    }
    arena_reset(&arena);
}

static void the_generated_codec_does_what_protobuf_c_does(void **state) {
    (void)state;
    random_state.state = random_seed(1);
    arena_init(&arena, 64u << 20);
    for (int i = 0; i < MESSAGES; i++)
        for (unsigned kind = 0; kind < WIRE_KINDS; kind++) one_message(&wire_kinds[kind]);
    arena_deinit(&arena);
}

/* Each allocation of the unpacking fails in turn. */
static void without_memory_there_is_no_message(void **state) {
    (void)state;
    random_state.state = random_seed(2);
    arena_init(&arena, 64u << 20);
    is_usual = true;
    is_full = false;
    for (unsigned i = 0; i < WIRE_KINDS * MESSAGES / 100; i++) {
        const struct wire_kind *kind = &wire_kinds[i % WIRE_KINDS];
        if (!kind->is_unpacked) continue;
        const ProtobufCMessage *message = random_message(kind->descriptor, 0);
        size_t size = protobuf_c_message_get_packed_size(message), memory = 0;
        uint8_t *bytes = room(size + 1);
        protobuf_c_message_pack(message, bytes);
        while (!wire_fits(kind, bytes, size, memory)) memory += ARENA_ALIGN;
        assert_true(memory >= kind->descriptor->sizeof_message);
        arena_reset(&arena);
    }
    arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generated_codec_does_what_protobuf_c_does),
        cmocka_unit_test(without_memory_there_is_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
