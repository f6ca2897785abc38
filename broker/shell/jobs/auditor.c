/* auditor.c: see auditor.h. */
#include "auditor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fatal.h"
#include "logfmt.h"
#include "monotonic.h"
#include "node.h"
#include "run.h"

/* Niceness of the thread: it uses only CPU time that other threads do not need. */
#define NICENESS 10
/* Bytes of the arena that are kept from page to page. */
#define ARENA_KEEP (4u << 20)

static struct logfmt_limit failure_limit;

/* A pending request, in the arena of its call. */
struct audit {
    struct audit *next;
    struct call *call;
    const Tarry__Audit *request;
    uint64_t position; /* position at which reading continues; earlier frames were sent or are irrelevant. 0: start at
                          the oldest frame */
    uint64_t until_ns; /* CLOCK_MONOTONIC, deadline of the reply, even if nothing was found */
};

static void list_init(struct audit_list *list) {
    *list = (struct audit_list){.last = &list->first};
}

static void list_add(struct audit_list *list, struct audit *audit) {
    audit->next = NULL;
    *list->last = audit;
    list->last = &audit->next;
    list->count++;
}

static struct audit *list_take(struct audit_list *list) {
    struct audit *audit = list->first;
    if (audit == NULL) return NULL;
    list->first = audit->next;
    if (list->first == NULL) list->last = &list->first;
    list->count--;
    return audit;
}

/* ---- replies */

static void refuse(struct call *call, Tarry__Code code, const char *sentence) {
    call->answer(call, reply_pack_refusal(code, sentence));
}

static void answer(struct auditor *auditor, struct audit *audit, Tarry__AuditReply *page) {
    struct node *node = auditor->needs.node;
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.body_case = TARRY__REPLY__BODY_AUDIT;
    reply.audit = page;
    reply.follower = node->on && !node_writes(node);
    reply.position = reply.follower ? node_committed(node) : 0;
    audit->call->answer(audit->call, reply.follower ? node_pack(node, &reply) : reply_pack(&reply));
}

/* Sends the read error. No other part depends on this read, so the broker continues. */
static void answer_failure(struct audit *audit, int error) {
    char sentence[256];
    if (error == -ENOMEM) {
        refuse(audit->call, TARRY__CODE__BUSY, NULL);
        return;
    }
    if (error == -EINVAL) {
        snprintf(sentence, sizeof(sentence),
                 "no frame begins at position %" PRIu64 ", or the log is damaged there: continue from the position in "
                 "the last result page, or check the log with 'tarry verify'",
                 audit->position);
        refuse(audit->call, TARRY__CODE__INVALID, sentence);
        return;
    }
    if (logfmt_allowed(&failure_limit))
        logfmt("audit_failed", "position=%" PRIu64 " error=%d reason=\"%s\"", audit->position, error,
               storage_error(error));
    snprintf(sentence, sizeof(sentence), "position %" PRIu64 " cannot be read: %s", audit->position,
             storage_error(error));
    refuse(audit->call, TARRY__CODE__FAILED, sentence);
}

/* ---- waiting */

/* Lets a request wait that found nothing before its deadline. Returns false if too many requests wait. */
static bool put_to_wait(struct auditor *auditor, struct audit *audit) {
    pthread_mutex_lock(&auditor->mutex);
    bool may_wait = auditor->waits.count < AUDIT_WAITS_MAX;
    /* If more is durable already, no wake-up will follow: read again at once. */
    if (may_wait)
        list_add(node_committed(auditor->needs.node) > audit->position ? &auditor->reads : &auditor->waits, audit);
    pthread_mutex_unlock(&auditor->mutex);
    return may_wait;
}

/* Moves long polls to the end of the read queue if they have something to read or their deadline has passed (at a stop:
 * all). Returns how long the others may sleep. The caller holds the mutex. */
static uint64_t end_waits(struct auditor *auditor) {
    struct audit *audit = auditor->waits.first, *next;
    if (audit == NULL) return 0;
    uint64_t durable = node_committed(auditor->needs.node), now_ns = monotonic_ns(), sleep_ns = UINT64_MAX;
    list_init(&auditor->waits);
    for (; audit != NULL; audit = next) {
        next = audit->next;
        bool is_over = auditor->stop || audit->position < durable || audit->until_ns <= now_ns;
        list_add(is_over ? &auditor->reads : &auditor->waits, audit);
        if (!is_over && audit->until_ns - now_ns < sleep_ns) sleep_ns = audit->until_ns - now_ns;
    }
    return sleep_ns;
}

