/* node_laws.c: what holds for whoever a pair takes for in sync; see node.h. */
#include <string.h>

#include "../must.h"
#include "node.h"
#include "registrar.h"
#include "world.h"

/* The record says so; or, without a coordinator, the other's note, by not saying that it has served alone. */
static bool is_counted(const struct world *world, const struct host *host) {
    const struct registrar *registrar = world->registrar;
    const struct note *others = &world->hosts[1 - host->number].node->note;
    if (world->options.pair.by_operator)
        return !others->alone && memcmp(others->peer, host->node->member, MEMBER_ID_SIZE) == 0;
    bool is_in_sync = registrar->version != 0 && (registrar->record.pair.in_sync & 1u << host->number) != 0;
    const uint8_t *member = registrar->record.members[host->number].id;
    return is_in_sync && memcmp(member, host->node->member, MEMBER_ID_SIZE) == 0;
}

void node_check_members(struct world *world) {
    for (uint32_t i = 0; i < HOSTS_MAX && world->truth.count > 0; i++) {
        const struct host *host = &world->hosts[i];
        if (!is_counted(world, host)) continue;
        MUST(truth_has(world, host, world->truth.count));                 /* R3, R4 */
        MUST(host->frames[world->truth.count - 1].end <= host->promised); /* … durably (R2) */
    }
}
