/* index_rows.c: packs and unpacks rows, and finds live or dead rows.
 *
 * A packed row has every field of struct row, so that row_hash stays equal; optional fields only when they are not
 * zero. It also has the log position of the record that changed it last (LOG-3). */
#include "index_parts.h"

#include <assert.h>

enum row_flag {
    ROW_STATE_MASK = 3,
    ROW_WALL_BIT = 4,
    ROW_HAS_EXPIRES = 8,
    ROW_HAS_LEASE = 16,
    ROW_HAS_DEAD = 32,
    ROW_HAS_SERIAL = 64,  /* the row ends with the serial name and, in its last byte, the size of the name */
    ROW_HAS_SPREAD = 128, /* the last free bit; so no value of the byte is invalid */
};
/* This bit in the priority's byte is set if the row has a struct packed_own. A program that does not know this bit
 * refuses the priority, and the index itself (INDEX_FORMAT_OWN). */
#define ROW_HAS_OWN 128u

struct packed_head {
    uint8_t flags;
    uint8_t priority;
    uint8_t key_size;
    uint8_t reason_size;
    uint32_t queue;
    uint64_t due_ms;
    uint64_t scheduled_ms;
    uint64_t blob_at;
    uint64_t blob_sum;
    uint32_t blob_size;
    uint64_t changed;
} __attribute__((packed));

struct packed_lease {
    uint32_t attempt;
    uint32_t deliveries;
    uint32_t epoch;
    uint64_t position;
    uint64_t deadline_ms;
    uint64_t session;
    uint64_t delivered_ms;
} __attribute__((packed));

struct packed_own {
    uint16_t max_attempts;
    uint32_t backoff_ms;
    uint32_t lease_ms;
} __attribute__((packed));

_Static_assert(sizeof(struct packed_head) == 52 && sizeof(struct packed_lease) == 44 && sizeof(struct packed_own) == 10,
               "the format is fixed");
_Static_assert(sizeof(struct packed_head) + sizeof(struct packed_lease) + sizeof(struct packed_own) + 21 +
                       KEY_SIZE_MAX + REASON_SIZE_MAX + SERIAL_SIZE_MAX <=
                   PACKED_ROW_MAX,
               "every row fits");

static uint8_t *put(uint8_t *at, const void *data, size_t size) {
    if (size > 0) memcpy(at, data, size);
    return at + size;
}

size_t row_pack(const struct row *row, uint64_t changed, uint8_t out[PACKED_ROW_MAX]) {
    struct packed_lease lease = {row->attempt,           row->deliveries, row->lease_epoch, row->lease_position,
                                 row->lease_deadline_ms, row->session,    row->delivered_ms};
    static const struct packed_lease none;
    bool has_lease = memcmp(&lease, &none, sizeof lease) != 0;
    struct packed_head head = {
        .flags = (uint8_t)(row->state | (row->base ? ROW_WALL_BIT : 0) | (row->expires_ms ? ROW_HAS_EXPIRES : 0) |
                           (has_lease ? ROW_HAS_LEASE : 0) | (row->dead_ms ? ROW_HAS_DEAD : 0) |
                           (row->spread_ms ? ROW_HAS_SPREAD : 0)),
        .priority = row->priority,
        .key_size = row->key_size,
        .reason_size = row->reason_size,
        .queue = row->queue,
        .due_ms = row->due_ms,
        .scheduled_ms = row->scheduled_ms,
        .blob_at = row->blob_at,
        .blob_sum = row->blob_sum,
        .blob_size = row->blob_size,
        .changed = changed,
    };
    assert(row->state < ROW_STATES && row->base < ROW_BASES);
    uint8_t *at = put(out, &head, sizeof head);
    if (row->expires_ms) at = put(at, &row->expires_ms, 8);
    if (has_lease) at = put(at, &lease, sizeof lease);
    if (row->dead_ms) at = put(at, &row->dead_ms, 8);
    if (row->spread_ms) at = put(at, &row->spread_ms, 4);
    if (row->has_own) {
        out[offsetof(struct packed_head, priority)] |= ROW_HAS_OWN;
        struct packed_own own = {row->max_attempts, row->backoff_ms, row->lease_ms};
        at = put(at, &own, sizeof own);
    }
    at = put(at, row->key, row->key_size);
    at = put(at, row->reason, row->reason_size);
    if (row->serial_size) {
        out[offsetof(struct packed_head, flags)] |= ROW_HAS_SERIAL;
        at = put(at, row->serial, row->serial_size);
        *at++ = row->serial_size;
    }
    return (size_t)(at - out);
}

/* Returns the size of the packed row. `serial_room`: bytes of the serial name and of its size; 0: the row has no serial
 * name. */
static size_t packed_size(const struct packed_head *head, size_t serial_room) {
    return sizeof *head + (head->flags & ROW_HAS_EXPIRES ? 8 : 0) +
           (head->flags & ROW_HAS_LEASE ? sizeof(struct packed_lease) : 0) + (head->flags & ROW_HAS_DEAD ? 8 : 0) +
           (head->flags & ROW_HAS_SPREAD ? 4 : 0) + (head->priority & ROW_HAS_OWN ? sizeof(struct packed_own) : 0) +
           head->key_size + head->reason_size + serial_room;
}

