/* decide_redact.c: records that the contents of ended tasks must be erased. The core knows the live tasks; the shell
 * has searched for the contents of tasks that ended long ago (core_past). Erasure follows once this record is durable
 * and in the index (storage/README.md). */
#include <string.h>

#include "callers.h"
#include "check.h"
#include "decide.h"
#include "effects.h"
#include "groups.h"

static char not_there[] =
    "log and archive have no task with this queue and key; a task that both have deleted can be redacted by its id";
static char too_many[] =
    "the operations before this one already redact as many tasks as one commit may: send this one in another commit";
static char young[] = "the task was scheduled while the broker searched for its content: send the request again";

static const char *in_the_way(const struct row *row) {
    if (row->state == ROW_BURIED) return "the task is a dead letter: drop it first";
    if (row->state == ROW_LEASED) return "the task is in flight: withdraw it first (cancel --withdraw)";
    return "the task is live: cancel it first";
}

static void refuse_living(struct decision *d, const struct row *row) {
    Tarry__Outcome outcome = TARRY__OUTCOME__PENDING;
    if (row->state == ROW_LEASED) outcome = TARRY__OUTCOME__IN_FLIGHT;
    if (row->state == ROW_BURIED) outcome = TARRY__OUTCOME__DEAD;
    describe(d->result, row, d->effects->arena);
    refuse_op(d, TARRY__CODE__NOT_DONE, outcome, in_the_way(row));
}

/* Returns true if the task has ended; otherwise refuses the operation. After true, the result may contain the task's
 * outcome, which the caller must replace by the answer of this operation. */
static bool has_ended(struct decision *d, const Tarry__Ref *ref) {
    for (uint64_t expired_id = 0;;) {
        struct known known = {0};
        tarry__op_result__init(d->result);
        if (resolve(d, ref, &known) != RESOLVED_ENDED) {
            refuse_living(d, &known.row);
            return false;
        }
        /* resolve may have found that a live task with this key has expired. A dead letter may have the same key, so
         * search the key again. */
        bool again = !ref->id && known.ended == TARRY__CAUSE__CAUSE_EXPIRED && known.row.id != expired_id;
        if (!again) return true;
        expired_id = known.row.id;
    }
}

static void record(struct decision *d, const struct core_past_task *task, const char *reason) {
    Tarry__Redaction *redaction = must_alloc(d->draft->arena, sizeof *redaction);
    tarry__redaction__init(redaction);
    redaction->id = task->id;
    redaction->queue = task->queue;
    redaction->key = (ProtobufCBinaryData){.data = (uint8_t *)task->key, .len = task->key_size};
    redaction->frame = task->frame;
    redaction->blob_at = task->blob_at;
    redaction->blob_size = task->blob_size;
    if (task->frame) {
        redaction->content_hash.data = (uint8_t *)task->content_hash;
        redaction->content_hash.len = CONTENT_HASH_SIZE;
    }
    redaction->reason = (char *)reason;
    Tarry__Record *fact = draft_record(d->draft);
    fact->fact_case = TARRY__RECORD__FACT_REDACTION;
    fact->redaction = redaction;
}

struct redacted {
    uint64_t id; /* id of the last visited task */
    uint64_t at_ms;
    uint64_t count;
    uint64_t left;
    uint64_t position; /* position of the last frame that records the redaction */
};

static void redact_task(struct decision *d, const struct core_past_task *task, const char *reason,
                        struct redacted *out) {
    out->id = task->id;
    out->at_ms = task->scheduled_ms;
    if (task->redacted_at) {
        if (task->redacted_at > out->position) out->position = task->redacted_at;
        return;
    }
    record(d, task, reason);
    out->count++;
    out->position = d->core->position;
}

static void answer(struct decision *d, const struct redacted *redacted) {
    tarry__op_result__init(d->result);
    d->result->outcome = TARRY__OUTCOME__REDACTED;
    d->result->id = redacted->id;
    d->result->at_ms = redacted->at_ms;
    d->result->count = redacted->count;
    d->result->left = redacted->left;
    d->result->job = redacted->position;
}

/* Redacts the ended tasks that were scheduled in the range; counts the tasks that have not ended. */
static void redact_range(struct decision *d, const Tarry__Redact *redact) {
    struct redacted redacted = {0};
    if (!queue_find(d->core, redact->task->queue) && !(d->past && d->past->is_former)) {
        refuse_op(d, TARRY__CODE__NO_SUCH_QUEUE, TARRY__OUTCOME__NONE, "the queue does not exist");
        return;
    }
    for (size_t i = 0; d->past && i < d->past->count; i++) {
        const struct core_past_task *task = &d->past->tasks[i];
        struct known known;
        if (resolve_id(d, task->id, &known) == RESOLVED_ENDED) {
            redact_task(d, task, redact->reason, &redacted);
        } else {
            redacted.id = task->id;
            redacted.at_ms = task->scheduled_ms;
            redacted.left++;
        }
    }
    answer(d, &redacted);
}

/* Returns true if one of the found tasks was in one of the broker's own queues, and the caller may not use these.
 * may_touch cannot check this, because the core has forgotten the task and only the shell's search knows its queue. */
static bool is_any_brokers(const struct decision *d) {
    if (caller_may_all(d->caller)) return false;
    for (size_t i = 0; d->past && i < d->past->count; i++) {
        uint32_t queue = d->past->tasks[i].queue;
        if (queue_has_place(d->core, queue) && queue_is_reserved(queue_at(d->core, queue)->name)) return true;
    }
    return false;
}

/* Refuses the operation and returns true if a share of the topic's task (its copy for one group) has not ended, because
 * the share has a copy of the content. */
static bool has_open_shares(struct decision *d, const Tarry__Ref *ref) {
    struct shares shares;
    if (!shares_find(d, ref, &shares) || !shares.count) return false;
    describe(d->result, &shares.known[0].row, d->effects->arena);
    refuse_op(
        d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__SHARED,
        "the task went to its groups, and a share has not ended: cancel it or drop it first, then redact the task "
        "in each group and in the topic");
    return true;
}

void decide_redact(struct decision *d, const Tarry__Redact *redact) {
    struct redacted redacted = {0};
    if (is_any_brokers(d)) {
        refuse_op(d, TARRY__CODE__DENIED, TARRY__OUTCOME__NONE, refused_brokers_task);
        return;
    }
    if (d->past && d->past->no_room) {
        refuse_op(d, TARRY__CODE__TOO_LARGE, TARRY__OUTCOME__NONE, too_many);
        return;
    }
    bool is_key = redact->task->key.len > 0;
    if (!redact->task->id && !is_key) {
        redact_range(d, redact);
        return;
    }
    if (!has_ended(d, redact->task) || has_open_shares(d, redact->task)) return;
    for (size_t i = 0; d->past && i < d->past->count; i++) {
        redact_task(d, &d->past->tasks[i], redact->reason, &redacted);
    }
    /* A task that was scheduled during the search may have a content that the search did not find. */
    bool is_known = redacted.id || (redact->task->id && d->past && redact->task->id < d->past->id_end);
    if (!is_known && (!redact->after_id || redact->task->id)) {
        bool is_young = redact->task->id && redact->task->id < d->draft->next_id;
        d->result->code = TARRY__CODE__NOT_DONE;
        d->result->message = is_young ? young : not_there;
        return;
    }
    /* The core has forgotten the task, but the index may once have stored its content. */
    if (!redacted.id && redact->task->id) {
        redact_task(d, &(struct core_past_task){.id = redact->task->id}, redact->reason, &redacted);
    }
    answer(d, &redacted);
}