/* Returns the next request to read; NULL: stop. */
static struct audit *next_audit(struct auditor *auditor) {
    struct audit *audit;
    pthread_mutex_lock(&auditor->mutex);
    for (;;) {
        uint64_t sleep_ns = end_waits(auditor);
        if ((audit = list_take(&auditor->reads)) != NULL || auditor->stop) break;
        struct timespec until = monotonic_after(sleep_ns);
        if (auditor->waits.first == NULL)
            pthread_cond_wait(&auditor->changed, &auditor->mutex);
        else
            pthread_cond_timedwait(&auditor->changed, &auditor->mutex, &until);
    }
    pthread_mutex_unlock(&auditor->mutex);
    return audit;
}

static void serve(struct auditor *auditor, struct audit *audit) {
    Tarry__AuditReply page;
    int error = audit_page_read(&auditor->needs.source, &auditor->names, audit->request, audit->position,
                                node_committed(auditor->needs.node), &auditor->arena, &page);
    if (error != 0) {
        answer_failure(audit, error);
        return;
    }
    bool is_empty = page.n_frames == 0 && page.gap_to == 0;
    if (is_empty && page.end && audit->request->wait_ms != 0 && monotonic_ns() < audit->until_ns) {
        audit->position = page.next;
        if (put_to_wait(auditor, audit)) return;
        refuse(audit->call, TARRY__CODE__BUSY, "too many clients wait for new log records: try again in a moment");
        return;
    }
    answer(auditor, audit, &page);
}

static void *auditor_run(void *argument) {
    struct auditor *auditor = argument;
    struct audit *audit;
    /* On Linux, a thread id makes setpriority affect this thread only. If it fails, audits only take more time from
     * other threads. */
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS) != 0) logfmt("limit_unchanged", "what=priority");
    while ((audit = next_audit(auditor)) != NULL) {
        if (atomic_load(&auditor->needs.run->stopping))
            refuse(audit->call, TARRY__CODE__STOPPING, NULL);
        else
            serve(auditor, audit);
        arena_reset(&auditor->arena);
    }
    return NULL;
}

/* ---- from other threads */

void auditor_start(struct auditor *auditor, const struct auditor_needs *needs) {
    auditor->needs = *needs;
    list_init(&auditor->reads);
    list_init(&auditor->waits);
    pthread_mutex_init(&auditor->mutex, NULL);
    monotonic_cond_init(&auditor->changed);
    arena_init(&auditor->arena, SIZE_MAX);
    auditor->arena.keep_max = ARENA_KEEP;
    thread_start(&auditor->thread, "tarry-auditor", auditor_run, auditor);
}

void auditor_post(struct auditor *auditor, struct call *call) {
    const Tarry__Audit *request = call->engine_request.event.request.message->audit;
    struct audit *audit = arena_alloc(call->engine_request.arena, sizeof(*audit));
    if (audit == NULL) {
        refuse(call, TARRY__CODE__BUSY, NULL);
        return;
    }
    *audit = (struct audit){
        .call = call,
        .request = request,
        .position = request->at_end ? node_committed(auditor->needs.node) : request->position,
        .until_ns = monotonic_ns() + request->wait_ms * NS_PER_MS,
    };
    pthread_mutex_lock(&auditor->mutex);
    bool stop = auditor->stop, has_room = auditor->reads.count < AUDIT_READS_MAX;
    if (!stop && has_room) {
        list_add(&auditor->reads, audit);
        pthread_cond_signal(&auditor->changed);
    }
    pthread_mutex_unlock(&auditor->mutex);
    if (stop)
        refuse(call, TARRY__CODE__STOPPING, NULL);
    else if (!has_room)
        refuse(call, TARRY__CODE__BUSY, NULL);
}

void auditor_durable(struct auditor *auditor) {
    pthread_mutex_lock(&auditor->mutex);
    if (auditor->waits.first != NULL) pthread_cond_signal(&auditor->changed);
    pthread_mutex_unlock(&auditor->mutex);
}

void auditor_stop(struct auditor *auditor) {
    pthread_mutex_lock(&auditor->mutex);
    auditor->stop = true;
    pthread_cond_signal(&auditor->changed);
    pthread_mutex_unlock(&auditor->mutex);
    pthread_join(auditor->thread, NULL);
}
