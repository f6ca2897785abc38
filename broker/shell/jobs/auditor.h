/* auditor.h: the thread that answers Audit requests. It reads the durable log one result page at a time
 * (storage/history/history.h), so that a question about a large log delays no other request.
 *
 *   - It returns only durable frames (LOG-1).
 *   - It keeps no state between two pages: the next page needs only the position at which the last one ended.
 *   - Pending work is limited (CALM-1): AUDIT_READS_MAX pages to read, AUDIT_WAITS_MAX long polls, one page in memory.
 *     Further requests are refused as busy and use no memory. A page takes at most AUDIT_PAGE_MAX_MS; then the next
 *     request has its turn.
 *   - The thread runs at a low priority. It holds no lock while it reads, and no transaction of the index while it
 * waits.
 *   - A read error is sent to the requester; the broker continues. */
#ifndef TARRY_SHELL_AUDITOR_H
#define TARRY_SHELL_AUDITOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "call.h"
#include "queue_map.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

/* ---- a result page */

/* Reads one result page of the log for an Audit request: the durable frames from a position on that may
 * be relevant, and the names of the queues in their records. Auditor thread only. */

struct archive;
struct index;
struct log;

/* Data sources of the audit. */
struct audit_source {
    struct log *log;
    struct index *index;
    const struct archive *archive; /* the archive of retired segments */
};

/* Names of queues by number, loaded on demand. A name is never removed. */
struct queue_names {
    struct queue_map map;
    uint64_t known_to; /* `map` has the names of all queues created before this log position */
};

/* ---- the thread */

struct audit;
struct node;
struct run;

struct auditor_needs {
    struct audit_source source;
    struct node *node;
    const struct run *run;
};

struct audit_list {
    struct audit *first;
    struct audit **last;
    size_t count;
};

struct auditor {
    struct auditor_needs needs;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;  /* uses CLOCK_MONOTONIC */
    struct audit_list reads; /* requests to read, in order */
    struct audit_list waits; /* long polls that found nothing yet */
    bool stop;

    /* The following members are used by the auditor thread only. */
    struct arena arena; /* memory of the page */
    struct queue_names names;
};

void auditor_start(struct auditor *auditor, const struct auditor_needs *needs);
/* Takes over the call, which must contain a checked Audit request. Any thread. */
void auditor_post(struct auditor *auditor, struct call *call);
/* Wakes long polls that wait for a higher durable position. */
void auditor_durable(struct auditor *auditor);
/* Ends the thread. All waiting and later requests get STOPPING. */
void auditor_stop(struct auditor *auditor);

#endif