int row_unpack(uint64_t id, const MDB_val *data, struct row *out) {
    struct packed_head head;
    if (data->mv_size < sizeof head) return INDEX_DAMAGED;
    memcpy(&head, data->mv_data, sizeof head);
    const uint8_t last = ((const uint8_t *)data->mv_data)[data->mv_size - 1];
    const size_t serial_room = head.flags & ROW_HAS_SERIAL ? (size_t)last + 1 : 0;
    if (packed_size(&head, serial_room) != data->mv_size) return INDEX_DAMAGED;
    if ((head.flags & ROW_STATE_MASK) >= ROW_STATES) return INDEX_DAMAGED;
    if (head.blob_size > FRAME_BLOB_SIZE_MAX) return INDEX_DAMAGED;
    const uint8_t priority = head.priority & (uint8_t)~ROW_HAS_OWN;
    if (priority >= PRIORITY_COUNT || !queue_number_is_valid(head.queue)) return INDEX_DAMAGED;
    *out = (struct row){
        .id = id,
        .due_ms = head.due_ms,
        .scheduled_ms = head.scheduled_ms,
        .blob_at = head.blob_at,
        .blob_sum = head.blob_sum,
        .blob_size = head.blob_size,
        .queue = head.queue,
        .priority = priority,
        .base = head.flags & ROW_WALL_BIT ? ROW_WALL : ROW_STEADY,
        .state = head.flags & ROW_STATE_MASK,
        .key_size = head.key_size,
        .reason_size = head.reason_size,
    };
    const uint8_t *at = (const uint8_t *)data->mv_data + sizeof head;
    if (head.flags & ROW_HAS_EXPIRES) {
        memcpy(&out->expires_ms, at, 8);
        at += 8;
    }
    if (head.flags & ROW_HAS_LEASE) {
        struct packed_lease lease;
        memcpy(&lease, at, sizeof lease);
        at += sizeof lease;
        out->attempt = lease.attempt;
        out->deliveries = lease.deliveries;
        out->lease_epoch = lease.epoch;
        out->lease_position = lease.position;
        out->lease_deadline_ms = lease.deadline_ms;
        out->session = lease.session;
        out->delivered_ms = lease.delivered_ms;
    }
    if (head.flags & ROW_HAS_DEAD) {
        memcpy(&out->dead_ms, at, 8);
        at += 8;
    }
    if (head.flags & ROW_HAS_SPREAD) {
        memcpy(&out->spread_ms, at, 4);
        at += 4;
    }
    if (head.priority & ROW_HAS_OWN) {
        struct packed_own own;
        memcpy(&own, at, sizeof own);
        at += sizeof own;
        row_set_own(out, own.max_attempts, own.backoff_ms, own.lease_ms);
    }
    out->key = (const char *)at;
    out->reason = (const char *)at + head.key_size;
    out->serial = out->reason + head.reason_size;
    out->serial_size = serial_room ? last : 0;
    return 0;
}

int row_get_leased(struct index *index, MDB_txn *txn, uint64_t id, struct row *out) {
    MDB_val data;
    int error = db_get(&index->db, txn, DB_LEASED, &id, sizeof id, &data);
    if (error == 0) error = row_unpack(id, &data, out);
    return error == 0 && out->state != ROW_LEASED ? INDEX_DAMAGED : error;
}

int row_get(struct index *index, MDB_txn *txn, uint64_t id, struct row *out) {
    MDB_val data;
    int leased = row_get_leased(index, txn, id, out);
    if (leased != 1) return leased;
    int error = db_get(&index->db, txn, DB_ROWS, &id, sizeof id, &data);
    return error != 0 ? error : row_unpack(id, &data, out);
}

int row_keep(const struct row *row, struct arena *arena, struct row *out) {
    *out = *row;
    size_t size = (size_t)row->key_size + row->reason_size + row->serial_size;
    if (size == 0) {
        out->key = out->reason = out->serial = "";
        return 0;
    }
    char *text = arena_alloc(arena, size);
    if (text == NULL) return -ENOMEM;
    memcpy(text, row->key, row->key_size);
    if (row->reason_size > 0) memcpy(text + row->key_size, row->reason, row->reason_size);
    out->key = text;
    out->reason = text + row->key_size;
    out->serial = out->reason + row->reason_size;
    if (row->serial_size > 0) memcpy(text + row->key_size + row->reason_size, row->serial, row->serial_size);
    return 0;
}

int range_view_ended(struct index *index, MDB_txn *txn, struct range_view *view, uint64_t id, bool *out) {
    uint64_t number = id >> RANGE_SHIFT;
    if (view->number != number) {
        MDB_val data;
        int error = db_get(&index->db, txn, DB_RANGES, &number, sizeof number, &data);
        if (error < 0) return error;
        view->is_there = error == 0;
        view->has_bits = view->is_there && data.mv_size == 4 + RANGE_BYTES;
        if (view->is_there && !view->has_bits && data.mv_size != 4) return INDEX_DAMAGED;
        if (view->has_bits) memcpy(view->bits, (const uint8_t *)data.mv_data + 4, RANGE_BYTES);
        view->number = number;
    }
    unsigned bit = id & (RANGE_IDS - 1);
    *out = !view->is_there || (view->has_bits && (view->bits[bit / 8] >> (bit % 8) & 1));
    return 0;
}

int row_get_live(struct index *index, MDB_txn *txn, struct range_view *view, uint64_t next_id, uint64_t id,
                 struct row *out) {
    if (id == 0 || id >= next_id) return 1;
    bool ended;
    int error = range_view_ended(index, txn, view, id, &ended);
    if (error != 0) return error;
    if (ended) return 1;
    error = row_get(index, txn, id, out);
    return error == 1 ? INDEX_DAMAGED : error; /* I-1 */
}
