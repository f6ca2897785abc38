/* heads.c: tarry heads DIR: prints the signed heads of a data directory as a table, as JSON, or the last one as a line
 * to be kept elsewhere. A broker may run on it, because heads are only appended. This command does not check the heads;
 * 'tarry verify --key' does. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "heads.h"
#include "json_out.h"
#include "output.h"
#include "table.h"
#include "tool.h"

#define NS_PER_MS 1000000u
#define PAGE_ROWS 1000u

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"last", ARG_FLAG, NULL, "print only the newest head, as the line of text that verify --head takes"},
    {0},
};

const struct command command_heads = {
    .name = "heads",
    .usage = "DIR [--last]",
    .summary = "print the signed heads of a data directory",
    .text = "Lists the heads that the broker has signed (tarryd --sign-key): up to which log position, at which\n"
            "time, and with which key. The command checks no signature; 'tarry verify DIR --key' does. --last\n"
            "prints the newest head as one line of text. Keep it where nobody who can write to DIR can change\n"
            "it, and give it to 'tarry verify --head' later. The broker may be running.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "DIR",
    .examples = "tarry heads /var/lib/tarry/main\ntarry heads /var/lib/tarry/main --last >> /media/auditor/heads.txt",
    .run = run,
};

static void print_json(struct text *out, const struct head *head) {
    char id[SIGN_KEY_ID_TEXT_SIZE], text[HEAD_TEXT_SIZE];
    out_begin(out, '{');
    out_number(out, "number", head->number);
    out_number(out, "position", head->position);
    out_number(out, "wall_ms", head->wall_ns / NS_PER_MS);
    out_number(out, "epoch", head->epoch);
    out_number(out, "segment", head->segment);
    out_number(out, "kept_from", head->kept_from);
    out_text(out, "signer", sign_key_id_format(head->signer, id));
    out_text(out, "head", head_format(head, text));
    out_line_end(out);
}

static void add_row(struct table *table, const struct head *head) {
    char id[SIGN_KEY_ID_TEXT_SIZE];
    table_cell_number(table, head->number);
    table_cell_number(table, head->position);
    table_cell_time(table, head->wall_ns / NS_PER_MS);
    table_cell_number(table, head->epoch);
    table_cell_number(table, head->kept_from);
    table_cell(table, sign_key_id_format(head->signer, id));
}

/* Prints the entries from `index` on. */
static int list(struct tool *tool, const struct heads *heads, uint64_t index, bool as_text, struct text *out) {
    static const char *const columns[] = {">NUMBER", ">POSITION", "TIME", ">EPOCH", ">KEPT FROM", "SIGNER"};
    char text[HEAD_TEXT_SIZE];
    struct table table;
    struct head head;
    int result = 0;
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (; index < heads->count && result == 0 && !output_lost(); index++) {
        result = heads_read(heads, index, &head);
        if (result != 0) break;
        if (tool->json)
            print_json(out, &head);
        else if (as_text)
            text_printf(out, "%s\n", head_format(&head, text));
        else
            add_row(&table, &head);
        if (index % PAGE_ROWS != PAGE_ROWS - 1) continue;
        if (!tool->json && !as_text) table_print(&table, out);
        output_write(out, false);
    }
    if (!tool->json && !as_text && result == 0) table_print(&table, out);
    table_deinit(&table);
    if (result < 0) tool_say("%s/" HEADS_NAME " cannot be read: %s", heads->directory, strerror(-result));
    if (result == 1)
        tool_say("%s/" HEADS_NAME ", byte %" PRIu64 ": the head is damaged", heads->directory, index * HEAD_SIZE);
    return result == 0 ? EXIT_FINE : EXIT_REFUSED;
}

static int run(struct tool *tool, const struct args *args) {
    const char *directory = args->positional[0];
    bool last = args_has(args, "last");
    struct heads heads;
    struct text out = {0};
    int error = heads_open(&heads, &disk_posix, directory);
    if (error == 0 && heads.count == 0) error = -ENOENT;
    if (error != 0) {
        tool_say(error == -ENOENT ? "%s: the directory has no signed head (tarryd --sign-key)%s"
                                  : "%s/" HEADS_NAME ": %s",
                 directory, error == -ENOENT ? "" : strerror(-error));
        heads_close(&heads);
        return EXIT_REFUSED;
    }
    int status = list(tool, &heads, last ? heads.count - 1 : 0, last, &out);
    heads_close(&heads);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}
