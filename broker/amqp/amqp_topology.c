/* amqp_topology.c: see amqp_topology.h. */
#include "amqp_topology.h"

#include <assert.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tarry_limits.h"

static_assert(AMQP_NAME_MAX == QUEUE_NAME_SIZE_MAX, "an AMQP queue is a queue");
static_assert(AMQP_DEFINITION_KEY_SIZE - 1 <= DEFINITION_NAME_SIZE_MAX, "a key is the name of a definition");

#define BUCKETS_MIN 64u
#define DEFINITION_VERSION 1u

static const char *const type_names[] = {[AMQP_DIRECT] = "direct",
                                         [AMQP_FANOUT] = "fanout",
                                         [AMQP_TOPIC] = "topic",
                                         [AMQP_HEADERS_TYPE] = "headers",
                                         [AMQP_DELAYED] = "x-delayed-message"};

/* ---- hash tables */

static uint64_t hash_of(struct amqp_bytes bytes) {
    return XXH3_64bits(bytes.at, bytes.size);
}

static bool hash_grow(struct amqp_hash *table) {
    size_t capacity = table->capacity == 0 ? BUCKETS_MIN : table->capacity * 2;
    struct amqp_node **buckets = calloc(capacity, sizeof(*buckets));
    if (buckets == NULL) return false;
    for (size_t i = 0; i < table->capacity; i++) {
        struct amqp_node *node, *next;
        for (node = table->buckets[i]; node != NULL; node = next) {
            next = node->next;
            node->next = buckets[node->hash & (capacity - 1)];
            buckets[node->hash & (capacity - 1)] = node;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->capacity = capacity;
    return true;
}

static bool hash_add(struct amqp_hash *table, struct amqp_node *node, uint64_t hash) {
    if (table->count >= table->capacity && !hash_grow(table)) return false;
    node->hash = hash;
    struct amqp_node **bucket = &table->buckets[hash & (table->capacity - 1)];
    node->next = *bucket;
    *bucket = node;
    table->count++;
    return true;
}

static void hash_remove(struct amqp_hash *table, struct amqp_node *node) {
    struct amqp_node **at = &table->buckets[node->hash & (table->capacity - 1)];
    while (*at != node) at = &(*at)->next;
    *at = node->next;
    table->count--;
}

/* Returns the next node with this hash after `after`; if `after` is NULL, the first one. */
static struct amqp_node *hash_next(const struct amqp_hash *table, uint64_t hash, const struct amqp_node *after) {
    if (table->capacity == 0) return NULL;
    struct amqp_node *node = after != NULL ? after->next : table->buckets[hash & (table->capacity - 1)];
    while (node != NULL && node->hash != hash) node = node->next;
    return node;
}

/* ---- finding and adding */

struct amqp_exchange *amqp_exchange_find(struct amqp_topology *topology, struct amqp_bytes name) {
    const uint64_t hash = hash_of(name);
    struct amqp_node *node = hash_next(&topology->exchanges, hash, NULL);
    while (node != NULL && !amqp_is(name, ((struct amqp_exchange *)node)->name))
        node = hash_next(&topology->exchanges, hash, node);
    return (struct amqp_exchange *)node;
}

struct amqp_queue *amqp_queue_find(struct amqp_topology *topology, struct amqp_bytes name) {
    const uint64_t hash = hash_of(name);
    struct amqp_node *node = hash_next(&topology->queues, hash, NULL);
    while (node != NULL && !amqp_is(name, ((struct amqp_queue *)node)->name))
        node = hash_next(&topology->queues, hash, node);
    return (struct amqp_queue *)node;
}

static uint64_t hash_of_id(const uint8_t id[16]) {
    uint64_t hash;
    memcpy(&hash, id, sizeof(hash));
    return hash;
}

struct amqp_binding *amqp_binding_find(struct amqp_topology *topology, const struct amqp_binding *like) {
    const uint64_t hash = hash_of_id(like->id);
    struct amqp_node *node = hash_next(&topology->bindings, hash, NULL);
    while (node != NULL && memcmp(((struct amqp_binding *)node)->id, like->id, sizeof(like->id)) != 0)
        node = hash_next(&topology->bindings, hash, node);
    return (struct amqp_binding *)node;
}

static uint64_t hash_of_route(const struct amqp_exchange *source, struct amqp_bytes key) {
    return XXH3_64bits_withSeed(key.at, key.size, (XXH64_hash_t)(uintptr_t)source);
}

/* Copies the arguments into newly allocated memory. Returns false if memory is exhausted. */
static bool keep(struct amqp_bytes arguments, uint8_t **out, size_t *out_size) {
    *out = malloc(arguments.size + 1);
    if (*out == NULL) return false;
    if (arguments.size > 0) memcpy(*out, arguments.at, arguments.size);
    *out_size = arguments.size;
    return true;
}

struct amqp_exchange *amqp_exchange_new(struct amqp_bytes name, struct amqp_bytes arguments) {
    struct amqp_exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL || !keep(arguments, &exchange->arguments, &exchange->arguments_size)) {
        free(exchange);
        return NULL;
    }
    assert(name.size <= AMQP_NAME_MAX);
    exchange->node.kind = 'e';
    memcpy(exchange->name, name.at, name.size);
    TAILQ_INIT(&exchange->from);
    TAILQ_INIT(&exchange->to);
    return exchange;
}

struct amqp_queue *amqp_queue_new(struct amqp_bytes name, struct amqp_bytes arguments) {
    struct amqp_queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL || !keep(arguments, &queue->arguments, &queue->arguments_size)) {
        free(queue);
        return NULL;
    }
    assert(name.size <= AMQP_NAME_MAX);
    queue->node.kind = 'q';
    memcpy(queue->name, name.at, name.size);
    TAILQ_INIT(&queue->to);
    TAILQ_INIT(&queue->consumers);
    return queue;
}

