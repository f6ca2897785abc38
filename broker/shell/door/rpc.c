/* rpc.c: see rpc.h. */
#include "rpc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "auditor.h"
#include "authorizer.h"
#include "backup.h"
#include "config.h"
#include "datadir.h"
#include "inbox.h"
#include "latency.h"
#include "log.h"
#include "logfmt.h"
#include "lone.h"
#include "node.h"
#include "pair_status.h"
#include "request.h"
#include "run.h"
#include "wire.h"

/* Unpacking, contents and salts usually take at most about this much more than the message itself. */
#define CHARGE_FACTOR 4
/* A commit full of acks stays below, packed and unpacked; what is larger is nothing that must go first. Nor is any
 * other request that is larger than one with good manners: a heartbeat, a subscription, a question. */
#define URGENT_SIZE_MAX (512u << 10)
#define URGENT_COMMIT_CHARGE_MAX (CHARGE_FACTOR * URGENT_SIZE_MAX)
#define URGENT_OTHER_CHARGE_MAX (256u << 10)
#define ARENA_MAX (8ull * REQUEST_SIZE_MAX)
#define ARENA_KEEP (2u << 20)
#define ARENAS_IDLE_MAX 8

static void forget_request(struct rpc_context *context) {
    if (context->memory != NULL) arena_pool_give(&context->rpc->arenas, context->memory);
    context->memory = NULL;
}

/* NULL: none is free; the door will be told when one is. */
static struct rpc_context *context_take(struct rpc *rpc) {
    pthread_mutex_lock(&rpc->mutex);
    struct rpc_context *context = rpc->free;
    if (context != NULL)
        rpc->free = context->next;
    else
        rpc->is_awaited = true;
    pthread_mutex_unlock(&rpc->mutex);
    return context;
}

static void context_give(struct rpc_context *context) {
    struct rpc *rpc = context->rpc;
    forget_request(context);
    atomic_fetch_sub(&rpc->charged, context->charge);
    context->charge = 0;
    if (context->expected > 0) {
        atomic_fetch_sub(&rpc->expected, context->expected);
        atomic_fetch_sub(&rpc->asking_long, 1);
    }
    context->expected = 0;
    if (context->size > 0) authorizer_give_bytes(context->principal, context->size);
    context->size = 0;
    access_release(context->principal);
    context->principal = NULL;
    atomic_fetch_sub(&rpc->busy, 1);
    if (context->follows) atomic_fetch_sub(&rpc->followed, 1);
    context->follows = false;
    if (context->asks_core) atomic_fetch_sub(&rpc->asking_core, 1);
    context->asks_core = false;
    if (context->posted_ns != 0) latency_add(rpc->needs.calls_us, (monotonic_ns() - context->posted_ns) / 1000);
    context->posted_ns = 0;
    context->proof = PEER_NONE;
    context->call.age_max_ms = 0;
    pthread_mutex_lock(&rpc->mutex);
    context->next = rpc->free;
    rpc->free = context;
    bool is_awaited = rpc->is_awaited;
    rpc->is_awaited = false;
    pthread_mutex_unlock(&rpc->mutex);
    if (is_awaited) door_resume(rpc->needs.door);
}

/* False: no memory. */
static bool prove(const struct rpc_context *context, struct message **reply) {
    size_t size = (*reply)->size + PEER_REPLY_TRAILER_SIZE;
    if (!message_grow(reply, size)) return false;
    memset((*reply)->bytes + (*reply)->size, 0, PEER_REPLY_TRAILER_SIZE);
    (*reply)->size = size;
    peer_prove_reply(context->rpc->needs.peer_key, context->nonce, (*reply)->bytes, size);
    return true;
}

/* False: no memory. */
static bool say_age(struct message **reply, uint32_t age_max_ms) {
    uint8_t field[WIRE_AGE_SIZE_MAX];
    size_t size = wire_age_encode(age_max_ms, field);
    if (!message_grow(reply, (*reply)->size + size)) return false;
    memcpy((*reply)->bytes + (*reply)->size, field, size);
    (*reply)->size += size;
    return true;
}

/* NULL, or no memory for the proof: the connection is dropped, so that the client asks again rather than waits. */
static void send_reply(struct call *call, struct message *reply) {
    struct rpc_context *context = (struct rpc_context *)call;
    struct door *door = context->rpc->needs.door;
    uint64_t from = context->from;
    if (reply != NULL && call->age_max_ms != 0 && !say_age(&reply, call->age_max_ms)) {
        message_free(reply);
        reply = NULL;
    }
    if (reply != NULL && context->proof == PEER_RIGHT && !prove(context, &reply)) {
        message_free(reply);
        reply = NULL;
    }
    if (reply != NULL) message_put_head(reply, context->head, context->head_size);
    /* First: a client that reads the answer finds this context free, and `busy` without it. */
    context_give(context);
    door_answer(door, from, reply);
}

