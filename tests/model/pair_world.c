/* pair_world.c: see pair_world.h. */
#include "pair_world.h"

#include <string.h>

#include "must.h"
#include "past.h"

const char *const action_names[ACTIONS] = {"starts",
                                           "dies; what it wrote is there",
                                           "dies; what it had not synced is lost",
                                           "appends",
                                           "syncs",
                                           "gets the question",
                                           "gets the question, which comes again",
                                           "gets the question, and has little to wait for",
                                           "gets the answer",
                                           "gets the answer, which comes again",
                                           "has its note durable",
                                           "has its request done by the coordinator",
                                           "is told what the record was before",
                                           "hears the coordinator's answer",
                                           "hears the coordinator's answer, and that the leader is present",
                                           "never hears the coordinator's answer",
                                           "has an old request done by the coordinator",
                                           "hears nothing for long",
                                           "finds nobody where the other was",
                                           "is asked a question",
                                           "answers the question",
                                           "is told that the record has changed",
                                           "is told to serve alone",
                                           "is told that the other is stopped and has not served alone",
                                           "is told to lead, whatever is lost",
                                           "is told to hand over",
                                           "is told to take over",
                                           "is told to give up what it served alone",
                                           "is told that the other is stopped, which is not true",
                                           "has no answer to its question",
                                           "gets a new, empty disk",
                                           "lives on while the coordinator loses the record",
                                           "lives on while the coordinator is copied",
                                           "lives on while the coordinator is put back",
                                           "lives on while the record is put back",
                                           "is told to write the record again"};

const char *pair_world_broken;

static void must(bool holds, const char *promise) {
    if (!holds && !pair_world_broken) pair_world_broken = promise;
}

static bool is_prefix(const struct model_log *log, uint8_t length, const struct model_log *of, uint8_t of_length) {
    return length <= of_length && memcmp(log->epochs, of->epochs, length) == 0;
}

/* Returns the position up to which `log` is durable and equal to the acknowledged frames. */
static uint8_t acked_end(const struct pair_world *world, const struct model_log *log) {
    uint8_t end = 0;
    while (end < world->acked.end && end < log->durable && world->acked.epochs[end] == log->epochs[end]) end++;
    return end;
}

/* ---- invariants of every state */

static void check_acked(const struct pair_world *world) {
    if (world->version == 0 || world->is_behind) return;
    for (int i = 0; i < NODES; i++) {
        const struct model_log *log = &world->nodes[i].log;
        if ((world->record.in_sync & 1u << i) == 0) continue;
        must(acked_end(world, log) == world->acked.end,
             "every acknowledged frame is durable on every member of the record's in-sync set");
        must(log->durable >= world->record.high_water, "no member is shorter than the high water");
    }
}

static bool is_another(const struct pair_world *world, int number) {
    return world->nodes[!number].peer != world->nodes[number].disk;
}

/* Checks a pair without a coordinator. If a node's hard state does not say that it serves alone, the other node has
 * every acknowledged frame, on the disk that this node knows. */
static void check_notes(const struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        const struct model_log *log = &world->nodes[i].log;
        if (!world->nodes[!i].hard_state.alone && !is_another(world, i))
            must(acked_end(world, log) == world->acked.end,
                 "a node that does not serve alone has acknowledged nothing that the other lacks");
    }
}

/* Lets the leader answer its clients about all committed frames. */
static void acknowledge(struct pair_world *world, int number) {
    struct model_node *node = &world->nodes[number];
    if (!node->up || node->pair.role != PAIR_LEADING) return;
    uint8_t committed = (uint8_t)pair_committed(&node->pair);
    must(committed <= node->log.durable, "nothing is committed that is not durable here (LOG-1)");
    if (committed <= world->acked.end) {
        if (committed == world->acked.end)
            must(is_prefix(&world->acked, committed, &node->log, node->log.end), "no acknowledged frame is replaced");
    } else {
        must(is_prefix(&world->acked, world->acked.end, &node->log, node->log.end),
             "what is acknowledged is one history");
        memcpy(world->acked.epochs, node->log.epochs, committed);
        world->acked.end = committed;
        if (node->pair.epoch > world->served) world->served = node->pair.epoch;
    }
}

