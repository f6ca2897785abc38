/* cmd_pair.c: tarry pair record: shows the coordinator's record of a pair, and writes it again after a loss. Asks one
 * broker. */
#include <stdio.h>

#include "json_out.h"
#include "nodes.h"
#include "output.h"

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
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
    .options = options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry pair record --broker ws://a:7272\n"
                "tarry pair record --write --broker ws://a:7272\n"
                "tarry pair record --write --peer-is-stopped --broker ws://a:7272",
    .run = run,
};

static int tell(const struct tool *tool, const struct node *node, bool writes) {
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

static int run(struct tool *tool, const struct args *args) {
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
        status = code == TARRY_OK ? tell(tool, node, writes) : tool_failed(tool, code, node->message);
    }
    nodes_close(&nodes);
    return status;
}
