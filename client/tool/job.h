/* job.h: waiting for a purge, or a requeue or drop of all dead letters: the broker does them in bounded steps after it
 * has answered. */
#ifndef TARRY_TOOL_JOB_H
#define TARRY_TOOL_JOB_H

#include "tool.h"

/* Follows the jobs of `queue` until none runs, with a bar on a terminal; `count` tasks were concerned when it began;
 * `what` says what becomes of them. Returns an exit status; an end by a signal is fine, for the job goes on. */
int job_follow(struct tool *tool, const char *queue, uint64_t count, const char *what);

#endif