/* ---- effects */

static bool is_question(const struct model_message *mail) {
    return mail->message.kind == PAIR_FOLLOW || mail->message.kind == PAIR_PROPOSE;
}

static void send(struct pair_world *world, int to, const struct pair_message *message, const struct model_log *log,
                 uint64_t from) {
    struct model_message mail = {
        .is_there = true, .message = *message, .log = *log, .from = (uint8_t)from, .disk = world->nodes[!to].disk};
    if (is_question(&mail))
        world->questions[to] = mail;
    else
        world->answers[to] = mail;
}

static void crash(struct pair_world *world, int number, bool is_kept) {
    struct model_node *node = &world->nodes[number];
    node->up = false;
    node->asked = false;
    if (!is_kept) node->log.end = node->log.durable;
    memset(node->log.epochs + node->log.end, 0, (size_t)(LOG_MAX - node->log.end));
    past_leave_ghost(world, node);
    node->operation = OPERATION_NONE;
    node->asks_presence = node->remembers = false;
    memset(&node->pair, 0, sizeof node->pair);
    memset(&node->answer, 0, sizeof node->answer);
    memset(&node->swap, 0, sizeof node->swap);
}

/* Frames that the forced leader lacks are lost by the operator's decision. So is the other node's index, which may
 * contain them. */
static void accept_loss(struct pair_world *world, int number) {
    if (world->is_lost || world->forced != 1 + number) return;
    world->is_lost = true;
    uint8_t end = acked_end(world, &world->nodes[number].log);
    memset(world->acked.epochs + end, 0, (size_t)(LOG_MAX - end));
    world->acked.end = end;
    world->served = 0;
}

static void lead(struct pair_world *world, int number) {
    struct model_node *node = &world->nodes[number];
    node->known = node->pair.epoch;
    if (node->pair.by_operator) accept_loss(world, number);
    must(node->pair.epoch >= 32 || !(world->led & 1u << node->pair.epoch), "an epoch has one leader, once");
    world->led |= 1u << node->pair.epoch;
    /* An operator may assert that the peer is stopped before this node has a promise of the peer. If the peer has since
     * promised a later epoch, it confirms nothing to this node. */
    bool is_overtaken =
        node->pair.by_operator && node->pair.counted && world->nodes[!number].hard_state.floor > node->pair.epoch;
    must(is_overtaken || is_prefix(&world->acked, world->acked.end, &node->log, node->log.durable),
         "a new leader has every acknowledged frame (R6)");
}

static void step(struct pair_world *world, int number, const struct pair_event *event);

static void cut(struct pair_world *world, int number, uint64_t end) {
    struct model_node *node = &world->nodes[number];
    must(end >= acked_end(world, &node->log), "nobody cuts what is acknowledged, and may be in its index (R8)");
    must(end < node->log.end, "a cut cuts something off, or it would be asked for again and again");
    if (end < node->log.end) {
        memset(node->log.epochs + end, 0, (size_t)(LOG_MAX - end));
        node->log.end = (uint8_t)end;
    }
    node->log.durable = node->log.end;
    step(world, number, &(struct pair_event){.kind = PAIR_DURABLE, .end = node->log.end});
}

