/* index_maintain.c: background work, one bounded transaction per call. */
#include "index_parts.h"

void index_tell_time(struct index *index, uint64_t steady_ns) {
    if (steady_ns > index->told_ns) index->told_ns = steady_ns;
}

uint64_t index_maintain_at(const struct index *index) {
    return index->batch.is_prepared ? UINT64_MAX : ranges_sweep_at(index);
}

int index_maintain(struct index *index, bool *out_more) {
    bool did = false;
    int error = index->failed;
    if (error == 0 && index->batch.is_prepared) {
        /* The last commit failed on a full disk; memory is ahead of the disk until the commit is repeated. */
        *out_more = false;
        return 0;
    }
    if (error == 0) error = runs_merge(index, MERGE_STEP_KEYS * step_scale(index), &did);
    if (error == 0 && !did) error = runs_collect_garbage(index, &did);
    if (error == 0 && !did) error = ranges_sweep(index, &did);
    if (error == 0 && !did) error = slots_sweep(index, &did);
    if (error == 0 && !did) error = calendar_count(index, &did);
    if (error != 0) return error;
    *out_more = runs_merge_wanted(index) || index->runs.garbage.count > 0 || ranges_sweep_wanted(index) ||
                slots_sweep_wanted(index) || calendar_count_wanted(index);
    if (did) {
        index_account(index);
        db_trim(&index->db, index_pages_max(index));
    }
    return 0;
}
