/* beanstalk_job.h: how a Tarry task represents a beanstalkd job (docs/BEANSTALKD.md).
 *
 * The core orders the tasks of a queue by (due, id), and a task with a due time in the past is ready. So a ready job
 * has an artificial due time, its *rank*: pri + 1 milliseconds after 1970. Ranks order the ready jobs of a tube by
 * (pri, id), for all 32 bits of pri, for any number of jobs, and across restarts.
 *
 * A delayed job has its real due time, and priority BEANSTALK_PRIORITY_FRESH, so that it precedes ranked jobs once it
 * is due. The connection that leases it first gives it a rank if another job may precede it, together with all other
 * jobs whose delays have ended (beanstalk_reserve.c). */
#ifndef TARRY_BEANSTALK_JOB_H
#define TARRY_BEANSTALK_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

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
