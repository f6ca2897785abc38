/* beanstalk_job.c: see beanstalk_job.h. */
#include "beanstalk_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
