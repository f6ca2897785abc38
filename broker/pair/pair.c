/* pair.c: see pair.h. The code that all roles share: the start, the coordinator's answers, and the order of effects.
 *
 *   LOOKING ─ the record names the other ─► FOLLOWING ─ the other is silent, and this node is in sync ─┐
 *      │                                                                                               ▼
 *      └─ the record names this node, or there is no record ──────────────────────────► FENCING ► CANDIDATE ► LEADING
 *
 * candidacy.c has the steps from FENCING to LEADING; leading.c has the role LEADING, and following.c the role
 * FOLLOWING. Without a coordinator (operator.c) the role LOOKING is not used: a node starts as a follower that has no
 * answer from a leader yet. */
#include "pair.h"

#include <assert.h>

#include "pair_parts.h"

struct pair_effect *pair_push(struct pair_effects *out, enum pair_effect_kind kind) {
    assert(out->count < PAIR_EFFECTS_MAX);
    struct pair_effect *effect = &out->items[out->count++];
    *effect = (struct pair_effect){.kind = kind};
    return effect;
}

void pair_end(struct pair *pair, const char *reason, struct pair_effects *out) {
    pair->role = PAIR_ENDED;
    pair->asserting = 0;
    pair_push(out, PAIR_END)->reason = reason;
}

void pair_say(const char *sentence, struct pair_effects *out) {
    pair_push(out, PAIR_SAY)->reason = sentence;
}

void pair_say_epoch(const char *sentence, uint32_t epoch, struct pair_effects *out) {
    struct pair_effect *effect = pair_push(out, PAIR_SAY);
    effect->reason = sentence;
    effect->epoch = epoch;
}

void pair_write_state(struct pair *pair, struct pair_effects *out) {
    assert(!pair->writing_state);
    pair->writing_state = true;
    pair_push(out, PAIR_WRITE_STATE);
}

void pair_read(struct pair *pair, struct pair_effects *out) {
    if (pair->reading || pair->swapping) return; /* a read or a compare-and-set is already under way */
    pair->reading = true;
    pair->asks_presence = pair->impatient && pair->heeds;
    pair_push(out, PAIR_READ)->presence = pair->asks_presence;
}

void pair_swap(struct pair *pair, enum pair_change change, const struct pair_record *record, struct pair_effects *out) {
    assert(!pair->reading && !pair->swapping);
    pair->change = change;
    pair->swapping = true;
    struct pair_effect *effect = pair_push(out, PAIR_SWAP);
    effect->version = pair->version;
    effect->record = *record;
}

bool pair_is_mine(const struct pair *pair) {
    return pair->version != 0 && pair->record.epoch == pair->epoch && pair->record.leader == pair->self &&
           pair->record.run == pair->run;
}

/* Chooses the role of a node that neither leads nor follows, from the record. */
void pair_consider(struct pair *pair, struct pair_effects *out) {
    pair->role = PAIR_LOOKING;
    if (pair->version == 0 ? pair->founds : pair->record.leader == pair->self)
        candidacy_begin(pair, out);
    else if (pair->version != 0)
        following_begin(pair, out);
}

void pair_start(struct pair *pair, const struct pair_hard_state *hard_state, uint64_t end, struct pair_effects *out) {
    pair->role = PAIR_LOOKING;
    pair->hard_state = *hard_state;
    pair->durable = end;
    if (!pair->by_operator)
        pair_read(pair, out);
    else
        following_begin(pair, out);
}

bool pair_is_lost(const struct pair *pair, const struct pair_event *event) {
    if (event->kind != PAIR_RECORD_READ || event->outcome != PAIR_DONE) return false;
    if (event->version == 0) return pair->hard_state.recorded > 0;
    return event->record.epoch < pair->hard_state.recorded;
}

static const char no_record[] = "the coordinator no longer has this pair's record: somebody deleted it, or the option "
                                "coordinator names a different path. Without the record no node takes over. Restore "
                                "it; or run 'tarry pair record --write' for the node that leads or led last";
