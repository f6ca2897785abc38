/* gateway_parts.h: declarations shared by the files of the gateway; no other file includes it. Door's thread only. */
#ifndef TARRY_GATEWAY_GATEWAY_PARTS_H
#define TARRY_GATEWAY_GATEWAY_PARTS_H

#include <sys/queue.h>

#include "arena.h"
#include "door.h"
#include "door_stream.h"
#include "gateway_host.h"
#include "tarry_limits.h"

/* ---- timers (gateway.c) */
struct timer {
    uint64_t at_ms; /* CLOCK_MONOTONIC */
    size_t place;   /* index of the timer in the heap, from 1; 0: not armed */
    void (*fires)(struct gateway *gateway, struct timer *timer);
};
struct timers {
    struct timer **heap; /* heap[0] is unused; heap[1] expires first */
    size_t count;
    size_t capacity;
};
/* Starts or restarts the timer. False: out of memory. */
bool timer_arm(struct gateway *gateway, struct timer *timer, uint64_t after_ms);
void timer_cancel(struct gateway *gateway, struct timer *timer);

/* ---- handles: an index in a table, and a serial number that detects reuse (gateway.c) */
enum handle_kind { HANDLE_FREE, HANDLE_ASK, HANDLE_LEASE, HANDLE_POOL, HANDLE_TIMER, HANDLE_WAKEUP };
struct slot {
    uint64_t id;
    enum handle_kind kind;
    void *owner;
    uint32_t next_free;
};
#define GATEWAY_INDEX_BITS 17 /* bits of a handle that are its slot index */
#define GATEWAY_SLOTS_MAX (1u << GATEWAY_INDEX_BITS)
/* Returns a new handle; 0: out of memory, or too many handles. */
uint64_t handle_new(struct gateway *gateway, enum handle_kind kind, void *owner);
void *handle_find(const struct gateway *gateway, uint64_t id, enum handle_kind kind);
void handle_free(struct gateway *gateway, uint64_t id);

/* ---- requests */
struct producer;
struct once;
struct ask {
    uint64_t id;
    struct gateway *gateway;
    gateway_reply *reply; /* callback for the reply; NULL: the caller has called gateway_forget */
    void *argument;
    uint64_t principal;
    char peer[PEER_SIZE_MAX + 1];
    struct message *request; /* the packed request; valid until the broker takes it */
    size_t commit_at;        /* offset of producer, sequence and oldest_unanswered in the packed commit */
    struct producer *producer;
    uint64_t sequence;
    struct once *once;      /* state of a commit with an idempotency key */
    uint64_t kept_producer; /* producer under which the commit with a key was sent; 0: not sent */
    unsigned tries;
    TAILQ_ENTRY(ask) waits; /* entry in `offered` of the gateway, or in a list of the ask's maker (struct maker) */
};
TAILQ_HEAD(ask_list, ask);

/* Sends the request, at once or as soon as the broker has capacity. */
void ask_offer(struct ask *ask);
/* Ends the ask, and calls the reply callback unless the caller forgot the handle. */
void ask_answer(struct ask *ask, const Tarry__Reply *reply);
/* Ends the ask with a refusal. Within a public gateway function use ask_refuse_later instead. */
void ask_refuse(struct ask *ask, Tarry__Code code, const char *sentence);
void ask_refuse_later(struct ask *ask, Tarry__Code code, const char *sentence);

/* ---- commits (gateway.c) */
TAILQ_HEAD(maker_list, maker);
/* Writes the numbers into a packed commit. */
void commit_number(struct ask *ask, uint64_t producer, uint64_t sequence, uint64_t oldest);
/* Reserves an unused sequence number of a producer whose replies the broker stores. False: none is available yet; call
 * maker_await. */
bool maker_reserve(struct gateway *gateway, const struct ask *ask, uint64_t *out_producer, uint64_t *out_sequence);
/* Makes `ask` wait until maker_reserve can succeed. */
void maker_await(struct ask *ask);

/* ---- commits with an idempotency key (gateway_once.c) */
/* Starts a commit with an idempotency key. False: out of memory. */
bool once_begin(struct ask *ask, const struct gateway_once *once);
/* Continues the commit when a producer is available; with `refusal`, ends it with the broker's refusal. */
void once_go_on(struct ask *ask, const Tarry__Reply *refusal);
void once_free(struct once *once);
/* Starts the periodic removal of expired receipts. */
void once_start(struct gateway *gateway);

/* ---- leases (gateway_lease.c) */
TAILQ_HEAD(pool_list, pool);
void pool_delivery(struct gateway *gateway, uint64_t id, const struct message *message);
void pool_ended(struct gateway *gateway, uint64_t id);
/* Frees all pools and leases with the gateway. */
struct lease;
void lease_forget(struct lease *lease);
void pools_free(struct gateway *gateway);

/* ---- the gateway */

struct gateway {
    struct gateway_calls calls;
    struct door *door;
    struct arena arena; /* memory of the reply whose callback is running */
    struct slot *slots;
    uint32_t slot_count;
    uint32_t slot_free; /* index of the first free slot plus 1; 0: no slot is free */
    uint64_t serial;
    unsigned ask_count;
    struct ask_list offered; /* asks that wait for capacity of the broker */
    struct maker_list makers;
    struct pool_list pools; /* list of all pools; the most recently used pool is last */
    unsigned pool_count;
    unsigned lease_count;
    struct timers timers;
    struct timer sweeping; /* timer of the next removal of expired receipts (gateway_once.c) */
    uint64_t sweep_lease;
    bool is_sweeping;
    bool is_mended; /* the queue of receipts was already repaired during the current search for expired receipts */
};

#endif
