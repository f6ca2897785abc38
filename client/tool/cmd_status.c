/* cmd_status.c: tarry status: the status of a broker, or of both nodes of a pair. */
#include <string.h>
#include <time.h>

#include "nodes.h"
#include "output.h"
#include "question.h"
#include "rfc3339.h"
#include "table.h"
#include "units.h"

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"wait", ARG_VALUE, "DUR", "maximum time to wait until nothing needs an operator [do not wait]"},
    {0},
};

/* Timeout of each of several brokers: one of them may be down, so it is shorter than for a single broker. */
#define PATIENCE_MS 2000u
#define ASK_AGAIN_MS 50u

const struct command command_status = {
    .name = "status",
    .usage = "[--wait DUR]",
    .summary = "show the roles of the nodes of a pair, and how far the follower lags",
    .text = "Shows each broker that --broker names (name both nodes of a pair): its role, its epoch, all its\n"
            "addresses if it listens at several, whether acknowledged requests are on both nodes, the positions\n"
            "of its log, how far the follower lags, and whether the states of both nodes were equal at the last\n"
            "comparison.\n\n"
            "The exit status is 1 if something needs an operator: a broker that does not answer (within 2s for\n"
            "each of several) or reports a problem, no primary or two primaries, a follower that should be in\n"
            "sync and is not, or states that differ. The exit status is 3 if no broker answers.\n\n"
            "--wait DUR asks again until the exit status is 0 (for a pair: one node leads and the other is in\n"
            "sync), for at most DUR, and shows the last answers.\n\n"
            "--json prints one object for each broker: what /v1/status answers, and the members broker and\n"
            "result. A broker that does not answer has the result error.",
    .options = options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry status --broker ws://a:7272,ws://b:7272\n"
                "tarry status --broker ws://a:7272,ws://b:7272 --wait 30s\n"
                "tarry status --broker ws://b:7272 --json",
    .run = run,
};

/* ---- JSON */

/* Asks for the status once more, as a message: the object of /v1/status, and the broker. */
static void json_node(struct text *out, struct node *node) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Pair pair = TARRY__PAIR__INIT;
    struct answer_of answer = {.reply = NULL};
    request.body_case = TARRY__REQUEST__BODY_PAIR;
    request.pair = &pair;
    if (node->view != NULL) node->code = question_ask(node->client, &request, NULL, &answer, node->message);
    out_begin(out, '{');
    out_text(out, "broker", node->url);
    out_text(out, "result", answer.reply != NULL ? "ok" : "error");
    if (answer.reply != NULL) {
        json_members(out, &answer.reply->pair->base);
    } else {
        out_text(out, "code", tarry_code_name(node->code));
        out_text(out, "message", node->message);
    }
    out_line_end(out);
    answer_free(&answer);
}

/* ---- for people */

static void words_role(struct text *out, const struct tarry_pair_view *view) {
    char time[RFC3339_TEXT_SIZE];
    for (const char *at = tarry_role_name(view->role); *at != 0; at++) text_add_char(out, *at == '_' ? ' ' : *at);
    text_printf(out, ", epoch %u", view->epoch);
    if (view->since_ms != 0) text_printf(out, ", since %s", rfc3339_format(view->since_ms, time));
    if (view->took_over_ms != 0) text_add_str(out, ", when it took over");
    if (view->role == TARRY_COPYING)
        text_printf(out, ", %llu of %llu bytes", (unsigned long long)view->copied_size,
                    (unsigned long long)view->copy_size);
    text_add_char(out, '\n');
    if (view->role != TARRY_PRIMARY && view->primary[0] != 0)
        text_printf(out, "  %-12s %s\n", "primary", view->primary);
}

static void words_replication(struct text *out, const struct tarry_pair_view *view) {
    char duration[UNITS_TEXT_SIZE], time[RFC3339_TEXT_SIZE];
    text_printf(out, "  %-12s %s", "replication", tarry_replication_name(view->replication));
    if (view->replication == TARRY_REPLICATION_SYNC && view->solo_after_ms == 0) text_add_str(out, ", strict");
    if (view->solo_after_ms != 0) text_printf(out, ", alone after %s", duration_format(view->solo_after_ms, duration));
    if (view->replication != TARRY_REPLICATION_NONE) text_add_str(out, view->in_sync ? ", in sync" : ", not in sync");
    if (view->alone) text_add_str(out, ", serves alone");
    if (view->alone_since_ms != 0) text_printf(out, " since %s", rfc3339_format(view->alone_since_ms, time));
    text_printf(out, ", %s\n", view->coordinator[0] != 0 ? view->coordinator : "waits for an operator");
}

/* Prints the estimated rest of a copy in whole seconds. */
static void words_left(struct text *out, const struct tarry_pair_view *view) {
    char duration[UNITS_TEXT_SIZE];
    if (view->left_ms != 0)
        text_printf(out, ", about %s left", duration_format((view->left_ms + 999) / 1000 * 1000, duration));
    text_add_char(out, '\n');
}

