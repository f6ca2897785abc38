/* truth.c: see truth.h. */
#include "truth.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "node.h"
#include "world.h"

void truth_begin(struct truth *truth) {
    truth->count = 0;
    truth->epoch = 0;
    memset(truth->leaders, 0, sizeof truth->leaders);
    truth->next_serial = 1;
}

void truth_free(struct truth *truth) {
    free(truth->serials);
    *truth = (struct truth){0};
}

bool truth_has(const struct world *world, const struct host *host, size_t count) {
    MUST(count <= world->truth.count);
    if (count == 0) return true;
    /* If two logs have the same frame at the same position, all frames before that position are equal too (R1). */
    return host->frame_count >= count && host->frames[count - 1].serial == world->truth.serials[count - 1];
}

static void add(struct truth *truth, const struct host *host, size_t count) {
    if (count > truth->capacity) {
        truth->capacity = 2 * count;
        truth->serials = realloc(truth->serials, truth->capacity * sizeof *truth->serials);
        MUST(truth->serials);
    }
    for (; truth->count < count; truth->count++) truth->serials[truth->count] = host->frames[truth->count].serial;
}

void truth_lead(struct world *world, uint32_t epoch) {
    struct truth *truth = &world->truth;
    MUST(epoch < TRUTH_EPOCHS_MAX && !truth->leaders[epoch]); /* only one run of one node may lead in an epoch */
    truth->leaders[epoch] = (uint8_t)(1 + world->host->number);
    MUST(epoch > truth->epoch); /* R6 */
    truth->epoch = epoch;
    MUST(truth_has(world, world->host, truth->count)); /* the log must have all acknowledged frames */
}

void truth_acknowledge(struct world *world, uint64_t position) {
    struct truth *truth = &world->truth;
    const struct host *host = world->host;
    if (!host->node) return;
    size_t count = host_frames_below(host, position);
    MUST(truth_has(world, host,
                   count < truth->count
                       ? count
                       : truth->count)); /* the node's log must agree with what other nodes have acknowledged */
    if (count <= truth->count) return;
    add(truth, host, count);
    node_check_members(world);
}
