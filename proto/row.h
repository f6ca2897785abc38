/* row.h: the row of a task as a C struct, and hashes of rows.
 *
 * The same row is stored in memory (core), in LMDB (index) and in the log (tarry.Task). `row_hash` is equal for all
 * three, which the digest relies on. */
#ifndef TARRY_PROTO_ROW_H
#define TARRY_PROTO_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

enum row_state { ROW_WAITING = 0, ROW_LEASED = 1, ROW_BURIED = 2 }; /* same values as Task.State */
enum row_base { ROW_STEADY = 0, ROW_WALL = 1 };                     /* same values as Task.Base */
#define ROW_STATES 3

/* Task states as users know them, as bits (List, QueuePurge). ROW_WAITING is pending before the due time and ready
 * after it. */
enum state_bit { STATE_PENDING = 1, STATE_READY = 2, STATE_IN_FLIGHT = 4, STATE_DEAD = 8 };
#define STATE_ALL 15u
const char *state_bit_name(uint32_t bit);

#define ROW_BASES 2

/* A queue number identifies a queue for ever in rows, records, key hashes and outcomes. It consists of a place in
 * the table of queues (QUEUE_PLACES) and a generation: how many queues had the place before. A place is reused, a
 * number is not. So nothing of a deleted queue is mistaken for a later queue's. In generation 0 the number equals
 * the place. */
#define QUEUE_PLACE_BITS 13u
#define QUEUE_GENERATION_MAX (UINT32_MAX >> QUEUE_PLACE_BITS)
static inline uint32_t queue_place(uint32_t number) {
    return number & ((1u << QUEUE_PLACE_BITS) - 1);
}
static inline uint32_t queue_generation(uint32_t number) {
    return number >> QUEUE_PLACE_BITS;
}
static inline uint32_t queue_number(uint32_t place, uint32_t generation) {
    return generation << QUEUE_PLACE_BITS | place;
}
bool queue_number_is_valid(uint32_t number);

struct row {
    uint64_t id; /* id of the task; grows in the order of scheduling; never 0 */
    uint64_t due_ms;
    uint64_t expires_ms; /* duration after due at which the task expires; 0: never */
    uint64_t scheduled_ms;
    /* Log position of the content. Below log_start the content is in the index, under the task's id. */
    uint64_t blob_at;
    uint64_t blob_sum;
    uint64_t lease_position;
    uint64_t lease_deadline_ms; /* end of the lease; valid in state ROW_LEASED */
    uint64_t session;           /* session of the current or last lease; 0: never delivered */
    uint64_t delivered_ms;      /* time of the current or last delivery; 0: never delivered */
    uint64_t dead_ms;           /* time at which the task became a dead letter; valid in state ROW_BURIED */
    uint32_t queue;
    uint32_t blob_size;
    uint32_t attempt;
    uint32_t deliveries;
    uint32_t lease_epoch;
    uint32_t spread_ms; /* how much later than requested the task is due (Policy.spread_ms) */
    /* Settings of this task that replace those of its queue's policy (OWN-1): max_attempts above, and the following
     * two. 0: the policy's value holds. Set them with row_set_own, which also sets has_own. */
    uint32_t backoff_ms;
    uint32_t lease_ms;
    uint8_t priority;
    uint8_t base;  /* enum row_base */
    uint8_t state; /* enum row_state */
    uint8_t key_size;
    uint8_t reason_size;
    uint8_t serial_size;
    uint16_t max_attempts : 15;
    uint16_t has_own : 1; /* one of the task's own settings is not 0 */
    const char *key;      /* key of the task, not terminated; borrowed from the owner of the row's memory */
    const char *reason;   /* why the task is a dead letter; valid in state ROW_BURIED */
    const char *serial;   /* serial name (SERIAL-1); not terminated, borrowed like the key */
};

/* Sets the task's own settings (OWN-1). */
static inline void row_set_own(struct row *row, uint32_t max_attempts, uint64_t backoff_ms, uint64_t lease_ms) {
    row->max_attempts = max_attempts & 0x7fff;
    row->backoff_ms = (uint32_t)backoff_ms;
    row->lease_ms = (uint32_t)lease_ms;
    row->has_own = (max_attempts | backoff_ms | lease_ms) != 0;
}

