/* query_calendar.c: number of tasks that become due per time span. The index stores the counts and the shell reads them
 * (core_plan_calendar). This file adds the queue names and removes queues that the caller may not see. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "callers.h"
#include "effects.h"
#include "query.h"
#include "queues.h"

#define SENTENCE_SIZE 160u

static const char behind[] = "the index has not absorbed the latest records yet: try again in a moment";
static const char older[] = "the index is older than the requested log position: try again in a moment";
static const char too_much[] = "the request counts too many queues and spans of time at once: ask for whole hours, for "
                               "fewer queues, or for a shorter time";
static const char never_counted[] = "an older version of tarryd wrote this index without a calendar, and --inspect "
                                    "does not build one: start tarryd without --inspect once";

bool core_plan_calendar(const struct core *core, const struct core_request *request, struct arena *arena,
                        struct core_calendar *out) {
    const Tarry__Calendar *calendar = request->message->calendar;
    const bool is_one = calendar->queue[0] != '\0';
    *out = (struct core_calendar){
        .from_ms = calendar->from_ms,
        .step_ms = calendar->step_ms,
        .span_count = calendar->spans,
        .by_queue = calendar->by_queue,
        .of_all = !is_one && !caller_is_confined(request->caller),
        .queues = arena_alloc(arena, core->tally.next_queue * sizeof *out->queues),
    };
    if (!out->queues) return false;
    if (is_one) {
        const struct queue *queue = queue_find_live(core, calendar->queue);
        if (queue && caller_covers(request->caller, queue->name)) out->queues[out->queue_count++] = queue->number;
        return true;
    }
    for (uint32_t place = 1; place < core->tally.next_queue; place++) {
        const struct queue *queue = &core->queues[place];
        if (!queue->deleted && caller_covers(request->caller, queue->name))
            out->queues[out->queue_count++] = queue->number;
    }
    return true;
}

/* Fills in the queues that have tasks in the spans and were not deleted meanwhile. */
static void fill_queues(const struct core *core, const struct core_calendar *calendar, Tarry__CalendarReply *reply,
                        struct arena *arena) {
    reply->queues = must_alloc(arena, (calendar->queue_count + 1) * sizeof(Tarry__CalendarQueue *));
    for (size_t i = 0; i < calendar->queue_count; i++) {
        const struct queue *queue = queue_at(core, calendar->queues[i]);
        if (calendar->counts_by_queue[i] == 0 || queue->deleted || queue->number != calendar->queues[i]) continue;
        Tarry__CalendarQueue *view = must_alloc(arena, sizeof *view);
        tarry__calendar_queue__init(view);
        view->name = (char *)queue->name;
        view->count = calendar->counts_by_queue[i];
        reply->queues[reply->n_queues++] = view;
    }
}

static void tell(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const struct core_calendar *calendar = request->calendar;
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    Tarry__CalendarReply *out = must_alloc(effects->arena, sizeof *out);
    tarry__calendar_reply__init(out);
    out->n_counts = calendar->span_count;
    size_t size = calendar->span_count * sizeof *out->counts;
    out->counts =
        calendar->counts ? must_copy(effects->arena, calendar->counts, size) : must_alloc(effects->arena, size);
    out->before = calendar->before;
    out->after = calendar->after;
    out->position = calendar->position;
    out->at_ms = calendar->at_ms;
    out->now_ms = steady_ms(core);
    if (calendar->by_queue) fill_queues(core, calendar, out, effects->arena);
    reply->body_case = TARRY__REPLY__BODY_CALENDAR;
    reply->calendar = out;
    reply_send(core, effects, request->ticket, reply);
}

static const char *say_counting(const struct core_calendar *calendar, struct arena *arena) {
    char *sentence = must_alloc(arena, SENTENCE_SIZE);
    uint64_t all = calendar->next_id - 1, counted = calendar->counted - 1;
    snprintf(sentence, SENTENCE_SIZE,
             "the broker still builds the calendar of an index that an older version wrote: %" PRIu64
             " per cent are done; try again later",
             all ? counted * 100 / all : 100);
    return sentence;
}

void query_calendar(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const struct core_calendar *calendar = request->calendar;
    const char *name = request->message->calendar->queue;
    Tarry__Code code = TARRY__CODE__BUSY;
    const char *sentence = NULL;
    if (name[0] != '\0' && !queue_find_live(core, name)) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__NO_SUCH_QUEUE, "the queue does not exist");
        return;
    }
    switch (calendar->found) {
    case CALENDAR_FOUND:
        if (calendar->position >= request->message->at_least) {
            tell(core, request, effects);
            return;
        }
        code = TARRY__CODE__BEHIND;
        sentence = older;
        break;
    case CALENDAR_BEHIND:
        sentence = behind;
        break;
    case CALENDAR_COUNTING:
        if (core->inspected) code = TARRY__CODE__UNSUPPORTED;
        sentence = core->inspected ? never_counted : say_counting(calendar, effects->arena);
        break;
    case CALENDAR_TOO_MUCH:
        code = TARRY__CODE__TOO_LARGE;
        sentence = too_much;
        break;
    }
    reply_refuse(core, effects, request->ticket, code, sentence);
}
