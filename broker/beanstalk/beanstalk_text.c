/* beanstalk_text.c: see beanstalk_text.h. Keys, their order and their format are those of beanstalkd 1.12, because
 * clients read them without a full YAML parser. */
#include "beanstalk_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "check.h"

/* ---- scalars of YAML */

/* Bytes that a tube's name may contain and that have no meaning inside a YAML scalar (some have one at its beginning).
 * The colon is missing, because it has a meaning everywhere. */
static const char tube_bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";

/* Returns whether the text is a decimal number that every reader converts back to the same text. */
static bool is_integer(const char *value, size_t size) {
    return size <= 15 && strspn(value, "0123456789") == size && (value[0] != '0' || size == 1);
}

/* Returns whether YAML 1.1 or 1.2 may read the plain scalar as null, a boolean, a number, a date or a mark instead of a
 * text. May return true for other texts, too. */
static bool is_typed(const char *value, size_t size) {
    static const char *const words[] = {"null", "true", "false", "yes",  "no",    "on",   "off",
                                        "y",    "n",    ".inf",  ".nan", "+.inf", "-.inf"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(value, words[i]) == 0) return true;
    bool is_marked = strchr("0123456789+-.", value[0]) != NULL;
    return is_marked && strspn(value, "0123456789+-._xXoObBaAcCdDeEfF") == size;
}

/* Returns whether the character needs an escape within double quotes: YAML treats it as not printable or as a line end.
 */
static bool is_escaped(uint32_t c) {
    return c < 0x20 || c == '"' || c == '\\' || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           c == 0xfffe || c == 0xffff;
}

/* Returns the first character of well-formed UTF-8. */
static uint32_t character(const unsigned char *at, size_t *out_size) {
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    uint32_t c = size == 1 ? at[0] : at[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) c = c << 6 | (at[i] & 0x3fu);
    *out_size = size;
    return c;
}

void beanstalk_text_string(struct text *text, const char *value) {
    size_t size = strlen(value), step = 1;
    bool is_plain =
        size > 0 && strspn(value, tube_bytes) == size && (is_integer(value, size) || !is_typed(value, size));
    if (is_plain) {
        text_printf(text, "%s", value);
        return;
    }
    bool is_valid = is_utf8(value, size);
    text_printf(text, "\"");
    for (const unsigned char *at = (const unsigned char *)value; *at != '\0'; at += step) {
        uint32_t c = is_valid ? character(at, &step) : *at;
        if (is_escaped(c) || (!is_valid && c >= 0x80))
            text_printf(text, "\\u%04x", c);
        else
            text_printf(text, "%.*s", (int)step, (const char *)at);
    }
    text_printf(text, "\"");
}

/* Appends one line of a map. */
static void string(struct text *text, const char *key, const char *value) {
    text_printf(text, "%s: ", key);
    beanstalk_text_string(text, value);
    text_printf(text, "\n");
}

void beanstalk_text_item(struct text *text, const char *name) {
    text_printf(text, "- ");
    beanstalk_text_string(text, name);
    text_printf(text, "\n");
}

static void number(struct text *text, const char *key, uint64_t value) {
    text_printf(text, "%s: %" PRIu64 "\n", key, value);
}

void beanstalk_text_job(struct text *text, const struct beanstalk_job_view *job) {
    text_printf(text, "---\n");
    number(text, "id", job->id);
    string(text, "tube", job->tube);
    string(text, "state", job->state);
    number(text, "pri", job->pri);
    number(text, "age", job->age_s);
    number(text, "delay", job->delay_s);
    number(text, "ttr", job->ttr_s);
    number(text, "time-left", job->time_left_s);
    number(text, "file", 0);
    number(text, "reserves", job->reserves);
    number(text, "timeouts", job->timeouts);
    number(text, "releases", job->releases);
    number(text, "buries", job->buries);
    number(text, "kicks", job->kicks);
}

static void counts(struct text *text, const struct beanstalk_counts *jobs) {
    number(text, "current-jobs-urgent", jobs->urgent);
    number(text, "current-jobs-ready", jobs->ready);
    number(text, "current-jobs-reserved", jobs->reserved);
    number(text, "current-jobs-delayed", jobs->delayed);
    number(text, "current-jobs-buried", jobs->buried);
}

void beanstalk_text_tube(struct text *text, const struct beanstalk_tube_view *tube) {
    text_printf(text, "---\n");
    string(text, "name", tube->name);
    counts(text, &tube->jobs);
    number(text, "total-jobs", tube->jobs.total);
    number(text, "current-using", tube->using);
    number(text, "current-watching", tube->watching);
    number(text, "current-waiting", tube->waiting);
    number(text, "cmd-delete", tube->deletes);
    number(text, "cmd-pause-tube", tube->pauses);
    number(text, "pause", tube->pause_s);
    number(text, "pause-time-left", tube->pause_left_s);
}

