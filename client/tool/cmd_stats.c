/* cmd_stats.c: tarry stats. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ndjson.h"
#include "output.h"
#include "rfc3339.h"
#include "signals.h"
#include "table.h"
#include "tool.h"
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
            "--json prints one object for each queue, and one for the broker, with \"queue\":null.",
    .options = options,
    .positional_min = 0,
    .positional_max = 1,
    .positional_names = "nothing",
    .examples = "tarry stats\ntarry stats --watch\ntarry stats close-order --json",
    .run = run,
};

/* ---- JSON */

static void json_quantiles(struct text *out, const char *name, const struct tarry_quantiles *quantiles) {
    ndjson_key(out, name);
    ndjson_begin(out);
    ndjson_real(out, "p50", quantiles->p50);
    ndjson_real(out, "p99", quantiles->p99);
    ndjson_real(out, "p999", quantiles->p999);
    ndjson_real(out, "max", quantiles->max);
    text_add_char(out, '}');
}

static const struct tarry_push_stats *pushed(const struct tarry_stats_view *view, const char *queue) {
    for (size_t i = 0; i < view->push_count; i++)
        if (strcmp(view->push[i]->queue, queue) == 0) return view->push[i];
    return NULL;
}

static void json_push(struct text *out, const struct tarry_push_stats *push) {
    ndjson_key(out, "push");
    ndjson_begin(out);
    ndjson_text(out, "url", push->url);
    ndjson_number(out, "in_flight", push->in_flight);
    ndjson_number(out, "sent", push->sent);
    ndjson_number(out, "acked", push->acked);
    ndjson_number(out, "failed", push->failed);
    ndjson_number(out, "refused", push->refused);
    ndjson_number(out, "status", push->status);
    ndjson_number(out, "succeeded_ms", push->succeeded_ms);
    ndjson_number(out, "failed_ms", push->failed_ms);
    ndjson_text(out, "error", push->error);
    ndjson_number(out, "resting_until_ms", push->resting_until_ms);
    text_add_char(out, '}');
}

static void json_queue(struct text *out, const struct tarry_queue_stats *queue, const struct tarry_stats_view *view) {
    const struct tarry_push_stats *push = pushed(view, queue->name);
    ndjson_begin(out);
    ndjson_text(out, "queue", queue->name);
    ndjson_number(out, "pending", queue->pending);
    ndjson_number(out, "ready", queue->ready);
    ndjson_bool(out, "ready_is_lower_bound", queue->ready_is_lower_bound);
    ndjson_number(out, "in_flight", queue->in_flight);
    ndjson_number(out, "dead", queue->dead);
    ndjson_bool(out, "paused", queue->paused);
    if (queue->paused_until_ms != 0) ndjson_number(out, "paused_until_ms", queue->paused_until_ms);
    ndjson_number(out, "scheduled", queue->scheduled);
    ndjson_number(out, "cancelled", queue->cancelled);
    ndjson_number(out, "delivered", queue->delivered);
    ndjson_number(out, "acked", queue->acked);
    ndjson_number(out, "retried", queue->retried);
    ndjson_number(out, "expired", queue->expired);
    ndjson_number(out, "dropped", queue->dropped);
    ndjson_number(out, "oldest_overdue_ms", queue->oldest_overdue_ms);
    json_quantiles(out, "lateness_ms", &queue->lateness_ms);
    ndjson_number(out, "jobs", queue->jobs);
    if (push != NULL) json_push(out, push);
    json_source(out, &view->source);
    ndjson_end(out);
}

static void json_pair(struct text *out, const struct tarry_pair_stats *pair) {
    if (pair == NULL) {
        ndjson_null(out, "pair");
        return;
    }
    ndjson_key(out, "pair");
    ndjson_begin(out);
    ndjson_text(out, "role", tarry_role_name(pair->role));
    ndjson_number(out, "epoch", pair->epoch);
    ndjson_bool(out, "in_sync", pair->in_sync);
    ndjson_bool(out, "alone", pair->alone);
    ndjson_number(out, "committed", pair->committed);
    ndjson_number(out, "applied", pair->applied);
    ndjson_number(out, "lag_frames", pair->lag_frames);
    ndjson_number(out, "lag_bytes", pair->lag_size);
    ndjson_number(out, "lag_ms", pair->lag_ms);
    if (pair->left_ms != 0) ndjson_number(out, "left_ms", pair->left_ms);
    ndjson_number(out, "digest_position", pair->digest_position);
    ndjson_number(out, "digests_compared", pair->compared_count);
    text_add_char(out, '}');
}