static void hash_text(crypto_generichash_state *state, struct amqp_bytes text) {
    uint32_t size = (uint32_t)text.size;
    crypto_generichash_update(state, (const uint8_t *)&size, sizeof(size));
    if (size > 0) crypto_generichash_update(state, text.at, text.size);
}

struct amqp_binding *amqp_binding_new(struct amqp_exchange *source, struct amqp_exchange *exchange,
                                      struct amqp_queue *queue, struct amqp_bytes key, struct amqp_bytes arguments) {
    crypto_generichash_state state;
    struct amqp_binding *binding = calloc(1, sizeof(*binding) + key.size + arguments.size);
    if (binding == NULL) return NULL;
    binding->node.kind = 'b';
    binding->source = source;
    binding->exchange = exchange;
    binding->queue = queue;
    if (key.size > 0) memcpy(binding->bytes, key.at, key.size);
    if (arguments.size > 0) memcpy(binding->bytes + key.size, arguments.at, arguments.size);
    binding->key = (struct amqp_bytes){binding->bytes, key.size};
    binding->arguments = (struct amqp_bytes){binding->bytes + key.size, arguments.size};
    crypto_generichash_init(&state, NULL, 0, sizeof(binding->id));
    hash_text(&state, amqp_text(source->name));
    hash_text(&state, amqp_text(exchange != NULL ? "e" : "q"));
    hash_text(&state, amqp_text(exchange != NULL ? exchange->name : queue->name));
    hash_text(&state, binding->key);
    hash_text(&state, binding->arguments);
    crypto_generichash_final(&state, binding->id, sizeof(binding->id));
    return binding;
}

void amqp_exchange_free(struct amqp_exchange *exchange) {
    if (exchange == NULL) return;
    amqp_queue_free(exchange->waiting);
    free(exchange->arguments);
    free(exchange);
}

void amqp_queue_free(struct amqp_queue *queue) {
    if (queue == NULL) return;
    free(queue->arguments);
    free(queue);
}

static size_t size_of(const struct amqp_node *node) {
    const struct amqp_exchange *exchange = (const struct amqp_exchange *)node;
    if (node->kind == 'e')
        return sizeof(*exchange) + exchange->arguments_size +
               (exchange->waiting != NULL ? sizeof(struct amqp_queue) : 0);
    if (node->kind == 'q') return sizeof(struct amqp_queue) + ((const struct amqp_queue *)node)->arguments_size;
    const struct amqp_binding *binding = (const struct amqp_binding *)node;
    return sizeof(*binding) + binding->key.size + binding->arguments.size;
}

void amqp_waiting_name(const char *exchange, char out[AMQP_NAME_MAX + 1]) {
    snprintf(out, AMQP_NAME_MAX + 1, "%.*s%s", (int)AMQP_DELAYED_NAME_MAX, exchange, AMQP_WAITING_SUFFIX);
}

static bool add_waiting(struct amqp_exchange *exchange) {
    char name[AMQP_NAME_MAX + 1];
    amqp_waiting_name(exchange->name, name);
    exchange->waiting = amqp_queue_new(amqp_text(name), (struct amqp_bytes){0});
    if (exchange->waiting != NULL) exchange->waiting->is_waiting = true;
    return exchange->waiting != NULL;
}

bool amqp_exchange_add(struct amqp_topology *topology, struct amqp_exchange *exchange) {
    if (exchange->type != AMQP_DELAYED) exchange->routing = exchange->type;
    if (exchange->type == AMQP_DELAYED && exchange->waiting == NULL && !add_waiting(exchange)) return false;
    if (!hash_add(&topology->exchanges, &exchange->node, hash_of(amqp_text(exchange->name)))) return false;
    topology->bytes += size_of(&exchange->node);
    return true;
}

bool amqp_queue_add(struct amqp_topology *topology, struct amqp_queue *queue) {
    if (!hash_add(&topology->queues, &queue->node, hash_of(amqp_text(queue->name)))) return false;
    topology->bytes += size_of(&queue->node);
    return true;
}

bool amqp_binding_add(struct amqp_topology *topology, struct amqp_binding *binding) {
    if (!hash_add(&topology->bindings, &binding->node, hash_of_id(binding->id))) return false;
    if (!hash_add(&topology->routes, &binding->route, hash_of_route(binding->source, binding->key))) {
        hash_remove(&topology->bindings, &binding->node);
        return false;
    }
    TAILQ_INSERT_TAIL(&binding->source->from, binding, in_from);
    TAILQ_INSERT_TAIL(binding->exchange != NULL ? &binding->exchange->to : &binding->queue->to, binding, in_to);
    topology->bytes += size_of(&binding->node);
    return true;
}

