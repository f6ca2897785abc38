/* cmd_stats.c: tarry stats. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "question.h"
#include "rfc3339.h"
#include "signals.h"
#include "table.h"
#include "units.h"
#include "watch.h"

#define WATCH_MS 1000u
#define BAR_WIDTH 16u
#define ROUNDED_FROM 10000000u

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"watch", ARG_FLAG, NULL, "print again every second, with rates, until interrupted"},
    {"wide", ARG_FLAG, NULL, "print all columns in full [only what fits the terminal, or 80 columns]"},
    OPTIONS_FRESH,
    {0},
};

const struct command command_stats = {
    .name = "stats",
    .usage = "[QUEUE] [--watch] [--wide]",
    .summary = "show counts, rates and latencies of the broker and its queues",
    .text = "Shows, for each queue, how many tasks are pending, ready, in flight and dead, what has happened\n"
            "since the queue was created, and how late deliveries were; and the state of the broker. For queues\n"
            "with push it also shows how the targets answer: STATUS is the HTTP status of the last request,\n"
            "FAILED counts the failed requests, and REFUSED those of them that were answered with 410. A number\n"
            "of ready tasks with a + is a lower bound: there may be more than the broker has in memory. Numbers\n"
            "from 10 million on are rounded and long names are cut, except with --wide and --json.\n\n"
            "While no broker answers, --watch retries, and shows the age of the numbers. It retries without\n"
            "end, unless --timeout is given.\n\n"
            "--json prints what GET /v1/stats answers: {\"queues\":[…],\"broker\":{…}}.",
    .options = options,
    .positional_min = 0,
    .positional_max = 1,
    .examples = "tarry stats\ntarry stats --watch\ntarry stats close-order --json",
    .run = run,
};

/* ---- for people */

static const Tarry__QueueStats *stats_of(const ProtobufCMessage *message) {
    return (const Tarry__QueueStats *)message;
}

static void say_milliseconds(struct text *out, const Tarry__Quantiles *quantiles, double value) {
    if (quantiles != NULL && quantiles->count != 0) text_printf(out, value < 10 ? "%.1fms" : "%.0fms", value);
}

#define SAY_LATENESS(quantile)                                                                                         \
    static void say_##quantile(struct text *out, const ProtobufCMessage *message) {                                    \
        const Tarry__Quantiles *lateness = stats_of(message)->lateness_ms;                                             \
        say_milliseconds(out, lateness, lateness != NULL ? lateness->quantile : 0);                                    \
    }
SAY_LATENESS(p50)
SAY_LATENESS(p99)
SAY_LATENESS(max)

/* Appends a number, rounded if it is long. */
static void say_count(struct text *out, uint64_t count) {
    static const char *const units[] = {"M", "G", "T", "P"};
    double rounded = (double)count / 1e6;
    size_t unit = 0;
    for (; rounded >= 1000 && unit < 3; unit++) rounded /= 1000;
    if (count < ROUNDED_FROM)
        text_add_u64(out, count);
    else
        text_printf(out, "%.*f%s", rounded < 100 ? 1 : 0, rounded, units[unit]);
}

#define SAY_COUNT(type, field)                                                                                         \
    static void say_##field(struct text *out, const ProtobufCMessage *message) {                                       \
        say_count(out, ((const type *)message)->field);                                                                \
    }
SAY_COUNT(Tarry__QueueStats, pending)
SAY_COUNT(Tarry__QueueStats, in_flight)
SAY_COUNT(Tarry__QueueStats, dead)
SAY_COUNT(Tarry__PushTarget, acked)
SAY_COUNT(Tarry__PushTarget, refused)
SAY_COUNT(Tarry__PushTarget, failed)

static const char *mark_of(const ProtobufCMessage *message) {
    return stats_of(message)->ready_is_lower_bound ? "+" : "";
}

static void say_ready(struct text *out, const ProtobufCMessage *message) {
    say_count(out, stats_of(message)->ready);
    text_add_str(out, mark_of(message));
}

