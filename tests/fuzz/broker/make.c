/* make.c: see make.h. Decides which fields a message gets, how often, and how they are encoded. */
#include "make.h"

#include <stdlib.h>
#include <string.h>

#include "tarry.pb-c.h"

#define REQUEST_SIZE_MAX_HERE (3u << 20) /* limit of the size, in bytes, for repeated fields */
#define UNKNOWN_DEPTH_MAX 60

enum wire_type { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_FIXED32 };

static enum wire_type wire_type_of(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    default:
        return WIRE_VARINT;
    }
}

static void put_tag(struct maker *maker, uint32_t id, enum wire_type type, struct out *out) {
    out_varint(out, (uint64_t)id << 3 | type, maker->wild && make_chance(maker, 200) ? 3 : 0);
}

/* ---- fields that are not in the schema */

static void make_unknown(struct maker *maker, unsigned depth, struct out *out) {
    static const uint32_t ids[] = {0, 9, 24, 99, 1000, 19000, 65535, (1u << 29) - 1};
    uint32_t id = ids[random_below(maker->random, sizeof(ids) / sizeof(ids[0]))];
    enum wire_type type = (enum wire_type)random_below(maker->random, 8);
    put_tag(maker, id, type, out);
    if (type == WIRE_VARINT) out_varint(out, random_u64(maker->random), (unsigned)random_below(maker->random, 10));
    if (type == WIRE_FIXED64) out_number(out, random_u64(maker->random), 8);
    if (type == WIRE_FIXED32) out_number(out, random_u64(maker->random), 4);
    if (type != WIRE_BYTES) return;
    size_t start = out->size;
    while (depth < UNKNOWN_DEPTH_MAX && !make_chance(maker, 3)) make_unknown(maker, depth + 1, out);
    int64_t lie = 0;
    if (make_chance(maker, 30)) lie = (int64_t)random_magnitude(maker->random, 40) - 2;
    out_delimit(out, start, lie);
}

/* Writes a field with a value of the wrong type. */
static void make_mistyped(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out) {
    enum wire_type type = (enum wire_type)random_below(maker->random, 8);
    put_tag(maker, field->id, type, out);
    out_number(out, random_u64(maker->random), (unsigned)random_below(maker->random, 9));
}

/* ---- values */

static void make_delimited(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out) {
    size_t start = out->size;
    const void *place;
    bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    if (!is_message) {
        make_text(maker, field, out);
    } else if (maker->fact != NULL && !make_chance(maker, 8) && know_value(maker->fact, field, &place)) {
        const ProtobufCMessage *message = *(ProtobufCMessage *const *)place;
        uint8_t packed[256];
        size_t size = protobuf_c_message_get_packed_size(message);
        if (size <= sizeof(packed)) out_bytes(out, packed, protobuf_c_message_pack(message, packed));
    } else {
        make_message(maker, field->descriptor, out);
    }
    int64_t lie = 0;
    if (maker->wild && make_chance(maker, 150)) lie = (int64_t)random_magnitude(maker->random, 34) - 4;
    out_delimit(out, start, lie);
}

void make_value(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out) {
    if (maker->wild && make_chance(maker, 80)) {
        make_mistyped(maker, field, out);
        return;
    }
    enum wire_type type = wire_type_of(field);
    put_tag(maker, field->id, type, out);
    if (type == WIRE_VARINT)
        out_varint(out, make_number(maker, field), maker->wild && make_chance(maker, 60) ? 9 : 0);
    else if (type == WIRE_BYTES)
        make_delimited(maker, field, out);
    else
        out_number(out, make_number(maker, field), type == WIRE_FIXED64 ? 8 : 4);
}

/* Writes packed numbers: one tag, then the numbers. */
static void make_packed(struct maker *maker, const ProtobufCFieldDescriptor *field, size_t count, struct out *out) {
    put_tag(maker, field->id, WIRE_BYTES, out);
    size_t start = out->size;
    for (size_t i = 0; i < count; i++) out_varint(out, make_number(maker, field), 0);
    out_delimit(out, start, 0);
}

/* ---- messages */

static size_t how_often(struct maker *maker, const ProtobufCFieldDescriptor *field) {
    if (maker->blow_max > 0 && maker->blow-- == 0) {
        size_t count = maker->blow_max;
        maker->blow_max = 0;
        return count;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        if (make_chance(maker, 12)) return random_below(maker->random, 40);
        return make_chance(maker, 40) ? 0 : 1 + random_magnitude(maker->random, 2);
    }
    if (maker->wild && make_chance(maker, 40)) return 2;
    /* The broker refuses a message without a required field at once. Most messages should not be refused, so fields
     * that are usually required are rarely omitted: the first field, and nested messages. */
    if (field->id == 1 || field->type == PROTOBUF_C_TYPE_MESSAGE) return !make_chance(maker, 30);
    return !make_chance(maker, 3);
}

static void make_field(struct maker *maker, const ProtobufCFieldDescriptor *field, size_t count, struct out *out) {
    bool may_pack = field->label == PROTOBUF_C_LABEL_REPEATED && wire_type_of(field) == WIRE_VARINT;
    if (may_pack && !make_chance(maker, 4)) {
        make_packed(maker, field, count, out);
        return;
    }
    size_t first = out->size;
    for (size_t i = 0; i < count && out->size < REQUEST_SIZE_MAX_HERE; i++) {
        size_t start = out->size;
        make_value(maker, field, out);
        /* If a field has many copies, repeat its value instead of making new ones. */
        if (i == 20 && count > 100) {
            struct out one = {0};
            out_bytes(&one, out->data + start, out->size - start);
            for (; i < count && out->size - first < REQUEST_SIZE_MAX_HERE; i++) out_bytes(out, one.data, one.size);
            out_deinit(&one);
        }
    }
}

