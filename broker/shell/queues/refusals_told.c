/* refusals_told.c: see refusals_told.h. */
#include "refusals_told.h"

#include <assert.h>

#include "clock.h"

static uint64_t ago_ms(uint64_t then_ms) {
    uint64_t now_ms = boottime_ns() / NS_PER_MS + 1;
    return now_ms > then_ms ? now_ms - then_ms : 0;
}

size_t refusals_told_pack(const struct refusals_told *told, struct arena *arena, const struct core_refusal **out) {
    struct core_refusal *refusals = arena_alloc(arena, told->count * sizeof(*refusals));
    assert(refusals != NULL && told->is_offered); /* never NULL, because the arena is made by fatal_arena_init */
    for (size_t i = 0; i < told->count; i++) {
        const struct refusal *row = &told->rows[i];
        refusals[i] = (struct core_refusal){.why = row->why,
                                            .address = row->address,
                                            .principal = row->principal,
                                            .what = row->what,
                                            .count = row->count,
                                            .first_ago_ms = ago_ms(row->first_ms),
                                            .last_ago_ms = ago_ms(row->last_ms)};
    }
    *out = refusals;
    return told->count;
}