static void perform(struct pair_world *world, int number, const struct pair_effect *effect,
                    const struct model_message *asked) {
    struct model_node *node = &world->nodes[number];
    switch (effect->kind) {
    case PAIR_WRITE_STATE:
        break; /* `pair.writing_state` already shows that the write is in flight */
    case PAIR_READ:
    case PAIR_SWAP:
        node->operation = OPERATION_SENT;
        node->is_swap = effect->kind == PAIR_SWAP;
        node->asks_presence = effect->presence;
        node->swap = (struct model_swap){.version = effect->version, .record = effect->record};
        break;
    case PAIR_ASK:
        send(world, !number, &effect->message, &node->log, 0);
        break;
    case PAIR_ANSWER:
        MUST(asked != NULL);
        if (effect->message.kind == PAIR_TAKE_OVER && asked->disk == world->nodes[!number].disk)
            must(is_prefix(&node->log, node->log.end, &world->nodes[!number].log, world->nodes[!number].log.durable),
                 "a hand-over leaves nothing behind");
        send(world, !number, &effect->message, &node->log, asked->message.end);
        break;
    case PAIR_LEAD:
        lead(world, number);
        break;
    case PAIR_CUT:
        cut(world, number, effect->end);
        break;
    case PAIR_END:
        crash(world, number, true);
        break;
    case PAIR_STOP_WRITES:
        step(world, number, &(struct pair_event){.kind = PAIR_STOPPED, .end = node->log.end});
        break;
    case PAIR_TAKE_WRITES: /* the model reads pair_takes_writes() instead */
    case PAIR_FETCH:       /* not possible here, because the model never retires log */
    case PAIR_SAY:
        break;
    }
}

static void step_asked(struct pair_world *world, int number, const struct pair_event *event,
                       const struct model_message *asked) {
    struct pair_effects effects = {.count = 0};
    pair_step(&world->nodes[number].pair, event, &effects);
    for (size_t i = 0; i < effects.count; i++) perform(world, number, &effects.items[i], asked);
}

static void step(struct pair_world *world, int number, const struct pair_event *event) {
    step_asked(world, number, event, NULL);
}

/* ---- actions */

static bool start(struct pair_world *world, int number) {
    const struct pair_limits *limits = &world->limits;
    struct model_node *node = &world->nodes[number];
    if (node->up || world->nodes[!number].pair.asserting != 0)
        return false; /* not possible, because the operator keeps a node stopped while asserting that it is stopped */
    node->up = true;
    node->runs++;
    node->log.durable = node->log.end; /* recovery syncs the frames that it keeps (R6) */
    node->pair = (struct pair){
        .self = (uint8_t)number,
        .other = !number,
        .founds = number == 0,
        .may_lead_alone = !limits->strict,
        .by_operator = limits->by_operator,
        .is_async = limits->async,
        .run = node->runs,
        .serial = node->runs << 32,
    };
    struct pair_effects effects = {.count = 0};
    pair_start(&node->pair, &node->hard_state, node->log.end, &effects);
    for (size_t i = 0; i < effects.count; i++) perform(world, number, &effects.items[i], NULL);
    return true;
}

/* Appends a frame. R1: epochs never decrease within a log, because such a log could not be a prefix of another one. */
static bool append(const struct pair_limits *limits, struct model_node *node) {
    if (!pair_takes_writes(&node->pair) || node->log.end == limits->frames) return false;
    must(node->log.end == 0 || node->log.epochs[node->log.end - 1] <= node->pair.epoch, "a log's epochs never go back");
    node->log.epochs[node->log.end++] = (uint8_t)node->pair.epoch;
    return true;
}

static bool sync(struct pair_world *world, int number) {
    struct model_node *node = &world->nodes[number];
    if (node->pair.role != PAIR_LEADING || node->log.durable == node->log.end) return false;
    node->log.durable = node->log.end;
    step(world, number, &(struct pair_event){.kind = PAIR_DURABLE, .end = node->log.end});
    return true;
}

/* Returns where the requester must cut: after its last frame that this log has too (KIP-101). */
static uint8_t common_end(const struct model_log *own, const struct model_log *theirs, uint8_t theirs_end) {
    uint8_t end = 0;
    while (end < theirs_end && end < own->end && own->epochs[end] == theirs->epochs[end]) end++;
    return end;
}

