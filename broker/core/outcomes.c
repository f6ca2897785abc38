/* outcomes.c: see outcomes.h. Entries are in a ring in the order of ending. Two hash tables (by id, and by queue and
 * key) chain them by index, newest first. The chains are doubly linked, so that the oldest entry can be removed in
 * O(1), even if many entries have its key. */
#include "outcomes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "slots.h"
#include "sparse.h"

struct link { /* Neighbours in a chain, as index + 1; 0: none. */
    uint32_t next;
    uint32_t prev;
};

struct entry {
    struct outcome outcome;
    uint64_t key_hash;
    struct link by_id;
    struct link by_key;
};

/* Counts the remembered outcomes of the queue at one place of the table of queues. */
struct queue_endings {
    uint32_t number; /* number of the queue; 0: no outcome of a queue at this place is remembered */
    uint32_t count;
    uint64_t last_ms;
};

struct outcomes {
    struct queue_endings queues[1u << QUEUE_PLACE_BITS];
    uint32_t count_max;
    uint64_t retention_ms;
    uint64_t known_since_ms;
    uint64_t first; /* sequence number of the oldest; entry index = sequence % count_max */
    uint64_t next;
    /* Sequence number at or before the oldest entry with a key: no earlier entry has a key. first ≤ first_keyed ≤
     * next. */
    uint64_t first_keyed;
    uint32_t mask;
    uint64_t salt; /* see slots.h */
    struct entry *entries;
    uint32_t *ids; /* first entries of the chains by id */
    uint32_t *keys;
    char *bytes; /* ring of keys; no key wraps around the end */
    size_t bytes_size;
    size_t bytes_head; /* position in the ring at which the next key is stored */
};

struct outcomes *outcomes_new(uint32_t count_max, uint64_t retention_ms) {
    assert(count_max > 0);
    struct outcomes *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    uint32_t heads = 1024;
    while (heads < count_max && heads < 1u << 30) heads *= 2;
    o->count_max = count_max;
    o->retention_ms = retention_ms;
    o->mask = heads - 1;
    o->salt = 1;
    o->bytes_size = (size_t)count_max * OUTCOME_KEY_BYTES_EACH + 4 * 256;
    o->entries = sparse_new(count_max, sizeof *o->entries);
    o->ids = sparse_new(heads, sizeof *o->ids);
    o->keys = sparse_new(heads, sizeof *o->keys);
    o->bytes = sparse_new(o->bytes_size, 1);
    if (o->entries && o->ids && o->keys && o->bytes) return o;
    outcomes_free(o);
    return NULL;
}

void outcomes_set_salt(struct outcomes *o, uint64_t salt) {
    assert(o->next == 0);
    o->salt = salt;
}

void outcomes_free(struct outcomes *o) {
    if (!o) return;
    sparse_free(o->entries, o->count_max, sizeof *o->entries);
    sparse_free(o->ids, (size_t)o->mask + 1, sizeof *o->ids);
    sparse_free(o->keys, (size_t)o->mask + 1, sizeof *o->keys);
    sparse_free(o->bytes, o->bytes_size, 1);
    free(o);
}

static struct link *link_of(struct entry *entry, bool by_key) {
    return by_key ? &entry->by_key : &entry->by_id;
}

static void chain_insert(struct outcomes *o, uint32_t *head, uint32_t index, bool by_key) {
    struct link *link = link_of(&o->entries[index], by_key);
    *link = (struct link){.next = *head, .prev = 0};
    if (*head) link_of(&o->entries[*head - 1], by_key)->prev = index + 1;
    *head = index + 1;
}

static void chain_remove(struct outcomes *o, uint32_t *head, uint32_t index, bool by_key) {
    struct link *link = link_of(&o->entries[index], by_key);
    if (link->prev) {
        link_of(&o->entries[link->prev - 1], by_key)->next = link->next;
    } else {
        assert(*head == index + 1);
        *head = link->next;
    }
    if (link->next) link_of(&o->entries[link->next - 1], by_key)->prev = link->prev;
}

void outcomes_forget(struct outcomes *o, uint64_t ended_ms) {
    /* An outcome of `ended_ms` is forgotten. So all outcomes are known only from the next millisecond on (TRUE-1). */
    if (ended_ms >= o->known_since_ms) o->known_since_ms = ended_ms + 1;
}

void outcomes_lose_queue(struct outcomes *o, uint32_t number) {
    struct queue_endings *endings = &o->queues[queue_place(number)];
    if (endings->number != number) return;
    if (endings->count) outcomes_forget(o, endings->last_ms);
    *endings = (struct queue_endings){0};
}

uint32_t outcomes_of_queue(const struct outcomes *o, uint32_t number) {
    const struct queue_endings *endings = &o->queues[queue_place(number)];
    return endings->number == number ? endings->count : 0;
}

static void count_ending(struct outcomes *o, const struct outcome *outcome) {
    struct queue_endings *endings = &o->queues[queue_place(outcome->queue)];
    if (endings->number != outcome->queue) {
        outcomes_lose_queue(o, endings->number);
        endings->number = outcome->queue;
    }
    endings->count++;
    endings->last_ms = outcome->ended_ms;
}

static void uncount_ending(struct outcomes *o, const struct outcome *outcome) {
    struct queue_endings *endings = &o->queues[queue_place(outcome->queue)];
    if (endings->number == outcome->queue && endings->count) endings->count--;
}

