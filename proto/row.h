/* row.h: the logical row of a task in plain C, and the hashes over it.
 *
 * The same row lives in memory (core), in LMDB (index) and in the log (tarry.Task); `row_hash` of all
 * three is equal, which is what the digest rests on. */
#ifndef TARRY_PROTO_ROW_H
#define TARRY_PROTO_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

enum row_state { ROW_WAITING = 0, ROW_LEASED = 1, ROW_BURIED = 2 }; /* = Task.State */
enum row_base { ROW_STEADY = 0, ROW_WALL = 1 };                     /* = Task.Base */
#define ROW_STATES 3

/* What people call states, as a mask (List, QueuePurge); pending and ready are ROW_WAITING before and after the due
 * time. */
enum state_bit { STATE_PENDING = 1, STATE_READY = 2, STATE_IN_FLIGHT = 4, STATE_DEAD = 8 };
#define STATE_ALL 15u
const char *state_bit_name(uint32_t bit);

#define ROW_BASES 2

/* A queue's number names it for good, in rows, records, key hashes and outcomes: the place that it has in the table of
 * queues (QUEUE_PLACES), and the generation, which says how many queues had the place before. A place is taken again;
 * a number is not, so nothing of a former queue can be taken for the present one's. Place and number are equal in
 * generation 0. */
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
    uint64_t id; /* grows in the order of scheduling; never 0 */
    uint64_t due_ms;
    uint64_t expires_ms; /* a duration after due; 0: never */
    uint64_t scheduled_ms;
    uint64_t blob_at; /* log position of the content; below log_start it lies in the index, by id */
    uint64_t blob_sum;
    uint64_t lease_position;
    uint64_t lease_deadline_ms; /* valid while ROW_LEASED */
    uint64_t session;           /* of the current or last lease; 0: never delivered */
    uint64_t delivered_ms;      /* of the current or last lease; 0: never delivered */
    uint64_t dead_ms;           /* valid while ROW_BURIED */
    uint32_t queue;
    uint32_t blob_size;
    uint32_t attempt;
    uint32_t deliveries;
    uint32_t lease_epoch;
    uint8_t priority;
    uint8_t base;  /* enum row_base */
    uint8_t state; /* enum row_state */
    uint8_t key_size;
    uint8_t reason_size;
    const char *key;    /* not terminated; borrowed, lifetime as the holder says */
    const char *reason; /* valid while ROW_BURIED */
};

/* A line: the waiting tasks of one queue, base and priority. */
struct line {
    uint32_t queue;
    uint8_t base;
    uint8_t priority;
};

/* The order within a line: due, then id. */
struct due {
    uint64_t due_ms;
    uint64_t id;
};
#define DUE_END ((struct due){UINT64_MAX, UINT64_MAX})

static inline bool due_before(struct due a, struct due b) {
    return a.due_ms != b.due_ms ? a.due_ms < b.due_ms : a.id < b.id;
}

/* What is looked up: a task by id, or (id = 0) by queue and key. */
struct want {
    uint64_t id;
    uint32_t queue;
    uint8_t key_size;
    bool live_only; /* by key: dead letters under the key do not matter */
    const char *key;
};

/* An ended task, remembered for a while (TRUE-1). */
struct outcome {
    uint64_t id;
    uint64_t ended_ms;
    uint64_t due_ms;
    uint64_t session; /* of the last delivery; 0: none */
    uint64_t delivered_ms;
    uint32_t queue;
    uint32_t deliveries;
    uint16_t cause; /* Tarry__Cause */
    uint8_t priority;
    uint8_t key_size;
    bool redacted; /* what it contained was redacted since */
    const char *key;
};
/* As the cause of an "outcome" that the index keeps: no ending, but the redaction of the task that has that id and
 * ended before. */
#define OUTCOME_REDACTION 0x8000u

/* Order-free digest contribution: XXH3-64 over a canonical encoding of every field (key and reason included,
 * nothing left out). Never 0, so that 0 can mean "no row". Thread-safe, pure. */
uint64_t row_hash(const struct row *row);

/* Hash of (queue, key) for filters and tables. Pure. */
uint64_t row_key_hash(uint32_t queue, const void *key, size_t key_size);

/* `out` borrows key and reason from `task`. False if a field is out of range (a damaged log). */
bool row_from_task(const Tarry__Task *task, struct row *out);

/* `out` borrows key and reason from `row`; all of it is written. */
void row_to_task(const struct row *row, Tarry__Task *out);

/* When the row expires (due + expires, saturating), or UINT64_MAX. */
uint64_t row_expires_at(const struct row *row);

/* Hash of a queue's row, for the digest. Never 0. */
uint64_t queue_hash(const Tarry__QueuePut *queue);

#endif
