/* replay.c: tarry replay: the command line of it. */
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR", "the data directory of a broker that is not running"},
    STORE_ARCHIVE_OPTION,
    {"into", ARG_VALUE, "URL", "the broker that all of it is asked of again"},
    {"from", ARG_VALUE, "T", "what happened at T or later: RFC 3339, or Unix ms"},
    {"to", ARG_VALUE, "T", "what happened before T"},
    {"from-position", ARG_VALUE, "N", "go on where a replay was stopped"},
    {"queue", ARG_MANY, "QUEUE", "this queue alone; may be repeated"},
    {"map", ARG_MANY, "OLD=NEW", "call a queue so where it goes; may be repeated"},
    {"speed", ARG_VALUE, "N", "so many times as fast as it was (default 1); max: without waiting"},
    {"settle", ARG_FLAG, NULL, "consume too: each delivery is settled as it was"},
    {"policies", ARG_FLAG, NULL, "set policies and pauses of queues too"},
    {"missing", ARG_VALUE, "WHAT",
     "a content that was redacted or is no longer there: skip its task (default), or empty"},
    {"dry-run", ARG_FLAG, NULL, "ask no broker; say what would have been different"},
    {"set", ARG_MANY, "Q.F=V", "with this in queue Q's policy; may be repeated"},
    {0},
};

const struct command command_replay = {
    .name = "replay",
    .usage = "--data DIR --into URL [--from T] [--to T] [--queue Q]… [--map OLD=NEW]… [--speed N] [--settle]\n"
             "--data DIR --dry-run [--set QUEUE.FIELD=VALUE]… [--from T] [--to T] [--queue Q]…",
    .summary = "send the requests of a log again, or try other policies on them",
    .text =
        "Asks another broker, a test environment, for what clients asked for: schedules, moves and cancels, in order,\n"
        "an atomic commit as one. The moment --from (without it, the first record's) becomes now: a delay counts from\n"
        "its own commit as it did, an absolute time is shifted. --speed 10 is ten times as fast, and every duration a\n"
        "tenth; with --speed max nothing is waited for, and due times are shifted but as far apart as they were.\n"
        "A broker is never replayed into itself.\n\n"
        "Without --settle its consumers do what they do. With it the replay is the consumer, the only one, and acks,\n"
        "nacks, releases and buries each delivery as the record says; requeued and dropped dead letters, expiries and\n"
        "purges too. So every task ends as it did. A lost lease is a nack without delay. With --speed max what was\n"
        "delivered is moved to now first. Use --policies with it, or the target's max_attempts decides.\n\n"
        "Stopped with Ctrl-C, or when the target is lost for --timeout, it says from which --from-position to go on.\n"
        "What was refused then is not in the log, and not asked again. Exit status 1 if anything went differently.\n\n"
        "--dry-run plays the log through the broker's own core on a virtual clock, with --set in force, and consumers\n"
        "that are as late, as slow and as successful with each delivery as they were; a delivery that the record does\n"
        "not know goes as the task's last one. It prints, queue by queue, what differs.",
    .options = options,
    .positional_min = 0,
    .positional_max = 0,
    .positional_names = "",
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
        return tool_usage(args, "--speed: '%s' is neither a number from 0.001 to 1000000 nor max", text);
    *out = speed;
    return 0;
}

static int option_missing(const struct args *args, bool *out_as_empty) {
    const char *text = args_get(args, "missing");
    *out_as_empty = text != NULL && strcmp(text, "empty") == 0;
    if (text == NULL || *out_as_empty || strcmp(text, "skip") == 0) return 0;
    return tool_usage(args, "--missing: '%s' is neither skip nor empty", text);
}

static bool has_many(const struct args *args, const char *option) {
    for (size_t i = 0; i < args->many_count; i++)
        if (strcmp(args->many[i].option, option) == 0) return true;
    return false;
}

/* Either another broker, or none. */
static int check_way(const struct args *args) {
    static const char *const only_into[] = {"from-position", "speed", "settle", "policies", "missing"};
    bool dry = args_has(args, "dry-run");
    if (dry == args_has(args, "into"))
        return tool_usage(args, "give --into URL, the broker to replay into, or --dry-run");
    if (!dry) return has_many(args, "set") ? tool_usage(args, "--set goes with --dry-run") : 0;
    for (size_t i = 0; i < sizeof only_into / sizeof *only_into; i++)
        if (args_has(args, only_into[i])) return tool_usage(args, "--%s goes with --into", only_into[i]);
    return has_many(args, "map") ? tool_usage(args, "--map goes with --into") : 0;
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
        status = tool_usage(args, "--to is not after --from: there is nothing between them");
    if (status == 0) status = option_number(args, "from-position", 1, UINT64_MAX, &replay.from_position);
    if (status == 0) status = option_speed(args, &replay.speed);
    if (status == 0) status = option_missing(args, &replay.missing_as_empty);
    if (status == 0) status = store_open(&store, args);
    if (status != 0) return status;
    if (args_has(args, "dry-run")) return replay_dry(tool, &replay, &store);
    tool->broker = args_get(args, "into");
    return replay_into(tool, &replay, &store);
}
