/* make_values.c: chooses numbers and texts for fields (make.h): learned ones, sensible ones for the field's name,
 * limits, and noise. */
#include <string.h>

#include "make.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KEYS 400u
#define QUEUES 12u

/* Upper limits of sensible numbers, by the field's name. */
static const struct {
    const char *name;
    uint64_t below;
} sensible[] = {
    {"priority", 11},       {"states", 17},     {"limit", 40},      {"prefetch", 60},     {"max_batch", 30},
    {"backoff_jitter", 3},  {"frames_max", 60}, {"size_max", 9000}, {"max_attempts", 4},  {"lease_ms", 3000},
    {"wait_ms", 60},        {"delay_ms", 400},  {"for_ms", 300},    {"expires_ms", 4000}, {"backoff_min_ms", 50},
    {"backoff_max_ms", 90}, {"file", 12},       {"offset", 70000},  {"size", 70000},      {"lane", 40},
};

static const uint64_t edges[] = {
    0,
    1,
    9,
    10,
    11,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    1000,
    1001,
    4095,
    4096,
    4097,
    8192,
    8193,
    16384,
    16385,
    LEASE_MAX_MS,
    LEASE_MAX_MS + 1,
    DUE_AHEAD_MAX_MS,
    DUE_AHEAD_MAX_MS + 1,
    BACKOFF_MAX_MS,
    1u << 20,
    (1u << 20) + 1,
    INT32_MAX,
    (uint64_t)INT32_MAX + 1,
    UINT32_MAX,
    (uint64_t)UINT32_MAX + 1,
    INT64_MAX,
    (uint64_t)INT64_MAX + 1,
    UINT64_MAX - 1,
    UINT64_MAX,
};

static bool ends_in(const char *name, const char *end) {
    size_t size = strlen(name), end_size = strlen(end);
    return size >= end_size && strcmp(name + size - end_size, end) == 0;
}

static bool is_called(const ProtobufCFieldDescriptor *field, const char *name) {
    return strcmp(field->name, name) == 0;
}

/* ---- numbers */

static uint64_t sensible_number(struct maker *maker, const ProtobufCFieldDescriptor *field) {
    uint64_t now_ms = know_now_ms(maker->know);
    bool is_time = is_called(field, "ms") || ends_in(field->name, "from_ms") || ends_in(field->name, "to_ms");
    if (is_called(field, "version")) return 1;
    if (is_time && now_ms > 0 && make_chance(maker, 3))
        return now_ms + random_below(maker->random, 4000) - random_below(maker->random, 2000);
    for (size_t i = 0; i < COUNT(sensible); i++)
        if (is_called(field, sensible[i].name)) return random_below(maker->random, sensible[i].below);
    return random_magnitude(maker->random, 12);
}

uint64_t make_edge(struct maker *maker) {
    return edges[random_below(maker->random, COUNT(edges))];
}

static uint64_t enum_number(struct maker *maker, const ProtobufCFieldDescriptor *field) {
    const ProtobufCEnumDescriptor *numbers = field->descriptor;
    if (make_chance(maker, 40)) return make_edge(maker);
    return (uint64_t)(int64_t)numbers->values[random_below(maker->random, numbers->n_values)].value;
}

static bool learned_number(const struct maker *maker, const ProtobufCFieldDescriptor *field, uint64_t *out) {
    const void *place;
    if (maker->fact == NULL || !know_value(maker->fact, field, &place)) return false;
    bool is_wide = field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_FIXED64;
    *out = is_wide ? *(const uint64_t *)place : *(const uint32_t *)place;
    return true;
}

uint64_t make_number(struct maker *maker, const ProtobufCFieldDescriptor *field) {
    uint64_t number;
    bool is_version = is_called(field, "version");
    if (field->type == PROTOBUF_C_TYPE_BOOL && !make_chance(maker, 50)) return random_below(maker->random, 2);
    if (field->type == PROTOBUF_C_TYPE_ENUM) return enum_number(maker, field);
    if (!make_chance(maker, maker->edgy ? 2 : 8) && learned_number(maker, field, &number)) return number;
    uint64_t dice = random_below(maker->random, is_version ? 1000 : 100);
    if (dice < 4 || (maker->edgy && !is_version && dice < 60)) return make_edge(maker);
    if (dice < 8) return random_magnitude(maker->random, 64);
    return sensible_number(maker, field);
}

/* ---- texts */

