/* host_lanes.c: lanes and their pipes (shell/lanes.c). At most one delivery is under way on a lane; what becomes of it
 * is told to the core, unless the session has left the lane. */
#include <string.h>

#include "../must.h"
#include "client.h"
#include "host.h"
#include "world.h"

static struct lane *lane_of(struct host *host, uint64_t session) {
    for (size_t i = 0; session && i < HOST_LANES_MAX; i++) {
        if (host->lanes[i].session == session) return &host->lanes[i];
    }
    return NULL;
}

static void tell(struct world *world, enum core_event_kind kind, uint64_t session, bool ok) {
    struct core_event event = {.kind = kind, .session = session, .ok = ok, .delivered_ns = host_now(world).steady_ns};
    host_post(world, &event);
}

void host_lane_effect(struct world *world, const struct core_lane *effect) {
    MUST(effect->lane < HOST_LANES_MAX);
    struct lane *lane = &world->host->lanes[effect->lane];
    bool changes = effect->open ? lane->session != effect->session : lane->session == effect->session;
    if (!changes) return;
    if (lane->client) network_break_pipe(world, lane->client, lane->session);
    *lane = (struct lane){.session = effect->open ? effect->session : 0, .turn = lane->turn + 1};
}

void host_lane_up(struct world *world, struct client *client, uint32_t number, uint64_t session) {
    struct host *host = world->host;
    if (host->state != HOST_UP || number >= HOST_LANES_MAX) return;
    struct lane *lane = &host->lanes[number];
    if (lane->session != session || lane->up) return; /* another session's lane */
    lane->up = client->lane_up = true;
    lane->client = client;
    TRACE(world, "broker", "lane of %s is up", client->name);
    tell(world, CORE_LANE_UP, session, true);
}

void host_lane_gone(struct world *world, struct client *client, uint64_t session) {
    struct host *host = world->host;
    struct lane *lane = host->state == HOST_UP ? lane_of(host, session) : NULL;
    if (!lane || !lane->up || lane->client != client) return;
    lane->up = false;
    TRACE(world, "broker", "lane of %s is gone", client->name);
    tell(world, CORE_LANE_GONE, session, true); /* in the order of shell/lanes.c: the cancelled send ends after it */
    if (lane->sending) tell(world, CORE_LANE_SENT, session, false); /* it never got into the pipe */
    lane->sending = false;
}

struct sent {
    uint64_t life;
    uint64_t turn;
    struct lane *lane;
    struct delivered delivered;
};

/* The pipe takes it, unless its reader reads nothing. */
static void pipe_takes(struct world *world, void *argument, uint64_t number) {
    struct sent *sent = argument;
    struct lane *lane = sent->lane;
    if (sent->life != world->host->life || sent->turn != lane->turn || !lane->sending) return;
    if (lane->client->stalled) {
        world_after_ns(world, 10 * NS_PER_MS, pipe_takes, sent, 0);
        return;
    }
    lane->sending = false;
    network_deliver(world, lane->client, &sent->delivered);
    tell(world, CORE_LANE_SENT, lane->session, true);
}

void host_lane_send(struct world *world, const struct core_delivery *delivery, const ProtobufCBinaryData *contents) {
    struct lane *lane = &world->host->lanes[delivery->lane];
    if (lane->session != delivery->session) return; /* it has left: nobody waits for news */
    if (!lane->up || lane->sending) {
        tell(world, CORE_LANE_SENT, delivery->session, false);
        return;
    }
    lane->sending = true;
    for (size_t i = 0; i < delivery->count; i++) ledger_on_departure(world, &delivery->tasks[i], &contents[i]);
    struct sent *sent = world_alloc(world, sizeof *sent);
    *sent = (struct sent){.life = world->host->life, .turn = lane->turn, .lane = lane};
    sent->delivered = (struct delivered){
        .session = delivery->session,
        .tasks = (struct core_delivered *)delivery->tasks,
        .contents = (ProtobufCBinaryData *)contents,
        .count = delivery->count,
    };
    pipe_takes(world, sent, 0);
}
