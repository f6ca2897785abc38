/* cmd_pair.c: tarry status, promote, demote and pair record. */
#include <stdio.h>
#include <string.h>

#include "json_out.h"
#include "nodes.h"
#include "output.h"
#include "progress.h"
#include "question.h"
#include "rfc3339.h"
#include "table.h"
#include "units.h"

/* ---- tarry status: the status of a broker, or of both nodes of a pair */

static int run_status(struct tool *tool, const struct args *args);

static const struct arg_spec status_options[] = {
    {"wait", ARG_VALUE, "DUR", "maximum time to wait until nothing needs an operator [do not wait]"},
    {0},
};

/* Timeout in ms for each broker if --broker names several: shorter than for a single one, because one of them may be
 * down. */
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
    .options = status_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry status --broker ws://a:7272,ws://b:7272\n"
                "tarry status --broker ws://a:7272,ws://b:7272 --wait 30s\n"
                "tarry status --broker ws://b:7272 --json",
    .run = run_status,
};

/* ---- JSON */

/* Asks the node for its status as a message of tarry.proto, and prints the object that /v1/status returns, with the
 * broker's address. */
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

static int tell_status(const struct nodes *nodes, const struct verdict *verdict) {
    if (verdict->answers == 0) return exit_status_of(nodes->items[0].code);
    if (verdict->primaries > 1) tool_say("%zu brokers report that they are the primary", verdict->primaries);
    if (nodes->count > 1 && verdict->primaries == 0) tool_say("none of the brokers in --broker is the primary");
    return verdict->is_fine ? EXIT_FINE : EXIT_REFUSED;
}

static struct verdict ask(struct nodes *nodes, uint64_t wait_ms) {
    uint64_t until_ms = steady_ms() + wait_ms;
    nodes_ask(nodes);
    struct verdict verdict = judge(nodes);
    while (!verdict.is_fine && steady_ms() < until_ms) {
        pause_ms(ASK_AGAIN_MS);
        nodes_ask(nodes);
        verdict = judge(nodes);
    }
    return verdict;
}

static int run_status(struct tool *tool, const struct args *args) {
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
        status = output_flush(&out, tell_status(&nodes, &verdict));
    }
    nodes_close(&nodes);
    text_deinit(&out);
    return status;
}

/* ---- tarry promote and tarry demote choose the primary of a pair. The broker answers at once with its status; the
 * command then asks for the status until the change is done, or --wait is over */

static int run(struct tool *tool, const struct args *args);

#define WAIT_DEFAULT_MS 30000u

#define OPTION_WAIT                                                                                                    \
    { "wait", ARG_VALUE, "DUR", "maximum time to wait until the change is done; 0s: do not wait [30s]" }

static const struct arg_spec promote_options[] = {
    {"peer-is-stopped", ARG_FLAG, NULL,
     "you confirm that the other broker is stopped, and has not served alone since\nthis one was last in sync"},
    {"force", ARG_FLAG, NULL, "promote even if requests that the other broker has acknowledged are lost"},
    OPTION_WAIT,
    {0},
};

const struct command command_promote = {
    .name = "promote",
    .usage = "[--peer-is-stopped | --force] [--wait DUR]",
    .summary = "make a follower the primary",
    .text = "Makes the broker that --broker names the primary. If --broker names several, the command takes the\n"
            "one that is not the primary, or, with --peer-is-stopped, the one that answers. If another broker\n"
            "is the primary and answers, it hands over: it accepts no more writes, the follower catches up, and\n"
            "the roles swap. Nothing is lost. If the broker is already the primary, the command succeeds.\n\n"
            "If the primary does not answer and there is no coordinator to decide, you must decide. With\n"
            "--peer-is-stopped you confirm that the primary is stopped, stays stopped until it comes back as a\n"
            "follower, and has acknowledged nothing without this broker. If that is wrong, acknowledged tasks\n"
            "are lost, and other tasks are delivered twice. With --force you accept that loss. Copy the data\n"
            "directory of the other broker before it is started again: requests that only it has may be lost\n"
            "then. Both brokers record which option you gave.\n\n"
            "If the broker is the primary and waits for its follower (tarryd --solo-after never),\n"
            "--peer-is-stopped makes it continue alone until the follower is back and has caught up.\n\n"
            "Without a coordinator the command asks the other broker first, for up to 2.5 s. While that broker\n"
            "answers as the primary, --peer-is-stopped and --force are refused, and nothing is changed.",
    .options = promote_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry promote --broker ws://b:7272\n"
                "tarry promote --broker ws://b:7272 --peer-is-stopped --wait 2m\n"
                "tarry promote --broker ws://a:7272,ws://b:7272 --json",
    .run = run,
};

static const struct arg_spec demote_options[] = {
    OPTION_WAIT,
    {0},
};