enum amqp_exchange_type amqp_exchange_type_of(struct amqp_bytes name) {
    unsigned type = 0;
    while (type < AMQP_EXCHANGE_TYPES && !amqp_is(name, type_names[type])) type++;
    return (enum amqp_exchange_type)type;
}

const char *amqp_exchange_type_name(enum amqp_exchange_type type) {
    return type_names[type];
}

struct amqp_exchange *amqp_exchange_waiting(struct amqp_topology *topology, const char *queue) {
    const size_t size = strlen(queue), suffix = sizeof(AMQP_WAITING_SUFFIX) - 1;
    if (size <= suffix || strcmp(queue + size - suffix, AMQP_WAITING_SUFFIX) != 0) return NULL;
    struct amqp_exchange *exchange =
        amqp_exchange_find(topology, (struct amqp_bytes){(const uint8_t *)queue, size - suffix});
    return exchange != NULL && exchange->waiting != NULL ? exchange : NULL;
}

static bool predeclare(struct amqp_topology *topology, const char *name, enum amqp_exchange_type type) {
    struct amqp_exchange *exchange = amqp_exchange_new(amqp_text(name), (struct amqp_bytes){0});
    if (exchange == NULL) return false;
    exchange->type = type;
    exchange->durable = true;
    if (amqp_exchange_add(topology, exchange)) return true;
    amqp_exchange_free(exchange);
    return false;
}

bool amqp_topology_init(struct amqp_topology *topology) {
    *topology = (struct amqp_topology){0};
    bool is_made = predeclare(topology, "amq.direct", AMQP_DIRECT) && predeclare(topology, "amq.fanout", AMQP_FANOUT) &&
                   predeclare(topology, "amq.topic", AMQP_TOPIC) &&
                   predeclare(topology, "amq.headers", AMQP_HEADERS_TYPE) &&
                   predeclare(topology, "amq.match", AMQP_HEADERS_TYPE);
    if (!is_made) amqp_topology_deinit(topology);
    return is_made;
}

static void hash_free(struct amqp_hash *table, void (*node_free)(struct amqp_node *node)) {
    for (size_t i = 0; i < table->capacity; i++) {
        struct amqp_node *node, *next;
        for (node = table->buckets[i]; node != NULL && node_free != NULL; node = next) {
            next = node->next;
            node_free(node);
        }
    }
    free(table->buckets);
}

static void free_exchange(struct amqp_node *node) {
    amqp_exchange_free((struct amqp_exchange *)node);
}
static void free_queue(struct amqp_node *node) {
    amqp_queue_free((struct amqp_queue *)node);
}
static void free_binding(struct amqp_node *node) {
    free(node);
}

void amqp_topology_deinit(struct amqp_topology *topology) {
    hash_free(&topology->routes, NULL);
    hash_free(&topology->bindings, free_binding);
    hash_free(&topology->queues, free_queue);
    hash_free(&topology->exchanges, free_exchange);
    free(topology->doomed);
    *topology = (struct amqp_topology){0};
}

bool amqp_arguments_same(struct amqp_bytes a, struct amqp_bytes b, struct amqp_bytes *out_name) {
    struct amqp_field field, other;
    const struct amqp_bytes tables[2] = {a, b};
    for (unsigned side = 0; side < 2; side++) {
        struct amqp_bytes rest = tables[side];
        while (amqp_field_next(&rest, false, &field)) {
            *out_name = field.name;
            if (!amqp_table_find_named(tables[1 - side], field.name, &other) || !amqp_field_same(&field, &other))
                return false;
        }
    }
    return true;
}

struct amqp_created amqp_created_by(const struct amqp_topology *topology, const char *creator) {
    struct amqp_created created = {0};
    const struct amqp_node *node;
    for (size_t i = 0; i < topology->exchanges.capacity; i++)
        for (node = topology->exchanges.buckets[i]; node != NULL; node = node->next)
            created.exchanges += strcmp(((const struct amqp_exchange *)node)->creator, creator) == 0;
    for (size_t i = 0; i < topology->queues.capacity; i++)
        for (node = topology->queues.buckets[i]; node != NULL; node = node->next)
            created.queues += strcmp(((const struct amqp_queue *)node)->creator, creator) == 0;
    for (size_t i = 0; i < topology->bindings.capacity; i++)
        for (node = topology->bindings.buckets[i]; node != NULL; node = node->next)
            created.bindings += strcmp(((const struct amqp_binding *)node)->creator, creator) == 0;
    return created;
}

/* ---- removal */

static bool doom(struct amqp_topology *topology, struct amqp_node *node) {
    if (topology->doomed_count == topology->doomed_capacity) {
        size_t capacity = topology->doomed_capacity == 0 ? 16 : topology->doomed_capacity * 2;
        struct amqp_node **doomed = realloc(topology->doomed, capacity * sizeof(*doomed));
        if (doomed == NULL) return false;
        topology->doomed = doomed;
        topology->doomed_capacity = capacity;
    }
    topology->doomed[topology->doomed_count++] = node;
    node->is_doomed = true;
    return true;
}

