/* jobs.c: the table of jobs (jobs.h). job_run.c runs them. */
#include "jobs.h"

#include "queues.h"

#include <string.h>

struct job *job_find(struct core *core, uint64_t id) {
    for (size_t i = 0; id && i < JOBS_MAX; i++) {
        if (core->jobs[i].id == id) return &core->jobs[i];
    }
    return NULL;
}

int job_apply_put(struct core *core, const Tarry__JobPut *put) {
    if (!put->job || !queue_has_place(core, put->queue)) return CORE_NONSENSE;
    if (strlen(put->client) > CLIENT_NAME_SIZE_MAX || strlen(put->peer) > PEER_SIZE_MAX) return CORE_NONSENSE;
    if (strlen(put->principal) > PRINCIPAL_SIZE_MAX) return CORE_NONSENSE;
    struct job *job = job_find(core, put->job);
    if (!job) {
        for (size_t i = 0; i < JOBS_MAX && !job; i++) job = core->jobs[i].id ? NULL : &core->jobs[i];
        if (!job) return CORE_NONSENSE;
        *job = (struct job){.id = put->job, .queue = put->queue};
        memcpy(job->client, put->client, strlen(put->client));
        memcpy(job->peer, put->peer, strlen(put->peer));
        memcpy(job->principal, put->principal, strlen(put->principal));
        core->job_count++;
        queue_at(core, put->queue)->job_count++;
    }
    job->what = put->what;
    job->states = put->states;
    job->after_id = put->after_id;
    job->id_end = put->id_end;
    job->split_ms[ROW_STEADY] = put->steady_ms;
    job->split_ms[ROW_WALL] = put->wall_ms;
    job->done = put->done;
    job->left = put->left;
    return 0;
}

int job_apply_end(struct core *core, const Tarry__JobEnd *end) {
    struct job *job = job_find(core, end->job);
    if (!job) return CORE_NONSENSE;
    queue_at(core, job->queue)->job_count--;
    core->job_count--;
    core->ended_jobs[core->ended_job_next] = (struct ended_job){end->job, end->done, end->left};
    core->ended_job_next = (core->ended_job_next + 1) % JOBS_MAX;
    *job = (struct job){0};
    return 0;
}