const struct command command_demote = {
    .name = "demote",
    .usage = "[--wait DUR]",
    .summary = "make the primary hand over to its follower",
    .text = "Makes the broker that --broker names (of several: the primary) hand over to its follower. The\n"
            "primary accepts no more writes, waits until its follower has caught up, and hands over. Nothing is\n"
            "lost; clients that know both addresses see a pause. The broker refuses if no follower can take\n"
            "over. If the broker is already a follower, the command succeeds.",
    .options = demote_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry demote --broker ws://a:7272\n"
                "tarry demote --broker ws://a:7272,ws://b:7272 --json",
    .run = run,
};

/* Returns whether the command may be sent to this broker. With --peer-is-stopped, any broker that answers is possible,
 * also a primary that waits for its follower. */
static bool is_candidate(const struct node *node, bool promotes, bool peer_is_stopped) {
    return node->view != NULL && (peer_is_stopped || node_is_primary(node) != promotes);
}

/* Returns the broker to which the command is sent; NULL after an error message. */
static struct node *choose(struct nodes *nodes, bool promotes, bool peer_is_stopped) {
    struct node *chosen = NULL;
    size_t candidates = 0;
    if (nodes->count == 1) return &nodes->items[0];
    nodes_ask(nodes);
    for (size_t i = 0; i < nodes->count; i++) {
        struct node *node = &nodes->items[i];
        if (!is_candidate(node, promotes, peer_is_stopped)) continue;
        chosen = node;
        candidates++;
    }
    if (candidates == 1) return chosen;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct node *node = &nodes->items[i];
        tool_say("%s: %s", node->url, node->view != NULL ? tarry_role_name(node->view->role) : node->message);
    }
    const char *verb = promotes ? "promote" : "demote";
    if (candidates == 0)
        tool_say("none of the brokers that answered can be %sd", verb);
    else if (peer_is_stopped)
        tool_say("--peer-is-stopped is given, but %zu brokers answer: stop the one that must not lead, or give only "
                 "the new leader with --broker",
                 candidates);
    else
        tool_say("%s is ambiguous, because several brokers qualify: give only one with --broker", verb);
    return NULL;
}

/* Returns whether the node's status shows that the promotion or demotion is done. */
static bool is_done(const struct node *node, bool promotes) {
    if (node->view == NULL) return false;
    enum tarry_role role = node->view->role;
    return promotes ? role == TARRY_PRIMARY : role == TARRY_FOLLOWER || role == TARRY_COPYING;
}

static int tell_change(const struct tool *tool, const struct node *node, const char *word, uint64_t took_ms) {
    struct text out = {0};
    char duration[UNITS_TEXT_SIZE];
    const struct tarry_pair_view *view = node->view;
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "broker", node->url);
        out_text(&out, "result", word);
        out_text(&out, "role", tarry_role_name(view->role));
        out_number(&out, "epoch", view->epoch);
        out_number(&out, "took_ms", took_ms);
        out_line_end(&out);
    } else {
        text_printf(&out, "%s %s, epoch %u, after %s\n", word, node->url, view->epoch,
                    duration_format(took_ms, duration));
    }
    int status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

/* Waits until the change is done, or --wait is over. A broker that hands over restarts, so a missing answer is no
 * failure. */
static void follow(struct node *node, bool promotes, uint64_t until_ms) {
    struct progress progress;
    progress_start(&progress, "frames behind");
    while (!is_done(node, promotes) && steady_ms() < until_ms) {
        pause_ms(ASK_AGAIN_MS);
        node_ask(node);
        const struct tarry_pair_view *view = node->view;
        if (view != NULL && view->has_peer) {
            uint64_t behind = view->peer_durable < view->durable ? view->peer_durable : view->durable;
            uint64_t ahead = view->peer_durable < view->durable ? view->durable : view->peer_durable;
            progress_show(&progress, behind, ahead, view->lag_frames);
        }
    }
    progress_end(&progress);
}

static int not_done(const struct tool *tool, struct node *node, const char *verb, uint64_t wait_ms) {
    char duration[UNITS_TEXT_SIZE], message[2 * TARRY_MESSAGE_SIZE];
    const struct tarry_pair_view *view = node->view;
    const char *why = view == NULL            ? node->message
                      : view->problem[0] != 0 ? view->problem
                                              : "the broker reports no problem";
    snprintf(message, sizeof(message),
             "%s: the %s has started, but is not complete after %s: %s (%.900s); see 'tarry status'", node->url, verb,
             duration_format(wait_ms, duration), view == NULL ? "no answer" : tarry_role_name(view->role), why);
    return tool_failed(tool, view == NULL ? node->code : TARRY_NOT_DONE, message);
}

