/* tool.c: see tool.h: the connection, what a refusal means for the exit status, the clocks. */
#include "tool.h"

#include <time.h>

#include "ndjson.h"
#include "output.h"
#include "units.h"

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
