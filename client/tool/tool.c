/* tool.c: see tool.h: connection, exit status of an error, clocks, shared options. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc.h"
#include "check.h"
#include "json_map.h"
#include "json_out.h"
#include "output.h"
#include "rfc3339.h"
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

/* Prints that no broker, or no primary, answered within --timeout, and why. Omits the reason if the tool has already
 * printed it while waiting. */
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

static const char *sentence_of(int code, const char *message) {
    return message != NULL && message[0] != 0 ? message : tarry_code_sentence(code);
}

void json_outcome(struct text *out, const char *word, int code, const char *message) {
    out_text(out, "result", code == TARRY_OK ? word : "error");
    if (code == TARRY_OK) return;
    out_text(out, "code", tarry_code_name(code));
    out_text(out, "message", sentence_of(code, message));
}

int tool_refused(const struct tool *tool, int code, const char *message) {
    if (exit_status_of(code) == EXIT_SILENCE) return refused_by_silence(tool, code);
    tool_say("%s", sentence_of(code, message));
    return exit_status_of(code);
}

int tool_failed(const struct tool *tool, int code, const char *message) {
    struct text out = {0};
    int status = tool_refused(tool, code, message);
    if (!tool->json) return status;
    out_begin(&out, '{');
    json_outcome(&out, NULL, code, message);
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

void pause_ms(uint64_t ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

int sync_parent(const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s",
             slash == NULL   ? 1
             : slash == path ? 1
                             : (int)(slash - path),
             slash == NULL ? "." : path);
    int file = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return errno;
    int error = fsync(file) != 0 ? errno : 0;
    close(file);
    return error;
}

/* ---- client name */

#define USER_SHOWN 24 /* maximum size in bytes in the client name; all its parts together fit into 128 bytes */
#define HOST_SHOWN 24

static bool is_plain(const char *text) {
    for (const char *at = text; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F) return false;
    return is_utf8(text, strlen(text));
}

/* Replaces control characters, because the broker refuses them. */
static void add(char *out, const char *text, size_t shown) {
    size_t size = strnlen(text, shown);
    /* If the text is cut inside a UTF-8 character, omit that character. */
    while (size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80) size--;
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

/* ---- options that several commands share, in their own types. Each says what is wrong in a sentence */

/* Parses a number: digits only, without sign, space or overflow. */
static bool number_parse(const char *text, uint64_t *out) {
    if (text[0] == 0 || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    if (errno != 0) return false;
    *out = number;
    return true;
}

int option_duration(const struct args *args, const char *name, uint64_t *out_ms) {
    const char *text = args_get(args, name);
    if (text == NULL || duration_parse(text, out_ms)) return 0;
    return tool_usage(args, "--%s: '%s' is not a duration such as 250ms, 30s, 1h30m or 2d", name, text);
}

int option_duration_positive(const struct args *args, const char *name, uint64_t *out_ms) {
    uint64_t ms = 1;
    int status = option_duration(args, name, &ms);
    if (status == 0 && ms == 0) return tool_usage(args, "--%s: the duration must be longer than zero", name);
    if (status == 0 && args_has(args, name)) *out_ms = ms;
    return status;
}

int option_number(const struct args *args, const char *name, uint64_t min, uint64_t max, uint64_t *out) {
    const char *text = args_get(args, name);
    uint64_t number;
    if (text == NULL) return 0;
    if (!number_parse(text, &number)) return tool_usage(args, "--%s: '%s' is not a whole number", name, text);
    if (number < min || number > max)
        return tool_usage(args, "--%s: %s is not between %llu and %llu", name, text, (unsigned long long)min,
                          (unsigned long long)max);
    *out = number;
    return 0;
}

int option_id(const struct args *args, const char *text, uint64_t *out_id) {
    uint64_t id;
    if (!number_parse(text, &id) || id == 0) return tool_usage(args, "'%s' is not an id: a whole number from 1", text);
    *out_id = id;
    return 0;
}

/* Parses "09:00" or "09:00:30"; an empty text is midnight. */
static bool time_of_day_parse(const char *text, struct tm *out) {
    unsigned hour = 0, minute = 0, second = 0;
    int end = 0;
    if (text[0] == 0) return true;
    if (sscanf(text, "%2u:%2u%n", &hour, &minute, &end) != 2 || end != 5) return false;
    if (text[5] != 0 && (sscanf(text + 5, ":%2u%n", &second, &end) != 1 || end != 3 || text[8] != 0)) return false;
    if (hour > 23 || minute > 59 || second > 59) return false;
    out->tm_hour = (int)hour;
    out->tm_min = (int)minute;
    out->tm_sec = (int)second;
    return true;
}

/* Parses a day in this time zone, "today", "tomorrow" or "2026-12-01", with or without a time of day. */
static bool local_time_parse(const char *text, uint64_t *out_ms) {
    time_t now = (time_t)(wall_ms() / 1000);
    struct tm when = {0}, given;
    unsigned year = 0, month = 0, day = 0;
    int size = 0;
    if (localtime_r(&now, &when) == NULL) return false;
    when.tm_hour = when.tm_min = when.tm_sec = 0;
    when.tm_isdst = -1;
    if (strncmp(text, "today", 5) == 0) {
        size = 5;
    } else if (strncmp(text, "tomorrow", 8) == 0) {
        size = 8;
        when.tm_mday++;
    } else if (sscanf(text, "%4u-%2u-%2u%n", &year, &month, &day, &size) == 3 && size == 10 && year >= 1970) {
        when.tm_year = (int)year - 1900;
        when.tm_mon = (int)month - 1;
        when.tm_mday = (int)day;
    } else {
        return false;
    }
    if (text[size] != 0 && text[size] != ' ' && text[size] != 'T') return false;
    if (!time_of_day_parse(text[size] != 0 ? text + size + 1 : "", &when)) return false;
    given = when;
    time_t seconds = mktime(&when);
    if (seconds < 0 || (year != 0 && (when.tm_mday != given.tm_mday || when.tm_mon != given.tm_mon))) return false;
    *out_ms = (uint64_t)seconds * 1000;
    return true;
}

/* Parses a time. Returns NULL, or why the text is not a time. */
static const char *time_parse(const char *text, uint64_t *out_ms) {
    if (local_time_parse(text, out_ms)) return NULL;
    return rfc3339_parse(text, out_ms);
}

int option_when(const struct args *args, enum tarry_when *out_when, uint64_t *out_ms) {
    const char *in = args_get(args, "in"), *at = args_get(args, "at"), *due = args_get(args, "due-ms");
    if ((in != NULL) + (at != NULL) + (due != NULL) != 1)
        return tool_usage(args, "missing due time: give exactly one of --in DUR, --at TIME, --due-ms N");
    *out_when = in != NULL ? TARRY_DELAY : TARRY_AT;
    if (in != NULL) return option_duration(args, "in", out_ms);
    if (due != NULL) return option_number(args, "due-ms", 0, UINT64_MAX, out_ms);
    const char *wrong = time_parse(at, out_ms);
    return wrong == NULL
               ? 0
               : tool_usage(args, "--at: '%s': %s; or 'tomorrow 09:00' or 2026-12-01 in this time zone", at, wrong);
}

int option_ref(const struct args *args, struct tarry_ref *out_ref) {
    const char *id = args_get(args, "id");
    *out_ref = (struct tarry_ref){0};
    if (id != NULL && args->positional_count == 0) return option_id(args, id, &out_ref->id);
    if (id != NULL || args->positional_count != 2)
        return tool_usage(args, "missing task: give QUEUE and KEY, or --id ID");
    out_ref->queue = args->positional[0];
    out_ref->key = args->positional[1];
    if (out_ref->key[0] == 0) return tool_usage(args, "the key is empty; use --id for a task without a key");
    return 0;
}

int option_states(const struct args *args, uint32_t *out_states) {
    const char *text = args_get(args, "state");
    uint32_t states = 0;
    if (text == NULL) return 0;
    for (const char *at = text;;) {
        size_t size = strcspn(at, ",");
        size_t i = 0;
        while (i < JSON_STATE_COUNT &&
               (strlen(json_state_names[i]) != size || memcmp(json_state_names[i], at, size) != 0))
            i++;
        if (i == JSON_STATE_COUNT)
            return tool_usage(args, "--state: '%.*s' is not pending, ready, in_flight or dead", (int)size, at);
        states |= 1u << i;
        if (at[size] == 0) break;
        at += size + 1;
    }
    *out_states = states;
    return 0;
}

const char *option_attribute(const struct args *args, const char *text) {
    const char *equals = strchr(text, '=');
    if (equals != NULL && equals != text) return equals;
    (void)tool_usage(args, "--attr: '%s' is not name=value", text);
    return NULL;
}

int option_attributes(const struct args *args, struct tarry_attribute out[ATTRIBUTES_MAX], size_t *out_count) {
    if (args->many_count > ATTRIBUTES_MAX)
        return tool_usage(args, "more than %d attributes: give fewer --attr", ATTRIBUTES_MAX);
    for (size_t i = 0; i < args->many_count; i++) {
        const char *text = args->many[i].value, *equals = option_attribute(args, text);
        if (equals == NULL) return EXIT_USAGE;
        char *name = tool_strdup(text);
        name[equals - text] = 0;
        out[(*out_count)++] = (struct tarry_attribute){name, equals + 1};
    }
    return 0;
}

int option_fresh(struct tool *tool, const struct args *args) {
    struct tarry_call *fresh = &tool->fresh;
    tool->follower_reads = args_has(args, "from-follower");
    int status = option_number(args, "at-least", 1, UINT64_MAX, &fresh->at_least);
    if (status == 0) status = option_duration_positive(args, "staleness", &fresh->staleness_ms);
    if (status == 0 && fresh->staleness_ms > INT32_MAX)
        status = tool_usage(args, "--staleness: the maximum is 24 days; omit the option for no limit");
    return status;
}

int option_time(const struct args *args, const char *name, uint64_t *out_ms) {
    const char *text = args_get(args, name);
    uint64_t duration_ms;
    if (text == NULL || number_parse(text, out_ms)) return 0;
    if (text[0] == '+') {
        if (!duration_parse(text + 1, &duration_ms) || duration_ms > UINT64_MAX / 2)
            return tool_usage(args, "--%s: '%s' is not + and a duration such as +1h30m", name, text);
        *out_ms = wall_ms() + duration_ms;
        return 0;
    }
    const char *wrong = time_parse(text, out_ms);
    return wrong == NULL ? 0
                         : tool_usage(args,
                                      "--%s: '%s' is %s, nor Unix milliseconds, nor + and a duration, nor a day such "
                                      "as tomorrow or 2026-12-01",
                                      name, text, wrong);
}
