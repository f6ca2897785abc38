/* recur_decide.c: decisions about recurrences: an occurrence falls due; an operator sets, pauses, resumes, triggers or
 * deletes (recur.h).
 *
 *   due ──► which of the occurrences up to now run? missed and overlap decide ──► the others are ended, or never made
 *       ──► the next occurrence and its task ──► one RecurPut
 *
 * One frame contains all of these changes. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "check.h"
#include "decide.h"
#include "effects.h"
#include "need.h"
#include "recur.h"
#include "rule.h"

#define PASSED_MAX 1000u /* maximum number of due occurrences that one frame settles; the next frame continues */
#define MADE_BYTES_MAX (4u << 20)

/* One decision about one recurrence. */
struct step {
    struct core *core;
    struct draft *draft;
    struct recur *recur; /* the recurrence; NULL: the decision creates it */
    uint64_t number;
    uint32_t queue;
    const char *name;
    size_t name_size;
    const Tarry__RecurSet *set;
    struct rule rule;
    uint32_t looks; /* number of further calendar computations that this decision may make */
    Tarry__RecurPut *put;
    Tarry__RecurState *state;
    uint32_t made; /* tasks created */
};

static uint64_t limit_of(const struct step *step) {
    return step->set->count ? step->set->count : step->rule.count;
}

static uint64_t next_after(struct step *step, uint64_t after_ms) {
    return rule_next(&step->rule, after_ms, &step->looks);
}

/* Begins a record of the recurrence. The record's state starts as a copy of the recurrence's present state. */
static void begin_record(struct step *step, Tarry__RecurPut__Cause cause) {
    struct arena *arena = step->draft->arena;
    const struct recur *recur = step->recur;
    Tarry__RecurPut *put = step->put = must_alloc(arena, sizeof *put);
    tarry__recur_put__init(put);
    put->number = step->number;
    put->queue = step->queue;
    char *name = must_alloc(arena, step->name_size + 1);
    memcpy(name, step->name, step->name_size);
    put->name = name;
    put->cause = cause;
    put->before_hash = recur ? recur->hash : 0;
    Tarry__RecurState *state = step->state = put->state = must_alloc(arena, sizeof *state);
    tarry__recur_state__init(state);
    state->tzdata = (char *)zone_data_version();
    state->open = must_alloc(arena, (RECUR_OPEN_MAX + 1) * sizeof *state->open);
    if (!recur) return;
    state->set_hash = recur->set_hash;
    state->next_ms = recur->next_ms;
    state->due_ms = recur->due_ms;
    state->next_id = recur->task;
    state->last_ms = recur->last_ms;
    state->occurrences = recur->occurrences;
    state->missed = recur->missed;
    state->skipped = recur->skipped;
    state->paused = recur->paused;
    state->queued_ms = recur->queued_ms;
    for (size_t i = 0; i < recur->open_size; i++)
        if (recur->open_live & 1u << i) state->open[state->n_open++] = recur->open[i];
}

/* Adds the record, after those of the tasks that it names (recur_apply). */
static void end_record(struct step *step) {
    Tarry__Record *record = draft_record(step->draft);
    record->fact_case = TARRY__RECORD__FACT_RECUR;
    record->recur = step->put;
}

/* ---- tasks of occurrences */

static struct task_key key_of(const struct step *step, uint64_t at_ms, uint64_t task) {
    return recur_key(step->queue, step->name, step->name_size, step->rule.zone, at_ms, task, step->draft->arena);
}

/* Makes the content of an occurrence: salt ‖ the recurrence's content. The salt need not be secret: the content is in
 * the recurrence's record too. */
