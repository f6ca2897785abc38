/* recovery_plan.c: see recovery_plan.h. */
#include "recovery_plan.h"

#include <assert.h>
#include <string.h>

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static void refuse(struct recovery_plan *plan, enum recovery_refusal refusal, int error) {
    plan->effect = RECOVERY_REFUSED;
    plan->refusal = refusal;
    plan->error = error;
}

void recovery_begin(struct recovery_plan *out, const struct recovery_options *options) {
    *out = (struct recovery_plan){.options = *options, .effect = RECOVERY_OPEN_INDEX};
}

void recovery_index_opened(struct recovery_plan *plan, const struct recovery_index *index) {
    assert(plan->effect == RECOVERY_OPEN_INDEX);
    plan->index = *index;
    plan->durable_min = max_u64(index->position, plan->options.signed_position);
    plan->replayed = index->position;
    plan->effect = RECOVERY_OPEN_LOG;
}

/* LOG-3: checks that the index does not lead the log, that the log has all data that the index refers to, and that both
 * have the same history. */
static bool fits_together(struct recovery_plan *plan) {
    const struct recovery_index *index = &plan->index;
    const struct log_recovery *log = &plan->log;
    bool is_signed_there = plan->options.signed_position != 0 && plan->options.signed_position == index->position;
    if (log->end < index->position)
        refuse(plan, RECOVERY_INDEX_AHEAD, 0);
    else if (log->start > index->log_start)
        refuse(plan, RECOVERY_CONTENTS_MISSING, 0);
    else if (log->start > index->position)
        refuse(plan, RECOVERY_FRAMES_MISSING, 0);
    else if (index->position > LOG_POSITION_FIRST && memcmp(log->scan_chain, index->chain, FRAME_CHAIN_SIZE) != 0)
        refuse(plan, RECOVERY_HISTORIES_DIFFER, 0);
    else if (is_signed_there && memcmp(plan->options.signed_chain, log->scan_chain, FRAME_CHAIN_SIZE) != 0)
        refuse(plan, RECOVERY_HEAD_DIFFERS, 0);
    return plan->effect != RECOVERY_REFUSED;
}

void recovery_log_opened(struct recovery_plan *plan, const struct log_recovery *log) {
    assert(plan->effect == RECOVERY_OPEN_LOG);
    plan->log = *log;
    plan->replay_to = log->end;
    if (fits_together(plan)) plan->effect = RECOVERY_MAKE_CORE;
}

/* ---- after the core is restored */

static void go_on_with_clock(struct recovery_plan *plan) {
    const struct recovery_index *index = &plan->index;
    const struct log_recovery *log = &plan->log;
    /* The log may have no frames after the index's position; then the index has the latest time. */
    plan->last = (struct instant){max_u64(log->steady_ns, index->steady_ns), max_u64(log->wall_ns, index->wall_ns)};
    plan->effect = plan->options.inspects ? RECOVERY_STOP_CLOCK : RECOVERY_START_CLOCK;
}

/* Ends the plan. A start that may write the log begins a new epoch, so that no (epoch, position) is written twice. */
static void end(struct recovery_plan *plan) {
    plan->effect = RECOVERY_DONE;
    plan->epoch = plan->log.epoch > plan->index.epoch ? plan->log.epoch : plan->index.epoch;
    plan->begins = plan->options.inspects ? CORE_INSPECT : plan->options.is_pair ? CORE_FOLLOW : CORE_START;
    if (plan->begins != CORE_START) return;
    plan->epoch++;
    if (plan->epoch < plan->options.epoch_min) plan->epoch = plan->options.epoch_min;
}

static void go_on_with_replay(struct recovery_plan *plan) {
    if (plan->options.is_pair)
        go_on_with_clock(plan);
    else
        plan->effect = RECOVERY_REPLAY;
}

static void go_on_with_restore(struct recovery_plan *plan) {
    plan->part++;
    if (plan->part == RECOVERY_PARTS) go_on_with_replay(plan);
}

void recovery_executed(struct recovery_plan *plan, int error) {
    switch (plan->effect) {
    case RECOVERY_MAKE_CORE:
        plan->effect = RECOVERY_RESTORE;
        if (error != 0) refuse(plan, RECOVERY_CORE_TOO_LARGE, error);
        break;
    case RECOVERY_RESTORE:
        if (error == 0)
            go_on_with_restore(plan);
        else
            refuse(plan, error == CORE_NO_MEMORY ? RECOVERY_INDEX_TOO_LARGE : RECOVERY_INDEX_SENSELESS, error);
        break;
    case RECOVERY_FIND_LAST_STOP:
        if (error == 0)
            go_on_with_clock(plan);
        else
            refuse(plan, RECOVERY_LAST_STOP_UNREADABLE, error);
        break;
    case RECOVERY_START_CLOCK:
    case RECOVERY_STOP_CLOCK:
        end(plan);
        break;
    case RECOVERY_OPEN_INDEX:
    case RECOVERY_OPEN_LOG:
    case RECOVERY_REPLAY:
    case RECOVERY_DONE:
    case RECOVERY_REFUSED:
        assert(!"recovery knows this effect");
    }
}

void recovery_frame_read(struct recovery_plan *plan, struct core *core, int error, const struct frame_header *header,
                         const Tarry__FrameBody *body) {
    assert(plan->effect == RECOVERY_REPLAY);
    if (error == LOG_END && plan->replayed == plan->replay_to) {
        plan->effect = RECOVERY_FIND_LAST_STOP;
        return;
    }
    bool is_senseless = error == 0 && body == NULL && header->body_size > 0;
    if (error == 0) error = is_senseless ? CORE_NONSENSE : core_replay(core, header, body);
    if (error == CORE_NO_MEMORY)
        refuse(plan, RECOVERY_REPLAY_TOO_LARGE, error);
    else if (error != 0)
        refuse(plan, RECOVERY_REPLAY_IMPOSSIBLE, error == CORE_NONSENSE ? LOG_DAMAGED : error);
    else
        plan->replayed = header->position + frame_size(header->body_size, header->blob_size);
}
