/* client.c: see client.h. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "errors.h"
#include "ops.h"
#include "tarry_limits.h"
#include "world.h"

/* Time in ms after which a client gives up a subscription whose lane does not connect; the same value as in libtarry.
 */
#define LANE_PATIENCE_MS 2000

struct client *client_new(struct world *world, const char *name) {
    MUST(world->client_count < WORLD_CLIENTS_MAX);
    struct client *client = world_alloc(world, sizeof *client);
    client->world = world;
    client->name = name;
    client->up = true;
    client->run = 1;
    world->clients[world->client_count++] = client;
    return client;
}

void client_free(struct client *client) {
    free(client->open); /* all other memory of a client belongs to the world, which frees it */
}

/* ---- requests */

static void give_up(struct client *client, struct request *request) {
    size_t kept = 0;
    for (size_t i = 0; i < client->open_count; i++) {
        if (client->open[i] != request) client->open[kept++] = client->open[i];
    }
    client->open_count = kept;
    request->answered = true;
}

static void send_again_if_open(struct world *world, void *argument, uint64_t run);

static uint64_t oldest_unanswered(const struct client *client, uint64_t producer, uint64_t sequence) {
    for (size_t i = 0; i < client->open_count; i++) {
        const Tarry__Request *body = client->open[i]->body;
        bool is_commit = body->body_case == TARRY__REQUEST__BODY_COMMIT && body->commit->producer == producer;
        if (is_commit && body->commit->sequence < sequence) return body->commit->sequence;
    }
    return sequence;
}

/* Makes the client use the other node of a pair. Does nothing if the client no longer uses `node`, to which the request
 * was sent. */
static void turn_away(struct client *client, uint32_t node) {
    if (client->world->host_count > 1 && client->node == node) client->node = 1 - node;
}

static void send_request(struct client *client, struct request *request) {
    struct world *world = client->world;
    request->tries++;
    request->node = client->node;
    Tarry__Commit *commit = request->body->body_case == TARRY__REQUEST__BODY_COMMIT ? request->body->commit : NULL;
    /* The broker may forget all replies that arrived before this attempt. */
    if (commit) commit->oldest_unanswered = oldest_unanswered(client, commit->producer, commit->sequence);
    network_request(world, client, request);
    if (world->options.by_hand) return;
    world_after(world, &world->options.retry, send_again_if_open, request, client->run);
}

static void send_again_if_open(struct world *world, void *argument, uint64_t run) {
    struct request *request = argument;
    struct client *client = request->client;
    if (request->answered || !client->up || client->run != run) return;
    TRACE(world, client->name, "asks again #%llu", (unsigned long long)request->number);
    turn_away(client, request->node); /* no reply arrived, so the client tries the other node, which may lead */
    send_request(client, request);
}

static struct request *request_new(struct client *client, Tarry__Request *body) {
    struct world *world = client->world;
    struct request *request = world_alloc(world, sizeof *request);
    request->client = client;
    request->body = body;
    request->number = ++world->ledger.requests;
    request->asked_ns = world->now_ns;
    if (client->open_count == client->open_capacity) {
        client->open_capacity = client->open_capacity ? 2 * client->open_capacity : 16;
        client->open = realloc(client->open, client->open_capacity * sizeof(struct request *));
        MUST(client->open);
    }
    client->open[client->open_count++] = request;
    return request;
}

static Tarry__Request *body_new(struct client *client, Tarry__Request__BodyCase kind) {
    Tarry__Request *body = world_alloc(client->world, sizeof *body);
    tarry__request__init(body);
    body->client = (char *)client->name;
    body->body_case = kind;
    return body;
}

struct request *client_ask(struct client *client, Tarry__Request *body) {
    struct request *request = request_new(client, body);
    send_request(client, request);
    return request;
}

void client_repeat(struct client *client, struct request *request) {
    if (!client->up) return;
    TRACE(client->world, client->name, "repeats #%llu", (unsigned long long)request->number);
    network_request(client->world, client, request);
}

void client_repeat_open(struct client *client) {
    for (size_t i = 0; client->up && i < client->open_count; i++) send_request(client, client->open[i]);
}

/* ---- producer */

void client_hello(struct client *client) {
    if (client->greeting || !client->up) return;
    client->greeting = true;
    Tarry__Request *body = body_new(client, TARRY__REQUEST__BODY_HELLO);
    body->hello = world_alloc(client->world, sizeof *body->hello);
    tarry__hello__init(body->hello);
    TRACE(client->world, client->name, "> hello");
    (void)client_ask(client, body);
}

