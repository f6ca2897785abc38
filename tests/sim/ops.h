/* ops.h: the operations of commits, made in the world's memory. For stories; random ones are in habits.c. */
#ifndef TARRY_TESTS_SIM_OPS_H
#define TARRY_TESTS_SIM_OPS_H

#include "client.h"

struct schedule {      /* what is left out is 0 */
    const char *queue; /* NULL: "orders" */
    const char *key;   /* NULL: none */
    uint64_t delay_ms;
    uint64_t at_ms; /* Unix time; not 0: counts instead of the delay */
    uint32_t priority;
    uint64_t expires_ms;
    Tarry__Schedule__OnConflict on_conflict;
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
Tarry__Op *op_purge(struct world *world, const char *queue, uint32_t states);
/* of a queue alone: scheduled from `from_ms` on and before `to_ms`, Unix time (0: no end) */
Tarry__Op *op_redact(struct world *world, Tarry__Ref *task, uint64_t from_ms, uint64_t to_ms, uint64_t after_id);
Tarry__Op *op_queue_set(struct world *world, const char *queue, uint64_t lease_ms, uint32_t max_attempts,
                        uint64_t backoff_min_ms);
Tarry__When *op_when(struct world *world, uint64_t delay_ms, uint64_t at_ms);

/* The short way for stories: one operation, one commit. */
#define client_schedule(client, ...)                                                                                   \
    client_commit_one(client, op_schedule((client)->world, &(struct schedule){__VA_ARGS__}))

/* For the trace: "schedule orders order-1 in 500 ms"; valid until the next call. */
const char *op_text(const Tarry__Op *op);
const char *result_text(const Tarry__OpResult *result);
const char *frame_text(const struct frame_header *header, const Tarry__FrameBody *body);

#endif
