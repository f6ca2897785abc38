/* picks.c: see picks.h. */
#include "picks.h"

#include <string.h>

int pick_compare(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    return due_before((struct due){x->due_ms, x->id}, (struct due){y->due_ms, y->id}) ? -1 : 1;
}

bool pick_window(const struct row *row, const void *argument) {
    const struct core_window *window = argument;
    return row->state == ROW_WAITING && row->queue == window->line.queue && row->base == window->line.base &&
           row->priority == window->line.priority && due_before(window->after, (struct due){row->due_ms, row->id});
}

bool pick_page(const struct row *row, const void *argument) {
    const struct core_page *page = argument;
    return row->queue == page->queue && row->id > page->after_id && row->id < page->id_end;
}

bool pick_list(const struct row *row, const void *argument) {
    const struct core_list_plan *plan = argument;
    return row->queue == plan->queue && (plan->states >> row->state & 1) && row->due_ms >= plan->due_from_ms &&
           row->due_ms < plan->due_to_ms && due_before(plan->after, (struct due){row->due_ms, row->id});
}

bool pick_wanted(const struct row *row, const void *argument) {
    const struct core_facts *facts = argument;
    for (size_t i = 0; i < facts->want_count; i++) {
        const struct want *want = &facts->wants[i];
        if (want->live_only && row->state == ROW_BURIED) continue;
        bool same_key = want->queue == row->queue && want->key_size == row->key_size && want->key_size > 0 &&
                        memcmp(want->key, row->key, want->key_size) == 0;
        if (want->id != 0 ? want->id == row->id : same_key) return true;
    }
    return false;
}
