/* operator.c: a pair without a coordinator; and an operator's commands with or without a coordinator.
 *
 *   starts ──► FOLLOWING, quiet ── the other does not lead either, and this node claims ─► FENCING ──► CANDIDATE
 *                 ▲    │                                                                  hard state    proposes
 *                 │    └── an operator asserts ─► FENCING ─► LEADING, alone                                │
 *                 └── this node has promised a later epoch ◄───────────────────────────────────────────────┤
 *                                              LEADING ◄── the node that has promised that epoch asks ─────┘
 *
 * Node 0 claims even epochs, and node 1 claims odd ones, each epoch once. A node promises an epoch by making the epoch
 * its durable floor. The candidate learns of the promise by the `floor` of a PAIR_FOLLOW. Only the candidate chooses
 * this epoch number, so the other node cannot have this floor by chance.
 *
 * Why no acknowledged commit is lost: a node whose hard state does not say `alone` has acknowledged nothing that the
 * other node lacks. A node that has served alone never promises. So a node that receives a promise has all acknowledged
 * commits. A node that leads by an operator's assertion also has them, if the other node has really not served alone.
 * The leader sets `alone` before it stops waiting for the follower. It clears `alone` only when it waits for the
 * follower again and the follower has the whole log.
 *
 * This reasoning holds only while both nodes keep their disks. If the other node returns with a new, empty disk, its
 * former disk may have acknowledged commits alone. This node then neither promises nor claims until an operator decides
 * (F-29).
 *
 * Without an operator's command, the leader never stops waiting for its follower, and no node is promoted. No decision
 * depends on a clock. */
#include "pair_parts.h"

/* Returns the next epoch that this node may claim, above each epoch that it knows. */
static uint32_t next_epoch(const struct pair *pair) {
    uint32_t epoch = (pair->hard_state.floor > pair->heard ? pair->hard_state.floor : pair->heard) + 1;
    if (epoch % 2 != pair->self) epoch++;
    return epoch;
}

static void fence(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    pair->asserting = 0;
    pair->role = PAIR_FENCING;
    pair->word = word;
    pair->epoch = next_epoch(pair);
    pair->hard_state.led = pair->hard_state.floor = pair->epoch;
    pair_write_state(pair, out);
}

struct pair_message operator_proposal(const struct pair *pair) {
    return (struct pair_message){
        .kind = PAIR_PROPOSE,
        .epoch = pair->epoch,
        .floor = pair->hard_state.floor,
        .serial = pair->serial,
        .led = pair->hard_state.led,
        .alone = pair->hard_state.alone,
    };
}

static void ask_promise(struct pair *pair, struct pair_effects *out) {
    pair->serial++;
    pair_push(out, PAIR_ASK)->message = operator_proposal(pair);
}

/* Sends a leader's proposal to the silent node. An operator may have made the other node lead while this node was
 * paused or cut off. Both nodes would then lead, and neither would ask, because a leader waits for its follower's
 * questions. The proposal tells the other node this node's epoch; the answer contains the other node's epoch. */
void operator_claim(struct pair *pair, struct pair_effects *out) {
    following_remind(pair, out);
}

/* Returns whether the other node ends this leader's epoch. If this node has not served alone, the other node has all
 * acknowledged commits and may have more, so this leader stops. If both nodes have served alone, neither can follow.
 * Then this leader stops only for a proposal, because only a leader or a candidate sends one. If it also stopped for
 * other messages, no node might lead. */
bool operator_is_deposed(const struct pair *pair, const struct pair_message *other) {
    bool both_alone = other->alone && pair->hard_state.alone;
    return !both_alone || other->kind == PAIR_PROPOSE;
}

void operator_propose(struct pair *pair, struct pair_effects *out) {
    /* This node has asked the other node for the operator's command, and the answer may still arrive. */
    if (pair->role == PAIR_CANDIDATE && pair->asserting != 0) return;
    if (pair->role == PAIR_CANDIDATE)
        ask_promise(pair, out);
    else if (!pair->writing_state && !pair->cutting)
        fence(pair, 0, out);
}