static const struct core_content *occurrence_content(const struct step *step, uint64_t at_ms) {
    struct core_content *content = must_alloc(step->draft->arena, sizeof *content);
    const ProtobufCBinaryData *from = &step->set->content;
    uint8_t *blob = must_have(step->draft->arena, BLOB_SALT_SIZE + from->len);
    const uint64_t seed[3] = {step->number, at_ms, step->core->position};
    const XXH128_hash_t salt = XXH3_128bits_withSeed(seed, sizeof seed, step->core->salt);
    memcpy(blob, &salt, BLOB_SALT_SIZE);
    blob[0] |= 1; /* a salt whose bytes are all zero would mean that the content is erased (content_is_erased) */
    if (from->len) memcpy(blob + BLOB_SALT_SIZE, from->data, from->len);
    content->data = blob;
    content->size = (uint32_t)(BLOB_SALT_SIZE + from->len);
    content->sum = frame_sum(blob, content->size);
    content_hash(blob, content->size, content->hash);
    return content;
}

/* Returns whether a live task of the queue, or a live share in one of its groups, has the key. */
static bool is_key_live(const struct step *step, const struct task_key *key) {
    const struct queue *topic = queue_at(step->core, step->queue), *group = NULL;
    struct known holder;
    if (draft_find_live(step->draft, key, &holder)) return true;
    TAILQ_FOREACH(group, &topic->groups, of_topic) {
        const struct task_key share = task_key_of(group->number, key->data, key->size);
        if (draft_find_live(step->draft, &share, &holder)) return true;
    }
    return false;
}

/* Creates an occurrence's task. Returns its id; 0: a live occurrence of the same second has the key, because the wall
 * clock was set back or the recurrence was set again. */
static uint64_t make_task(struct step *step, uint64_t at_ms, uint64_t due_ms, bool is_triggered) {
    const struct task_key key = key_of(step, at_ms, is_triggered ? step->draft->next_id : 0);
    if (is_key_live(step, &key)) return 0;
    struct row row = {
        .queue = step->queue,
        .key = key.data,
        .key_size = key.size,
        .due_ms = due_ms,
        .base = ROW_WALL,
        .priority = (uint8_t)step->set->priority,
        .expires_ms = step->set->expires_ms,
        .scheduled_ms = steady_ms(step->core),
    };
    draft_put_new(step->draft, &row, key.hash, occurrence_content(step, at_ms));
    step->made++;
    return row.id;
}

/* Returns when an occurrence is due: up to jitter_ms later, always before `following_ms`, the next one (0: none). */
static uint64_t due_at(const struct step *step, uint64_t at_ms, uint64_t following_ms) {
    uint64_t span = step->set->jitter_ms;
    if (following_ms && span > following_ms - at_ms) span = following_ms - at_ms;
    return span ? at_ms + row_key_hash((uint32_t)step->number, &at_ms, sizeof at_ms) % span : at_ms;
}

/* Finds the next occurrence's task, if it is waiting. */
static bool find_next_task(struct step *step, struct known *out) {
    const struct recur *recur = step->recur;
    if (!recur || !recur->task) return false;
    if (draft_find(step->draft, recur->task, out)) return !out->ended && out->row.state == ROW_WAITING;
    if (!recur->has_row) return false;
    const struct task_key key = recur_row_key(recur, step->draft->arena);
    *out = (struct known){.row = recur->row, .hash = recur->row_hash, .key_hash = key.hash};
    out->row.key = key.data;
    out->row.key_size = key.size;
    return true;
}

/* Cancels the next occurrence's task, if it is waiting. */
static void cancel_next_task(struct step *step) {
    struct known known;
    if (find_next_task(step, &known)) draft_end(step->draft, TARRY__CAUSE__CAUSE_CANCELLED, &known);
}

/* Plans the occurrence at `next_ms` (0: none) and creates its task. */
static void plan(struct step *step, uint64_t next_ms) {
    Tarry__RecurState *state = step->state;
    const uint64_t limit = limit_of(step);
    if (limit && state->occurrences >= limit) next_ms = 0;
    state->next_ms = next_ms;
    state->due_ms = state->next_id = 0;
    if (!next_ms) return;
    const uint64_t following_ms = step->set->jitter_ms ? next_after(step, next_ms) : 0;
    state->due_ms = due_at(step, next_ms, following_ms);
    state->next_id = make_task(step, next_ms, state->due_ms, false);
}

/* ---- an occurrence falls due */

