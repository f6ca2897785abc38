/* http_calendar.c: the number of tasks that are due in each time span. */
#include <time.h>

#include "http_exchange.h"
#include "tarry_limits.h"
#include "units.h"

#define SPANS_DEFAULT 24u
#define STEP_DEFAULT_MS 3600000ull

static bool read_step(struct http_exchange *exchange, uint64_t *out) {
    const struct head_text *value = head_parameter(&exchange->head, "step");
    if (value == NULL || duration_parse(value->text, out)) return true;
    http_refuse(exchange, 400, "invalid", "parameter step must be a duration such as 1m, 1h or 1d");
    return false;
}

/* Rounds down to a whole step, because the broker counts whole minutes. */
static uint64_t rounded(uint64_t ms, uint64_t step_ms) {
    return step_ms > 0 ? ms - ms % step_ms : ms;
}

static bool read_calendar(struct http_exchange *exchange, Tarry__Calendar *out) {
    const struct head_text *queue = head_parameter(&exchange->head, "queue");
    uint64_t spans = SPANS_DEFAULT, from_ms = UINT64_MAX;
    bool by_queue = false;
    struct timespec now;
    out->step_ms = STEP_DEFAULT_MS;
    if (!http_parameters_only(exchange, "queue from step spans by_queue") ||
        !http_parameter_time(exchange, "from", &from_ms) || !read_step(exchange, &out->step_ms) ||
        !http_parameter_u64(exchange, "spans", CALENDAR_SPANS_MAX, &spans) ||
        !http_parameter_bool(exchange, "by_queue", &by_queue))
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000;
    out->from_ms = from_ms == UINT64_MAX ? rounded(rounded(now_ms, out->step_ms), CALENDAR_UNIT_MS)
                                         : rounded(from_ms, CALENDAR_UNIT_MS);
    out->spans = (uint32_t)spans;
    out->by_queue = by_queue;
    if (queue != NULL) out->queue = queue->text;
    return true;
}

static void on_calendar(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (http_answered_by_head(exchange)) return;
    out_begin(&out, '{');
    out_time(&out, "from", exchange->from_ms);
    out_number(&out, "step_ms", exchange->step_ms);
    json_members(&out, &reply->calendar->base);
    out_end(&out, '}');
    http_respond(exchange, 200, &out);
}

void handle_calendar(struct http_exchange *exchange) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Calendar calendar = TARRY__CALENDAR__INIT;
    if (!read_calendar(exchange, &calendar)) return;
    exchange->from_ms = calendar.from_ms;
    exchange->step_ms = calendar.step_ms;
    request.body_case = TARRY__REQUEST__BODY_CALENDAR;
    request.calendar = &calendar;
    http_ask(exchange, &request, on_calendar);
}
