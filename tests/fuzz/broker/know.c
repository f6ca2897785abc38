/* know.c: see know.h. */
#include "know.h"

#include <stdlib.h>
#include <string.h>

#include "out.h"
#include "tarry.pb-c.h"

#define KINDS_MAX 64       /* maximum number of kinds of messages in answers */
#define FACTS_PER_KIND 128 /* number of newest messages that are kept of each kind */
#define LEARN_MAX 24       /* maximum number of facts per answer */
#define FACT_SIZE_MAX 4096
#define PRODUCERS 6

struct fact {
    uint8_t *data;
    size_t size;
};

struct kind {
    const ProtobufCMessageDescriptor *descriptor;
    struct fact facts[FACTS_PER_KIND];
    size_t count; /* number of facts learned until now */
};

/* A set of numbers with open addressing; 0 cannot be a member. */
struct numbers {
    uint64_t *slots;
    size_t count, room;
};

struct producer {
    uint64_t id, next;
};

struct know {
    struct random *random;
    struct kind kinds[KINDS_MAX];
    size_t kind_count;
    struct numbers own[3];
    struct producer producers[PRODUCERS];
    size_t producer_count; /* number of producers learned until now */
    uint64_t now_ms;
    size_t budget; /* number of facts that may still be learned from this answer */
};

static const char *const own_names[] = {"id", "session", "producer"};

/* Fields whose names in requests differ from their names in answers. */
static const struct {
    const char *asked, *told;
} aliases[] = {
    {"resume", "secret"},     {"cursor", "next"}, {"position", "next"},    {"seen", "id"},     {"after_id", "id"},
    {"queues", "name"},       {"queue", "name"},  {"prefix", "key"},       {"end", "durable"}, {"end", "log_end"},
    {"from_ms", "at_ms"},     {"floor", "epoch"}, {"last_epoch", "epoch"}, {"led", "epoch"},   {"epochs", "epoch"},
    {"applied", "committed"}, {"url", "primary"},
};

static void numbers_add(struct numbers *numbers, uint64_t number);

static void numbers_grow(struct numbers *numbers) {
    struct numbers bigger = {.room = numbers->room == 0 ? 256 : numbers->room * 2};
    bigger.slots = calloc(bigger.room, sizeof(*bigger.slots));
    if (bigger.slots == NULL) abort();
    for (size_t i = 0; i < numbers->room; i++)
        if (numbers->slots[i] != 0) numbers_add(&bigger, numbers->slots[i]);
    free(numbers->slots);
    *numbers = bigger;
}

static size_t numbers_slot(const struct numbers *numbers, uint64_t number) {
    size_t at = (number * 0x9e3779b97f4a7c15u >> 20) & (numbers->room - 1);
    while (numbers->slots[at] != 0 && numbers->slots[at] != number) at = (at + 1) & (numbers->room - 1);
    return at;
}

static void numbers_add(struct numbers *numbers, uint64_t number) {
    if (number == 0) return;
    if (numbers->count * 2 >= numbers->room) numbers_grow(numbers);
    size_t at = numbers_slot(numbers, number);
    if (numbers->slots[at] == 0) numbers->count++;
    numbers->slots[at] = number;
}

struct know *know_new(struct random *random) {
    struct know *know = calloc(1, sizeof(*know));
    if (know == NULL) abort();
    know->random = random;
    return know;
}

void know_free(struct know *know) {
    for (size_t i = 0; i < know->kind_count; i++)
        for (size_t j = 0; j < FACTS_PER_KIND; j++) free(know->kinds[i].facts[j].data);
    for (size_t i = 0; i < sizeof(know->own) / sizeof(know->own[0]); i++) free(know->own[i].slots);
    free(know);
}

bool know_is_own(const struct know *know, const char *name, uint64_t number) {
    for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
        const struct numbers *own = &know->own[i];
        if (strcmp(own_names[i], name) == 0) return own->room > 0 && own->slots[numbers_slot(own, number)] == number;
    }
    return false;
}

uint64_t know_now_ms(const struct know *know) {
    return know->now_ms;
}

uint64_t know_producer(struct know *know, uint64_t *out_sequence) {
    size_t count = know->producer_count < PRODUCERS ? know->producer_count : PRODUCERS;
    if (count == 0) return 0;
    struct producer *producer = &know->producers[random_below(know->random, count)];
    *out_sequence = ++producer->next;
    return producer->id;
}

/* ---- learning */

static bool is_honests(const void *data, size_t size) {
    return memmem(data, size, HONEST_MARK, strlen(HONEST_MARK)) != NULL;
}

/* Returns whether the broker gave this number to the stranger itself. Answers about any task name its id and its
 * session. */
static bool is_given(const ProtobufCMessage *message, const char *name) {
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    if (descriptor == &tarry__hello_reply__descriptor) return strcmp(name, "producer") == 0;
    if (descriptor == &tarry__subscribe_reply__descriptor) return strcmp(name, "session") == 0;
    if (strcmp(name, "id") != 0) return false;
    if (descriptor !=
        &tarry__op_result__descriptor) /* a message that names a queue does not belong to an honest client */
        return protobuf_c_message_descriptor_get_field_by_name(descriptor, "queue") != NULL;
    switch (((const Tarry__OpResult *)message)->outcome) {
    case TARRY__OUTCOME__SCHEDULED:
    case TARRY__OUTCOME__REPLACED:
    case TARRY__OUTCOME__KEPT:
    case TARRY__OUTCOME__LIVE:
        return true;
    default:
        return false;
    }
}

