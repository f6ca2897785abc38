/* replay.c: tarry replay: parses the command line and starts the chosen mode. */
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR", "data directory of a broker that is not running"},
    STORE_ARCHIVE_OPTION,
    {"into", ARG_VALUE, "URL", "broker that receives the requests"},
    {"from", ARG_VALUE, "T", "only requests at T or later: RFC 3339, or Unix ms"},
    {"to", ARG_VALUE, "T", "only requests before T"},
    {"from-position", ARG_VALUE, "N", "log position at which an interrupted replay continues"},
    {"queue", ARG_MANY, "QUEUE", "only requests to this queue; may be repeated"},
    {"map", ARG_MANY, "OLD=NEW", "rename queue OLD to NEW at the target; may be repeated"},
    {"speed", ARG_VALUE, "N", "speed factor, or max: without waiting [1]"},
    {"settle", ARG_FLAG, NULL, "also consume: settle each delivery as the log says"},
    {"policies", ARG_FLAG, NULL, "also set policies and pauses of queues"},
    {"missing", ARG_VALUE, "WHAT",
     "skip a task whose content was redacted or deleted, or schedule it with an\n"
     "empty payload [skip]"},
    {"dry-run", ARG_FLAG, NULL, "ask no broker; print what would have been different"},
    {"set", ARG_MANY, "Q.F=V", "field F of the policy of queue Q in the dry run; may be repeated"},
    {0},
};

const struct command command_replay = {
    .name = "replay",
    .usage = "--data DIR --into URL [--from T] [--to T] [--queue Q]… [--map OLD=NEW]… [--speed N] [--settle]\n"
             "--data DIR --dry-run [--set QUEUE.FIELD=VALUE]… [--from T] [--to T] [--queue Q]…",
    .summary = "send the requests of a log again, or try other policies on them",
    .text = "Repeats the requests of a log at another broker, such as a test environment: schedules, moves and\n"
            "cancels, in order, and atomic commits as one. The time of --from (or of the first record) becomes\n"
            "the present time. A delay counts from its own commit, as in the log; an absolute time is shifted.\n"
            "With --speed 10, everything is ten times as fast, and each duration is a tenth. With --speed max\n"
            "the replay does not wait; due times are shifted, but their distances stay the same. A log is never\n"
            "replayed into the broker that wrote it.\n\n"
            "Without --settle, the consumers of the target work as usual. With --settle, the replay is the only\n"
            "consumer. It acks, nacks, releases and buries each delivery as the log says; it also repeats\n"
            "requeues and drops of dead letters, expiries and purges. So each task ends as it did. A lost lease\n"
            "becomes a nack without delay. With --speed max, the replay first moves each delivered task to the\n"
            "present time. Use --policies too; otherwise the max_attempts of the target applies.\n\n"
            "If you interrupt it (Ctrl-C), or if the target does not answer within --timeout, the replay prints\n"
            "the --from-position to continue with. The log does not contain refused requests, so they are not\n"
            "repeated. The exit status is 1 if the target behaved differently.\n\n"
            "--dry-run runs the log through the broker's own core on a virtual clock, with the policies of\n"
            "--set. Each consumer takes as long and has the same success with each delivery as in the log. A\n"
            "delivery that the log does not have goes like the last delivery of the task. The command prints\n"
            "the differences, queue by queue.",
    .options = options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry replay --data /backup/tarry --into ws://test:7272 --from 2026-11-21T08:00:00Z --speed 10\n"
                "tarry replay --data /backup/tarry --into ws://test:7272 --speed max --settle --policies\n"
                "tarry replay --data /backup/tarry --dry-run --set close-order.max_attempts=3",
    .run = run,
};

static int option_speed(const struct args *args, double *out) {
    const char *text = args_get(args, "speed");
    *out = 1;
    if (text == NULL) return 0;
    *out = 0;
    if (strcmp(text, "max") == 0) return 0;
    char *end;
    double speed = strtod(text, &end);
    bool is_number = end != text && *end == 0 && strspn(text, "0123456789.") == strlen(text);
    if (!is_number || !isfinite(speed) || speed < 0.001 || speed > 1e6)
        return tool_usage(args, "--speed: '%s' is not a number from 0.001 to 1000000, or max", text);
    *out = speed;
    return 0;
}

static int option_missing(const struct args *args, bool *out_as_empty) {
    const char *text = args_get(args, "missing");
    *out_as_empty = text != NULL && strcmp(text, "empty") == 0;
    if (text == NULL || *out_as_empty || strcmp(text, "skip") == 0) return 0;
    return tool_usage(args, "--missing: '%s' is not skip or empty", text);
}

static bool has_many(const struct args *args, const char *option) {
    for (size_t i = 0; i < args->many_count; i++)
        if (strcmp(args->many[i].option, option) == 0) return true;
    return false;
}

/* Requires exactly one of: a target broker, --dry-run. */
static int check_way(const struct args *args) {
    static const char *const only_into[] = {"from-position", "speed", "settle", "policies", "missing"};
    bool dry = args_has(args, "dry-run");
    if (dry == args_has(args, "into")) return tool_usage(args, "missing target: give --into URL, or --dry-run");
    if (!dry) return has_many(args, "set") ? tool_usage(args, "--set needs --dry-run") : 0;
    for (size_t i = 0; i < sizeof only_into / sizeof *only_into; i++)
        if (args_has(args, only_into[i])) return tool_usage(args, "--%s needs --into", only_into[i]);
    return has_many(args, "map") ? tool_usage(args, "--map needs --into") : 0;
}

static int run(struct tool *tool, const struct args *args) {
    struct replay_options replay = {.args = args,
                                    .settle = args_has(args, "settle"),
                                    .policies = args_has(args, "policies")};
    struct store store;
    int status = check_way(args);
    if (status == 0) status = option_time(args, "from", &replay.from_ms);
    if (status == 0) status = option_time(args, "to", &replay.to_ms);
    if (status == 0 && replay.to_ms != 0 && replay.to_ms <= replay.from_ms)
        status = tool_usage(args, "--to must be later than --from");
    if (status == 0) status = option_number(args, "from-position", 1, UINT64_MAX, &replay.from_position);
    if (status == 0) status = option_speed(args, &replay.speed);
    if (status == 0) status = option_missing(args, &replay.missing_as_empty);
    if (status == 0) status = store_open(&store, args);
    if (status != 0) return status;
    if (args_has(args, "dry-run")) return replay_dry(tool, &replay, &store);
    tool->broker = args_get(args, "into");
    return replay_into(tool, &replay, &store);
}
