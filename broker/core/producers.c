/* producers.c: see producers.h. The table is bounded. */
#include "producers.h"

#define PRODUCERS_BITS 14u
static_assert(PRODUCERS_MAX <= 1u << PRODUCERS_BITS, "the sort below holds them all");

static size_t id_slot(uint64_t id) {
    return (id * 0x9E3779B97F4A7C15ull >> 20) & (PRODUCER_TABLE_SIZE - 1);
}

struct producer *producer_find(const struct core *core, uint64_t id) {
    uint32_t at = id ? core->producer_ids[id_slot(id)] : 0;
    while (at && core->producers[at - 1].id != id) at = core->producers[at - 1].by_id_next;
    return at ? &core->producers[at - 1] : NULL;
}

/* Returns the list of a hash bucket, which contains all producers of this owner, and producers of other owners with the
 * same hash. */
static struct producer_list *producers_near(struct core *core, uint64_t owner) {
    return &core->producers_of[owner % OWNER_BUCKETS];
}

bool producers_reach(struct core *core, uint64_t owner, uint64_t count) {
    const struct producer *producer;
    TAILQ_FOREACH(producer, producers_near(core, owner), of_owner) {
        if (!count) break;
        // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
        count -= producer->owner == owner;
    }
    return !count;
}

void producers_note_late(struct core *core) {
    uint64_t stopped_ms = steady_ms(core), resumed_ms = from_ms(core);
    if (resumed_ms - stopped_ms < PRODUCER_IDLE_MS / 2) return;
    if (stopped_ms > core->producers_resumed_ms || !core->producers_resumed_ms) core->producers_stopped_ms = stopped_ms;
    core->producers_resumed_ms = resumed_ms;
}

/* Returns the steady time in ms since when the producer counts as idle. If the process was stopped for hours, requests
 * that arrived meanwhile are read after the stop, but carry the time before it. For a producer of such a request, the
 * time of reading counts. Otherwise the stop itself would make the producer idle (F-13, ONCE-1). */
uint64_t producer_idle_since_ms(const struct core *core, const struct producer *producer) {
    bool is_read_late =
        producer->used_ms >= core->producers_stopped_ms && producer->used_ms < core->producers_resumed_ms;
    return is_read_late ? core->producers_resumed_ms : producer->used_ms;
}

int producer_apply_put(struct core *core, uint64_t id, uint64_t owner) {
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
    producer->owner = owner;
    TAILQ_INSERT_TAIL(producers_near(core, owner), producer, of_owner);
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
    TAILQ_REMOVE(producers_near(core, producer->owner), producer, of_owner);
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
    producers_order(core);
    forget_below(producer, oldest_unanswered);
    if (producer->result_count == COMMITS_PER_PRODUCER_MAX) return CORE_NONSENSE;
    producer->results[producer->result_count++] = (struct commit_result){.sequence = sequence, .position = position};
    producer->used_ms = steady_ms(core);
    TAILQ_REMOVE(&core->producers_idle, producer, idle);
    TAILQ_INSERT_TAIL(&core->producers_idle, producer, idle);
    return 0;
}

/* Returns the log position of the producer's last reply, which orders producers used in the same millisecond. */
static uint64_t last_answer(const struct producer *producer) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < producer->result_count; i++) {
        if (producer->results[i].position > last) last = producer->results[i].position;
    }
    return last;
}

static bool used_before(const struct producer *a, const struct producer *b) {
    if (a->used_ms != b->used_ms) return a->used_ms < b->used_ms;
    uint64_t last_a = last_answer(a);
    uint64_t last_b = last_answer(b);
    return last_a != last_b ? last_a < last_b : a->id < b->id;
}

/* Merges two sorted lists: moves the smaller head to the end of `out`, until the lists are empty. */
static void merge(struct producer_list *a, struct producer_list *b, struct producer_list *out) {
    while (!TAILQ_EMPTY(a) || !TAILQ_EMPTY(b)) {
        bool from_b = TAILQ_EMPTY(a) || (!TAILQ_EMPTY(b) && used_before(TAILQ_FIRST(b), TAILQ_FIRST(a)));
        struct producer_list *from = from_b ? b : a;
        struct producer *first = TAILQ_FIRST(from);
        TAILQ_REMOVE(from, first, idle);
        TAILQ_INSERT_TAIL(out, first, idle);
    }
}

/* Bottom-up merge sort: sorted[i] is empty or has 2^i producers. */
void producers_order(struct core *core) {
    if (!core->producers_unordered) return;
    core->producers_unordered = false;
    struct producer_list sorted[PRODUCERS_BITS + 1];
    struct producer_list all = TAILQ_HEAD_INITIALIZER(all);
    for (size_t i = 0; i <= PRODUCERS_BITS; i++) TAILQ_INIT(&sorted[i]);
    struct producer *next = NULL;
    while ((next = TAILQ_FIRST(&core->producers_idle))) {
        struct producer_list carried = TAILQ_HEAD_INITIALIZER(carried);
        TAILQ_REMOVE(&core->producers_idle, next, idle);
        TAILQ_INSERT_TAIL(&carried, next, idle);
        size_t i = 0;
        for (; !TAILQ_EMPTY(&sorted[i]); i++) {
            struct producer_list merged = TAILQ_HEAD_INITIALIZER(merged);
            merge(&sorted[i], &carried, &merged);
            TAILQ_CONCAT(&carried, &merged, idle);
        }
        TAILQ_CONCAT(&sorted[i], &carried, idle);
    }
    for (size_t i = 0; i <= PRODUCERS_BITS; i++) {
        struct producer_list merged = TAILQ_HEAD_INITIALIZER(merged);
        merge(&sorted[i], &all, &merged);
        TAILQ_CONCAT(&all, &merged, idle);
    }
    TAILQ_CONCAT(&core->producers_idle, &all, idle);
}
