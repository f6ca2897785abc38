/* look_calendar.c: tarry_calendar: counts of waiting tasks by due time. */
#include <stdlib.h>

#include "client.h"

struct calendar_box {
    struct tarry_calendar_view view; /* must be first: see tarry_calendar_free */
    struct arena arena;
};

static int fill(struct arena *arena, const Tarry__CalendarReply *from, const struct tarry_calendar_options *options,
                struct tarry_calendar_view *out) {
    struct tarry_calendar_queue *queues = arena_alloc(arena, (from->n_queues + 1) * sizeof(*queues));
    const struct tarry_calendar_queue **listed = arena_alloc(arena, (from->n_queues + 1) * sizeof(*listed));
    if (queues == NULL || listed == NULL) return TARRY_E_NOMEM;
    if (from->n_counts != options->spans) return TARRY_E_PROTOCOL;
    for (size_t i = 0; i < from->n_queues; i++) {
        queues[i] = (struct tarry_calendar_queue){.name = from->queues[i]->name, .count = from->queues[i]->count};
        listed[i] = &queues[i];
    }
    *out = (struct tarry_calendar_view){
        .from_ms = options->from_ms,
        .step_ms = options->step_ms,
        .count = from->n_counts,
        .counts = from->counts,
        .before = from->before,
        .after = from->after,
        .queue_count = from->n_queues,
        .queues = listed,
        .position = from->position,
        .at_ms = from->at_ms,
        .now_ms = from->now_ms,
    };
    return TARRY_OK;
}

static int take(const tarry_client *client, const struct tarry_calendar_options *given,
                struct tarry_calendar_options *out, Tarry__Request *wire) {
    int rv = OPTIONS_CALL_TAKE(*out, given);
    return rv != TARRY_OK ? rv : call_wish(client, wire, &out->call);
}

int tarry_calendar(tarry_client *client, const struct tarry_calendar_options *given,
                   struct tarry_calendar_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_calendar_options options;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Calendar body = TARRY__CALENDAR__INIT;
    if (client == NULL || given == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    int rv = take(client, given, &options, &wire);
    if (rv != TARRY_OK) return message_say(out_message, rv);
    if (options.queue != NULL) body.queue = (char *)options.queue;
    body.from_ms = options.from_ms;
    body.step_ms = options.step_ms;
    body.spans = options.spans;
    body.by_queue = options.by_queue;
    wire.body_case = TARRY__REQUEST__BODY_CALENDAR;
    wire.calendar = &body;
    struct call call;
    rv = call_run_within(client, &wire, timeout_of(options.call.timeout_ms), &call, out_message);
    if (rv != TARRY_OK) {
        call_end(&call);
        return rv;
    }
    struct calendar_box *box = calloc(1, sizeof(*box));
    rv = box == NULL ? TARRY_E_NOMEM
         : call.reply->body_case != TARRY__REPLY__BODY_CALENDAR
             ? TARRY_E_PROTOCOL
             : fill(&call.arena, call.reply->calendar, &options, &box->view);
    if (rv == TARRY_OK) {
        box->view.source = source_of(call.reply);
        call_keep(&call, &box->arena);
        *out_view = &box->view;
    } else {
        free(box);
        message_say(out_message, rv);
    }
    call_end(&call);
    return rv;
}

void tarry_calendar_free(struct tarry_calendar_view *view) {
    if (view == NULL) return;
    struct calendar_box *box = (struct calendar_box *)view;
    arena_deinit(&box->arena);
    free(box);
}
