/* main.c: the table of commands; finds the requested command and runs it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "signals.h"
#include "tool.h"
#include "units.h"

#define ADDRESS(name) &command_##name,
const struct command *const tool_commands[] = {COMMANDS(ADDRESS) NULL};

/* Sets the environment variables from which the library, and commands of `--exec`, read credentials. */
static void credentials(const struct args *args) {
    const struct {
        const char *variable;
        const char *value;
    } given[] = {{"TARRY_TOKEN_FILE", args->token_file},
                 {"TARRY_UNSAFE_PLAIN_TOKEN", args->unsafe_plain_token ? "1" : NULL},
                 {"TARRY_TLS_CA", args->tls_ca},
                 {"TARRY_TLS_CERT", args->tls_cert},
                 {"TARRY_TLS_KEY", args->tls_key}};
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        if (given[i].value != NULL) setenv(given[i].variable, given[i].value, 1);
}

static int globals(struct tool *tool, const struct args *args) {
    tool->json = args->json;
    tool->timeout_ms = TIMEOUT_DEFAULT_MS;
    tool->has_timeout = args->timeout != NULL;
    if (args->timeout != NULL && (!duration_parse(args->timeout, &tool->timeout_ms) || tool->timeout_ms == 0))
        return tool_usage(args, "--timeout: '%s' is not a duration above zero such as 500ms or 10s", args->timeout);
    int status = tool_name(args->as, tool->name);
    if (status != 0) return status;
    credentials(args);
    const char *broker = args->broker != NULL ? args->broker : getenv("TARRY_BROKER");
    tool->broker = broker != NULL && broker[0] != 0 ? broker : NULL;
    return 0;
}

static int run(struct args *args, int argc, char **argv) {
    char message[512];
    struct tool tool = {0};
    int status = args_parse(args, tool_commands, argc, argv, message, sizeof message);
    if (status != 0) {
        tool_say("%s", message);
        return status;
    }
    if (args->version) {
        printf("tarry %s (libtarry %s)\n", TARRY_VERSION, tarry_version());
        return EXIT_FINE;
    }
    if (args->help) {
        if (args->command != NULL)
            help_print_command(args->command);
        else
            help_print(tool_commands);
        return EXIT_FINE;
    }
    if (args->command == NULL) {
        tool_say("missing command; see 'tarry --help'");
        return EXIT_USAGE;
    }
    status = globals(&tool, args);
    if (status == 0) status = signals_start();
    if (status == 0) status = args->command->run(&tool, args);
    tool_disconnect(&tool);
    return status;
}

/* Replaces a closed standard stream (tarry … <&-) by /dev/null. Otherwise the next file or socket would get the
 * stream's number, and results would be written to the broker's connection. Standard input is opened for writing, and
 * the other two for reading, so that each use of them fails as on a closed stream. */
static bool standard_streams_hold(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return false;
    return true;
}

int main(int argc, char **argv) {
    struct args args = {0};
    if (!standard_streams_hold()) return EXIT_USAGE;
    int status = run(&args, argc, argv);
    args_deinit(&args);
    if (fflush(stdout) != 0 && status == EXIT_FINE) status = EXIT_REFUSED;
    return status;
}
