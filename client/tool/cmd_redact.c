/* cmd_redact.c: tarry redact: erases the contents of ended tasks. Requests portions until none is left, then waits
 * until the broker has erased them. */
#include <inttypes.h>
#include <string.h>

#include "json_out.h"
#include "output.h"
#include "progress.h"
#include "question.h"
#include "signals.h"
#include "tool.h"

#define POLL_MIN_MS 5u
#define POLL_MAX_MS 250u

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"id", ARG_VALUE, "ID", "id of one task, instead of QUEUE and KEY"},
    {"queue", ARG_VALUE, "QUEUE", "queue of the tasks to redact; needs --from or --to"},
    {"from", ARG_VALUE, "T", "with --queue: tasks that were scheduled at T or later: RFC 3339, or Unix ms"},
    {"to", ARG_VALUE, "T", "with --queue: tasks that were scheduled before T"},
    {"reason", ARG_VALUE, "TEXT", "reason for the redaction, kept in the log (required)"},
    {"no-wait", ARG_FLAG, NULL, "return when the redaction is recorded; the broker erases in the background"},
    {0},
};

const struct command command_redact = {
    .name = "redact",
    .usage = "QUEUE KEY --reason TEXT\n--id ID --reason TEXT\n--queue QUEUE (--from T | --to T) --reason TEXT",
    .summary = "erase the payload and attributes of ended tasks",
    .text = "Erases the payload and the attributes of ended tasks from the broker's log, archive and index, and\n"
            "records when, by whom and why. The history of the tasks, ids, queues and keys stay in the log, and\n"
            "'tarry verify' can still prove all of it. QUEUE and KEY select every task that ever had the key.\n"
            "The broker refuses a live task (cancel it first) and a dead letter (drop it first). A redaction by\n"
            "time skips and counts live tasks; the exit status is then 1.\n\n"
            "A redaction by key finds the tasks that log and archive still name. A redaction by time finds the\n"
            "tasks whose schedule record is still in log or archive. Other tasks can only be redacted by --id.\n\n"
            "The command waits until the erasure is done. If the broker is killed meanwhile, it continues the\n"
            "erasure after its next start. The command cannot erase what consumers, backups, file-system\n"
            "snapshots, swap space or the flash cells of an SSD have kept.",
    .options = options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry redact close-order order-1001 --reason 'erasure request 4711'\n"
                "tarry redact --id 1001 --reason 'card number in the payload'\n"
                "tarry redact --queue close-order --to 2026-01-01T00:00:00Z --reason 'retention: 10 months'",
    .run = run,
};

struct redacting {
    struct tool *tool;
    struct tarry_redact_options asked;
    uint64_t count;
    uint64_t left;
    uint64_t position; /* log position of the last frame that records a portion of the redaction */
    bool done;
};

static int option_redact(const struct args *args, struct tarry_redact_options *out) {
    int status = 0;
    out->reason = args_get(args, "reason");
    out->task.queue = args_get(args, "queue");
    bool is_range = out->task.queue != NULL;
    if (out->reason == NULL || out->reason[0] == 0)
        return tool_usage(args, "missing --reason TEXT; the log keeps the reason");
    if (is_range && (args_has(args, "id") || args->positional_count > 0))
        return tool_usage(args, "missing task: give QUEUE and KEY, or --id ID, or --queue QUEUE with --from and --to");
    if (!is_range && (args_has(args, "from") || args_has(args, "to")))
        return tool_usage(args, "--from and --to need --queue QUEUE");
    if (!is_range) return option_ref(args, &out->task);
    status = option_time(args, "from", &out->from_ms);
    if (status == 0) status = option_time(args, "to", &out->to_ms);
    if (status == 0 && out->from_ms == 0 && out->to_ms == 0)
        return tool_usage(args, "--queue needs --from T or --to T, so that no whole queue is redacted by mistake");
    if (status == 0 && out->to_ms != 0 && out->to_ms <= out->from_ms)
        return tool_usage(args, "--to must be later than --from");
    return status;
}

/* Sends the redaction in portions, one request after another, until no task is left. */
static int ask(struct redacting *redacting) {
    struct tarry_redact_options asked = redacting->asked;
    struct tarry_result result = {.message = ""};
    struct progress progress;
    int code;
    progress_start(&progress, "redacted");
    do {
        code = tarry_redact(redacting->tool->client, &asked, &result);
        if (code != TARRY_OK) break;
        redacting->count += result.count;
        redacting->left += result.left;
        if (result.job > redacting->position) redacting->position = result.job;
        progress_show(&progress, 0, 0, redacting->count);
        bool is_last = asked.task.id != 0 || result.id <= asked.after_id;
        if (is_last) break;
        asked.after_id = result.id;
        if (asked.from_ms != 0 || asked.to_ms != 0) asked.from_ms = result.at_ms;
    } while (!signals_ended());
    progress_end(&progress);
    if (code == TARRY_OK) return EXIT_FINE;
    return tool_failed(redacting->tool, code, result.message);
}

/* Waits until the broker has erased the contents of all recorded portions. */
static int wait_for_it(struct redacting *redacting) {
    struct progress progress;
    char message[TARRY_MESSAGE_SIZE] = "";
    int code = TARRY_OK;
    redacting->done = redacting->position == 0;
    progress_start(&progress, "erasing");
    for (uint64_t wait_ms = POLL_MIN_MS; !redacting->done && !signals_ended();
         wait_ms += wait_ms < POLL_MAX_MS ? wait_ms : 0) {
        struct tarry_stats_view *view = NULL;
        code = tarry_stats(redacting->tool->client, NULL, NULL, &view, message);
        if (code != TARRY_OK) break;
        redacting->done = view->broker->erased > redacting->position;
        tarry_stats_free(view);
        if (!redacting->done) pause_ms(wait_ms);
    }
    progress_end(&progress);
    if (code != TARRY_OK) return tool_failed(redacting->tool, code, message);
    return EXIT_FINE;
}

static void print(const struct redacting *redacting, struct text *out) {
    const struct tarry_ref *task = &redacting->asked.task;
    if (redacting->tool->json) {
        out_begin(out, '{');
        out_text(out, "result", "redacted");
        if (task->id != 0) out_id(out, "id", task->id);
        if (task->queue != NULL) out_text(out, "queue", task->queue);
        if (task->key != NULL) out_text(out, "key", task->key);
        out_number(out, "count", redacting->count);
        out_number(out, "left", redacting->left);
        out_bool(out, "erased", redacting->done);
        out_line_end(out);
        return;
    }
    text_printf(out, "redacted %" PRIu64 " task%s", redacting->count, redacting->count == 1 ? "" : "s");
    text_add_str(out, redacting->done ? ": erased\n" : ": recorded, erasure under way\n");
}

static int run(struct tool *tool, const struct args *args) {
    struct redacting redacting = {.tool = tool};
    struct text out = {0};
    int status = option_redact(args, &redacting.asked);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    signals_graceful();
    status = ask(&redacting);
    if (status == EXIT_FINE && !args_has(args, "no-wait")) status = wait_for_it(&redacting);
    if (status != EXIT_FINE) return status;
    print(&redacting, &out);
    if (redacting.left > 0) {
        status = EXIT_REFUSED;
        tool_say("%" PRIu64 " live task%s skipped: cancel a live task before you redact it", redacting.left,
                 redacting.left == 1 ? " was" : "s were");
    }
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}
