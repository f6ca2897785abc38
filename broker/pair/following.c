/* following.c: copies the leader's log (R2, R7, R8), and reacts when the leader is silent (R6).
 *
 * Only the answer to the newest question counts. An older answer may disagree with commits that were acknowledged after
 * it. */
#include "pair_parts.h"

void following_begin(struct pair *pair, struct pair_effects *out) {
    pair->role = PAIR_FOLLOWING;
    pair->epoch = 0;
    pair->seen = 0;
    pair->impatient = pair->forcing = false;
    pair->word = 0;
    following_ask(pair, out);
}

static struct pair_message question_of(const struct pair *pair) {
    if (pair->role == PAIR_LEADING) {
        struct pair_message proposal = operator_proposal(pair);
        proposal.serial = pair->serial;
        return proposal;
    }
    return (struct pair_message){
        .kind = PAIR_FOLLOW,
        .floor = pair->hard_state.floor,
        .serial = pair->serial,
        .end = pair->durable,
        .stamp = pair->epoch == pair->hard_state.floor ? pair->seen : 0,
        .led = pair->hard_state.led,
        .alone = pair->hard_state.alone,
        .word = pair->wants ? PAIR_PROMOTE : 0,
    };
}

static void send(struct pair *pair, struct pair_effects *out) {
    pair->asked = question_of(pair);
    pair_push(out, PAIR_ASK)->message = pair->asked;
}

void following_ask(struct pair *pair, struct pair_effects *out) {
    /* The question is sent when the write of the hard state or the cut of the log has ended. */
    if (pair->writing_state || pair->cutting) return;
    pair->serial++;
    send(pair, out);
}

bool pair_asks_the_same(const struct pair *pair) {
    const struct pair_message now = question_of(pair), *asked = &pair->asked;
    bool asks = pair->role == PAIR_FOLLOWING || (pair->role == PAIR_LEADING && pair->by_operator);
    return asks && asked->kind == now.kind && asked->serial == now.serial && asked->floor == now.floor &&
           asked->epoch == now.epoch && asked->end == now.end && asked->stamp == now.stamp && asked->led == now.led &&
           asked->alone == now.alone && asked->word == now.word;
}

/* Asks again after a silence. An unchanged question keeps its serial, because its answer may be on its way. If each
 * silence changed the serial, a follower would never accept an answer that is slower than the timeout. */
void following_remind(struct pair *pair, struct pair_effects *out) {
    /* The question is sent when the write of the hard state or the cut of the log has ended. */
    if (pair->writing_state || pair->cutting) return;
    if (!pair_asks_the_same(pair)) pair->serial++;
    send(pair, out);
}

static bool is_news(const struct pair *pair, const struct pair_message *answer) {
    return pair->role == PAIR_FOLLOWING && answer->serial == pair->serial && !pair->writing_state && !pair->cutting;
}

bool pair_takes(const struct pair *pair, const struct pair_message *answer) {
    return is_news(pair, answer) && answer->kind == PAIR_FRAMES && answer->epoch == pair->hard_state.floor;
}

/* Message for pair_say_epoch. The log shows it after "the other node leads epoch N: ". */
static const char both_served_alone[] =
    "this node has served alone, and so has the other one. Each may have acknowledged changes that the other lacks, so "
    "this node does not follow. The changes that it acknowledged alone are only on its disk. Stop this node, move its "
    "data directory to another place (tarryd --inspect reads it there), and start this node with an empty directory "
    "and --follow";

static void promise(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    if (pair->by_operator && pair->hard_state.alone) {
        pair_say_epoch(both_served_alone, answer->epoch, out);
        return;
    }
    if (answer->epoch <= pair->hard_state.floor)
        return; /* R7: never promise an epoch at or below an earlier promise or fence */
    pair->hard_state.floor = answer->epoch;
    bool is_recorded = !pair->by_operator;
    if (is_recorded && answer->epoch > pair->hard_state.recorded) pair->hard_state.recorded = answer->epoch;
    /* The other node now has another disk, and this node was in sync only with the former disk. So this node is no
     * longer in sync. */
    if (answer->another) pair->hard_state.in_sync = false;
    pair->word = answer->word;
    pair->adopts = true;
    pair_write_state(pair, out);
}

void following_durable(struct pair *pair, struct pair_effects *out) {
    if (!pair->cutting) return; /* the log has become durable without a cut; the next question reports its new end */
    pair->cutting = false;
    following_ask(pair, out);
}

static void end_ahead(struct pair *pair, struct pair_effects *out) {
    pair_end(pair,
             "the leader lacks acknowledged changes that this node has: the leader's data directory was cut or "
             "restored, or the leader was promoted with --force. Stop the leader and start the node that has the "
             "newest data; or, if the changes that only this node has may be lost, move this node's data directory "
             "away and start this node with an empty one and --follow",
             out);
}

/* Cuts this node's log at the position that the leader's answer names. The leader computed the position from the epochs
 * of both logs, which is right only if each epoch had one leader. If two nodes led the same epoch, the logs would still
 * differ after the cut, and the leader would request the same cut again. So this run ends without a cut, because the
 * frames to be cut off may have been acknowledged. */
static void following_cut(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    bool is_twice = answer->differs || answer->end >= pair->durable;
    if (is_twice) {
        pair_end(pair,
                 "the leader's log and this node's log differ within one epoch, so two nodes have led the same epoch: "
                 "the coordinator's record or a data directory was lost or replaced by an older one. This node has "
                 "deleted nothing. Compare the two directories with 'tarry verify --against', choose the one to keep, "
                 "and start the other node with an empty directory and --follow",
                 out);
    } else if (answer->end < pair->committed) {
        end_ahead(pair, out);
    } else {
        pair->cutting = true;
        pair_push(out, PAIR_CUT)->end = answer->end;
    }
}

