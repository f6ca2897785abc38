/* job_run.c: jobs over a whole queue: purge, requeue all, drop all (jobs.h).
 *
 * A job concerns the tasks that existed at its request: those with ids below `id_end`. It starts once the index has
 * absorbed that position. It reads rows in order of id, and ends or changes the tasks in frames of bounded size. Each
 * frame records the job's progress, so a job resumes after a restart, and no caller waits for it. A task's state in
 * memory has priority over a row that was read. */
#include <string.h>

#include "ahead.h"
#include "decide.h"
#include "effects.h"
#include "jobs.h"
#include "near.h"
#include "need.h"
#include "tasks.h"

void jobs_run(struct core *core, struct core_effects *effects) {
    if (!core->job_count || core->stopping || !is_deciding(core)) return;
    const uint32_t first = core->job_next;
    for (uint32_t i = 0; i < JOBS_MAX && core->pages_loading < JOB_PAGES_MAX; i++) {
        struct job *job = &core->jobs[(first + i) % JOBS_MAX];
        if (!job->id || job->loading || core->indexed <= job->id)
            continue; /* the id of a job is the position of its frame */
        /* Too many tasks in memory are not in the index yet; the job continues when the index has absorbed more. */
        if (core->overlay_count > core->options.index_lag_max) continue;
        if (job->lacked && core->task_count >= job->lacked)
            continue; /* no memory has become free since the page did not fit, so do not read it again yet */
        int hold = core_hold(core);
        if (hold < 0) return;
        job->loading = true;
        job->hold = hold;
        core->pages_loading++;
        core->job_next = (first + i + 1) % JOBS_MAX;
        *PUSH(effects, pages) = (struct core_page){
            .job = job->id,
            .queue = job->queue,
            .after_id = job->after_id,
            .id_end = job->id_end,
            .count_max = JOB_PAGE_TASKS_MAX,
        };
    }
}

static uint32_t bit_for(const struct job *job, const struct row *row) {
    return state_bit_of(row, job->split_ms[row->base]);
}

/* Finds the task's current state. Returns false if the task has ended, or is not in a state that the job processes. */
static bool job_concerns(struct draft *draft, const struct job *job, const struct row *read, struct known *out) {
    const struct task *task = task_find(draft->core, read->id);
    if (task && task->place == PLACE_ENDED) return false;
    *out = task ? known_of(task) : known_of_row(read);
    ahead_see(draft, out);
    if (job->what == TARRY__JOB_PUT__WHAT__PURGE) return job->states & bit_for(job, &out->row);
    return out->row.state == ROW_BURIED;
}

/* Requeues a dead task. Returns false if a live task has its key: the dead task stays dead until an operator decides.
 */
static bool requeue(struct draft *draft, const struct known *known) {
    struct known holder;
    const struct task_key key = row_key(&known->row);
    if (draft_find_live(draft, &key, &holder)) return false;
    struct row row;
    row_revive(draft->core, &known->row, &row);
    draft_put(draft, TARRY__CAUSE__CAUSE_REQUEUED, known, &row);
    return true;
}

/* Totals of the job, including this page. */
struct job_counts {
    uint64_t done;
    uint64_t left;
};

static void job_progress(struct draft *draft, const struct job *job, const struct job_counts *counts,
                         uint64_t next_id) {
    Tarry__Record *record = draft_record(draft);
    if (next_id == UINT64_MAX) {
        record->fact_case = TARRY__RECORD__FACT_JOB_END;
        record->job_end = must_alloc(draft->arena, sizeof *record->job_end);
        tarry__job_end__init(record->job_end);
        record->job_end->job = job->id;
        record->job_end->done = counts->done;
        record->job_end->left = counts->left;
        return;
    }
    record->fact_case = TARRY__RECORD__FACT_JOB;
    record->job = must_alloc(draft->arena, sizeof *record->job);
    tarry__job_put__init(record->job);
    record->job->job = job->id;
    record->job->what = (Tarry__JobPut__What)job->what;
    record->job->queue = job->queue;
    record->job->states = job->states;
    record->job->after_id = next_id;
    record->job->id_end = job->id_end;
    record->job->steady_ms = job->split_ms[ROW_STEADY];
    record->job->wall_ms = job->split_ms[ROW_WALL];
    record->job->done = counts->done;
    record->job->left = counts->left;
    record->job->client = (char *)job->client;
    record->job->peer = (char *)job->peer;
    record->job->principal = (char *)job->principal;
}

void job_page(struct core *core, const struct core_paged *page, struct core_effects *effects) {
    struct job *job = job_find(core, page->job);
    assert(job && job->loading && core->pages_loading);
    job->loading = false;
    core->pages_loading--;
    core_unhold(core, job->hold);
    struct need need = {0};
    need_rows(&need, page->rows, page->row_count);
    job->lacked = need_fits(core, &need, ROOM_BUT_RESERVE) ? 0 : core->task_count;
    if (core->stopping || job->lacked) return; /* jobs_run requests the page again later */
    struct draft draft;
    draft_init(&draft, core, effects->arena, &page->facts, page->row_count + 1);
    draft.client = job->client;
    draft.peer = job->peer;
    draft.principal = job->principal;
    struct job_counts counts = {job->done, job->left};
    for (size_t i = 0; i < page->row_count; i++) {
        struct known known;
        if (!job_concerns(&draft, job, &page->rows[i], &known)) continue;
        if (job->what == TARRY__JOB_PUT__WHAT__PURGE) {
            draft_end(&draft, TARRY__CAUSE__CAUSE_PURGED, &known);
        } else if (job->what == TARRY__JOB_PUT__WHAT__DROP_ALL) {
            draft_end(&draft, TARRY__CAUSE__CAUSE_DROPPED, &known);
        } else if (!requeue(&draft, &known)) {
            counts.left++;
            continue;
        }
        counts.done++;
    }
    /* For empty pages, a frame with only the job's progress is written sometimes, not for each page. */
    if (draft.record_count || page->next_id == UINT64_MAX) {
        job_progress(&draft, job, &counts, page->next_id);
        draft_commit(&draft, NULL, effects);
    } else {
        job->after_id = page->next_id;
        job->left = counts.left;
    }
}