/* Makes a payload that differs from all others and names its request. */
static void make_content(struct client *client, const struct request *request, size_t i, struct core_content *out) {
    struct world *world = client->world;
    size_t text_size = random_below(&world->random, 90);
    size_t size = BLOB_SALT_SIZE + text_size;
    uint8_t *data = world_alloc(world, size);
    for (size_t at = 0; at < BLOB_SALT_SIZE; at += 8) {
        uint64_t salt = random_u64(&world->random);
        memcpy(data + at, &salt, sizeof salt);
    }
    char text[64];
    size_t told =
        (size_t)snprintf(text, sizeof text, "%s #%llu.%zu ", client->name, (unsigned long long)request->number, i);
    for (size_t at = 0; at < text_size; at++) data[BLOB_SALT_SIZE + at] = (uint8_t)text[at % told];
    *out = (struct core_content){.data = data, .size = (uint32_t)size, .sum = frame_sum(data, size)};
    content_hash(data, size, out->hash);
}

struct request *client_commit(struct client *client, Tarry__Op **ops, size_t count, bool atomic) {
    struct world *world = client->world;
    if (!client->producer) client_hello(client);
    if (!client->producer || !client->up) return NULL;
    /* Sends no further commit while COMMITS_PER_PRODUCER_MAX follow the oldest open commit, because the broker
     * remembers no more replies. */
    uint64_t next = client->sequence + 1;
    if (next - oldest_unanswered(client, client->producer, next) >= COMMITS_PER_PRODUCER_MAX) return NULL;
    Tarry__Request *body = body_new(client, TARRY__REQUEST__BODY_COMMIT);
    Tarry__Commit *commit = body->commit = world_alloc(world, sizeof *commit);
    tarry__commit__init(commit);
    commit->producer = client->producer;
    commit->sequence = ++client->sequence;
    commit->atomic = atomic;
    commit->ops = ops;
    commit->n_ops = count;
    struct request *request = request_new(client, body);
    request->contents = world_alloc(world, count * sizeof *request->contents);
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->op_case == TARRY__OP__OP_SCHEDULE) make_content(client, request, i, &request->contents[i]);
        if (ops[i]->op_case ==
            TARRY__OP__OP_FAN_OUT) /* the shares get the content that came with the topic task's lease */
            request->contents[i] = *world->hosts[client->session_node].origins[ops[i]->fan_out->id].content;
        TRACE(world, client->name, "> %s%s #%llu", atomic && count > 1 ? "atomically " : "", op_text(ops[i]),
              (unsigned long long)request->number);
    }
    send_request(client, request);
    return request;
}

struct request *client_commit_one(struct client *client, Tarry__Op *op) {
    Tarry__Op **ops = world_copy(client->world, &op, sizeof(Tarry__Op *));
    return client_commit(client, ops, 1, false);
}

/* ---- consumer */

static void beat(struct world *world, void *argument, uint64_t session) {
    struct client *client = argument;
    if (!client->up || client->session != session || !session) return;
    if (!client->silent) client_heartbeat(client);
    if (client->pooled)
        client_credit(client, client->credit); /* sends the credit again, because the earlier message may be lost */
    world_after_ns(world, client->silence_ms * NS_PER_MS / 3, beat, client, session);
}

/* The client does not wait for the reply to a heartbeat: the next heartbeat repeats it. */
void client_heartbeat(struct client *client) {
    Tarry__Request *body = body_new(client, TARRY__REQUEST__BODY_HEARTBEAT);
    body->heartbeat = world_alloc(client->world, sizeof *body->heartbeat);
    tarry__heartbeat__init(body->heartbeat);
    body->heartbeat->session = client->session;
    struct request *request = world_alloc(client->world, sizeof *request);
    *request = (struct request){.client = client, .body = body, .number = ++client->world->ledger.requests};
    uint32_t node = client->node;
    client->node = client->session_node;
    network_request(client->world, client, request);
    client->node = node;
}

static void subscribe(struct client *client) {
    struct world *world = client->world;
    if (client->subscribing || !client->up || client->session) return;
    client->subscribing = true;
    bool is_same_life = world->hosts[client->session_node].life == client->session_life;
    if (client->pooled && !is_same_life)
        client->session_before =
            0; /* the restarted broker does not know the session, so the client does not ask to resume it */
    Tarry__Request *body = body_new(client, TARRY__REQUEST__BODY_SUBSCRIBE);
    Tarry__Subscribe *subscribe = body->subscribe = world_alloc(world, sizeof *subscribe);
    tarry__subscribe__init(subscribe);
    subscribe->queues = world_copy(world, client->queues, client->queue_count * sizeof(char *));
    subscribe->n_queues = client->mover || client->sharer ? 0 : client->queue_count;
    subscribe->mover = client->mover;
    subscribe->sharer = client->sharer;
    subscribe->prefetch = client->prefetch;
    subscribe->lease_ms = client->lease_ms;
    subscribe->bound = client->bound;
    if (client->session_before) {
        subscribe->resume.data = world_copy(world, &client->session_before, sizeof client->session_before);
        subscribe->resume.len = sizeof client->session_before;
    }
    TRACE(world, client->name, "> subscribe%s", client->session_before ? ", to go on" : "");
    (void)client_ask(client, body);
}