/* Makes this node lead by an assertion. It serves alone, so the hard state says `alone` first. */
void operator_assert(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    pair->hard_state.alone = true;
    fence(pair, word, out);
}

void operator_fenced(struct pair *pair, struct pair_effects *out) {
    if (pair->word != 0)
        leading_begin(pair, out);
    else
        ask_promise(pair, out);
}

static const char new_disk[] =
    "the other node has a different disk than the one that this node was in sync with, and only the former disk may "
    "have all acknowledged changes, so no node leads. If it has not served alone, 'tarry promote --peer-is-stopped' at "
    "this node makes this node the leader without loss. Otherwise bring the former disk back, or lose its changes with "
    "'tarry promote --force' at this node";
static const char new_disk_behind[] =
    "the other node has a different disk than the one that this node followed, and this node was not in sync with the "
    "former disk: this node may lack acknowledged changes, so no node leads. Bring the former disk back, or accept the "
    "loss of the changes that only it has with 'tarry promote --force' at this node";
static const char stranger[] =
    "the other node does not know this node's disk, and does not follow it. 'tarry status' for the other node says "
    "why; if this node has the newest data, 'tarry promote --peer-is-stopped' at this node makes it the leader";
static const char stranger_behind[] = "the other node does not know this node's disk, and does not follow it; this "
                                      "node may lack acknowledged changes. 'tarry status' for the other node says why";

/* Returns whether the other node has a new disk, which may lack acknowledged commits. This node then does not rely on
 * that node's promise. A node that has served alone needs no promise, because it has all commits. */
static bool is_unproved(const struct pair *pair, const struct pair_message *other) {
    return other->another && !pair->hard_state.alone;
}

/* Decides which of two nodes that do not lead claims: the one that has served alone; otherwise the one whose operator
 * wants it; otherwise the one that claimed last. The two nodes come to the same result. */
static bool should_claim(const struct pair *pair, const struct pair_message *other) {
    if (pair->hard_state.alone || other->alone) return !other->alone;
    if (pair->wants || other->word == PAIR_PROMOTE) return pair->wants;
    return pair->hard_state.led > other->led || (pair->hard_state.led == other->led && pair->self == 0);
}

void operator_met(struct pair *pair, const struct pair_message *other, struct pair_effects *out) {
    if (other->floor > pair->heard) pair->heard = other->floor;
    if (is_unproved(pair, other))
        pair_say(pair->hard_state.in_sync ? new_disk : new_disk_behind, out);
    else if (other->stranger)
        pair_say(pair->hard_state.in_sync || pair->hard_state.alone ? stranger : stranger_behind, out);
    else if (should_claim(pair, other))
        operator_propose(pair, out);
    else if (pair->hard_state.alone && other->alone)
        pair_say("both nodes have served alone, or had a coordinator: each may have acknowledged changes that the "
                 "other lacks, so neither leads or follows. Choose the node whose data to keep; stop the other one, "
                 "move its data directory to another place, and start it with an empty directory and --follow",
                 out);
}

static void answer_hard_state(const struct pair *pair, const struct pair_message *question, struct pair_effects *out) {
    pair_push(out, PAIR_ANSWER)->message = (struct pair_message){
        .kind = PAIR_NOT_LEADING,
        .serial = question->serial,
        .floor = pair->hard_state.floor,
        .led = pair->hard_state.led,
        .alone = pair->hard_state.alone,
        .stranger = is_unproved(pair, question),
        .word = pair->wants ? PAIR_PROMOTE : 0,
    };
}

/* Promises the proposed epoch if possible. This node's next PAIR_FOLLOW answers the proposal, once the promise is
 * durable. */
