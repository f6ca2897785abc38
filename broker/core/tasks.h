/* tasks.h: the tasks in memory: two hash tables over slab objects. Independent of lines, leases and time. */
#ifndef TARRY_CORE_TASKS_H
#define TARRY_CORE_TASKS_H

#include <string.h>

#include "serial.h"
#include "state.h"

#define CACHE_LINE 64u

/* Reasons that the broker itself gives. They are static strings, so that a thousand tasks that die at once need no
 * memory for their reasons (CAP-1). A task points to the static string and stores no copy, also if the reason was read
 * from a record. */
extern const char reason_lease_lost[];
extern const char reason_shares_large[];
extern const char reason_attempts_used[];
extern const char reason_overdue[];
/* Returns true if the text equals one of the broker's own reasons. */
bool reason_is_own(const char *reason, uint8_t size);
/* Size of the object for a client's reason. All reasons have one size, so the reasons of a commit fill the current slab
 * page, and begin at most one new page. */
#define REASON_OBJECT_SIZE 256u

/* A key with its hash. The hash is kept, because a task's key is looked up in, or added to, seven tables in its life,
 * and computing it takes 60 instructions. */
struct task_key {
    uint32_t queue;
    uint8_t size; /* bytes of the key; 0: no key */
    const char *data;
    uint64_t hash;
};
static inline struct task_key task_key_of(uint32_t queue, const char *data, size_t size) {
    return (struct task_key){queue, (uint8_t)size, data, size ? row_key_hash(queue, data, size) : 0};
}
static inline struct task_key row_key(const struct row *row) {
    return task_key_of(row->queue, row->key, row->key_size);
}
/* Returns the key in a reference to a task of this queue. */
static inline struct task_key ref_key(const struct queue *queue, const Tarry__Ref *ref) {
    return task_key_of(queue->number, (const char *)ref->key.data, ref->key.len);
}
static inline bool row_has_key(const struct row *row, const struct task_key *key) {
    return row->queue == key->queue && row->key_size == key->size && memcmp(row->key, key->data, key->size) == 0;
}

/* Prefetches all memory of a task into the CPU cache, because any change copies the row and updates lists, tables and
 * timers. Call it one or some tasks before the change. */
static inline void task_prefetch(const struct task *task) {
    for (size_t at = 0; at < sizeof *task; at += CACHE_LINE) __builtin_prefetch((const char *)task + at);
}

/* Finds a task in memory, including tombstones. NULL: it is not in memory, but may be in the index. */
struct task *task_find(const struct core *core, uint64_t id);
/* Finds the live (waiting or leased) task in memory with this key; at most one exists. */
struct task *task_find_live(struct core *core, const struct task_key *key);
/* Finds in memory the live task with this key, and the dead task that died last; NULL: none. */
void task_find_key(struct core *core, const struct task_key *key, struct task **out_live, struct task **out_dead);
/* Prefetch for batches. For each operation, first call task_prefetch_key_bucket or task_prefetch_id_bucket. Some
 * operations later, call the function that prefetches the bucket's first task. After that, look the task up. */
void task_prefetch_key_bucket(const struct core *core, uint64_t key_hash);
void task_prefetch_id_bucket(const struct core *core, uint64_t id);
/* Prefetches the buckets of a task that will be removed soon. */
void task_prefetch_buckets(const struct core *core, const struct task *task);
void task_prefetch_by_key(const struct core *core, uint64_t key_hash);
void task_prefetch_by_id(const struct core *core, uint64_t id);
/* Creates a task in the id table and, unless it is a tombstone, in the key table. Copies row, key and reason; its place
 * is PLACE_NONE. `key_hash` is row_key(row).hash. Returns NULL if memory is full; callers check that before (need.h).
 */
struct task *task_new(struct core *core, const struct row *row, uint64_t key_hash, bool tombstone);
/* Copies the row into the task, whose id, queue and key must be the same. Returns false if memory is full, which only a
 * client's reason can cause. */
bool task_set_row(struct core *core, struct task *task, const struct row *row);
/* Returns true if `task` precedes `other` in a bucket of the key table: live tasks in any order, then dead tasks,
 * latest death first. */
bool task_comes_first(const struct task *task, const struct task *other);
void task_leave_keys(struct core *core, struct task *task); /* removes an ending task's key from the key table */
void task_free(struct core *core, struct task *task); /* frees the task, which must be in no list, heap or wheel */
/* Bytes requested from the region for a task without its reason and its serial name (serial_bytes). */
size_t task_size(size_t key_size, size_t serial_size);
/* task_bytes returns the bytes that the region uses for the task and its serial name. TASK_BYTES_MAX is the maximum of
 * task_bytes. */
size_t task_bytes(const struct task *task);
#define TASK_BYTES_MAX                                                                                                 \
    (sizeof(struct task) + KEY_SIZE_MAX + sizeof(struct serial_part) + sizeof(struct serial) + SERIAL_SIZE_MAX +       \
     3 * SLAB_ALIGN)
/* Returns the part of a task with a serial name; it follows the key. */
static inline struct serial_part *task_serial_part(const struct task *task) {
    const size_t align = _Alignof(struct serial_part);
    return (struct serial_part *)((char *)task + (sizeof *task + task->row.key_size + align - 1) / align * align);
}

/* The state of a task on which a decision is based. */
struct known {
    struct row row;     /* row of the task; its key and reason are borrowed */
    uint64_t hash;      /* row_hash(row), which is removed from the digest when the task changes; 0: not computed yet */
    uint64_t key_hash;  /* row_key(row).hash */
    Tarry__Cause ended; /* CAUSE_NONE: the task is live or dead; otherwise how it ended in this draft */
};

static inline struct known known_of(const struct task *task) {
    return (struct known){.row = task->row, .hash = task->hash, .key_hash = task->key_hash};
}
/* Makes a struct known from a row of the index. */
static inline struct known known_of_row(const struct row *row) {
    return (struct known){.row = *row, .hash = row_hash(row), .key_hash = row_key(row).hash};
}

#endif