static void words_peer(struct text *out, const struct tarry_pair_view *view) {
    char duration[UNITS_TEXT_SIZE];
    text_printf(out, "  %-12s %s", "peer", view->peer_url);
    if (view->peer_heard_ms == 0)
        text_add_str(out, ", never heard");
    else if (view->now_ms >= view->peer_heard_ms)
        text_printf(out, ", heard %s ago", duration_format(view->now_ms - view->peer_heard_ms, duration));
    text_printf(out, "\n  %-12s %llu frames, %llu bytes, %s", "lag", (unsigned long long)view->lag_frames,
                (unsigned long long)view->lag_size, duration_format(view->lag_ms, duration));
    if (view->peer_copy_size != 0)
        text_printf(out, "\n  %-12s the follower has %llu of %llu bytes", "snapshot",
                    (unsigned long long)view->peer_copied_size, (unsigned long long)view->peer_copy_size);
    words_left(out, view);
    if (view->has_digest)
        text_printf(out, "  %-12s %s as of log position %llu, compared %llu time%s\n", "states",
                    view->digest == view->peer_digest ? "equal" : "DIFFERENT",
                    (unsigned long long)view->digest_position, (unsigned long long)view->compared_count,
                    view->compared_count == 1 ? "" : "s");
}

static void words_node(struct text *out, const struct node *node) {
    const struct tarry_pair_view *view = node->view;
    text_printf(out, "%s  ", node->url);
    if (view == NULL) {
        text_printf(out, "%s\n", node->message);
        return;
    }
    words_role(out, view);
    for (size_t i = 0; view->url_count > 1 && i < view->url_count; i++)
        text_printf(out, "  %-12s %s\n", i == 0 ? "listens at" : "", view->urls[i]);
    if (view->has_peer) words_replication(out, view);
    text_printf(out, "  %-12s appended %llu, durable %llu, committed %llu, applied %llu\n", "log",
                (unsigned long long)view->appended, (unsigned long long)view->durable,
                (unsigned long long)view->committed, (unsigned long long)view->applied);
    if (view->has_peer) words_peer(out, view);
    if (view->problem[0] != 0) {
        text_printf(out, "  %-12s ", "problem");
        plain_add(out, view->problem, strlen(view->problem));
        text_add_char(out, '\n');
    }
}

/* ---- the verdict */

static bool is_fine(const struct node *node) {
    const struct tarry_pair_view *view = node->view;
    if (view == NULL || view->problem[0] != 0 || view->role == TARRY_LOOKING) return false;
    if (view->has_digest && view->digest != view->peer_digest) return false;
    bool wants_sync = view->has_peer && view->replication == TARRY_REPLICATION_SYNC;
    return !wants_sync || view->in_sync;
}

struct verdict {
    size_t primaries;
    size_t answers;
    bool is_fine; /* true: no problem that an operator must solve */
};

static struct verdict judge(const struct nodes *nodes) {
    struct verdict verdict = {0};
    size_t fine = 0;
    for (size_t i = 0; i < nodes->count; i++) {
        verdict.answers += nodes->items[i].view != NULL;
        verdict.primaries += node_is_primary(&nodes->items[i]);
        fine += is_fine(&nodes->items[i]);
    }
    bool is_led = verdict.primaries == 1 || (nodes->count == 1 && verdict.primaries == 0);
    verdict.is_fine = is_led && fine == nodes->count;
    return verdict;
}

static int tell(const struct nodes *nodes, const struct verdict *verdict) {
    if (verdict->answers == 0) return exit_status_of(nodes->items[0].code);
    if (verdict->primaries > 1) tool_say("%zu brokers report that they are the primary", verdict->primaries);
    if (nodes->count > 1 && verdict->primaries == 0) tool_say("none of the brokers in --broker is the primary");
    return verdict->is_fine ? EXIT_FINE : EXIT_REFUSED;
}

static struct verdict ask(struct nodes *nodes, uint64_t wait_ms) {
    const struct timespec pause = {.tv_nsec = ASK_AGAIN_MS * 1000000};
    uint64_t until_ms = steady_ms() + wait_ms;
    nodes_ask(nodes);
    struct verdict verdict = judge(nodes);
    while (!verdict.is_fine && steady_ms() < until_ms) {
        nanosleep(&pause, NULL);
        nodes_ask(nodes);
        verdict = judge(nodes);
    }
    return verdict;
}

static int run(struct tool *tool, const struct args *args) {
    struct nodes nodes;
    struct text out = {0};
    uint64_t wait_ms = 0;
    bool is_one = tool->broker == NULL || strchr(tool->broker, ',') == NULL;
    bool is_patient = (is_one && !args_has(args, "wait")) || args->timeout != NULL;
    int status = option_duration(args, "wait", &wait_ms);
    if (status != 0) return status;
    status = nodes_open(&nodes, tool, is_patient ? tool->timeout_ms : PATIENCE_MS);
    if (status == EXIT_FINE) {
        struct verdict verdict = ask(&nodes, wait_ms);
        for (size_t i = 0; i < nodes.count; i++) {
            if (tool->json)
                json_node(&out, &nodes.items[i]);
            else
                words_node(&out, &nodes.items[i]);
        }
        status = output_flush(&out, tell(&nodes, &verdict));
    }
    nodes_close(&nodes);
    text_deinit(&out);
    return status;
}
