/* tasks.c: see tasks.h. */
#include "tasks.h"

#include <string.h>

#include "slots.h"

const char reason_shares_large[] =
    "the payload and attributes, once for each group, are larger than a log frame may be";
const char reason_lease_lost[] = "the task used up its attempts: its last lease ended without an ack";
const char reason_attempts_used[] = "the task used up its attempts";
const char reason_overdue[] = "the task was overdue after an outage of the broker";

size_t task_size(size_t key_size, size_t serial_size) {
    const size_t align = _Alignof(struct serial_part), size = sizeof(struct task) + key_size;
    return serial_size ? (size + align - 1) / align * align + sizeof(struct serial_part) : size;
}

static size_t size_of(const struct task *task) {
    return task_size(task->row.key_size, task->row.serial_size);
}

size_t task_bytes(const struct task *task) {
    const size_t bytes = slab_bytes(size_of(task));
    return task->row.serial_size ? bytes + slab_bytes(serial_bytes(task->row.serial_size)) : bytes;
}

struct task *task_find(const struct core *core, uint64_t id) {
    struct task *task = core->by_id[id_slot(id, core->table_mask)];
    while (task && task->row.id != id) task = task->by_id_next;
    return task;
}

static struct task **bucket_of(const struct core *core, uint64_t key_hash) {
    return &core->by_key[hash_slot(key_hash, core->salt, core->table_mask)];
}

bool task_comes_first(const struct task *task, const struct task *other) {
    if (task->row.state != ROW_BURIED) return true;
    if (other->row.state != ROW_BURIED) return false;
    if (task->row.dead_ms != other->row.dead_ms) return task->row.dead_ms > other->row.dead_ms;
    return task->row.id > other->row.id;
}

/* Returns the first task with the key in its bucket, from `task` on. */
static struct task *next_with_key(struct core *core, struct task *task, const struct task_key *key) {
    for (; task && !row_has_key(&task->row, key); task = task->by_key_next) core->visits++;
    return task;
}

void task_find_key(struct core *core, const struct task_key *key, struct task **out_live, struct task **out_dead) {
    *out_live = *out_dead = NULL;
    if (!key->size) return;
    struct task *first = next_with_key(core, *bucket_of(core, key->hash), key);
    bool is_live = first && first->row.state != ROW_BURIED;
    if (is_live) *out_live = first;
    *out_dead = is_live ? next_with_key(core, first->by_key_next, key) : first;
}

struct task *task_find_live(struct core *core, const struct task_key *key) {
    if (!key->size) return NULL;
    struct task *first = next_with_key(core, *bucket_of(core, key->hash), key);
    return first && first->row.state != ROW_BURIED ? first : NULL;
}

static bool is_dead(const struct task *task) {
    return task->row.state == ROW_BURIED;
}

/* Sets a link of a bucket to `task`; NULL ends the bucket. */
static void set_link(struct task **at, struct task *task) {
    *at = task;
    if (task && is_dead(task)) task->dead_at = at;
}

/* Adds the task to its bucket: live tasks come first, then dead ones, latest death first. So a task that has just died
 * is the first dead one. */
static void enter_keys(struct core *core, struct task *task) {
    struct task **at = bucket_of(core, task->key_hash);
    if (is_dead(task))
        for (; *at && task_comes_first(*at, task); at = &(*at)->by_key_next) core->visits++;
    set_link(&task->by_key_next, *at);
    set_link(at, task);
    task->keyed = true;
}

void task_prefetch_key_bucket(const struct core *core, uint64_t key_hash) {
    __builtin_prefetch(bucket_of(core, key_hash));
}

void task_prefetch_id_bucket(const struct core *core, uint64_t id) {
    __builtin_prefetch(&core->by_id[id_slot(id, core->table_mask)]);
}

void task_prefetch_buckets(const struct core *core, const struct task *task) {
    task_prefetch_id_bucket(core, task->row.id);
    if (task->keyed) task_prefetch_key_bucket(core, task->key_hash);
}

void task_prefetch_by_id(const struct core *core, uint64_t id) {
    const struct task *first = core->by_id[id_slot(id, core->table_mask)];
    if (first) task_prefetch(first);
}

void task_prefetch_by_key(const struct core *core, uint64_t key_hash) {
    const struct task *first = *bucket_of(core, key_hash);
    if (!first) return;
    __builtin_prefetch(&first->row.queue);
    __builtin_prefetch(&first->by_key_next);
    __builtin_prefetch(first->key);
}

