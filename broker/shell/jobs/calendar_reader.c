/* calendar_reader.c: see calendar_reader.h. */
#include "calendar_reader.h"

#include <errno.h>

#include "clock.h"
#include "fatal.h"
#include "index.h"

_Static_assert(CALENDAR_UNIT_MS == CALENDAR_MINUTE_MS, "both limits are equal");

static enum core_calendar_found ask(struct calendar_reader *reader, struct engine_request *engine_request) {
    struct core_calendar *calendar = &engine_request->calendar;
    const struct index_calendar_query query = {
        .from_ms = calendar->from_ms,
        .step_ms = calendar->step_ms,
        .span_count = calendar->span_count,
        .of_all = calendar->of_all,
        .by_queue = calendar->by_queue,
        .queues = calendar->queues,
        .queue_count = calendar->queue_count,
    };
    struct index_calendar counted;
    int error = index_calendar(reader->needs.index, &query, engine_request->arena, &counted);
    if (error == -E2BIG) return CALENDAR_TOO_MUCH;
    if (engine_request_exhausted(engine_request, error)) return CALENDAR_TOO_MUCH;
    if (error < 0) fatal("index_calendar_failed", error);
    calendar->counted = counted.counted;
    calendar->next_id = counted.next_id;
    if (error == 1) return CALENDAR_COUNTING;
    calendar->counts = counted.counts;
    calendar->counts_by_queue = counted.by_queue;
    calendar->before = counted.before;
    calendar->after = counted.after;
    calendar->position = counted.position;
    calendar->at_ms = counted.steady_ms;
    return CALENDAR_FOUND;
}

static void count(void *owner, struct engine_request *engine_request) {
    struct calendar_reader *reader = owner;
    const struct calendar_reader_needs *needs = &reader->needs;
    bool has =
        needs->await == NULL || needs->await(needs->context, engine_request->past_end, CALENDAR_WAIT_MS * NS_PER_MS);
    engine_request->calendar.found = has ? ask(reader, engine_request) : CALENDAR_BEHIND;
    engine_request_counted(engine_request);
    inbox_post(needs->inbox, &engine_request->item);
}

void calendar_reader_start(struct calendar_reader *reader, const struct calendar_reader_needs *needs) {
    reader->needs = *needs;
    worker_start(&reader->worker, "tarry-calendar", count, reader);
}

void calendar_reader_post(struct calendar_reader *reader, struct engine_request *engine_request) {
    worker_post(&reader->worker, engine_request);
}

void calendar_reader_stop(struct calendar_reader *reader) {
    worker_stop(&reader->worker);
}
