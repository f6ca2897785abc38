/* index_calendar_chunk.c: packs and unpacks the calendar's chunks and keys. See index_calendar.h.
 *
 * A chunk has a head, and then the shorter one of two forms: the non-zero cells with their numbers (width 0), or all
 * cells with the width of the largest count. */
#include "index_calendar.h"

struct chunk_head {
    uint8_t width; /* bytes per count: 1, 2, 4 or 8; 0: only the non-zero cells, with their numbers */
    uint8_t reserved[7];
    uint64_t total;
};
struct chunk_cell {
    uint16_t cell;
    uint32_t count;
} __attribute__((packed));
_Static_assert(sizeof(struct chunk_head) == 16 && sizeof(struct chunk_cell) == 6, "the format is fixed");

void calendar_key_encode(const struct calendar_key *key, uint8_t out[CALENDAR_KEY_SIZE]) {
    put_be32(out, key->line);
    out[4] = key->level;
    put_be64(out + 5, key->chunk);
}

bool calendar_key_decode(const MDB_val *in, struct calendar_key *out) {
    const uint8_t *bytes = in->mv_data;
    if (in->mv_size != CALENDAR_KEY_SIZE) return false;
    *out = (struct calendar_key){get_be32(bytes), bytes[4], get_be64(bytes + 5)};
    return (out->line == CALENDAR_ALL || queue_number_is_valid(out->line)) && out->level < CALENDAR_LEVELS;
}

static int read_head(const MDB_val *data, struct chunk_head *out) {
    static const uint8_t zeros[sizeof out->reserved];
    if (data->mv_size <= sizeof *out) return INDEX_DAMAGED;
    memcpy(out, data->mv_data, sizeof *out);
    return out->total > 0 && memcmp(out->reserved, zeros, sizeof zeros) == 0 ? 0 : INDEX_DAMAGED;
}

int calendar_total(const MDB_val *data, uint64_t *out_total) {
    struct chunk_head head = {0};
    int error = read_head(data, &head);
    *out_total = head.total;
    return error;
}

static int unpack_few(const uint8_t *bytes, size_t size, uint64_t cells[CALENDAR_CELLS]) {
    if (size % sizeof(struct chunk_cell) != 0) return INDEX_DAMAGED;
    unsigned next = 0;
    for (size_t at = 0; at < size; at += sizeof(struct chunk_cell)) {
        struct chunk_cell cell;
        memcpy(&cell, bytes + at, sizeof cell);
        if (cell.cell < next || cell.cell >= CALENDAR_CELLS || cell.count == 0) return INDEX_DAMAGED;
        cells[cell.cell] = cell.count;
        next = cell.cell + 1u;
    }
    return 0;
}

static void unpack_all(const uint8_t *bytes, unsigned width, uint64_t cells[CALENDAR_CELLS]) {
    if (width == 8) memcpy(cells, bytes, CALENDAR_CELLS * sizeof *cells);
    for (unsigned i = 0; width == 4 && i < CALENDAR_CELLS; i++) {
        uint32_t count;
        memcpy(&count, bytes + i * sizeof count, sizeof count);
        cells[i] = count;
    }
    for (unsigned i = 0; width == 2 && i < CALENDAR_CELLS; i++) {
        uint16_t count;
        memcpy(&count, bytes + i * sizeof count, sizeof count);
        cells[i] = count;
    }
    for (unsigned i = 0; width == 1 && i < CALENDAR_CELLS; i++) cells[i] = bytes[i];
}

int calendar_unpack(const MDB_val *data, uint64_t cells[CALENDAR_CELLS], uint64_t *out_total) {
    struct chunk_head head;
    int error = read_head(data, &head);
    if (error != 0) return error;
    const uint8_t *bytes = (const uint8_t *)data->mv_data + sizeof head;
    size_t size = data->mv_size - sizeof head;
    memset(cells, 0, CALENDAR_CELLS * sizeof *cells);
    if (head.width == 0) {
        error = unpack_few(bytes, size, cells);
    } else {
        bool is_known = head.width == 1 || head.width == 2 || head.width == 4 || head.width == 8;
        if (!is_known || size != (size_t)CALENDAR_CELLS * head.width) return INDEX_DAMAGED;
        unpack_all(bytes, head.width, cells);
    }
    uint64_t total = 0;
    for (unsigned i = 0; i < CALENDAR_CELLS; i++) total += cells[i];
    if (total != head.total) return INDEX_DAMAGED;
    *out_total = total;
    return error;
}

static size_t pack_few(const uint64_t cells[CALENDAR_CELLS], uint8_t *out) {
    size_t size = 0;
    for (unsigned i = 0; i < CALENDAR_CELLS; i++) {
        if (cells[i] == 0) continue;
        struct chunk_cell cell = {(uint16_t)i, (uint32_t)cells[i]};
        memcpy(out + size, &cell, sizeof cell);
        size += sizeof cell;
    }
    return size;
}

static size_t pack_all(const uint64_t cells[CALENDAR_CELLS], unsigned width, uint8_t *out) {
    if (width == 8) memcpy(out, cells, CALENDAR_CELLS * sizeof *cells);
    for (unsigned i = 0; width == 4 && i < CALENDAR_CELLS; i++) {
        uint32_t count = (uint32_t)cells[i];
        memcpy(out + i * sizeof count, &count, sizeof count);
    }
    for (unsigned i = 0; width == 2 && i < CALENDAR_CELLS; i++) {
        uint16_t count = (uint16_t)cells[i];
        memcpy(out + i * sizeof count, &count, sizeof count);
    }
    for (unsigned i = 0; width == 1 && i < CALENDAR_CELLS; i++) out[i] = (uint8_t)cells[i];
    return (size_t)CALENDAR_CELLS * width;
}

size_t calendar_pack(const uint64_t cells[CALENDAR_CELLS], uint8_t out[CALENDAR_PACKED_MAX]) {
    struct chunk_head head = {0};
    uint64_t bits = 0;
    size_t few = 0;
    for (unsigned i = 0; i < CALENDAR_CELLS; i++) {
        few += cells[i] != 0;
        bits |= cells[i];
        head.total += cells[i];
    }
    if (head.total == 0) return 0;
    head.width = bits <= UINT8_MAX ? 1 : bits <= UINT16_MAX ? 2 : bits <= UINT32_MAX ? 4 : 8;
    bool is_sparse = head.width < 8 && few * sizeof(struct chunk_cell) <= (size_t)CALENDAR_CELLS * head.width;
    size_t width = head.width;
    if (is_sparse) head.width = 0;
    memcpy(out, &head, sizeof head);
    out += sizeof head;
    return sizeof head + (is_sparse ? pack_few(cells, out) : pack_all(cells, (unsigned)width, out));
}
