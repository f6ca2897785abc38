/* dry_turn.c: simulates consumers as recorded: when each waiting task is delivered, and how each delivery ends. If a
 * period of waiting has the due time and the start of a recorded one, the delivery is at the recorded time, or never,
 * as recorded. Otherwise the delay from ready to delivery, the duration and the result are those of the recorded
 * delivery with the same number, or of the last recorded one. */
#include <stdlib.h>

#include "dry.h"

#define NS_PER_MS 1000000u
#define TRIES_DOUBLE 10u /* number of doublings of the retry interval: from 1 ms to 1 s */
#define TOLERANCE_NS ((uint64_t)DRY_TOLERANCE_MS * NS_PER_MS)

static uint64_t apart(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t ms_up(uint64_t ns) {
    return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

static void ask_one(struct dry *dry, enum ask_kind kind, struct twin *twin, struct turn *turn) {
    struct ask ask = {.kind = kind, .plan = twin->life->plan, .life = twin->life, .turn = turn};
    struct asked asked = {.items = &ask, .count = 1};
    if (turn != NULL) ask.verdict = turn->verdict;
    dry_ask(dry, &asked);
}

/* ---- deliveries */

static void run_take(void *argument, const struct agenda_entry *item) {
    struct dry *dry = argument;
    struct twin *twin = item->subject;
    struct plan *plan = twin->life->plan;
    if (twin->version != item->version || twin->ended || twin->row.state != ROW_WAITING) return;
    if (plan->line == NULL) plan->line = workers_new(&dry->stage, plan);
    dry->leased = NULL;
    workers_grant(plan->line);
    if (plan->line->open) workers_withdraw(plan->line); /* no task was ready, or the task had expired */
    if (twin->version != item->version) return;
    struct agenda_entry again = *item;
    uint64_t now_ns = dry->stage.now.steady_ns;
    if (dry->leased != NULL) /* the core preferred another task, so try again when that one is taken */
        again.at_ns = later(now_ns, dry->leased->take_ns);
    else /* the task is not ready yet, or the queue is paused */
        again.at_ns = now_ns + (NS_PER_MS << (again.tries < TRIES_DOUBLE ? again.tries++ : TRIES_DOUBLE));
    agenda_add(&dry->steady, &again);
}

static void run_touch(void *argument, const struct agenda_entry *item) {
    struct twin *twin = item->subject;
    if (twin->version == item->version && !twin->ended) ask_one(argument, ASK_TOUCH, twin, NULL);
}

static bool is_same(const struct phase *phase, const struct twin *twin) {
    bool begins_alike = twin->since.steady_ns + TOLERANCE_NS >= phase->earliest_ns &&
                        twin->since.steady_ns <= phase->since.steady_ns + TOLERANCE_NS;
    return begins_alike && phase->base == twin->row.base && apart(phase->due_ms, twin->row.due_ms) <= DRY_TOLERANCE_MS;
}

/* Returns the recorded phase that matches this period of waiting; NULL: none. */
static struct phase *find_phase(const struct twin *twin) {
    struct phase *phase = twin->next;
    while (phase != NULL && !is_same(phase, twin)) phase = phase->next;
    return phase;
}

/* Returns the recorded phase whose delivery is the model for an unrecorded delivery. */
static const struct phase *find_like(const struct twin *twin) {
    const struct phase *like = NULL;
    uint64_t number = 0;
    for (const struct phase *phase = twin->life->first; phase != NULL; phase = phase->next) {
        if (phase->turn == NULL) continue;
        like = phase;
        if (number++ == twin->taken) break;
    }
    return like;
}

static void wait_as_recorded(struct dry *dry, struct twin *twin) {
    const struct life *life = twin->life;
    struct agenda_entry item = {.subject = twin, .version = twin->version};
    twin->turn = twin->phase->turn;
    if (twin->turn != NULL) {
        item.run = run_take;
        item.at_ns = twin->take_ns = twin->turn->leased.steady_ns;
        item.position = twin->turn->position;
        agenda_add(&dry->steady, &item);
    } else if (twin->phase == life->last && life->outcome == EXPIRED) {
        item.run = run_touch;
        item.at_ns = life->expired.steady_ns;
        item.position = life->expired_position;
        agenda_add(&dry->steady, &item);
    }
}

static void wait_otherwise(struct dry *dry, struct twin *twin) {
    const struct phase *like = find_like(twin);
    bool by_wall = twin->row.base == ROW_WALL;
    uint64_t due_ns = twin->row.due_ms * NS_PER_MS;
    struct agenda *agenda = by_wall ? &dry->wall : &dry->steady;
    struct agenda_entry item = {.subject = twin, .version = twin->version, .position = UINT64_MAX};
    twin->turn = like != NULL ? like->turn : NULL;
    if (like != NULL) {
        uint64_t ready_ns = later(due_ns, by_wall ? twin->since.wall_ns : twin->since.steady_ns);
        bool was_wall = like->base == ROW_WALL;
        uint64_t was_ns = was_wall ? like->since.wall_ns : like->since.steady_ns;
        uint64_t leased_ns = was_wall ? like->turn->leased.wall_ns : like->turn->leased.steady_ns;
        uint64_t was_ready_ns = later(like->due_ms * NS_PER_MS, was_ns);
        item.run = run_take;
        item.at_ns = ready_ns + (leased_ns > was_ready_ns ? leased_ns - was_ready_ns : 0);
        twin->take_ns = item.at_ns;
        agenda_add(agenda, &item);
    }
    uint64_t expires_ms = row_expires_at(&twin->row);
    if (expires_ms >= UINT64_MAX / NS_PER_MS) return;
    item.run = run_touch;
    item.at_ns = expires_ms * NS_PER_MS;
    agenda_add(agenda, &item);
}

static void wait(struct dry *dry, struct twin *twin) {
    struct phase *phase = find_phase(twin);
    twin->waited_since = twin->since;
    twin->phase = phase;
    if (phase != NULL) twin->next = phase->next;
    if (phase != NULL)
        wait_as_recorded(dry, twin);
    else
        wait_otherwise(dry, twin);
}

/* ---- the end of a delivery */

static void run_settle(void *argument, const struct agenda_entry *item) {
    struct twin *twin = item->subject;
    if (twin->version == item->version) ask_one(argument, ASK_SETTLE, twin, twin->turn);
}

static void run_commit(void *argument, const struct agenda_entry *item) {
    struct twin *twin = item->subject;
    if (twin->version == item->version) dry_ask(argument, twin->turn->commit);
}

static void extend(struct dry *dry, const struct twin *twin, uint64_t lease_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Extend extend = TARRY__EXTEND__INIT;
    Tarry__Token token = TARRY__TOKEN__INIT;
    Tarry__Op *ops[] = {&op};
    struct life *lives[] = {NULL};
    op.op_case = TARRY__OP__OP_EXTEND;
    op.extend = &extend;
    extend.id = twin->row.id;
    extend.token = &token;
    token.epoch = twin->row.lease_epoch;
    token.position = twin->row.lease_position;
    extend.lease_ms = lease_ms > 0 ? lease_ms : 1;
    stage_commit(&dry->stage, ops, 1, false, lives);
}

static void run_extend(void *argument, const struct agenda_entry *item) {
    const struct twin *twin = item->subject;
    const struct extension *extension = item->detail;
    if (twin->version == item->version) extend(argument, twin, extension->lease_ms);
}

/* Extends the lease if the consumer asked for its own lease time. If the consumer disconnected in the record, ends the
 * lease with it. */
static void run_lease(void *argument, const struct agenda_entry *item) {
    struct dry *dry = argument;
    const struct twin *twin = item->subject;
    const struct turn *turn = twin->turn;
    if (twin->version != item->version) return;
    if (turn->lease_ms != 0) extend(dry, twin, turn->lease_ms);
    if (turn->verdict != VERDICT_LOST || twin->version != item->version) return;
    uint64_t held_ns = turn->settled_ns - turn->leased.steady_ns;
    bool is_same_moment = apart(item->at_ns, turn->leased.steady_ns) <= TOLERANCE_NS;
    uint64_t lost_ms = (is_same_moment ? turn->settled_ns : item->at_ns + held_ns) / NS_PER_MS;
    uint64_t now_ms = ms_up(dry->stage.now.steady_ns);
    if (lost_ms < twin->row.lease_deadline_ms) extend(dry, twin, lost_ms > now_ms ? lost_ms - now_ms : 0);
}

/* Returns the recorded delivery with that number. */
static const struct turn *turn_of_number(const struct twin *twin) {
    uint64_t number = 0;
    for (const struct phase *phase = twin->life->first; phase != NULL; phase = phase->next)
        if (phase->turn != NULL && number++ == twin->taken) return phase->turn;
    return NULL;
}

static void note_lateness(const struct dry *dry, struct twin *twin) {
    struct plan *plan = twin->life->plan;
    struct logical_time now = {dry->stage.now.steady_ns, dry->stage.now.wall_ns};
    const struct turn *recorded = turn_of_number(twin);
    struct phase waited = {.due_ms = twin->row.due_ms, .base = twin->row.base, .since = twin->waited_since};
    lateness_add(&plan->late, &waited, &now);
    plan->moved += recorded == NULL || apart(recorded->leased.steady_ns, now.steady_ns) > TOLERANCE_NS;
}

static void begin_turn(struct dry *dry, struct twin *twin) {
    const struct turn *turn = twin->turn;
    uint64_t now_ns = dry->stage.now.steady_ns;
    note_lateness(dry, twin);
    twin->taken++;
    dry->leased = twin;
    dry->assumed += twin->phase == NULL || turn == NULL;
    if (turn == NULL) return;
    bool is_same_moment = apart(now_ns, turn->leased.steady_ns) <= TOLERANCE_NS;
    struct agenda_entry item = {.at_ns = now_ns, .position = turn->position, .subject = twin, .version = twin->version};
    item.run = run_lease;
    if (turn->lease_ms != 0 || turn->verdict == VERDICT_LOST) agenda_add(&dry->steady, &item);
    item.position = is_same_moment ? turn->settled_position : UINT64_MAX;
    item.run = run_extend;
    for (const struct extension *extension = turn->extensions; extension != NULL; extension = extension->next) {
        item.at_ns = (is_same_moment ? turn->leased.steady_ns : now_ns) + extension->after_ns;
        item.detail = extension;
        agenda_add(&dry->steady, &item);
    }
    bool by_commit = turn->verdict == VERDICT_COMMIT && turn->commit != NULL;
    bool by_itself = turn->verdict == VERDICT_NONE || turn->verdict == VERDICT_RUNS_OUT ||
                     turn->verdict == VERDICT_LOST || turn->verdict == VERDICT_COMMIT;
    item.at_ns = is_same_moment ? turn->settled_ns : now_ns + (turn->settled_ns - turn->leased.steady_ns);
    item.run = by_commit ? run_commit : run_settle;
    if (by_commit || !by_itself) agenda_add(&dry->steady, &item);
}

static void run_beat(void *argument, const struct agenda_entry *item) {
    struct dry *dry = argument;
    struct workers *line = item->subject;
    if (line->session != item->version) return;
    uint64_t at_ns = workers_beat_ns(line);
    if (at_ns <= dry->stage.now.steady_ns) workers_beat(line);
    at_ns = workers_beat_ns(line);
    struct agenda_entry next = *item;
    next.at_ns = at_ns;
    if (at_ns != UINT64_MAX)
        agenda_add(&dry->steady, &next);
    else
        line->beats = 0;
}

static void leased(struct dry *dry, struct twin *twin) {
    struct workers *line = twin->life->plan->line;
    workers_leased(line, twin);
    if (line->beats != line->session) {
        line->beats = line->session;
        struct agenda_entry item = {.run = run_beat,
                                    .at_ns = workers_beat_ns(line),
                                    .position = UINT64_MAX,
                                    .subject = line,
                                    .version = line->session};
        if (item.at_ns != UINT64_MAX) agenda_add(&dry->steady, &item);
    }
    begin_turn(dry, twin);
}

void dry_on_twin(void *argument, struct twin *twin, Tarry__Cause cause) {
    struct dry *dry = argument;
    bool is_leased = !twin->ended && twin->row.state == ROW_LEASED;
    if (twin->holder != NULL && !is_leased) workers_lost(twin->holder, twin);
    if (twin->ended || twin->row.state == ROW_BURIED) return;
    if (cause == TARRY__CAUSE__CAUSE_LEASED)
        leased(dry, twin);
    else if (twin->row.state == ROW_WAITING)
        wait(dry, twin);
}
