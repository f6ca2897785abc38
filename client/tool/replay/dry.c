/* dry.c: tarry replay --dry-run: reads the log twice. The first time it notes the events of each task. The second time
 * it sends the recorded requests to the real core (stage.h), at the same times of a virtual clock, with --set applied.
 *
 *     log ──► tasks: who took which, when, and its end       ──┐ consumers
 *      │                                                       ▼
 *      └────► asked: schedules, moves, cancels, … ──► core on a virtual clock ──► twins ──► differences
 *
 * Without --set, no task differs by more than DRY_TOLERANCE_MS. While the broker did not run, the virtual clock stops.
 * The wall clock is set from the record at each frame. */
#include "dry.h"

#include <stdlib.h>

#include "alloc.h"
#include "replay.h"
#include "scan.h"
#include "text.h"

#define NS_PER_MS 1000000u

/* Returns the wall clock's time. Between two frames it advances like the steady clock, but not beyond the second
 * frame's time. */
static uint64_t dry_wall_ns(const struct dry *dry) {
    uint64_t passed_ns = dry->stage.now.steady_ns - dry->before.steady_ns;
    uint64_t most_ns = dry->next.wall_ns - dry->before.wall_ns;
    return dry->before.wall_ns + (passed_ns < most_ns ? passed_ns : most_ns);
}

static void set_clock(struct dry *dry, uint64_t steady_ns) {
    struct instant *now = &dry->stage.now;
    if (steady_ns > now->steady_ns) now->steady_ns = steady_ns;
    bool is_there = now->steady_ns >= dry->next.steady_ns;
    uint64_t wall_ns = is_there ? dry->next.wall_ns : dry_wall_ns(dry);
    if (wall_ns > now->wall_ns) now->wall_ns = wall_ns;
}

/* Returns the steady time at which the first event of the wall clock's agenda is due. UINT64_MAX: not before the next
 * frame. */