static void say_ready_wide(struct text *out, const ProtobufCMessage *message) {
    text_add_u64(out, stats_of(message)->ready);
    text_add_str(out, mark_of(message));
}

static void say_name(struct text *out, const ProtobufCMessage *message) {
    if (stats_of(message)->paused) text_add_str(out, "(paused) ");
    field_say(out, message, "name");
}

static void say_overdue(struct text *out, const ProtobufCMessage *message) {
    char duration[UNITS_TEXT_SIZE];
    const uint64_t ms = stats_of(message)->oldest_overdue_ms;
    if (ms != 0) text_add_str(out, duration_format(ms < 1000 ? ms : ms / 1000 * 1000, duration));
}

/* Largest number of waiting tasks in a queue of the table that is being printed; the bars are relative to it. */
static uint64_t waiting_max;

static void say_bar(struct text *out, const ProtobufCMessage *message) {
    bar_add(out, (double)(stats_of(message)->pending + stats_of(message)->ready), (double)waiting_max, BAR_WIDTH);
}

static const struct column narrow_columns[] = {
    {"QUEUE", NULL, say_name},           {">PENDING", NULL, say_pending}, {">READY", NULL, say_ready},
    {">IN FLIGHT", NULL, say_in_flight}, {">DEAD", NULL, say_dead},       {">OVERDUE", NULL, say_overdue},
    {">LATE P50", NULL, say_p50},        {">P99", NULL, say_p99},
};

static const struct column wide_columns[] = {
    {"QUEUE", NULL, say_name},         {">PENDING", "pending", NULL},
    {">READY", NULL, say_ready_wide},  {">IN FLIGHT", "in_flight", NULL},
    {">DEAD", "dead", NULL},           {">OVERDUE", NULL, say_overdue},
    {">CONSUMERS", "consumers", NULL}, {">LATE P50", NULL, say_p50},
    {">P99", NULL, say_p99},           {"", NULL, say_bar},
    {">SCHEDULED", "scheduled", NULL}, {">CANCELLED", "cancelled", NULL},
    {">DELIVERED", "delivered", NULL}, {">ACKED", "acked", NULL},
    {">RETRIED", "retried", NULL},     {">MAX", NULL, say_max},
};

static void words_size(struct text *out, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit < 4; unit++) size /= 1024;
    text_printf(out, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
}

static void words_archive(struct text *out, const Tarry__BrokerStats *broker) {
    char time[RFC3339_TEXT_SIZE];
    if (broker->archived_segments > 0) {
        text_printf(out, "archive %llu segments, ", (unsigned long long)broker->archived_segments);
        words_size(out, broker->archive_bytes);
        text_printf(out, ", since %s", rfc3339_format(broker->archive_oldest_ms, time));
        if (broker->archive_held > 0) text_printf(out, ", %llu held", (unsigned long long)broker->archive_held);
        text_add_char(out, '\n');
    }
    if (broker->archive_error[0] != 0)
        text_printf(out, "THE BROKER CANNOT ARCHIVE, so the log grows: %s\n", broker->archive_error);
}

static void words_behind(struct text *out, const char *what, uint64_t bytes) {
    if (bytes == 0) {
        text_printf(out, ", all %s", what);
        return;
    }
    text_add_str(out, ", all but the last ");
    words_size(out, bytes);
    text_printf(out, " %s", what);
}

static void words_amqp(struct text *out, const Tarry__AmqpStats *amqp) {
    text_printf(out,
                "amqp    %llu connections, %llu channels, %llu consumers; %llu exchanges, %llu queues, %llu bindings\n",
                (unsigned long long)amqp->connections, (unsigned long long)amqp->channels,
                (unsigned long long)amqp->consumers, (unsigned long long)amqp->exchanges,
                (unsigned long long)amqp->queues, (unsigned long long)amqp->bindings);
    if (amqp->blocked > 0)
        text_printf(out, "        %llu connections are blocked: the broker has no capacity for their publishes\n",
                    (unsigned long long)amqp->blocked);
}