static void take_question(struct pair_world *world, int number, const struct model_message *mail, bool is_near) {
    struct model_node *node = &world->nodes[number];
    uint8_t end = (uint8_t)mail->message.end;
    uint8_t common = common_end(&node->log, &mail->log, end);
    struct pair_event event = {
        .kind = PAIR_ASKED, .message = mail->message, .fits = common == end, .end = common, .near = is_near};
    event.message.another = mail->disk != node->peer;
    bool leads = node->pair.role == PAIR_LEADING;
    if (leads && node->pair.counted && event.message.another)
        return; /* the leader ignores the question, because it counts on the peer's former disk
                   (shell/pair/node_leader.c) */
    if (leads) node->peer = mail->disk;
    step_asked(world, number, &event, mail);
    if (!leads && node->pair.role == PAIR_LEADING) node->peer = mail->disk;
}

static void take_answer(struct pair_world *world, int number, const struct model_message *mail) {
    struct model_node *node = &world->nodes[number];
    struct pair_event event = {.kind = PAIR_ANSWERED, .message = mail->message};
    event.message.another = mail->disk != node->peer;
    if (mail->message.kind != PAIR_NOT_LEADING) node->leader = mail->disk;
    if (pair_takes(&node->pair, &mail->message)) {
        must(mail->from == node->log.durable, "an answer to the newest question begins where the log ends");
        if (mail->log.end > mail->from) {
            must(is_prefix(&node->log, mail->from, &mail->log, mail->log.end), "frames chain onto the log (R2)");
            node->log = mail->log;
            node->log.durable = node->log.end;
            step(world, number, &(struct pair_event){.kind = PAIR_DURABLE, .end = node->log.end});
        }
    }
    step(world, number, &event);
}

static bool take(struct pair_world *world, int number, bool is_answer, bool stays, bool is_near) {
    struct model_message *slot = is_answer ? &world->answers[number] : &world->questions[number];
    struct model_message mail = *slot;
    if (!mail.is_there || (is_near && mail.message.kind != PAIR_FOLLOW)) return false;
    if (!stays) memset(slot, 0, sizeof *slot);
    if (is_answer)
        take_answer(world, number, &mail);
    else
        take_question(world, number, &mail, is_near);
    return true;
}

static bool hard_state(struct pair_world *world, int number) {
    struct model_node *node = &world->nodes[number];
    if (!node->pair.writing_state) return false;
    if (node->pair.adopts) node->peer = node->leader;
    if (node->pair.adopts) node->known = node->pair.hard_state.floor;
    node->hard_state = node->pair.hard_state;
    if (!world->was_in_sync) world->was_in_sync = node->pair.role == PAIR_LEADING && !node->hard_state.alone;
    step(world, number, &(struct pair_event){.kind = PAIR_STATE_WRITTEN, .end = node->log.durable});
    return true;
}

static bool swap(struct pair_world *world, const struct model_swap *swap) {
    if (swap->version != world->version) return false;
    must(!world->is_behind, "nobody changes a record that is older than one that it has seen (F-31b)");
    if (swap->record.leader != world->record.leader) accept_loss(world, swap->record.leader);
    if (world->limits.lag) world->old_version = world->version;
    if (world->limits.lag) world->old_record = world->record;
    world->version++;
    world->record = swap->record;
    return true;
}

/* A server of the coordinator that lags behind answers a read. */
static bool lag(struct pair_world *world, struct model_node *node) {
    if (node->operation != OPERATION_SENT || node->is_swap || world->version == 0) return false;
    node->operation = OPERATION_ANSWERED;
    memset(&node->answer, 0, sizeof node->answer);
    node->answer.kind = PAIR_RECORD_READ;
    node->answer.outcome = PAIR_DONE;
    node->answer.version = world->old_version;
    node->answer.record = world->old_record;
    return true;
}

static bool coordinator(struct pair_world *world, struct model_node *node) {
    if (node->operation != OPERATION_SENT || node->remembers)
        return false; /* coordinator.c treats such an answer like no answer */
    node->operation = OPERATION_ANSWERED;
    memset(&node->answer, 0, sizeof node->answer);
    node->answer.outcome = PAIR_DONE;
    if (node->is_swap) {
        node->answer.kind = PAIR_RECORD_SWAPPED;
        if (!swap(world, &node->swap)) node->answer.outcome = PAIR_REFUSED;
        node->answer.record = node->swap.record;
        node->answer.version = node->answer.outcome == PAIR_DONE ? world->version : 0;
    } else {
        node->answer.kind = PAIR_RECORD_READ;
        node->answer.record = world->record;
        node->answer.version = world->version;
    }
    memset(&node->swap, 0, sizeof node->swap);
    return true;
}