/* Returns whether the exchange is deleted with its last binding. */
static bool is_left_alone(const struct amqp_exchange *exchange) {
    const struct amqp_binding *binding;
    if (!exchange->auto_delete || exchange->node.is_doomed) return false;
    TAILQ_FOREACH(binding, &exchange->from, in_from)
    if (!binding->node.is_doomed) return false;
    return true;
}

bool amqp_doom_binding(struct amqp_topology *topology, struct amqp_binding *binding) {
    if (binding->node.is_doomed) return true;
    if (!doom(topology, &binding->node)) return false;
    return !is_left_alone(binding->source) || amqp_doom_exchange(topology, binding->source);
}

bool amqp_doom_exchange(struct amqp_topology *topology, struct amqp_exchange *exchange) {
    struct amqp_binding *binding;
    if (exchange->node.is_doomed) return true;
    if (!doom(topology, &exchange->node)) return false;
    TAILQ_FOREACH(binding, &exchange->from, in_from)
    if (!amqp_doom_binding(topology, binding)) return false;
    TAILQ_FOREACH(binding, &exchange->to, in_to)
    if (!amqp_doom_binding(topology, binding)) return false;
    return true;
}

bool amqp_doom_queue(struct amqp_topology *topology, struct amqp_queue *queue) {
    struct amqp_binding *binding;
    if (queue->node.is_doomed) return true;
    if (!doom(topology, &queue->node)) return false;
    TAILQ_FOREACH(binding, &queue->to, in_to)
    if (!amqp_doom_binding(topology, binding)) return false;
    return true;
}

static void remove_binding(struct amqp_topology *topology, struct amqp_binding *binding) {
    hash_remove(&topology->bindings, &binding->node);
    hash_remove(&topology->routes, &binding->route);
    TAILQ_REMOVE(&binding->source->from, binding, in_from);
    TAILQ_REMOVE(binding->exchange != NULL ? &binding->exchange->to : &binding->queue->to, binding, in_to);
    free(binding);
}

void amqp_doomed_order(struct amqp_topology *topology) {
    size_t bindings = 0;
    for (size_t i = 0; i < topology->doomed_count; i++) {
        struct amqp_node *node = topology->doomed[i];
        if (node->kind != 'b') continue;
        topology->doomed[i] = topology->doomed[bindings];
        topology->doomed[bindings++] = node;
    }
}

static void remove_node(struct amqp_topology *topology, struct amqp_node *node) {
    topology->bytes -= size_of(node);
    if (node->kind == 'b') {
        remove_binding(topology, (struct amqp_binding *)node);
    } else if (node->kind == 'e') {
        hash_remove(&topology->exchanges, node);
        free_exchange(node);
    } else {
        hash_remove(&topology->queues, node);
        free_queue(node);
    }
}

void amqp_doomed_end(struct amqp_topology *topology, size_t count) {
    assert(count <= topology->doomed_count);
    for (size_t i = 0; i < topology->doomed_count; i++) {
        if (i < count)
            remove_node(topology, topology->doomed[i]);
        else
            topology->doomed[i]->is_doomed = false;
    }
    topology->doomed_count = 0;
}

/* ---- definitions: the version, 'q', 'e' or 'b', and the members */

void amqp_key_of_queue(const char *name, char out[AMQP_DEFINITION_KEY_SIZE]) {
    snprintf(out, AMQP_DEFINITION_KEY_SIZE, "q:%s", name);
}

void amqp_key_of_exchange(const char *name, char out[AMQP_DEFINITION_KEY_SIZE]) {
    snprintf(out, AMQP_DEFINITION_KEY_SIZE, "e:%s", name);
}

void amqp_key_of_binding(const struct amqp_binding *binding, char out[AMQP_DEFINITION_KEY_SIZE]) {
    char hex[sizeof(binding->id) * 2 + 1];
    sodium_bin2hex(hex, sizeof(hex), binding->id, sizeof(binding->id));
    snprintf(out, AMQP_DEFINITION_KEY_SIZE, "b:%s", hex);
}

void amqp_key_of_doomed(const struct amqp_topology *topology, size_t number, char out[AMQP_DEFINITION_KEY_SIZE]) {
    const struct amqp_node *node = topology->doomed[number];
    if (node->kind == 'q')
        amqp_key_of_queue(((const struct amqp_queue *)node)->name, out);
    else if (node->kind == 'e')
        amqp_key_of_exchange(((const struct amqp_exchange *)node)->name, out);
    else
        amqp_key_of_binding((const struct amqp_binding *)node, out);
}

static struct amqp_bytes arguments_of(const uint8_t *arguments, size_t size) {
    return (struct amqp_bytes){arguments, size};
}

void amqp_put_queue(struct amqp_out *out, const struct amqp_queue *queue) {
    unsigned flags = (queue->durable ? 1u : 0) | (queue->exclusive ? 2u : 0) | (queue->auto_delete ? 4u : 0);
    amqp_put_number(out, DEFINITION_VERSION, 1);
    amqp_put_number(out, 'q', 1);
    amqp_put_number(out, flags, 1);
    amqp_put_shortstr(out, amqp_text(queue->name));
    amqp_put_longstr(out, arguments_of(queue->arguments, queue->arguments_size));
    amqp_put_shortstr(out, amqp_text(queue->creator));
}