static void note_number(struct know *know, const ProtobufCMessage *message, const char *name, uint64_t number) {
    for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++)
        if (strcmp(own_names[i], name) == 0 && is_given(message, name)) numbers_add(&know->own[i], number);
    if (strcmp(name, "now_ms") == 0 || strcmp(name, "due_ms") == 0 || strcmp(name, "delivered_ms") == 0)
        if (number > 0) know->now_ms = number;
    if (strcmp(name, "producer") != 0 || number == 0) return;
    know->producers[know->producer_count++ % PRODUCERS] = (struct producer){.id = number};
}

static struct kind *kind_of(struct know *know, const ProtobufCMessageDescriptor *descriptor) {
    for (size_t i = 0; i < know->kind_count; i++)
        if (know->kinds[i].descriptor == descriptor) return &know->kinds[i];
    if (know->kind_count == KINDS_MAX) return NULL;
    know->kinds[know->kind_count].descriptor = descriptor;
    return &know->kinds[know->kind_count++];
}

static void keep(struct know *know, const ProtobufCMessage *message) {
    size_t size = protobuf_c_message_get_packed_size(message);
    struct kind *kind = size == 0 || size > FACT_SIZE_MAX ? NULL : kind_of(know, message->descriptor);
    if (kind == NULL) return;
    uint8_t *data = malloc(size);
    if (data == NULL) abort();
    protobuf_c_message_pack(message, data);
    if (is_honests(data, size)) {
        free(data);
        return;
    }
    struct fact *fact = &kind->facts[kind->count++ % FACTS_PER_KIND];
    free(fact->data);
    *fact = (struct fact){data, size};
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const uint8_t *place = (const uint8_t *)message + field->offset;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) continue;
        if (field->type == PROTOBUF_C_TYPE_UINT64) note_number(know, message, field->name, *(const uint64_t *)place);
    }
}

static void learn_from(struct know *know, const ProtobufCMessage *message);

static void learn_field(struct know *know, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    const uint8_t *place = (const uint8_t *)message + field->offset;
    const uint8_t *quantifier = (const uint8_t *)message + field->quantifier_offset;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) return;
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 && *(const uint32_t *)quantifier != field->id) return;
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        const ProtobufCMessage *inner = *(ProtobufCMessage *const *)place;
        if (inner != NULL) learn_from(know, inner);
        return;
    }
    size_t count = *(const size_t *)quantifier;
    ProtobufCMessage *const *inner = *(ProtobufCMessage *const *const *)place;
    for (size_t i = 0; i < count && know->budget > 0; i++) learn_from(know, inner[i]);
}

static void learn_from(struct know *know, const ProtobufCMessage *message) {
    if (know->budget == 0) return;
    know->budget--;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        learn_field(know, message, &message->descriptor->fields[i]);
    keep(know, message);
}

bool know_learn(struct know *know, const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size) {
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, NULL, size, data);
    if (message == NULL) return false;
    know->budget = LEARN_MAX;
    learn_from(know, message);
    protobuf_c_message_free_unpacked(message, NULL);
    return true;
}

/* ---- the memory */

static bool have_one_type(const ProtobufCFieldDescriptor *asked, const ProtobufCFieldDescriptor *told) {
    if (told == NULL || told->label == PROTOBUF_C_LABEL_REPEATED) return false;
    if ((told->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 || told->type != asked->type) return false;
    return told->type != PROTOBUF_C_TYPE_MESSAGE || told->descriptor == asked->descriptor;
}

static const ProtobufCFieldDescriptor *told_as(const ProtobufCMessageDescriptor *fact,
                                               const ProtobufCFieldDescriptor *asked) {
    const ProtobufCFieldDescriptor *told = protobuf_c_message_descriptor_get_field_by_name(fact, asked->name);
    if (have_one_type(asked, told)) return told;
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (strcmp(aliases[i].asked, asked->name) != 0) continue;
        told = protobuf_c_message_descriptor_get_field_by_name(fact, aliases[i].told);
        if (have_one_type(asked, told)) return told;
    }
    return NULL;
}

static bool shares_a_name(const ProtobufCMessageDescriptor *fact, const ProtobufCMessageDescriptor *about) {
    for (unsigned i = 0; i < about->n_fields; i++)
        if (told_as(fact, &about->fields[i]) != NULL) return true;
    return false;
}

ProtobufCMessage *know_fact(struct know *know, const ProtobufCMessageDescriptor *about) {
    if (know->kind_count == 0) return NULL;
    size_t first = random_below(know->random, know->kind_count);
    for (size_t i = 0; i < know->kind_count; i++) {
        const struct kind *kind = &know->kinds[(first + i) % know->kind_count];
        if (kind->count == 0 || !shares_a_name(kind->descriptor, about)) continue;
        size_t count = kind->count < FACTS_PER_KIND ? kind->count : FACTS_PER_KIND;
        const struct fact *fact = &kind->facts[random_below(know->random, count)];
        return protobuf_c_message_unpack(kind->descriptor, NULL, fact->size, fact->data);
    }
    return NULL;
}

bool know_value(const ProtobufCMessage *fact, const ProtobufCFieldDescriptor *field, const void **out_place) {
    const ProtobufCFieldDescriptor *told = told_as(fact->descriptor, field);
    if (told == NULL) return false;
    *out_place = (const uint8_t *)fact + told->offset;
    return told->type != PROTOBUF_C_TYPE_MESSAGE || *(ProtobufCMessage *const *)*out_place != NULL;
}
