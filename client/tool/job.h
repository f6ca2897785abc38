/* job.h: waiting for a purge, or a requeue or drop of all dead letters: the broker does them in bounded steps after it
 * has answered. */
#ifndef TARRY_TOOL_JOB_H
#define TARRY_TOOL_JOB_H

#include "tool.h"

/* Follows the job that `started` tells of until it has ended, with a bar on a terminal; `what` says what becomes of the
 * tasks ("purged"). Returns an exit status; EXIT_FINE: *out_view says what it has done. After a signal the job goes on
 * without us: EXIT_REFUSED, and a sentence says so. */
int job_follow(struct tool *tool, const char *queue, const struct tarry_result *started, const char *what,
               struct tarry_job_view *out_view);
/* "count", null if it is not known. */
void job_json_count(struct text *out, const struct tarry_job_view *view);
/* ": 12 tasks", if it is known; `noun` is the singular. */
void job_words_count(struct text *out, const struct tarry_job_view *view, const char *noun);

#endif
