/* cmd_doctor.c: tarry doctor: checks a broker and its host, and says what to repair. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "findings.h"
#include "json_out.h"
#include "output.h"
#include "style.h"

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR",
     "data directory on this host to check; no broker is asked then, unless\n--broker is given"},
    {"tokens", ARG_VALUE, "FILE", "file of tokens, if it is not in DIR"},
    {"certificate", ARG_MANY, "FILE", "certificate that the broker shows or trusts; may be repeated"},
    {0},
};

const struct command command_doctor = {
    .name = "doctor",
    .usage = "[--data DIR] [--tokens FILE] [--certificate FILE]…",
    .summary = "check a broker, its disk, clock, limits and files; say what to repair",
    .text = "Asks each broker that --broker names for its role, problems, clock, memory, disk, sync times and\n"
            "archive. For a pair it also checks that one node leads and the other is in sync.\n\n"
            "With --data DIR it checks that directory on this host, with or without a running broker: free disk\n"
            "space, the type of the file system, how long a sync takes (it writes 64 KiB into an unnamed file),\n"
            "the file of tokens and which of them expire soon, the host's clock, and the limits of the broker's\n"
            "process: descriptors, locked memory, memory of the cgroup. If no broker runs, it checks its own\n"
            "limits. It changes nothing.\n\n"
            "The exit status is 0 if there is nothing worse than a warning, and 1 if something is wrong. --json\n"
            "prints one object for each finding: check, result (fine, warning or wrong), what, mend.",
    .options = options,
    .positional_max = 0,
    .examples = "tarry doctor\n"
                "tarry doctor --broker ws://a:7272,ws://b:7272\n"
                "tarry doctor --data /var/lib/tarry/main --certificate /etc/tarry/tls.crt --json",
    .run = run,
};

void finding_add(struct findings *findings, enum found found, const char *check, const char *mend, const char *format,
                 ...) {
    if (findings->count == findings->capacity) {
        size_t capacity = findings->capacity == 0 ? 32 : findings->capacity * 2;
        struct finding *grown = realloc(findings->items, capacity * sizeof *grown);
        if (grown == NULL) return; /* drop the finding: without memory the tool ends soon */
        findings->items = grown;
        findings->capacity = capacity;
    }
    struct finding *finding = &findings->items[findings->count++];
    *finding = (struct finding){.found = found, .check = check};
    if (mend != NULL) snprintf(finding->mend, sizeof finding->mend, "%s", mend);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->what, sizeof finding->what, format, arguments);
    va_end(arguments);
}

static void findings_deinit(struct findings *findings) {
    free(findings->items);
    *findings = (struct findings){0};
}

static const char *found_name(enum found found) {
    return found == FOUND_FAIL ? "wrong" : found == FOUND_WARN ? "warning" : "fine";
}

static void print_json(struct text *out, const struct finding *finding) {
    out_begin(out, '{');
    out_text(out, "check", finding->check);
    out_text(out, "result", found_name(finding->found));
    out_text(out, "what", finding->what);
    out_text(out, "mend", finding->mend[0] != 0 ? finding->mend : NULL);
    out_line_end(out);
}

static void print_words(struct text *out, const struct finding *finding) {
    const enum style style = finding->found == FOUND_FAIL   ? STYLE_BAD
                             : finding->found == FOUND_WARN ? STYLE_WARNING
                                                            : STYLE_GOOD;
    text_printf(out, "%s%-8s%s%-12s ", style_begin(STDOUT_FILENO, style), found_name(finding->found),
                style_end(STDOUT_FILENO), finding->check);
    for (const char *at = finding->what; *at != 0; at++)
        text_add_char(out, (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at);
    text_add_char(out, '\n');
    if (finding->mend[0] != 0) text_printf(out, "%21s%s\n", "→ ", finding->mend);
}

static int print(const struct tool *tool, const struct findings *findings) {
    struct text out = {0};
    size_t warnings = 0, wrong = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        if (tool->json)
            print_json(&out, finding);
        else
            print_words(&out, finding);
        warnings += finding->found == FOUND_WARN;
        wrong += finding->found == FOUND_FAIL;
    }
    int status = output_flush(&out, wrong > 0 ? EXIT_REFUSED : EXIT_FINE);
    text_deinit(&out);
    if (!tool->json)
        tool_say("%zu checks, %zu %s, %zu wrong", findings->count, warnings, warnings == 1 ? "warning" : "warnings",
                 wrong);
    return status;
}

static int run(struct tool *tool, const struct args *args) {
    struct findings findings = {0};
    const char *data = args_get(args, "data"), *tokens = args_get(args, "tokens");
    bool asks_broker = data == NULL || tool->broker != NULL;
    int status = EXIT_FINE;
    if (data != NULL) {
        char beside[4096];
        if (snprintf(beside, sizeof beside, "%s/tokens", data) >= (int)sizeof beside)
            return tool_usage(args, "--data: the name is too long");
        bool is_running = doctor_directory(&findings, data);
        doctor_tokens(&findings, tokens != NULL ? tokens : beside, tokens != NULL);
        doctor_host(&findings, data, is_running);
    } else if (tokens != NULL) {
        doctor_tokens(&findings, tokens, true);
    }
    for (size_t i = 0; i < args->many_count; i++) doctor_certificate(&findings, args->many[i].value);
    tool->follower_reads = true; /* also check the disk and the clock of a follower */
    if (asks_broker) status = doctor_brokers(&findings, tool);
    if (status == EXIT_FINE) status = print(tool, &findings);
    findings_deinit(&findings);
    return status;
}