static const char older_record[] =
    "the coordinator's record is older than the one that this node has seen: the coordinator was restored from a "
    "backup, or the record belongs to another pair. No node takes over with it. Run 'tarry pair record --write' for "
    "the node that leads or led last";

/* Handles a read that found no record, or a record older than one that this node has seen. This node neither fences nor
 * claims by such a read. A node that does not know the leader follows the other node, which may lead. */
static void record_lost(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    pair->impatient = pair->forcing = false;
    if (pair->role == PAIR_LOOKING) {
        following_begin(pair, out);
    } else if (pair->role != PAIR_FOLLOWING) {
        pair_read(pair, out);
        return;
    }
    pair_say(event->version == 0 ? no_record : older_record, out);
}

/* Notes the newest epoch seen in a record. Returns whether it has changed. The next write of the hard state makes it
 * durable, so that a later run does not believe an older record. */
static bool remember(struct pair *pair, uint32_t epoch) {
    if (epoch <= pair->hard_state.recorded) return false;
    pair->hard_state.recorded = epoch;
    return true;
}

static void record_read(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    pair->reading = false;
    if (pair->role == PAIR_ENDED) return;
    if (event->outcome == PAIR_UNKNOWN || event->version < pair->version) {
        /* The result is unknown, or the version is older than that of a record which this node has seen (R4). */
        pair_read(pair, out);
        return;
    }
    if (pair_is_lost(pair, event)) {
        record_lost(pair, event, out);
        return;
    }
    bool is_newer = event->version > pair->version;
    pair->version = event->version;
    pair->record = event->record;
    if (!pair_is_mine(pair) && remember(pair, event->record.epoch) && !pair->writing_state) pair_write_state(pair, out);
    switch (pair->role) {
    case PAIR_LOOKING:
        pair_consider(pair, out);
        break;
    case PAIR_FOLLOWING:
        following_record(pair, event->present, out);
        break;
    case PAIR_CANDIDATE:
        candidacy_record(pair, is_newer, out);
        break;
    case PAIR_LEADING:
        leading_record(pair, is_newer, out);
        break;
    case PAIR_FENCING:
    case PAIR_ENDED:
    case PAIR_YIELDING:
        break;
    }
}

/* Handles a claim that has succeeded. The hard state must note it durably before this node writes in the epoch, because
 * a later run must know of it. */
void pair_claimed(struct pair *pair, struct pair_effects *out) {
    if (pair->writing_state) return; /* pair_claimed is called again when the write of the hard state has ended */
    if (remember(pair, pair->epoch))
        pair_write_state(pair, out);
    else
        leading_begin(pair, out);
}

static void record_swapped(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    pair->swapping = false;
    if (pair->role == PAIR_ENDED) return;
    if (event->outcome != PAIR_DONE) {
        pair_read(pair, out); /* the compare-and-set was refused, or its outcome is unknown: read the record to learn
                                 the outcome (R4, R5, R6) */
        return;
    }
    pair->version = event->version;
    pair->record = event->record;
    if (pair->role == PAIR_CANDIDATE)
        pair_claimed(pair, out);
    else if (pair->role == PAIR_LEADING)
        leading_changed(pair, out);
}

static void noted(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    pair->writing_state = pair->adopts = false;
    pair->durable = event->end;
    if (pair->role == PAIR_FOLLOWING || pair->role == PAIR_YIELDING)
        following_ask(pair, out);
    else if (pair->role == PAIR_FENCING)
        candidacy_fenced(pair, out);
    else if (pair->role == PAIR_CANDIDATE && !pair->by_operator && pair_is_mine(pair))
        pair_claimed(pair, out);
    else if (pair->role == PAIR_LEADING && pair->by_operator)
        leading_changed(pair, out);
}

