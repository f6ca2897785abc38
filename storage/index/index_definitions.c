/* index_definitions.c: definitions (broker/core/definitions.h). They are rows of DB_META, whose other key is "meta".
 *
 * Key: 'D' ‖ size of space ‖ space ‖ name. Value: packed DefinitionPut, with a before_hash of 0.
 *
 * Definitions have no table of their own. An index that was made before definitions existed must open, and it lacks
 * such a table. But an opening that creates missing tables could hide lost rows (db.c). */
#include "index_parts.h"

#define KEY_MARK 'D'
#define KEY_SIZE_MAX_OF_DEFINITION (2 + DEFINITION_SPACE_SIZE_MAX + DEFINITION_NAME_SIZE_MAX)

static size_t key_encode(uint8_t out[KEY_SIZE_MAX_OF_DEFINITION], const Tarry__DefinitionPut *put) {
    const size_t space_size = strlen(put->space); /* the tally has already checked the sizes */
    out[0] = KEY_MARK;
    out[1] = (uint8_t)space_size;
    memcpy(out + 2, put->space, space_size);
    memcpy(out + 2 + space_size, put->name.data, put->name.len);
    return 2 + space_size + put->name.len;
}

int definition_absorb(struct index *index, const Tarry__DefinitionPut *put) {
    struct batch *batch = &index->batch;
    Tarry__DefinitionPut kept = *put;
    kept.before_hash = 0;
    const size_t size = put->deleted ? 0 : tarry__definition_put__get_packed_size(&kept);
    int error = VECTOR_RESERVE(&batch->bytes, KEY_SIZE_MAX_OF_DEFINITION + size);
    if (error != 0) return error;
    uint8_t *at = batch->bytes.items + batch->bytes.count;
    struct definition_change change = {.offset = batch->bytes.count, .key_size = key_encode(at, put), .size = size};
    if (size > 0) tarry__definition_put__pack(&kept, at + change.key_size);
    batch->bytes.count += change.key_size + size;
    return VECTOR_PUSH(&batch->definitions, change);
}

int definitions_write(struct index *index, MDB_txn *txn) {
    const struct batch *batch = &index->batch;
    int error = 0;
    for (size_t i = 0; i < batch->definitions.count && error == 0; i++) {
        const struct definition_change *change = &batch->definitions.items[i];
        const uint8_t *key = batch->bytes.items + change->offset;
        if (change->size > 0) {
            error = db_put(&index->db, txn, DB_META, key, change->key_size, key + change->key_size, change->size, 0);
        } else {
            error = db_del(&index->db, txn, DB_META, key, change->key_size);
            if (error == 1) error = INDEX_DAMAGED;
        }
    }
    return error;
}

struct definition_each {
    int (*each)(void *argument, const Tarry__DefinitionPut *definition);
    void *argument;
};

/* Passes one definition to the caller, after checking that its row belongs to its key. */
static int each_definition(void *argument, MDB_txn *txn, const MDB_val *key, const MDB_val *data) {
    const struct definition_each *definition_each = argument;
    uint8_t own[KEY_SIZE_MAX_OF_DEFINITION];
    if (*(const uint8_t *)key->mv_data != KEY_MARK) return 0;
    Tarry__DefinitionPut *put = tarry__definition_put__unpack(NULL, data->mv_size, data->mv_data);
    if (put == NULL) return INDEX_DAMAGED;
    bool is_sound = strlen(put->space) <= DEFINITION_SPACE_SIZE_MAX && put->name.len <= DEFINITION_NAME_SIZE_MAX &&
                    put->value.len <= DEFINITION_VALUE_SIZE_MAX && put->before_hash == 0 && !put->deleted;
    size_t size = is_sound ? key_encode(own, put) : 0;
    is_sound = is_sound && size == key->mv_size && memcmp(own, key->mv_data, size) == 0;
    int error = is_sound ? definition_each->each(definition_each->argument, put) : INDEX_DAMAGED;
    tarry__definition_put__free_unpacked(put, NULL);
    return error;
}

int index_each_definition(struct index *index, int (*each)(void *argument, const Tarry__DefinitionPut *definition),
                          void *argument) {
    struct definition_each definition_each = {each, argument};
    return each_value(index, DB_META, each_definition, &definition_each);
}