/* Handles an answer about presence. Presence is only a hint, so the model allows either answer. */
static bool hear(struct pair_world *world, int number, bool is_present) {
    struct model_node *node = &world->nodes[number];
    if (node->operation != OPERATION_ANSWERED || (is_present && !node->asks_presence)) return false;
    struct pair_event answer = node->answer;
    answer.present = is_present;
    node->asks_presence = false;
    node->operation = OPERATION_NONE;
    memset(&node->answer, 0, sizeof node->answer);
    step(world, number, &answer);
    return true;
}

static bool lose_answer(struct pair_world *world, int number) {
    struct model_node *node = &world->nodes[number];
    if (node->operation == OPERATION_NONE || !node->is_swap)
        return false; /* the model does not lose reads: the node sends a lost read again, which is the same as a late
                         read */
    past_leave_ghost(world, node);
    struct pair_event event = {.kind = PAIR_RECORD_SWAPPED, .outcome = PAIR_UNKNOWN};
    node->operation = OPERATION_NONE;
    memset(&node->answer, 0, sizeof node->answer);
    memset(&node->swap, 0, sizeof node->swap);
    step(world, number, &event);
    return true;
}

static bool ghost(struct pair_world *world, struct model_node *node) {
    if (!node->ghost.is_there) return false;
    bool is_done = swap(world, &node->ghost);
    memset(&node->ghost, 0, sizeof node->ghost);
    return is_done; /* false if the compare-and-set had no effect, because then the state is not new */
}

/* Replaces a node's disk by an empty one. An operator does so only if the hard states show that the other node has
 * every acknowledged frame. */
static bool exchange(struct pair_world *world, int number) {
    struct model_node *node = &world->nodes[number];
    const struct model_node *other = &world->nodes[!number];
    bool has_all = !node->hard_state.alone && (other->hard_state.in_sync || other->hard_state.alone);
    if (!world->limits.exchange || world->is_exchanged || node->up || !has_all) return false;
    world->is_exchanged = true;
    memset(&node->log, 0, sizeof node->log);
    node->hard_state = (struct pair_hard_state){0};
    node->disk = 1;
    node->peer = other->disk;
    return true;
}

static bool question(struct pair_world *world, struct model_node *node) {
    if (node->asked || node->pair.role != PAIR_LEADING) return false;
    node->question = pair_question(&node->pair);
    if (node->question == 0) { /* the question needs no confirmation, so it is answered at once */
        must(world->served <= node->pair.epoch, "a deposed leader answers nothing (R3)");
        if (node->pair.epoch == world->served) return false;
        world->served = node->pair.epoch;
        return true;
    }
    node->asked = true;
    node->served_before = world->served;
    return true;
}

static bool reply(struct pair_world *world, struct model_node *node) {
    if (!node->asked || !pair_may_answer(&node->pair, node->question)) return false;
    node->asked = false;
    node->question = 0;
    must(node->served_before <= node->pair.epoch, "a deposed leader answers nothing (R3)");
    node->served_before = 0;
    if (node->pair.epoch > world->served) world->served = node->pair.epoch;
    return true;
}

static bool watch(struct pair_world *world, int number) {
    struct model_node *node = &world->nodes[number];
    if (node->pair.by_operator || node->pair.version == world->version || node->remembers) return false;
    if (node->pair.reading)
        return false; /* no watch event while a read is in flight: the read returns at least this version, and the next
                         change of the record gives another event */
    step(world, number, &(struct pair_event){.kind = PAIR_CHANGED});
    return true;
}

