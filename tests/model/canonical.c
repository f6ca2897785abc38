/* canonical.c: maps states that differ only in irrelevant details to the same state: counters become ranks, and
 * values that no later step reads become zero. Dropping a relevant detail would hide states; keeping an irrelevant
 * one only costs time. */
#include <string.h>

#include "frame.h"
#include "pair_world.h"

#define NUMBERS_MAX 32

struct numbers {
    uint64_t *places[NUMBERS_MAX];
    int count;
};

static void number(struct numbers *numbers, uint64_t *place) {
    numbers->places[numbers->count++] = place;
}

/* Replaces the values by small ones in the same order. 0 stays 0. */
static void rank(struct numbers *numbers) {
    uint64_t **places = numbers->places;
    for (int i = 1; i < numbers->count; i++)
        for (int k = i; k > 0 && *places[k] < *places[k - 1]; k--) {
            uint64_t *other = places[k];
            places[k] = places[k - 1];
            places[k - 1] = other;
        }
    uint64_t before = 0, value = 0;
    for (int i = 0; i < numbers->count; i++) {
        uint64_t now = *places[i];
        value += now != before;
        before = now;
        *places[i] = value;
    }
}

/* A version is compared only with the coordinator's version and with versions that the same node knows. */
static void rank_versions(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct model_node *node = &world->nodes[i];
        if (node->ghost.is_there &&
            node->ghost.version != world->version) /* the compare-and-set can no longer change the record, because the
                                                      record has another version; forget it */
            memset(&node->ghost, 0, sizeof node->ghost);
        node->ghost.version = 0;
        bool is_stale = node->swap.version != world->version;
        uint64_t now = world->version, old = world->old_version, kept = world->kept_version;
        struct numbers versions = {.count = 0};
        number(&versions, &now);
        number(&versions, &old);
        number(&versions, &kept);
        number(&versions, &node->pair.version);
        number(&versions, &node->answer.version);
        rank(&versions);
        node->swap.version = is_stale;
        node->pair.version = ((node->pair.version * 8 + now) * 8 + old) * 8 + kept;
        if (node->pair.role == PAIR_FOLLOWING) /* the node reads the record again before it uses it */
            node->pair.record = (struct pair_record){.epoch = world->limits.force ? node->pair.record.epoch : 0};
    }
    world->old_version = world->old_version != 0;
    world->kept_version = world->kept_version != 0;
    world->version = world->version != 0;
}

/* Removes answers to older questions, and frames after the end of a question's log, because the nodes ignore both. */
static void drop_stale_mail(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct model_message *answer = &world->answers[i], *question = &world->questions[i];
        const struct model_node *node = &world->nodes[i];
        bool asks = node->pair.role == PAIR_FOLLOWING || node->pair.by_operator;
        if (!node->up || !asks || answer->message.serial != node->pair.serial) memset(answer, 0, sizeof *answer);
        if (answer->message.kind != PAIR_FRAMES) memset(&answer->log, 0, sizeof answer->log);
        if (question->log.end > question->message.end) {
            memset(question->log.epochs + question->message.end, 0, (size_t)(LOG_MAX - question->message.end));
            question->log.end = (uint8_t)question->message.end;
        }
        answer->log.durable = question->log.durable = 0;
    }
}

/* Removes facts about presence that no later step reads. `heeds` (the node will ask for presence) matters only while
 * the node is `impatient`. `asks_presence` matters only while the node reads the record. */
static void forget_presence(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct pair *pair = &world->nodes[i].pair;
        if (!pair->impatient) pair->heeds = false;
        if (!pair->reading || !pair->impatient) pair->asks_presence = false;
        if (!pair->impatient) world->nodes[i].asks_presence = false;
    }
}

/* The last question matters only for whether the node would send the same question now. */
static void forget_asked(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct pair *pair = &world->nodes[i].pair;
        bool is_same = pair_asks_the_same(pair);
        memset(&pair->asked, 0, sizeof pair->asked);
        pair->asked.alone = is_same;
    }
}

