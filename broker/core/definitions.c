/* definitions.c: see definitions.h.
 *
 *     space ─► order: indexes of items, sorted by name ─► item ─► chunk ─► chunk … : name ‖ value
 *
 * A new or a deleted definition moves all later entries of `order`, at most 256 KiB. So a commit may contain at most
 * DEFINES_PER_COMMIT_MAX definitions. */
#include "definitions.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "effects.h"
#include "sparse.h"

#define CHUNK_BYTES 60u
#define CHUNKS_PER_SPACE (DEFINITIONS_SIZE_MAX / CHUNK_BYTES)
#define CHUNKS ((size_t)CHUNKS_PER_SPACE * DEFINITION_SPACES_MAX)
#define ITEMS ((size_t)DEFINITIONS_MAX * DEFINITION_SPACES_MAX)

struct chunk {
    uint32_t next; /* index + 1 of the next chunk; 0: this is the last one of its definition, or of the unused list */
    uint8_t bytes[CHUNK_BYTES];
};

struct item {
    uint64_t version;
    uint64_t hash;
    /* Index + 1 of the first chunk of the definition. In an unused item: index + 1 of the next unused item. */
    uint32_t chunk;
    uint32_t value_size;
    uint32_t name_size;
};

struct space {
    char name[DEFINITION_SPACE_SIZE_MAX + 1]; /* name of the space; valid if it has definitions (count is not 0) */
    uint32_t count;
    uint64_t size;
    uint32_t *order; /* array of DEFINITIONS_MAX: indexes of items */
};

struct definitions {
    struct space spaces[DEFINITION_SPACES_MAX];
    struct item *items;
    struct chunk *chunks;
    uint32_t item_free, chunk_free; /* index + 1 of the first entry that was used and is unused again */
    uint32_t item_end, chunk_end;   /* entries from this index on have never been used */
};

struct definitions *definitions_new(void) {
    struct definitions *definitions = calloc(1, sizeof *definitions);
    if (!definitions) return NULL;
    definitions->items = sparse_new(ITEMS, sizeof *definitions->items);
    definitions->chunks = sparse_new(CHUNKS, sizeof *definitions->chunks);
    bool has_memory = definitions->items && definitions->chunks;
    for (size_t i = 0; i < DEFINITION_SPACES_MAX; i++) {
        definitions->spaces[i].order = sparse_new(DEFINITIONS_MAX, sizeof(uint32_t));
        has_memory = has_memory && definitions->spaces[i].order;
    }
    if (has_memory) return definitions;
    definitions_free(definitions);
    return NULL;
}

void definitions_free(struct definitions *definitions) {
    if (!definitions) return;
    sparse_free(definitions->items, ITEMS, sizeof *definitions->items);
    sparse_free(definitions->chunks, CHUNKS, sizeof *definitions->chunks);
    for (size_t i = 0; i < DEFINITION_SPACES_MAX; i++)
        sparse_free(definitions->spaces[i].order, DEFINITIONS_MAX, sizeof(uint32_t));
    free(definitions);
}