/* R8: ends this run, so that the next one fetches a snapshot. If this node has committed frames at or behind the
 * beginning of the leader's log, the leader lacks these frames. A snapshot would then lose them, so end_ahead reports
 * an error instead. */
static void following_fetch(struct pair *pair, uint64_t leader_start, struct pair_effects *out) {
    if (leader_start <= pair->committed) {
        end_ahead(pair, out);
        return;
    }
    pair->role = PAIR_ENDED;
    if (pair->by_operator && pair->hard_state.in_sync) {
        /* in_sync must be false on disk before the snapshot is fetched: if the snapshot never arrives, a later
         * PAIR_ASSERT would rely on a wrong in_sync. */
        pair->hard_state.in_sync = false;
        pair_write_state(pair, out);
    }
    pair_push(out, PAIR_FETCH)->end = pair->committed;
}

static void take_frames(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    pair->epoch = answer->epoch;
    pair->seen = answer->stamp;
    if (answer->committed > pair->told) pair->told = answer->committed;
    uint64_t committed = answer->committed < pair->durable ? answer->committed : pair->durable;
    if (committed > pair->committed) pair->committed = committed;
    if (pair->by_operator && answer->in_sync != pair->hard_state.in_sync) {
        pair->hard_state.in_sync = answer->in_sync;
        pair_write_state(pair, out);
    }
    following_ask(pair, out);
}

/* Takes part in a planned switch-over. The leader accepts no writes until this node leads, or until this node has been
 * silent for the timeout. */
static void take_over(struct pair *pair, struct pair_effects *out) {
    pair->wants = false;
    if (pair->by_operator) {
        operator_propose(pair, out);
    } else {
        pair->impatient = true;
        pair->heeds = false;
        pair_read(pair, out);
    }
}

void following_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    if (!is_news(pair, answer)) return;
    bool leads = answer->kind != PAIR_NOT_LEADING || answer->epoch != 0;
    if (pair->asserting != 0 && leads) {
        operator_refuse(pair, answer->epoch, out);
        if (answer->kind == PAIR_PROMISE && pair->hard_state.alone)
            return; /* operator_refuse has already told the operator why this node does not lead */
    }
    if (answer->kind == PAIR_NOT_LEADING) {
        if (!pair->by_operator || answer->epoch != 0)
            return;      /* the leader has dropped the question, so this node asks again later */
        pair->epoch = 0; /* this node follows no leader */
        pair->seen = 0;
        if (pair->asserting == 0)
            operator_met(pair, answer, out);
        else
            operator_go_on(pair, answer, out);
        return;
    }
    pair->impatient = pair->forcing = false;
    if (answer->kind == PAIR_PROMISE) {
        promise(pair, answer, out);
        return;
    }
    if (answer->epoch != pair->hard_state.floor) return;
    if (answer->kind == PAIR_FRAMES)
        take_frames(pair, answer, out);
    else if (answer->kind == PAIR_CUT_TO)
        following_cut(pair, answer, out);
    else if (answer->kind == PAIR_RETIRED)
        following_fetch(pair, answer->end, out);
    else if (answer->kind == PAIR_TAKE_OVER)
        take_over(pair, out);
}

static bool may_claim(const struct pair *pair) {
    bool is_member = (pair->record.in_sync & 1u << pair->self) != 0;
    return is_member && pair->durable >= pair->record.high_water;
}

/* Returns whether PAIR_FORCE may claim. False: a node has claimed a new epoch since the operator's command, so the
 * other node is not stopped. */
static bool may_force(const struct pair *pair) {
    return pair->forcing && pair->record.epoch == pair->forced_epoch;
}

/* Handles a record that was read. A leader that is present at the coordinator is running; only its link to this node is
 * cut or slow. So that leader continues alone, and this node waits (F-31c). Presence is only a hint: the
 * compare-and-set decides. */
void following_record(struct pair *pair, bool is_leader_present, struct pair_effects *out) {
    if (pair->impatient && pair->heeds && !pair->asks_presence) {
        pair_read(pair, out); /* the last read of the record did not ask whether the leader is present at the
                                 coordinator, so read again */
        return;
    }
    bool is_impatient = pair->impatient && !(pair->heeds && is_leader_present);
    bool is_forced = may_force(pair);
    if (pair->forcing && !is_forced)
        pair_say("the other node is not stopped: it has become the leader in the meantime. Nothing was changed", out);
    pair->impatient = pair->forcing = false;
    if (pair->version == 0 || pair->writing_state || pair->cutting)
        return; /* the record is read again when PAIR_SILENT is reported again */
    if (pair->record.leader == pair->self)
        pair_consider(pair, out); /* a claim of an earlier run has succeeded, although its outcome was unknown */
    else if (is_impatient && is_forced)
        candidacy_by_force(pair, out);
    else if (is_impatient && may_claim(pair))
        candidacy_begin(pair, out);
    else
        following_remind(pair, out);
}

void following_silent(struct pair *pair, bool gone, struct pair_effects *out) {
    if (!pair->by_operator) {
        pair->heeds = !gone && (pair->heeds || !pair->impatient); /* an operator's command, or the knowledge that the
                                                                     leader is dead, has priority over presence */
        pair->impatient = true;
        pair_read(pair, out);
    }
    following_remind(pair, out);
}
