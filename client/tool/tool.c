/* tool.c: see tool.h: connection, exit status of an error, clocks. */
#include "tool.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "json_out.h"
#include "output.h"
#include "units.h"
#include "watch.h"

int exit_status_of(int code) {
    switch (code) {
    case TARRY_OK:
        return EXIT_FINE;
    case TARRY_E_TIMEOUT:
    case TARRY_E_NO_BROKER:
    case TARRY_NOT_PRIMARY:
        return EXIT_SILENCE;
    case TARRY_E_ADDRESS:
        return EXIT_USAGE;
    default:
        return EXIT_REFUSED;
    }
}

/* Returns why no broker answered. Leaves out the address if the command line has only that one. */
static const char *reason_of(const struct tool *tool, const char *broker, char said[TARRY_MESSAGE_SIZE]) {
    const size_t size = strlen(broker);
    tarry_addresses_say(tool->client, said);
    return strncmp(said, broker, size) == 0 && strncmp(said + size, ": ", 2) == 0 ? said + size + 2 : said;
}

/* Prints that no broker, or no primary, answered within --timeout, and why. Prints nothing if the user saw that while
 * the tool waited. */
static int refused_by_silence(const struct tool *tool, int code) {
    char duration[UNITS_TEXT_SIZE], said[TARRY_MESSAGE_SIZE];
    const char *broker = tool->broker != NULL ? tool->broker : TARRY_DEFAULT_URL;
    const char *sent = code == TARRY_E_TIMEOUT ? "; the request was sent, so whether it took effect is unknown" : "";
    const char *what = code == TARRY_NOT_PRIMARY ? "primary" : "broker";
    const char *remedy =
        code == TARRY_E_NO_BROKER
            ? "; check that tarryd is running there, or give another address with --broker or TARRY_BROKER"
            : "";
    bool is_new = tool->client != NULL && !watch_has_said();
    tool_say("no %s answered at %s for %s%s%s%s%s", what, broker, duration_format(tool->timeout_ms, duration),
             is_new ? ": " : "", is_new ? reason_of(tool, broker, said) : "", sent, remedy);
    return EXIT_SILENCE;
}

int tool_refused(const struct tool *tool, int code, const char *message) {
    if (exit_status_of(code) == EXIT_SILENCE) return refused_by_silence(tool, code);
    tool_say("%s", message != NULL && message[0] != 0 ? message : tarry_code_sentence(code));
    return exit_status_of(code);
}

int tool_failed(const struct tool *tool, int code, const char *message) {
    struct text out = {0};
    int status = tool_refused(tool, code, message);
    if (!tool->json) return status;
    out_begin(&out, '{');
    out_text(&out, "result", "error");
    out_text(&out, "code", tarry_code_name(code));
    out_text(&out, "message", message != NULL && message[0] != 0 ? message : tarry_code_sentence(code));
    out_line_end(&out);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

static int connect_to(const struct tool *tool, const char *url, uint64_t timeout_ms, tarry_event_fn on_event,
                      tarry_client **out_client) {
    struct tarry_options options = {.urls = url,
                                    .name = tool->name,
                                    .timeout_ms = timeout_ms,
                                    .follower_reads = tool->follower_reads,
                                    .on_event = on_event};
    int code = tarry_open(&options, out_client);
    if (code == TARRY_OK) return EXIT_FINE;
    if (code == TARRY_E_ADDRESS) {
        tool_say("'%s' is not a broker's address such as ws://127.0.0.1:7272", url);
        return EXIT_USAGE;
    }
    return tool_refused(tool, code, NULL);
}

int tool_connect_to(const struct tool *tool, const char *url, uint64_t timeout_ms, tarry_client **out_client) {
    return connect_to(tool, url, timeout_ms, NULL, out_client);
}

int tool_connect(struct tool *tool) {
    int status = connect_to(tool, tool->broker, tool->timeout_ms, watch_event, &tool->client);
    if (status == EXIT_FINE) watch_begin(tool->client, tool->timeout_ms);
    return status;
}

/* Waits for the first answer of a broker, also of a follower if one may answer. */
static int meet(const struct tool *tool, char out_message[TARRY_MESSAGE_SIZE]) {
    if (!tool->follower_reads) return tarry_ping(tool->client, &(struct tarry_call){.timeout_ms = tool->timeout_ms});
    struct tarry_view *view = NULL;
    int code = tarry_get(tool->client, &(struct tarry_ref){.id = 1}, false,
                         &(struct tarry_call){.timeout_ms = tool->timeout_ms}, &view, out_message);
    tarry_view_free(view);
    return code;
}

int tool_connect_lasting(struct tool *tool) {
    char message[TARRY_MESSAGE_SIZE] = "";
    const uint64_t patience_ms = tool->has_timeout ? tool->timeout_ms : TARRY_FOREVER;
    int status = connect_to(tool, tool->broker, patience_ms, watch_event, &tool->client);
    if (status != EXIT_FINE) return status;
    watch_begin(tool->client, tool->timeout_ms);
    int code = meet(tool, message);
    watch_patience(patience_ms);
    return exit_status_of(code) == EXIT_SILENCE ? tool_refused(tool, code, message) : EXIT_FINE;
}

void tool_disconnect(struct tool *tool) {
    watch_end();
    tarry_close(tool->client);
    tool->client = NULL;
}

void tool_warn_source(const struct tarry_source *source) {
    if (source->follower)
        tool_say("reply of a follower, as of log position %llu; it does not include later changes",
                 (unsigned long long)source->position);
}

void tool_say_source(const struct tool *tool, const struct tarry_source *source) {
    if (!tool->json) tool_warn_source(source);
}

void json_source(struct text *out, const struct tarry_source *source) {
    if (!source->follower) return;
    out_bool(out, "follower", true);
    out_number(out, "position", source->position);
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

/* ---- client name */

#define USER_SHOWN 24 /* bytes; AS_SIZE_MAX, user, host, process id and separators together fit into 128 bytes */
#define HOST_SHOWN 24

static bool is_plain(const char *text) {
    for (const char *at = text; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) return false;
    return is_utf8(text, strlen(text));
}

/* Replaces control characters, because the broker refuses them. */
static void add(char *out, const char *text, size_t shown) {
    size_t size = strnlen(text, shown);
    while (size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80) size--; /* do not cut within a character */
    for (size_t i = 0; i < size; i++) out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
    out[size] = 0;
}

int tool_name(const char *as, char out_name[TOOL_NAME_SIZE]) {
    char user[USER_SHOWN + 1] = "", host[HOST_SHOWN + 1] = "", uid[24], node[256] = "", buffer[4096];
    struct passwd entry, *found = NULL;
    if (as != NULL && (as[0] == 0 || strlen(as) > AS_SIZE_MAX || !is_plain(as))) {
        tool_say("--as: '%s' is not 1 to %d bytes of UTF-8 without control characters", as, AS_SIZE_MAX);
        return EXIT_USAGE;
    }
    snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
    (void)getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found);
    add(user, found != NULL && is_utf8(found->pw_name, strlen(found->pw_name)) ? found->pw_name : uid, USER_SHOWN);
    if (gethostname(node, sizeof node - 1) != 0 || !is_utf8(node, strlen(node))) node[0] = 0;
    add(host, node[0] != 0 ? node : "?", HOST_SHOWN);
    snprintf(out_name, TOOL_NAME_SIZE, "%s%s%s@%s tarry/%ld", as != NULL ? as : "", as != NULL ? ": " : "", user, host,
             (long)getpid());
    return EXIT_FINE;
}