static void commands(struct text *text, const uint64_t counted[BEANSTALK_KINDS]) {
    static const enum beanstalk_kind order[] = {
        BEANSTALK_PUT,
        BEANSTALK_PEEK,
        BEANSTALK_PEEK_READY,
        BEANSTALK_PEEK_DELAYED,
        BEANSTALK_PEEK_BURIED,
        BEANSTALK_RESERVE,
        BEANSTALK_RESERVE_TIMEOUT,
        BEANSTALK_DELETE,
        BEANSTALK_RELEASE,
        BEANSTALK_USE,
        BEANSTALK_WATCH,
        BEANSTALK_IGNORE,
        BEANSTALK_BURY,
        BEANSTALK_KICK,
        BEANSTALK_TOUCH,
        BEANSTALK_STATS,
        BEANSTALK_STATS_JOB,
        BEANSTALK_STATS_TUBE,
        BEANSTALK_LIST_TUBES,
        BEANSTALK_LIST_TUBE_USED,
        BEANSTALK_LIST_TUBES_WATCHED,
        BEANSTALK_PAUSE_TUBE,
    };
    for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++)
        text_printf(text, "cmd-%s: %" PRIu64 "\n", beanstalk_name(order[i]), counted[order[i]]);
}

static void seconds(struct text *text, const char *key, uint64_t us) {
    text_printf(text, "%s: %" PRIu64 ".%06" PRIu64 "\n", key, us / 1000000, us % 1000000);
}

void beanstalk_text_server(struct text *text, const struct beanstalk_server_view *server) {
    text_printf(text, "---\n");
    counts(text, &server->jobs);
    commands(text, server->commands);
    number(text, "job-timeouts", server->timeouts);
    number(text, "total-jobs", server->jobs.total);
    number(text, "max-job-size", server->job_max);
    number(text, "current-tubes", server->tubes);
    number(text, "current-connections", server->connections);
    number(text, "current-producers", server->producers);
    number(text, "current-workers", server->workers);
    number(text, "current-waiting", server->waiting);
    number(text, "total-connections", server->connections_total);
    text_printf(text, "pid: %" PRId64 "\nversion: \"%s\"\n", server->pid, server->version);
    seconds(text, "rusage-utime", server->user_us);
    seconds(text, "rusage-stime", server->system_us);
    number(text, "uptime", server->uptime_s);
    number(text, "binlog-oldest-index", 0);
    number(text, "binlog-current-index", 0);
    number(text, "binlog-records-migrated", 0);
    number(text, "binlog-records-written", 0);
    number(text, "binlog-max-size", 0);
    text_printf(text, "draining: %s\n", server->draining ? "true" : "false");
    string(text, "id", server->id);
    string(text, "hostname", server->hostname);
    string(text, "os", server->os);
    string(text, "platform", server->platform);
}

/* ---- jobs */

#define REASON "buried by a beanstalkd client, pri="

void beanstalk_job_format(const struct beanstalk_job *job, char out[BEANSTALK_ATTRIBUTE_SIZE]) {
    snprintf(out, BEANSTALK_ATTRIBUTE_SIZE, "pri=%" PRIu32 " ttr=%" PRIu32 " delay=%" PRIu32, job->pri, job->ttr_s,
             job->delay_s);
}

/* Parses `name`, a 32-bit number and `end`; moves *at behind them. */
static bool take(const char **at, const char *name, char end, uint32_t *out) {
    size_t size = strlen(name);
    if (strncmp(*at, name, size) != 0) return false;
    const char *text = *at + size;
    if (*text < '0' || *text > '9' || strspn(text, "0123456789") > 10) return false;
    char *after;
    unsigned long long value = strtoull(text, &after, 10);
    if (value > UINT32_MAX || *after != end) return false;
    *out = (uint32_t)value;
    *at = after + (end != '\0');
    return true;
}

bool beanstalk_job_parse(const Tarry__Content *content, struct beanstalk_job *out) {
    *out = (struct beanstalk_job){.pri = BEANSTALK_PRI_DEFAULT, .ttr_s = BEANSTALK_TTR_DEFAULT_S};
    for (size_t i = 0; content != NULL && i < content->n_attributes; i++) {
        if (strcmp(content->attributes[i]->name, BEANSTALK_ATTRIBUTE) != 0) continue;
        struct beanstalk_job job;
        const char *at = content->attributes[i]->value;
        if (!take(&at, "pri=", ' ', &job.pri) || !take(&at, "ttr=", ' ', &job.ttr_s) ||
            !take(&at, "delay=", '\0', &job.delay_s) || job.ttr_s == 0)
            return false;
        *out = job;
        return true;
    }
    return false;
}

void beanstalk_reason_format(uint32_t pri, char out[BEANSTALK_REASON_SIZE]) {
    snprintf(out, BEANSTALK_REASON_SIZE, REASON "%" PRIu32, pri);
}

bool beanstalk_reason_parse(const char *reason, uint32_t *out_pri) {
    const char *at = reason;
    return take(&at, REASON, '\0', out_pri);
}