void client_subscribe(struct client *client, const char *const *queues, uint32_t prefetch, uint64_t lease_ms) {
    client->queue_count = 0;
    for (; queues[client->queue_count]; client->queue_count++) {
        MUST(client->queue_count < FLAT_QUEUES_MAX);
        client->queues[client->queue_count] = queues[client->queue_count];
    }
    client->prefetch = prefetch;
    client->lease_ms = lease_ms;
    client->wants_session = true;
    subscribe(client);
}

static void forget_session(struct client *client) {
    client->session = 0;
    client->subscribing = false;
}

void client_unsubscribe(struct client *client, bool keep) {
    struct world *world = client->world;
    client->wants_session = false;
    if (!client->session) return;
    Tarry__Request *body = body_new(client, TARRY__REQUEST__BODY_UNSUBSCRIBE);
    Tarry__Unsubscribe *unsubscribe = body->unsubscribe = world_alloc(world, sizeof *unsubscribe);
    tarry__unsubscribe__init(unsubscribe);
    unsubscribe->session = client->session;
    unsubscribe->keep_leases = keep || client->pooled;
    unsubscribe->seen = world_alloc(world, (client->held_count + 1) * sizeof(uint64_t));
    for (size_t i = 0; i < client->held_count; i++) unsubscribe->seen[unsubscribe->n_seen++] = client->held[i].id;
    TRACE(world, client->name, "> unsubscribe%s", keep ? ", keeping its leases" : "");
    (void)client_ask(client, body);
    if (!client->pooled) network_break_pipe(world, client, client->session);
    client->session_before = client->pooled ? client->session : 0; /* a pool resumes its former session */
    forget_session(client);
}

void client_credit(struct client *client, uint32_t credit) {
    MUST(client->pooled);
    client->credit = credit;
    if (client->session) network_credit(client->world, client, client->session, credit);
}

void client_break_pipe(struct client *client) {
    if (client->session && !client->pooled) network_break_pipe(client->world, client, client->session);
}

void client_on_pipe_broken(struct client *client, uint64_t session) {
    if (!client->up || client->session != session) return;
    TRACE(client->world, client->name, "has lost its lane");
    client->session_before = session;
    forget_session(client);
    if (client->wants_session) subscribe(client);
}

void client_on_delivery(struct client *client, const struct delivered *delivered) {
    if (!client->up || client->session != delivered->session) return; /* a client drops deliveries of other sessions */
    for (size_t i = 0; i < delivered->count; i++) {
        const struct row *row = &delivered->tasks[i].row;
        if (!client->sharer)
            ledger_on_arrival(client->world,
                              &delivered->tasks[i]); /* a delivery to a sharer does not count as seen by a consumer */
        TRACE(client->world, client->name, "gets task %llu, delivery %u", (unsigned long long)row->id, row->deliveries);
        if (client->held_count == CLIENT_HELD_MAX)
            memmove(client->held, client->held + 1, sizeof client->held[0] * --client->held_count);
        struct held *held = &client->held[client->held_count++];
        *held = (struct held){row->id, row->lease_epoch, row->lease_position, delivered->session};
        if (client->on_task) client->on_task(client, held);
    }
}

void client_settle(struct client *client, const struct held *held, Tarry__Op *op) {
    size_t kept = 0;
    struct held settled = *held;
    for (size_t i = 0; i < client->held_count; i++) {
        const struct held *other = &client->held[i];
        bool is_same = other->id == settled.id && other->position == settled.position && other->epoch == settled.epoch;
        if (!is_same) client->held[kept++] = *other;
    }
    client->held_count = kept;
    (void)client_commit_one(client, op);
}

/* ---- answers */

static void lose_patience(struct world *world, void *argument, uint64_t session) {
    struct client *client = argument;
    if (client->session == session && !client->lane_up) client_on_pipe_broken(client, session);
}

static void on_subscribed(struct client *client, uint32_t node, const Tarry__SubscribeReply *reply) {
    struct world *world = client->world;
    client->subscribing = false;
    if (client->session || !client->wants_session)
        return; /* this reply belongs to an earlier subscription, whose session will end because it sends no heartbeats
                 */
    TRACE(world, client->name, "< a lane%s", reply->resumed ? ", its leases kept" : "");
    client->session = reply->session;
    client->session_node = node;
    client->session_life = world->hosts[node].life;
    client->session_before = 0;
    client->silence_ms = reply->silence_ms;
    client->lane_up = false;
    network_lane_up(world, client, reply->lane, reply->session);
    world_after_ns(world, LANE_PATIENCE_MS * NS_PER_MS, lose_patience, client, client->session);
    world_after_ns(world, client->silence_ms * NS_PER_MS / 3, beat, client, client->session);
}

