/* views.h: the expected contents of lists and counts. A List, Queues or Stats reply shows the state of one moment. So
 * the expected contents are taken from the naive model just before the core answers, and compared with the reply. */
#ifndef TARRY_TESTS_SIM_VIEWS_H
#define TARRY_TESTS_SIM_VIEWS_H

#include "core.h"

struct world;

struct view { /* a task that a list must contain */
    struct due due;
    uint32_t state; /* enum state_bit */
};

struct views {
    struct view *tasks; /* the tasks that a list must contain, ordered by (due, id) */
    size_t count;
    uint64_t (*queues)[3]; /* numbers of waiting, in-flight and dead tasks, indexed by the queue's number */
    uint64_t live;
};

/* Returns the expected contents of the reply; NULL: the request asks for no list or count. */
struct views *views_expect(struct world *world, const Tarry__Request *request);
void views_check(const struct world *world, const struct views *views, const Tarry__Request *request,
                 const Tarry__Reply *reply);

#endif
