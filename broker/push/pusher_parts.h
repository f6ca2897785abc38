/* pusher_parts.h: declarations shared by the files of the desk; no other file includes it. Only the door's thread may
 * use them, except what `mutex` guards. */
#ifndef TARRY_PUSH_PUSH_PARTS_H
#define TARRY_PUSH_PUSH_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "gateway.h"
#include "push_request.h"
#include "push_sender.h"
#include "pusher.h"
#include "tarry_limits.h"

/* A host that gets requests; scheme, name and port identify it. */
struct push_host {
    TAILQ_ENTRY(push_host) next;
    char origin[PUSH_URL_SIZE_MAX + 1];
    unsigned references; /* number of targets and jobs that use this host */
    unsigned in_flight;
    size_t held_bytes;            /* bytes of this host's jobs */
    struct push_job_list waiting; /* leased jobs that wait for a free request */
};
TAILQ_HEAD(push_host_list, push_host);

/* Statistics; `mutex` guards them. */
struct push_numbers {
    uint32_t in_flight;
    uint64_t sent, acked, failed, refused;
    uint32_t status;                                    /* HTTP status of the last finished request */
    uint64_t succeeded_ms, failed_ms, resting_until_ms; /* Unix milliseconds */
    char error[PUSH_REASON_SIZE];
};

struct push_target {
    TAILQ_ENTRY(push_target) next;
    struct push *push;
    struct push_host *host;
    char queue[QUEUE_NAME_SIZE_MAX + 1];
    char url[PUSH_URL_SIZE_MAX + 1];
    bool is_listed;    /* true: the list of pushed queues that is being read contains this queue */
    bool is_over;      /* the queue is no longer pushed; the target is freed with its last job */
    uint64_t lease;    /* handle of the open lease request; 0: none */
    uint64_t rest;     /* handle of the pause timer; 0: not paused */
    unsigned held;     /* number of leased and unsettled tasks */
    size_t held_bytes; /* bytes of the leased and unsettled tasks */
    size_t job_bytes;  /* expected bytes of the next task: the largest recent one; 0: unknown */
    unsigned failures; /* consecutive failures since the last pause; failures of requests that began before the pause
                          are ignored (`round`) */
    unsigned rests;    /* consecutive pauses */
    /* Number of pauses so far. A failed request that began before the last pause has an older number, and is ignored.
     */
    uint64_t round;
    bool is_unwell; /* the target gets one request at a time until one succeeds */
    struct push_numbers numbers;
};
TAILQ_HEAD(push_target_list, push_target);

struct push {
    struct gateway *gateway;
    struct gateway_wakeup *wakeup;
    struct push_options options;
    struct push_sender *_Atomic sender; /* the sender of requests; NULL until the first push */
    _Atomic bool changed;
    _Atomic bool stops;
    _Atomic unsigned held; /* number of leased tasks of all targets */
    pthread_mutex_t mutex; /* guards `targets` for other threads, and `numbers` of each target */
    struct push_target_list targets;
    struct push_host_list hosts;
    unsigned in_flight; /* running requests to all hosts */
    size_t held_bytes;
    bool is_asking;                  /* a request for the list of pushed queues is open */
    uint64_t retry;                  /* handle of the timer for asking again */
    struct push_job_list settling;   /* jobs with a result that is not committed yet */
    struct push_job_list committing; /* jobs whose result is being committed */
    uint64_t settle_retry;
};

/* ---- push_desk.c */
struct push_host *push_host_of(struct push *push, const char *url);
void push_host_release(struct push *push, struct push_host *host);
/* Leases more tasks if the target may have more. */
void push_target_run(struct push_target *target);
/* Pauses the target: it leases nothing for `ms` milliseconds. */
void push_target_rest(struct push_target *target, uint64_t ms);
/* Ends the target because its queue is no longer pushed. */
void push_target_end(struct push_target *target);
/* Frees an ended target if nothing uses it. */
void push_target_end_if_idle(struct push_target *target);
/* Handles the jobs that the sender has finished. */
void push_take_done(struct push *push);
/* Frees a job. */
void push_job_free(struct push *push, struct push_job *job);

/* ---- push_settle.c */
uint64_t push_unix_ms(void); /* CLOCK_REALTIME */
void push_settle(struct push *push);
/* Updates statistics and health of the target for a finished job, and queues the job for settling. */
void push_job_ended(struct push *push, struct push_job *job);

struct gateway_caller;
/* Returns the principal that leases and settles. The caller releases it with gateway_disown(…, caller.principal). */
struct gateway_caller push_caller(struct push *push);

#endif