void amqp_put_exchange(struct amqp_out *out, const struct amqp_exchange *exchange) {
    unsigned flags = (exchange->durable ? 1u : 0) | (exchange->internal ? 2u : 0) | (exchange->auto_delete ? 4u : 0);
    amqp_put_number(out, DEFINITION_VERSION, 1);
    amqp_put_number(out, 'e', 1);
    amqp_put_number(out, flags, 1);
    amqp_put_shortstr(out, amqp_text(exchange->name));
    amqp_put_longstr(out, arguments_of(exchange->arguments, exchange->arguments_size));
    amqp_put_shortstr(out, amqp_text(exchange->creator));
    amqp_put_shortstr(out, amqp_text(type_names[exchange->type]));
}

void amqp_put_binding(struct amqp_out *out, const struct amqp_binding *binding) {
    amqp_put_number(out, DEFINITION_VERSION, 1);
    amqp_put_number(out, 'b', 1);
    amqp_put_number(out, binding->exchange != NULL ? 1 : 0, 1);
    amqp_put_shortstr(out, amqp_text(binding->exchange != NULL ? binding->exchange->name : binding->queue->name));
    amqp_put_longstr(out, binding->arguments);
    amqp_put_shortstr(out, amqp_text(binding->creator));
    amqp_put_shortstr(out, amqp_text(binding->source->name));
    amqp_put_shortstr(out, binding->key);
}

struct definition {
    uint8_t kind, flags;
    struct amqp_bytes name, arguments, creator, more[2];
};

static bool has_nul(struct amqp_bytes text) {
    return text.size > 0 && memchr(text.at, '\0', text.size) != NULL;
}

static bool read_definition(struct amqp_bytes payload, struct definition *out) {
    uint64_t version, kind, flags;
    *out = (struct definition){0};
    bool is_read = amqp_take_number(&payload, 1, &version) && version == DEFINITION_VERSION &&
                   amqp_take_number(&payload, 1, &kind) && amqp_take_number(&payload, 1, &flags) &&
                   amqp_take_sized(&payload, 1, &out->name) && amqp_take_sized(&payload, 4, &out->arguments) &&
                   amqp_take_sized(&payload, 1, &out->creator);
    if (!is_read) return false;
    out->kind = (uint8_t)kind;
    out->flags = (uint8_t)flags;
    const unsigned more = kind == 'q' ? 0 : kind == 'e' ? 1 : 2;
    for (unsigned i = 0; i < more; i++)
        if (!amqp_take_sized(&payload, 1, &out->more[i])) return false;
    if (payload.size > 0 || has_nul(out->name) || has_nul(out->creator)) return false;
    return out->name.size > 0 && out->name.size <= AMQP_NAME_MAX && out->creator.size <= PRINCIPAL_SIZE_MAX &&
           amqp_table_valid(out->arguments);
}

static enum amqp_defined define_queue(struct amqp_topology *topology, const struct definition *definition) {
    bool is_refused;
    if (amqp_queue_find(topology, definition->name) != NULL) return AMQP_DEFINED;
    struct amqp_queue *queue = amqp_queue_new(definition->name, definition->arguments);
    if (queue == NULL) return AMQP_DEFINED_NO_MEMORY;
    queue->durable = (definition->flags & 1) != 0;
    queue->exclusive = (definition->flags & 2) != 0;
    queue->auto_delete = (definition->flags & 4) != 0;
    memcpy(queue->creator, definition->creator.at, definition->creator.size);
    /* Cannot fail: the arguments were checked when the queue was declared. */
    (void)amqp_queue_arguments(queue, &is_refused);
    if (amqp_queue_add(topology, queue)) return AMQP_DEFINED;
    amqp_queue_free(queue);
    return AMQP_DEFINED_NO_MEMORY;
}

static enum amqp_defined define_exchange(struct amqp_topology *topology, const struct definition *definition) {
    if (amqp_exchange_find(topology, definition->name) != NULL) return AMQP_DEFINED;
    enum amqp_exchange_type type = amqp_exchange_type_of(definition->more[0]);
    if (type == AMQP_EXCHANGE_TYPES) return AMQP_DEFINED_BADLY;
    struct amqp_exchange *exchange = amqp_exchange_new(definition->name, definition->arguments);
    if (exchange == NULL) return AMQP_DEFINED_NO_MEMORY;
    exchange->type = type;
    exchange->durable = (definition->flags & 1) != 0;
    exchange->internal = (definition->flags & 2) != 0;
    exchange->auto_delete = (definition->flags & 4) != 0;
    memcpy(exchange->creator, definition->creator.at, definition->creator.size);
    if (amqp_exchange_arguments(exchange) != NULL) {
        amqp_exchange_free(exchange);
        return AMQP_DEFINED_BADLY;
    }
    if (amqp_exchange_add(topology, exchange)) return AMQP_DEFINED;
    amqp_exchange_free(exchange);
    return AMQP_DEFINED_NO_MEMORY;
}

