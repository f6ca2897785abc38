/* jobs.h: jobs such as a purge, which process a whole queue in frames of bounded size. */
#ifndef TARRY_CORE_JOBS_H
#define TARRY_CORE_JOBS_H

#include "state.h"

struct job *job_find(struct core *core, uint64_t id);
int job_apply_put(struct core *core, const Tarry__JobPut *put);
int job_apply_end(struct core *core, const Tarry__JobEnd *end);
/* Requests the next page of every waiting job, once the index has absorbed the job's tasks. */
void jobs_run(struct core *core, struct core_effects *effects);
void job_page(struct core *core, const struct core_paged *page, struct core_effects *effects);

#endif