static void consider_promise(struct pair *pair, const struct pair_message *proposal, struct pair_effects *out) {
    bool is_quiet = pair->role == PAIR_FOLLOWING || pair->role == PAIR_CANDIDATE;
    if (!is_quiet || pair->writing_state || pair->cutting || pair->hard_state.alone) return;
    if (is_unproved(pair, proposal)) return;
    if (proposal->epoch < pair->hard_state.floor ||
        (proposal->epoch == pair->hard_state.floor && pair->role == PAIR_CANDIDATE))
        return;
    bool is_new = proposal->epoch > pair->hard_state.floor;
    if (pair->asserting != 0) operator_refuse(pair, proposal->epoch, out);
    pair->role = PAIR_FOLLOWING;
    pair->epoch = 0;
    pair->seen = 0;
    pair->hard_state.floor = proposal->epoch;
    if (is_new)
        pair_write_state(pair, out);
    else
        following_ask(pair, out);
}

/* Leads, because the other node has promised and has not served alone. So this node has all acknowledged commits. */
static void become_leader(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    leading_begin(pair, out);
    if (!pair->hard_state.alone && !pair->hard_state.in_sync) {
        pair->hard_state.in_sync = true;
        pair_write_state(pair, out);
    }
    leading_asked(pair, event, out);
}

void operator_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    const struct pair_message *question = &event->message;
    bool is_promise = question->floor == pair->epoch;
    bool is_proved = is_promise && !is_unproved(pair, question);
    if (pair->role == PAIR_CANDIDATE && question->kind == PAIR_FOLLOW && is_proved) {
        become_leader(pair, event, out);
        return;
    }
    answer_hard_state(pair, question, out);
    /* A question may be old, so only the answer to this node's newest question decides which node claims. */
    if (question->floor > pair->heard) pair->heard = question->floor;
    if (question->kind == PAIR_PROPOSE)
        consider_promise(pair, question, out);
    else if (pair->role == PAIR_CANDIDATE && question->floor > pair->epoch)
        following_begin(pair, out); /* the other node has a higher floor, so it can never promise this epoch */
}

void operator_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    if (answer->serial != pair->serial || pair->writing_state) return;
    if (pair->role == PAIR_YIELDING) {
        pair_end(pair, "this node has handed over, and restarts as the follower", out);
    } else if (pair->role == PAIR_CANDIDATE) {
        if (answer->floor > pair->heard) pair->heard = answer->floor;
        if (pair->asserting != 0 && answer->kind != PAIR_NOT_LEADING) {
            operator_refuse(pair, answer->epoch, out);
        } else if (pair->asserting != 0) {
            operator_go_on(pair, answer, out);
            return;
        }
        bool never = answer->alone || answer->floor > pair->epoch || answer->stranger || is_unproved(pair, answer);
        if (answer->kind != PAIR_NOT_LEADING || never)
            following_begin(pair, out); /* the other node will not promise this epoch */
    }
}

/* ---- an operator's commands */

/* Message for pair_say_epoch. The log shows it after "the other node leads epoch N: ". */
static const char refused[] =
    "the other node answers, so it is not stopped, and two primaries would each acknowledge changes that the other "
    "lacks. Nothing was changed. 'tarry status' says what each node needs; 'tarry promote' without --peer-is-stopped "
    "or --force switches over and loses nothing";
static const char refused_new_disk[] =
    "the other node answers, so it is not stopped; it leads and does not accept this node's disk. Nothing was changed. "
    "'tarry promote --peer-is-stopped' at the other node makes it accept this disk";

void operator_refuse(struct pair *pair, uint32_t epoch, struct pair_effects *out) {
    pair->asserting = 0;
    pair_say_epoch(epoch != 0 ? refused : refused_new_disk, epoch, out);
}

static const char has_served_alone[] =
    "the other node answers, and has served alone: it may have acknowledged changes that this node lacks. Nothing was "
    "changed. If these changes may be lost, stop the other node and use 'tarry promote --force' at this node";

void operator_go_on(struct pair *pair, const struct pair_message *other, struct pair_effects *out) {
    enum pair_word word = pair->asserting;
    /* While the hard state is written or the log is cut, the command waits; operator_go_on is called again later. */
    if (word == 0 || pair->writing_state || pair->cutting) return;
    pair->asserting = 0;
    if (other != NULL && other->alone && word != PAIR_FORCE) {
        pair_say(has_served_alone, out);
        return;
    }
    if (word == PAIR_SOLO)
        leading_solo(pair, out);
    else
        operator_assert(pair, word, out);
}

