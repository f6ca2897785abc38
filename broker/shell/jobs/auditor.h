/* auditor.h: the thread that tells what happened: it answers Audit requests from the durable log, a page at a time
 * (storage/history/history.h), so that a question about a large log delays no other request.
 *
 *   - Only what is durable is told (LOG-1).
 *   - Nothing is kept between two pages: the position that a page ends with is all that the next one needs.
 *   - What is under way is bounded (CALM-1): AUDIT_READS_MAX pages to read, AUDIT_WAITS_MAX long polls, one page in
 *     memory; beyond that a request is refused as busy, and costs nothing. A page takes AUDIT_PAGE_MAX_MS at most, then
 *     it is the next one's turn.
 *   - The thread runs at a lower priority than all others, holds no lock while it reads, and no transaction of the
 *     index across a wait.
 *   - What it cannot read it says to the requester; the broker goes on. */
#ifndef TARRY_SHELL_AUDITOR_H
#define TARRY_SHELL_AUDITOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "audit_page.h"
#include "call.h"

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
    pthread_cond_t changed;  /* on CLOCK_MONOTONIC */
    struct audit_list reads; /* whose turn it is, in order */
    struct audit_list waits; /* long polls: there was nothing for them */
    bool stop;

    /* the auditor thread's own */
    struct arena arena; /* the page */
    struct queue_names names;
};

void auditor_start(struct auditor *auditor, const struct auditor_needs *needs);
/* Takes the call over; its request is an Audit that was checked. Any thread. */
void auditor_post(struct auditor *auditor, struct call *call);
/* More is durable: requests that wait for that get it. */
void auditor_durable(struct auditor *auditor);
/* Ends the thread. Whatever waits, or comes later, is answered STOPPING. */
void auditor_stop(struct auditor *auditor);

#endif
