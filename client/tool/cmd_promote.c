/* cmd_promote.c: tarry promote and tarry demote: choose the primary of a pair. The broker answers at once with its
 * status; the command then asks for the status until the change is done, or --wait is over. */
#include <stdio.h>
#include <time.h>

#include "json_out.h"
#include "nodes.h"
#include "output.h"
#include "progress.h"
#include "units.h"

static int run(struct tool *tool, const struct args *args);

#define WAIT_DEFAULT_MS 30000u
#define ASK_AGAIN_MS 50u
#define PATIENCE_MS 2000u /* timeout of each answer */

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

/* Returns whether the operator may mean this broker. With --peer-is-stopped: any broker that answers, also a primary
 * that waits for its follower. */
static bool is_candidate(const struct node *node, bool promotes, bool peer_is_stopped) {
    return node->view != NULL && (peer_is_stopped || node_is_primary(node) != promotes);
}

/* Returns the broker that the operator means; NULL after an error message. */
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

/* Returns whether the promotion or demotion is done. */
static bool is_done(const struct node *node, bool promotes) {
    if (node->view == NULL) return false;
    enum tarry_role role = node->view->role;
    return promotes ? role == TARRY_PRIMARY : role == TARRY_FOLLOWER || role == TARRY_COPYING;
}

static int tell(const struct tool *tool, const struct node *node, const char *word, uint64_t took_ms) {
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

static void pause_ms(uint64_t ms) {
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
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
        return tell(tool, node, "serves alone", took_ms);
    if (is_done(node, promotes)) {
        const char *done = promotes ? "promoted" : "demoted",
                   *already = promotes ? "already the primary:" : "already a follower:";
        if (tool->json) already = "already";
        return tell(tool, node, was_done ? already : done, took_ms);
    }
    if (wait_ms == 0) return tell(tool, node, "begun", took_ms);
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
