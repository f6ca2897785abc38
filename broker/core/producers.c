/* producers.c: see producers.h. The table is bounded. */
#include "producers.h"

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
