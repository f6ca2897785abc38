/* amqp_message.c: see amqp_message.h. */
#include "amqp_message.h"

#include <string.h>

#include "tarry_limits.h"

#define ENVELOPE_VERSION 1u

_Static_assert(1 + 2 * (AMQP_SHORTSTR_MAX + 1) + AMQP_PROPERTIES_SIZE_MAX + AMQP_DEATHS_MAX * 350 +
                       3 * (AMQP_SHORTSTR_MAX + 40) <=
                   PROPERTIES_SIZE_MAX,
               "an envelope with the maximum number of deaths, of at most 350 bytes each, fits");

void amqp_put_envelope(struct amqp_out *out, struct amqp_bytes exchange, struct amqp_bytes key,
                       struct amqp_bytes properties) {
    amqp_put_number(out, ENVELOPE_VERSION, 1);
    amqp_put_shortstr(out, exchange);
    amqp_put_shortstr(out, key);
    amqp_put(out, properties.at, properties.size);
}

static bool read_envelope(struct amqp_bytes bytes, struct amqp_envelope *out) {
    struct amqp_properties properties;
    uint64_t version;
    bool is_envelope = amqp_take_number(&bytes, 1, &version) && version == ENVELOPE_VERSION &&
                       amqp_take_sized(&bytes, 1, &out->exchange) && amqp_take_sized(&bytes, 1, &out->key);
    out->properties = bytes;
    return is_envelope && amqp_properties_read(bytes, &properties);
}

bool amqp_envelope_of(const Tarry__Content *content, const char *queue, struct amqp_out *made,
                      struct amqp_envelope *out) {
    if (read_envelope((struct amqp_bytes){content->properties.data, content->properties.len}, out)) return true;
    struct amqp_out headers = {0};
    for (size_t i = 0; i < content->n_attributes; i++)
        amqp_put_text_field(&headers, content->attributes[i]->name, amqp_text(content->attributes[i]->value));
    struct amqp_properties properties = {.present = 0};
    if (headers.size > 0) properties.present = 1u << AMQP_HEADERS;
    properties.bytes[AMQP_HEADERS] = (struct amqp_bytes){headers.bytes, headers.size};
    amqp_put_properties(made, &properties);
    made->failed |= headers.failed;
    amqp_out_free(&headers);
    *out = (struct amqp_envelope){.key = amqp_text(queue), .properties = {made->bytes, made->size}};
    return !made->failed;
}

static bool route_list(struct amqp_topology *topology, struct amqp_exchange *exchange, struct amqp_bytes headers,
                       const char *name, struct amqp_targets *targets) {
    struct amqp_field list, key;
    if (!amqp_table_find(headers, name, &list)) return true;
    if (list.type != 'A') return false;
    struct amqp_bytes rest = list.value;
    while (amqp_field_next(&rest, true, &key)) {
        if (key.type != 'S') return false;
        amqp_route(topology, exchange, key.value, headers, targets);
    }
    return true;
}

bool amqp_route_message(struct amqp_topology *topology, struct amqp_exchange *exchange, struct amqp_bytes key,
                        struct amqp_bytes headers, struct amqp_targets *targets) {
    amqp_route(topology, exchange, key, headers, targets);
    return route_list(topology, exchange, headers, "CC", targets) &&
           route_list(topology, exchange, headers, "BCC", targets);
}

/* Copies a field unchanged. */
static void put_same(struct amqp_out *out, const struct amqp_field *field) {
    amqp_put_shortstr(out, field->name);
    amqp_put(out, &field->type, 1);
    amqp_put(out, field->raw.at, field->raw.size);
}

void amqp_put_without_bcc(struct amqp_out *out, const struct amqp_properties *properties) {
    struct amqp_properties changed = *properties;
    struct amqp_out headers = {0};
    struct amqp_bytes rest = properties->bytes[AMQP_HEADERS];
    struct amqp_field field;
    while (amqp_field_next(&rest, false, &field))
        if (!amqp_is(field.name, "BCC")) put_same(&headers, &field);
    changed.bytes[AMQP_HEADERS] = (struct amqp_bytes){headers.bytes, headers.size};
    amqp_put_properties(out, &changed);
    out->failed |= headers.failed;
    amqp_out_free(&headers);
}

void amqp_put_due(struct amqp_out *out, const struct amqp_properties *properties) {
    struct amqp_properties changed = *properties;
    struct amqp_out headers = {0};
    struct amqp_bytes rest = properties->bytes[AMQP_HEADERS];
    struct amqp_field field;
    int64_t delay_ms;
    (void)amqp_delay_read(rest, &delay_ms);
    while (amqp_field_next(&rest, false, &field))
        if (!amqp_is(field.name, "x-delay")) put_same(&headers, &field);
    amqp_put_field(&headers, "x-delay", 'l');
    amqp_put_number(&headers, 0 - (uint64_t)delay_ms, 8);
    changed.present |= 1u << AMQP_HEADERS;
    changed.bytes[AMQP_HEADERS] = (struct amqp_bytes){headers.bytes, headers.size};
    amqp_put_properties(out, &changed);
    out->failed |= headers.failed;
    amqp_out_free(&headers);
}

