/* group_commit.c: see group_commit.h. */
#include "group_commit.h"

#include <assert.h>

#include "log.h"

void group_commit_begin(struct group_commit *group, size_t frames, uint64_t end, bool is_replicated) {
    assert(group->step == GROUP_IDLE);
    *group = (struct group_commit){.step = frames > 0 ? GROUP_APPEND : GROUP_READ,
                                   .frames = frames,
                                   .end = end,
                                   .is_replicated = is_replicated};
}

/* Returns the step after GROUP_READ. */
static enum group_step sync_or_release(const struct group_commit *group) {
    return group->frames > 0 ? GROUP_SYNC : GROUP_RELEASE; /* LOG-1 */
}

void group_commit_done(struct group_commit *group, int error) {
    if (error != 0) { /* LOG-4 */
        group->failed = group->step;
        group->error = error;
        group->step = GROUP_FAILED;
        return;
    }
    switch (group->step) {
    case GROUP_APPEND:
        group->step = GROUP_READ;
        return;
    case GROUP_READ:
        group->step = sync_or_release(group);
        return;
    case GROUP_SYNC:
        group->step = GROUP_RELEASE;
        return;
    case GROUP_RELEASE:
        group->step = GROUP_IDLE;
        return;
    case GROUP_IDLE:
    case GROUP_FAILED:
        break;
    }
    assert(!"a step is under way");
}

bool group_commit_is_writing(const struct group_commit *group) {
    return group->step != GROUP_IDLE && group->step != GROUP_RELEASE;
}

bool group_commit_reads(const struct group_commit *group, size_t frames) {
    return !group->is_replicated || frames > 0;
}

void group_commit_frame(const struct core_append *append, struct log_piece *pieces, struct log_frame *out) {
    for (size_t i = 0; i < append->content_count; i++)
        pieces[i] = (struct log_piece){append->contents[i]->data, append->contents[i]->size};
    *out = (struct log_frame){
        .type = append->type,
        .epoch = append->epoch,
        .position = append->position,
        .steady_ns = append->now.steady_ns,
        .wall_ns = append->now.wall_ns,
        .body = append->body,
        .body_size = append->body_size,
        .pieces = pieces,
        .piece_count = append->content_count,
    };
}
