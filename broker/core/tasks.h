/* tasks.h: the tasks in memory: two hash tables over slab objects. Knows nothing of lines, leases or time. */
#ifndef TARRY_CORE_TASKS_H
#define TARRY_CORE_TASKS_H

#include <string.h>

#include "state.h"

#define CACHE_LINE 64u

/* The reasons that the broker itself gives. They lie in static memory, for a queue that loses a thousand last attempts
 * at once needs no memory for them (CAP-1); a task that is given one of them, by a record too, keeps no copy. */
extern const char reason_lease_lost[];
extern const char reason_attempts_used[];
/* Is it one of them, by what it says? */
bool reason_is_own(const char *reason, uint8_t size);
#define REASON_OBJECT_SIZE 256u /* of a client's reason: one size, so that it begins one page at most */

/* A key, hashed once: a task's is looked up or hung into seven tables in a life (60 instructions each). */
struct task_key {
    uint32_t queue;
    uint8_t size; /* 0: none */
    const char *data;
    uint64_t hash;
};
static inline struct task_key task_key_of(uint32_t queue, const char *data, size_t size) {
    return (struct task_key){queue, (uint8_t)size, data, size ? row_key_hash(queue, data, size) : 0};
}
static inline struct task_key row_key(const struct row *row) {
    return task_key_of(row->queue, row->key, row->key_size);
}
/* As the reference has it, of its queue. */
static inline struct task_key ref_key(const struct queue *queue, const Tarry__Ref *ref) {
    return task_key_of(queue->number, (const char *)ref->key.data, ref->key.len);
}
static inline bool row_has_key(const struct row *row, const struct task_key *key) {
    return row->queue == key->queue && row->key_size == key->size && memcmp(row->key, key->data, key->size) == 0;
}

/* All of a task's memory into the cache, one or some tasks ahead: whatever happens to it, its row is copied, and it
 * leaves and enters lists, tables and timers. */
static inline void task_prefetch(const struct task *task) {
    for (size_t at = 0; at < sizeof *task; at += CACHE_LINE) __builtin_prefetch((const char *)task + at);
}

/* NULL: not in memory (which says nothing about the index). Tombstones are found too. */
struct task *task_find(const struct core *core, uint64_t id);
/* The live (waiting or leased) one in memory; at most one has the key. */
struct task *task_find_live(struct core *core, const struct task_key *key);
/* The live one and the dead one that died last, in memory; NULL: none. */
void task_find_key(struct core *core, const struct task_key *key, struct task **out_live, struct task **out_dead);
/* Into the cache, for batches: the bucket of a key's hash, or of an id, some operations ahead of the look-up; then what
 * hangs first in it. */
void task_prefetch_key_bucket(const struct core *core, uint64_t key_hash);
void task_prefetch_id_bucket(const struct core *core, uint64_t id);
/* The buckets of a task that is about to go. */
void task_prefetch_buckets(const struct core *core, const struct task *task);
void task_prefetch_by_key(const struct core *core, uint64_t key_hash);
void task_prefetch_by_id(const struct core *core, uint64_t id);
/* A new object in the id table (and, unless a tombstone, the key table); row, key and reason are copied; place NONE.
 * `key_hash`: row_key(row).hash. NULL: memory is full (need.h: the caller has seen to it that it is not). */
struct task *task_new(struct core *core, const struct row *row, uint64_t key_hash, bool tombstone);
/* Takes the row over: same id, queue, key. False: memory is full (only a client's reason needs some). */
bool task_set_row(struct core *core, struct task *task, const struct row *row);
/* The order of a bucket of keys: live tasks, in any order; then dead ones, the latest death first. */
bool task_comes_first(const struct task *task, const struct task *other);
void task_leave_keys(struct core *core, struct task *task); /* a task that ends no longer holds its key */
void task_free(struct core *core, struct task *task);       /* must be in no list, heap or wheel */
/* Bytes asked of the region, and taken there. */
size_t task_size(size_t key_size);
size_t task_bytes(const struct task *task);

/* A task as a decision sees it. */
struct known {
    struct row row;     /* key and reason borrowed */
    uint64_t hash;      /* row_hash(row): what leaves the digest when it changes; 0: not made yet */
    uint64_t key_hash;  /* row_key(row).hash */
    Tarry__Cause ended; /* CAUSE_NONE: it lives (or is dead); otherwise how it ended in this draft */
};

static inline struct known known_of(const struct task *task) {
    return (struct known){.row = task->row, .hash = task->hash, .key_hash = task->key_hash};
}
/* Of what was read from the index. */
static inline struct known known_of_row(const struct row *row) {
    return (struct known){.row = *row, .hash = row_hash(row), .key_hash = row_key(row).hash};
}

#endif