static void words_broker(struct text *out, const Tarry__BrokerStats *broker) {
    char uptime[UNITS_TEXT_SIZE];
    text_printf(out, "tarryd  %s, epoch %u, member %.8s, up %s\n", broker->version, broker->epoch, broker->member,
                duration_format(broker->uptime_ms / 1000 * 1000, uptime));
    text_printf(out, "tasks   %llu live (%llu in memory), %llu sessions\n", (unsigned long long)broker->live,
                (unsigned long long)broker->near_tasks, (unsigned long long)broker->sessions);
    text_add_str(out, "memory  ▕");
    bar_add(out, (double)broker->core_bytes, (double)broker->core_bytes_max, BAR_WIDTH);
    text_add_str(out, "▏ ");
    words_size(out, broker->core_bytes);
    text_add_str(out, " of ");
    words_size(out, broker->core_bytes_max);
    text_add_str(out, ", resident ");
    words_size(out, broker->resident_bytes);
    text_printf(out, "\nlog     position %llu", (unsigned long long)broker->appended);
    words_behind(out, "durable", broker->appended - broker->durable);
    words_behind(out, "indexed", broker->appended - broker->indexed);
    text_printf(out, "\n        %llu segments, ", (unsigned long long)broker->segments);
    words_size(out, broker->log_bytes);
    text_add_str(out, "; index ");
    words_size(out, broker->index_bytes);
    if (broker->fsync_us != NULL && broker->fsync_us->count > 0)
        text_printf(out, "\nfsync   p50 %.0fµs, p99 %.0fµs, max %.0fµs", broker->fsync_us->p50, broker->fsync_us->p99,
                    broker->fsync_us->max);
    text_add_char(out, '\n');
    if (broker->amqp != NULL) words_amqp(out, broker->amqp);
    words_archive(out, broker);
    if (broker->clock_held)
        text_add_str(out, "THE CLOCK HAS JUMPED: tasks with absolute times wait until it is correct again\n");
}

static void words_pair(struct text *out, const Tarry__PairStats *pair) {
    char age[UNITS_TEXT_SIZE];
    text_add_str(out, "pair    ");
    field_say(out, &pair->base, "role");
    text_printf(out, ", epoch %u, %s%s\n        lag %llu frames, ", pair->epoch,
                pair->in_sync ? "in sync" : "not in sync", pair->alone ? ", has served alone" : "",
                (unsigned long long)pair->lag_frames);
    words_size(out, pair->lag_bytes);
    text_printf(out, ", %s\n", duration_format(pair->lag_ms, age));
}

/* Time of the statistics that are being printed, in ms. */
static uint64_t answered_ms;

static void say_rest(struct text *out, const ProtobufCMessage *message) {
    char duration[UNITS_TEXT_SIZE];
    const uint64_t until_ms = ((const Tarry__PushTarget *)message)->resting_until_ms;
    if (until_ms > answered_ms) text_add_str(out, duration_format((until_ms - answered_ms) / 1000 * 1000, duration));
}

static const struct column push_columns[] = {
    {"PUSHED", "queue", NULL},       {">UNDER WAY", "in_flight", NULL}, {">ACKED", NULL, say_acked},
    {">REFUSED", NULL, say_refused}, {">FAILED", NULL, say_failed},     {">STATUS", "status", NULL},
    {"BACKS OFF", NULL, say_rest},   {"LAST ERROR", "error", NULL},
};

static const struct column push_wide_columns[] = {
    {"PUSHED", "queue", NULL},     {">UNDER WAY", "in_flight", NULL}, {">ACKED", "acked", NULL},
    {">REFUSED", "refused", NULL}, {">FAILED", "failed", NULL},       {">STATUS", "status", NULL},
    {"BACKS OFF", NULL, say_rest}, {"LAST ERROR", "error", NULL},
};

#define COUNT_OF(columns) (sizeof(columns) / sizeof((columns)[0]))