static enum amqp_defined define_binding(struct amqp_topology *topology, const struct definition *definition) {
    struct amqp_exchange *source = amqp_exchange_find(topology, definition->more[0]), *exchange = NULL;
    struct amqp_queue *queue = NULL;
    if (definition->flags == 1)
        exchange = amqp_exchange_find(topology, definition->name);
    else
        queue = amqp_queue_find(topology, definition->name);
    if (source == NULL || (exchange == NULL && queue == NULL)) return AMQP_DEFINED_LATER;
    struct amqp_binding *binding =
        amqp_binding_new(source, exchange, queue, definition->more[1], definition->arguments);
    if (binding == NULL) return AMQP_DEFINED_NO_MEMORY;
    memcpy(binding->creator, definition->creator.at, definition->creator.size);
    if (amqp_binding_find(topology, binding) != NULL) {
        free(binding);
        return AMQP_DEFINED;
    }
    if (amqp_binding_add(topology, binding)) return AMQP_DEFINED;
    free(binding);
    return AMQP_DEFINED_NO_MEMORY;
}

enum amqp_defined amqp_define(struct amqp_topology *topology, struct amqp_bytes payload) {
    struct definition definition;
    if (!read_definition(payload, &definition)) return AMQP_DEFINED_BADLY;
    if (definition.kind == 'q') return define_queue(topology, &definition);
    if (definition.kind == 'e') return define_exchange(topology, &definition);
    return definition.kind == 'b' ? define_binding(topology, &definition) : AMQP_DEFINED_BADLY;
}

/* ---- arguments */

static bool copy_name(const struct amqp_field *field, char *out, size_t size_max) {
    if (field->type != 'S' || field->value.size > size_max) return false;
    memcpy(out, field->value.at, field->value.size);
    out[field->value.size] = '\0';
    return memchr(out, '\0', field->value.size) == NULL;
}

const char *amqp_exchange_arguments(struct amqp_exchange *exchange) {
    struct amqp_field field;
    struct amqp_bytes arguments = {exchange->arguments, exchange->arguments_size};
    if (amqp_table_find(arguments, "alternate-exchange", &field) &&
        !copy_name(&field, exchange->alternate, AMQP_NAME_MAX))
        return "invalid arg 'alternate-exchange': it must be the name of an exchange, of at most 128 bytes";
    if (exchange->type != AMQP_DELAYED) return NULL;
    exchange->routing = AMQP_EXCHANGE_TYPES;
    if (strlen(exchange->name) > AMQP_DELAYED_NAME_MAX)
        return "the name of an exchange of the type x-delayed-message must be at most 118 bytes";
    if (amqp_table_find(arguments, "x-delayed-type", &field) && field.type == 'S')
        exchange->routing = amqp_exchange_type_of(field.value);
    if (exchange->routing >= AMQP_DELAYED)
        return "invalid arg 'x-delayed-type': it must be direct, fanout, topic or headers";
    return NULL;
}

static const char *queue_type(const struct amqp_field *field, bool *out_is_refused) {
    if (field->type != 'S') return "invalid arg 'x-queue-type': it must be a text";
    if (amqp_is(field->value, "classic") || amqp_is(field->value, "quorum")) return NULL;
    *out_is_refused = true;
    return "x-queue-type: this broker has classic and quorum queues, no streams";
}

static bool is_duration(const struct amqp_field *field, uint64_t least) {
    return field->is_integer && field->number >= 0 && (uint64_t)field->number >= least &&
           (uint64_t)field->number <= DUE_AHEAD_MAX_MS;
}

/* Arguments that change how messages are handled and that this broker does not support. A declaration with one of them
 * is refused; other unknown arguments are ignored, as in RabbitMQ. */
static const char *const refused_arguments[] = {"x-max-length", "x-max-length-bytes", "x-stream-offset", "x-max-age",
                                                "x-stream-max-segment-size-bytes"};

