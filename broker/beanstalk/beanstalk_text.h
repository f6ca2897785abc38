/* beanstalk_text.h: formats beanstalkd's replies: lines, bodies, and YAML. Pure; one thread at a time. */
#ifndef TARRY_BEANSTALK_TEXT_H
#define TARRY_BEANSTALK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "beanstalk_parser.h"
#include "tarry.pb-c.h"
#include "text.h"

/* ---- replies */

/* Appends a text as a YAML scalar that every parser reads as this text: plain if possible, as beanstalkd 1.12 writes
 * it; else in double quotes, as 1.13 writes it. */
void beanstalk_text_string(struct text *text, const char *value);
/* Appends a list item: "- name". */
void beanstalk_text_item(struct text *text, const char *name);

/* A job in beanstalkd's terms. */
struct beanstalk_job_view {
    uint64_t id;
    const char *tube;
    const char *state; /* state as beanstalkd names it: ready, delayed, reserved or buried */
    uint32_t pri;
    uint64_t age_s, delay_s, ttr_s, time_left_s;
    uint32_t reserves, timeouts, releases, buries, kicks;
};
void beanstalk_text_job(struct text *text, const struct beanstalk_job_view *job);

struct beanstalk_counts { /* numbers of jobs, by state */
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
    const uint64_t *commands; /* number of commands of each kind (enum beanstalk_kind) */
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

/* ---- jobs */

/* How a Tarry task represents a beanstalkd job (docs/BEANSTALKD.md).
 *
 * The core orders the tasks of a queue by (due, id), and a task with a due time in the past is ready. So a ready job
 * has an artificial due time, its *rank*: pri + 1 milliseconds after 1970. Ranks order the ready jobs of a tube by
 * (pri, id), for all 32 bits of pri, for any number of jobs, and across restarts.
 *
 * A delayed job has its real due time. Its priority is BEANSTALK_PRIORITY_FRESH, so that it precedes ranked jobs once
 * it is due. The first connection that leases the job checks whether another job may precede it. If so, the connection
 * gives ranks to this job and to all other jobs whose delays have ended (beanstalk_reserve.c). */

/* Tarry priorities of ranked jobs; and of jobs whose delay is running or has just ended. */
#define BEANSTALK_PRIORITY_RANKED 0u
#define BEANSTALK_PRIORITY_FRESH 9u
/* The pri of tasks that no beanstalkd client created. */
#define BEANSTALK_PRI_DEFAULT 1024u
#define BEANSTALK_TTR_DEFAULT_S 60u
/* Jobs with a smaller pri are urgent, as in beanstalkd. */
#define BEANSTALK_URGENT_PRI 1024u
#define BEANSTALK_RANK_END_MS ((1ull << 32) + 1)

#define BEANSTALK_ATTRIBUTE "beanstalk"
#define BEANSTALK_ATTRIBUTE_SIZE 64u
#define BEANSTALK_REASON_SIZE 64u

struct beanstalk_job {
    uint32_t pri;
    uint32_t ttr_s;
    uint32_t delay_s;
};

/* Returns the due time of a ready job with this pri, in Unix milliseconds. */
static inline uint64_t beanstalk_rank_ms(uint32_t pri) {
    return (uint64_t)pri + 1;
}
static inline bool beanstalk_is_rank(uint64_t due_ms) {
    return due_ms > 0 && due_ms < BEANSTALK_RANK_END_MS;
}
static inline uint32_t beanstalk_pri_of_rank(uint64_t due_ms) {
    return (uint32_t)(due_ms - 1);
}

/* Writes the value of the attribute that stores the job's data. */
void beanstalk_job_format(const struct beanstalk_job *job, char out[BEANSTALK_ATTRIBUTE_SIZE]);
/* Reads the job's data from the content's attribute. False: the attribute is missing or invalid; `out` has the
 * defaults. */
bool beanstalk_job_parse(const Tarry__Content *content, struct beanstalk_job *out);
/* Writes the dead-letter reason of a job that a client buried with this pri. */
void beanstalk_reason_format(uint32_t pri, char out[BEANSTALK_REASON_SIZE]);
/* Reads the pri from a dead-letter reason. False: the job was not buried by a client. */
bool beanstalk_reason_parse(const char *reason, uint32_t *out_pri);

#endif
