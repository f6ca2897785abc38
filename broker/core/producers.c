/* producers.c: see producers.h. The table is bounded; when it is full, the producer that has been idle longest goes, by
 * a record, and a commit of its that comes later is refused as forgotten, never executed (ONCE-1). */
#include "producers.h"

#include <string.h>

#include "draft.h"
#include "push.h"
#include "reply.h"

static size_t id_slot(uint64_t id) {
    return (id * 0x9E3779B97F4A7C15ull >> 20) & (PRODUCER_TABLE_SIZE - 1);
}

struct producer *producer_find(const struct core *core, uint64_t id) {
    uint32_t at = id ? core->producer_ids[id_slot(id)] : 0;
    while (at && core->producers[at - 1].id != id) at = core->producers[at - 1].by_id_next;
    return at ? &core->producers[at - 1] : NULL;
}

int producer_apply_put(struct core *core, uint64_t id) {
    if (!id || producer_find(core, id)) return CORE_NONSENSE;
    struct producer *producer = TAILQ_FIRST(&core->producers_free);
    if (producer) {
        TAILQ_REMOVE(&core->producers_free, producer, idle);
    } else {
        if (core->producers_used == PRODUCERS_MAX) return CORE_NONSENSE;
        producer = &core->producers[core->producers_used++];
    }
    TAILQ_INSERT_TAIL(&core->producers_idle, producer, idle);
    producer->id = id;
    producer->used_ms = steady_ms(core);
    producer->floor = 1;
    producer->result_count = 0;
    producer->by_id_next = core->producer_ids[id_slot(id)];
    core->producer_ids[id_slot(id)] = (uint32_t)(producer - core->producers) + 1;
    core->producer_count++;
    return 0;
}

int producer_apply_end(struct core *core, uint64_t id) {
    struct producer *producer = producer_find(core, id);
    if (!producer) return CORE_NONSENSE;
    uint32_t index = (uint32_t)(producer - core->producers) + 1;
    uint32_t *at = &core->producer_ids[id_slot(id)];
    while (*at != index) at = &core->producers[*at - 1].by_id_next;
    *at = producer->by_id_next;
    TAILQ_REMOVE(&core->producers_idle, producer, idle);
    TAILQ_INSERT_TAIL(&core->producers_free, producer, idle);
    producer->id = 0;
    core->producer_count--;
    return 0;
}

static void forget_below(struct producer *producer, uint64_t floor) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < producer->result_count; i++) {
        if (producer->results[i].sequence >= floor) producer->results[kept++] = producer->results[i];
    }
    producer->result_count = kept;
    if (floor > producer->floor) producer->floor = floor;
}

int producer_apply_commit(struct core *core, uint64_t id, uint64_t sequence, uint64_t oldest_unanswered,
                          uint64_t position) {
    struct producer *producer = producer_find(core, id);
    if (!producer) return CORE_NONSENSE;
    forget_below(producer, oldest_unanswered);
    if (producer->result_count == COMMITS_PER_PRODUCER_MAX) return CORE_NONSENSE;
    producer->results[producer->result_count++] = (struct commit_result){.sequence = sequence, .position = position};
    producer->used_ms = steady_ms(core);
    TAILQ_REMOVE(&core->producers_idle, producer, idle);
    TAILQ_INSERT_TAIL(&core->producers_idle, producer, idle);
    return 0;
}

static void end_producer(struct draft *draft, uint64_t id) {
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_PRODUCER_END;
    record->producer_end = must_alloc(draft->arena, sizeof *record->producer_end);
    tarry__producer_end__init(record->producer_end);
    record->producer_end->producer = id;
}

void producer_hello(struct core *core, const struct core_event *event, struct core_effects *effects) {
    if (core->stopping) {
        reply_refuse(core, effects, event->ticket, TARRY__CODE__STOPPING, "the broker is shutting down");
        return;
    }
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 2);
    uint64_t idle_limit_ms = steady_ms(core) > PRODUCER_IDLE_MS ? steady_ms(core) - PRODUCER_IDLE_MS : 0;
    uint32_t ended = 0;
    for (struct producer *idle = TAILQ_FIRST(&core->producers_idle); idle && ended < 16;
         idle = TAILQ_NEXT(idle, idle)) {
        bool is_full = core->producer_count - ended >= PRODUCERS_MAX;
        if (!is_full && idle->used_ms >= idle_limit_ms) break;
        end_producer(&draft, idle->id);
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
    if (producer_find(core, id) && !core->stopping) {
        struct draft draft;
        draft_init(&draft, core, effects->arena, NULL, 1);
        end_producer(&draft, id);
        draft_commit(&draft, NULL, effects);
    }
    reply_send(core, effects, event->ticket, reply_new(effects, TARRY__CODE__OK));
}