/* Sends again the question that a waiting command has sent. It keeps the serial, so that the timeout of the answer does
 * not start again. Otherwise an operator who repeats the command within the timeout would keep this node from leading
 * for ever, if the other node cannot be reached. */
static void remind(struct pair *pair, struct pair_effects *out) {
    if (pair->role == PAIR_CANDIDATE)
        pair_push(out, PAIR_ASK)->message = operator_proposal(pair);
    else
        following_remind(pair, out);
}

/* Asks the other node before this node serves alone, because the operator may not know that the other node already
 * leads. */
static void assert_after_asking(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    if (pair->writing_state) {
        pair_say("this node is writing its state; nothing was changed: try again", out);
        return;
    }
    bool is_repeated = pair->asserting != 0;
    pair->asserting = word;
    if (is_repeated)
        remind(pair, out);
    else if (pair->role == PAIR_CANDIDATE)
        ask_promise(pair, out);
    else
        following_ask(pair, out);
}

static void told_to_lead(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    bool is_quiet = pair->role == PAIR_FOLLOWING || (pair->by_operator && pair->role == PAIR_CANDIDATE);
    if (pair->role == PAIR_LOOKING) {
        pair_say("the coordinator does not answer, and only the coordinator's record says which node leads: nothing "
                 "was changed. 'tarry status' says what is wrong with the coordinator",
                 out);
    } else if (!is_quiet || pair->writing_state || pair->cutting) {
        pair_say(
            "this node already leads, or is becoming the leader: nothing was changed. 'tarry status' shows its role",
            out);
    } else if (word == PAIR_PROMOTE) {
        pair->wants = true;
        if (pair->role == PAIR_FOLLOWING) following_ask(pair, out);
    } else if (!pair->by_operator) {
        pair->forcing = word == PAIR_FORCE;
        pair->forced_epoch = pair->record.epoch;
        /* Read the record, which shows the nodes that are in sync, and claim if this node is one of them. */
        pair->impatient = true;
        pair->heeds = false;
        pair_read(pair, out);
    } else if (word == PAIR_ASSERT && !pair->hard_state.in_sync && !pair->hard_state.alone) {
        pair_say("this node was not in sync when it last heard from the leader, so it may lack acknowledged changes: "
                 "nothing was changed. Start the other node; or accept the loss of the changes that only the other "
                 "node has with 'tarry promote --force'",
                 out);
    } else {
        assert_after_asking(pair, word, out);
    }
}

/* Gives up the commits that this node acknowledged alone: the log may be cut from now on. The caller discards the
 * index, which may contain them. */
static void told_to_yield(struct pair *pair, struct pair_effects *out) {
    if (!pair->by_operator || pair->role != PAIR_FOLLOWING || pair->writing_state || pair->cutting ||
        !pair->hard_state.alone) {
        pair_say("nothing was changed, because this node leads or follows, or has not served alone", out);
        return;
    }
    pair->hard_state.alone = pair->hard_state.in_sync = false;
    pair->committed = 0;
    pair_write_state(pair, out);
}

void operator_told(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    bool leads = pair->role == PAIR_LEADING;
    switch (word) {
    case PAIR_PROMOTE:
    case PAIR_ASSERT:
    case PAIR_FORCE:
        told_to_lead(pair, word, out);
        break;
    case PAIR_YIELD:
        told_to_yield(pair, out);
        break;
    case PAIR_SOLO:
    case PAIR_HAND_OVER:
    case PAIR_RESUME:
        if (!leads)
            pair_say("this node does not lead, so nothing was changed: 'tarry status' says which node leads", out);
        else if (word == PAIR_SOLO && pair->by_operator)
            assert_after_asking(pair, word, out);
        else if (word == PAIR_SOLO)
            leading_solo(pair, out);
        else if (word == PAIR_HAND_OVER)
            handover_begin(pair, out);
        else
            handover_give_up(pair, out);
        break;
    }
}