/* Returns whether an answer's stamp is as late as the question that waits at the leader of `epoch`. The stamp is
 * compared with no other question. */
static bool is_late_enough(const struct pair_world *world, uint32_t epoch, uint64_t stamp) {
    for (int i = 0; i < NODES; i++) {
        const struct model_node *node = &world->nodes[i];
        if (node->asked && node->pair.epoch == epoch) return stamp >= node->question;
    }
    return false;
}

static void compare_stamps(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct pair *pair = &world->nodes[i].pair;
        struct pair_message *question = &world->questions[i].message, *answer = &world->answers[i].message;
        pair->stamp = 0;
        pair->seen = is_late_enough(world, pair->epoch, pair->seen);
        question->stamp = is_late_enough(world, question->floor, question->stamp);
        answer->stamp = is_late_enough(world, answer->epoch, answer->stamp);
    }
    for (int i = 0; i < NODES; i++) world->nodes[i].question = world->nodes[i].question != 0;
}

/* Removes a question that no longer matters: its requester does not wait for the answer, and its receiver can never
 * again lead the question's epoch. */
static void drop_dead_question(struct pair_world *world, int to) {
    struct model_message *question = &world->questions[to];
    const struct model_node *requester = &world->nodes[!to], *receiver = &world->nodes[to];
    bool leads = receiver->pair.role == PAIR_LEADING || receiver->pair.role == PAIR_CANDIDATE;
    bool may_count = receiver->up && leads && receiver->pair.epoch <= question->message.floor;
    bool is_awaited = requester->up && question->message.serial == requester->pair.serial;
    if (!may_count && !is_awaited && question->message.floor <= world->record.epoch)
        memset(question, 0, sizeof *question);
}

/* Removes the high water from the record. check_acked proves that it never prevents a member from leading. */
static void canonical_record(const uint64_t runs[NODES], struct pair_record *record) {
    struct pair_record was = *record;
    memset(record, 0, sizeof *record); /* clears the padding too, because all bytes are hashed */
    record->epoch = was.epoch;
    record->leader = was.leader;
    record->in_sync = was.in_sync;
    record->run = was.run != 0 && was.run == runs[was.leader];
}

/* Like canonical_record: clears the padding, because it is hashed. */
static void canonical_mail(struct model_message *mail) {
    struct model_message was = *mail;
    const struct pair_message *message = &was.message;
    memset(mail, 0, sizeof *mail);
    mail->is_there = was.is_there;
    mail->log = was.log;
    mail->from = was.from;
    mail->disk = was.disk;
    mail->message.kind = message->kind;
    mail->message.epoch = message->epoch;
    mail->message.floor = message->floor;
    mail->message.serial = message->serial;
    mail->message.end = message->end;
    mail->message.stamp = message->stamp;
    mail->message.committed = message->committed;
    mail->message.led = message->led;
    mail->message.alone = message->alone;
    mail->message.in_sync = message->in_sync;
    mail->message.word = message->word;
    mail->message.stranger = message->stranger;
    mail->message.another = message->another;
    mail->message.differs = message->differs;
}

static void canonical_pair(const struct pair_limits *limits, struct pair *pair) {
    bool leads = pair->role == PAIR_LEADING;
    pair->run = pair->serial = 0;
    pair->told = 0; /* no step reads this field, which is only for reports */
    if (pair->role != PAIR_FENCING) pair->word = 0;
    if (!leads) pair->begun = pair->stop = 0;
    if (pair->role == PAIR_FOLLOWING && pair->seen == 0) pair->epoch = 0;
    /* A step reads `committed` only in two cases: a leader counts the peer's frames from the log's beginning, or a cut
     * is wrong. The model checks that no cut is wrong. */
    if (!leads && !limits->strict && !limits->by_operator) pair->committed = 0;
}