static void durable(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    pair->durable = event->end;
    if (pair->role == PAIR_LEADING) leading_advance(pair, out);
    if (pair->role == PAIR_FOLLOWING) following_durable(pair, out);
}

static void asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    if (pair->role == PAIR_LEADING)
        leading_asked(pair, event, out);
    else if (pair->by_operator)
        operator_asked(pair, event, out);
    else
        pair_push(out, PAIR_ANSWER)->message =
            (struct pair_message){.kind = PAIR_NOT_LEADING, .serial = event->message.serial};
}

static void answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    if (pair->role == PAIR_FOLLOWING)
        following_answered(pair, answer, out);
    else if (pair->by_operator && pair->role == PAIR_LEADING)
        leading_answered(pair, answer, out);
    else if (pair->by_operator)
        operator_answered(pair, answer, out);
}

static void silent(struct pair *pair, bool gone, struct pair_effects *out) {
    switch (pair->role) {
    case PAIR_FOLLOWING:
        following_silent(pair, gone, out);
        break;
    case PAIR_LEADING:
        leading_silent(pair, out);
        break;
    case PAIR_LOOKING:
    case PAIR_CANDIDATE:
        if (pair->by_operator)
            operator_propose(pair, out); /* propose again */
        else
            pair_read(pair, out);
        break;
    case PAIR_YIELDING:
        if (!pair->writing_state) pair_end(pair, "this node has handed over, and restarts as the follower", out);
        break;
    case PAIR_FENCING:
    case PAIR_ENDED:
        break;
    }
}

static void unanswered(struct pair *pair, bool refused_by_leader, struct pair_effects *out) {
    if (pair->asserting == 0) return;
    if (refused_by_leader)
        operator_refuse(pair, 0, out);
    else
        operator_go_on(pair, NULL, out);
}

static void changed(struct pair *pair, struct pair_effects *out) {
    /* A node that leads no more, or that makes its fence durable, does not need the record now. */
    bool is_idle = pair->role == PAIR_ENDED || pair->role == PAIR_FENCING;
    if (pair->by_operator || is_idle) return;
    pair->reads_again = pair->reading;
    pair_read(pair, out);
}

/* Reads the record again if it changed during the last read. The watch reports each change only once, and the last read
 * may have missed it. */
static void read_again(struct pair *pair, struct pair_effects *out) {
    bool again = pair->reads_again && !pair->reading;
    if (!again) return;
    pair->reads_again = false;
    if (pair->role != PAIR_ENDED && pair->role != PAIR_FENCING) pair_read(pair, out);
}

bool pair_hands_over(const struct pair *pair) {
    return pair->role == PAIR_LEADING && handover_is_ready(pair);
}

bool pair_is_in_sync(const struct pair *pair) {
    if (pair->role == PAIR_LEADING) return pair->counted && leading_has_member(pair);
    return pair->by_operator ? pair->hard_state.in_sync : (pair->record.in_sync & 1u << pair->self) != 0;
}

void pair_step(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    switch (event->kind) {
    case PAIR_RECORD_READ:
        record_read(pair, event, out);
        read_again(pair, out);
        break;
    case PAIR_RECORD_SWAPPED:
        record_swapped(pair, event, out);
        break;
    case PAIR_STATE_WRITTEN:
        noted(pair, event, out);
        break;
    case PAIR_DURABLE:
        durable(pair, event, out);
        break;
    case PAIR_ASKED:
        asked(pair, event, out);
        break;
    case PAIR_ANSWERED:
        answered(pair, &event->message, out);
        break;
    case PAIR_SILENT:
        silent(pair, event->gone, out);
        break;
    case PAIR_TOLD:
        operator_told(pair, event->word, out);
        break;
    case PAIR_STOPPED:
        handover_stopped(pair, event->end, out);
        break;
    case PAIR_CHANGED:
        changed(pair, out);
        break;
    case PAIR_UNANSWERED:
        unanswered(pair, event->present, out);
        break;
    }
}
