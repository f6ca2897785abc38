/* help.c: help from the tables that also parse the command line, and suggestions for mistyped words. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "args.h"

#define WORD_SIZE_MAX 64

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edit distance: insertions, deletions, replacements, and swaps of neighbours. */
static size_t distance(const char *a, const char *b) {
    size_t an = strlen(a), bn = strlen(b);
    size_t rows[3][WORD_SIZE_MAX + 1];
    if (an > WORD_SIZE_MAX || bn > WORD_SIZE_MAX) return SIZE_MAX;
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= bn; j++) last[j] = j;
    for (size_t i = 1; i <= an; i++) {
        now[0] = i;
        for (size_t j = 1; j <= bn; j++) {
            now[j] = least(last[j] + 1, now[j - 1] + 1);
            now[j] = least(now[j], last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[bn];
}

const char *nearest(const char *word, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t best_distance = 3; /* a command that needs three edits or more is not suggested */
    if (strlen(word) < 3) best_distance = 2;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, candidates[i]);
        if (d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}

static const char *const globals_help =
    "Options of every command:\n"
    "  --broker URL[,URL]     the broker; of several, the first that answers (ws://host:port,\n"
    "                         wss://host:port, unix:///path)\n"
    "                         [$TARRY_BROKER, then ws://127.0.0.1:7272]\n"
    "  --timeout DUR          timeout of each call [10s; consume, --from, --watch and --follow retry\n"
    "                         without a timeout when the broker goes away]\n"
    "  --token-file FILE      file with the token for the broker [$TARRY_TOKEN_FILE]\n"
    "  --unsafe-plain-token   send the token over ws:// to another machine too: anybody on the\n"
    "                         network path can read it\n"
    "  --tls-ca FILE          CAs of wss:// brokers, PEM [$TARRY_TLS_CA, then the system's CAs]\n"
    "  --tls-cert FILE        certificate of this client, if the broker asks for one [$TARRY_TLS_CERT]\n"
    "  --tls-key FILE         private key of --tls-cert [$TARRY_TLS_KEY, then --tls-cert]\n"
    "  --as TEXT              name in the broker's log; TEXT precedes user@host [user@host]\n"
    "  --json                 print JSON only, one object a line\n"
    "  --help                 print this text\n";

static const char *const exit_help =
    "Exit status: 0 success · 1 the broker refused · 2 wrong usage · 3 no broker (or no primary) answered in time\n";

static void print_options(const struct arg_spec *spec) {
    for (; spec != NULL && spec->name != NULL; spec++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s%s", spec->name, spec->value != NULL ? " " : "",
                 spec->value != NULL ? spec->value : "", spec->kind == ARG_MANY ? " …" : "");
        const char *rest = spec->help;
        /* The character … has three bytes but one column. */
        int width = (int)strlen(left) + (spec->kind == ARG_MANY ? -2 : 0);
        printf("  %s%*s", left, width < 22 ? 23 - width : 1, "");
        if (width >= 22) printf("\n%25s", "");
        for (const char *line; (line = strchr(rest, '\n')) != NULL; rest = line + 1)
            printf("%.*s\n%25s", (int)(line - rest), rest, "");
        printf("%s\n", rest);
    }
}

/* Prints each line of `text` after two spaces and `lead`. */
static void print_lines(const char *text, const char *lead) {
    while (*text != 0) {
        size_t size = strcspn(text, "\n");
        if (size > 0)
            printf("  %s%.*s\n", lead, (int)size, text);
        else
            printf("\n");
        text += size + (text[size] == '\n');
    }
}

void help_print_command(const struct command *command) {
    char lead[64];
    snprintf(lead, sizeof lead, "tarry %s ", command->name);
    printf("Usage:\n");
    if (command->usage[0] == 0) printf("  %s\n", lead);
    print_lines(command->usage, lead);
    printf("\n%s\n", command->text);
    if (command->print_more != NULL) command->print_more();
    if (command->options != NULL && command->options->name != NULL) {
        printf("\nOptions:\n");
        print_options(command->options);
    }
    printf("\n%s\nExamples:\n", globals_help);
    print_lines(command->examples, "");
    printf("\n%s", exit_help);
}

void help_print(const struct command *const *commands) {
    printf("tarry: the command-line tool of Tarry, a durable delay broker.\n\n"
           "Usage: tarry COMMAND … [--broker URL] [--timeout DUR] [--json]\n\nCommands:\n");
    for (; *commands != NULL; commands++) printf("  %-15s %s\n", (*commands)->name, (*commands)->summary);
    printf("\n%s  --version              print the versions of the tool and of the library\n\n", globals_help);
    printf(
        "Durations: 250ms 30s 30m (30min) 1h30m 2d. Times: RFC 3339 (2026-11-21T04:00:00+01:00), Unix "
        "milliseconds,\nor a day in this time zone, with or without a time: tomorrow, tomorrow 09:00, 2026-12-01.\n\n"
        "Examples:\n"
        "  tarry schedule close-order --key order-1 --in 30m --body '{\"order\":1}'\n"
        "  tarry cancel close-order order-1\n"
        "  tarry consume close-order --exec './close-order.sh'\n"
        "  tarry stats --watch\n\n"
        "'tarry COMMAND --help' describes a command. %s",
        exit_help);
}
