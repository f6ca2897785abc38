/* query_recur.c: lists recurrences, with their next occurrences. Bounded: slots and calendar searches per result page.
 */
#include <string.h>

#include "callers.h"
#include "decide.h"
#include "effects.h"
#include "query.h"
#include "queues.h"
#include "recur.h"
#include "tasks.h"

#define SLOTS_PER_PAGE_MAX 8192u

static char *state_name(const struct recur *recur) {
    if (recur->stuck) return (char *)"stuck";
    if (recur->paused) return (char *)"paused";
    return (char *)(recur->next_ms || recur->queued_ms ? "active" : "ended");
}

/* Adds the times of the next occurrences. Stops early when the search limit of one answer is reached. */
static void add_times(Tarry__RecurView *view, const struct rule *rule, uint64_t now_ms, uint64_t next_ms, uint64_t left,
                      uint32_t wanted, struct arena *arena) {
    uint32_t looks = 5 * RULE_LOOKS_MAX;
    uint64_t at_ms = next_ms ? next_ms - 1 : now_ms;
    if (left && wanted > left) wanted = (uint32_t)left;
    view->times = must_alloc(arena, (wanted + 1) * sizeof *view->times);
    while (view->n_times < wanted) {
        at_ms = rule_next(rule, at_ms, &looks);
        if (!at_ms) return;
        Tarry__RecurTime *time = must_alloc(arena, sizeof *time);
        tarry__recur_time__init(time);
        time->at_ms = at_ms;
        time->local = must_alloc(arena, ZONE_TIME_SIZE);
        zone_format(rule->zone, (int64_t)(at_ms / 1000), time->local);
        view->times[view->n_times++] = time;
    }
}

static void add_calendar(const struct core *core, const struct recur *recur, const Tarry__RecurSet *set, uint32_t times,
                         Tarry__RecurView *view, struct arena *arena) {
    struct rule rule;
    struct rule_problem problem;
    if (!recur_rule(set, &rule, &problem)) {
        view->problem = must_copy(arena, problem.text, sizeof problem.text);
        return;
    }
    const uint64_t count = set->count ? set->count : rule.count;
    const uint64_t left = count > recur->occurrences ? count - recur->occurrences : 0;
    const bool is_over = (count && !left) || recur->paused;
    if (times && !is_over) add_times(view, &rule, base_ms(core, ROW_WALL), recur->next_ms, left, times, arena);
}

/* Adds the state of the last occurrence that fell due: that of its task in memory, or its remembered outcome. */
static void add_last(struct core *core, const struct recur *recur, const Tarry__RecurSet *set, Tarry__RecurView *view,
                     struct arena *arena) {
    const struct zone *zone = recur->last_ms ? zone_find(set->zone) : NULL;
    if (!zone) return;
    const struct task_key key = recur_key(recur->queue, recur->name, recur->name_size, zone, recur->last_ms, 0, arena);
    struct task *live, *dead;
    task_find_key(core, &key, &live, &dead);
    const struct task *task = live ? live : dead;
    const struct outcome *outcome = outcomes_by_key(core->outcomes, key.queue, key.data, (uint8_t)key.size);
    if (task) {
        view->last_state = (char *)state_bit_name(query_state_bit(core, &task->row));
    } else if (outcome) {
        view->last_state = (char *)query_ended_name(outcome_of_cause((Tarry__Cause)outcome->cause));
        view->last_ended_ms = outcome->ended_ms;
    }
}

static Tarry__RecurView *view_of(struct core *core, const struct recur *recur, uint32_t times, struct arena *arena) {
    const Tarry__RecurSet *set = recur_set_of(recur, arena);
    Tarry__RecurView *view = must_alloc(arena, sizeof *view);
    tarry__recur_view__init(view);
#define TAKE(field) view->field = set->field
    TAKE(queue), TAKE(name), TAKE(cron), TAKE(every_ms), TAKE(rrule), TAKE(zone), TAKE(from_ms), TAKE(until_ms);
    TAKE(count), TAKE(jitter_ms), TAKE(gap), TAKE(fold), TAKE(missed), TAKE(missed_window_ms), TAKE(overlap);
    TAKE(days), TAKE(priority), TAKE(expires_ms), TAKE(content);
#undef TAKE
    view->state = state_name(recur);
    view->next_ms = recur->next_ms;
    view->next_due_ms = recur->due_ms;
    view->next_id = recur->is_live ? recur->task : 0;
    view->last_ms = recur->last_ms;
    view->occurrences = recur->occurrences;
    view->missed_count = recur->missed;
    view->skipped_count = recur->skipped;
    view->open = (uint32_t)__builtin_popcount(recur->open_live);
    view->tzdata = (char *)recur->tzdata;
    add_last(core, recur, set, view, arena);
    if (times || recur->stuck) add_calendar(core, recur, set, times, view, arena);
    return view;
}

static Tarry__RecurrencesReply *reply_start(struct core_effects *effects, Tarry__Reply **out) {
    Tarry__Reply *reply = *out = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_RECURRENCES;
    reply->recurrences = must_alloc(effects->arena, sizeof *reply->recurrences);
    tarry__recurrences_reply__init(reply->recurrences);
    return reply->recurrences;
}

void query_recurrences(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const Tarry__Recurrences *question = request->message->recurrences;
    const struct queue *queue = question->queue[0] ? queue_find_live(core, question->queue) : NULL;
    if (question->queue[0] && !queue) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__NO_SUCH_QUEUE, "the queue does not exist");
        return;
    }
    Tarry__Reply *reply;
    Tarry__RecurrencesReply *out = reply_start(effects, &reply);
    const uint32_t limit = question->limit ? question->limit : RECURRENCES_LIMIT_MAX;
    out->recurrences = must_alloc(effects->arena, limit * sizeof *out->recurrences);
    if (question->name[0]) {
        assert(queue); /* request.c, check_recurrences */
        const struct recur *recur = recur_find(core, queue->number, question->name, strlen(question->name));
        if (recur) out->recurrences[out->n_recurrences++] = view_of(core, recur, question->times, effects->arena);
    }
    const uint64_t first = question->name[0] ? core->recur_slots_end : question->cursor;
    uint64_t slot = first;
    for (; slot < core->recur_slots_end && out->n_recurrences < limit && slot < first + SLOTS_PER_PAGE_MAX; slot++) {
        const struct recur *recur = core->recur_slots[slot];
        if (!recur || (queue && recur->queue != queue->number)) continue;
        if (!caller_covers(request->caller, queue_at(core, recur->queue)->name)) continue;
        out->recurrences[out->n_recurrences++] = view_of(core, recur, 0, effects->arena);
    }
    if (slot < core->recur_slots_end) out->next = slot;
    reply_send(core, effects, request->ticket, reply);
}
