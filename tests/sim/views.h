/* views.h: what lists and counts must say. A List, Queues or Stats is answered as of one moment, so what it must
 * contain is written down right before the core answers it, from the naive model, and compared with the answer. */
#ifndef TARRY_TESTS_SIM_VIEWS_H
#define TARRY_TESTS_SIM_VIEWS_H

#include "core.h"

struct world;

struct view { /* of one task that a list may contain */
    struct due due;
    uint32_t state; /* enum state_bit */
};

struct views {
    struct view *tasks; /* that fit the question, in the order of (due, id) */
    size_t count;
    uint64_t (*queues)[3]; /* [number]: waiting, in flight, dead */
    uint64_t live;
};

/* NULL: the request asks for nothing of the kind. */
struct views *views_expect(struct world *world, const Tarry__Request *request);
void views_check(const struct world *world, const struct views *views, const Tarry__Request *request,
                 const Tarry__Reply *reply);

#endif