/* Is there room for another commit that schedules, or is large? One may always be under way, however large. */
static bool has_room(const struct rpc *rpc, size_t charge) {
    size_t charged = atomic_load(&rpc->charged);
    size_t expected = atomic_load(&rpc->expected);
    if (expected > rpc->budget / 2) expected = rpc->budget / 2; /* the other half is never for answers */
    if (charged != charge && charged + expected + door_held(rpc->needs.door) > rpc->budget) return false;
    return atomic_load(&rpc->busy) <= RPC_CONTEXTS - RPC_CONTEXTS_RESERVED;
}

/* Answers of this kind are long, and wait for the requester to read them: a crowd of small questions must not fill
 * memory with them (CALM-1). Those of a task without its content are short. */
static size_t answer_size(const struct rpc *rpc, const struct core_event *event) {
    bool is_long = event->kind == CORE_LIST || event->kind == CORE_QUEUES || event->kind == CORE_STATS ||
                   event->kind == CORE_CALENDAR || (event->kind == CORE_GET && event->request->get->with_content);
    return is_long ? rpc->needs.config->payload_max : 0;
}

/* A message of very many small fields is much larger unpacked than was thought. False: too large to stay now. */
static bool may_stay(struct rpc_context *context, const struct core_event *event) {
    struct rpc *rpc = context->rpc;
    size_t used = context->memory->arena.used;
    if (used > context->charge) {
        atomic_fetch_add(&rpc->charged, used - context->charge);
        context->charge = used;
    }
    size_t urgent_max = event->kind == CORE_COMMIT ? URGENT_COMMIT_CHARGE_MAX : URGENT_OTHER_CHARGE_MAX;
    return context->charge <= urgent_max || has_room(rpc, context->charge);
}

/* Is there room for the long answer that is expected? One may always be under way. */
static bool may_ask(struct rpc_context *context, const struct core_event *event) {
    struct rpc *rpc = context->rpc;
    context->expected = answer_size(rpc, event);
    if (context->expected == 0) return true;
    size_t expected = atomic_fetch_add(&rpc->expected, context->expected) + context->expected;
    unsigned asking = atomic_fetch_add(&rpc->asking_long, 1) + 1;
    size_t charged = atomic_load(&rpc->charged);
    if (atomic_load(&rpc->busy) > RPC_CONTEXTS - RPC_CONTEXTS_RESERVED) return false;
    if (asking == 1 && charged == context->charge) return true;
    if (charged + expected + door_held(rpc->needs.door) > rpc->budget) return false;
    return asking <= RPC_CONTEXTS_OF_ANSWERS;
}

/* The core knows how long the answer will be, and most are far shorter than they may be. */
static void expect_size(struct call *call, size_t size) {
    struct rpc_context *context = (struct rpc_context *)call;
    struct rpc *rpc = context->rpc;
    if (size >= context->expected) return;
    atomic_fetch_sub(&rpc->expected, context->expected - size);
    context->expected = size;
}

static const char only_inspects[] =
    "this tarryd only inspects (--inspect): it answers get, list, queues, stats, calendar, history and audit, and "
    "changes and delivers nothing";

static const char no_peer[] =
    "this broker has no peer, so nobody can follow it: a pair is set up with --peer (tarryd(8))";

static const char another_cluster[] = "this broker's data are of another cluster than the client's producer";

/* A producer's number means another producer there, and so does its sequence (ONCE-1). */
static bool is_of_another_cluster(const struct rpc_needs *needs, const Tarry__Request *request) {
    if (request->cluster.len == 0) return false;
    return request->cluster.len != CLUSTER_ID_SIZE ||
           memcmp(request->cluster.data, needs->dir->cluster, CLUSTER_ID_SIZE) != 0;
}

static bool is_question(const struct core_event *event) {
    return event->kind == CORE_GET || event->kind == CORE_LIST || event->kind == CORE_QUEUES ||
           event->kind == CORE_STATS || event->kind == CORE_CALENDAR ||
           event->request->body_case == TARRY__REQUEST__BODY_AUDIT;
}

