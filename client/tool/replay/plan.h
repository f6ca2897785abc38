/* plan.h: the queues of a dry run: their recorded policies, and the changes of --set. */
#ifndef TARRY_TOOL_PLAN_H
#define TARRY_TOOL_PLAN_H

#include <stdbool.h>
#include <sys/queue.h>

#include "args.h"
#include "store.h"
#include "tarry.pb-c.h"

struct lateness { /* lateness of deliveries, in the order of the deliveries */
    uint32_t *ms; /* owned */
    size_t count, capacity;
};

struct turn;
LIST_HEAD(turn_list, turn);

struct plan {
    char *name; /* owned */
    bool taken; /* true: --queue selects this queue */
    bool told;  /* true: the log has a record of the queue */
    Tarry__Policy recorded;
    bool paused;            /* true: the queue is paused at the current place in the log */
    struct turn_list ahead; /* leases that were recorded before the due time and are not settled (life.h) */
    uint64_t late_position; /* position of a frame that came after the time at which a lease's delivery should have
                               left, while it had not left (life.c) */
    uint64_t late_from_ns;  /* for late_position: time at which the delivery should have left (steady) */
    Tarry__Policy set;      /* --set … */
    uint32_t set_fields;    /* fields of `set` that are valid: bits 1 << enum policy_place */
    bool known;             /* true: the queue exists in the dry run's core */
    uint32_t number;        /* number of the queue in the core */
    struct workers *line;   /* consumers of the queue (stage.h); owned by the dry run */
    struct lateness late;   /* lateness of the dry run's deliveries */
    uint64_t moved;         /* number of deliveries at another time than in the log */
};

struct plans {
    struct plan **items; /* queues, owned; each plan has a fixed address */
    size_t count;
    const struct args *args; /* --queue, --set */
};

/* Parses --queue and --set. Returns 0, or EXIT_USAGE after an error message. */
int plans_init(struct plans *plans, const struct args *args);
/* Never NULL. */
struct plan *plans_find(struct plans *plans, const char *name);
/* Gives queues that are older than the read part of the log their current policy. 0, or EXIT_REFUSED after an error
 * message. */
int plans_learn(struct plans *plans, struct store *store);
/* Returns a queue that --set names and the log does not have. NULL: the log has all of them. */
const char *plans_not_met(const struct plans *plans);
/* Returns a copy of a recorded policy that does not borrow from the record. The push URL is left out, because a dry
 * run does not push. */
Tarry__Policy plan_recorded(const Tarry__Policy *from);
/* Returns the recorded policy with the fields of --set. */
Tarry__Policy plan_policy(const struct plan *plan);
void plans_deinit(struct plans *plans);

#endif
