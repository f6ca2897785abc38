/* decide.h: decisions about one operation of a commit. Each decision reads through the draft and writes records into
 * it, or refuses. */
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
    const struct core_caller *caller;   /* the caller; NULL: it has no restrictions */
    bool is_question;                   /* true: leases ahead of time are kept; the answer shows the task as waiting */
    const struct queue *queue;          /* the queue that the operation requires (queue_need); NULL: none required */
    Tarry__OpResult *result;            /* the result to fill in; initialised with code OK */
};

/* Declares one function for each operation, for example decide_ack(struct decision *d, const Tarry__Ack *m). */
#define OPERATION(CASE, member, Message, ...) void decide_##member(struct decision *d, const Tarry__##Message *m);
#include "requests.def"

/* Starts a job over the whole queue (jobs.c); `states`: mask of enum state_bit. */
void decide_job(struct decision *d, const char *queue_name, Tarry__JobPut__What what, uint32_t states);

/* Finds the queue, or creates it by a separate frame for the request if that is needed and allowed. Returns
 * NULL on refusal, with the reason in *out_code and *out_message. */
struct queue *queue_need(struct core *core, const struct core_request *request, const char *name,
                         struct core_effects *effects, Tarry__Code *out_code, const char **out_message);
extern const char queue_not_created[]; /* error message if the broker does not create queues on first use */
/* Ends the queue's pause, if its time is over. */
void queue_pause_over(struct core *core, struct queue *queue, struct core_effects *effects);

/* Finds the task if this token belongs to its lease. Otherwise writes the task's present state into the result. */
bool holds_lease(struct decision *d, uint64_t id, const Tarry__Token *token, struct known *out);

/* Returns the outcome of a task whose last record has this cause. */
Tarry__Outcome outcome_of_cause(Tarry__Cause cause);
void refuse_op(struct decision *d, Tarry__Code code, Tarry__Outcome outcome, const char *message);

/* ---- shared by several decisions (task_view.c) */

/* Returns true if the caller may use the queue of this task (id 0: no task is named). Otherwise refuses the operation.
 * The message does not reveal whether the task exists. */
bool may_touch(struct decision *d, uint64_t id);
extern const char refused_brokers_task[]; /* error message for a task in one of the broker's own queues */

enum resolved { RESOLVED_LIVE, RESOLVED_DEAD, RESOLVED_ENDED };
/* Finds the task that the reference names, including changes by earlier operations of this draft. If the task has
 * expired, first records the expiry. If the task has ended or was never known, returns RESOLVED_ENDED, and the result
 * contains the outcome, its time and known-since. */
enum resolved resolve(struct decision *d, const Tarry__Ref *ref, struct known *out);
enum resolved resolve_id(struct decision *d, uint64_t id, struct known *out);
/* Writes a task into the result: id, due time, deliveries, last session and time. If it is in flight, also the token
 * and since when; if it is dead, also since when. */
void describe(Tarry__OpResult *result, const struct row *row, struct arena *arena);
/* Writes the same as `describe` except the token, because the caller has settled the lease. */
void describe_tokenless(Tarry__OpResult *result, const struct row *row);
/* Writes an ended task into the result: its outcome, id, due time, deliveries, last session, and when it ended. */
void describe_outcome(Tarry__OpResult *result, const struct outcome *outcome);
/* Computes the due time and base of a When. Returns false after refusing a time more than ten years ahead. */
bool due_of(struct decision *d, const Tarry__When *when, uint64_t *out_due_ms, uint8_t *out_base);
/* Adds a delay below the queue's spread_ms to the due time of a task that is scheduled or moved. The delay is computed
 * from the task's id. The task is never due earlier (TIME-1). */
void row_spread(const struct decision *d, const struct queue *queue, struct row *row);
/* Returns in `out` the row of a dead task that becomes live again: due now, attempts reset. */
void row_revive(const struct core *core, const struct row *row, struct row *out);

#endif