/* The last contexts are the other node's, or the requests that wait for its word would keep it from being heard. */
static bool is_too_busy(const struct rpc *rpc) {
    return rpc->needs.node->on && atomic_load(&rpc->busy) > RPC_CONTEXTS - RPC_CONTEXTS_OF_PEER;
}

/* Whether anything may go on now. A pair's broker that stops still answers the other node. */
static Tarry__Code refuse_now(const struct rpc *rpc, bool follows) {
    if (follows) return TARRY__CODE__OK;
    if (atomic_load(&rpc->needs.run->stopping)) return TARRY__CODE__STOPPING;
    return is_too_busy(rpc) ? TARRY__CODE__BUSY : TARRY__CODE__OK;
}

/* What is refused without being unpacked: what it seems to be is enough for that, and for nothing else. */
static Tarry__Code refuse_packed(struct rpc_context *context, const uint8_t *data, size_t size) {
    struct rpc *rpc = context->rpc;
    struct request_peek peek = {0};
    Tarry__Code code = refuse_now(rpc, context->proof != PEER_NONE);
    if (code != TARRY__CODE__OK || has_room(rpc, context->charge)) return code;
    if (size > URGENT_SIZE_MAX || (request_peek(data, size, &peek) && peek.schedules)) return TARRY__CODE__BUSY;
    return TARRY__CODE__OK;
}

/* What is too much just now. */
static Tarry__Code refuse_load(struct rpc_context *context, const struct core_event *event) {
    struct rpc *rpc = context->rpc;
    bool follows = context->proof == PEER_RIGHT && event->request->body_case == TARRY__REQUEST__BODY_FOLLOW;
    bool is_last = event->kind == 0 && !follows; /* a question about the log, a backup: others go first */
    bool schedules = request_has_op(event->request, TARRY__OP__OP_SCHEDULE);
    Tarry__Code code = refuse_now(rpc, follows);
    if (code != TARRY__CODE__OK) return code;
    if (!may_stay(context, event) || !may_ask(context, event)) return TARRY__CODE__BUSY;
    if ((is_last || schedules) && !has_room(rpc, context->charge)) return TARRY__CODE__BUSY;
    return TARRY__CODE__OK;
}

static const char unproved[] =
    "only the other node of this pair may ask this, and it proves that it is by the peer key (tarryd --peer-key)";
static const char stale[] = "this broker was started since: prove anew, with its challenge";
static const char another_key[] =
    "who asks has another peer key than this broker: give both nodes of the pair the same (tarryd --peer-key)";

/* NULL: the request needs no proof, or has a right one. */
static const char *refuse_proof(const struct rpc_context *context, const Tarry__Request *request) {
    static struct logfmt_limit limit;
    char quoted[LOGFMT_VALUE_SIZE];
    if (!context->rpc->needs.node->on || context->proof == PEER_RIGHT) return NULL;
    if (request->proof.len == 0 && request->body_case != TARRY__REQUEST__BODY_FOLLOW) return NULL;
    if (request->proof.len != 0 && context->proof == PEER_STALE) return stale;
    const char *sentence = request->proof.len == 0 ? unproved : another_key;
    if (logfmt_allowed(&limit))
        logfmt("peer_refused", "from=%s reason=%s", context->peer, logfmt_quote(sentence, quoted));
    return sentence;
}

static struct message *pack_challenge(const struct rpc_needs *needs, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = TARRY__CODE__NOT_DONE;
    reply.message = (char *)sentence;
    reply.challenge = (ProtobufCBinaryData){PEER_CHALLENGE_SIZE, (uint8_t *)needs->peer_key->challenge};
    return reply_pack(&reply);
}

static const char only_looked_at[] =
    "what is only inspected (--inspect) is as old as its last record: nobody can say how old that is (staleness_ms)";

/* A broker alone is never stale; one of a pair looks later (node_wish). */
static struct request_refusal refuse_wish(const struct rpc_needs *needs, const Tarry__Request *request,
                                          struct arena *arena) {
    uint64_t end = log_durable(needs->log);
    if (needs->node->on) return (struct request_refusal){TARRY__CODE__OK, NULL};
    if (request->at_least > end)
        return (struct request_refusal){TARRY__CODE__BEHIND, fresh_beyond(arena, request->at_least, end)};
    if (request->staleness_ms != 0 && needs->config->inspect)
        return (struct request_refusal){TARRY__CODE__TOO_OLD, only_looked_at};
    return (struct request_refusal){TARRY__CODE__OK, NULL};
}