static void canonical(struct pair_world *world) {
    const struct pair_limits *limits = &world->limits;
    uint64_t runs[NODES];
    for (int i = 0; i < NODES; i++) runs[i] = world->nodes[i].up ? world->nodes[i].runs : UINT64_MAX;
    forget_asked(world);
    drop_stale_mail(world);
    forget_presence(world);
    for (int i = 0; i < NODES && !limits->by_operator; i++) drop_dead_question(world, i);
    if (!limits->lose && !limits->roll) world->led = 0; /* no step reads this field, which is only for checks */
    if (limits->silent_clients) world->served = 0;
    rank_versions(world);
    compare_stamps(world);
    canonical_record(runs, &world->record);
    canonical_record(runs, &world->old_record);
    canonical_record(runs, &world->kept);
    for (int i = 0; i < NODES; i++) {
        struct model_node *node = &world->nodes[i];
        canonical_record(runs, &node->pair.record);
        canonical_record(runs, &node->answer.record);
        canonical_record(runs, &node->swap.record);
        canonical_record(runs, &node->ghost.record);
        struct pair_message *answer = &world->answers[i].message, *asked = &world->questions[!i].message;
        asked->serial = world->questions[!i].is_there && node->up && asked->serial == node->pair.serial;
        answer->serial = 0; /* there is only one answer: that to the newest question */
        answer->word = 0;
        if (!limits->strict && !limits->by_operator) answer->committed = 0;
        node->runs = 0;
        if (!limits->roll || world->is_rolled) node->known = 0;
        if (!limits->lose && !limits->roll && !limits->lag)
            node->hard_state.recorded = node->pair.hard_state.recorded =
                0; /* the hard state's epoch of the record is not needed, because it is never older than the epoch in
                      memory */
        if (node->pair.role != PAIR_FOLLOWING || !node->pair.writing_state) node->leader = 0;
        canonical_pair(limits, &node->pair);
        canonical_mail(&world->questions[i]);
        canonical_mail(&world->answers[i]);
    }
}

/* ---- symmetry */

/* Returns whether the two nodes may be exchanged without changing the future. This is so if a record exists, and both
 * nodes know the record or will read it: then only their numbers differ. */
static bool is_symmetric(const struct pair_world *world) {
    if (world->limits.by_operator || world->limits.lag || world->version == 0 || world->forced != 0) return false;
    for (int i = 0; i < NODES; i++) {
        const struct model_node *node = &world->nodes[i];
        if (node->operation == OPERATION_ANSWERED && !node->is_swap && node->answer.version == 0) return false;
    }
    return true;
}

static void mirror_record(struct pair_record *record) {
    if (record->epoch == 0) return; /* no record */
    record->leader = !record->leader;
    record->in_sync = (uint8_t)((record->in_sync & 1u) << 1 | record->in_sync >> 1);
}

static void swap_bytes(void *one, void *two, size_t size) {
    uint8_t kept[sizeof(struct model_node)];
    memcpy(kept, one, size);
    memcpy(one, two, size);
    memcpy(two, kept, size);
}

static void mirror(struct pair_world *world) {
    swap_bytes(&world->nodes[0], &world->nodes[1], sizeof world->nodes[0]);
    swap_bytes(&world->questions[0], &world->questions[1], sizeof world->questions[0]);
    swap_bytes(&world->answers[0], &world->answers[1], sizeof world->answers[0]);
    mirror_record(&world->record);
    mirror_record(&world->kept);
    for (int i = 0; i < NODES; i++) {
        struct model_node *node = &world->nodes[i];
        mirror_record(&node->pair.record);
        mirror_record(&node->answer.record);
        mirror_record(&node->swap.record);
        mirror_record(&node->ghost.record);
    }
}

/* The number of a node is its place in the array. */
static void forget_numbers(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct pair *pair = &world->nodes[i].pair;
        pair->self = pair->other = 0;
        pair->founds = false;
    }
}

uint64_t pair_world_hash(const struct pair_world *world) {
    bool has_twin = is_symmetric(world);
    struct pair_world copy;
    memcpy(&copy, world, sizeof copy);
    canonical(&copy);
    if (!has_twin) return frame_sum(&copy, sizeof copy);
    forget_numbers(&copy);
    uint64_t one = frame_sum(&copy, sizeof copy);
    mirror(&copy);
    uint64_t two = frame_sum(&copy, sizeof copy);
    return one < two ? one : two;
}
