/* beanstalk_text.h: formats beanstalkd's replies: lines, bodies, and YAML. Pure; one thread at a time. */
#ifndef TARRY_BEANSTALK_TEXT_H
#define TARRY_BEANSTALK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "beanstalk_parser.h"
#include "text.h"

/* Appends a text as a YAML scalar that every parser reads as this text: plain if possible, as beanstalkd 1.12 writes
 * it; else in double quotes, as 1.13 writes it. */
void beanstalk_text_string(struct text *text, const char *value);
/* Appends a list item: "- name". */
void beanstalk_text_item(struct text *text, const char *name);

/* A job in beanstalkd's terms. */
struct beanstalk_job_view {
    uint64_t id;
    const char *tube;
    const char *state; /* ready, delayed, reserved, buried */
    uint32_t pri;
    uint64_t age_s, delay_s, ttr_s, time_left_s;
    uint32_t reserves, timeouts, releases, buries, kicks;
};
void beanstalk_text_job(struct text *text, const struct beanstalk_job_view *job);

struct beanstalk_counts { /* numbers of jobs */
    uint64_t urgent, ready, reserved, delayed, buried, total;
};
struct beanstalk_tube_view {
    const char *name;
    struct beanstalk_counts jobs;
    uint32_t using, watching, waiting;
    uint64_t deletes, pauses, pause_s, pause_left_s;
};
void beanstalk_text_tube(struct text *text, const struct beanstalk_tube_view *tube);

struct beanstalk_server_view {
    struct beanstalk_counts jobs;
    const uint64_t *commands; /* indexed by enum beanstalk_kind */
    uint64_t timeouts;
    size_t tubes;
    uint32_t job_max;
    uint32_t connections, producers, workers, waiting;
    uint64_t connections_total;
    int64_t pid;
    const char *version; /* emulated version of beanstalkd */
    uint64_t user_us, system_us, uptime_s;
    bool draining;
    const char *id, *hostname, *os, *platform;
};
void beanstalk_text_server(struct text *text, const struct beanstalk_server_view *server);

#endif