/* What is refused though it makes sense. */
static struct request_refusal refuse_unpacked(const struct rpc_needs *needs, const struct core_event *event,
                                              struct arena *arena) {
    struct request_refusal refusal = {TARRY__CODE__OK, NULL};
    if (is_of_another_cluster(needs, event->request))
        refusal = (struct request_refusal){TARRY__CODE__NOT_PRIMARY, another_cluster};
    else if (needs->node->on)
        refusal.code = node_admits(needs->node, event, &refusal.sentence);
    else if (needs->config->inspect && !is_question(event))
        refusal = (struct request_refusal){TARRY__CODE__UNSUPPORTED, only_inspects};
    else if (event->request->body_case == TARRY__REQUEST__BODY_FOLLOW)
        refusal = (struct request_refusal){TARRY__CODE__NOT_DONE, no_peer};
    if (refusal.code == TARRY__CODE__OK) refusal = refuse_wish(needs, event->request, arena);
    return refusal;
}

static void post_to_auditor(const struct rpc_needs *needs, struct call *call) {
    if (node_confirms(needs->node))
        node_confirm(needs->node, call);
    else
        auditor_post(needs->auditor, call);
}

void rpc_go_on(struct rpc *rpc, struct call *call) {
    struct rpc_context *context = (struct rpc_context *)call;
    if (call->engine_request.event.request->body_case == TARRY__REQUEST__BODY_AUDIT) {
        post_to_auditor(&rpc->needs, call);
        return;
    }
    context->asks_core = true;
    atomic_fetch_add(&rpc->asking_core, 1);
    inbox_post(rpc->needs.inbox, &call->engine_request.item);
}

static void post_to_core(struct rpc_context *context) {
    struct rpc *rpc = context->rpc;
    context->asks_core = true;
    context->posted_ns = monotonic_ns();
    bool is_alone = atomic_fetch_add(&rpc->asking_core, 1) == 0;
    lone_post(rpc->needs.lone, &context->call.engine_request.item, context->from, is_alone);
}

static void pass_on(const struct rpc_needs *needs, struct call *call) {
    if (needs->node->on && fresh_is_asked_for(call->engine_request.event.request)) {
        node_wish(needs->node, call);
        return;
    }
    switch (call->engine_request.event.request->body_case) {
    case TARRY__REQUEST__BODY_AUDIT:
        post_to_auditor(needs, call);
        break;
    case TARRY__REQUEST__BODY_BACKUP:
        backup_post(needs->backup, call);
        break;
    case TARRY__REQUEST__BODY_FOLLOW:
        node_question(needs->node, call);
        break;
    case TARRY__REQUEST__BODY_PAIR:
        pair_answer(needs->pair_status, call);
        break;
    default:
        post_to_core((struct rpc_context *)call);
    }
}

static struct message *pack_refusal(const struct rpc_needs *needs, struct request_refusal refusal) {
    bool is_elsewhere = refusal.code == TARRY__CODE__NOT_PRIMARY && needs->node->on;
    bool is_stalled =
        refusal.code == TARRY__CODE__BUSY && needs->node->on && atomic_load(&needs->node->stalled_ns) != 0;
    if (is_elsewhere) return node_pack_refusal(needs->node, refusal.sentence);
    if (is_stalled && refusal.sentence != NULL) return reply_pack_soon(refusal.sentence);
    return reply_pack_refusal(refusal.code, refusal.sentence);
}

static const char too_many_bytes[] =
    "more bytes of requests are under way than this principal may have (bytes=, tarry token)";

static enum authorizer_side side_of(const struct rpc_context *context) {
    if (context->proof == PEER_RIGHT) return SIDE_PEER;
    return door_is_inside(context->from) ? SIDE_GATEWAY : SIDE_CLIENT;
}