/* Occurrences from recur->next_ms up to now. */
struct due_list {
    uint64_t last[RECUR_MISSED_MAX + 1]; /* ring with the latest occurrences; occurrence i is at i % LIST_SIZE */
    size_t count;
    uint64_t following_ms; /* the first occurrence after the listed ones; 0: none */
    bool is_cut;           /* the list is incomplete: `following_ms` is due, too */
};
#define LIST_SIZE (RECUR_MISSED_MAX + 1)

static void list_due(struct step *step, uint64_t now_ms, struct due_list *out) {
    const uint64_t limit = limit_of(step);
    uint64_t at_ms = step->recur->next_ms;
    for (;;) {
        out->last[out->count++ % LIST_SIZE] = at_ms;
        const bool is_last = limit && step->recur->occurrences + out->count >= limit;
        out->following_ms = is_last ? 0 : next_after(step, at_ms);
        if (!out->following_ms || out->following_ms > now_ms) return;
        out->is_cut = out->count == PASSED_MAX || step->looks < RULE_LOOKS_MAX;
        if (out->is_cut) return;
        at_ms = out->following_ms;
    }
}

/* Returns how many of the due occurrences run, according to the policy `missed`. Always the latest of them run. */
static size_t count_running(const struct step *step, const struct due_list *list, uint64_t now_ms) {
    const uint64_t last_ms = list->last[(list->count - 1) % LIST_SIZE];
    const bool is_missed = now_ms - last_ms > RECUR_GRACE_MS + step->set->jitter_ms;
    uint32_t missed_max = !strcmp(step->set->missed, "none") ? 0 : 1;
    const bool is_all = recur_missed_count(step->set->missed, &missed_max);
    size_t running = is_missed ? missed_max : is_all ? (size_t)missed_max + 1 : 1;
    if (running > list->count) running = list->count;
    const uint64_t window_ms = step->set->missed_window_ms;
    while (running > (is_missed ? 0 : 1) && window_ms) {
        if (now_ms - list->last[(list->count - running) % LIST_SIZE] <= window_ms) break;
        running--;
    }
    return running;
}

static bool is_own_time(const struct step *step, const struct known *known) {
    return known->row.base == ROW_WALL && known->row.due_ms == step->recur->due_ms;
}

/* Adds the task to the unfinished ones of the recurrence. If the list is full, the oldest task is dropped from it. */
static void note_open(struct step *step, uint64_t task) {
    Tarry__RecurState *state = step->state;
    if (!task || !strcmp(step->set->overlap, "allow")) return;
    if (state->n_open == RECUR_OPEN_MAX) memmove(state->open, state->open + 1, --state->n_open * sizeof *state->open);
    state->open[state->n_open++] = task;
}

/* Returns true if the `overlap` policy lets the occurrence run now. Otherwise counts it as skipped, or keeps it as the
 * queued occurrence. */
static bool passes_overlap(struct step *step, uint64_t at_ms) {
    Tarry__RecurState *state = step->state;
    if (!state->n_open) return true;
    if (!strcmp(step->set->overlap, "queue-one") && !state->queued_ms) {
        state->queued_ms = at_ms;
    } else {
        state->skipped++;
        step->put->skipped++;
    }
    return false;
}

/* Settles the first due occurrence. Normally its task exists, unless a client cancelled it. If the previous frame could
 * not settle all due occurrences (due_list.is_cut), no task exists, and this function creates it. */
static void settle_first(struct step *step, uint64_t at_ms, bool runs) {
    struct known known;
    if (!step->recur->task) {
        if (runs && passes_overlap(step, at_ms)) note_open(step, make_task(step, at_ms, at_ms, false));
        return;
    }
    const bool is_waiting = find_next_task(step, &known);
    if (!is_waiting) { /* A client cancelled the task, so the occurrence is skipped. Or a client moved the task, and it
                          has run or is in flight. */
        if (step->recur->is_live) note_open(step, step->recur->task);
        return;
    }
    if (is_own_time(step, &known) && (!runs || !passes_overlap(step, at_ms)))
        draft_end(step->draft, TARRY__CAUSE__CAUSE_CANCELLED, &known);
    else
        note_open(step, step->recur->task);
}

