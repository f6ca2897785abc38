/* pusher_parts.h: what the files of the desk share; no other file includes it. Everything is the door's thread's, but
 * for what `mutex` guards. */
#ifndef TARRY_PUSH_PUSH_PARTS_H
#define TARRY_PUSH_PUSH_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "gateway.h"
#include "push_job.h"
#include "push_sender.h"
#include "pusher.h"
#include "tarry_limits.h"

/* Where requests go: what counts as one host. */
struct push_host {
    TAILQ_ENTRY(push_host) next;
    char origin[PUSH_URL_SIZE_MAX + 1];
    unsigned references; /* targets and jobs */
    unsigned in_flight;
    size_t held_bytes;            /* of its jobs */
    struct push_job_list waiting; /* leased, and there is no room yet */
};
TAILQ_HEAD(push_host_list, push_host);

/* For people; `mutex` guards it. */
struct push_numbers {
    uint32_t in_flight;
    uint64_t sent, acked, failed, refused;
    uint32_t status;                                    /* of the request that ended last */
    uint64_t succeeded_ms, failed_ms, resting_until_ms; /* Unix */
    char error[PUSH_REASON_SIZE];
};

struct push_target {
    TAILQ_ENTRY(push_target) next;
    struct push *push;
    struct push_host *host;
    char queue[QUEUE_NAME_SIZE_MAX + 1];
    char url[PUSH_URL_SIZE_MAX + 1];
    bool is_listed;    /* by the answer that is being read */
    bool is_over;      /* the queue is not pushed any more; it goes with its last job */
    uint64_t lease;    /* a handle; 0: none is asked for */
    uint64_t rest;     /* a timer's handle; 0: it does not rest */
    unsigned held;     /* tasks that are leased and not settled … */
    size_t held_bytes; /* … and their bytes */
    size_t job_bytes;  /* what a further one is expected to have: the largest one of late; 0: there was none */
    unsigned failures; /* in a row, of this round */
    unsigned rests;    /* in a row */
    uint64_t round;    /* each rest begins one; failures of requests of an earlier one say nothing new */
    bool is_unwell;    /* one request at a time, until one succeeds */
    struct push_numbers numbers;
};
TAILQ_HEAD(push_target_list, push_target);

struct push {
    struct gateway *gateway;
    struct gateway_wakeup *wakeup;
    struct push_options options;
    struct push_sender *_Atomic sender; /* NULL: nothing has been pushed yet */
    _Atomic bool changed;
    _Atomic bool stops;
    _Atomic unsigned held; /* tasks, of all targets */
    pthread_mutex_t mutex; /* of the list of targets, as others see it, and of their numbers */
    struct push_target_list targets;
    struct push_host_list hosts;
    unsigned in_flight; /* requests, with all hosts */
    size_t held_bytes;
    bool is_asking;                  /* which queues are pushed */
    uint64_t retry;                  /* a timer's handle: it is asked again then */
    struct push_job_list settling;   /* what became of them is known */
    struct push_job_list committing; /* … and is being told to the core */
    uint64_t settle_retry;
};

/* ---- push_desk.c */
struct push_host *push_host_of(struct push *push, const char *url);
void push_host_release(struct push *push, struct push_host *host);
/* Asks for tasks, if it may have more. */
void push_target_run(struct push_target *target);
/* Leases nothing before. */
void push_target_rest(struct push_target *target, uint64_t ms);
/* It is not pushed any more. */
void push_target_end(struct push_target *target);
/* Done, if nothing holds it any more. */
void push_target_end_if_idle(struct push_target *target);
/* What the sender has done. */
void push_take_done(struct push *push);
/* Its end. */
void push_job_free(struct push *push, struct push_job *job);

/* ---- push_settle.c */
uint64_t push_unix_ms(void); /* CLOCK_REALTIME */
void push_settle(struct push *push);
/* It has come to its end: numbers, health, and it is settled. */
void push_job_ended(struct push *push, struct push_job *job);

struct gateway_caller;
/* The principal that leases and settles; to be given back with gateway_disown(…, caller.principal). */
struct gateway_caller push_caller(struct push *push);

#endif
