/* args.c: see args.h. Walks the arguments twice: first for the command's name, then for everything else, because
 * options may precede the command that defines them. */
#include "args.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define USAGE 2
#define COMMANDS_MAX 128u /* maximum number of commands that are compared with an unknown command */

const struct arg_spec args_globals[] = {
    {"broker", ARG_VALUE, "URL", ""},      {"timeout", ARG_VALUE, "DUR", ""},
    {"json", ARG_FLAG, NULL, ""},          {"as", ARG_VALUE, "TEXT", ""},
    {"token-file", ARG_VALUE, "FILE", ""}, {"unsafe-plain-token", ARG_FLAG, NULL, ""},
    {"tls-ca", ARG_VALUE, "FILE", ""},     {"tls-cert", ARG_VALUE, "FILE", ""},
    {"tls-key", ARG_VALUE, "FILE", ""},    {"help", ARG_FLAG, NULL, ""},
    {"version", ARG_FLAG, NULL, ""},       {0},
};

struct parse {
    struct args *args;
    const struct command *const *commands;
    int argc;
    char **argv;
    char *message;
    size_t message_size;
};

static const struct arg_spec *find(const struct arg_spec *specs, const char *name, size_t size) {
    for (; specs != NULL && specs->name != NULL; specs++)
        if (strlen(specs->name) == size && memcmp(specs->name, name, size) == 0) return specs;
    return NULL;
}

static bool is_option(const char *word) {
    return word[0] == '-' && word[1] != 0;
}

/* Returns the name of a long option in `word`, its size, and the value after "=" (NULL: none). */
static const char *option_name(const char *word, size_t *out_size, const char **out_value) {
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    *out_size = equals != NULL ? (size_t)(equals - name) : strlen(name);
    *out_value = equals != NULL ? equals + 1 : NULL;
    return name;
}

const char *args_second_word(const struct command *command, const char *first, size_t size) {
    bool is_there = strncmp(command->name, first, size) == 0 && command->name[size] == ' ';
    return is_there ? command->name + size + 1 : NULL;
}

static bool has_prefix(const struct command *const *commands, const char *word) {
    for (; *commands != NULL; commands++)
        if (args_second_word(*commands, word, strlen(word)) != NULL) return true;
    return false;
}

/* Writes the second words of the commands that begin with `word`: "set, pause, resume". */
static void list_subcommands(const struct command *const *commands, const char *word, char *out, size_t out_size) {
    size_t used = 0;
    out[0] = 0;
    for (; *commands != NULL; commands++) {
        const char *second = args_second_word(*commands, word, strlen(word));
        if (second == NULL || used >= out_size) continue;
        used += (size_t)snprintf(out + used, out_size - used, "%s%s", used > 0 ? ", " : "", second);
    }
}

static const struct command *command_named(const struct command *const *commands, const char *name) {
    for (; *commands != NULL; commands++)
        if (strcmp((*commands)->name, name) == 0) return *commands;
    return NULL;
}

/* Finds the first one or two words that are neither options nor values of global options. Writes their indexes to
 * `out_at`. If an option before the first word is not a global one, writes that option to `out_stray`. */
static int command_words(const struct parse *p, int out_at[2], const char **out_stray) {
    int count = 0;
    for (int i = 1; i < p->argc && count < 2; i++) {
        const char *word = p->argv[i];
        if (strcmp(word, "--") == 0) break;
        if (is_option(word)) {
            if (word[1] != '-') continue;
            size_t size;
            const char *value;
            const char *name = option_name(word, &size, &value);
            const struct arg_spec *spec = find(args_globals, name, size);
            if (spec == NULL && count == 0 && *out_stray == NULL) *out_stray = word;
            if (spec != NULL && spec->kind == ARG_VALUE && value == NULL) i++;
            continue;
        }
        out_at[count++] = i;
    }
    return count;
}

/* Returns the command with the most similar name; NULL: none is similar. */
static const char *nearest_command(const struct parse *p, const char *name) {
    const char *names[COMMANDS_MAX];
    size_t count = 0;
    for (const struct command *const *c = p->commands; *c != NULL && count < COMMANDS_MAX; c++)
        names[count++] = (*c)->name;
    return nearest(name, names, count);
}

