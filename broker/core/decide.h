/* decide.h: one operation of a commit: reads through the draft, writes records into it or refuses. */
#ifndef TARRY_CORE_DECIDE_H
#define TARRY_CORE_DECIDE_H

#include "draft.h"
#include "queues.h"

struct decision {
    struct core *core;
    struct draft *draft;
    struct core_effects *effects;
    const struct core_content *content; /* schedule */
    const struct core_past *past;       /* redact */
    const struct core_caller *caller;   /* NULL: any caller */
    bool is_question;                   /* a lease ahead of time stays: the answer shows the task as waiting */
    const struct queue *queue;          /* that must exist for the operation (queue_need); NULL: none must */
    Tarry__OpResult *result;            /* initialised; code OK */
};

void decide_schedule(struct decision *d, const Tarry__Schedule *schedule);
void decide_cancel(struct decision *d, const Tarry__Cancel *cancel);
void decide_move(struct decision *d, const Tarry__Move *move);
void decide_ack(struct decision *d, const Tarry__Ack *ack);
void decide_nack(struct decision *d, const Tarry__Nack *nack);
void decide_extend(struct decision *d, const Tarry__Extend *extend);
void decide_release(struct decision *d, const Tarry__Release *release);
void decide_dead(struct decision *d, const Tarry__DeadOp *dead);
void decide_redact(struct decision *d, const Tarry__Redact *redact);
void decide_queue_set(struct decision *d, const Tarry__QueueSet *set);
void decide_queue_pause(struct decision *d, const Tarry__QueuePause *pause);
void decide_queue_delete(struct decision *d, const Tarry__QueueDelete *delete);
void decide_queue_purge(struct decision *d, const Tarry__QueuePurge *purge);

/* Starts a job over the whole queue (jobs.c); `states`: mask of enum state_bit. */
void decide_job(struct decision *d, const char *queue_name, Tarry__JobPut__What what, uint32_t states);

/* The queue, brought into being by a frame of its own, of the event's request, if it must be and may be. NULL:
 * *out_code, *out_message say why. */
struct queue *queue_need(struct core *core, const struct core_event *event, const char *name,
                         struct core_effects *effects, Tarry__Code *out_code, const char **out_message);
extern const char queue_not_created[]; /* why not, where queues are not created on first use */
/* A timed pause is over. */
void queue_pause_over(struct core *core, struct queue *queue, struct core_effects *effects);

void refuse(struct decision *d, Tarry__Code code, Tarry__Outcome outcome, const char *message);

/* ---- shared by several decisions (task_view.c) */

/* The task with this id (0: none is meant) lies in a queue that the caller may use. False: refused, in the same words
 * whether there is such a task or not. */
bool may_touch(struct decision *d, uint64_t id);
extern const char refused_brokers_task[]; /* the sentence, if the queue is one of the broker's own */

enum resolved { RESOLVED_LIVE, RESOLVED_DEAD, RESOLVED_ENDED };
/* The task that the reference means, as this draft leaves it. Expiry is recorded here, before any answer about the
 * task. When it has ended, or was never known, the result says the truth about that (outcome, when, known since) and
 * RESOLVED_ENDED comes back. */
enum resolved resolve(struct decision *d, const Tarry__Ref *ref, struct known *out);
enum resolved resolve_id(struct decision *d, uint64_t id, struct known *out);
/* What the result says about a task: id, due, deliveries, last session and time; in flight: token and since; dead
 * since. */
void describe(Tarry__OpResult *result, const struct row *row, struct arena *arena);
/* The same for whoever has settled the lease: without its token. */
void describe_tokenless(Tarry__OpResult *result, const struct row *row);
/* Due time and base of a When. False: refused (more than ten years ahead). */
bool due_of(struct decision *d, const Tarry__When *when, uint64_t *out_due_ms, uint8_t *out_base);
/* A dead task as it comes back to life: due now, attempts from the start. */
void row_revive(const struct core *core, const struct row *row, struct row *out);

#endif
