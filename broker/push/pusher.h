/* pusher.h: sends webhooks: the leader POSTs the due tasks of each queue that has a `push` URL (docs/WEBHOOKS.md).
 *
 *   core: a policy has changed ── push_changed ──► push_desk.c, on the door's thread: which queues have a `push` URL?
 *                                                   │  gateway_lease, as many as the limits allow
 *                                                   ▼
 *                                          a job ──► push_sender.c, a thread: sends many requests at once
 *                                                   │  2xx, 410, Retry-After, anything else
 *                                                   ▼
 *                                          ack, dead letter, nack ──► gateway_commit, many in one commit
 *
 * The pusher uses the gateway (gateway.h) like any other client: the core manages leases, tokens, backoff and dead
 * letters. If the process dies, only the pusher's memory is lost: the leases expire, and the tasks are pushed again. */
#ifndef TARRY_PUSH_PUSHER_H
#define TARRY_PUSH_PUSHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "tarry.pb-c.h"

/* Limit for the bytes of leased and unsettled tasks of all queues. A queue leases only while its bytes are fewer than
 * the free bytes, so a single queue uses at most half of the limit. A host leases only while its bytes are fewer than
 * PUSH_HOST_SHARE times the free bytes, so a single host uses at most two thirds. So a slow queue or host leaves memory
 * for others. If no bytes are free, a host without leased tasks may still lease one task at a time, up to 2 ×
 * PUSH_BYTES_MAX in all. */
#define PUSH_BYTES_MAX (16u << 20)
#define PUSH_HOST_SHARE 2u
/* Number of consecutive failures after which a queue pauses. The first pause lasts PUSH_REST_MIN_MS. If the next
 * attempt fails too, the pause is doubled. */
#define PUSH_FAILURES_MAX 5u
#define PUSH_REST_MIN_MS 1000u
/* Maximum time that a stop waits for running requests. */
#define PUSH_STOP_MS 2000u

struct gateway;
struct push;

/* Limits that an operator may set (ranges: tarry_limits.h). */
struct push_limits {
    /* Maximum numbers of concurrent requests: in all, to one host (scheme, name, port), and of one queue. A queue
     * without running requests may start one until the total is twice `requests`. */
    unsigned requests;
    unsigned host_requests;
    unsigned queue_requests;
    uint64_t time_ms;    /* timeout of a request, at most 4/5 of its lease */
    uint64_t connect_ms; /* timeout of the connection, part of `time_ms` */
    uint64_t rest_ms;    /* maximum pause of a failing target */
};

struct push_options {
    const char *allow;   /* blank-separated networks (push_address.h), already checked; must outlive the pusher */
    const char *ca;      /* PEM file of CAs; "": the CAs of this host; must outlive the pusher */
    const char *version; /* tarryd's version; must outlive the pusher */
    uint8_t cluster[8];
    struct push_limits limits;
    void *argument;
    /* Reads the file of secrets, as in push_sender.h. */
    int (*read_secrets)(void *argument, char *out, size_t size, size_t *out_size, char *message, size_t message_size);
    /* Logs that the deliveries of a queue have begun to fail, for the reason `sentence`. `sentence` NULL: the
     * deliveries succeed again. Door's thread. */
    void (*say)(void *argument, const char *queue, const char *sentence);
};

/* Creates the pusher before the door starts. NULL: out of memory. */
struct push *push_new(struct gateway *gateway, const struct push_options *options);
/* Reports that this broker became leader, or that a queue's push URL changed. Any thread. */
void push_changed(struct push *push);
/* Stops leasing, and waits at most PUSH_STOP_MS for running requests. Never call it on the door's thread. */
void push_stop(struct push *push);
/* Frees the pusher after the door has stopped. NULL is allowed. */
void push_free(struct push *push);
/* Adds the state of each pushed queue to `out`, allocated in `arena`. False: out of memory. Any thread. */
bool push_stats(struct push *push, struct arena *arena, Tarry__BrokerStats *out);

#endif
