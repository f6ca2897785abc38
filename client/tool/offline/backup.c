/* backup.c: tarry backup DIR: libtarry copies the directory; then the copy is checked as by tarry verify. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "json_out.h"
#include "nodes.h"
#include "output.h"
#include "progress.h"
#include "signals.h"
#include "units.h"
#include "verify.h"

/* Timeout of the status requests that find the follower. */
#define ASK_MS 3000u

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"with-archive", ARG_FLAG, NULL, "also copy archived segments"},
    {"deadline", ARG_VALUE, "DUR", "time after which an unfinished backup fails [no limit]"},
    {"no-verify", ARG_FLAG, NULL, "do not read the copy again to check it"},
    {0},
};

const struct command command_backup = {
    .name = "backup",
    .usage = "DIR [--with-archive] [--deadline DUR] [--no-verify]",
    .summary = "copy a running broker's data directory",
    .text = "Copies the data directory of the running broker to DIR on this machine, as of one position of its\n"
            "log, and checks the copy. The broker keeps running. The copy includes everything that was\n"
            "acknowledged before. DIR is new, empty, or left by an unfinished backup, which is deleted first.\n"
            "The copy is complete: 'tarry verify', 'tarry history --data' and 'tarry restore' accept it. It has\n"
            "its own id and starts in another epoch, so it can run beside the original.\n\n"
            "For a pair, name both nodes. If the follower is in sync, the copy is made from it, so that the\n"
            "disk of the primary is free for clients; otherwise the copy is made from the primary. The follower\n"
            "lags by some milliseconds: the printed position says how far the copy reaches.\n\n"
            "The exit status is also 1 if another backup is running, or if the broker's disk has no room for a\n"
            "copy of its index, which the broker keeps during the backup.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "DIR",
    .examples = "tarry backup /mnt/backup/tarry-2026-11-21\n"
                "tarry backup /mnt/backup/today --broker wss://10.0.0.1:7272,wss://10.0.0.2:7272\n"
                "tarry backup /mnt/backup/today --broker wss://10.0.0.7:7272 --deadline 1h --json\n"
                "tarry restore /mnt/backup/today --data /var/lib/tarry/main",
    .run = run,
};

static bool show(void *argument, uint64_t done, uint64_t total) {
    progress_show(argument, done, total, done >> 20);
    return !signals_ended();
}

static bool is_good_follower(const struct tarry_pair_view *view) {
    bool waits = view->replication == TARRY_REPLICATION_SYNC;
    return view->role == TARRY_FOLLOWER && (view->in_sync || !waits);
}

/* Returns the URL of the follower among several brokers, or else that of the leader. NULL: neither has answered. The
 * caller frees it. */
static char *choose(const struct tool *tool) {
    struct nodes nodes;
    char *follower = NULL, *primary = NULL;
    if (nodes_open(&nodes, tool, tool->timeout_ms < ASK_MS ? tool->timeout_ms : ASK_MS) == EXIT_FINE) {
        nodes_ask(&nodes);
        for (size_t i = 0; i < nodes.count; i++) {
            const struct node *node = &nodes.items[i];
            if (follower == NULL && node->view != NULL && is_good_follower(node->view))
                follower = tool_strdup(node->url);
            if (primary == NULL && node_is_primary(node)) primary = tool_strdup(node->url);
        }
    }
    nodes_close(&nodes);
    if (follower == NULL) return primary;
    free(primary);
    return follower;
}

static void print(const struct tool *tool, const char *directory, const struct tarry_backup_view *view,
                  const struct verified *verified, const char *from, struct text *out) {
    char took[UNITS_TEXT_SIZE], size[UNITS_TEXT_SIZE], digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, verified != NULL ? verified->digest : 0);
    if (!tool->json) {
        text_printf(out, "%s: position %" PRIu64 ", %" PRIu64 " files, %s, in %s%s%s\n", directory, view->position,
                    view->file_count, size_format(view->total_size, size), duration_format(view->took_ms, took),
                    from != NULL ? ", from " : "", from != NULL ? from : "");
        if (verified != NULL) text_printf(out, "checked: digest %s, %" PRIu64 " live tasks\n", digest, verified->live);
        return;
    }
    out_begin(out, '{');
    out_text(out, "directory", directory);
    out_text(out, "result", "fine");
    if (from != NULL) out_text(out, "broker", from);
    out_number(out, "position", view->position);
    out_number(out, "index_position", view->index_position);
    out_number(out, "log_start", view->log_start);
    out_number(out, "files", view->file_count);
    out_number(out, "bytes", view->total_size);
    out_bool(out, "verified", verified != NULL);
    if (verified != NULL) {
        out_text(out, "digest", digest);
        out_number(out, "live", verified->live);
    }
    out_number(out, "took_ms", view->took_ms);
    out_line_end(out);
}

static int copy(struct tool *tool, const struct args *args, struct tarry_backup_view *out) {
    struct progress progress;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct tarry_backup_options backup = {.directory = args->positional[0],
                                          .with_archive = args_has(args, "with-archive"),
                                          .progress = show,
                                          .arg = &progress};
    int status = option_duration_positive(args, "deadline", &backup.deadline_ms);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    signals_graceful();
    progress_start(&progress, "MiB");
    int code = tarry_backup(tool->client, &backup, out, message);
    progress_end(&progress);
    return code == TARRY_OK ? EXIT_FINE : tool_failed(tool, code, message);
}

static int run(struct tool *tool, const struct args *args) {
    struct tarry_backup_view view;
    struct verified verified;
    struct store store;
    struct text out = {0};
    bool verify = !args_has(args, "no-verify");
    store_init(&store, args->positional[0]);
    if (strlen(store.directory) + 16 > STORE_PATH_SIZE) return tool_usage(args, "the directory name is too long");
    char *from = tool->broker != NULL && strchr(tool->broker, ',') != NULL ? choose(tool) : NULL;
    if (from != NULL) tool->broker = from;
    int status = copy(tool, args, &view);
    if (status != EXIT_FINE) {
        free(from);
        return status;
    }
    tool_disconnect(tool); /* reading the copy may take minutes */
    if (verify) status = verify_store(&store, &verified);
    if (status == EXIT_FINE) print(tool, store.directory, &view, verify ? &verified : NULL, from, &out);
    free(from);
    return store_finish(&store, &out, status);
}