static void json_broker(struct text *out, const struct tarry_stats_view *view) {
    const struct tarry_broker_stats *broker = view->broker;
    char digest[24];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)broker->digest);
    ndjson_begin(out);
    ndjson_null(out, "queue");
    ndjson_text(out, "version", broker->version);
    ndjson_number(out, "epoch", broker->epoch);
    ndjson_number(out, "now_ms", broker->now_ms);
    ndjson_number(out, "uptime_ms", broker->uptime_ms);
    ndjson_number(out, "live", broker->live);
    ndjson_number(out, "near_tasks", broker->near_tasks);
    ndjson_number(out, "sessions", broker->sessions);
    ndjson_number(out, "producers", broker->producers);
    ndjson_number(out, "appended", broker->appended);
    ndjson_number(out, "durable", broker->durable);
    ndjson_number(out, "indexed", broker->indexed);
    ndjson_number(out, "log_start", broker->log_start);
    ndjson_number(out, "erased", broker->erased);
    ndjson_number(out, "segments", broker->segments);
    ndjson_number(out, "log_bytes", broker->log_bytes);
    ndjson_number(out, "index_bytes", broker->index_bytes);
    ndjson_number(out, "core_bytes", broker->core_bytes);
    ndjson_number(out, "core_bytes_max", broker->core_bytes_max);
    ndjson_number(out, "resident_bytes", broker->resident_bytes);
    json_quantiles(out, "fsync_us", &broker->fsync_us);
    ndjson_text(out, "digest", digest);
    ndjson_number(out, "archived_segments", broker->archived_segments);
    ndjson_number(out, "archive_bytes", broker->archive_bytes);
    ndjson_number(out, "archive_oldest_ms", broker->archive_oldest_ms);
    ndjson_number(out, "archive_held", broker->archive_held);
    ndjson_text(out, "archive_error", broker->archive_error);
    ndjson_number(out, "disk_free_bytes", broker->disk_free_bytes);
    ndjson_number(out, "disk_size_bytes", broker->disk_size_bytes);
    ndjson_number(out, "signed_position", broker->signed_position);
    ndjson_number(out, "signed_ms", broker->signed_ms);
    ndjson_number(out, "host_ms", broker->host_ms);
    ndjson_bool(out, "clock_held", broker->clock_held);
    ndjson_text(out, "member", broker->member);
    json_pair(out, view->pair);
    json_source(out, &view->source);
    ndjson_end(out);
}

/* ---- for people */

static void cell_milliseconds(struct table *table, const struct tarry_quantiles *quantiles, double value) {
    struct text text = {0};
    if (quantiles->count == 0)
        text_add_char(&text, '-');
    else
        text_printf(&text, value < 10 ? "%.1fms" : "%.0fms", value);
    table_cell(table, text_str(&text));
    text_deinit(&text);
}

static void cell_bar(struct table *table, uint64_t value, uint64_t max) {
    struct text text = {0};
    bar_add(&text, (double)value, (double)max, BAR_WIDTH);
    table_cell(table, text_str(&text));
    text_deinit(&text);
}

/* The first columns are shown by default. */
enum { NARROW_COLUMNS = 8, WIDE_COLUMNS = 15 };
static const char *const heads[] = {"QUEUE",      ">PENDING",   ">READY", ">IN FLIGHT", ">DEAD",
                                    ">OVERDUE",   ">LATE P50",  ">P99",   "",           ">SCHEDULED",
                                    ">CANCELLED", ">DELIVERED", ">ACKED", ">RETRIED",   ">MAX"};

/* Rounds the number if it does not fit. */
static void cell_count(struct table *table, uint64_t count, const char *mark, bool is_wide) {
    static const char *const units[] = {"M", "G", "T", "P"};
    struct text text = {0};
    double rounded = (double)count / 1e6;
    size_t unit = 0;
    for (; rounded >= 1000 && unit < 3; unit++) rounded /= 1000;
    if (is_wide || count < ROUNDED_FROM)
        text_printf(&text, "%llu%s", (unsigned long long)count, mark);
    else
        text_printf(&text, "%.*f%s%s", rounded < 100 ? 1 : 0, rounded, units[unit], mark);
    table_cell(table, text_str(&text));
    text_deinit(&text);
}