static int unknown_command(const struct parse *p, const char *first, const char *second) {
    char full[256];
    snprintf(full, sizeof full, "%s%s%s", first, second[0] != 0 ? " " : "", second);
    const char *near = nearest_command(p, full);
    if (near == NULL) near = nearest_command(p, first);
    if (near != NULL)
        snprintf(p->message, p->message_size, "unknown command '%s'; did you mean '%s'? See 'tarry --help'", full,
                 near);
    else
        snprintf(p->message, p->message_size, "unknown command '%s'; see 'tarry --help'", full);
    return USAGE;
}

static int unknown_subcommand(const struct parse *p, const char *first, const char *second) {
    char words[256], full[256];
    list_subcommands(p->commands, first, words, sizeof words);
    snprintf(full, sizeof full, "%s %s", first, second);
    const char *near = nearest_command(p, full);
    if (near != NULL && strchr(near, ' ') != NULL)
        snprintf(p->message, p->message_size, "unknown command '%s'; did you mean '%s'? '%s' has the subcommands %s",
                 full, near, first, words);
    else
        snprintf(p->message, p->message_size, "unknown command '%s': '%s' has the subcommands %s", full, first, words);
    return USAGE;
}

/* Finds the command. Writes the indexes of its words to `at`, so that the second walk skips them. */
static int find_command(struct parse *p, int at[2], int *out_words) {
    *out_words = 0;
    const char *stray = NULL;
    int count = command_words(p, at, &stray);
    if (count == 0) return 0;
    if (stray != NULL) {
        snprintf(p->message, p->message_size, "the option '%s' is before the command; put it after the command", stray);
        return USAGE;
    }
    const char *first = p->argv[at[0]];
    if (strcmp(first, "help") == 0) { /* "tarry help schedule" is "tarry schedule --help" */
        p->args->help = true;
        if (count == 1) {
            *out_words = 1;
            return 0;
        }
        const char *two = at[1] + 1 < p->argc ? p->argv[at[1] + 1] : "";
        char full[256];
        snprintf(full, sizeof full, "%s %s", p->argv[at[1]], two);
        p->args->command = command_named(p->commands, full);
        if (p->args->command == NULL) p->args->command = command_named(p->commands, p->argv[at[1]]);
        *out_words = 2;
        return p->args->command != NULL ? 0 : unknown_command(p, p->argv[at[1]], two);
    }
    p->args->command = command_named(p->commands, first);
    *out_words = 1;
    if (p->args->command != NULL) return 0;
    if (!has_prefix(p->commands, first)) return unknown_command(p, first, "");
    if (count == 1) {
        if (p->args->help) return 0;
        char words[256];
        list_subcommands(p->commands, first, words, sizeof words);
        snprintf(p->message, p->message_size, "'%s' needs a subcommand: %s; see 'tarry %s SUBCOMMAND --help'", first,
                 words, first);
        return USAGE;
    }
    char full[256];
    snprintf(full, sizeof full, "%s %s", first, p->argv[at[1]]);
    p->args->command = command_named(p->commands, full);
    *out_words = 2;
    return p->args->command != NULL ? 0 : unknown_subcommand(p, first, p->argv[at[1]]);
}

static int unknown_option(const struct parse *p, const char *word) {
    const char *names[ARGS_OPTIONS_MAX + 8];
    size_t count = 0;
    const struct command *command = p->args->command;
    for (const struct arg_spec *s = args_globals; s->name != NULL; s++) names[count++] = s->name;
    if (command != NULL)
        for (const struct arg_spec *s = command->options; s != NULL && s->name != NULL; s++) names[count++] = s->name;
    const char *name = word + strspn(word, "-");
    char bare[128];
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(name, "="), name);
    const char *near = nearest(bare, names, count);
    const char *of = command != NULL ? command->name : "";
    const char *space = command != NULL ? " " : "";
    if (near != NULL)
        snprintf(p->message, p->message_size, "unknown option '%s'; did you mean '--%s'? See 'tarry %s%s--help'", word,
                 near, of, space);
    else
        snprintf(p->message, p->message_size, "unknown option '%s'; see 'tarry %s%s--help'", word, of, space);
    return USAGE;
}

/* Stores the value of a global option. If an option is given twice, the last value holds, so that a user can override
 * an option of a wrapper script. */
static void take_global(struct args *args, const struct arg_spec *spec, const char *value) {
    const struct {
        const char *name;
        const char **value;
    } values[] = {{"broker", &args->broker},         {"timeout", &args->timeout}, {"as", &args->as},
                  {"token-file", &args->token_file}, {"tls-ca", &args->tls_ca},   {"tls-cert", &args->tls_cert},
                  {"tls-key", &args->tls_key}};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (strcmp(spec->name, values[i].name) == 0) *values[i].value = value;
    args->json = args->json || strcmp(spec->name, "json") == 0;
    args->unsafe_plain_token = args->unsafe_plain_token || strcmp(spec->name, "unsafe-plain-token") == 0;
    args->help = args->help || strcmp(spec->name, "help") == 0;
    args->version = args->version || strcmp(spec->name, "version") == 0;
}

