/* pusher.h: webhooks: what is due in a queue that has a `push` is POSTed there by the broker that leads
 * (docs/WEBHOOKS.md).
 *
 *   core: a policy has changed ── push_changed ──► the desk, on the door's thread: which queues are pushed?
 *                                                   │  gateway_lease, as many as there is room for
 *                                                   ▼
 *                                          a job ──► the sender, a thread: requests, many at once (libcurl)
 *                                                   │  2xx, 410, Retry-After, anything else
 *                                                   ▼
 *                                          ack, dead, later, nack ──► gateway_commit, many in one
 *
 * It is a client of the seam (gateway.h) like any other: leases, tokens, backoff and dead letters are the core's, and
 * what it knew is lost with the process and nothing else: a lease ends, and the task is pushed again. */
#ifndef TARRY_PUSH_PUSHER_H
#define TARRY_PUSH_PUSHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "tarry.pb-c.h"

/* Bytes of tasks that are leased and not settled, of all queues. A queue may hold as many as are free, so that one
 * alone holds half, and a host PUSH_HOST_SHARE times as many as are free, so that one alone holds two thirds: what one
 * of them keeps for long leaves room for the others. While there is no room a queue whose host holds nothing leases one
 * task, up to twice PUSH_BYTES_MAX in all. */
#define PUSH_BYTES_MAX (16u << 20)
#define PUSH_HOST_SHARE 2u
/* So many failures in a row, and a queue rests: 1 s, doubled each time that the next try fails too. */
#define PUSH_FAILURES_MAX 5u
#define PUSH_REST_MIN_MS 1000u
/* A stop waits so long for what is under way. */
#define PUSH_STOP_MS 2000u

struct gateway;
struct push;

/* What an operator may set (tarry_limits.h has the ranges). */
struct push_limits {
    /* Requests at once: in all (a queue with none under way may have one up to twice as many), to one host (scheme,
     * name, port), of one queue. */
    unsigned requests;
    unsigned host_requests;
    unsigned queue_requests;
    uint64_t time_ms;    /* a request takes no longer, nor than four fifths of its lease */
    uint64_t connect_ms; /* … of which its connection */
    uint64_t rest_ms;    /* the longest rest of a target that fails */
};

struct push_options {
    const char *allow;   /* networks between blanks (push_address.h), parsed before; must stay */
    const char *ca;      /* PEM file; "": the CAs that this host trusts; must stay */
    const char *version; /* must stay */
    uint8_t cluster[8];
    struct push_limits limits;
    void *argument;
    /* As in push_sender.h. */
    int (*read_secrets)(void *argument, char *out, size_t size, size_t *out_size, char *message, size_t message_size);
    /* For the log: a queue's deliveries have begun to fail, or go on again (sentence NULL). On the door's thread. */
    void (*say)(void *argument, const char *queue, const char *sentence);
};

/* Before the door starts. NULL: no memory. */
struct push *push_new(struct gateway *gateway, const struct push_options *options);
/* This broker leads from here on, or a queue is pushed elsewhere than before. Any thread. */
void push_changed(struct push *push);
/* Leases nothing more, and waits for what is under way, PUSH_STOP_MS at most. Not on the door's thread. */
void push_stop(struct push *push);
/* The door has stopped. NULL is fine. */
void push_free(struct push *push);
/* How it goes with each queue that is pushed, in `arena`. False: no memory. Any thread. */
bool push_stats(struct push *push, struct arena *arena, Tarry__BrokerStats *out);

#endif