uint64_t definition_size(size_t name_size, size_t value_size) {
    return (name_size + value_size + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

/* ---- bytes */

/* Copies `size` bytes of the item, from byte `from` on. */
static void read_bytes(const struct definitions *definitions, const struct item *item, size_t from, size_t size,
                       uint8_t *out) {
    uint32_t chunk = item->chunk;
    for (; from >= CHUNK_BYTES; from -= CHUNK_BYTES) chunk = definitions->chunks[chunk - 1].next;
    while (size) {
        size_t part = CHUNK_BYTES - from < size ? CHUNK_BYTES - from : size;
        memcpy(out, definitions->chunks[chunk - 1].bytes + from, part);
        chunk = definitions->chunks[chunk - 1].next;
        out += part;
        size -= part;
        from = 0;
    }
}

static uint32_t take_chunk(struct definitions *definitions) {
    uint32_t chunk = definitions->chunk_free;
    if (!chunk) {
        assert(definitions->chunk_end < CHUNKS); /* cannot fail, because the limits of the spaces were checked */
        return ++definitions->chunk_end;
    }
    definitions->chunk_free = definitions->chunks[chunk - 1].next;
    return chunk;
}

static void write_item(struct definitions *definitions, struct item *item, const Tarry__DefinitionPut *put) {
    const ProtobufCBinaryData name = put->name, value = put->value;
    uint32_t *link = &item->chunk;
    uint8_t *bytes = NULL;
    const size_t size = name.len + value.len;
    for (size_t at = 0; at < size; at++) {
        if (at % CHUNK_BYTES == 0) {
            *link = take_chunk(definitions);
            bytes = definitions->chunks[*link - 1].bytes;
            link = &definitions->chunks[*link - 1].next;
        }
        bytes[at % CHUNK_BYTES] = at < name.len ? name.data[at] : value.data[at - name.len];
    }
    *link = 0;
    item->name_size = (uint32_t)name.len;
    item->value_size = (uint32_t)value.len;
    item->version = put->version;
    item->hash = definition_hash(put);
}

static void drop_bytes(struct definitions *definitions, struct item *item) {
    uint32_t last = item->chunk;
    while (definitions->chunks[last - 1].next) last = definitions->chunks[last - 1].next;
    definitions->chunks[last - 1].next = definitions->chunk_free;
    definitions->chunk_free = item->chunk;
}

/* ---- spaces and order */

static struct space *space_of(const struct definitions *definitions, const char *name) {
    for (size_t i = 0; i < DEFINITION_SPACES_MAX; i++) {
        const struct space *space = &definitions->spaces[i];
        if (space->count && strcmp(space->name, name) == 0) return (struct space *)space;
    }
    return NULL;
}

static struct space *space_unused(const struct definitions *definitions) {
    for (size_t i = 0; i < DEFINITION_SPACES_MAX; i++)
        if (!definitions->spaces[i].count) return (struct space *)&definitions->spaces[i];
    return NULL;
}

bool definitions_admit(const struct definitions *definitions, const char *space) {
    return space_of(definitions, space) || space_unused(definitions);
}

struct definition_use definitions_use(const struct definitions *definitions, const char *space) {
    const struct space *found = space_of(definitions, space);
    return found ? (struct definition_use){found->count, found->size} : (struct definition_use){0};
}

/* Compares names like memcmp; a name precedes every longer name that begins with it. */
static int compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    size_t size = a_size < b_size ? a_size : b_size;
    int order = size > 0 ? memcmp(a, b, size) : 0; /* the pointer of an empty name may be NULL */
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Returns the index in `order` of the first definition whose name is equal or greater. */
static uint32_t place_of(const struct definitions *definitions, const struct space *space, const uint8_t *name,
                         size_t name_size, bool *out_is_there) {
    uint8_t bytes[DEFINITION_NAME_SIZE_MAX];
    uint32_t from = 0, to = space->count;
    *out_is_there = false;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        const struct item *item = &definitions->items[space->order[middle]];
        read_bytes(definitions, item, 0, item->name_size, bytes);
        int order = compare(bytes, item->name_size, name, name_size);
        if (order == 0) *out_is_there = true;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

struct definition_state definitions_find(const struct definitions *definitions, const struct definition_key *key) {
    const struct space *space = space_of(definitions, key->space);
    bool is_there = false;
    uint32_t place = space ? place_of(definitions, space, key->name, key->name_size, &is_there) : 0;
    if (!is_there) return (struct definition_state){0};
    const struct item *item = &definitions->items[space->order[place]];
    return (struct definition_state){item->version, item->hash};
}

/* ---- records */

static void remove_at(struct definitions *definitions, struct space *space, uint32_t place) {
    const uint32_t index = space->order[place];
    struct item *item = &definitions->items[index];
    space->size -= definition_size(item->name_size, item->value_size);
    space->count--;
    memmove(space->order + place, space->order + place + 1, (space->count - place) * sizeof *space->order);
    drop_bytes(definitions, item);
    *item = (struct item){.chunk = definitions->item_free};
    definitions->item_free = index + 1;
}

static int add_at(struct definitions *definitions, struct space *space, uint32_t place,
                  const Tarry__DefinitionPut *put) {
    const uint64_t size = definition_size(put->name.len, put->value.len);
    if (space->count == DEFINITIONS_MAX || space->size + size > DEFINITIONS_SIZE_MAX) return CORE_NONSENSE;
    uint32_t index = definitions->item_free ? definitions->item_free - 1 : definitions->item_end++;
    struct item *item = &definitions->items[index];
    if (definitions->item_free) definitions->item_free = item->chunk;
    write_item(definitions, item, put);
    memmove(space->order + place + 1, space->order + place, (space->count - place) * sizeof *space->order);
    space->order[place] = index;
    space->count++;
    space->size += size;
    return 0;
}

static int replace_at(struct definitions *definitions, struct space *space, uint32_t place,
                      const Tarry__DefinitionPut *put) {
    struct item *item = &definitions->items[space->order[place]];
    const uint64_t others = space->size - definition_size(item->name_size, item->value_size);
    const uint64_t size = others + definition_size(put->name.len, put->value.len);
    if (size > DEFINITIONS_SIZE_MAX) return CORE_NONSENSE;
    drop_bytes(definitions, item);
    write_item(definitions, item, put);
    space->size = size;
    return 0;
}

int definitions_apply(struct definitions *definitions, const Tarry__DefinitionPut *put) {
    struct space *space = space_of(definitions, put->space);
    bool is_there = false;
    uint32_t place = space ? place_of(definitions, space, put->name.data, put->name.len, &is_there) : 0;
    if (is_there != (put->before_hash != 0) || (put->deleted && !is_there)) return CORE_NONSENSE;
    if (is_there && definitions->items[space->order[place]].hash != put->before_hash) return CORE_NONSENSE;
    if (put->deleted) {
        remove_at(definitions, space, place);
        return 0;
    }
    if (is_there) return replace_at(definitions, space, place, put);
    if (!space) space = space_unused(definitions);
    if (!space) return CORE_NONSENSE;
    if (!space->count) memcpy(space->name, put->space, strlen(put->space) + 1);
    return add_at(definitions, space, place, put);
}

/* ---- listing */

void definitions_list(const struct definitions *definitions, const Tarry__Definitions *request, struct arena *arena,
                      Tarry__DefinitionsReply *out) {
    const struct space *space = space_of(definitions, request->space);
    const ProtobufCBinaryData prefix = request->prefix, after = request->after;
    const uint32_t limit = request->limit ? request->limit : DEFINITIONS_LIMIT_MAX;
    bool is_there = false;
    if (!space) return;
    bool is_after = after.len && compare(after.data, after.len, prefix.data, prefix.len) >= 0;
    const ProtobufCBinaryData from = is_after ? after : prefix;
    uint32_t place = place_of(definitions, space, from.data, from.len, &is_there);
    if (is_after && is_there) place++;
    out->definitions = must_alloc(arena, limit * sizeof(Tarry__Definition *));
    for (size_t size = 0; place < space->count; place++) {
        const struct item *item = &definitions->items[space->order[place]];
        const size_t bytes = (size_t)item->name_size + item->value_size;
        uint8_t *copy = must_have(arena, bytes);
        read_bytes(definitions, item, 0, bytes, copy);
        if (item->name_size < prefix.len) return;
        if (prefix.len > 0 && memcmp(copy, prefix.data, prefix.len) != 0) return;
        out->more = out->n_definitions == limit || (size && size + bytes > DEFINITIONS_PAGE_SIZE);
        if (out->more) return;
        Tarry__Definition *definition = must_alloc(arena, sizeof *definition);
        tarry__definition__init(definition);
        definition->name = (ProtobufCBinaryData){.len = item->name_size, .data = copy};
        definition->value = (ProtobufCBinaryData){.len = item->value_size, .data = copy + item->name_size};
        definition->version = item->version;
        out->definitions[out->n_definitions++] = definition;
        size += bytes;
    }
}

void definitions_check(const struct definitions *definitions) {
    uint8_t before[DEFINITION_NAME_SIZE_MAX], bytes[DEFINITION_NAME_SIZE_MAX];
    for (size_t i = 0; i < DEFINITION_SPACES_MAX; i++) {
        const struct space *space = &definitions->spaces[i];
        uint64_t size = 0;
        size_t before_size = 0;
        for (uint32_t at = 0; at < space->count; at++) {
            const struct item *item = &definitions->items[space->order[at]];
            read_bytes(definitions, item, 0, item->name_size, bytes);
            assert(at == 0 || compare(before, before_size, bytes, item->name_size) < 0);
            memcpy(before, bytes, item->name_size);
            before_size = item->name_size;
            size += definition_size(item->name_size, item->value_size);
        }
        assert(size == space->size && size <= DEFINITIONS_SIZE_MAX);
    }
}