static void put_noise(struct maker *maker, size_t size, struct out *out) {
    while (size-- > 0) out_byte(out, (uint8_t)random_u64(maker->random));
}

/* Writes a text that tests the checks of length, UTF-8, control characters, and blanks at the ends. */
static void odd_text(struct maker *maker, struct out *out) {
    static const char *const pieces[] = {
        "",     " ",  "\t",   "\x7f",  "\xc3\xa4",     "\xed\xa0\x80",    "\xc0\x80", "\xff", "\xf4\x90\x80\x80",
        "\"\\", "\n", "%s%n", "../..", "\xe2\x80\xae", "\xf0\x9f\x90\xa2"};
    static const size_t sizes[] = {1, 63, 64, 127, 128, 129, 254, 255, 256, 299, 300, 4096, 4097, 70000};
    size_t size = sizes[random_below(maker->random, make_chance(maker, 20) ? COUNT(sizes) : 9)], start = out->size;
    switch (random_below(maker->random, 4)) {
    case 0:
        while (out->size - start < size) out_byte(out, (uint8_t)('a' + random_below(maker->random, 26)));
        break;
    case 1:
        put_noise(maker, random_below(maker->random, 40), out);
        break;
    case 2:
        out_byte(out, 0);
        out_text(out, "after");
        break;
    default:
        for (size_t i = random_below(maker->random, 5) + 1; i > 0; i--)
            out_text(out, pieces[random_below(maker->random, COUNT(pieces))]);
    }
}

static void put_policy_field(struct maker *maker, struct out *out) {
    const ProtobufCMessageDescriptor *policy = &tarry__policy__descriptor;
    out_text(out, policy->fields[random_below(maker->random, policy->n_fields)].name);
}

static void put_content(struct maker *maker, struct out *out) {
    if (make_chance(maker, 3)) return;
    const ProtobufCMessage *outer = maker->fact;
    make_message(maker, &tarry__content__descriptor, out);
    maker->fact = outer;
}

static void put_payload(struct maker *maker, struct out *out) {
    static const size_t sizes[] = {0, 1, 100, 4096, 65536, PAYLOAD_SIZE_MAX_DEFAULT, PAYLOAD_SIZE_MAX_DEFAULT + 1};
    size_t size =
        make_chance(maker, 400) ? sizes[random_below(maker->random, COUNT(sizes))] : random_below(maker->random, 60);
    for (size_t i = 0; i < size; i += 8) out_number(out, random_u64(maker->random), 8);
}

static bool learned_text(const struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out) {
    const void *place;
    if (maker->fact == NULL || !know_value(maker->fact, field, &place)) return false;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        out_text(out, *(const char *const *)place);
    } else {
        const ProtobufCBinaryData *bytes = place;
        out_bytes(out, bytes->data, bytes->len);
    }
    return true;
}

static void sensible_text(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out) {
    bool is_queue = is_called(field, "queue") || is_called(field, "queues");
    if (is_queue)
        out_format(out, "q%u", (unsigned)random_below(maker->random, QUEUES));
    else if (is_called(field, "key"))
        out_format(out, "k%u", (unsigned)random_below(maker->random, KEYS));
    else if (is_called(field, "fields"))
        put_policy_field(maker, out);
    else if (is_called(field, "content"))
        put_content(maker, out);
    else if (is_called(field, "payload"))
        put_payload(maker, out);
    else if (is_called(field, "url"))
        out_format(out, "ws://127.0.0.1:%u", (unsigned)random_below(maker->random, 9));
    else if (field->type == PROTOBUF_C_TYPE_STRING)
        out_format(out, "%s-%u", field->name, (unsigned)random_below(maker->random, 9));
    else if (make_chance(maker, 2)) /* one of the sizes of ids, hashes and secrets */
        put_noise(maker, 8 * random_below(maker->random, 6), out);
}

void make_text(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out) {
    if (make_chance(maker, maker->wild ? 8 : 100)) {
        odd_text(maker, out);
        return;
    }
    /* Requests for another cluster are refused early, so a foreign id is used seldom. */
    bool is_named = is_called(field, "cluster") || is_called(field, "resume") || is_called(field, "cursor");
    if (is_named && !make_chance(maker, 20)) {
        if (!make_chance(maker, 6)) learned_text(maker, field, out);
        return;
    }
    if (!make_chance(maker, 6) && learned_text(maker, field, out)) return;
    sensible_text(maker, field, out);
}