static void settle_due(struct step *step, const struct due_list *list, uint64_t now_ms) {
    Tarry__RecurState *state = step->state;
    Tarry__RecurPut *put = step->put;
    const size_t running = list->is_cut ? 0 : count_running(step, list, now_ms);
    const size_t first_running = list->count - running;
    settle_first(step, step->recur->next_ms, first_running == 0);
    for (size_t i = first_running ? first_running : 1; i < list->count; i++) {
        const uint64_t at_ms = list->last[i % LIST_SIZE];
        if (passes_overlap(step, at_ms)) note_open(step, make_task(step, at_ms, at_ms, false));
    }
    put->missed = first_running;
    if (first_running) {
        put->missed_first_ms = step->recur->next_ms;
        put->missed_last_ms = first_running < LIST_SIZE || list->count - first_running < LIST_SIZE
                                  ? list->last[(first_running - 1) % LIST_SIZE]
                                  : 0;
    }
    state->missed += first_running;
    state->occurrences += list->count;
    state->last_ms = put->occurrence_ms = list->last[(list->count - 1) % LIST_SIZE];
}

static void fire(struct step *step, uint64_t now_ms) {
    if (step->recur->queued_ms && !step->recur->open_live) {
        begin_record(step, TARRY__RECUR_PUT__CAUSE__QUEUED);
        step->put->occurrence_ms = step->state->queued_ms;
        note_open(step, make_task(step, step->state->queued_ms, step->state->queued_ms, false));
        step->state->queued_ms = 0;
        end_record(step);
        return;
    }
    struct due_list list = {.count = 0};
    list_due(step, now_ms, &list);
    begin_record(step, TARRY__RECUR_PUT__CAUSE__FELL_DUE);
    settle_due(step, &list, now_ms);
    if (list.is_cut) { /* the next frame continues with the occurrence at `following_ms`, whose task does not exist yet
                        */
        step->state->next_ms = step->state->due_ms = list.following_ms;
        step->state->next_id = 0;
    } else {
        plan(step, list.following_ms);
    }
    end_record(step);
}

/* Records that the rule cannot be computed any more, for example because tzdata dropped the zone. */
static void get_stuck(struct step *step, const struct rule_problem *problem) {
    begin_record(step, TARRY__RECUR_PUT__CAUSE__STUCK);
    step->state->problem = must_copy(step->draft->arena, problem->text, sizeof problem->text);
    end_record(step);
}

/* Begins a decision about an existing recurrence, without its rule. */
static struct step step_of(struct core *core, struct draft *draft, struct recur *recur, uint32_t looks) {
    return (struct step){
        .core = core,
        .draft = draft,
        .recur = recur,
        .number = recur->number,
        .queue = recur->queue,
        .name = recur->name,
        .name_size = recur->name_size,
        .set = recur_set_of(recur, draft->arena),
        .looks = looks,
    };
}

/* Begins a decision with the rule. Returns false if the rule cannot be made; then the recurrence is recorded as stuck.
 */
static bool step_or_stuck(struct core *core, struct draft *draft, struct recur *recur, struct step *out) {
    struct rule_problem problem;
    *out = step_of(core, draft, recur, 3 * RULE_LOOKS_MAX);
    if (recur_rule(out->set, &out->rule, &problem)) return true;
    get_stuck(out, &problem);
    return false;
}

/* Returns whether memory, index and disk have room for what the recurrence may create (CAP-1). */
static bool fits(const struct core *core, const struct recur *recur, struct need *need) {
    if (core->no_room || core->overlay_count > core->options.index_lag_max) return false;
    const unsigned tasks = 3 + (recur->is_allowed ? RECUR_MISSED_MAX : 0);
    for (unsigned i = 0; i < tasks; i++) need_task(need, KEY_SIZE_MAX, SERIAL_SIZE_MAX);
    return need_fits(core, need, ROOM_BUT_RESERVE);
}

/* Called after a start: computes the waiting occurrences again if the time zone data (tzdata) has changed. Sets
 * recur_lacks_room if memory is too small for one recurrence. */
