/* workers.c: see workers.h. */
#include "workers.h"

#include <stdlib.h>

#include "alloc.h"

#define NS_PER_MS 1000000u

struct workers *workers_new(struct stage *stage, struct plan *plan) {
    struct workers *workers = tool_alloc(sizeof *workers);
    *workers = (struct workers){.stage = stage, .plan = plan};
    LIST_INIT(&workers->held);
    return workers;
}

static bool is_heard(const struct workers *workers) {
    return workers->session != 0 && workers->stage->now.steady_ns < workers->heard_ns + workers->silence_ns;
}

static void subscribe(struct workers *workers) {
    struct stage *stage = workers->stage;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    body.queues = &workers->plan->name;
    body.n_queues = 1;
    body.prefetch = PREFETCH_MAX;
    body.max_batch = 1;
    stage_ask(stage, &request);
    if (stage->code != TARRY__CODE__OK) {
        stage->problem =
            "more queues and consumers have tasks in flight at the same time than the maximum number of sessions";
        workers->session = 0;
        return;
    }
    workers->session = stage->session;
    workers->silence_ns = stage->silence_ms * NS_PER_MS;
    workers->heard_ns = stage->now.steady_ns;
    workers->count = 0;
    workers->open = true;
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = workers->session};
    stage_event(stage, &up);
}

void workers_beat(struct workers *workers) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Heartbeat body = TARRY__HEARTBEAT__INIT;
    request.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &body;
    body.session = workers->session;
    workers->heard_ns = workers->stage->now.steady_ns;
    stage_ask(workers->stage, &request);
    if (workers->stage->code != TARRY__CODE__OK) workers->session = 0;
}

uint64_t workers_beat_ns(const struct workers *workers) {
    return workers->session != 0 && workers->count > 0 ? workers->heard_ns + workers->silence_ns / 2 : UINT64_MAX;
}

void workers_withdraw(struct workers *workers) {
    if (!is_heard(workers)) {
        workers->session = 0;
        return;
    }
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &body;
    body.session = workers->session;
    body.keep_leases = true;
    body.seen = tool_alloc(workers->count * sizeof *body.seen);
    const struct twin *twin;
    LIST_FOREACH(twin, &workers->held, held) {
        // cppcheck-suppress uninitvar ; LIST_FOREACH sets it
        if (twin->row.session == workers->session) body.seen[body.n_seen++] = twin->row.id;
    }
    workers->session = 0;
    workers->open = false;
    workers->granted = workers->count = 0;
    stage_ask(workers->stage, &request);
    free(body.seen);
}

void workers_grant(struct workers *workers) {
    workers->granted++;
    if (is_heard(workers) && workers->count >= PREFETCH_MAX) {
        uint32_t granted = workers->granted;
        workers_withdraw(workers);
        workers->granted = granted;
    }
    if (is_heard(workers))
        workers_beat(workers);
    else
        subscribe(workers);
    while (workers->session != 0 && !workers->open && workers->granted > 0) {
        struct core_event sent = {.kind = CORE_LANE_SENT,
                                  .lane = {.session = workers->session,
                                           .ok = true,
                                           .delivered_ns = workers->stage->now.steady_ns}};
        workers->open = true;
        stage_event(workers->stage, &sent);
    }
}

void workers_leased(struct workers *workers, struct twin *twin) {
    twin->holder = workers;
    LIST_INSERT_HEAD(&workers->held, twin, held);
    if (twin->row.session != workers->session) return;
    workers->open = false;
    workers->granted -= workers->granted > 0;
    workers->count++;
}

void workers_lost(struct workers *workers, struct twin *twin) {
    if (twin->row.session == workers->session && workers->count > 0) workers->count--;
    LIST_REMOVE(twin, held);
    twin->holder = NULL;
}