static void drop_oldest(struct outcomes *o) {
    assert(o->first < o->next);
    uint32_t index = (uint32_t)(o->first % o->count_max);
    struct entry *entry = &o->entries[index];
    chain_remove(o, &o->ids[id_slot(entry->outcome.id, o->mask)], index, false);
    if (entry->outcome.key_size) chain_remove(o, &o->keys[hash_slot(entry->key_hash, o->salt, o->mask)], index, true);
    outcomes_forget(o, entry->outcome.ended_ms);
    uncount_ending(o, &entry->outcome);
    o->first++;
}

/* Returns true if a write to the bytes from `at` to `at + size` would overwrite the key of the oldest entry with a key.
 * `first_keyed` remembers which entries without a key were skipped. Without it, a burst of such entries would be
 * searched at every call. */
static bool oldest_overlaps(struct outcomes *o, size_t at, size_t size) {
    if (o->first_keyed < o->first) o->first_keyed = o->first;
    while (o->first_keyed < o->next && !o->entries[o->first_keyed % o->count_max].outcome.key_size) o->first_keyed++;
    if (o->first_keyed == o->next) return false;
    const struct outcome *outcome = &o->entries[o->first_keyed % o->count_max].outcome;
    size_t start = (size_t)(outcome->key - o->bytes);
    return start < at + size && at < start + outcome->key_size;
}

static char *take_bytes(struct outcomes *o, size_t size) {
    size_t at = o->bytes_head;
    if (at + size > o->bytes_size) {
        /* Keys from here to the end of the ring are older than keys at its start, so drop them first. */
        while (oldest_overlaps(o, at, o->bytes_size - at)) drop_oldest(o);
        at = 0;
    }
    while (oldest_overlaps(o, at, size)) drop_oldest(o);
    o->bytes_head = at + size;
    return o->bytes + at;
}

void outcomes_prefetch(const struct outcomes *o, uint64_t key_hash) {
    __builtin_prefetch(&o->keys[hash_slot(key_hash, o->salt, o->mask)], 1);
}

static bool is_old(const struct outcomes *o, const struct outcome *outcome, uint64_t now_ms) {
    return now_ms > o->retention_ms && outcome->ended_ms < now_ms - o->retention_ms;
}

void outcomes_expire(struct outcomes *o, uint64_t now_ms) {
    while (o->next > o->first && is_old(o, &o->entries[o->first % o->count_max].outcome, now_ms)) drop_oldest(o);
}

void outcomes_push_hashed(struct outcomes *o, const struct outcome *outcome, uint64_t key_hash) {
    while (o->next > o->first) {
        const struct outcome *oldest = &o->entries[o->first % o->count_max].outcome;
        if (!is_old(o, oldest, outcome->ended_ms) && o->next - o->first < o->count_max) break;
        drop_oldest(o);
    }
    char *key = outcome->key_size ? take_bytes(o, outcome->key_size) : NULL;
    uint32_t index = (uint32_t)(o->next % o->count_max);
    struct entry *entry = &o->entries[index];
    *entry = (struct entry){.outcome = *outcome};
    entry->outcome.key = key;
    if (key) {
        memcpy(key, outcome->key, outcome->key_size);
        entry->key_hash = key_hash;
        chain_insert(o, &o->keys[hash_slot(entry->key_hash, o->salt, o->mask)], index, true);
    }
    chain_insert(o, &o->ids[id_slot(outcome->id, o->mask)], index, false);
    count_ending(o, outcome);
    o->next++;
}

void outcomes_push(struct outcomes *o, const struct outcome *outcome) {
    outcomes_push_hashed(o, outcome, row_key_hash(outcome->queue, outcome->key, outcome->key_size));
}

static bool is_remembered(const struct outcomes *o, const struct outcome *outcome) {
    return o->queues[queue_place(outcome->queue)].number == outcome->queue;
}

const struct outcome *outcomes_by_id(const struct outcomes *o, uint64_t id) {
    for (uint32_t at = o->ids[id_slot(id, o->mask)]; at; at = o->entries[at - 1].by_id.next) {
        const struct outcome *outcome = &o->entries[at - 1].outcome;
        if (outcome->id == id) return is_remembered(o, outcome) ? outcome : NULL;
    }
    return NULL;
}

const struct outcome *outcomes_by_key(const struct outcomes *o, uint32_t queue, const char *key, uint8_t key_size) {
    uint64_t hash = row_key_hash(queue, key, key_size);
    for (uint32_t at = o->keys[hash_slot(hash, o->salt, o->mask)]; at; at = o->entries[at - 1].by_key.next) {
        const struct entry *entry = &o->entries[at - 1];
        if (entry->key_hash == hash && entry->outcome.queue == queue && entry->outcome.key_size == key_size &&
            memcmp(entry->outcome.key, key, key_size) == 0) {
            return is_remembered(o, &entry->outcome) ? &entry->outcome : NULL;
        }
    }
    return NULL;
}

void outcomes_redacted(struct outcomes *o, uint64_t id) {
    struct outcome *outcome = (struct outcome *)outcomes_by_id(o, id);
    if (outcome) outcome->redacted = true;
}

uint64_t outcomes_known_since(const struct outcomes *o) {
    return o->known_since_ms;
}
void outcomes_set_known_since(struct outcomes *o, uint64_t known_since_ms) {
    o->known_since_ms = known_since_ms;
}
uint64_t outcomes_count(const struct outcomes *o) {
    return o->next - o->first;
}
