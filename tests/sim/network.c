/* network.c: see network.h. */
#include "network.h"

#include "../must.h"
#include "client.h"
#include "host.h"
#include "node.h"
#include "world.h"

#define REDIAL_MS 100

struct message {
    struct client *client;
    struct request *request; /* the request that the message carries; NULL: it carries none */
    uint64_t run;            /* run of the client that receives the message */
    uint64_t
        life; /* for messages about connections: life number of the broker; a message to an earlier life is dropped */
    struct answer answer; /* the reply that the message carries */
    struct delivered delivered;
    uint64_t session;
    uint64_t pipe; /* number, at the broker, of the connection that breaks */
    uint32_t lane;
    uint32_t node; /* for a request: the node that receives it */
    uint32_t credit;
};

static bool happens(struct world *world, uint32_t permille) {
    return permille && random_below(&world->random, 1000) < permille;
}

static void send(struct world *world, uint32_t place, happen *arrives, void *message, const bool *cut) {
    struct network *network = &world->network;
    size_t copies = happens(world, network->double_permille) ? 2 : 1;
    network->doubled += copies - 1;
    if (*cut || happens(world, network->drop_permille)) {
        network->dropped++;
        copies--;
    }
    for (size_t i = 0; i < copies; i++) {
        uint64_t ns = world_span_ns(world, &world->options.net);
        if (happens(world, network->late_permille))
            ns += random_below(&world->random, network->late_ms + 1) * NS_PER_MS;
        world_after_at(world, place, ns, arrives, message, 0);
    }
}

static void request_is_read(struct world *world, void *argument, uint64_t number) {
    host_read(world, argument);
}

/* Delivers the request to the machine's socket, even while the process is stopped. */
static void request_arrives(struct world *world, void *argument, uint64_t number) {
    const struct message *message = argument;
    if (message->client->link.cut_up) {
        world->network.dropped++;
        return;
    }
    world_enter(world, message->node);
    struct unread *unread = host_reached(world, message->client, message->request);
    if (unread) world_after_ns(world, 0, request_is_read, unread, 0);
}

struct letter {
    uint32_t from;
    uint64_t life;
    void (*run)(struct world *world, void *argument);
    void *message;
};

static void letter_arrives(struct world *world, void *argument, uint64_t number) {
    const struct letter *letter = argument;
    const struct host *host = world->host;
    bool is_lost = world->network.cut_from[letter->from] || host->state != HOST_UP || host->node->ended ||
                   (letter->life != NETWORK_ANY_LIFE && letter->life != host->life);
    if (is_lost) {
        world->network.dropped++;
        return;
    }
    node_post(world, letter->run, letter->message);
}

void network_between(struct world *world, uint32_t to, void (*run)(struct world *world, void *argument), void *message,
                     uint64_t life) {
    struct letter *letter = world_alloc(world, sizeof *letter);
    *letter = (struct letter){.from = 1 - to, .life = life, .run = run, .message = message};
    send(world, to, letter_arrives, letter, &world->network.cut_from[letter->from]);
}

void network_request(struct world *world, struct client *client, struct request *request) {
    struct message *message = world_alloc(world, sizeof *message);
    *message = (struct message){.client = client, .request = request, .node = client->node};
    send(world, WORLD_OUTSIDE, request_arrives, message, &client->link.cut_up);
}

static void answer_arrives(struct world *world, void *argument, uint64_t number) {
    const struct message *message = argument;
    bool is_lost = message->client->link.cut_down || message->run != message->client->run;
    if (is_lost) {
        world->network.dropped++;
        return;
    }
    client_on_answer(message->client, message->request, &message->answer);
}

void network_answer(struct world *world, struct client *client, struct request *request, const struct answer *answer) {
    struct message *message = world_alloc(world, sizeof *message);
    *message = (struct message){.client = client, .request = request, .run = client->run, .answer = *answer};
    send(world, WORLD_OUTSIDE, answer_arrives, message, &client->link.cut_down);
}

static void delivery_arrives(struct world *world, void *argument, uint64_t number) {
    const struct message *message = argument;
    struct client *client = message->client;
    bool is_lost = client->link.cut_down || message->run != client->run || client->deaf;
    if (is_lost) {
        world->network.dropped++;
        return;
    }
    client_on_delivery(client, &message->delivered);
}

void network_deliver(struct world *world, struct client *client, const struct delivered *delivered) {
    struct message *message = world_alloc(world, sizeof *message);
    *message = (struct message){.client = client, .run = client->run, .delivered = *delivered};
    send(world, WORLD_OUTSIDE, delivery_arrives, message, &client->link.cut_down);
}

static void lane_up_arrives(struct world *world, void *argument, uint64_t number) {
    struct message *message = argument;
    struct client *client = message->client;
    if (message->run != client->run || client->session != message->session)
        return; /* the client has given up this session */
    if (client->link.cut_up || world->host->state != HOST_UP) {
        world_after_at(world, client->session_node, REDIAL_MS * NS_PER_MS, lane_up_arrives, message, 0);
        return;
    }
    host_lane_up(world, client, message->lane, message->session);
    if (client->pooled) host_credit(world, message->session, client->credit);
}

/* Makes the client dial its lane again until the connection is made or the client gives up. */
void network_lane_up(struct world *world, struct client *client, uint32_t lane, uint64_t session) {
    struct message *message = world_alloc(world, sizeof *message);
    *message = (struct message){.client = client, .run = client->run, .lane = lane, .session = session};
    world_after_at(world, client->session_node, world_span_ns(world, &world->options.net), lane_up_arrives, message, 0);
}

static void client_hears(struct world *world, void *argument, uint64_t number) {
    const struct message *message = argument;
    if (message->run == message->client->run) client_on_pipe_broken(message->client, message->session);
}

static void broker_hears(struct world *world, void *argument, uint64_t number) {
    const struct message *message = argument;
    if (message->life == world->host->life) host_lane_gone(world, message->pipe);
}

static void credit_arrives(struct world *world, void *argument, uint64_t number) {
    const struct message *message = argument;
    if (message->life == world->host->life) host_credit(world, message->session, message->credit);
}

/* Sends a message within the broker's process, which is neither lost nor doubled. */
void network_credit(struct world *world, struct client *client, uint64_t session, uint32_t credit) {
    uint32_t node = client->session_node;
    struct message *message = world_alloc(world, sizeof *message);
    *message =
        (struct message){.client = client, .life = world->hosts[node].life, .session = session, .credit = credit};
    world_after_at(world, node, world_span_ns(world, &world->options.wake), credit_arrives, message, 0);
}

/* Breaks the connection. The broker and the client notice it independently. Each notices it only if the link towards it
 * is not cut. */
void network_break_pipe(struct world *world, struct client *client, uint64_t session) {
    uint32_t node = client->session_node;
    struct message *message = world_alloc(world, sizeof *message);
    *message =
        (struct message){.client = client, .run = client->run, .life = world->hosts[node].life, .session = session};
    if (client->pipe_session == session) message->pipe = client->pipe;
    const struct span *net = &world->options.net;
    if (!client->link.cut_down)
        world_after_at(world, WORLD_OUTSIDE, world_span_ns(world, net), client_hears, message, 0);
    if (!client->link.cut_up) world_after_at(world, node, world_span_ns(world, net), broker_hears, message, 0);
}
