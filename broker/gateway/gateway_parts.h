/* gateway_parts.h: what the files of the gateway share; no other file includes it. Everything is the door's thread's.
 */
#ifndef TARRY_GATEWAY_GATEWAY_PARTS_H
#define TARRY_GATEWAY_GATEWAY_PARTS_H

#include <sys/queue.h>

#include "door.h"
#include "door_stream.h"
#include "gateway_host.h"
#include "tarry_limits.h"

/* ---- timers (gateway_timer.c) */
struct timer {
    uint64_t at_ms; /* CLOCK_MONOTONIC */
    size_t place;   /* in the heap, from 1; 0: it is not armed */
    void (*fires)(struct gateway *gateway, struct timer *timer);
};
struct timers {
    struct timer **heap; /* heap[0] is unused; the soonest is heap[1] */
    size_t count;
    size_t capacity;
};
uint64_t timer_now_ms(void);
/* False: no memory. */
bool timer_arm(struct gateway *gateway, struct timer *timer, uint64_t after_ms);
void timer_cancel(struct gateway *gateway, struct timer *timer);

/* ---- handles: an index in a table, and a serial number that tells whose it is (gateway.c) */
enum handle_kind { HANDLE_FREE, HANDLE_ASK, HANDLE_LEASE, HANDLE_POOL, HANDLE_TIMER, HANDLE_WAKEUP };
struct slot {
    uint64_t id;
    enum handle_kind kind;
    void *owner;
    uint32_t next_free;
};
#define GATEWAY_INDEX_BITS 17 /* of a handle: its slot */
#define GATEWAY_SLOTS_MAX (1u << GATEWAY_INDEX_BITS)
/* 0: no memory, or too many. */
uint64_t handle_new(struct gateway *gateway, enum handle_kind kind, void *owner);
void *handle_find(const struct gateway *gateway, uint64_t id, enum handle_kind kind);
void handle_free(struct gateway *gateway, uint64_t id);

/* ---- requests */
struct producer;
struct once;
struct ask {
    uint64_t id;
    struct gateway *gateway;
    gateway_reply *reply; /* NULL: it was forgotten */
    void *argument;
    uint64_t principal;
    char peer[PEER_SIZE_MAX + 1];
    struct message *request; /* until it is taken over */
    size_t commit_at;        /* of a commit: where its three numbers lie in the request */
    struct producer *producer;
    uint64_t sequence;
    struct once *once;      /* of a commit with a key … */
    uint64_t kept_producer; /* … the producer whose number it was sent under; 0: it was not sent */
    unsigned tries;
    TAILQ_ENTRY(ask) waits; /* in the gateway's `offered`, or its maker's `commits` */
};
TAILQ_HEAD(ask_list, ask);

/* NULL: no memory. Its request is packed. */
struct ask *ask_new(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                    gateway_reply *reply, void *argument);
/* Sends it as soon as there is room. */
void ask_offer(struct ask *ask);
/* Its end: the requester is told, if it still waits. */
void ask_answer(struct ask *ask, const Tarry__Reply *reply);
/* … with a refusal; not from within a function that was called from outside: see ask_refuse_later. */
void ask_refuse(struct ask *ask, Tarry__Code code, const char *sentence);
void ask_refuse_later(struct ask *ask, Tarry__Code code, const char *sentence);

/* ---- commits (gateway_commit.c) */
TAILQ_HEAD(maker_list, maker);
/* The reply of a commit has come; NULL: none will. True: it is dealt with here, and not to be told. */
bool commit_replied(struct ask *ask, const Tarry__Reply *reply);
void makers_free(struct gateway *gateway);
/* Fills in the numbers of a packed commit. */
void commit_number(struct ask *ask, uint64_t producer, uint64_t sequence, uint64_t oldest);
/* A number that no commit has had, of a producer whose answers are all kept. 0: there is none yet: `retry` is called
 * when there is, or with the refusal of the broker that makes producers. */
bool maker_reserve(struct gateway *gateway, const struct ask *ask, uint64_t *out_producer, uint64_t *out_sequence);
/* `ask` waits for maker_reserve to have one. */
void maker_await(struct ask *ask);

/* ---- commits with a key (gateway_once.c) */
/* False: no memory. */
bool once_begin(struct ask *ask, const struct gateway_once *once);
/* There is a producer for it, or the refusal. */
void once_go_on(struct ask *ask, const Tarry__Reply *refusal);
void once_free(struct once *once);
/* Looks now and then for receipts that are over. */
void once_start(struct gateway *gateway);

/* ---- leases (gateway_lease.c) */
TAILQ_HEAD(pool_list, pool);
void pool_delivery(struct gateway *gateway, uint64_t id, const struct message *message);
void pool_ended(struct gateway *gateway, uint64_t id);
/* The gateway's end. */
struct lease;
void lease_forget(struct lease *lease);
void pools_free(struct gateway *gateway);

/* ---- other threads (gateway_wakeup.c) */
void wakeup_arrived(struct gateway_wakeup *wakeup);
void wakeup_free(struct gateway_wakeup *wakeup);

struct gateway {
    struct gateway_calls calls;
    struct door *door;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t slot_free; /* index + 1; 0: none */
    uint64_t serial;
    unsigned ask_count;
    struct ask_list offered; /* there was no room */
    struct maker_list makers;
    struct pool_list pools; /* the one used last is last */
    unsigned pool_count;
    unsigned lease_count;
    struct timers timers;
    struct timer sweeping; /* the next look for receipts that are over (gateway_once.c) */
    uint64_t sweep_lease;
    bool is_sweeping;
    bool is_mended; /* the queue of receipts, by this sweep */
};

#endif
