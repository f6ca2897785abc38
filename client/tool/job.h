/* job.h: waits for a purge, requeue or drop. The broker answers first, and then works in bounded steps. */
#ifndef TARRY_TOOL_JOB_H
#define TARRY_TOOL_JOB_H

#include "tool.h"

/* Waits until the job in `started` has ended, with a progress bar on a terminal; `what` is its verb ("purged").
 * Returns an exit status; after EXIT_FINE *out_view has the result. After a signal the job continues at the broker,
 * and the function prints a sentence and returns EXIT_REFUSED. */
int job_follow(struct tool *tool, const char *queue, const struct tarry_result *started, const char *what,
               struct tarry_job_view *out_view);
/* Appends the JSON member "count"; null if unknown. */
void job_json_count(struct text *out, const struct tarry_job_view *view);
/* Appends for example ": 12 tasks" if the count is known. `noun` is the singular. */
void job_words_count(struct text *out, const struct tarry_job_view *view, const char *noun);

#endif