static void on_refused_heartbeat(struct client *client, const struct request *request) {
    if (client->session != request->body->heartbeat->session) return;
    client_on_pipe_broken(client, client->session);
}

static bool is_passing(Tarry__Code code) {
    if (code == TARRY__CODE__NOT_PRIMARY) return true;
    return code == TARRY__CODE__BUSY || code == TARRY__CODE__STOPPING || code == TARRY__CODE__FAILED;
}

static void on_reply(struct client *client, struct request *request, const struct answer *answer) {
    const Tarry__Reply *reply = answer->reply;
    switch (request->body->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
        client->greeting = false;
        if (reply->code != TARRY__CODE__OK || client->producer) return;
        client->producer = reply->hello->producer;
        client->used_ns = request->asked_ns;
        client->sequence = 0;
        TRACE(client->world, client->name, "< producer");
        return;
    case TARRY__REQUEST__BODY_SUBSCRIBE:
        if (reply->code == TARRY__CODE__OK)
            on_subscribed(client, answer->node, reply->subscribe);
        else
            client->subscribing =
                false; /* a queue of the subscription does not exist, so the client tries again later */
        return;
    case TARRY__REQUEST__BODY_HEARTBEAT:
        if (reply->code == TARRY__CODE__NO_SUCH_SESSION || reply->code == TARRY__CODE__NOT_PRIMARY)
            on_refused_heartbeat(client, request);
        return;
    default:
        return;
    }
}

static void trace_answer(struct client *client, const struct request *request, const struct answer *answer) {
    struct world *world = client->world;
    if (!world->trace.on || request->body->body_case == TARRY__REQUEST__BODY_HEARTBEAT) return;
    for (size_t i = 0; answer->commit && i < answer->commit->n_results; i++)
        TRACE(world, client->name, "< %s #%llu", result_text(answer->commit->results[i]),
              (unsigned long long)request->number);
    if (answer->reply && answer->reply->code != TARRY__CODE__OK)
        TRACE(world, client->name, "< refused: %s #%llu", code_name(answer->reply->code),
              (unsigned long long)request->number);
}

void client_on_answer(struct client *client, struct request *request, const struct answer *answer) {
    struct world *world = client->world;
    if (!client->up) return;
    trace_answer(client, request, answer);
    world->ledger.answers++;
    ledger_on_answer(world, request, answer);
    bool is_again = request->answered;
    bool is_refused = answer->reply && is_passing(answer->reply->code);
    if (is_refused && answer->reply->code == TARRY__CODE__NOT_PRIMARY) turn_away(client, answer->node);
    if (is_refused && request->body->body_case != TARRY__REQUEST__BODY_HEARTBEAT)
        return; /* the client subscribes again later */
    bool is_commit = request->body->body_case == TARRY__REQUEST__BODY_COMMIT;
    bool is_forgotten = is_commit && answer->reply && answer->reply->code == TARRY__CODE__FORGOTTEN;
    if (answer->commit && !is_again && client->producer == request->body->commit->producer)
        client->used_ns = request->asked_ns;
    if (is_forgotten && !is_again && client->producer == request->body->commit->producer) client->producer = 0;
    give_up(client, request);
    if (!is_again && answer->reply) on_reply(client, request, answer);
}

/* ---- life */

void client_crash(struct client *client) {
    if (client->pooled) return; /* a pooled session ends with the broker's process, so the client does not resume it */
    TRACE(client->world, client->name, "crashes");
    if (client->session) network_break_pipe(client->world, client, client->session);
    client->up = false;
    client->run++;
    client->held_count = 0;
    client->session_before = 0;
    client->greeting = false;
    client->deaf = client->silent = client->stalled = false;
    forget_session(client);
}

void client_forget(struct client *client) {
    TRACE(client->world, client->name, "has lost its outbox");
    while (client->open_count) give_up(client, client->open[0]);
    client->producer = 0;
}

void client_return(struct client *client) {
    if (client->up) return;
    TRACE(client->world, client->name, "is back");
    client->up = true;
    /* Drops the queries that were open in the former run. Open commits stay and are repeated. */
    size_t kept = 0;
    for (size_t i = 0; i < client->open_count; i++) {
        if (client->open[i]->body->body_case == TARRY__REQUEST__BODY_COMMIT) client->open[kept++] = client->open[i];
    }
    client->open_count = kept;
    client_repeat_open(client);
    if (!client->producer) client_hello(client);
    if (client->wants_session) subscribe(client);
}
