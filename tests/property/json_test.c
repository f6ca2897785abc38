/* json_test.c: writes random messages of every kind in tarry.proto as JSON and reads them back. The bytes of both
 * messages must be equal. So neither the writer nor the reader forgets a field, whatever formats.def says. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "json_map.h"
#include "json_valid.h"

#define ROUNDS 60u
#define DEPTH_MAX 4u
#define ARENA_MAX (16u << 20)

struct making {
    struct random random;
    struct arena arena;
};

static ProtobufCMessage *make(struct making *making, const struct json_map *map, unsigned depth);

static void *alloc(struct making *making, size_t size) {
    void *made = arena_alloc(&making->arena, size > 0 ? size : 1);
    assert_non_null(made);
    return memset(made, 0, size > 0 ? size : 1);
}

static bool chance(struct making *making) {
    return random_below(&making->random, 2) == 0;
}

/* Makes UTF-8 of one to six characters: plain, escaped and large ones. */
static size_t utf8(struct making *making, char *out, bool with_zero) {
    static const char *const parts[] = {"a",    "Z",        "\"",       "\\",           "\n",
                                        "\x7f", "\xc2\x9b", "\xc3\xa4", "\xe2\x80\xa8", "\xf0\x9f\x98\x80",
                                        "/",    " "};
    size_t count = 1 + random_below(&making->random, 6), size = 0;
    for (size_t i = 0; i < count; i++) {
        const char *part = parts[random_below(&making->random, sizeof parts / sizeof parts[0])];
        memcpy(out + size, part, strlen(part));
        size += strlen(part);
        if (with_zero && random_below(&making->random, 8) == 0) out[size++] = '\0';
    }
    out[size] = '\0';
    return size;
}

static ProtobufCBinaryData text_bytes(struct making *making) {
    char text[64];
    ProtobufCBinaryData made = {.len = utf8(making, text, true)};
    made.data = alloc(making, made.len);
    memcpy(made.data, text, made.len);
    return made;
}

static ProtobufCBinaryData any_bytes(struct making *making) {
    ProtobufCBinaryData made = {.len = random_below(&making->random, 12)};
    made.data = alloc(making, made.len);
    for (size_t i = 0; i < made.len; i++) made.data[i] = (uint8_t)random_u64(&making->random);
    return made;
}

static char *text(struct making *making) {
    char *made = alloc(making, 64);
    utf8(making, made, false);
    return made;
}

/* Makes a payload that is text or not, with attributes other than a JSON content type. */
static ProtobufCBinaryData content(struct making *making) {
    Tarry__Content content = TARRY__CONTENT__INIT;
    Tarry__Attribute *listed[2];
    char name[16];
    content.attributes = listed;
    for (size_t i = 0; i < 2 && chance(making); i++) {
        listed[i] = alloc(making, sizeof *listed[i]);
        tarry__attribute__init(listed[i]);
        snprintf(name, sizeof name, "name-%zu", i);
        listed[i]->name = strcpy(alloc(making, sizeof name), name);
        listed[i]->value = text(making);
        content.n_attributes++;
    }
    if (chance(making)) content.properties = any_bytes(making);
    if (chance(making)) content.payload = chance(making) ? text_bytes(making) : any_bytes(making);
    ProtobufCBinaryData packed = {.len = tarry__content__get_packed_size(&content)};
    packed.data = alloc(making, packed.len);
    tarry__content__pack(&content, packed.data);
    return packed;
}

static uint64_t number(struct making *making, const struct json_field *field) {
    if (field->form == JSON_ID) return 1 + random_magnitude(&making->random, 63);
    if (field->form == JSON_STATES) return random_below(&making->random, 16);
    if (field->form == JSON_PLAIN && field->most == INT64_MAX) return random_magnitude(&making->random, 64);
    uint64_t made = random_magnitude(&making->random, 63);
    return made <= field->most ? made : made % (field->most + 1);
}

