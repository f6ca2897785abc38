/* query.c: questions about one task. Pages of tasks are in query_list.c, counts in query_stats.c. */
#include "query.h"

#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "decide.h"
#include "effects.h"
#include "groups.h"
#include "need.h"
#include "tasks.h"

uint32_t query_state_bit(const struct core *core, const struct row *row) {
    const uint64_t now_ms = base_ms(core, row->base);
    if (row->state == ROW_LEASED && ahead_is(core, row)) return row->due_ms <= now_ms ? STATE_READY : STATE_PENDING;
    return state_bit_of(row, now_ms);
}

Tarry__TaskView *query_view(struct core *core, const struct row *row, struct arena *arena) {
    struct row waiting;
    if (row->state == ROW_LEASED && ahead_is(core, row)) {
        ahead_return(core, task_find(core, row->id), &waiting);
        row = &waiting;
    }
    Tarry__TaskView *view = must_alloc(arena, sizeof *view);
    tarry__task_view__init(view);
    view->id = row->id;
    view->queue = queue_at(core, row->queue)->name;
    view->key.data = must_copy(arena, row->key, row->key_size);
    view->key.len = row->key_size;
    view->state = (char *)state_bit_name(query_state_bit(core, row));
    view->due_ms = row->due_ms;
    view->priority = row->priority;
    view->attempt = row->attempt;
    view->deliveries = row->deliveries;
    view->scheduled_ms = row->scheduled_ms;
    view->expires_ms = row->expires_ms;
    view->delivered_ms = row->delivered_ms;
    view->session = row->session;
    view->absolute = row->base == ROW_WALL;
    view->serial.data = must_copy(arena, row->serial, row->serial_size);
    view->serial.len = row->serial_size;
    view->spread_ms = row->spread_ms;
    view->max_attempts = row->max_attempts;
    view->backoff_ms = row->backoff_ms;
    view->lease_ms = row->lease_ms;
    if (row->state == ROW_LEASED) {
        view->lease_deadline_ms = row->lease_deadline_ms;
        view->token = must_alloc(arena, sizeof *view->token);
        tarry__token__init(view->token);
        view->token->epoch = row->lease_epoch;
        view->token->position = row->lease_position;
    } else if (row->state == ROW_BURIED) {
        char *reason = must_alloc(arena, (size_t)row->reason_size + 1);
        if (row->reason_size) memcpy(reason, row->reason, row->reason_size);
        view->reason = reason;
        view->dead_ms = row->dead_ms;
    }
    return view;
}

const char *query_ended_name(Tarry__Outcome outcome) {
    switch (outcome) {
    case TARRY__OUTCOME__ACKED:
        return "acked";
    case TARRY__OUTCOME__ALREADY_CANCELLED:
        return "cancelled";
    case TARRY__OUTCOME__EXPIRED:
        return "expired";
    case TARRY__OUTCOME__DROPPED:
        return "dropped";
    case TARRY__OUTCOME__SHARED:
        return "shared";
    case TARRY__OUTCOME__UNMATCHED:
        return "unmatched";
    default:
        return "";
    }
}

/* Returns the view of a task that has ended, with the data that the broker still remembers. */
static Tarry__TaskView *view_of_ended(struct core *core, const Tarry__Get *get, const Tarry__OpResult *result,
                                      struct arena *arena) {
    Tarry__TaskView *view = must_alloc(arena, sizeof *view);
    tarry__task_view__init(view);
    const struct outcome *outcome = outcomes_by_id(core->outcomes, result->id);
    view->id = result->id;
    if (outcome) {
        view->queue = queue_at(core, outcome->queue)->name;
        view->key.data = must_copy(arena, outcome->key, outcome->key_size);
        view->key.len = outcome->key_size;
        view->priority = outcome->priority;
        view->redacted = outcome->redacted;
    } else {
        assert(get->task); /* without an outcome, queue and key are known only from the request */
        view->queue = get->task->queue;
        view->key = get->task->key;
    }
    view->state = (char *)query_ended_name(result->outcome);
    view->due_ms = result->due_ms;
    view->deliveries = result->deliveries;
    view->session = result->session;
    view->delivered_ms = result->delivered_ms;
    view->ended_ms = result->at_ms;
    return view;
}

static Tarry__TaskView *view_of_outcome(struct core *core, const struct outcome *outcome, struct arena *arena) {
    const Tarry__Get get = TARRY__GET__INIT;
    Tarry__OpResult result = TARRY__OP_RESULT__INIT;
    describe_outcome(&result, outcome);
    return view_of_ended(core, &get, &result, arena);
}

