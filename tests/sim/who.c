/* who.c: see who.h. */
#include "who.h"

#include <string.h>

#include "../must.h"
#include "leases.h"

static struct who_session *find(const struct who *who, uint64_t id) {
    for (size_t i = who->session_count; i-- > 0;) {
        if (who->sessions[i].id == id) return (struct who_session *)&who->sessions[i];
    }
    return NULL;
}

static struct who_session *add(struct who *who, uint64_t id) {
    MUST(who->session_count < WHO_SESSIONS_MAX);
    struct who_session *session = &who->sessions[who->session_count++];
    *session = (struct who_session){.id = id, .client = "", .peer = ""};
    return session;
}

static void somebody(const Tarry__FrameBody *body) {
    MUST(*body->client && *body->peer);
}

static void law_of_lease(const struct who *who, const Tarry__FrameBody *body, const Tarry__Task *task) {
    const struct who_session *session = find(who, task->session);
    MUST(session && !session->over);
    MUST(strcmp(body->client, session->client) == 0 && strcmp(body->peer, session->peer) == 0);
}

/* Checks that the reason of a nack is also kept when the task is only retried. */
static void law_of_retry(const Tarry__TaskPut *put, const Tarry__Commit *commit) {
    for (size_t i = 0; i < commit->n_ops; i++) {
        const Tarry__Nack *nack = commit->ops[i]->op_case == TARRY__OP__OP_NACK ? commit->ops[i]->nack : NULL;
        if (!nack || nack->id != put->task->id) continue;
        if (strlen(nack->reason) == put->reason.len && !memcmp(nack->reason, put->reason.data, put->reason.len)) return;
    }
    MUST(!"the reason is that of a nack");
}

static void take_session(struct who *who, const struct flat *head, const Tarry__FrameBody *body,
                         const Tarry__SessionPut *put) {
    struct who_session *session = find(who, put->session);
    somebody(body);
    MUST(strcmp(body->client, put->client) == 0 && strcmp(body->peer, put->peer) == 0);
    MUST(put->prefetch && put->n_queues + put->n_awaited + put->mover + put->sharer);
    bool is_pooled =
        session_is_pooled(put->session); /* a pooled session can be resumed even if the log records its end */
    if (put->resumed)
        MUST(session ? !session->over || is_pooled : put->session >> 32 != head->epoch);
    else
        MUST(!session && put->session >> 32 == head->epoch);
    if (!session) session = add(who, put->session);
    session->over = false;
    session->client = put->client;
    session->peer = put->peer;
}

static void take_end(struct who *who, const struct flat *head, const Tarry__FrameBody *body,
                     const Tarry__SessionEnd *end) {
    struct who_session *session = find(who, end->session);
    bool is_unclaimed = !session && end->session >> 32 != head->epoch;
    MUST(is_unclaimed == (end->cause == TARRY__SESSION_END__CAUSE__NOT_RESUMED ||
                          end->cause == TARRY__SESSION_END__CAUSE__PROCESS_ENDED));
    MUST((is_unclaimed && session_is_bound(end->session)) == (end->cause == TARRY__SESSION_END__CAUSE__PROCESS_ENDED));
    MUST(is_unclaimed || (session && !session->over)); /* the end of a session is recorded only once */
    MUST(end->cause != TARRY__SESSION_END__CAUSE__NOT_SAID);
    uint32_t held = 0, returned = 0;
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct flat_task *task = &head->tasks[id];
        held += !task->ended && task->row.state == ROW_LEASED && task->row.session == end->session;
    }
    for (size_t i = 0; i < body->n_records; i++) returned += body->records[i]->fact_case == TARRY__RECORD__FACT_PUT;
    MUST(end->returned == returned && end->kept == held - returned);
    MUST(!end->kept || end->cause == TARRY__SESSION_END__CAUSE__UNSUBSCRIBED);
    if (!session) session = add(who, end->session);
    session->over = true;
}

static void take_start(struct who *who, const Tarry__FrameBody *body, const Tarry__EpochPut *epoch) {
    MUST(*body->client && epoch->before == who->before);
    who->session_count = 0;
    who->stopped = who->alone = false;
}

static void take_alone(struct who *who, const struct flat *head, const Tarry__AlonePut *alone) {
    MUST(alone->over == who->alone && alone->why != TARRY__ALONE_PUT__WHY__NOT_SAID);
    MUST(!alone->over || alone->since_ms == who->alone_since_ms);
    MUST(alone->alone_from <= head->position);
    who->alone = !alone->over;
    who->alone_since_ms = alone->since_ms;
}

void who_begin(struct who *who, const Tarry__FrameBody *last) {
    bool stopped = last && last->n_records && last->records[last->n_records - 1]->fact_case == TARRY__RECORD__FACT_STOP;
    who->before = stopped ? TARRY__EPOCH_PUT__BEFORE__STOPPED : TARRY__EPOCH_PUT__BEFORE__BROKEN_OFF;
    if (!last) who->before = TARRY__EPOCH_PUT__BEFORE__NOTHING;
}

void who_frame(struct who *who, const struct flat *head, const Tarry__FrameBody *body, const Tarry__Commit *commit) {
    if (!body) return;
    if (body->producer) somebody(body);
    for (size_t i = 0; i < body->n_records; i++) {
        const Tarry__Record *record = body->records[i];
        MUST(!who->stopped || record->fact_case == TARRY__RECORD__FACT_EPOCH);
        switch (record->fact_case) {
        case TARRY__RECORD__FACT_PUT:
            if (record->put->cause == TARRY__CAUSE__CAUSE_LEASED) law_of_lease(who, body, record->put->task);
            if (record->put->cause == TARRY__CAUSE__CAUSE_RETRIED) law_of_retry(record->put, commit);
            break;
        case TARRY__RECORD__FACT_QUEUE:
            if (!record->queue->before_policy) somebody(body);
            break;
        case TARRY__RECORD__FACT_PRODUCER:
            somebody(body);
            MUST(strcmp(record->producer->client, body->client) == 0);
            break;
        case TARRY__RECORD__FACT_JOB:
            somebody(body);
            MUST(strcmp(record->job->client, body->client) == 0 && strcmp(record->job->peer, body->peer) == 0);
            break;
        case TARRY__RECORD__FACT_SESSION:
            take_session(who, head, body, record->session);
            break;
        case TARRY__RECORD__FACT_SESSION_END:
            take_end(who, head, body, record->session_end);
            break;
        case TARRY__RECORD__FACT_EPOCH:
            take_start(who, body, record->epoch);
            break;
        case TARRY__RECORD__FACT_ALONE:
            take_alone(who, head, record->alone);
            break;
        case TARRY__RECORD__FACT_STOP:
            MUST(*body->client);
            who->stopped = true;
            break;
        default:
            break;
        }
    }
}

void who_credit(struct who *who, uint64_t session, uint32_t credit) {
    struct who_session *found = find(who, session);
    if (found && !found->over) found->credit = credit;
}

uint32_t who_may_get(const struct who *who, uint64_t session) {
    const struct who_session *found = find(who, session);
    return found ? found->credit : 0;
}

void who_left(const struct who *who, uint64_t session) {
    const struct who_session *left = find(who, session);
    MUST(left && left->over);
}