/* ---- dead letters */

static const char *const death_names[] = {
    [AMQP_DEATH_EXPIRED] = "expired", [AMQP_DEATH_REJECTED] = "rejected", [AMQP_DEATH_LIMIT] = "delivery_limit"};

static bool is_text(struct amqp_bytes table, const char *name, const char *text) {
    struct amqp_field field;
    return amqp_table_find(table, name, &field) && field.type == 'S' && amqp_is(field.value, text);
}

static struct amqp_bytes deaths_of(struct amqp_bytes headers) {
    struct amqp_field field;
    bool is_list = amqp_table_find(headers, "x-death", &field) && field.type == 'A';
    return is_list ? field.value : (struct amqp_bytes){0};
}

/* Writes the array x-death: this death first, then the earlier ones. */
static void put_deaths(struct amqp_out *out, const struct amqp_envelope *envelope,
                       const struct amqp_properties *properties, const struct amqp_queue *queue, enum amqp_death death,
                       uint64_t now_s) {
    struct amqp_bytes others = deaths_of(properties->bytes[AMQP_HEADERS]), rest = others;
    struct amqp_field entry, count;
    uint64_t deaths = 1;
    unsigned listed = 1;
    while (amqp_field_next(&rest, true, &entry)) {
        bool is_it = entry.type == 'F' && is_text(entry.value, "queue", queue->name) &&
                     is_text(entry.value, "reason", death_names[death]);
        if (is_it && amqp_table_find(entry.value, "count", &count) && count.is_integer && count.number > 0)
            deaths = (uint64_t)count.number + 1;
    }
    amqp_put_field(out, "x-death", 'A');
    size_t array = amqp_put_begin(out);
    amqp_put_number(out, 'F', 1);
    size_t table = amqp_put_begin(out);
    amqp_put_field(out, "count", 'l');
    amqp_put_number(out, deaths, 8);
    amqp_put_text_field(out, "exchange", envelope->exchange);
    amqp_put_text_field(out, "queue", amqp_text(queue->name));
    amqp_put_text_field(out, "reason", amqp_text(death_names[death]));
    amqp_put_field(out, "routing-keys", 'A');
    size_t list = amqp_put_begin(out);
    amqp_put_number(out, 'S', 1);
    amqp_put_longstr(out, envelope->key);
    amqp_put_end(out, list);
    amqp_put_field(out, "time", 'T');
    amqp_put_number(out, now_s, 8);
    if (amqp_has(properties, AMQP_EXPIRATION))
        amqp_put_text_field(out, "original-expiration", properties->bytes[AMQP_EXPIRATION]);
    amqp_put_end(out, table);
    for (rest = others; amqp_field_next(&rest, true, &entry) && listed < AMQP_DEATHS_MAX;) {
        bool is_it = entry.type == 'F' && is_text(entry.value, "queue", queue->name) &&
                     is_text(entry.value, "reason", death_names[death]);
        if (entry.type != 'F' || is_it) continue;
        amqp_put(out, &entry.type, 1);
        amqp_put(out, entry.raw.at, entry.raw.size);
        listed++;
    }
    amqp_put_end(out, array);
}

void amqp_put_dead(struct amqp_out *out, const struct amqp_envelope *envelope, const struct amqp_queue *queue,
                   enum amqp_death death, uint64_t now_s) {
    struct amqp_properties properties, changed;
    struct amqp_out headers = {0};
    struct amqp_field field;
    (void)amqp_properties_read(envelope->properties, &properties);
    changed = properties;
    struct amqp_bytes rest = properties.bytes[AMQP_HEADERS];
    bool has_first = amqp_table_find(rest, "x-first-death-queue", &field);
    while (amqp_field_next(&rest, false, &field)) {
        bool is_dropped = amqp_is(field.name, "x-death") || (queue->has_dead_key && amqp_is(field.name, "CC"));
        if (!is_dropped) put_same(&headers, &field);
    }
    put_deaths(&headers, envelope, &properties, queue, death, now_s);
    if (!has_first) {
        amqp_put_text_field(&headers, "x-first-death-exchange", envelope->exchange);
        amqp_put_text_field(&headers, "x-first-death-queue", amqp_text(queue->name));
        amqp_put_text_field(&headers, "x-first-death-reason", amqp_text(death_names[death]));
    }
    changed.present |= 1u << AMQP_HEADERS;
    changed.present &= (uint16_t) ~(1u << AMQP_EXPIRATION);
    changed.bytes[AMQP_HEADERS] = (struct amqp_bytes){headers.bytes, headers.size};
    amqp_put_properties(out, &changed);
    out->failed |= headers.failed;
    amqp_out_free(&headers);
}

bool amqp_death_circles(struct amqp_bytes headers, const char *queue) {
    struct amqp_bytes rest = deaths_of(headers);
    struct amqp_field entry;
    while (amqp_field_next(&rest, true, &entry)) {
        if (entry.type != 'F') continue;
        if (is_text(entry.value, "reason", death_names[AMQP_DEATH_REJECTED])) return false;
        if (is_text(entry.value, "queue", queue)) return true;
    }
    return false;
}