static void make_value(struct making *making, const struct json_field *field, void *at, unsigned depth) {
    switch (field->of->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)at = make(making, field->map, depth + 1);
        break;
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = text(making);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)at = field->form == JSON_CONTENT ? content(making)
                                     : field->form == JSON_TEXT  ? text_bytes(making)
                                                                 : any_bytes(making);
        break;
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumDescriptor *of = field->of->descriptor;
        *(int *)at = of->values[random_below(&making->random, of->n_values)].value;
        break;
    }
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = chance(making);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = (double)random_below(&making->random, 1000000) / 4;
        break;
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)at = random_u64(&making->random);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        *(uint64_t *)at = number(making, field);
        break;
    default:
        *(uint32_t *)at = (uint32_t)number(making, field);
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *of) {
    switch (of->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void make_array(struct making *making, const struct json_field *field, ProtobufCMessage *message,
                       unsigned depth) {
    size_t count = random_below(&making->random, 4), size = size_of(field->of);
    char *items = alloc(making, count * size);
    for (size_t i = 0; i < count; i++) make_value(making, field, items + i * size, depth);
    *(void **)((char *)message + field->of->offset) = items;
    *(size_t *)((char *)message + field->of->quantifier_offset) = count;
}

static void make_field(struct making *making, const struct json_field *field, ProtobufCMessage *message,
                       unsigned depth) {
    const ProtobufCFieldDescriptor *of = field->of;
    uint32_t *which = (uint32_t *)((char *)message + of->quantifier_offset);
    const bool is_oneof = (of->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    const bool is_deep = depth >= DEPTH_MAX && of->type == PROTOBUF_C_TYPE_MESSAGE && !field->is_required;
    if (field->form == JSON_HIDDEN || is_deep || (!field->is_required && chance(making))) return;
    if (is_oneof && *which != 0) return;
    if (of->label == PROTOBUF_C_LABEL_REPEATED) {
        make_array(making, field, message, depth);
        return;
    }
    if (is_oneof) *which = of->id;
    make_value(making, field, (char *)message + of->offset, depth);
    if (field->has != NULL) *(protobuf_c_boolean *)((char *)message + field->has->offset) = true;
}

/* Repairs values that JSON cannot express because they have no meaning. */
static void mend(struct making *making, ProtobufCMessage *message) {
    if (message->descriptor == &tarry__ref__descriptor) {
        Tarry__Ref *ref = (Tarry__Ref *)message;
        if (ref->id != 0) {
            ref->queue = "";
            ref->key = (ProtobufCBinaryData){0};
        } else {
            ref->queue = text(making);
            ref->key = text_bytes(making);
        }
    } else if (message->descriptor == &tarry__dead_op__descriptor) {
        Tarry__DeadOp *dead = (Tarry__DeadOp *)message;
        if (dead->all) {
            dead->task->id = 0;
            dead->task->queue = text(making);
            dead->task->key = (ProtobufCBinaryData){0};
        }
    } else if (message->descriptor == &tarry__queue_set__descriptor) {
        Tarry__QueueSet *set = (Tarry__QueueSet *)message;
        set->policy = (Tarry__Policy *)make(making, json_map_of(&tarry__policy__descriptor), DEPTH_MAX);
        set->fields = alloc(making, tarry__policy__descriptor.n_fields * sizeof(char *));
        for (unsigned i = 0; i < tarry__policy__descriptor.n_fields; i++)
            set->fields[set->n_fields++] = (char *)tarry__policy__descriptor.fields[i].name;
    } else if (message->descriptor == &tarry__task_view__descriptor) {
        Tarry__TaskView *view = (Tarry__TaskView *)message;
        if (view->ended_ms != 0) view->attempt = 0;
    } else if (message->descriptor == &tarry__when__descriptor) {
        ((Tarry__When *)message)->ms &= INT64_MAX; /* jansson reads only 63 bits */
    }
}

static ProtobufCMessage *make(struct making *making, const struct json_map *map, unsigned depth) {
    ProtobufCMessage *message = alloc(making, map->of->sizeof_message);
    map->of->message_init(message);
    for (size_t i = 0; i < map->count; i++) make_field(making, &map->fields[i], message, depth);
    mend(making, message);
    return message;
}

static void same(struct making *making, const ProtobufCMessage *a, const ProtobufCMessage *b, const char *json) {
    size_t size = protobuf_c_message_get_packed_size(a);
    uint8_t *a_bytes = alloc(making, size), *b_bytes = alloc(making, size);
    if (protobuf_c_message_get_packed_size(b) != size) fail_msg("%s: other bytes: %s", a->descriptor->name, json);
    protobuf_c_message_pack(a, a_bytes);
    protobuf_c_message_pack(b, b_bytes);
    if (memcmp(a_bytes, b_bytes, size) != 0) fail_msg("%s: other bytes: %s", a->descriptor->name, json);
}

/* Returns whether the message has no object of its own, but is a member of another one. */
static bool is_part(const struct json_map *map) {
    return map->of == &tarry__ref__descriptor || map->of == &tarry__when__descriptor;
}

static void a_message_comes_back(void **state) {
    struct making making = {.random = {random_seed(29)}};
    size_t kinds = 0;
    for (const struct json_map *map = json_map_next(NULL); map != NULL; map = json_map_next(map)) {
        kinds++;
        for (unsigned i = 0; i < ROUNDS && !is_part(map); i++) {
            arena_init(&making.arena, ARENA_MAX);
            ProtobufCMessage *message = make(&making, map, 0);
            struct json_in in = {.arena = &making.arena};
            struct text out = {0};
            json_message(&out, message);
            assert_false(out.failed);
            assert_true(json_is_valid(out.data, out.size));
            json_t *json = json_read(&in, out.data, out.size);
            if (json == NULL) fail_msg("%s: %s: %s", map->of->name, in.problem, text_str(&out));
            ProtobufCMessage *back = json_read_message(&in, map->of, json);
            if (back == NULL) fail_msg("%s: %s: %s", map->of->name, in.problem, text_str(&out));
            same(&making, message, back, text_str(&out));
            json_decref(json);
            text_deinit(&out);
            arena_deinit(&making.arena);
        }
    }
    assert_true(kinds > 60);
}

/* Writes and reads each operation under its name in /v1/commit. */
static void an_operation_comes_back(void **state) {
    struct making making = {.random = {random_seed(30)}};
    const char *name;
    for (size_t i = 0; (name = json_op_name_at(i)) != NULL; i++) {
        for (unsigned round = 0; round < ROUNDS; round++) {
            arena_init(&making.arena, ARENA_MAX);
            Tarry__Op *op;
            do op = (Tarry__Op *)make(&making, json_map_of(&tarry__op__descriptor), 0);
            while (op->op_case == TARRY__OP__OP__NOT_SET);
            if (strcmp(name, "drop") == 0 && op->op_case == TARRY__OP__OP_DEAD)
                op->dead->what = TARRY__DEAD_OP__WHAT__DROP;
            if (strcmp(name, "pause") == 0 && op->op_case == TARRY__OP__OP_QUEUE_PAUSE) op->queue_pause->paused = true;
            if (op->op_case == TARRY__OP__OP_QUEUE_PAUSE && !op->queue_pause->paused) op->queue_pause->for_ms = 0;
            struct json_in in = {.arena = &making.arena};
            struct text out = {0};
            json_write_op(&out, op);
            json_t *json = json_read(&in, out.data, out.size);
            assert_non_null(json);
            Tarry__Op *back = json_op(&in, json);
            if (back == NULL) fail_msg("%s: %s", in.problem, text_str(&out));
            same(&making, &op->base, &back->base, text_str(&out));
            json_decref(json);
            text_deinit(&out);
            arena_deinit(&making.arena);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_comes_back),
        cmocka_unit_test(an_operation_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
