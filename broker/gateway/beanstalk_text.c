/* beanstalk_text.c: see beanstalk_text.h. Keys, their order and their form are beanstalkd 1.12's: clients read them
 * with less than a YAML parser. */
#include "beanstalk_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CAPACITY_FIRST 256u

void beanstalk_text_free(struct beanstalk_text *text) {
    free(text->bytes);
    *text = (struct beanstalk_text){0};
}

static bool grow(struct beanstalk_text *text, size_t needed) {
    size_t capacity = text->capacity > 0 ? text->capacity : CAPACITY_FIRST;
    while (capacity < needed) capacity *= 2;
    if (capacity == text->capacity) return true;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void beanstalk_text_add(struct beanstalk_text *text, const char *format, ...) {
    va_list arguments, again;
    if (text->failed) return;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size >= 0 && grow(text, text->size + (size_t)size + 1)) {
        vsnprintf(text->bytes + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
}

static void number(struct beanstalk_text *text, const char *key, uint64_t value) {
    beanstalk_text_add(text, "%s: %" PRIu64 "\n", key, value);
}

void beanstalk_text_job(struct beanstalk_text *text, const struct beanstalk_job_view *job) {
    beanstalk_text_add(text, "---\n");
    number(text, "id", job->id);
    beanstalk_text_add(text, "tube: %s\nstate: %s\n", job->tube, job->state);
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

static void counts(struct beanstalk_text *text, const struct beanstalk_counts *jobs) {
    number(text, "current-jobs-urgent", jobs->urgent);
    number(text, "current-jobs-ready", jobs->ready);
    number(text, "current-jobs-reserved", jobs->reserved);
    number(text, "current-jobs-delayed", jobs->delayed);
    number(text, "current-jobs-buried", jobs->buried);
}

void beanstalk_text_tube(struct beanstalk_text *text, const struct beanstalk_tube_view *tube) {
    beanstalk_text_add(text, "---\nname: %s\n", tube->name);
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

static void commands(struct beanstalk_text *text, const uint64_t counted[BEANSTALK_KINDS]) {
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
        beanstalk_text_add(text, "cmd-%s: %" PRIu64 "\n", beanstalk_name(order[i]), counted[order[i]]);
}

static void seconds(struct beanstalk_text *text, const char *key, uint64_t us) {
    beanstalk_text_add(text, "%s: %" PRIu64 ".%06" PRIu64 "\n", key, us / 1000000, us % 1000000);
}

void beanstalk_text_server(struct beanstalk_text *text, const struct beanstalk_server_view *server) {
    beanstalk_text_add(text, "---\n");
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
    beanstalk_text_add(text, "pid: %" PRId64 "\nversion: \"%s\"\n", server->pid, server->version);
    seconds(text, "rusage-utime", server->user_us);
    seconds(text, "rusage-stime", server->system_us);
    number(text, "uptime", server->uptime_s);
    number(text, "binlog-oldest-index", 0);
    number(text, "binlog-current-index", 0);
    number(text, "binlog-records-migrated", 0);
    number(text, "binlog-records-written", 0);
    number(text, "binlog-max-size", 0);
    beanstalk_text_add(text, "draining: %s\nid: %s\nhostname: %s\nos: %s\nplatform: %s\n",
                       server->draining ? "true" : "false", server->id, server->hostname, server->os, server->platform);
}
