/* cmd_completion.c: tarry completion: shell scripts that complete commands and options, made from the tables that parse
 * the command line. */
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "tool.h"

static int run(struct tool *tool, const struct args *args);

const struct command command_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "print a shell script that completes commands and options",
    .text = "Prints the script. The Debian package installs it for all three shells; elsewhere load it where the\n"
            "shell starts, as in the examples.",
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "a shell: bash, zsh or fish",
    .examples = "eval \"$(tarry completion bash)\"\n"
                "tarry completion zsh > ~/.zfunc/_tarry\n"
                "tarry completion fish > ~/.config/fish/completions/tarry.fish",
    .run = run,
};

static size_t first_size(const char *name) {
    return strcspn(name, " ");
}

/* Returns whether an earlier command has the same first word. Such commands are adjacent in the table. */
static bool is_repeated(const struct command *const *command) {
    size_t size = first_size((*command)->name);
    return command > tool_commands && first_size(command[-1]->name) == size &&
           strncmp(command[-1]->name, (*command)->name, size) == 0;
}

static void add_options(struct text *out, const struct arg_spec *specs, bool only_values) {
    for (; specs != NULL && specs->name != NULL; specs++)
        if (!only_values || specs->kind != ARG_FLAG) text_printf(out, " --%s", specs->name);
}

/* Appends the second words of the commands that begin with the first word of `name`. */
static void add_second_words(struct text *out, const char *name) {
    size_t size = first_size(name);
    for (const struct command *const *c = tool_commands; *c != NULL; c++) {
        const char *second = args_second_word(*c, name, size);
        if (second != NULL) text_printf(out, " %s", second);
    }
}

/* ---- bash and zsh: one function, which knows the words before the cursor and returns a list */

/* Appends the shell code that sets `list` (words that may follow `command`) and `values` (its options that take a
 * value). */
static void add_cases(struct text *out) {
    text_add_str(out, "    case \"$command\" in\n        '') list='");
    for (const struct command *const *c = tool_commands; *c != NULL; c++)
        if (!is_repeated(c)) text_printf(out, " %.*s", (int)first_size((*c)->name), (*c)->name);
    text_add_str(out, " help' ;;\n");
    for (const struct command *const *c = tool_commands; *c != NULL; c++) {
        const char *name = (*c)->name;
        if (name[first_size(name)] == ' ' && !is_repeated(c)) {
            text_printf(out, "        '%.*s') list='", (int)first_size(name), name);
            add_second_words(out, name);
            text_add_str(out, "' ;;\n");
        }
        text_printf(out, "        '%s') list='", name);
        add_options(out, (*c)->options, false);
        if (strcmp(name, "completion") == 0) text_add_str(out, " bash zsh fish");
        text_add_str(out, "'; values='");
        add_options(out, (*c)->options, true);
        text_add_str(out, "' ;;\n");
    }
    text_add_str(out, "    esac\n    list=\"$list");
    add_options(out, args_globals, false);
    text_add_str(out, "\"\n");
}

/* Appends the shell function that finds the command before the cursor: one word, or two if some command begins with the
 * first. */
static void add_function(struct text *out) {
    text_add_str(out, "_tarry_list() { # the words before the cursor; prints the candidates, one a line\n"
                      "    local command='' list='' values='' word before='' subcommands='");
    for (const struct command *const *c = tool_commands; *c != NULL; c++)
        if ((*c)->name[first_size((*c)->name)] == ' ' && !is_repeated(c))
            text_printf(out, " %.*s", (int)first_size((*c)->name), (*c)->name);
    text_add_str(out, " '\n    local globals='");
    add_options(out, args_globals, true);
    text_add_str(
        out, " '\n"
             "    for word in \"$@\"; do\n"
             "        case \"$globals\" in *\" $before \"*) [ -n \"$before\" ] && { before=''; continue; } ;; esac\n"
             "        before=$word\n"
             "        case \"$word\" in -*) continue ;; esac\n"
             "        if [ -z \"$command\" ]; then command=$word\n"
             "        else case \"$subcommands\" in *\" $command \"*) command=\"$command $word\" ;; esac; fi\n"
             "    done\n");
    add_cases(out);
    text_add_str(out, "    case \"$values $globals\" in *\" $before \"*) [ -n \"$before\" ] && return 0 ;; esac\n"
                      "    printf '%s\\n' $(printf '%s' \"$list\")\n"
                      "}\n");
}

