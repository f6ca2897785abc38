/* wire_generate.c: a build-time program. Reads protobuf-c's descriptors and prints wire_codec.c: packers and unpackers
 * without reflection for the messages that come with every task (wire.h declares them).
 *
 * A packer writes backward, because the length of a message stands before the message. When the packer writes the
 * length, the message is already written. So the packer need not measure the message first. protobuf-c packs a message
 * that has unknown fields, or a case of its oneof that is not listed below.
 *
 * An unpacker reads fields in rising order, each at most once, as every packer writes them. It passes any other bytes
 * to protobuf-c, which is slower and accepts more. Both yield the same message: tests/fuzz/fuzz_wire.c and
 * tests/property/wire_test.c compare them.
 *
 * A field that is added to a listed message in tarry.proto needs no change in this file. A field of a type that has no
 * case in `print_take` and `print_before` fails the build. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tarry.pb-c.h"

/* A message to generate code for. The messages that its fields contain must be listed before it. */
struct listed {
    const ProtobufCMessageDescriptor *type;
    const char *fields; /* names of the fields that are read and written without reflection; NULL: all */
    const char *one_of; /* name of the message's oneof; NULL: it has none */
    enum { INNER = 0, PACKED = 1, UNPACKED = 2 } public; /* flags: which functions wire.h declares for the message */
};

#define MESSAGE(name) &tarry__##name##__descriptor
static const struct listed all_listed[] = {
    {MESSAGE(token)},
    /* A client's request. */
    {MESSAGE(when)},
    {MESSAGE(ref)},
    {MESSAGE(attribute)},
    {MESSAGE(content), .public = UNPACKED},
    {MESSAGE(schedule)},
    {MESSAGE(cancel)},
    {MESSAGE(move)},
    {MESSAGE(ack)},
    {MESSAGE(nack)},
    {MESSAGE(extend)},
    {MESSAGE(release)},
    {MESSAGE(op), "schedule cancel move ack nack extend release", "op", PACKED},
    {MESSAGE(commit)},
    {MESSAGE(request), "version client cluster proof at_least staleness_ms wait_ms commit", "body", PACKED | UNPACKED},
    /* The log. */
    {MESSAGE(task)},
    {MESSAGE(task_put)},
    {MESSAGE(task_end)},
    {MESSAGE(record), "put end", "fact"},
    {MESSAGE(frame_body), .public = PACKED | UNPACKED},
    /* Messages that a client receives. */
    {MESSAGE(op_result)},
    {MESSAGE(commit_reply), .public = PACKED},
    {MESSAGE(reply), "position commit", "body", UNPACKED},
    {MESSAGE(delivered_task)},
    {MESSAGE(delivery), .public = PACKED | UNPACKED},
};
#define LISTED_COUNT (sizeof(all_listed) / sizeof(all_listed[0]))

static void die(const char *message, const char *field, const char *why) {
    fprintf(stderr, "wire_generate: %s.%s: %s\n", message, field, why);
    exit(1);
}

/* ---- names */

static const struct listed *listed_of(const ProtobufCMessageDescriptor *type) {
    for (size_t i = 0; i < LISTED_COUNT; i++)
        if (all_listed[i].type == type) return &all_listed[i];
    return NULL;
}

/* Converts "FrameBody" to "frame_body". */
static const char *snake(const ProtobufCMessageDescriptor *type) {
    static char names[LISTED_COUNT][64];
    char *name = names[listed_of(type) - all_listed], *at = name;
    for (const char *from = type->short_name; *from != '\0' && at < name + 62; from++) {
        if (isupper((unsigned char)*from) && from != type->short_name) *at++ = '_';
        *at++ = (char)tolower((unsigned char)*from);
    }
    *at = '\0';
    return name;
}

/* Prints the name of the macro that protoc-c defines for an empty message. */
static void print_init(const ProtobufCMessageDescriptor *type) {
    printf("(%s)TARRY__", type->c_name);
    for (const char *at = snake(type); *at != '\0'; at++) putchar(toupper((unsigned char)*at));
    printf("__INIT");
}

