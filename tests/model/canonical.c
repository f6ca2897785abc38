/* canonical.c: states that differ in nothing that matters become the same: counters become ranks, what nobody looks at
 * any more becomes zero. Leaving something out here would hide states; leaving something in only costs time. */
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

/* Replaces the values by small ones in the same order. 0 stays. */
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

/* A version is compared with the coordinator's and with those that the same node knows, and with nothing else. */
static void rank_versions(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct model_node *node = &world->nodes[i];
        if (node->ghost.is_there && node->ghost.version != world->version) /* it changes nothing any more */
            memset(&node->ghost, 0, sizeof node->ghost);
        node->ghost.version = 0;
        bool is_stale = node->swap.version != world->version;
        uint64_t now = world->version;
        struct numbers versions = {.count = 0};
        number(&versions, &now);
        number(&versions, &node->pair.version);
        number(&versions, &node->answer.version);
        rank(&versions);
        node->swap.version = is_stale;
        node->pair.version = node->pair.version * 4 + now;
        if (node->pair.role == PAIR_FOLLOWING) /* it is read again before it is used */
            memset(&node->pair.record, 0, sizeof node->pair.record);
    }
    world->version = world->version != 0;
}

/* Nobody ever listens to an answer to an older question; and what a question's end leaves out does not matter. */
static void drop_stale_mail(struct pair_world *world) {
    for (int i = 0; i < NODES; i++) {
        struct model_message *answer = &world->answers[i], *question = &world->questions[i];
        const struct model_node *node = &world->nodes[i];
        bool asks = node->pair.role == PAIR_FOLLOWING || (node->pair.by_operator && node->pair.role != PAIR_LEADING);
        if (!node->up || !asks || answer->message.serial != node->pair.serial) memset(answer, 0, sizeof *answer);
        if (answer->message.kind != PAIR_FRAMES) memset(&answer->log, 0, sizeof answer->log);
        if (question->log.end > question->message.end) {
            memset(question->log.epochs + question->message.end, 0, (size_t)(LOG_MAX - question->message.end));
            question->log.end = (uint8_t)question->message.end;
        }
        answer->log.durable = question->log.durable = 0;
    }
}

/* A stamp is compared with the question that waits at the leader of its epoch, and with nothing else. */
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

static void canonical_record(const uint64_t runs[NODES], struct pair_record *record) {
    record->run = record->run != 0 && record->run == runs[record->leader];
    record->start = 0;
}

static void canonical(struct pair_world *world) {
    uint64_t runs[NODES];
    for (int i = 0; i < NODES; i++) runs[i] = world->nodes[i].up ? world->nodes[i].runs : UINT64_MAX;
    drop_stale_mail(world);
    world->led = 0; /* only watched */
    rank_versions(world);
    compare_stamps(world);
    canonical_record(runs, &world->record);
    for (int i = 0; i < NODES; i++) {
        struct model_node *node = &world->nodes[i];
        canonical_record(runs, &node->pair.record);
        canonical_record(runs, &node->answer.record);
        canonical_record(runs, &node->swap.record);
        canonical_record(runs, &node->ghost.record);
        struct pair_message *answer = &world->answers[i].message, *asked = &world->questions[!i].message;
        asked->serial = world->questions[!i].is_there && node->up && asked->serial == node->pair.serial;
        answer->serial = 0; /* there is none but to the newest question */
        node->runs = 0;
        node->pair.run = 0;
        node->pair.told = 0; /* only said */
        if (node->pair.role != PAIR_FENCING) node->pair.word = 0;
        answer->word = 0;
        if (node->pair.role != PAIR_LEADING) node->pair.begun = node->pair.stop = 0;
    }
    for (int i = 0; i < NODES; i++) world->nodes[i].pair.serial = 0;
}

uint64_t pair_world_hash(const struct pair_world *world) {
    struct pair_world copy;
    memcpy(&copy, world, sizeof copy);
    canonical(&copy);
    return frame_sum(&copy, sizeof copy);
}