static void add_bash(struct text *out) {
    text_add_str(out, "# bash completion of tarry, made by `tarry completion bash`\n");
    add_function(out);
    text_add_str(out, "_tarry() {\n"
                      "    local list\n"
                      "    list=$(_tarry_list \"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
                      "    COMPREPLY=($(compgen -W \"$list\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
                      "}\n"
                      "complete -o default -F _tarry tarry\n");
}

static void add_zsh(struct text *out) {
    text_add_str(out, "#compdef tarry\n# zsh completion of tarry, made by `tarry completion zsh`\n");
    add_function(out);
    text_add_str(out, "_tarry() {\n"
                      "    local -a candidates\n"
                      "    candidates=(${(f)\"$(setopt shwordsplit; _tarry_list \"${(@)words[2,CURRENT-1]}\")\"})\n"
                      "    if (( ${#candidates} )); then compadd -a candidates; else _files; fi\n"
                      "}\n"
                      "if [ \"${funcstack[1]}\" = _tarry ]; then _tarry \"$@\"; else compdef _tarry tarry; fi\n");
}

/* ---- fish */

/* Appends the text in single quotes, up to its first line feed. */
static void add_quoted(struct text *out, const char *text) {
    text_add_char(out, '\'');
    for (; *text != 0 && *text != '\n'; text++) {
        if (*text == '\'' || *text == '\\') text_add_char(out, '\\');
        text_add_char(out, *text);
    }
    text_add_char(out, '\'');
}

static void add_fish_options(struct text *out, const char *condition, const struct arg_spec *specs) {
    for (; specs != NULL && specs->name != NULL; specs++) {
        text_printf(out, "complete -c tarry %s-l %s", condition, specs->name);
        if (specs->kind != ARG_FLAG) text_add_str(out, " -r");
        if (specs->help[0] != 0) {
            text_add_str(out, " -d ");
            add_quoted(out, specs->help);
        }
        text_add_char(out, '\n');
    }
}

static void add_fish(struct text *out) {
    text_add_str(out, "# fish completion of tarry, made by `tarry completion fish`\n");
    add_fish_options(out, "", args_globals);
    for (const struct command *const *c = tool_commands; *c != NULL; c++) {
        const char *name = (*c)->name, *second = strchr(name, ' ');
        char condition[256];
        int size = (int)first_size(name);
        if (!is_repeated(c)) {
            text_printf(out, "complete -c tarry -f -n __fish_use_subcommand -a %.*s -d ", size, name);
            add_quoted(out, second == NULL ? (*c)->summary : "see its subcommands");
            text_add_char(out, '\n');
        }
        if (second != NULL) {
            text_printf(out,
                        "complete -c tarry -f -n '__fish_seen_subcommand_from %.*s; and not "
                        "__fish_seen_subcommand_from",
                        size, name);
            add_second_words(out, name);
            text_printf(out, "' -a %s -d ", second + 1);
            add_quoted(out, (*c)->summary);
            text_add_char(out, '\n');
        }
        snprintf(condition, sizeof condition, "-n '__fish_seen_subcommand_from %.*s%s%s' ", size, name,
                 second != NULL ? "; and __fish_seen_subcommand_from" : "", second != NULL ? second : "");
        add_fish_options(out, condition, (*c)->options);
    }
    text_add_str(out, "complete -c tarry -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n");
}

static int run(struct tool *tool, const struct args *args) {
    static const struct {
        const char *name;
        void (*add)(struct text *out);
    } shells[] = {{"bash", add_bash}, {"zsh", add_zsh}, {"fish", add_fish}};
    struct text out = {0};
    (void)tool;
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(args->positional[0], shells[i].name) == 0) shells[i].add(&out);
    if (out.size == 0) return tool_usage(args, "'%s' is not bash, zsh or fish", args->positional[0]);
    int status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}
