/* pending.c: see pending.h. Indices in the order of names start at 1, as in a Fenwick tree. */
#include "pending.h"

#include <stdlib.h>
#include <string.h>

#include "callers.h"
#include "queues.h"
#include "sparse.h"

bool pending_init(struct pending *pending) {
    pending->order = sparse_new(QUEUE_PLACES + 1, sizeof *pending->order);
    pending->places = sparse_new(QUEUE_PLACES + 1, sizeof *pending->places);
    pending->sums = sparse_new(QUEUE_PLACES + 1, sizeof *pending->sums);
    return pending->order && pending->places && pending->sums;
}

void pending_deinit(struct pending *pending) {
    sparse_free(pending->order, QUEUE_PLACES + 1, sizeof *pending->order);
    sparse_free(pending->places, QUEUE_PLACES + 1, sizeof *pending->places);
    sparse_free(pending->sums, QUEUE_PLACES + 1, sizeof *pending->sums);
}

void pending_outdate(struct pending *pending) {
    pending->is_made = false;
}

static uint64_t count_of(const struct core *core, const struct queue *queue) {
    return queue_waiting(core, queue) + queue_in_flight(core, queue);
}

static void add(struct core *core, uint32_t place, uint64_t change) {
    struct pending *pending = &core->pending;
    for (; place <= pending->count; place += place & -place, core->visits++) pending->sums[place] += change;
}

/* Returns the sum over the first `place` queues. */
static uint64_t sum(struct core *core, uint32_t place) {
    uint64_t total = 0;
    for (; place; place -= place & -place, core->visits++) total += core->pending.sums[place];
    return total;
}

static int compare_names(const void *a, const void *b) {
    const struct queue *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void make(struct core *core) {
    struct pending *pending = &core->pending;
    pending->count = 0;
    for (uint32_t place = 1; place < core->tally.next_queue; place++)
        if (core->queues[place].number) pending->order[pending->count++] = &core->queues[place];
    if (pending->count) qsort(pending->order, pending->count, sizeof *pending->order, compare_names);
    memset(pending->sums, 0, (pending->count + 1) * sizeof *pending->sums);
    pending->is_made = true;
    for (uint32_t i = 0; i < pending->count; i++) {
        pending->places[queue_place(pending->order[i]->number)] = i + 1;
        add(core, i + 1, count_of(core, pending->order[i]));
    }
}

void pending_changed(struct core *core, uint32_t queue, uint64_t change) {
    if (!core->pending.is_made) return;
    /* pending_outdate was called for a new queue, so each queue has a place in the tree. */
    assert(core->pending.places[queue_place(queue)]);
    add(core, core->pending.places[queue_place(queue)], change);
}

/* Returns how many queues have names that sort before every name with the prefix. If `with` is true, also counts the
 * queues whose names have the prefix. */
static uint32_t count_before(struct core *core, const char *prefix, bool with) {
    uint32_t low = 0, high = core->pending.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strncmp(core->pending.order[middle]->name, prefix, strlen(prefix));
        core->visits++;
        if (order < 0 || (with && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Returns true if another prefix of the caller begins this one, so that its queues are counted already. If two prefixes
 * are equal, only the second one is covered, so that the first one is counted. */
static bool is_covered(const struct core_caller *caller, size_t at, const char *prefix) {
    const char *other = caller->prefixes;
    for (size_t i = 0; i < caller->prefix_count; i++, other += strlen(other) + 1) {
        bool is_same = strcmp(other, prefix) == 0;
        if (is_same ? i < at : begins_with(prefix, other)) return true;
    }
    return false;
}

uint64_t pending_of(struct core *core, const struct core_caller *caller) {
    if (!caller_is_confined(caller)) return core->tally.live;
    if (!core->pending.is_made) make(core);
    uint64_t total = 0;
    const char *prefix = caller->prefixes;
    for (size_t i = 0; i < caller->prefix_count; i++, prefix += strlen(prefix) + 1) {
        if (is_covered(caller, i, prefix)) continue;
        total += sum(core, count_before(core, prefix, true)) - sum(core, count_before(core, prefix, false));
    }
    return total;
}

void pending_check(const struct core *core) {
    const struct pending *pending = &core->pending;
    if (!pending->is_made) return;
    for (uint32_t place = 1; place <= pending->count; place++) {
        uint64_t total = 0;
        for (uint32_t i = place - (place & -place); i < place; i++) total += count_of(core, pending->order[i]);
        assert(total == pending->sums[place]);
    }
}