/* Returns the enum state_bit of a live task at `now_ms`, a time of the row's base. */
static inline uint32_t state_bit_of(const struct row *row, uint64_t now_ms) {
    if (row->state == ROW_LEASED) return STATE_IN_FLIGHT;
    if (row->state == ROW_BURIED) return STATE_DEAD;
    return row->due_ms <= now_ms ? STATE_READY : STATE_PENDING;
}

/* Identifies a line: the waiting tasks of one queue that have the same time base (steady or wall clock) and priority.
 */
struct line {
    uint32_t queue;
    uint8_t base;
    uint8_t priority;
};

/* Sort key within a line: due time, then id. */
struct due {
    uint64_t due_ms;
    uint64_t id;
};
#define DUE_END ((struct due){UINT64_MAX, UINT64_MAX})

static inline bool due_before(struct due a, struct due b) {
    return a.due_ms != b.due_ms ? a.due_ms < b.due_ms : a.id < b.id;
}

/* Reference to a task: by id, or (id = 0) by queue and key. */
struct want {
    uint64_t id;
    uint32_t queue;
    uint8_t key_size;
    bool live_only; /* if the task is named by its key: ignore dead letters */
    const char *key;
};

/* An ended task, remembered for a limited time (TRUE-1). */
struct outcome {
    uint64_t id;
    uint64_t ended_ms;
    uint64_t due_ms;
    uint64_t session; /* session of the last delivery; 0: the task was never delivered */
    uint64_t delivered_ms;
    uint32_t queue;
    uint32_t deliveries;
    uint16_t cause; /* Tarry__Cause */
    uint8_t priority;
    uint8_t key_size;
    bool redacted; /* true: the task's contents were redacted later */
    const char *key;
};
/* Cause of an index entry that records no outcome: the content of the ended task with this id was redacted. */
#define OUTCOME_REDACTION 0x8000u

/* Returns the row's contribution to the digest, which does not depend on order: XXH3-64 of a canonical encoding of
 * all fields, with key and reason. Never 0, so 0 can mean "no row". Thread-safe, no I/O. */
uint64_t row_hash(const struct row *row);

/* Returns the hash of (queue, key) for filters and tables. Thread-safe, no I/O. */
uint64_t row_key_hash(uint32_t queue, const void *key, size_t key_size);

/* Converts a task of the log. `out` borrows key and reason from `task`. False: a field is out of range (a damaged
 * log). */
bool row_from_task(const Tarry__Task *task, struct row *out);

/* Converts a row, setting all fields of `out`, which borrows key and reason from `row`. */
void row_to_task(const struct row *row, Tarry__Task *out);

/* Returns the row from which the outcome of an ended task is made. For a task of a topic that was shared among groups,
 * `session` is the id of the first share and `deliveries` is the number of shares. These two fields are free in that
 * case, because no consumer had the task. */
struct row row_at_end(const Tarry__TaskEnd *end, const struct row *row);
/* Returns true if the task belonged to a topic and was shared among its groups, or if no group's filter matched it. In
 * both cases row_at_end returns a changed row. */
bool end_is_sharing(const Tarry__TaskEnd *end);

/* Returns the expiry time of the row (due + expires, saturating); UINT64_MAX: never. */
uint64_t row_expires_at(const struct row *row);

/* Returns the hash of a queue's row for the digest; never 0. */
uint64_t queue_hash(const Tarry__QueuePut *queue);
/* Returns a definition's contribution to the digest; never 0. Covers space, name, value and version. */
uint64_t definition_hash(const Tarry__DefinitionPut *put);

/* Return a recurrence's contributions to the digest: recur_hash covers its state, recur_set_hash its definition. Never
 * 0. */
uint64_t recur_hash(uint64_t number, const Tarry__RecurState *state);
uint64_t recur_set_hash(const Tarry__RecurSet *set);
#define RECUR_NUMBER_MAX (UINT64_MAX / 4) /* highest number of an occurrence in a record; lowest: 1 */

#endif