static void recheck(struct core *core, struct draft *draft, struct need *need) {
    const char *version = zone_data_version();
    const uint64_t now_ms = base_ms(core, ROW_WALL);
    for (unsigned looks = 0; core->recur_recheck < core->recur_slots_end && looks < RECUR_FIRED_PER_STEP_MAX; looks++) {
        struct recur *recur = core->recur_slots[core->recur_recheck];
        const bool waits = recur && recur->next_ms > now_ms && !recur->paused && !recur->stuck;
        if (!waits || !strcmp(recur->tzdata, version)) {
            core->recur_recheck++;
            continue;
        }
        const bool is_first = !need->count;
        /* If other recurrences used this step's share of the memory, the next step continues. */
        if (!fits(core, recur, need)) {
            core->recur_lacks_room = is_first;
            return;
        }
        core->recur_recheck++;
        struct step step;
        if (!step_or_stuck(core, draft, recur, &step)) continue;
        const uint64_t next_ms = next_after(&step, now_ms);
        if (next_ms == recur->next_ms) continue;
        begin_record(&step, TARRY__RECUR_PUT__CAUSE__RECOMPUTED);
        step.put->occurrence_ms = recur->next_ms;
        cancel_next_task(&step);
        plan(&step, next_ms);
        end_record(&step);
    }
}

bool recur_run(struct core *core, struct core_effects *effects) {
    core->recur_behind = core->recur_lacks_room = false;
    if (!core->started || core->stopping || !core->recur_count) return false;
    const uint64_t now_ms = base_ms(core, ROW_WALL);
    const bool rechecks = core->recur_recheck < core->recur_slots_end;
    if (!rechecks && wheel_next(&core->recur_wheel) > now_ms) return false;
    struct draft draft;
    struct need need = {0};
    draft_init(&draft, core, effects->arena, NULL, RECUR_FIRED_PER_STEP_MAX);
    if (rechecks) recheck(core, &draft, &need);
    draft_commit(&draft, NULL, effects);
    draft_init(&draft, core, effects->arena, NULL, RECUR_FIRED_PER_STEP_MAX);
    uint32_t fired = 0, made = 0;
    struct wheel_timer *timer = NULL;
    while (fired < per_step(core, RECUR_FIRED_PER_STEP_MAX) && made < RECUR_MADE_PER_STEP_MAX &&
           draft.blob_size < MADE_BYTES_MAX && (timer = wheel_pop(&core->recur_wheel, now_ms))) {
        struct recur *recur = (struct recur *)timer;
        fired++;
        if (!fits(core, recur, &need)) {
            wheel_arm(&core->recur_wheel, timer, now_ms + RECUR_RETRY_MS, recur->number);
            continue;
        }
        struct step step;
        if (!step_or_stuck(core, &draft, recur, &step)) continue;
        fire(&step, now_ms);
        made += step.made;
    }
    draft_commit(&draft, NULL, effects);
    core->recur_behind = wheel_next(&core->recur_wheel) <= now_ms;
    return core->recur_behind || (core->recur_recheck < core->recur_slots_end && !core->recur_lacks_room);
}

bool core_recurs(const struct core *core, const struct instant *now) {
    return core->started && core->recur_count && wheel_next(&core->recur_wheel) <= now->wall_ns / 1000000;
}

/* ---- operations */

static void refuse_text(struct decision *d, Tarry__Code code, const char *text) {
    refuse_op(d, code, TARRY__OUTCOME__NONE, must_copy(d->draft->arena, text, strlen(text) + 1));
}

/* Returns false after a refusal of a second decision about the same recurrence in one commit. A second decision would
 * be wrong, because it reads the state before the commit. */
static bool may_decide(struct decision *d, uint32_t queue, const char *name) {
    struct draft *draft = d->draft;
    if (draft->recur_count == RECUR_OPS_MAX) {
        refuse_op(d, TARRY__CODE__TOO_LARGE, TARRY__OUTCOME__NONE,
                  "a commit may set or change at most 16 recurrences (RECUR_OPS_MAX): split the commit");
        return false;
    }
    for (size_t i = 0; i < draft->recur_count; i++) {
        if (draft->recurs[i]->queue != queue || strcmp(draft->recurs[i]->name, name) != 0) continue;
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE,
                  "the commit has two operations for the same recurrence: send them in two commits");
        return false;
    }
    return true;
}

