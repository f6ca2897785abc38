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
    bool taken; /* selected by --queue */
    bool told;  /* the log has a record of the queue */
    Tarry__Policy recorded;
    bool paused;            /* current state in the log */
    struct turn_list ahead; /* leases ahead of time that are not settled (life.h) */
    uint64_t late_position; /* frame that found an unsent lease after the time to send it (life.c) */
    uint64_t late_from_ns;  /* earliest time to send such a lease (steady) */
    Tarry__Policy set;      /* --set … */
    uint32_t set_fields;    /* fields of `set` that are valid: bits 1 << enum policy_place */
    bool known;             /* the queue exists in the dry run's core */
    uint32_t number;        /* number of the queue in the core */
    struct workers *line;   /* workers.h; owned by the dry run */
    struct lateness late;   /* lateness of the dry run's deliveries */
    uint64_t moved;         /* deliveries at another time than in the log */
};

struct plans {
    struct plan **items; /* owned, each at a fixed address */
    size_t count;
    const struct args *args; /* --queue, --set */
};

/* 0, or EXIT_USAGE after an error message. */
int plans_init(struct plans *plans, const struct args *args);
/* Never NULL. */
struct plan *plans_find(struct plans *plans, const char *name);
/* Gives queues that are older than the read part of the log their current policy. 0, or EXIT_REFUSED after an error
 * message. */
int plans_learn(struct plans *plans, struct store *store);
/* Returns a queue of --set that the log does not have. NULL: it has all of them. */
const char *plans_not_met(const struct plans *plans);
/* Returns a copy of a recorded policy that does not borrow from the record. The push URL is left out, because a dry
 * run does not push. */
Tarry__Policy plan_recorded(const Tarry__Policy *from);
/* Returns the recorded policy with the fields of --set. */
Tarry__Policy plan_policy(const struct plan *plan);
void plans_deinit(struct plans *plans);

#endif