static void row(struct table *table, const struct tarry_queue_stats *queue, uint64_t waiting_max, bool is_wide) {
    struct text name = {0};
    text_printf(&name, "%s%s", queue->paused ? "(paused) " : "", queue->name);
    table_cell(table, text_str(&name));
    text_deinit(&name);
    cell_count(table, queue->pending, "", is_wide);
    cell_count(table, queue->ready, queue->ready_is_lower_bound ? "+" : "", is_wide);
    cell_count(table, queue->in_flight, "", is_wide);
    cell_count(table, queue->dead, "", is_wide);
    if (queue->oldest_overdue_ms == 0)
        table_cell(table, "-");
    else
        table_cell_duration(table, queue->oldest_overdue_ms < 1000 ? queue->oldest_overdue_ms
                                                                   : queue->oldest_overdue_ms / 1000 * 1000);
    cell_milliseconds(table, &queue->lateness_ms, queue->lateness_ms.p50);
    cell_milliseconds(table, &queue->lateness_ms, queue->lateness_ms.p99);
    if (!is_wide) return;
    cell_bar(table, queue->pending + queue->ready, waiting_max);
    table_cell_number(table, queue->scheduled);
    table_cell_number(table, queue->cancelled);
    table_cell_number(table, queue->delivered);
    table_cell_number(table, queue->acked);
    table_cell_number(table, queue->retried);
    cell_milliseconds(table, &queue->lateness_ms, queue->lateness_ms.max);
}

static void words_size(struct text *out, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit < 4; unit++) size /= 1024;
    text_printf(out, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
}

static void words_archive(struct text *out, const struct tarry_broker_stats *broker) {
    char time[RFC3339_TEXT_SIZE];
    if (broker->archived_segments > 0) {
        text_printf(out, "archive %llu segments, ", (unsigned long long)broker->archived_segments);
        words_size(out, broker->archive_bytes);
        text_printf(out, ", since %s", rfc3339_format(broker->archive_oldest_ms, time));
        if (broker->archive_held > 0) text_printf(out, ", %llu held", (unsigned long long)broker->archive_held);
        text_add_char(out, '\n');
    }
    if (broker->archive_error[0] != 0)
        text_printf(out, "NOTHING CAN BE ARCHIVED, so the log grows: %s\n", broker->archive_error);
}

static void words_broker(struct text *out, const struct tarry_broker_stats *broker) {
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
    text_printf(out, "\nlog     position %llu, durable −%llu, indexed −%llu\n        %llu segments, ",
                (unsigned long long)broker->appended, (unsigned long long)(broker->appended - broker->durable),
                (unsigned long long)(broker->appended - broker->indexed), (unsigned long long)broker->segments);
    words_size(out, broker->log_bytes);
    text_add_str(out, "; index ");
    words_size(out, broker->index_bytes);
    if (broker->fsync_us.count > 0)
        text_printf(out, "\nfsync   p50 %.0fµs, p99 %.0fµs, max %.0fµs", broker->fsync_us.p50, broker->fsync_us.p99,
                    broker->fsync_us.max);
    text_add_char(out, '\n');
    words_archive(out, broker);
    if (broker->clock_held)
        text_add_str(out, "THE CLOCK HAS JUMPED: tasks with absolute times wait until it is right again\n");
}

static void words_pair(struct text *out, const struct tarry_pair_stats *pair) {
    char age[UNITS_TEXT_SIZE];
    text_printf(out, "pair    %s, epoch %u, %s%s\n        lag %llu frames, ", tarry_role_name(pair->role), pair->epoch,
                pair->in_sync ? "in sync" : "not in sync", pair->alone ? ", has served alone" : "",
                (unsigned long long)pair->lag_frames);
    words_size(out, pair->lag_size);
    text_printf(out, ", %s\n", duration_format(pair->lag_ms, age));
}

/* Prints queues with push, with the answers of their targets. */
static void words_push(struct text *out, const struct tarry_stats_view *view, bool is_wide) {
    static const char *const titles[] = {"PUSHED",  ">UNDER WAY", ">ACKED",    ">REFUSED",
                                         ">FAILED", ">STATUS",    "RESTS FOR", "LAST ERROR"};
    const size_t columns = sizeof(titles) / sizeof(titles[0]);
    uint64_t now_ms = view->broker->now_ms;
    struct table table;
    table_init(&table, titles, columns);
    for (size_t i = 0; i < view->push_count; i++) {
        const struct tarry_push_stats *push = view->push[i];
        table_cell(&table, push->queue);
        table_cell_number(&table, push->in_flight);
        cell_count(&table, push->acked, "", is_wide);
        cell_count(&table, push->refused, "", is_wide);
        cell_count(&table, push->failed, "", is_wide);
        table_cell_number(&table, push->status);
        if (push->resting_until_ms > now_ms)
            table_cell_duration(&table, (push->resting_until_ms - now_ms) / 1000 * 1000);
        else
            table_cell(&table, "-");
        table_cell(&table, push->error);
    }
    text_add_char(out, '\n');
    if (!is_wide) table_fit(&table, columns - 1, columns_of(STDOUT_FILENO));
    table_print(&table, out);
    table_deinit(&table);
}

