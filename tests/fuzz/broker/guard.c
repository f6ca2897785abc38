/* guard.c: see guard.h. */
#include "guard.h"

#include <string.h>

#include "tarry.pb-c.h"

static bool is_safe_number(const struct guard *guard, const char *name, uint64_t number) {
    return number == 0 || number >= FAR || know_is_own(guard->know, name, number);
}

/* Returns whether the token was never given out. */
static bool has_invented_token(const ProtobufCMessage *message) {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "token");
    if (field == NULL || field->descriptor != &tarry__token__descriptor) return false;
    const Tarry__Token *token = *(Tarry__Token *const *)((const uint8_t *)message + field->offset);
    return token == NULL || token->position == 0 || token->position >= FAR;
}

static bool names_somebody(const ProtobufCFieldDescriptor *field) {
    static const char *const names[] = {"id", "session", "producer"};
    if (field->type != PROTOBUF_C_TYPE_UINT64 || field->label == PROTOBUF_C_LABEL_REPEATED) return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(field->name, names[i]) == 0) return true;
    return false;
}

static bool is_safe(const struct guard *guard, const ProtobufCMessage *message);

static bool is_safe_field(const struct guard *guard, const ProtobufCMessage *message,
                          const ProtobufCFieldDescriptor *field) {
    const uint8_t *place = (const uint8_t *)message + field->offset;
    const uint8_t *quantifier = (const uint8_t *)message + field->quantifier_offset;
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 && *(const uint32_t *)quantifier != field->id) return true;
    if (names_somebody(field))
        return has_invented_token(message) || is_safe_number(guard, field->name, *(const uint64_t *)place);
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) return true;
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        const ProtobufCMessage *inner = *(ProtobufCMessage *const *)place;
        return inner == NULL || is_safe(guard, inner);
    }
    ProtobufCMessage *const *inner = *(ProtobufCMessage *const *const *)place;
    size_t count = *(const size_t *)quantifier, i = 0;
    while (i < count && is_safe(guard, inner[i])) i++;
    return i == count;
}

static bool may_change_the_pair(const struct guard *guard, const Tarry__Pair *pair) {
    return pair->what == TARRY__PAIR__WHAT__STATUS || (guard->promotes && !pair->peer_is_stopped && !pair->force);
}

static bool is_safe(const struct guard *guard, const ProtobufCMessage *message) {
    if (message->descriptor == &tarry__pair__descriptor && !may_change_the_pair(guard, (const Tarry__Pair *)message))
        return false;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        if (!is_safe_field(guard, message, &message->descriptor->fields[i])) return false;
    return true;
}

bool guard_allows(const struct guard *guard, const void *data, size_t size) {
    if (memmem(data, size, HONEST_MARK, strlen(HONEST_MARK)) != NULL) return false;
    ProtobufCMessage *message = protobuf_c_message_unpack(&tarry__request__descriptor, NULL, size, data);
    if (message == NULL) return true;
    const ProtobufCFieldDescriptor *body =
        protobuf_c_message_descriptor_get_field(&tarry__request__descriptor,
                                                (unsigned)((const Tarry__Request *)message)->body_case);
    bool is_wanted = guard->without == NULL || body == NULL || strcmp(body->name, guard->without) != 0;
    bool allows = is_wanted && is_safe(guard, message);
    protobuf_c_message_free_unpacked(message, NULL);
    return allows;
}