static const char *queue_argument(struct amqp_queue *queue, const struct amqp_field *field, bool *out_is_refused) {
    if (amqp_is(field->name, "x-message-ttl")) {
        if (!is_duration(field, 0)) return "invalid arg 'x-message-ttl': it must be 0 ms to ten years, as an integer";
        queue->has_ttl = true;
        queue->ttl_ms = (uint64_t)field->number;
    } else if (amqp_is(field->name, "x-expires")) {
        if (!is_duration(field, 1)) return "invalid arg 'x-expires': it must be 1 ms to ten years, as an integer";
        queue->expires_ms = (uint64_t)field->number;
    } else if (amqp_is(field->name, "x-single-active-consumer")) {
        if (field->type != 't') return "invalid arg 'x-single-active-consumer': it must be a boolean";
        queue->single_active = field->number != 0;
    } else if (amqp_is(field->name, "x-delivery-limit")) {
        if (!field->is_integer || field->number < 0 || field->number >= UINT32_MAX)
            return "invalid arg 'x-delivery-limit': it must be 0 or more, as an integer";
        queue->has_delivery_limit = true;
        queue->delivery_limit = (uint32_t)field->number;
    } else if (amqp_is(field->name, "x-dead-letter-exchange")) {
        if (!copy_name(field, queue->dead_exchange, AMQP_NAME_MAX))
            return "invalid arg 'x-dead-letter-exchange': it must be the name of an exchange, of at most 128 bytes";
        queue->has_dead_exchange = true;
    } else if (amqp_is(field->name, "x-dead-letter-routing-key")) {
        if (!copy_name(field, queue->dead_key, AMQP_SHORTSTR_MAX))
            return "invalid arg 'x-dead-letter-routing-key': it must be a text of at most 255 bytes";
        queue->has_dead_key = true;
    } else if (amqp_is(field->name, "x-max-priority")) {
        if (!field->is_integer || field->number < 0 || field->number > 255)
            return "invalid arg 'x-max-priority': it must be 0 to 255";
        queue->priority_max = (uint32_t)field->number;
    } else if (amqp_is(field->name, "x-queue-type")) {
        return queue_type(field, out_is_refused);
    } else {
        for (size_t i = 0; i < sizeof(refused_arguments) / sizeof(refused_arguments[0]); i++) {
            if (!amqp_is(field->name, refused_arguments[i])) continue;
            *out_is_refused = true;
            return "this broker does not support an argument of the declared queue; docs/AMQP.md lists those that it "
                   "supports";
        }
    }
    return NULL;
}

const char *amqp_queue_arguments(struct amqp_queue *queue, bool *out_is_refused) {
    struct amqp_bytes rest = {queue->arguments, queue->arguments_size};
    struct amqp_field field;
    *out_is_refused = false;
    while (amqp_field_next(&rest, false, &field)) {
        const char *problem = queue_argument(queue, &field, out_is_refused);
        if (problem != NULL) return problem;
    }
    if (queue->has_dead_key && !queue->has_dead_exchange)
        return "invalid arg 'x-dead-letter-routing-key': there is no x-dead-letter-exchange";
    return NULL;
}

/* ---- routing */

void amqp_targets_free(struct amqp_targets *targets) {
    free(targets->queues);
    *targets = (struct amqp_targets){0};
}

static void add_target(struct amqp_targets *targets, struct amqp_queue *queue) {
    for (size_t i = 0; i < targets->count; i++)
        if (targets->queues[i] == queue) return;
    if (targets->count == AMQP_TARGETS_MAX) {
        targets->failed = true;
        return;
    }
    if (targets->count == targets->capacity) {
        size_t capacity = targets->capacity == 0 ? 8 : targets->capacity * 2;
        struct amqp_queue **queues = realloc(targets->queues, capacity * sizeof(*queues));
        if (queues == NULL) {
            targets->failed = true;
            return;
        }
        targets->queues = queues;
        targets->capacity = capacity;
    }
    targets->queues[targets->count++] = queue;
}

/* Returns the length of the word at `at`, up to the next dot. */
static size_t word_size(struct amqp_bytes text, size_t at) {
    size_t size = 0;
    while (at + size < text.size && text.at[at + size] != '.') size++;
    return size;
}

/* Returns where the word after the one at `at` begins; SIZE_MAX: no further word. A text with n dots has n + 1 words,
 * but the empty text has no word. */
static size_t word_after(struct amqp_bytes text, size_t at) {
    size_t end = at + word_size(text, at);
    return end < text.size ? end + 1 : SIZE_MAX;
}

bool amqp_topic_matches(struct amqp_bytes pattern, struct amqp_bytes key) {
    size_t p = pattern.size > 0 ? 0 : SIZE_MAX, k = key.size > 0 ? 0 : SIZE_MAX;
    /* Where matching continues after a mismatch. hash_p: the place after the last # of the pattern. hash_k: the first
     * word of the key that is not yet covered by this #. */
    size_t hash_p = SIZE_MAX, hash_k = SIZE_MAX;
    bool has_hash = false;
    for (;;) {
        size_t size = p != SIZE_MAX ? word_size(pattern, p) : 0;
        if (p != SIZE_MAX && size == 1 && pattern.at[p] == '#') {
            has_hash = true;
            hash_p = p = word_after(pattern, p);
            hash_k = k;
            continue;
        }
        if (k == SIZE_MAX && p == SIZE_MAX) return true;
        bool matches = false;
        if (p != SIZE_MAX && k != SIZE_MAX) {
            size_t key_size = word_size(key, k);
            matches = (size == 1 && pattern.at[p] == '*') ||
                      (size == key_size && memcmp(pattern.at + p, key.at + k, size) == 0);
        }
        if (matches) {
            p = word_after(pattern, p);
            k = word_after(key, k);
            continue;
        }
        if (!has_hash || hash_k == SIZE_MAX) return false;
        hash_k = word_after(key, hash_k); /* extend the match of the # by one word */
        k = hash_k;
        p = hash_p;
    }
}