static void words(struct text *out, const struct tarry_stats_view *view, bool is_wide) {
    struct table table;
    uint64_t max = 0;
    words_broker(out, view->broker);
    if (view->pair != NULL) words_pair(out, view->pair);
    if (view->count == 0) return;
    table_init(&table, heads, is_wide ? WIDE_COLUMNS : NARROW_COLUMNS);
    for (size_t i = 0; i < view->count; i++) {
        uint64_t waiting = view->queues[i]->pending + view->queues[i]->ready;
        if (waiting > max) max = waiting;
    }
    for (size_t i = 0; i < view->count; i++) row(&table, view->queues[i], max, is_wide);
    text_add_char(out, '\n');
    if (!is_wide) table_fit(&table, 0, columns_of(STDOUT_FILENO));
    table_print(&table, out);
    table_deinit(&table);
    if (view->push_count > 0) words_push(out, view, is_wide);
}

/* ---- watching */

struct totals {
    uint64_t at_ms;
    uint64_t scheduled;
    uint64_t cancelled;
    uint64_t delivered;
    uint64_t acked;
};

static struct totals totals_of(const struct tarry_stats_view *view) {
    struct totals totals = {.at_ms = steady_ms()};
    for (size_t i = 0; i < view->count; i++) {
        totals.scheduled += view->queues[i]->scheduled;
        totals.cancelled += view->queues[i]->cancelled;
        totals.delivered += view->queues[i]->delivered;
        totals.acked += view->queues[i]->acked;
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

static void print(struct tool *tool, struct text *out, const struct tarry_stats_view *view, bool is_wide) {
    if (!tool->json) {
        words(out, view, is_wide);
        tool_say_source(tool, &view->source);
        return;
    }
    for (size_t i = 0; i < view->count; i++) json_queue(out, view->queues[i], view);
    json_broker(out, view);
}

struct watching {
    struct tool *tool;
    const char *queue;
    bool is_screen;
    bool is_wide;
    bool is_stale;                 /* no broker has answered since `view` */
    struct tarry_stats_view *view; /* last statistics */
    struct totals totals;          /* totals of `view` */
    struct totals before;          /* totals of the statistics before; at_ms 0: none */
    struct text out;
};

/* Prints the last statistics, and their age if there are no newer ones. */
static int show(struct watching *w) {
    if (w->is_screen) text_add_str(&w->out, "\033[H\033[2J");
    print(w->tool, &w->out, w->view, w->is_wide);
    if (!w->tool->json && w->before.at_ms != 0 && !w->is_stale) words_rates(&w->out, &w->totals, &w->before);
    if (w->is_stale) {
        char age[UNITS_TEXT_SIZE], said[TARRY_MESSAGE_SIZE];
        uint64_t age_ms = steady_ms() - w->totals.at_ms;
        text_printf(&w->out, "\nTHESE NUMBERS ARE %s OLD: no broker answers (%s)\n",
                    duration_format(age_ms / 1000 * 1000, age), tarry_addresses_say(w->tool->client, said));
    }
    return output_flush(&w->out, EXIT_FINE);
}

/* Records that the numbers are stale, or are current again. Without a screen this is reported once, on standard error
 * (watch.h cannot, because between two refreshes no request waits). */
static void say_stale(struct watching *w, bool is_stale) {
    char said[TARRY_MESSAGE_SIZE], duration[UNITS_TEXT_SIZE];
    if (is_stale && !w->is_stale && !w->is_screen)
        tool_say("no broker answers; retrying (%s)", tarry_addresses_say(w->tool->client, said));
    if (!is_stale && w->is_stale && !w->is_screen)
        tool_say("a broker answers again, after %s",
                 duration_format((w->totals.at_ms - w->before.at_ms) / 1000 * 1000, duration));
    w->is_stale = is_stale;
}

static int look(struct watching *w) {
    struct tool *tool = w->tool;
    struct tarry_stats_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct tarry_call fresh = tool->fresh;
    fresh.timeout_ms = w->view == NULL ? tool->timeout_ms : WATCH_MS;
    int code = tarry_stats(tool->client, w->queue, &fresh, &view, message);
    if (code == TARRY_OK) {
        w->before = w->totals;
        w->totals = totals_of(view);
        tarry_stats_free(w->view);
        w->view = view;
        say_stale(w, false);
        return show(w);
    }
    bool is_given_up = tool->has_timeout && steady_ms() - w->totals.at_ms >= tool->timeout_ms;
    if (w->view == NULL || is_given_up || exit_status_of(code) != EXIT_SILENCE) return tool_failed(tool, code, message);
    say_stale(w, true);
    return w->is_screen ? show(w) : EXIT_FINE;
}

static int run_watch(struct watching *w) {
    int status = EXIT_FINE;
    signals_graceful();
    while (status == EXIT_FINE && !signals_ended() && !output_lost()) {
        status = look(w);
        watch_silence(false); /* say_stale reports outages after the first statistics */
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
    tarry_stats_free(w.view);
    text_deinit(&w.out);
    return status;
}