/* ---- which fields */

static bool is_listed(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    if (message->fields == NULL) return true;
    const size_t size = strlen(field->name);
    for (const char *at = message->fields; (at = strstr(at, field->name)) != NULL; at += size) {
        bool begins = at == message->fields || at[-1] == ' ';
        if (begins && (at[size] == ' ' || at[size] == '\0')) return true;
    }
    return false;
}

static bool is_case(const ProtobufCFieldDescriptor *field) {
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static bool is_message(const ProtobufCFieldDescriptor *field) {
    return field->type == PROTOBUF_C_TYPE_MESSAGE;
}

static bool is_repeated(const ProtobufCFieldDescriptor *field) {
    return field->label == PROTOBUF_C_LABEL_REPEATED;
}

/* Calls `print` for each listed field, by rising or by falling field number. (Descriptors keep fields by rising
 * number.) */
typedef void (*print_field)(const struct listed *message, const ProtobufCFieldDescriptor *field);
static void each_field(const struct listed *message, bool is_rising, print_field print) {
    const unsigned count = message->type->n_fields;
    for (unsigned i = 0; i < count; i++) {
        const ProtobufCFieldDescriptor *field = &message->type->fields[is_rising ? i : count - 1 - i];
        if (is_listed(message, field)) print(message, field);
    }
}

/* A field that is not listed would not be packed. (Other cases of a oneof are packed by protobuf-c.) */
static void check_that_all_are_packed(const struct listed *message) {
    for (unsigned i = 0; i < message->type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->type->fields[i];
        if (!is_case(field) && !is_listed(message, field))
            die(message->type->name, field->name, "a packed message must list it");
    }
}

/* True: several cases of the oneof are listed. Then no other field is listed, and the first byte selects the case. */
static bool is_choice(const struct listed *message) {
    unsigned cases = 0;
    for (unsigned i = 0; i < message->type->n_fields; i++)
        if (is_case(&message->type->fields[i]) && is_listed(message, &message->type->fields[i])) cases++;
    return cases > 1;
}

static void check_field(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    const char *name = message->type->name;
    if (field->id >= 2048) die(name, field->name, "its number needs a tag of three bytes");
    if (is_message(field) && (listed_of(field->descriptor) == NULL || listed_of(field->descriptor) > message))
        die(name, field->name, "its message must be listed before");
    if (is_repeated(field) && !is_message(field)) die(name, field->name, "a repeated field that is no message");
    if (is_case(field) && (message->one_of == NULL || !is_message(field)))
        die(name, field->name, "a oneof needs its name here, and holds messages alone");
    if (is_choice(message) && (!is_case(field) || field->id >= 16))
        die(name, field->name, "beside several cases of a oneof, or a case of a number above 15");
}

/* ---- packers */

static void print_room(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    (void)message;
    const char *name = field->name;
    if (is_repeated(field)) {
        printf("    for (size_t i = 0; i < m->n_%s; i++) room += BYTES_ROOM + %s_room(m->%s[i]);\n", name,
               snake(field->descriptor), name);
        return;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_ENUM:
        printf("    room += NUMBER_ROOM;\n");
        break;
    case PROTOBUF_C_TYPE_UINT32:
        printf("    room += NUMBER32_ROOM;\n");
        break;
    case PROTOBUF_C_TYPE_BOOL:
        printf("    room += BOOL_ROOM;\n");
        break;
    case PROTOBUF_C_TYPE_FIXED64:
        printf("    room += FIXED64_ROOM;\n");
        break;
    case PROTOBUF_C_TYPE_BYTES:
        printf("    room += BYTES_ROOM + m->%s.len;\n", name);
        break;
    case PROTOBUF_C_TYPE_STRING:
        printf("    room += BYTES_ROOM + text_size(m->%s);\n", name);
        break;
    default: /* only messages remain here: print_before has refused all other types */
        printf("    room += m->%s != NULL ? BYTES_ROOM + %s_room(m->%s) : 0;\n", name, snake(field->descriptor), name);
    }
}

static void print_before(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    const char *name = field->name;
    const unsigned id = field->id;
    if (is_repeated(field)) {
        printf("    for (size_t i = m->n_%s; i-- > 0;) at = message_before(%s_before(at, m->%s[i]), %u, at);\n", name,
               snake(field->descriptor), name, id);
        return;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_UINT32:
        printf("    at = number_before(at, %u, m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        printf("    at = enum_before(at, %u, (int)m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        printf("    at = bool_before(at, %u, m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_FIXED64:
        printf("    at = fixed64_before(at, %u, m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        printf("    at = bytes_before(at, %u, m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_STRING:
        printf("    at = text_before(at, %u, m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        printf("    if (m->%s != NULL) at = message_before(%s_before(at, m->%s), %u, at);\n", name,
               snake(field->descriptor), name, id);
        break;
    default:
        die(message->type->name, name, "a type that has no packer yet");
    }
}

/* Prints a line for each case of a oneof. Other cases are left to protobuf-c. */
static void print_case_room(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    (void)message;
    printf("    case %u:\n        return BYTES_ROOM + %s_room(m->%s);\n", field->id, snake(field->descriptor),
           field->name);
}

static void print_case_before(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    (void)message;
    printf("    case %u:\n        return message_before(%s_before(at, m->%s), %u, at);\n", field->id,
           snake(field->descriptor), field->name, field->id);
}

/* Prints the condition that a oneof has another case than the only one that is listed. */
static void print_is_other_case(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    if (is_case(field)) printf(" || m->%s_case != %u", message->one_of, field->id);
}

/* Prints the condition for packing the message without reflection. The packer omits a oneof whose selected case is
 * NULL, as protobuf-c does. */
static void print_is_plain(const struct listed *message) {
    if (!is_choice(message)) {
        printf("    if (m->base.n_unknown_fields != 0");
        if (message->one_of != NULL) each_field(message, true, print_is_other_case);
        printf(")");
        return;
    }
    printf("    const ProtobufCMessage *body = (const ProtobufCMessage *)m->%s;\n", message->type->fields[0].name);
    printf("    if (m->base.n_unknown_fields != 0 || body == NULL)");
}

static void print_packer(const struct listed *message) {
    const char *name = snake(message->type), *type = message->type->c_name;
    const char *linkage = (message->public & PACKED) != 0 ? "" : "static ";
    printf("\n%ssize_t %s_room(const %s *m) {\n", linkage, name, type);
    print_is_plain(message);
    printf(" return protobuf_c_message_get_packed_size(&m->base);\n");
    if (is_choice(message)) {
        printf("    switch ((unsigned)m->%s_case) {\n", message->one_of);
        each_field(message, true, print_case_room);
        printf("    default:\n        return protobuf_c_message_get_packed_size(&m->base);\n    }\n}\n");
    } else {
        printf("    size_t room = 0;\n");
        each_field(message, true, print_room);
        printf("    return room;\n}\n");
    }
    printf("\nstatic uint8_t *%s_before(uint8_t *at, const %s *m) {\n", name, type);
    print_is_plain(message);
    printf(" return any_before(at, &m->base);\n");
    if (is_choice(message)) {
        printf("    switch ((unsigned)m->%s_case) {\n", message->one_of);
        each_field(message, false, print_case_before);
        printf("    default:\n        return any_before(at, &m->base);\n    }\n}\n");
    } else {
        each_field(message, false, print_before);
        printf("    return at;\n}\n");
    }
    if ((message->public & PACKED) != 0)
        printf("\nuint8_t *%s_pack(const %s *m, uint8_t *end) {\n    return %s_before(end, m);\n}\n", name, type, name);
}

/* ---- unpackers */

/* Prints a message together with the messages of its fields, allocated in one piece. */
static void print_part(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    (void)message;
    if (is_message(field) && !is_repeated(field))
        printf("    struct %s_parts %s;\n", snake(field->descriptor), field->name);
}

static void print_take(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    const char *name = field->name;
    const unsigned id = field->id;
    if (is_repeated(field)) { /* for a repeated field, this pass only counts elements; a second pass reads them, if the
                                 first found the whole message in our packers' form */
        printf("    struct wire_reader %s = reader;\n", name);
        printf("    while (take_bytes(&reader, %u).data != NULL) m->n_%s++;\n", id, name);
        return;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
        printf("    take_number(&reader, %u, &m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        printf("    take_number32(&reader, %u, &m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        printf("    m->%s = take_enum(&reader, %u);\n", name, id);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        printf("    take_bool(&reader, %u, &m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_FIXED64:
        printf("    take_fixed64(&reader, %u, &m->%s);\n", id, name);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        printf("    m->%s = take_bytes(&reader, %u);\n", name, id);
        break;
    case PROTOBUF_C_TYPE_STRING:
        printf("    ProtobufCBinaryData %s = take_bytes(&reader, %u);\n", name, id);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        printf("    if (take_tag(&reader, %u, WIRE_BYTES)) {\n", id);
        printf("        if (!%s_read(copies, take_sized(&reader), &parts->%s)) return false;\n",
               snake(field->descriptor), name);
        if (is_case(field)) printf("        m->%s_case = %u;\n", message->one_of, id);
        printf("        m->%s = &parts->%s.message;\n    }\n", name, name);
        break;
    default:
        die(message->type->name, name, "a type that has no unpacker yet");
    }
}

static void print_keep(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    (void)message;
    const char *name = field->name;
    if (field->type == PROTOBUF_C_TYPE_BYTES) printf("    keep_bytes(copies, &m->%s);\n", name);
    if (field->type == PROTOBUF_C_TYPE_STRING) printf("    keep_text(copies, %s, &m->%s);\n", name, name);
    if (!is_repeated(field)) return;
    printf("    if (m->n_%s > 0) m->%s = keep_list(copies, m->n_%s);\n", name, name, name);
    printf("    for (size_t i = 0; i < m->n_%s && !copies->refused; i++)\n", name);
    printf("        m->%s[i] = %s_copy(copies, take_bytes(&%s, %u));\n", name, snake(field->descriptor), name,
           field->id);
}

static void print_case(const struct listed *message, const ProtobufCFieldDescriptor *field) {
    const char *name = field->name;
    printf("    case %uu << 3 | WIRE_BYTES: {\n", field->id);
    printf("        struct {\n            %s message;\n            struct %s_parts body;\n", message->type->c_name,
           snake(field->descriptor));
    printf("        } *parts = arena_alloc(copies->arena, sizeof(*parts));\n");
    printf("        if (parts == NULL || !%s_read(copies, inner, &parts->body)) return NULL;\n",
           snake(field->descriptor));
    printf("        parts->message = ");
    print_init(message->type);
    printf(";\n        parts->message.%s_case = %u;\n", message->one_of, field->id);
    printf("        parts->message.%s = &parts->body.message;\n        return &parts->message;\n    }\n", name);
}

static void print_choice(const struct listed *message) {
    printf("\nstatic %s *%s_plain(struct copies *copies, ProtobufCBinaryData bytes) {\n", message->type->c_name,
           snake(message->type));
    printf("    if (bytes.len == 0) return NULL;\n");
    printf("    struct wire_reader reader = reader_of(bytes);\n    const unsigned tag = *reader.at++;\n");
    printf("    const ProtobufCBinaryData inner = take_sized(&reader);\n");
    printf("    if (!reader_done(&reader)) return NULL;\n    switch (tag) {\n");
    each_field(message, true, print_case);
    printf("    default:\n        return NULL;\n    }\n}\n");
}

static void print_reader(const struct listed *message) {
    const char *name = snake(message->type), *type = message->type->c_name;
    printf("\nstruct %s_parts {\n    %s message;\n", name, type);
    each_field(message, true, print_part);
    printf("};\n\n/* False: not as a packer writes it. */\n");
    printf("static bool %s_read(struct copies *copies, ProtobufCBinaryData bytes, struct %s_parts *parts) {\n", name,
           name);
    printf("    struct wire_reader reader = reader_of(bytes);\n    %s *m = &parts->message;\n    *m = ", type);
    print_init(message->type);
    printf(";\n");
    each_field(message, true, print_take);
    printf("    if (!reader_done(&reader)) return false;\n");
    each_field(message, true, print_keep);
    printf("    (void)copies;\n    return true;\n}\n");
}

/* Prints the function that copies one message: an item of a repeated field, or a message that wire.h has a function
 * for. */
static void print_copy(const struct listed *message) {
    const char *name = snake(message->type), *type = message->type->c_name;
    if (is_choice(message)) {
        print_choice(message);
    } else {
        printf("\nstatic %s *%s_plain(struct copies *copies, ProtobufCBinaryData bytes) {\n", type, name);
        printf("    struct %s_parts *parts = arena_alloc(copies->arena, sizeof(*parts));\n", name);
        printf("    return parts != NULL && %s_read(copies, bytes, parts) ? &parts->message : NULL;\n}\n", name);
    }
    printf("\nstatic %s *%s_copy(struct copies *copies, ProtobufCBinaryData bytes) {\n", type, name);
    printf("    struct arena_mark mark = arena_mark(copies->arena);\n");
    printf("    %s *m = %s_plain(copies, bytes);\n", type, name);
    printf("    if (m != NULL || copies->refused) return m;\n    arena_rewind(copies->arena, mark);\n");
    printf("    return any_copy(copies, &tarry__%s__descriptor, bytes);\n}\n", name);
    if ((message->public & UNPACKED) == 0) return;
    printf("\n%s *%s_unpack(struct arena *arena, size_t size, const uint8_t *data) {\n", type, name);
    printf("    struct copies copies = {.arena = arena};\n");
    printf("    %s *m = size == 0 ? any_copy(&copies, &tarry__%s__descriptor, (ProtobufCBinaryData){0})\n", type, name);
    printf("                      : %s_copy(&copies, (ProtobufCBinaryData){size, (uint8_t *)data});\n", name);
    printf("    return copies.refused ? NULL : m;\n}\n");
}

/* True: wire.h has a function (packing or unpacking) for this message or for one that contains it. */
static bool is_needed(const struct listed *message, unsigned public, bool only_as_item) {
    if ((message->public & public) != 0) return true;
    for (const struct listed *outer = message + 1; outer < all_listed + LISTED_COUNT; outer++)
        for (unsigned i = 0; i < outer->type->n_fields; i++) {
            const ProtobufCFieldDescriptor *field = &outer->type->fields[i];
            if (field->descriptor != message->type || !is_message(field) || !is_listed(outer, field)) continue;
            if (is_needed(outer, public, false) && (is_repeated(field) || !only_as_item)) return true;
        }
    return false;
}

int main(void) {
    printf("/* wire_codec.c: made of tarry.proto by wire_generate.c. */\n#include \"wire.h\"\n\n#include "
           "\"wire_field.h\"\n");
    for (const struct listed *message = all_listed; message < all_listed + LISTED_COUNT; message++) {
        each_field(message, true, check_field);
        if ((message->public & PACKED) != 0) check_that_all_are_packed(message);
        if (is_needed(message, PACKED, false)) print_packer(message);
        if (!is_needed(message, UNPACKED, false)) continue;
        if (!is_choice(message)) print_reader(message);
        if (is_needed(message, UNPACKED, true)) print_copy(message);
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
