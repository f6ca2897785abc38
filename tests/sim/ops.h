/* ops.h: builds the operations of commits, in the world's memory, for stories. habits.c makes random ones. */
#ifndef TARRY_TESTS_SIM_OPS_H
#define TARRY_TESTS_SIM_OPS_H

#include "client.h"

struct herd { /* omitted fields are 0 */
    uint64_t spread_ms, overdue_expire_ms, overdue_dead_ms, overdue_spread_ms;
};

struct schedule {      /* omitted fields are 0 */
    const char *queue; /* NULL: "orders" */
    const char *key;   /* NULL: none */
    uint64_t delay_ms;
    uint64_t at_ms; /* Unix time at which the task is due; 0: delay_ms counts */
    uint32_t priority;
    uint64_t expires_ms;
    Tarry__Schedule__OnConflict on_conflict;
    const char *serial;    /* NULL: none */
    uint32_t max_attempts; /* the task's own settings (OWN-1) */
    uint64_t backoff_ms, lease_ms;
};
Tarry__Op *op_schedule(struct world *world, const struct schedule *schedule);
Tarry__Ref *op_ref(struct world *world, const char *queue, const char *key, uint64_t id);
Tarry__Op *op_cancel(struct world *world, Tarry__Ref *task, bool withdraw);
Tarry__Op *op_move(struct world *world, Tarry__Ref *task, uint64_t delay_ms);
Tarry__Op *op_ack(struct world *world, const struct held *held);
Tarry__Op *op_nack(struct world *world, const struct held *held, bool has_delay, uint64_t delay_ms, bool dead);
Tarry__Op *op_extend(struct world *world, const struct held *held, uint64_t lease_ms);
Tarry__Op *op_release(struct world *world, const struct held *held);
Tarry__Op *op_dead(struct world *world, Tarry__DeadOp__What what, Tarry__Ref *task, bool all);
Tarry__Op *op_pause(struct world *world, const char *queue, bool paused, uint64_t for_ms);
Tarry__Op *op_delete(struct world *world, const char *queue);
/* Makes an operation that turns the queue into a group with filter number `filter`. SIM_FILTERS (no filter) turns it
 * into an ordinary queue. */
#define SIM_FILTERS 5u
Tarry__Op *op_group(struct world *world, const char *queue, uint32_t filter);
/* Makes an operation that creates the queue if it does not exist. */
Tarry__Op *op_create(struct world *world, const char *queue);
/* Returns whether a filter of op_group matches the task. It does not parse the filter. */
bool sim_filter_matches(const char *filter, uint64_t id);
/* Makes the fan-out of a topic's task. The task's attributes depend on its id. */
Tarry__Op *op_fan_out(struct world *world, const struct held *held);
/* Sets lease_before_due. */
Tarry__Op *op_early(struct world *world, const char *queue);
Tarry__Op *op_recur_set(struct world *world, const Tarry__RecurSet *set);
Tarry__Op *op_recur_do(struct world *world, const char *queue, const char *name, Tarry__RecurDo__What what);
/* Makes an operation that sets or deletes a definition. `expected`: version that the definition must have; NULL: any
 * version. */
Tarry__Op *op_define(struct world *world, uint32_t number, bool deletes, const uint64_t *expected);
Tarry__Op *op_purge(struct world *world, const char *queue, uint32_t states);
/* Makes a redaction. If `task` names only a queue, the redaction covers the queue's tasks that were scheduled from
 * `from_ms` until before `to_ms` (Unix time in ms; `to_ms` 0: no end). */
Tarry__Op *op_redact(struct world *world, Tarry__Ref *task, uint64_t from_ms, uint64_t to_ms, uint64_t after_id);
Tarry__Op *op_queue_set(struct world *world, const char *queue, uint64_t lease_ms, uint32_t max_attempts,
                        uint64_t backoff_min_ms);
/* Makes an operation that sets the limits of the queue's deliveries; 0: no limit. */
Tarry__Op *op_queue_limits(struct world *world, const char *queue, uint32_t rate, uint32_t burst,
                           uint32_t max_in_flight);
/* Makes an operation that sets the queue's spread, and how overdue tasks are treated after an outage. A value of 0
 * switches that treatment off. */
Tarry__Op *op_queue_herd(struct world *world, const char *queue, const struct herd *herd);
Tarry__When *op_when(struct world *world, uint64_t delay_ms, uint64_t at_ms);

/* Shortcuts for stories: a commit with one operation. */
#define client_schedule(client, ...)                                                                                   \
    client_commit_one(client, op_schedule((client)->world, &(struct schedule){__VA_ARGS__}))

/* Returns the operation as text for the trace: "schedule orders order-1 in 500 ms". Valid until the next call. */
const char *op_text(const Tarry__Op *op);
const char *result_text(const Tarry__OpResult *result);
const char *frame_text(const struct frame_header *header, const Tarry__FrameBody *body);

#endif