static bool amqp_headers_match(struct amqp_bytes arguments, struct amqp_bytes headers) {
    struct amqp_field field, found;
    bool is_any = false, with_x = false, has_one = false;
    if (amqp_table_find(arguments, "x-match", &field)) {
        is_any = amqp_is(field.value, "any") || amqp_is(field.value, "any-with-x");
        with_x = amqp_is(field.value, "any-with-x") || amqp_is(field.value, "all-with-x");
    }
    while (amqp_field_next(&arguments, false, &field)) {
        if (amqp_is(field.name, "x-match") || (!with_x && amqp_begins(field.name, "x-"))) continue;
        bool is_there = amqp_table_find_named(headers, field.name, &found);
        bool matches = is_there && (field.type == 'V' || amqp_field_same(&field, &found));
        if (is_any && matches) return true;
        if (!is_any && !matches) return false;
        has_one = true;
    }
    return !is_any || !has_one;
}

/* State of the routing of one message. */
struct route {
    struct amqp_topology *topology;
    struct amqp_bytes key, headers;
    struct amqp_targets *targets;
    unsigned hops;
};

static bool visit(struct route *route, struct amqp_exchange *exchange);

/* Adds the queue to which the binding leads. If the binding leads to an exchange, visits the exchange. */
static void follow(struct route *route, struct amqp_binding *binding) {
    if (binding->queue != NULL)
        add_target(route->targets, binding->queue);
    else
        visit(route, binding->exchange);
}

static bool matches(const struct route *route, const struct amqp_binding *binding) {
    switch (binding->source->routing) {
    case AMQP_FANOUT:
        return true;
    case AMQP_TOPIC:
        return amqp_topic_matches(binding->key, route->key);
    default:
        return amqp_headers_match(binding->arguments, route->headers);
    }
}

static bool follow_direct(struct route *route, const struct amqp_exchange *exchange) {
    bool is_any = false;
    const uint64_t hash = hash_of_route(exchange, route->key);
    const struct amqp_node *node = NULL;
    while ((node = hash_next(&route->topology->routes, hash, node)) != NULL) {
        struct amqp_binding *binding = (struct amqp_binding *)((char *)node - offsetof(struct amqp_binding, route));
        if (binding->source != exchange || !amqp_same(binding->key, route->key)) continue;
        follow(route, binding);
        is_any = true;
    }
    return is_any;
}

#define DURATION_SIZE_MAX 15u /* maximum size of a duration's text; its number fits into 64 bits */

bool amqp_duration_read(struct amqp_bytes text, uint64_t *out_ms) {
    uint64_t ms = 0;
    if (text.size == 0 || text.size > DURATION_SIZE_MAX) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') return false;
        ms = ms * 10 + (text.at[i] - '0');
    }
    *out_ms = ms;
    return ms <= DUE_AHEAD_MAX_MS;
}

bool amqp_delay_read(struct amqp_bytes headers, int64_t *out_ms) {
    struct amqp_field field;
    uint64_t ms;
    *out_ms = 0;
    if (!amqp_table_find(headers, "x-delay", &field)) return true;
    if (field.type == 'S') {
        const bool is_negative = amqp_begins(field.value, "-");
        const struct amqp_bytes digits = {field.value.at + is_negative, field.value.size - is_negative};
        if (field.value.size > DURATION_SIZE_MAX || !amqp_duration_read(digits, &ms)) return false;
        *out_ms = is_negative ? -(int64_t)ms : (int64_t)ms;
        return true;
    }
    if (!field.is_integer || field.number > (int64_t)DUE_AHEAD_MAX_MS) return false;
    *out_ms = field.number;
    return true;
}

/* Returns whether the message is not due yet. */
static bool waits(const struct route *route) {
    int64_t delay_ms;
    bool is_read = amqp_delay_read(route->headers, &delay_ms);
    route->targets->bad_delay |= !is_read;
    return is_read && delay_ms > 0;
}

/* Follows the matching bindings of an exchange; visits each exchange once. Returns false if neither the exchange nor
 * its alternate exchanges have a matching binding. */
static bool visit(struct route *route, struct amqp_exchange *exchange) {
    bool is_any = false;
    if (exchange->mark == route->topology->mark || route->hops == AMQP_HOPS_MAX) return true;
    exchange->mark = route->topology->mark;
    if (exchange->waiting != NULL && waits(route)) {
        add_target(route->targets, exchange->waiting);
        return true;
    }
    route->hops++;
    if (exchange->routing == AMQP_DIRECT) {
        is_any = follow_direct(route, exchange);
    } else {
        struct amqp_binding *binding;
        TAILQ_FOREACH(binding, &exchange->from, in_from) {
            // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
            if (!matches(route, binding)) continue;
            follow(route, binding);
            is_any = true;
        }
    }
    struct amqp_exchange *alternate = NULL;
    if (!is_any && exchange->alternate[0] != '\0')
        alternate = amqp_exchange_find(route->topology, amqp_text(exchange->alternate));
    if (alternate != NULL) is_any = visit(route, alternate);
    route->hops--;
    return is_any;
}

void amqp_route(struct amqp_topology *topology, struct amqp_exchange *exchange, struct amqp_bytes key,
                struct amqp_bytes headers, struct amqp_targets *targets) {
    struct route route = {.topology = topology, .key = key, .headers = headers, .targets = targets};
    topology->mark++;
    if (exchange != NULL) {
        visit(&route, exchange);
        return;
    }
    struct amqp_queue *queue = amqp_queue_find(topology, key);
    if (queue != NULL) add_target(targets, queue);
}