static bool is_of_oneof(const ProtobufCFieldDescriptor *field) {
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* Returns the relative frequency of a oneof's member. Requests that change much state have a high frequency. */
static unsigned weight_of(const ProtobufCFieldDescriptor *field) {
    if (strcmp(field->name, "commit") == 0) return 12;
    if (strcmp(field->name, "schedule") == 0) return 8;
    if (strcmp(field->name, "ack") == 0 || strcmp(field->name, "nack") == 0) return 3;
    if (strcmp(field->name, "subscribe") == 0 || strcmp(field->name, "get") == 0) return 2;
    return 1;
}

static const ProtobufCFieldDescriptor *choose_member(struct maker *maker, const ProtobufCMessageDescriptor *descriptor,
                                                     unsigned quantifier) {
    unsigned sum = 0;
    const ProtobufCFieldDescriptor *chosen = NULL;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (!is_of_oneof(field) || field->quantifier_offset != quantifier) continue;
        sum += weight_of(field);
        if (random_below(maker->random, sum) < weight_of(field)) chosen = field;
    }
    return chosen;
}

static void make_oneof(struct maker *maker, const ProtobufCMessageDescriptor *descriptor, unsigned quantifier,
                       struct out *out) {
    size_t count = make_chance(maker, 100) ? 0 : 1;
    if (make_chance(maker, 60)) count = 2 + random_below(maker->random, 3);
    while (count-- > 0) {
        const ProtobufCFieldDescriptor *field = choose_member(maker, descriptor, quantifier);
        if (field != NULL) make_value(maker, field, out);
    }
}

/* Writes the head of a commit. ONCE-1: a commit is executed only with the stranger's own producer and a new sequence.
 */
static void make_commit_head(struct maker *maker, struct out *out) {
    uint64_t sequence = 0, producer = know_producer(maker->know, &sequence);
    if (producer == 0) producer = FAR + random_below(maker->random, 4), sequence = 1;
    if (maker->edgy) sequence = make_edge(maker);
    uint64_t oldest = sequence > 16 ? sequence - random_below(maker->random, 16) : 1;
    const uint64_t numbers[] = {producer, sequence, oldest};
    for (uint32_t i = 0; i < 3; i++) {
        put_tag(maker, i + 1, WIRE_VARINT, out);
        out_varint(out, numbers[i], 0);
    }
}

void make_message(struct maker *maker, const ProtobufCMessageDescriptor *descriptor, struct out *out) {
    const ProtobufCMessage *outer = maker->fact;
    ProtobufCMessage *fact = make_chance(maker, 3) ? NULL : know_fact(maker->know, descriptor);
    maker->fact = fact;
    uint32_t head = 0;
    if (descriptor == &tarry__commit__descriptor && !make_chance(maker, 20)) {
        make_commit_head(maker, out);
        head = 3;
    }
    unsigned quantifier = UINT32_MAX; /* `quantifier_offset` of the last oneof that was made; the fields of a oneof
                                         follow one another in a descriptor */
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (field->id <= head) continue;
        if (is_of_oneof(field)) {
            if (field->quantifier_offset != quantifier) make_oneof(maker, descriptor, field->quantifier_offset, out);
            quantifier = field->quantifier_offset;
            continue;
        }
        size_t count = how_often(maker, field);
        if (count > 0) make_field(maker, field, count, out);
    }
    if (make_chance(maker, maker->wild ? 8 : 120)) make_unknown(maker, 0, out);
    if (fact != NULL) protobuf_c_message_free_unpacked(fact, NULL);
    maker->fact = outer;
}

void make_request(struct maker *maker, struct out *out) {
    maker->wild = make_chance(maker, 6);
    maker->edgy = make_chance(maker, 12);
    maker->blow_max = make_chance(maker, 600) ? random_magnitude(maker->random, 17) : 0;
    maker->blow = (unsigned)random_below(maker->random, 20);
    maker->fact = NULL;
    size_t start = out->size;
    make_message(maker, &tarry__request__descriptor, out);
    if (!make_chance(maker, 20)) return;
    struct out damaged = {0};
    out_bytes(&damaged, out->data + start, out->size - start);
    make_damage(maker->random, &damaged);
    out->size = start;
    out_bytes(out, damaged.data, damaged.size);
    out_deinit(&damaged);
}

void make_damage(struct random *random, struct out *out) {
    for (size_t i = random_below(random, 4) + 1; i > 0 && out->size > 0; i--) {
        size_t at = random_below(random, out->size), size = random_below(random, 24) + 1;
        if (size > out->size - at) size = out->size - at;
        struct out piece = {0};
        switch (random_below(random, 6)) {
        case 0:
            out->data[at] ^= (uint8_t)(1u << random_below(random, 8));
            break;
        case 1:
            out->data[at] = (uint8_t)random_u64(random);
            break;
        case 2:
            out->size = at;
            break;
        case 3: /* repeats a piece of the bytes at the end */
            out_bytes(&piece, out->data + at, size);
            out_bytes(out, piece.data, piece.size);
            break;
        case 4: /* removes a piece of the bytes */
            memmove(out->data + at, out->data + at + size, out->size - at - size);
            out->size -= size;
            break;
        default: /* overwrites the beginning with a piece of the bytes */
            memmove(out->data, out->data + at, size);
        }
        out_deinit(&piece);
    }
}