static void note_decided(struct decision *d, const struct step *step) {
    d->draft->recurs[d->draft->recur_count++] = step->put;
    d->result->outcome = TARRY__OUTCOME__DONE;
    d->result->id = step->state ? step->state->next_id : 0;
    d->result->due_ms = step->state ? step->state->due_ms : 0;
}

/* Copies the recurrence that the request sets, and fills in the defaults. Intervals and RRULEs count from their start,
 * which is now by default. */
static const Tarry__RecurSet *complete(struct decision *d, const Tarry__RecurSet *set, uint64_t now_ms) {
    Tarry__RecurSet *full = must_copy(d->draft->arena, set, sizeof *set);
    full->base.n_unknown_fields = 0;
    if (!full->zone[0]) full->zone = (char *)"UTC";
    if (!full->gap[0]) full->gap = (char *)"next";
    if (!full->missed[0]) full->missed = (char *)"last";
    if (!full->overlap[0]) full->overlap = (char *)"skip";
    if (!full->from_ms) full->from_ms = now_ms / 1000 * 1000;
    /* A key contains whole seconds, so the first occurrence is rounded up. */
    if (full->every_ms) full->from_ms = (full->from_ms + 999) / 1000 * 1000;
    return full;
}

/* Returns the error message if no further recurrence is possible; NULL: one more is. */
static const char *lacks_recur_room(const struct decision *d) {
    if (d->core->recur_count + d->draft->recur_count >= RECURRENCES_MAX)
        return "the broker has its maximum number of recurrences (RECURRENCES_MAX, 131072): delete one first";
    if (!recur_has_room(d->core))
        return "recurrences use their whole share of the memory (an eighth of that for tasks): delete one, or start "
               "tarryd with a larger --memory";
    return NULL;
}

/* A topic's task ends when its groups have got their shares. So the policy `overlap` could not know whether the groups
 * still work on them. */
static const char *conflicts_with_groups(const struct decision *d, const Tarry__RecurSet *set) {
    if (d->queue->is_group)
        return "the queue is a group, which gets its tasks from its topic (the name before the last ':'): set the "
               "recurrence there";
    if (d->draft->groups) return "a group must be set in an earlier commit than a recurrence";
    if (d->queue->group_count && strcmp(set->overlap, "allow") != 0)
        return "the queue has groups, so the recurrence needs overlap allow: it cannot know whether all groups have "
               "ended "
               "the occurrence before";
    return NULL;
}

void decide_recur_set(struct decision *d, const Tarry__RecurSet *set) {
    struct rule_problem problem;
    const uint64_t now_ms = base_ms(d->core, ROW_WALL);
    struct recur *recur = recur_find(d->core, d->queue->number, set->name, strlen(set->name));
    if (!may_decide(d, d->queue->number, set->name)) return;
    const char *conflict = conflicts_with_groups(d, set);
    if (conflict) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE, conflict);
        return;
    }
    const char *lack = recur ? NULL : lacks_recur_room(d);
    if (lack) {
        refuse_op(d, TARRY__CODE__TOO_LARGE, TARRY__OUTCOME__NONE, lack);
        return;
    }
    struct step step = {
        .core = d->core,
        .draft = d->draft,
        .recur = recur,
        .number = recur ? recur->number : d->core->recur_last + 1 + d->draft->recur_count,
        .queue = d->queue->number,
        .name = set->name,
        .name_size = strlen(set->name),
        .set = complete(d, set, now_ms),
        .looks = RULE_LOOKS_MAX,
    };
    if (!recur_rule(step.set, &step.rule, &problem)) {
        refuse_text(d, TARRY__CODE__INVALID, problem.text);
        return;
    }
    const bool has_start = set->from_ms > now_ms;
    const uint64_t next_ms = next_after(&step, has_start ? set->from_ms - 1 : now_ms);
    if (!next_ms) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE,
                  step.looks ? "the recurrence never fires: no date within ten years, or before until, matches"
                             : "the recurrence fires too rarely: the search for a matching time was given up");
        return;
    }
    step.looks = RULE_LOOKS_MAX;
    begin_record(&step, TARRY__RECUR_PUT__CAUSE__SET);
    step.put->set = (Tarry__RecurSet *)step.set;
    step.put->set->fold = (char *)(step.rule.both ? "both" : "first");
    step.state->set_hash = recur_set_hash(step.set);
    step.state->paused = false;
    step.state->occurrences = step.state->missed = step.state->skipped = 0;
    step.state->queued_ms = 0;
    if (recur) { /* an occurrence that was moved to an earlier time may be in flight */
        struct known known;
        if (recur->is_live && !find_next_task(&step, &known)) note_open(&step, recur->task);
        step.name = recur->name;
        cancel_next_task(&step);
    }
    plan(&step, next_ms);
    end_record(&step);
    note_decided(d, &step);
}

