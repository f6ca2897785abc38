/* fuzz_row.c: a row of the index (without its seal), and the keys of slots and runs. An accepted row is within the
 * limits of the log's rows, can be packed again without loss, and equals a record of the log.
 *
 * The input: 8 bytes of an id, and the packed row; the same bytes are also tried as a slot's key. */
#include <assert.h>
#include <string.h>

#include "arena.h"
#include "bytes.h"
#include "fuzz.h"
#include "index_parts.h"

static void same_in_the_log(const struct row *row) {
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    uint8_t packed[1024];
    if (arena.size_max == 0) arena_init(&arena, 1u << 20);
    Tarry__Task out = TARRY__TASK__INIT;
    row_to_task(row, &out);
    size_t size = tarry__task__pack(&out, packed);
    assert(size <= sizeof(packed));
    const Tarry__Task *in = tarry__task__unpack(&arena.pb, size, packed);
    struct row again;
    assert(in != NULL && row_from_task(in, &again));
    assert(row_hash(&again) == row_hash(row));
    arena_reset(&arena);
}

static void try_row(uint64_t id, const uint8_t *data, size_t size) {
    MDB_val value = {size, (void *)data};
    struct row row, again;
    int error = row_unpack(id, &value, &row);
    if (error != 0) {
        assert(error == INDEX_DAMAGED);
        return;
    }
    assert(row.id == id && row.state < ROW_STATES && row.base < ROW_BASES && row.priority < PRIORITY_COUNT);
    assert(queue_number_is_valid(row.queue) && row_expires_at(&row) >= row.due_ms);
    uint8_t packed[PACKED_ROW_MAX];
    MDB_val repacked = {row_pack(&row, 4096, packed), packed};
    assert(repacked.mv_size <= size && row_unpack(id, &repacked, &again) == 0);
    assert(row_hash(&again) == row_hash(&row));
    if (id != 0) same_in_the_log(&row);
}

static void try_slot_key(const uint8_t *data, size_t size) {
    MDB_val value = {size, (void *)data};
    struct slot_key key;
    if (!slot_key_decode(&value, &key)) return;
    assert(size == SLOT_KEY_SIZE && key.level < SLOT_LEVELS);
    assert(key.line.base < ROW_BASES && key.line.priority < PRIORITY_COUNT);
    uint8_t again[SLOT_KEY_SIZE];
    slot_key_encode(&key, again);
    assert(memcmp(again, data, SLOT_KEY_SIZE) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_slot_key(data, size);
    if (size < 8 || size > PACKED_ROW_MAX) return 0;
    try_row(get_u64(data), data + 8, size - 8);
    return 0;
}
