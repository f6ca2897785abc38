/* hello.c: producers come and go (producers.h). When the table is full, the one that has been idle longest goes, by a
 * record, and a commit of its that comes later is refused as forgotten, never executed (ONCE-1). */
#include "callers.h"
#include "draft.h"
#include "producers.h"
#include "push.h"
#include "reply.h"

static void end_producer(struct draft *draft, uint64_t id, bool idle) {
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_PRODUCER_END;
    record->producer_end = must_alloc(draft->arena, sizeof *record->producer_end);
    tarry__producer_end__init(record->producer_end);
    record->producer_end->producer = id;
    record->producer_end->idle = idle;
}

void producer_hello(struct core *core, const struct core_event *event, struct core_effects *effects) {
    if (core->stopping) {
        reply_refuse(core, effects, event->ticket, TARRY__CODE__STOPPING, "the broker is shutting down");
        return;
    }
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 2);
    draft_by_request(&draft, event);
    producers_order(core);
    uint64_t idle_limit_ms = steady_ms(core) > PRODUCER_IDLE_MS ? steady_ms(core) - PRODUCER_IDLE_MS : 0;
    uint32_t ended = 0;
    for (struct producer *idle = TAILQ_FIRST(&core->producers_idle); idle && ended < 16;
         idle = TAILQ_NEXT(idle, idle)) {
        bool is_full = core->producer_count - ended >= PRODUCERS_MAX;
        if (!is_full && idle->used_ms >= idle_limit_ms) break;
        end_producer(&draft, idle->id, true);
        ended++;
    }
    /* The frame's position has never been given to anybody else. */
    uint64_t id = core->position;
    Tarry__Record *record = draft_record(&draft);
    record->fact_case = TARRY__RECORD__FACT_PRODUCER;
    record->producer = must_alloc(draft.arena, sizeof *record->producer);
    tarry__producer_put__init(record->producer);
    record->producer->producer = id;
    record->producer->client = event->request->client;
    if (event->caller) record->producer->principal = (char *)event->caller->name;
    draft_commit(&draft, NULL, effects);

    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_HELLO;
    reply->hello = must_alloc(effects->arena, sizeof *reply->hello);
    tarry__hello_reply__init(reply->hello);
    reply->hello->producer = id;
    reply->hello->server_version = (char *)core->options.version;
    reply->hello->request_max = REQUEST_SIZE_MAX;
    reply_send(core, effects, event->ticket, reply);
}

void producer_goodbye(struct core *core, const struct core_event *event, struct core_effects *effects) {
    uint64_t id = event->request->goodbye->producer;
    if (producer_of_caller(core, id, event->caller) && !core->stopping) {
        struct draft draft;
        draft_init(&draft, core, effects->arena, NULL, 1);
        draft_by_request(&draft, event);
        end_producer(&draft, id, false);
        draft_commit(&draft, NULL, effects);
    }
    reply_send(core, effects, event->ticket, reply_new(effects, TARRY__CODE__OK));
}