static int take_option(struct parse *p, int *i) {
    struct args *args = p->args;
    const char *word = p->argv[*i];
    if (strcmp(word, "-h") == 0) {
        args->help = true;
        return 0;
    }
    if (word[1] != '-') return unknown_option(p, word);
    size_t size;
    const char *value;
    const char *name = option_name(word, &size, &value);
    const struct arg_spec *global = find(args_globals, name, size);
    const struct arg_spec *own = args->command != NULL ? find(args->command->options, name, size) : NULL;
    const struct arg_spec *spec = global != NULL ? global : own;
    if (spec == NULL) return unknown_option(p, word);
    if (spec->kind == ARG_FLAG && value != NULL) {
        snprintf(p->message, p->message_size, "--%s takes no value", spec->name);
        return USAGE;
    }
    if (spec->kind == ARG_FLAG) value = "";
    if (value == NULL && *i + 1 >= p->argc) {
        snprintf(p->message, p->message_size, "--%s needs a value (%s)", spec->name, spec->value);
        return USAGE;
    }
    if (value == NULL) value = p->argv[++*i];
    if (global != NULL) {
        take_global(args, spec, value);
        return 0;
    }
    if (spec->kind == ARG_MANY) {
        args->many[args->many_count++] = (struct arg_many){spec->name, value};
        return 0;
    }
    size_t place = (size_t)(spec - args->command->options);
    assert(place < ARGS_OPTIONS_MAX);
    if (args->values[place] != NULL && spec->kind == ARG_VALUE) {
        snprintf(p->message, p->message_size, "--%s is given twice", spec->name);
        return USAGE;
    }
    args->values[place] = value;
    return 0;
}

static int check_positional(struct parse *p) {
    const struct args *args = p->args;
    const struct command *command = args->command;
    if (args->help || args->version || command == NULL) return 0;
    if (args->positional_count < command->positional_min) {
        snprintf(p->message, p->message_size, "'%s' needs %s; see 'tarry %s --help'", command->name,
                 command->positional_names, command->name);
        return USAGE;
    }
    if (args->positional_count > command->positional_max) {
        snprintf(p->message, p->message_size, "unexpected argument '%s'; see 'tarry %s --help'",
                 args->positional[command->positional_max], command->name);
        return USAGE;
    }
    return 0;
}

int args_parse(struct args *args, const struct command *const *commands, int argc, char **argv, char *message,
               size_t message_size) {
    struct parse p = {args, commands, argc, argv, message, message_size};
    *args = (struct args){0};
    args->positional = tool_alloc(sizeof *args->positional * (size_t)(argc + 1));
    args->many = tool_alloc(sizeof *args->many * (size_t)(argc + 1));
    int at[2] = {0, 0};
    int words;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) args->help = true;
    int status = find_command(&p, at, &words);
    /* Keep `help` only for `tarry help`. For other commands, take_option finds --help. */
    args->help = args->help && words > 0 && strcmp(argv[at[0]], "help") == 0;
    bool only_words = false;
    for (int i = 1; status == 0 && i < argc; i++) {
        if ((words > 0 && i == at[0]) || (words > 1 && i == at[1])) continue;
        if (!only_words && strcmp(argv[i], "--") == 0)
            only_words = true;
        else if (!only_words && is_option(argv[i]))
            status = take_option(&p, &i);
        else
            args->positional[args->positional_count++] = argv[i];
    }
    return status != 0 ? status : check_positional(&p);
}

void args_deinit(struct args *args) {
    free(args->positional);
    free(args->many);
    *args = (struct args){0};
}

const char *args_get(const struct args *args, const char *name) {
    const struct arg_spec *spec = find(args->command->options, name, strlen(name));
    assert(spec != NULL && spec->kind != ARG_MANY);
    return args->values[spec - args->command->options];
}

bool args_has(const struct args *args, const char *name) {
    return args_get(args, name) != NULL;
}

/* ---- help from the tables that also parse the command line, and suggestions for mistyped words */

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

/* Prints each line of `text`, with two spaces and then `lead` before it. */
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