static int change(const struct tool *tool, const struct args *args, struct node *node, bool promotes,
                  uint64_t wait_ms) {
    enum tarry_assertion assertion = TARRY_ASSERT_NOTHING;
    struct tarry_pair_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    if (promotes && args_has(args, "peer-is-stopped")) assertion = TARRY_PEER_IS_STOPPED;
    if (promotes && args_has(args, "force")) assertion = TARRY_FORCE;
    uint64_t from_ms = steady_ms();
    node_ask(node);
    bool was_done = is_done(node, promotes), led = node_is_primary(node);
    int code = promotes ? tarry_promote(node->client, assertion, NULL, &view, message)
                        : tarry_demote(node->client, NULL, &view, message);
    node_take(node, code, view, message);
    if (code != TARRY_OK) return tool_failed(tool, code, node->message);
    if (wait_ms > 0) follow(node, promotes, from_ms + wait_ms);
    uint64_t took_ms = steady_ms() - from_ms;
    if (led && assertion == TARRY_PEER_IS_STOPPED && is_done(node, promotes))
        return tell_change(tool, node, "serves alone", took_ms);
    if (is_done(node, promotes)) {
        const char *done = promotes ? "promoted" : "demoted",
                   *already = promotes ? "already the primary:" : "already a follower:";
        if (tool->json) already = "already";
        return tell_change(tool, node, was_done ? already : done, took_ms);
    }
    if (wait_ms == 0) return tell_change(tool, node, "begun", took_ms);
    return not_done(tool, node, promotes ? "promotion" : "handing over", wait_ms);
}

static int run(struct tool *tool, const struct args *args) {
    bool promotes = args->command == &command_promote;
    uint64_t wait_ms = WAIT_DEFAULT_MS;
    struct nodes nodes;
    if (promotes && args_has(args, "peer-is-stopped") && args_has(args, "force"))
        return tool_usage(args, "--peer-is-stopped and --force exclude each other");
    int status = option_duration(args, "wait", &wait_ms);
    if (status != 0) return status;
    status = nodes_open(&nodes, tool, args->timeout != NULL ? tool->timeout_ms : PATIENCE_MS);
    if (status == EXIT_FINE) {
        struct node *node = choose(&nodes, promotes, promotes && args_has(args, "peer-is-stopped"));
        status = node != NULL ? change(tool, args, node, promotes, wait_ms) : EXIT_REFUSED;
    }
    nodes_close(&nodes);
    return status;
}

/* ---- tarry pair record shows the coordinator's record of a pair, and writes it again after a loss. It asks one
 * broker */

static int run_record(struct tool *tool, const struct args *args);

static const struct arg_spec record_options[] = {
    {"show", ARG_FLAG, NULL, "print the record that the coordinator keeps [default]"},
    {"write", ARG_FLAG, NULL, "write the record again, from what this broker knows"},
    {"peer-is-stopped", ARG_FLAG, NULL,
     "for a broker that is not the primary: you confirm that the other broker is\nstopped, and has nothing that this "
     "one lacks"},
    {0},
};

const struct command command_pair_record = {
    .name = "pair record",
    .usage = "[--show | --write [--peer-is-stopped]]",
    .summary = "show the pair's record at the coordinator, or have it written again",
    .text = "Asks one broker which record its coordinator keeps of the pair: which node leads in which epoch,\n"
            "and which node is in sync.\n\n"
            "If the record was deleted or replaced by an earlier version, no node becomes the primary because\n"
            "of it, and 'tarry status' says so. If you cannot restore the record, --write makes the broker\n"
            "write what it knows. Ask the primary, or, if there is none, the node that led last. That broker\n"
            "then restarts, and leads. Restart the other broker yourself: until then it accepts no record that\n"
            "is older than the last one it has seen. The command is refused if the record is not older than\n"
            "what the broker knows.",
    .options = record_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry pair record --broker ws://a:7272\n"
                "tarry pair record --write --broker ws://a:7272\n"
                "tarry pair record --write --peer-is-stopped --broker ws://a:7272",
    .run = run_record,
};

static int tell_record(const struct tool *tool, const struct node *node, bool writes) {
    struct text out = {0};
    const char *record = node->view->record;
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "broker", node->url);
        out_text(&out, "result", writes ? "written" : record[0] != 0 ? "record" : "no_record");
        out_text(&out, "record", record[0] != 0 ? record : NULL);
        out_line_end(&out);
    } else {
        text_printf(&out, "%s", record[0] != 0 ? record : "the coordinator has no record of this pair\n");
    }
    int status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

static int run_record(struct tool *tool, const struct args *args) {
    bool writes = args_has(args, "write"), is_stopped = args_has(args, "peer-is-stopped");
    struct nodes nodes;
    if (writes && args_has(args, "show")) return tool_usage(args, "--show and --write exclude each other");
    if (is_stopped && !writes) return tool_usage(args, "--peer-is-stopped needs --write");
    int status = nodes_open(&nodes, tool, tool->timeout_ms);
    if (status == EXIT_FINE && nodes.count > 1)
        status = tool_usage(args, "--broker: give only one broker, the one that must answer");
    if (status == EXIT_FINE) {
        struct node *node = &nodes.items[0];
        struct tarry_pair_view *view = NULL;
        char message[TARRY_MESSAGE_SIZE];
        enum tarry_assertion word = is_stopped ? TARRY_PEER_IS_STOPPED : TARRY_ASSERT_NOTHING;
        int code = tarry_pair_record(node->client, writes, word, NULL, &view, message);
        node_take(node, code, view, message);
        status = code == TARRY_OK ? tell_record(tool, node, writes) : tool_failed(tool, code, node->message);
    }
    nodes_close(&nodes);
    return status;
}