/* Without a coordinator: the node may acknowledge, or may have acknowledged, frames that the other lacks. */
static bool serves_alone(const struct model_node *node) {
    return node->hard_state.alone || node->pair.hard_state.alone || node->pair.asserting != 0;
}

/* Returns whether the operator's assertion is true. The other node may still be alive, because an operator cannot
 * distinguish a stopped node from a paused or cut-off node. Such a node may continue in the middle of an action. Before
 * the pair was in sync for the first time, the operator cannot know whether it is in sync. */
static bool is_true(const struct pair_world *world, int number, enum pair_word word) {
    const struct pair_limits *limits = &world->limits;
    const struct model_node *node = &world->nodes[number], *other = &world->nodes[!number];
    switch (word) {
    case PAIR_PROMOTE:
    case PAIR_HAND_OVER:
        return limits->hand;
    case PAIR_SOLO: /* the operator allows this only while no other node leads by an assertion */
        return node->pair.role == PAIR_LEADING && (limits->by_operator ? !serves_alone(other) : limits->strict);
    case PAIR_ASSERT:
        if (!limits->by_operator) return false;
        if (is_another(world, !number) && !other->hard_state.alone)
            return true; /* nothing is copied, because the new disk is empty and the former one was empty too */
        return other->up ? !limits->async && !serves_alone(other)
                         : !other->hard_state.alone || (!world->was_in_sync && !world->is_lost);
    case PAIR_FORCE:
        return limits->force && world->forced == 0 && !other->up && node->pair.role == PAIR_FOLLOWING;
    case PAIR_YIELD:
        return world->is_lost && world->forced == 1 + !number && node->hard_state.alone && other->hard_state.alone;
    default:
        return false;
    }
}

static bool tell(struct pair_world *world, int number, enum pair_word word) {
    if (!is_true(world, number, word)) return false;
    if (word == PAIR_FORCE) world->forced = (uint8_t)(1 + number);
    step(world, number, &(struct pair_event){.kind = PAIR_TOLD, .word = word});
    return true;
}

/* Frames that are lost by a wrong assertion do not count as missing. */
static bool tell_wrongly(struct pair_world *world, int number) {
    bool leads = world->nodes[number].pair.role == PAIR_LEADING;
    if (!world->limits.wrong || world->is_wrong) return false;
    world->is_wrong = true;
    step(world, number, &(struct pair_event){.kind = PAIR_TOLD, .word = leads ? PAIR_SOLO : PAIR_ASSERT});
    return true;
}

static bool told(struct pair_world *world, int number, enum action action) {
    switch (action) {
    case ACT_WRONG:
        return tell_wrongly(world, number);
    case ACT_SOLO:
        return tell(world, number, PAIR_SOLO);
    case ACT_ASSERT:
        return tell(world, number, PAIR_ASSERT);
    case ACT_FORCE:
        return tell(world, number, PAIR_FORCE);
    case ACT_HAND_OVER:
        return tell(world, number, PAIR_HAND_OVER);
    case ACT_PROMOTE:
        return tell(world, number, PAIR_PROMOTE);
    case ACT_YIELD:
        return tell(world, number, PAIR_YIELD);
    default:
        return false;
    }
}