/* Prints the queues that have a push URL, with the last answers of their targets. */
static void words_push(struct text *out, const Tarry__BrokerStats *broker, bool is_wide) {
    const size_t count = COUNT_OF(push_columns);
    const struct column *columns = is_wide ? push_wide_columns : push_columns;
    struct table table;
    answered_ms = broker->now_ms;
    columns_table(&table, columns, count);
    for (size_t i = 0; i < broker->n_push; i++) columns_row(&table, columns, count, &broker->push[i]->base);
    text_add_char(out, '\n');
    if (!is_wide) table_fit(&table, count - 1, columns_of(STDOUT_FILENO));
    table_print(&table, out);
    table_deinit(&table);
}

static void words(struct text *out, const Tarry__StatsReply *stats, bool is_wide) {
    const struct column *columns = is_wide ? wide_columns : narrow_columns;
    const size_t count = is_wide ? COUNT_OF(wide_columns) : COUNT_OF(narrow_columns);
    struct table table;
    if (stats->broker != NULL) words_broker(out, stats->broker);
    if (stats->broker != NULL && stats->broker->pair != NULL) words_pair(out, stats->broker->pair);
    if (stats->n_queues == 0) return;
    waiting_max = 0;
    columns_table(&table, columns, count);
    for (size_t i = 0; i < stats->n_queues; i++) {
        uint64_t waiting = stats->queues[i]->pending + stats->queues[i]->ready;
        if (waiting > waiting_max) waiting_max = waiting;
    }
    for (size_t i = 0; i < stats->n_queues; i++) columns_row(&table, columns, count, &stats->queues[i]->base);
    text_add_char(out, '\n');
    if (!is_wide) table_fit(&table, 0, columns_of(STDOUT_FILENO));
    table_print(&table, out);
    table_deinit(&table);
    if (stats->broker != NULL && stats->broker->n_push > 0) words_push(out, stats->broker, is_wide);
}

/* ---- watching */

struct totals {
    uint64_t at_ms;
    uint64_t scheduled;
    uint64_t cancelled;
    uint64_t delivered;
    uint64_t acked;
};

static struct totals totals_of(const Tarry__StatsReply *stats) {
    struct totals totals = {.at_ms = steady_ms()};
    for (size_t i = 0; i < stats->n_queues; i++) {
        totals.scheduled += stats->queues[i]->scheduled;
        totals.cancelled += stats->queues[i]->cancelled;
        totals.delivered += stats->queues[i]->delivered;
        totals.acked += stats->queues[i]->acked;
    }
    return totals;
}

static double rate(uint64_t now, uint64_t before, uint64_t took_ms) {
    return took_ms > 0 && now >= before ? (double)(now - before) * 1000 / (double)took_ms : 0;
}

static void words_rates(struct text *out, const struct totals *now, const struct totals *before) {
    uint64_t took_ms = now->at_ms - before->at_ms;
    text_printf(out, "\nper second: %.0f scheduled, %.0f cancelled, %.0f delivered, %.0f acked\n",
                rate(now->scheduled, before->scheduled, took_ms), rate(now->cancelled, before->cancelled, took_ms),
                rate(now->delivered, before->delivered, took_ms), rate(now->acked, before->acked, took_ms));
}

static void print(struct tool *tool, struct text *out, const struct answer_of *answer, bool is_wide) {
    if (tool->json)
        json_line(out, &answer->reply->stats->base, &answer->source);
    else
        words(out, answer->reply->stats, is_wide);
    tool_say_source(tool, &answer->source);
}

struct watching {
    struct tool *tool;
    const char *queue;
    bool is_screen;
    bool is_wide;
    bool is_stale;           /* true: no broker has answered since `answer` was received */
    struct answer_of answer; /* last statistics */
    struct totals totals;    /* sums over the queues in `answer` */
    struct totals before;    /* sums over the queues in the previous statistics; at_ms 0: there are none */
    struct text out;
};

