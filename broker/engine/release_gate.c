/* release_gate.c: see release_gate.h. */
#include "release_gate.h"

#include <assert.h>
#include <stddef.h>

void release_gate_init(struct release_gate *gate, uint64_t reached) {
    *gate = (struct release_gate){.reached = reached, .told = reached};
    gate->last = &gate->first;
    gate->subscribers_last = &gate->subscribers;
}

void release_gate_subscribe(struct release_gate *gate, struct release_subscriber *subscriber) {
    subscriber->next = NULL;
    *gate->subscribers_last = subscriber;
    gate->subscribers_last = &subscriber->next;
}

void release_gate_enter(struct release_gate *gate, struct release *release) {
    assert(release->position == 0 || release->position >= gate->entered);
    if (release->position > gate->entered) gate->entered = release->position;
    release->next = NULL;
    *gate->last = release;
    gate->last = &release->next;
}

void release_gate_reach(struct release_gate *gate, uint64_t position) {
    assert(position >= gate->reached);
    gate->reached = position;
}

void release_gate_confirm(struct release_gate *gate, uint64_t question) {
    gate->confirmed = question;
}

bool release_gate_reaches(const struct release_gate *gate, uint64_t position) {
    return position <= gate->reached; /* LOG-1, R2 */
}

static bool is_confirmed(const struct release_gate *gate, const struct release *release) {
    return release->question <= gate->confirmed; /* R3 */
}

struct release *release_gate_take(struct release_gate *gate) {
    struct release *release = gate->first;
    if (release == NULL) return NULL;
    gate->first = release->next;
    if (gate->first == NULL) gate->last = &gate->first;
    return release;
}

struct release *release_gate_next(struct release_gate *gate) {
    const struct release *first = gate->first;
    if (first == NULL || !release_gate_reaches(gate, first->position) || !is_confirmed(gate, first)) return NULL;
    return release_gate_take(gate);
}

bool release_gate_wants_confirmation(const struct release_gate *gate) {
    const struct release *first = gate->first;
    return first != NULL && release_gate_reaches(gate, first->position) && !is_confirmed(gate, first);
}

void release_gate_tell(struct release_gate *gate) {
    const uint64_t reached = gate->reached;
    if (reached == gate->told) return;
    gate->told = reached;
    for (const struct release_subscriber *subscriber = gate->subscribers; subscriber != NULL;
         subscriber = subscriber->next)
        subscriber->reached(subscriber->context, reached);
}
