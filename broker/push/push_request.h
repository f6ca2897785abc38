/* push_request.h: the headers of a webhook request: CloudEvents 1.0 in binary mode, and Standard Webhooks. Pure, any
 * thread. */
#ifndef TARRY_PUSH_PUSH_REQUEST_H
#define TARRY_PUSH_PUSH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "push_secrets.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

/* ---- a task on its way */

/* A leased task on its way to a webhook target, and its result. The desk (push_desk.c, door's thread)
 * creates and settles jobs; the sender (push_sender.c, own thread) owns them in between. Only the owning thread may use
 * a job. */

#define PUSH_REASON_SIZE 200u
/* Size of `TARRY-<cluster>-<id>`, with 16 and 20 digits. */
#define PUSH_ID_SIZE 48u

enum push_verdict {
    PUSH_UNSENT,  /* no byte was sent: release the task; no attempt is counted */
    PUSH_TAKEN,   /* 2xx: ack the task */
    PUSH_REFUSED, /* 410: move the task to the dead letters */
    PUSH_LATER,   /* 429 or 503 with Retry-After: retry after `later_ms` */
    PUSH_FAILED   /* any other result: retry after the queue's backoff */
};

struct push_host;
struct push_target;

struct push_job {
    TAILQ_ENTRY(push_job) next;
    /* The following members are used by the desk. */
    struct push_target *target;
    struct push_host *host;
    /* value of the target's `round` when the job was sent: the number of pauses before it (push_desk.c) */
    uint64_t round;
    uint32_t epoch; /* epoch of the lease's token */
    uint64_t position;
    uint64_t until_ms; /* deadline of the request, CLOCK_MONOTONIC */
    uint64_t lease_ms;
    uint64_t time_ms; /* timeout of one request, used even if the lease lasts longer */
    size_t size;      /* memory of the job and its texts, in bytes */
    /* The following members are the content of the request. */
    uint64_t id;
    uint32_t attempt;
    uint32_t deliveries;
    uint64_t due_ms;
    uint64_t late_ms;
    const char *url; /* url, queue, key and content point into the memory behind the job */
    const char *queue;
    const uint8_t *key;
    size_t key_size;
    const uint8_t *content; /* payload and attributes of the task: a packed Content message */
    size_t content_size;
    /* The following members are the result of the request. */
    enum push_verdict verdict;
    uint64_t later_ms;
    uint32_t status;               /* HTTP status; 0: no response */
    char reason[PUSH_REASON_SIZE]; /* a sentence of the broker; from the target it contains only the status */
};
TAILQ_HEAD(push_job_list, push_job);

/* Returns CLOCK_MONOTONIC in milliseconds. */
uint64_t push_now_ms(void);
/* Returns the timeout for a request of this job that starts now; 0: too little time is left of its lease. */
uint64_t push_job_time_ms(const struct push_job *job, uint64_t now_ms);

/* ---- headers */

/* Maximum size of one header. Its value has at most ATTRIBUTE_VALUE_SIZE_MAX bytes, its name at most
 * ATTRIBUTE_NAME_SIZE_MAX, and each byte may become three characters (%XX). */
#define PUSH_HEAD_LINE_SIZE (3u * (ATTRIBUTE_VALUE_SIZE_MAX + ATTRIBUTE_NAME_SIZE_MAX) + 64u)

/* Callback that adds a header. False: it failed, and no further header is made. */
typedef bool push_add_head(void *argument, const char *line);

struct push_words {
    const struct push_job *job;
    const Tarry__Content *content;
    const struct push_secret *secret;
    const uint8_t *cluster; /* 8 bytes */
    uint64_t timestamp_s;   /* time of the request: Unix time in seconds */
};

/* Makes each header in libcurl's form: a line `Name: value` of printable ASCII, or `Name;` if the value is empty.
 * False: `add` failed. */
bool push_heads(const struct push_words *words, push_add_head *add, void *argument);

#endif