/* Prints the last statistics. If no newer ones have arrived, also prints their age. */
static int show(struct watching *w) {
    if (w->is_screen) text_add_str(&w->out, "\033[H\033[2J");
    print(w->tool, &w->out, &w->answer, w->is_wide);
    if (!w->tool->json && w->before.at_ms != 0 && !w->is_stale) words_rates(&w->out, &w->totals, &w->before);
    if (w->is_stale) {
        char age[UNITS_TEXT_SIZE], said[TARRY_MESSAGE_SIZE];
        uint64_t age_ms = steady_ms() - w->totals.at_ms;
        text_printf(&w->out, "\nTHESE NUMBERS ARE %s OLD: no broker answers (%s)\n",
                    duration_format(age_ms / 1000 * 1000, age), tarry_addresses_say(w->tool->client, said));
    }
    return output_flush(&w->out, EXIT_FINE);
}

/* Records whether the printed numbers are out of date. Without a screen, reports each change once on standard error.
 * (The warnings of watch.h do not suffice, because they come only while a request waits, and no request waits between
 * two refreshes.) */
static void say_stale(struct watching *w, bool is_stale) {
    char said[TARRY_MESSAGE_SIZE], duration[UNITS_TEXT_SIZE];
    if (is_stale && !w->is_stale && !w->is_screen)
        tool_say("no broker answers; retrying (%s)", tarry_addresses_say(w->tool->client, said));
    if (!is_stale && w->is_stale && !w->is_screen)
        tool_say("a broker answers again, after %s",
                 duration_format((w->totals.at_ms - w->before.at_ms) / 1000 * 1000, duration));
    w->is_stale = is_stale;
}

static int ask(const struct watching *w, struct answer_of *out, char message[TARRY_MESSAGE_SIZE]) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    struct tarry_call fresh = w->tool->fresh;
    fresh.timeout_ms = w->answer.reply == NULL ? w->tool->timeout_ms : WATCH_MS;
    if (w->queue != NULL) stats.queue = (char *)w->queue;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    return question_ask(w->tool->client, &request, &fresh, out, message);
}

static int look(struct watching *w) {
    struct tool *tool = w->tool;
    struct answer_of answer;
    char message[TARRY_MESSAGE_SIZE] = "";
    int code = ask(w, &answer, message);
    if (code == TARRY_OK) {
        w->before = w->totals;
        w->totals = totals_of(answer.reply->stats);
        answer_free(&w->answer);
        w->answer = answer;
        say_stale(w, false);
        return show(w);
    }
    bool is_given_up = tool->has_timeout && steady_ms() - w->totals.at_ms >= tool->timeout_ms;
    if (w->answer.reply == NULL || is_given_up || exit_status_of(code) != EXIT_SILENCE)
        return tool_failed(tool, code, message);
    say_stale(w, true);
    return w->is_screen ? show(w) : EXIT_FINE;
}

static int run_watch(struct watching *w) {
    int status = EXIT_FINE;
    signals_graceful();
    while (status == EXIT_FINE && !signals_ended() && !output_lost()) {
        status = look(w);
        watch_silence(false); /* from the first statistics on, say_stale reports that no broker answers; watch.h must
                                 not report it as well */
        struct pollfd end = {.fd = signals_fd(), .events = POLLIN};
        if (status == EXIT_FINE) poll(&end, 1, WATCH_MS);
    }
    return status;
}

static int run(struct tool *tool, const struct args *args) {
    const bool watches = args_has(args, "watch");
    struct watching w = {.tool = tool,
                         .queue = args->positional_count > 0 ? args->positional[0] : NULL,
                         .is_wide = args_has(args, "wide"),
                         .is_screen = watches && !tool->json && isatty(STDOUT_FILENO) == 1};
    int status = option_fresh(tool, args);
    if (status == EXIT_FINE) status = tool_connect(tool);
    if (status == EXIT_FINE) status = watches ? run_watch(&w) : look(&w);
    answer_free(&w.answer);
    text_deinit(&w.out);
    return status;
}