static void handle(struct rpc_context *context, struct message *message) {
    struct rpc *rpc = context->rpc;
    const struct rpc_needs *needs = &rpc->needs;
    struct engine_request *engine_request = &context->call.engine_request;
    const uint8_t *data = message_data(message);
    size_t size = message_size(message);
    context->charge = (size + 1) * CHARGE_FACTOR;
    atomic_fetch_add(&rpc->charged, context->charge);
    atomic_fetch_add(&rpc->busy, 1);

    const struct peer_key *key = needs->peer_key;
    context->proof = needs->node->on ? peer_check_request(key, data, size, context->nonce) : PEER_NONE;
    const char *unproved_why = NULL;
    const struct request_setting setting = {.secret = needs->dir->secret,
                                            .principal = access_record_name(context->principal),
                                            .payload_max = (uint32_t)needs->config->payload_max};
    struct request_refusal refusal = {refuse_packed(context, data, size), NULL};
    if (refusal.code == TARRY__CODE__OK && !authorizer_take_bytes(needs->authorizer, context->principal, 0, size))
        refusal = (struct request_refusal){TARRY__CODE__BUSY, too_many_bytes};
    else if (refusal.code == TARRY__CODE__OK)
        context->size = size;
    if (refusal.code == TARRY__CODE__OK && (context->memory = arena_pool_take(&rpc->arenas)) == NULL)
        refusal.code = TARRY__CODE__BUSY;
    if (refusal.code == TARRY__CODE__OK &&
        request_prepare(&context->memory->arena, data, size, &setting, &engine_request->event, &refusal)) {
        engine_request->event.peer = context->peer; /* the requester: for records, those of refusals too */
        engine_request->event.pooled = door_is_inside(context->from);
        unproved_why = refuse_proof(context, engine_request->event.request);
        refusal.code = refuse_load(context, &engine_request->event);
        if (refusal.code == TARRY__CODE__OK)
            refusal = refuse_unpacked(needs, &engine_request->event, &context->memory->arena);
        if (refusal.code == TARRY__CODE__OK)
            refusal = authorizer_judge(needs->authorizer, context->principal, side_of(context), &context->memory->arena,
                                       &engine_request->event);
    }
    message_free(message); /* unpacking copied what is needed */
    if (refusal.code != TARRY__CODE__OK || unproved_why != NULL) {
        struct message *answer =
            unproved_why != NULL ? pack_challenge(needs, unproved_why) : pack_refusal(needs, refusal);
        forget_request(context); /* now, and not when the answer has left: a flood of nonsense must cost no memory */
        send_reply(&context->call, answer);
        return;
    }
    engine_request->event.ticket = call_ticket(&context->call);
    context->call.from_peer = context->proof == PEER_RIGHT;
    const Tarry__Request *request = engine_request->event.request;
    context->follows = request->body_case == TARRY__REQUEST__BODY_FOLLOW;
    if (context->follows) atomic_fetch_add(&rpc->followed, 1);
    if (context->follows && context->call.from_peer && !request->follow->probes) rpc->follower = context->from;
    engine_request->arena = &context->memory->arena;
    engine_request->hold = -1;
    engine_request->filled = false;
    engine_request->reads = 0;
    engine_request->size = size;
    engine_request->schedules = request_has_op(request, TARRY__OP__OP_SCHEDULE);
    engine_request->redacts = request_has_op(request, TARRY__OP__OP_REDACT);
    engine_request->want_count = 0;
    engine_request->refusal = (struct engine_refusal){0};
    engine_request->item.received_ns = 0;
    pass_on(needs, &context->call);
}

bool rpc_request(struct rpc *rpc, uint64_t from, uint64_t principal, const char *peer, struct message *request) {
    struct rpc_context *context = context_take(rpc);
    if (context == NULL) return false;
    context->from = from;
    context->principal = access_hold(principal_of(principal));
    memcpy(context->peer, peer, strlen(peer) + 1);
    context->head_size = request->head_size;
    memcpy(context->head, message_head(request), request->head_size);
    handle(context, request);
    return true;
}

void rpc_gone(struct rpc *rpc, uint64_t from) {
    if (from != rpc->follower) return;
    rpc->follower = 0;
    node_hung_up(rpc->needs.node);
}

struct message *rpc_refusal(bool is_principals) {
    return reply_pack_refusal(TARRY__CODE__BUSY, is_principals ? too_many_bytes : NULL);
}

void rpc_init(struct rpc *rpc, const struct rpc_needs *needs) {
    rpc->needs = *needs;
    pthread_mutex_init(&rpc->mutex, NULL);
    arena_pool_init(&rpc->arenas, ARENA_MAX, ARENA_KEEP, ARENAS_IDLE_MAX);
    rpc->budget = MEMORY_SHARE_REQUESTS(needs->config->memory);
    for (size_t i = RPC_CONTEXTS; i-- > 0;) {
        struct rpc_context *context = &rpc->contexts[i];
        context->rpc = rpc;
        context->call.answer = send_reply;
        context->call.sized = expect_size;
        context->call.engine_request.item.kind = ITEM_CALL;
        context->next = rpc->free;
        rpc->free = context;
    }
}

unsigned rpc_busy(const struct rpc *rpc) {
    unsigned followed = atomic_load(&rpc->followed); /* first: then there is one `busy` for each */
    return atomic_load(&rpc->busy) - followed;
}
