/* serial.c: see serial.h. */
#include "serial.h"

#include "slots.h"
#include "tasks.h"

static struct serial **bucket_of(const struct core *core, uint64_t hash) {
    return &core->by_serial[hash_slot(hash, core->salt, core->table_mask)];
}

static struct serial *find(struct core *core, const struct row *row, uint64_t hash) {
    struct serial *serial = *bucket_of(core, hash);
    for (; serial; serial = serial->by_name_next) {
        bool is_same = serial->queue == row->queue && serial->size == row->serial_size &&
                       memcmp(serial->name, row->serial, row->serial_size) == 0;
        if (is_same) return serial;
        core->visits++;
    }
    return NULL;
}

static uint64_t hash_of(const struct row *row) {
    return row_key_hash(row->queue, row->serial, row->serial_size);
}

struct serial *serial_find(struct core *core, const struct row *row) {
    return find(core, row, hash_of(row));
}

struct serial *serial_join(struct core *core, const struct row *row) {
    const uint64_t hash = hash_of(row);
    struct serial *serial = find(core, row, hash);
    if (serial) {
        serial->task_count++;
        return serial;
    }
    serial = slab_alloc(core->slab, serial_bytes(row->serial_size));
    if (!serial) return NULL;
    struct serial **bucket = bucket_of(core, hash);
    *serial = (struct serial){
        .by_name_next = *bucket, .hash = hash, .queue = row->queue, .task_count = 1, .size = row->serial_size};
    memcpy(serial->name, row->serial, row->serial_size);
    *bucket = serial;
    return serial;
}

void serial_leave(struct core *core, struct serial *serial) {
    assert(serial->task_count > 0);
    if (--serial->task_count) return;
    assert(!serial->holder && !serial->offered && !serial->waiting.count);
    struct serial **at = bucket_of(core, serial->hash);
    for (; *at != serial; at = &(*at)->by_name_next) core->visits++;
    *at = serial->by_name_next;
    slab_release(core->slab, serial, serial_bytes(serial->size));
}

/* Returns the first sort key for ready.h; the second sort key is the task's id. The priority is in the highest 8 bits;
 * due times have less than 56 bits (DUE_AHEAD_MAX_MS). */
static uint64_t order_of(const struct row *row) {
    return (uint64_t)(PRIORITY_COUNT - 1 - row->priority) << 56 | (row->due_ms & (UINT64_MAX >> 8));
}

void serial_push(struct task *task) {
    struct serial_part *part = task_serial_part(task);
    ready_push(&serial_of(task)->waiting, &part->node, order_of(&task->row), task->row.id);
}

void serial_remove(struct task *task) {
    struct serial *serial = serial_of(task);
    ready_remove(&serial->waiting, &task_serial_part(task)->node);
    if (serial->offered == task) serial->offered = NULL;
}

struct task *serial_first(const struct serial *serial) {
    struct ready_node *node = serial->holder ? NULL : ready_min(&serial->waiting);
    return node ? ((struct serial_part *)node)->task : NULL;
}

void serial_check(const struct task *task) {
    if (!task->row.serial_size) return;
    const struct serial *serial = serial_of(task);
    const bool is_ready = task->place == PLACE_READY || task->place == PLACE_PARKED;
    assert((task->place == PLACE_LEASED) == (serial->holder == task)); /* SERIAL-1 */
    assert((task->place == PLACE_READY) == (serial->offered == task));
    assert(ready_has(&task_serial_part(task)->node) == is_ready);
    assert(serial_first(serial) == serial->offered && serial->queue == task->row.queue && serial->task_count);
    /* Check the heap only for one task of the serial name. */
    if (serial->offered == task || serial->holder == task) assert(ready_check(&serial->waiting));
}