static void trigger(struct decision *d, struct step *step) {
    const uint64_t now_ms = base_ms(d->core, ROW_WALL);
    begin_record(step, TARRY__RECUR_PUT__CAUSE__TRIGGERED);
    step->put->occurrence_ms = now_ms;
    const uint64_t task = make_task(step, now_ms, now_ms, true);
    assert(task); /* always created: the key of a triggered occurrence contains its id, so no other task has the key */
    note_open(step, task);
    end_record(step);
    note_decided(d, step);
    d->result->id = task;
    d->result->due_ms = now_ms;
}

static void pause_or_resume(struct decision *d, struct step *step, bool pauses) {
    begin_record(step, pauses ? TARRY__RECUR_PUT__CAUSE__PAUSED : TARRY__RECUR_PUT__CAUSE__RESUMED);
    const bool changes = step->state->paused != pauses || (!pauses && step->recur->stuck);
    step->state->paused = pauses;
    if (changes && pauses) {
        struct known known;
        if (step->recur->task && !find_next_task(step, &known)) {
            /* The task was cancelled, or it was moved and delivered. So this occurrence is settled now, and is not
             * created again after a resume. */
            settle_first(step, step->state->next_ms, true);
            if (step->state->next_ms) step->state->last_ms = step->state->next_ms;
        }
        cancel_next_task(step);
        step->state->next_ms = step->state->due_ms = step->state->next_id = step->state->queued_ms = 0;
    } else if (changes) { /* occurrences that fell into the pause do not run later */
        const uint64_t now_ms = base_ms(d->core, ROW_WALL), last_ms = step->state->last_ms;
        plan(step, next_after(step, last_ms > now_ms ? last_ms : now_ms));
    }
    end_record(step);
    note_decided(d, step);
}

void decide_recur_do(struct decision *d, const Tarry__RecurDo *order) {
    struct rule_problem problem;
    const struct queue *queue = queue_find_live(d->core, order->queue);
    struct recur *recur = queue ? recur_find(d->core, queue->number, order->name, strlen(order->name)) : NULL;
    if (!recur) {
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__UNKNOWN,
                  "the queue has no such recurrence; tarry recur list shows those that exist");
        return;
    }
    if (!may_decide(d, queue->number, order->name)) return;
    struct step step = step_of(d->core, d->draft, recur, 2 * RULE_LOOKS_MAX);
    const bool deletes = order->what == TARRY__RECUR_DO__WHAT__DELETE;
    if (!deletes && !recur_rule(step.set, &step.rule, &problem)) {
        refuse_text(d, TARRY__CODE__NOT_DONE, problem.text);
        return;
    }
    if (deletes) {
        begin_record(&step, TARRY__RECUR_PUT__CAUSE__DELETED);
        step.put->state = step.state = NULL;
        cancel_next_task(&step);
        end_record(&step);
        note_decided(d, &step);
    } else if (order->what == TARRY__RECUR_DO__WHAT__TRIGGER) {
        trigger(d, &step);
    } else {
        pause_or_resume(d, &step, order->what == TARRY__RECUR_DO__WHAT__PAUSE);
    }
}
