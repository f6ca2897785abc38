/* beanstalk_job.h: how a beanstalkd job lies in a Tarry task (docs/BEANSTALKD.md).
 *
 * Order. A line of Tarry's core is ordered by (due, id), and what is due in the past is ready at once. So a job that is
 * ready has an absolute due time that is its *rank*: pri + 1 milliseconds after 1970. Ready jobs of a tube come in the
 * order of (pri, id) then, for all 32 bits of pri, however many there are and across restarts.
 *
 * A job whose delay runs has its real due time, and priority BEANSTALK_PRIORITY_FRESH: once it is due it comes before
 * the ranked ones. The connection that leases it ranks it first, and with it all others whose delays have ended, if
 * another job may come before it (beanstalk_reserve.c). */
#ifndef TARRY_GATEWAY_BEANSTALK_JOB_H
#define TARRY_GATEWAY_BEANSTALK_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* Tarry's priorities of jobs that are ranked, and of those whose delay runs or has just ended. */
#define BEANSTALK_PRIORITY_RANKED 0u
#define BEANSTALK_PRIORITY_FRESH 9u
/* Of tasks that no beanstalkd client has put. */
#define BEANSTALK_PRI_DEFAULT 1024u
#define BEANSTALK_TTR_DEFAULT_S 60u
/* Jobs with a smaller pri are urgent, as beanstalkd counts them. */
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

/* Due time of a ready job of this priority, Unix milliseconds. */
static inline uint64_t beanstalk_rank_ms(uint32_t pri) {
    return (uint64_t)pri + 1;
}
static inline bool beanstalk_is_rank(uint64_t due_ms) {
    return due_ms > 0 && due_ms < BEANSTALK_RANK_END_MS;
}
static inline uint32_t beanstalk_pri_of_rank(uint64_t due_ms) {
    return (uint32_t)(due_ms - 1);
}

/* The attribute's value. */
void beanstalk_job_format(const struct beanstalk_job *job, char out[BEANSTALK_ATTRIBUTE_SIZE]);
/* What the content's attribute says. False: there is none, or none of ours; `out` has the defaults. */
bool beanstalk_job_parse(const Tarry__Content *content, struct beanstalk_job *out);
/* Why a job is among the dead letters: a client has buried it, with this pri. */
void beanstalk_reason_format(uint32_t pri, char out[BEANSTALK_REASON_SIZE]);
/* False: it says something else. */
bool beanstalk_reason_parse(const char *reason, uint32_t *out_pri);

#endif
