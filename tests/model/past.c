/* past.c: see past.h. */
#include "past.h"

#include <string.h>

/* Sets the coordinator's record back to `record`, with `version`. A running node that has seen a later version refuses
 * this record (find_doubt in coordinator.c), so its `remembers` is set. A started node uses its hard state. */
static void forget(struct pair_world *world, uint64_t version, const struct pair_record *record) {
    for (int i = 0; i < NODES; i++) {
        struct model_node *node = &world->nodes[i];
        uint64_t seen = node->pair.version > node->answer.version ? node->pair.version : node->answer.version;
        memset(&node->ghost, 0, sizeof node->ghost);
        node->remembers = node->up && seen > version;
    }
    world->version = version;
    world->record = *record;
}

void past_leave_ghost(const struct pair_world *world, struct model_node *node) {
    bool is_under_way = node->operation == OPERATION_SENT && node->is_swap;
    if (!is_under_way || node->remembers || world->is_record_lost) return;
    node->ghost = node->swap;
    node->ghost.is_there = true;
}

/* F-31b */
static bool lose_record(struct pair_world *world) {
    if (!world->limits.lose || world->is_record_lost || world->version == 0) return false;
    world->is_record_lost = true;
    forget(world, 0, &(struct pair_record){0});
    return true;
}

static bool keep_record(struct pair_world *world) {
    bool is_over = world->is_rolled || world->is_record_lost || world->kept_version != 0;
    if (!world->limits.roll || is_over || world->version == 0) return false;
    world->kept_version = world->version;
    world->kept = world->record;
    return true;
}

/* Returns whether the nodes can notice that the coordinator went back to the kept record. If that record has the same
 * epoch, it must let no more nodes lead. Otherwise every node that it lets lead must know a later epoch. */
static bool is_fair(const struct pair_world *world) {
    const struct pair_record *kept = &world->kept, *record = &world->record;
    if (kept->epoch == record->epoch) return (kept->in_sync & ~record->in_sync) == 0;
    for (int i = 0; i < NODES; i++) {
        const struct model_node *node = &world->nodes[i];
        bool may_know = node->known > kept->epoch || node->hard_state.recorded > kept->epoch;
        if ((kept->in_sync & 1u << i) != 0 && !may_know) return false;
    }
    return true;
}

static bool put_back(struct pair_world *world, bool by_server) {
    bool is_older = world->kept_version != 0 && world->kept_version < world->version;
    if (!is_older || world->is_record_lost || !is_fair(world)) return false;
    world->is_behind = world->kept.epoch < world->record.epoch;
    world->is_rolled = true;
    if (by_server) {
        forget(world, world->kept_version, &world->kept);
    } else {
        world->version++;
        world->record = world->kept;
    }
    world->kept_version = 0;
    world->kept = (struct pair_record){0};
    return true;
}

bool past_act(struct pair_world *world, enum action action) {
    if (action == ACT_LOSE) return lose_record(world);
    if (action == ACT_KEEP) return keep_record(world);
    return (action == ACT_ROLL || action == ACT_PUT_BACK) && put_back(world, action == ACT_ROLL);
}

bool past_write(struct pair_world *world, int number) {
    const struct pair *pair = &world->nodes[number].pair;
    bool is_lost = world->is_behind || (world->is_record_lost && world->version == 0);
    bool is_last = pair->role == PAIR_LEADING && world->led >> pair->epoch == 1u;
    bool is_sure = world->nodes[!number].pair.role != PAIR_CANDIDATE;
    if (!is_lost || !is_last || !is_sure) return false;
    world->record = pair->record; /* the nodes that the record lists as in sync took part in the change */
    if (pair->committed > world->record.high_water) world->record.high_water = pair->committed;
    world->version++;
    world->is_behind = false;
    return true;
}