static Tarry__ShareView *share_of_view(const Tarry__TaskView *view, struct arena *arena) {
    Tarry__ShareView *share = must_alloc(arena, sizeof *share);
    tarry__share_view__init(share);
    share->queue = view->queue;
    share->id = view->id;
    share->state = view->state;
    share->attempt = view->attempt;
    share->deliveries = view->deliveries;
    share->delivered_ms = view->delivered_ms;
    share->ended_ms = view->ended_ms;
    return share;
}

/* Makes the reply about a task that was turned into shares. */
static Tarry__TaskReply *reply_of_shares(struct core *core, const Tarry__Get *get, const struct shares *shares,
                                         struct arena *arena) {
    Tarry__TaskReply *reply = must_alloc(arena, sizeof *reply);
    tarry__task_reply__init(reply);
    const struct outcome *task = shares->id ? outcomes_by_id(core->outcomes, shares->id) : NULL;
    reply->outcome = TARRY__OUTCOME__SHARED;
    if (task) {
        reply->task = view_of_outcome(core, task, arena);
    } else {
        reply->task = must_alloc(arena, sizeof *reply->task);
        tarry__task_view__init(reply->task);
        reply->task->queue = get->task->queue;
        reply->task->key = get->task->key;
        reply->task->due_ms = shares->due_ms;
        reply->task->state = (char *)query_ended_name(TARRY__OUTCOME__SHARED);
    }
    Tarry__TaskView *view = reply->task;
    view->shares = must_alloc(arena, (shares->count + shares->ended_count) * sizeof(Tarry__ShareView *));
    for (size_t i = 0; i < shares->count; i++)
        view->shares[view->n_shares++] = share_of_view(query_view(core, &shares->known[i].row, arena), arena);
    for (size_t i = 0; i < shares->ended_count; i++)
        view->shares[view->n_shares++] = share_of_view(view_of_outcome(core, shares->ended[i], arena), arena);
    return reply;
}

static Tarry__Outcome live_outcome(const struct core *core, const struct row *row) {
    if (row->state == ROW_LEASED && !ahead_is(core, row)) return TARRY__OUTCOME__IN_FLIGHT;
    return row->state == ROW_BURIED ? TARRY__OUTCOME__DEAD : TARRY__OUTCOME__PENDING;
}

void query_get(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const Tarry__Get *get = request->message->get;
    struct draft draft;
    draft_init(&draft, core, effects->arena, &request->facts, 1);
    Tarry__OpResult result = TARRY__OP_RESULT__INIT;
    struct decision d = {.core = core,
                         .draft = &draft,
                         .effects = effects,
                         .caller = request->caller,
                         .is_question = true,
                         .result = &result};
    struct known known;
    if (!may_touch(&d, get->task->id)) {
        reply_refuse(core, effects, request->ticket, result.code, result.message);
        return;
    }
    enum resolved resolved = resolve(&d, get->task, &known);
    struct need need = {0};
    if (draft.record_count) need_facts(&need, &request->facts);
    if (!need_fits(core, &need, ROOM_ALL)) { /* CAP-1: memory does not suffice even to end one more task */
        reply_refuse(core, effects, request->ticket, TARRY__CODE__BUSY,
                     "the broker's memory for tasks is full (--memory): try again in a moment");
        return;
    }
    struct shares shares;
    /* `shared` must be made before the draft is committed, because the commit may drop outcomes. */
    Tarry__TaskReply *shared = NULL;
    if (resolved == RESOLVED_ENDED && shares_find(&d, get->task, &shares))
        shared = reply_of_shares(core, get, &shares, effects->arena);
    /* Commits the draft, because it may contain the task's expiry. */
    if (!core->stopping && is_deciding(core)) draft_commit(&draft, NULL, effects);
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_GET;
    reply->get = must_alloc(effects->arena, sizeof *reply->get);
    tarry__task_reply__init(reply->get);
    struct core_reply *out = reply_send(core, effects, request->ticket, reply);
    if (resolved != RESOLVED_ENDED) {
        struct row *row = must_copy(effects->arena, &known.row, sizeof known.row);
        reply->get->outcome = live_outcome(core, row);
        reply->get->task = query_view(core, row, effects->arena);
        must_own(effects->arena, row);
        if (get->with_content) out->content = row;
    } else if (shared) {
        reply->get = shared;
    } else if (result.outcome == TARRY__OUTCOME__UNKNOWN) {
        reply->get->outcome = result.outcome;
        reply->get->known_since_ms = result.known_since_ms;
    } else {
        reply->get->outcome = result.outcome;
        reply->get->task = view_of_ended(core, get, &result, effects->arena);
    }
}

uint32_t core_queue_number(const struct core *core, const char *name) {
    const struct queue *queue = queue_find(core, name);
    return queue ? queue->number : 0;
}

uint64_t core_id_end(const struct core *core) {
    return core->tally.next_id;
}
