/* args.h: the command line, parsed, checked and documented by one table per command.
 *
 * --broker, --timeout, --as, --json and --help may stand anywhere. `--name value` and `--name=value` are the same;
 * `--` ends the options. The argument after an option with a value is always its value. */
#ifndef TARRY_TOOL_ARGS_H
#define TARRY_TOOL_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#define ARGS_OPTIONS_MAX 24
#define ARGS_POSITIONAL_ANY ((size_t)-1)

enum arg_kind {
    ARG_FLAG,
    ARG_VALUE,
    ARG_MANY /* the option has a value and may be repeated */
};

struct arg_spec {
    const char *name; /* without dashes; NULL ends the table */
    enum arg_kind kind;
    const char *value; /* name of the value in help; NULL for a flag */
    const char *help;
};

struct tool;
struct args;

struct command {
    const char *name;  /* name of the command: one word or two ("queue set") */
    const char *usage; /* arguments after the command's name, for the help; one line for each form */
    const char *summary;
    const char *text;         /* paragraphs */
    void (*print_more)(void); /* prints further lines after `text`; NULL: no such lines */
    const struct arg_spec *options;
    size_t positional_min;
    size_t positional_max;
    const char *positional_names; /* names of the required arguments, such as "QUEUE and KEY", for the error message
                                     when one is missing */
    const char *examples;
    int (*run)(struct tool *tool, const struct args *args);
};

struct args {
    const struct command *command; /* the command that the line names; NULL: none */
    /* Values in the order of the table of options; NULL: absent; a flag has the value "". */
    const char *values[ARGS_OPTIONS_MAX];
    const char **positional; /* allocated array; its strings point into argv */
    size_t positional_count;
    struct arg_many {
        const char *option;
        const char *value;
    } * many; /* repeated options in the order of the command line; owned */
    size_t many_count;
    const char
        *broker; /* this field and the following ones are values of the global options; NULL: the option is absent */
    const char *timeout;
    const char *as;
    const char *token_file;
    bool unsafe_plain_token;
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    bool json;
    bool help;
    bool version;
};

extern const struct arg_spec args_globals[]; /* the global options, which every command accepts; without --help */

/* Returns 0, or EXIT_USAGE (2) with an error message and a hint in `message` (terminated, no line feed). The caller
 * passes `args` to args_deinit in both cases. */
int args_parse(struct args *args, const struct command *const *commands, int argc, char **argv, char *message,
               size_t message_size);
void args_deinit(struct args *args);
/* Returns the second word of `command` if its first word equals the first `size` bytes of `first`; otherwise NULL. */
const char *args_second_word(const struct command *command, const char *first, size_t size);

bool args_has(const struct args *args, const char *name);
const char *args_get(const struct args *args, const char *name); /* NULL: absent */

/* Print help on standard output. */
void help_print(const struct command *const *commands);
void help_print_command(const struct command *command);
/* Returns the candidate that is most similar to `word`, or NULL if none is similar. */
const char *nearest(const char *word, const char *const *candidates, size_t count);

#endif
