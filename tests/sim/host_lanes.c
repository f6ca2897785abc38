/* host_lanes.c: lanes and their connections. Carries out the effects of engine/lane_state.h, as shell/threads/lanes.c
 * and the door do. The core learns the outcome of a delivery, unless another session has the lane by then. */
#include <string.h>

#include "../must.h"
#include "client.h"
#include "host.h"
#include "world.h"

struct sent { /* a delivery that is on its way through a connection */
    uint64_t life;
    uint64_t turn;
    struct lane *lane;
    struct client *client;
    struct delivered delivered;
};

static void tell(struct world *world, const struct lane *lane, enum core_event_kind kind, bool ok) {
    struct core_event event = {
        .kind = kind, .lane = {.session = lane->state.session, .ok = ok, .delivered_ns = host_now(world).steady_ns}};
    host_post(world, lane, &event);
}

/* Ends the delivery that the lane is sending. Tells the core whether the delivery has left. */
static void finish(struct world *world, struct lane *lane, bool has_left) {
    struct sent *sent = lane->sent;
    lane->sent = NULL;
    if (sent && lane_state_sent(&lane->state, sent->turn)) tell(world, lane, CORE_LANE_SENT, has_left);
}

void host_lane_effect(struct world *world, const struct core_lane *effect) {
    MUST(effect->lane < HOST_LANES_MAX);
    struct lane *lane = &world->host->lanes[effect->lane];
    uint64_t session = lane->state.session;
    uint64_t former =
        effect->open ? lane_state_open(&lane->state, effect->session) : lane_state_close(&lane->state, effect->session);
    /* A client that has switched to the other node has no connection here and keeps its connection there (history
     * 85046449 of pairs). */
    bool is_its_client = former && lane->client->session_node == world->host->number;
    if (is_its_client) network_break_pipe(world, lane->client, session);
}

void host_lane_up(struct world *world, struct client *client, uint32_t number, uint64_t session) {
    struct host *host = world->host;
    if (host->state != HOST_UP || number >= HOST_LANES_MAX || !session) return;
    struct lane *lane = &host->lanes[number];
    uint64_t connection = host->connections + 1, former;
    if (!lane_state_up(&lane->state, session, connection, &former))
        return; /* nothing to do: the lane belongs to another session */
    host->connections = connection;
    lane->client = client;
    client->lane_up = true;
    client->pipe = connection;
    client->pipe_session = session;
    TRACE(world, "broker", "lane of %s is up", client->name);
    tell(world, lane, CORE_LANE_UP, true);
    if (former)
        finish(world, lane, false); /* the door closes the old connection, so the delivery on it will never leave */
}

void host_lane_gone(struct world *world, uint64_t connection) {
    struct host *host = world->host;
    for (size_t i = 0; host->state == HOST_UP && connection && i < HOST_LANES_MAX; i++) {
        struct lane *lane = &host->lanes[i];
        if (!lane_state_gone(&lane->state, connection)) continue;
        TRACE(world, "broker", "lane of %s is gone", lane->client->name);
        tell(world, lane, CORE_LANE_GONE, true);
        finish(world, lane, false); /* as in the door, the delivery ends after its connection has ended */
    }
}

void host_credit(struct world *world, uint64_t session, uint32_t credit) {
    struct host *host = world->host;
    struct core_event event = {.kind = CORE_CREDIT, .lane = {.session = session, .ok = true, .credit = credit}};
    for (size_t i = 0; host->state == HOST_UP && session && i < HOST_LANES_MAX; i++)
        if (host->lanes[i].state.session == session) host_post(world, &host->lanes[i], &event);
}

/* Lets the connection send the delivery, unless its client does not read. */
static void pipe_takes(struct world *world, void *argument, uint64_t number) {
    struct sent *sent = argument;
    struct lane *lane = sent->lane;
    if (sent->life != world->host->life || lane->sent != sent) return;
    if (!lane_state_leaves(&lane->state, sent->turn)) {
        finish(world, lane, false);
        return;
    }
    if (sent->client->stalled) {
        world_after_ns(world, 10 * NS_PER_MS, pipe_takes, sent, 0);
        return;
    }
    network_deliver(world, sent->client, &sent->delivered);
    finish(world, lane, true);
}

void host_lane_send(struct world *world, const struct core_delivery *delivery, const struct outgoing_contents *contents,
                    bool is_made) {
    struct lane *lane = &world->host->lanes[delivery->lane];
    enum lane_send send = lane_state_send(&lane->state, delivery->turn, is_made);
    MUST(send == LANE_SILENT || lane->state.session == delivery->session);
    if (send == LANE_UNSENT) tell(world, lane, CORE_LANE_SENT, false);
    if (send != LANE_DELIVERS) return;
    struct sent *sent = world_alloc(world, sizeof *sent);
    *sent = (struct sent){.life = world->host->life, .turn = lane->state.turn, .lane = lane, .client = lane->client};
    sent->delivered = (struct delivered){
        .session = delivery->session,
        .tasks = world_alloc(world, contents->count * sizeof *sent->delivered.tasks),
        .contents = contents->contents,
        .count = contents->count,
    };
    for (size_t i = 0; i < contents->count; i++) {
        sent->delivered.tasks[i] = *contents->tasks[i];
        ledger_on_departure(world, contents->tasks[i], &contents->contents[i]);
    }
    lane->sent = sent;
    pipe_takes(world, sent, 0);
}