static bool act(struct pair_world *world, int number, enum action action) {
    struct model_node *node = &world->nodes[number];
    switch (action) {
    case ACT_START:
        return start(world, number);
    case ACT_GHOST:
        return ghost(world, node);
    case ACT_EXCHANGE:
        return exchange(world, number);
    default:
        break;
    }
    if (number == 0 && past_act(world, action)) return true;
    if (!node->up) return false;
    switch (action) {
    case ACT_CRASH_KEPT:
    case ACT_CRASH_LOST:
        if (action == ACT_CRASH_LOST && node->log.end == node->log.durable) return false;
        crash(world, number, action == ACT_CRASH_KEPT);
        return true;
    case ACT_APPEND:
        return append(&world->limits, node);
    case ACT_SYNC:
        return sync(world, number);
    case ACT_TAKE:
        return take(world, number, false, false, world->questions[number].message.kind == PAIR_FOLLOW);
    case ACT_TAKE_TWIN:
    case ACT_TAKE_NEAR:
        return take(world, number, false, true, action == ACT_TAKE_NEAR);
    case ACT_TAKE_ANSWER:
    case ACT_TAKE_ANSWER_TWIN:
        return take(world, number, true, action == ACT_TAKE_ANSWER_TWIN, false);
    case ACT_WRITE_STATE:
        return hard_state(world, number);
    case ACT_WRITE:
        if (!past_write(world, number)) return false;
        crash(world, number, true);
        return true;
    case ACT_COORDINATOR:
        return coordinator(world, node);
    case ACT_LAG:
        return world->limits.lag && lag(world, node);
    case ACT_HEAR:
        return hear(world, number, false);
    case ACT_HEAR_PRESENT:
        return hear(world, number, true);
    case ACT_LOSE_ANSWER:
        return lose_answer(world, number);
    case ACT_SILENT:
        step(world, number, &(struct pair_event){.kind = PAIR_SILENT, .gone = !world->limits.presence});
        return true;
    case ACT_GONE:
        if (!world->limits.presence || node->pair.role != PAIR_FOLLOWING) return false;
        step(world, number, &(struct pair_event){.kind = PAIR_SILENT, .gone = true});
        return true;
    case ACT_UNANSWERED:
        if (node->pair.asserting == 0 || node->pair.writing_state) return false;
        step(world, number, &(struct pair_event){.kind = PAIR_UNANSWERED});
        return true;
    case ACT_QUESTION:
        return !world->limits.silent_clients && question(world, node);
    case ACT_REPLY:
        return reply(world, node);
    case ACT_WATCH:
        return watch(world, number);
    default:
        return told(world, number, action);
    }
}

bool pair_world_act(struct pair_world *world, int node, enum action action) {
    pair_world_broken = NULL;
    if (!act(world, node, action)) return false;
    if (world->is_wrong) {
        pair_world_broken = NULL;
        return true;
    }
    for (int i = 0; i < NODES; i++) acknowledge(world, i);
    check_acked(world);
    if (world->limits.by_operator) check_notes(world);
    return true;
}

void pair_world_begin(struct pair_world *world, const struct pair_limits *limits) {
    memset(world, 0, sizeof *world);
    world->limits = *limits;
    world->nodes[0].hard_state.alone =
        limits->by_operator; /* without a coordinator, node 0 founded the pair and may have served alone before */
}

bool pair_world_is_inside(const struct pair_world *world) {
    const struct pair_limits *limits = &world->limits;
    for (int i = 0; i < NODES; i++)
        if (world->nodes[i].pair.epoch > limits->epochs || world->nodes[i].pair.hard_state.floor > limits->epochs)
            return false;
    return true;
}

/* Returns whether an operator must decide, because both nodes may have acknowledged frames that the other one lacks. */
static bool has_named_it(const struct pair_world *world) {
    int leaders = 0;
    for (int i = 0; i < NODES; i++) {
        const struct model_node *node = &world->nodes[i];
        bool leads = node->pair.role == PAIR_LEADING;
        if (!node->up || !node->hard_state.alone || (!leads && node->pair.role != PAIR_FOLLOWING)) return false;
        leaders += leads;
    }
    return leaders <= 1;
}

bool pair_world_is_settled(const struct pair_world *world) {
    if (world->is_wrong && has_named_it(world)) return true;
    int leader = world->nodes[0].pair.role == PAIR_LEADING ? 0 : 1;
    const struct model_node *one = &world->nodes[leader], *two = &world->nodes[!leader];
    bool has_roles = one->up && two->up && one->pair.role == PAIR_LEADING && two->pair.role == PAIR_FOLLOWING;
    bool is_known = one->pair.is_async || pair_is_in_sync(&one->pair);
    return has_roles && is_known && one->log.end == two->log.durable && one->pair.committed == one->log.end &&
           one->pair.handing == PAIR_KEEPING && memcmp(one->log.epochs, two->log.epochs, LOG_MAX) == 0;
}