static uint64_t wall_item_ns(const struct dry *dry) {
    const struct agenda_entry *item = agenda_first(&dry->wall);
    if (item == NULL || item->at_ns > dry->next.wall_ns) return UINT64_MAX;
    if (item->at_ns <= dry->stage.now.wall_ns) return dry->stage.now.steady_ns;
    uint64_t at_ns = dry->before.steady_ns + (item->at_ns - dry->before.wall_ns);
    return at_ns < dry->next.steady_ns ? at_ns : dry->next.steady_ns;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Runs all events before this time. Of the events at this time, runs those up to the log position. */
static void run_until(struct dry *dry, uint64_t until_ns, uint64_t position) {
    while (dry->stage.problem == NULL) {
        const struct agenda_entry *item = agenda_first(&dry->steady);
        uint64_t item_ns = item != NULL ? item->at_ns : UINT64_MAX;
        uint64_t wall_ns = wall_item_ns(dry);
        uint64_t core_ns = stage_deadline_ns(&dry->stage);
        uint64_t at_ns = least(least(item_ns, wall_ns), core_ns);
        if (at_ns > until_ns) break;
        bool is_core = core_ns == at_ns;
        bool is_after = item != NULL && at_ns == until_ns && !is_core && at_ns == item_ns && item->position > position;
        if (is_after && wall_ns > at_ns) break;
        set_clock(dry, at_ns);
        if (is_core) {
            stage_tick(&dry->stage);
        } else {
            struct agenda_entry taken = agenda_take(item_ns == at_ns && !is_after ? &dry->steady : &dry->wall);
            taken.run(dry, &taken);
        }
    }
    set_clock(dry, until_ns);
}

static void end_frame(struct dry *dry) {
    if (dry->frame == NULL) return;
    if (!dry->frame->settles) dry_ask(dry, dry->frame);
    asked_free(dry->frame);
    dry->frame = NULL;
    if (dry->frame_pages && stage_pages(&dry->stage))
        while (dry->frame_jobs_end && stage_pages(&dry->stage)) continue;
    dry->frame_pages = dry->frame_jobs_end = false;
}

static void release_consumers(struct dry *dry) {
    for (size_t i = 0; i < dry->plans.count; i++)
        if (dry->plans.items[i]->line != NULL) workers_withdraw(dry->plans.items[i]->line);
}

static void begin_frame(struct dry *dry, const struct entry *entry) {
    const struct frame_header *header = entry->header;
    end_frame(dry);
    dry->before = dry->next;
    dry->next = moment_of(header);
    if (entry_kind(entry) == ENTRY_START) { /* the broker was not running before this frame */
        release_consumers(dry);
        dry->before = dry->next;
        set_clock(dry, header->steady_ns);
    }
    run_until(dry, header->steady_ns, header->position);
    dry->position = header->position;
    dry->frame = asked_new(entry);
}

/* Returns whether an atomic commit settled the task's lease. Then the whole commit is repeated when that lease is over.
 */
static bool settles(const struct entry *entry) {
    switch (entry_kind(entry)) {
    case ENTRY_ACKED:
    case ENTRY_RETRIED:
    case ENTRY_DEAD:
    case ENTRY_RELEASED:
        return true;
    default:
        return false;
    }
}

static int take(void *argument, const struct entry *entry) {
    struct dry *dry = argument;
    if (entry->header->position != dry->position) begin_frame(dry, entry);
    if (dry->stage.problem != NULL || dry->message[0] != 0) return 1;
    enum entry_kind kind = entry_kind(entry);
    dry->frame_jobs_end |= kind == ENTRY_JOB_END; /* the record of a job's end does not name the queue */
    dry->frame_pages |= (kind == ENTRY_JOB || kind == ENTRY_JOB_END) && entry->body->producer == 0;
    struct plan *plan = entry->queue != NULL ? plans_find(&dry->plans, entry->queue) : NULL;
    if (plan == NULL || !plan->taken) return 0;
    const Tarry__Task *task = entry_task(entry);
    struct life *life = task != NULL ? lives_find(&dry->lives, task->id) : NULL;
    asked_take(dry->frame, entry, plan, life);
    if (life != NULL && dry->frame->atomic && settles(entry)) dry->frame->settles = true;
    if (kind == ENTRY_QUEUE) plan->paused = entry->record->queue->paused;
    return 0;
}

static int read_lives(struct dry *dry, const struct scan_filter *filter, struct store *store) {
    int status = plans_learn(&dry->plans, store);
    if (status == 0) status = scan(store, filter, lives_take, &dry->lives);
    lives_end(&dry->lives);
    for (size_t i = 0; i < dry->plans.count; i++) dry->plans.items[i]->paused = false;
    if (status == 0) status = plans_learn(&dry->plans, store);
    return status;
}

static int play(struct dry *dry, const struct scan_filter *filter, struct store *store) {
    struct logical_time begin = dry->lives.first;
    uint64_t first_id = dry->lives.count > 0 ? dry->lives.items[0]->id : 1;
    if (!stage_init(&dry->stage, first_id, dry->lives.count, begin))
        return store_damaged(store, "not enough memory for %zu tasks; select fewer with --queue, --from, --to",
                             dry->lives.count);
    dry->stage.on_twin = dry_on_twin;
    dry->stage.argument = dry;
    dry->before = dry->next = begin;
    int status = scan(store, filter, take, dry);
    if (status == 1 && store->message[0] == 0) status = 0;
    end_frame(dry);
    run_until(dry, dry->lives.last.steady_ns, UINT64_MAX);
    if (dry->message[0] != 0) return store_damaged(store, "%s", dry->message);
    if (dry->stage.problem != NULL) return store_damaged(store, "the dry run ends: %s", dry->stage.problem);
    return status;
}

int replay_dry(struct tool *tool, const struct replay_options *options, struct store *store) {
    struct dry *dry = tool_alloc(sizeof *dry);
    struct scan_filter filter = {.from_ms = options->from_ms, .to_ms = options->to_ms};
    struct text out = {0};
    int status = plans_init(&dry->plans, options->args);
    dry->lives.plans = &dry->plans;
    if (status == 0) status = read_lives(dry, &filter, store);
    const char *missing = status == 0 ? plans_not_met(&dry->plans) : NULL;
    if (missing != NULL) status = tool_usage(options->args, "--set: the log has no queue '%s'", missing);
    if (status == 0) status = play(dry, &filter, store);
    const struct dry_lives came = {.lives = &dry->lives,
                                   .assumed = dry->assumed,
                                   .refused = dry->refused,
                                   .unmade = dry->unmade};
    if (status == 0) difference_print(&came, tool->json, &out);
    for (size_t i = 0; i < dry->plans.count; i++) free(dry->plans.items[i]->line);
    if (dry->stage.core != NULL) stage_deinit(&dry->stage);
    asked_free(dry->frame);
    agenda_deinit(&dry->steady);
    agenda_deinit(&dry->wall);
    lives_deinit(&dry->lives);
    plans_deinit(&dry->plans);
    free(dry);
    return store_finish(store, &out, status);
}
