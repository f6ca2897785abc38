/* main.c: finds the command, sets up what all commands share, turns what happened into the exit status. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ndjson.h"
#include "output.h"
#include "signals.h"
#include "tool.h"
#include "units.h"

const struct command *const tool_commands[] = {
    &command_schedule,
    &command_cancel,
    &command_move,
    &command_consume,
    &command_ack,
    &command_nack,
    &command_extend,
    &command_release,
    &command_get,
    &command_list,
    &command_queues,
    &command_queue_set,
    &command_queue_pause,
    &command_queue_resume,
    &command_queue_purge,
    &command_dead_list,
    &command_dead_requeue,
    &command_dead_drop,
    &command_stats,
    &command_history,
    &command_audit,
    &command_verify,
    NULL,
};

void tool_say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("tarry: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

int tool_usage(const struct args *args, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "tarry %s: ", args->command->name);
    vfprintf(stderr, format, list);
    fprintf(stderr, "; see 'tarry %s --help'\n", args->command->name);
    va_end(list);
    return EXIT_USAGE;
}

int exit_status_of(int code) {
    switch (code) {
    case TARRY_OK:
        return EXIT_FINE;
    case TARRY_E_TIMEOUT:
    case TARRY_E_NO_BROKER:
        return EXIT_SILENCE;
    case TARRY_E_ADDRESS:
        return EXIT_USAGE;
    default:
        return EXIT_REFUSED;
    }
}

int tool_refused(const struct tool *tool, int code, const char *message) {
    char duration[UNITS_TEXT_SIZE];
    if (exit_status_of(code) == EXIT_SILENCE) {
        bool sent = code == TARRY_E_TIMEOUT;
        tool_say("no broker answered at %s for %s%s", tool->broker != NULL ? tool->broker : TARRY_DEFAULT_URL,
                 duration_format(tool->timeout_ms, duration),
                 sent ? "; the request was sent, whether it took effect is unknown" : "");
        return EXIT_SILENCE;
    }
    tool_say("%s", message != NULL && message[0] != 0 ? message : tarry_code_sentence(code));
    return exit_status_of(code);
}

int tool_failed(const struct tool *tool, int code, const char *message) {
    struct text out = {0};
    int status = tool_refused(tool, code, message);
    if (!tool->json) return status;
    ndjson_begin(&out);
    ndjson_text(&out, "result", "error");
    ndjson_text(&out, "code", tarry_code_name(code));
    ndjson_text(&out, "message", message != NULL && message[0] != 0 ? message : tarry_code_sentence(code));
    ndjson_end(&out);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

int tool_connect(struct tool *tool) {
    struct tarry_options options = {.urls = tool->broker, .timeout_ms = tool->timeout_ms};
    int code = tarry_open(&options, &tool->client);
    if (code == TARRY_OK) return EXIT_FINE;
    if (code == TARRY_E_ADDRESS) {
        tool_say("'%s' is no broker's address such as ws://127.0.0.1:7272", tool->broker);
        return EXIT_USAGE;
    }
    return tool_refused(tool, code, NULL);
}

static uint64_t clock_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t wall_ms(void) {
    return clock_ms(CLOCK_REALTIME);
}

uint64_t steady_ms(void) {
    return clock_ms(CLOCK_MONOTONIC);
}

static int globals(struct tool *tool, const struct args *args) {
    tool->json = args->json;
    tool->timeout_ms = TIMEOUT_DEFAULT_MS;
    if (args->timeout != NULL && (!duration_parse(args->timeout, &tool->timeout_ms) || tool->timeout_ms == 0))
        return tool_usage(args, "--timeout: '%s' is not a duration above zero such as 500ms or 10s", args->timeout);
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
        tool_say("what shall be done? See 'tarry --help'");
        return EXIT_USAGE;
    }
    status = globals(&tool, args);
    if (status == 0) status = signals_start();
    if (status == 0) status = args->command->run(&tool, args);
    tarry_close(tool.client);
    return status;
}

/* A standard stream that was closed (tarry … <&-) stays unusable: else the next file or socket opened would take its
 * number, and results would go into the broker's connection. Opened the wrong way round, so that using it fails. */
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
