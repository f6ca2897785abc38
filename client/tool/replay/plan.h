/* plan.h: the queues of a dry run: the policy that each had, and what is to be different. */
#ifndef TARRY_TOOL_PLAN_H
#define TARRY_TOOL_PLAN_H

#include <stdbool.h>

#include "args.h"
#include "store.h"
#include "tarry.pb-c.h"

struct lateness { /* of deliveries, in the order in which they came */
    uint32_t *ms; /* owned */
    size_t count, capacity;
};

struct plan {
    char *name; /* owned */
    bool taken; /* --queue lets it through */
    bool told;  /* a record of it was read */
    Tarry__Policy recorded;
    bool paused;          /* in the record, by now */
    Tarry__Policy set;    /* --set … */
    uint32_t set_fields;  /* … of these: bits in the order of QUEUE_POLICY */
    bool known;           /* the dry run's core has the queue */
    uint32_t number;      /* … under this number */
    struct workers *line; /* workers.h; owned by the dry run */
    struct lateness late; /* of the dry run's deliveries */
    uint64_t moved;       /* of them, those that came at another time than in the record */
};

struct plans {
    struct plan **items; /* owned, each at a fixed address */
    size_t count;
    const struct args *args; /* --queue, --set */
};

/* 0, or EXIT_USAGE after a sentence. */
int plans_init(struct plans *plans, const struct args *args);
/* Never NULL. */
struct plan *plans_find(struct plans *plans, const char *name);
/* Queues that are older than what is read have the policy of now. 0, or EXIT_REFUSED after a sentence. */
int plans_learn(struct plans *plans, struct store *store);
/* What --set names, but for queues that were not met. NULL: all were. */
const char *plans_not_met(const struct plans *plans);
/* A copy of a policy in a record, without what belongs to the record: where it was pushed to makes no difference here.
 */
Tarry__Policy plan_recorded(const Tarry__Policy *from);
/* The recorded policy with --set in force. */
Tarry__Policy plan_policy(const struct plan *plan);
void plans_deinit(struct plans *plans);

#endif
