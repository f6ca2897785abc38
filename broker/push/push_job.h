/* push_job.h: a task on its way to a target, and what became of it. The desk (push_desk.c) makes it and settles it, on
 * the door's thread; the sender (push_sender.c) has it in between, on its own. Only the thread that has it looks at it.
 */
#ifndef TARRY_PUSH_PUSH_JOB_H
#define TARRY_PUSH_PUSH_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "tarry_limits.h"

#define PUSH_REASON_SIZE 200u
/* `TARRY-<cluster>-<id>`: 16 and 20 digits. */
#define PUSH_ID_SIZE 48u

enum push_verdict {
    PUSH_UNSENT,  /* no byte of it has left: it is given back, and costs no attempt */
    PUSH_TAKEN,   /* 2xx: ack */
    PUSH_REFUSED, /* 410: to the dead letters */
    PUSH_LATER,   /* 429 or 503 with Retry-After: again after `later_ms` */
    PUSH_FAILED   /* anything else: again after the queue's backoff */
};

struct push_host;
struct push_target;

struct push_job {
    TAILQ_ENTRY(push_job) next;
    /* of the desk */
    struct push_target *target;
    struct push_host *host;
    uint64_t round; /* of the target, as it was sent (push_desk.c) */
    uint32_t epoch; /* of its token */
    uint64_t position;
    uint64_t until_ms; /* CLOCK_MONOTONIC: the request must be over before */
    uint64_t lease_ms;
    uint64_t time_ms; /* a request takes no longer, whatever the lease */
    size_t size;      /* of all this, in bytes */
    /* what is sent */
    uint64_t id;
    uint32_t attempt;
    uint32_t deliveries;
    uint64_t due_ms;
    uint64_t late_ms;
    const char *url; /* these four lie behind the job */
    const char *queue;
    const uint8_t *key;
    size_t key_size;
    const uint8_t *content; /* a packed Content */
    size_t content_size;
    /* what became of it */
    enum push_verdict verdict;
    uint64_t later_ms;
    uint32_t status;               /* of HTTP; 0: no answer */
    char reason[PUSH_REASON_SIZE]; /* a sentence of ours: nothing of what the target said but its status */
};
TAILQ_HEAD(push_job_list, push_job);

/* CLOCK_MONOTONIC. */
uint64_t push_now_ms(void);
/* How long a request of this job that is begun now may take; 0: there is not enough time left of its lease. */
uint64_t push_job_time_ms(const struct push_job *job, uint64_t now_ms);

#endif