/* Returns the broker's own static sentence with this text; NULL: it is a client's sentence. */
static const char *own_reason(const char *reason, uint8_t size) {
    static const char *const own[] = {reason_lease_lost, reason_attempts_used, reason_shares_large, reason_overdue};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strlen(own[i]) == size && memcmp(own[i], reason, size) == 0) return own[i];
    }
    return NULL;
}

bool reason_is_own(const char *reason, uint8_t size) {
    return own_reason(reason, size);
}

static void drop_reason(struct core *core, struct task *task) {
    const char *reason = task->row.reason;
    if (!reason || reason_is_own(reason, task->row.reason_size)) return;
    slab_release(core->slab, (char *)reason, REASON_OBJECT_SIZE);
}

static bool set_reason(struct core *core, struct task *task, const char *reason, uint8_t size) {
    static_assert(REASON_SIZE_MAX <= REASON_OBJECT_SIZE, "a reason fits into its object");
    const char *kept = size ? own_reason(reason, size) : NULL;
    if (size && !kept) {
        char *copy = slab_alloc(core->slab, REASON_OBJECT_SIZE);
        if (!copy) return false;
        memcpy(copy, reason, size);
        kept = copy;
    }
    drop_reason(core, task);
    task->row.reason = kept;
    task->row.reason_size = size;
    return true;
}

/* Adds the task to the struct serial of its serial name, which stores the bytes of the name for all its tasks. */
static bool join_serial(struct core *core, struct task *task, const struct row *row) {
    if (!row->serial_size) return true;
    struct serial *serial = serial_join(core, row);
    if (!serial) return false;
    task->row.serial = serial->name;
    *task_serial_part(task) = (struct serial_part){.task = task};
    return true;
}

static void leave_serial(struct core *core, struct task *task) {
    if (task->row.serial_size) serial_leave(core, serial_of(task));
}

struct task *task_new(struct core *core, const struct row *row, uint64_t key_hash, bool tombstone) {
    const uint8_t serial_size = tombstone ? 0 : row->serial_size;
    struct task *task = slab_alloc(core->slab, task_size(row->key_size, serial_size));
    if (!task) return NULL;
    memset(task, 0, sizeof *task);
    task->row = *row;
    task->row.reason = NULL;
    task->row.reason_size = 0;
    task->row.serial = NULL;
    task->row.serial_size = serial_size;
    if (!tombstone && !join_serial(core, task, row)) {
        slab_release(core->slab, task, size_of(task));
        return NULL;
    }
    if (row->key_size) memcpy(task->key, row->key, row->key_size);
    task->row.key = task->key;
    task->key_hash = key_hash;
    if (!tombstone && !set_reason(core, task, row->reason, row->reason_size)) {
        leave_serial(core, task);
        slab_release(core->slab, task, size_of(task));
        return NULL;
    }
    struct task **slot = &core->by_id[id_slot(row->id, core->table_mask)];
    task->by_id_next = *slot;
    *slot = task;
    if (row->key_size && !tombstone) enter_keys(core, task);
    core->task_count++;
    return task;
}

bool task_set_row(struct core *core, struct task *task, const struct row *row) {
    assert(task->row.id == row->id && task->row.queue == row->queue && task->row.key_size == row->key_size);
    assert(task->row.serial_size == row->serial_size);
    if (task->row.reason != row->reason && !set_reason(core, task, row->reason, row->reason_size)) return false;
    const char *reason = task->row.reason, *serial = task->row.serial;
    uint8_t reason_size = task->row.reason_size;
    bool changes_place = task->keyed && (task->row.state == ROW_BURIED || row->state == ROW_BURIED);
    if (changes_place) task_leave_keys(core, task);
    task->row = *row;
    task->row.key = task->key;
    task->row.reason = reason;
    task->row.reason_size = reason_size;
    task->row.serial = serial;
    if (changes_place) enter_keys(core, task);
    return true;
}

void task_leave_keys(struct core *core, struct task *task) {
    if (!task->keyed) return;
    struct task **at = bucket_of(core, task->key_hash);
    if (is_dead(task))
        at = task->dead_at;
    else
        for (; *at != task; at = &(*at)->by_key_next) core->visits++;
    set_link(at, task->by_key_next);
    task->keyed = false;
}

void task_free(struct core *core, struct task *task) {
    assert(task->place == PLACE_NONE && !task->dirty && !wheel_is_armed(&task->timer.wheel));
    task_leave_keys(core, task);
    struct task **at = &core->by_id[id_slot(task->row.id, core->table_mask)];
    for (; *at != task; at = &(*at)->by_id_next) core->visits++;
    *at = task->by_id_next;
    drop_reason(core, task);
    leave_serial(core, task);
    slab_release(core->slab, task, size_of(task));
    core->task_count--;
}
