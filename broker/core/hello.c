/* hello.c: producers register and leave (producers.h). If the table is full, a record removes the producer that was
 * idle longest. Its later commits are refused as forgotten and never executed (ONCE-1). */
#include "callers.h"
#include "draft.h"
#include "effects.h"
#include "producers.h"

#define IDLE_PER_STEP_MAX 16u

static void end_producer(struct draft *draft, uint64_t id, bool idle) {
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_PRODUCER_END;
    record->producer_end = must_alloc(draft->arena, sizeof *record->producer_end);
    tarry__producer_end__init(record->producer_end);
    record->producer_end->producer = id;
    record->producer_end->idle = idle;
}

/* Selects the producer that must be removed for a new one, under the principal's limit or in a full table; NULL: none.
 * Other principals cannot remove the PRODUCERS_SHARE producers that a principal used last (ONCE-1). */
static struct producer *pick(struct core *core, const struct core_caller *caller, bool *out_is_beyond) {
    uint64_t owner = caller ? principal_owner(caller->name) : 0;
    bool is_full = core->producer_count >= PRODUCERS_MAX;
    *out_is_beyond = caller && caller->producers_max && producers_reach(core, owner, caller->producers_max);
    bool is_own = *out_is_beyond || (is_full && producers_reach(core, owner, PRODUCERS_SHARE));
    if (!is_own && !is_full) return NULL;
    struct producer *idle = TAILQ_FIRST(&core->producers_idle);
    while (idle && (is_own ? idle->owner != owner : !producers_reach(core, idle->owner, PRODUCERS_SHARE + 1))) {
        idle = TAILQ_NEXT(idle, idle);
    }
    return idle ? idle : TAILQ_FIRST(&core->producers_idle); /* no principal has more than its share: remove the
                                                                producer that was idle longest */
}

/* Removes some producers that were idle longer than PRODUCER_IDLE_MS. If no producer was, removes the producer that
 * must make room for a new one. */
static void end_some(struct core *core, struct draft *draft, const struct core_caller *caller) {
    uint64_t idle_limit_ms = steady_ms(core) > PRODUCER_IDLE_MS ? steady_ms(core) - PRODUCER_IDLE_MS : 0;
    bool is_beyond;
    const struct producer *picked = pick(core, caller, &is_beyond);
    const struct producer *idle = TAILQ_FIRST(&core->producers_idle);
    uint32_t ended = 0;
    for (; idle && ended < IDLE_PER_STEP_MAX && producer_idle_since_ms(core, idle) < idle_limit_ms;
         idle = TAILQ_NEXT(idle, idle)) {
        if (idle == picked) picked = NULL;
        end_producer(draft, idle->id, true);
        ended++;
    }
    if (picked && (is_beyond || !ended)) end_producer(draft, picked->id, true);
}

void producer_hello(struct core *core, const struct core_request *request, struct core_effects *effects) {
    if (core->stopping) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__STOPPING, "the broker is shutting down");
        return;
    }
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 2);
    draft_by_request(&draft, request);
    producers_order(core);
    end_some(core, &draft, request->caller);
    /* The frame's position is unique, so it can be the id of the new producer. */
    uint64_t id = core->position;
    Tarry__Record *record = draft_record(&draft);
    record->fact_case = TARRY__RECORD__FACT_PRODUCER;
    record->producer = must_alloc(draft.arena, sizeof *record->producer);
    tarry__producer_put__init(record->producer);
    record->producer->producer = id;
    record->producer->client = request->message->client;
    if (request->caller) record->producer->principal = (char *)request->caller->name;
    draft_commit(&draft, NULL, effects);

    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_HELLO;
    reply->hello = must_alloc(effects->arena, sizeof *reply->hello);
    tarry__hello_reply__init(reply->hello);
    reply->hello->producer = id;
    reply->hello->server_version = (char *)core->options.version;
    reply->hello->request_max = REQUEST_SIZE_MAX;
    reply_send(core, effects, request->ticket, reply);
}

void producer_goodbye(struct core *core, const struct core_request *request, struct core_effects *effects) {
    uint64_t id = request->message->goodbye->producer;
    if (producer_of_caller(core, id, request->caller) && !core->stopping) {
        struct draft draft;
        draft_init(&draft, core, effects->arena, NULL, 1);
        draft_by_request(&draft, request);
        end_producer(&draft, id, false);
        draft_commit(&draft, NULL, effects);
    }
    reply_send(core, effects, request->ticket, reply_new(effects, TARRY__CODE__OK));
}
