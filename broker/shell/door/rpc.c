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
#include "request.h"
#include "requests.h"
#include "run.h"
#include "stats.h"
#include "wire.h"

/* Memory of an unpacked request with contents and salts, as a multiple of the packed size; usually an upper bound. */
#define CHARGE_FACTOR 4
/* Size limits of urgent requests, which are admitted even when the memory budget is exceeded. Urgent requests are acks,
 * heartbeats, subscriptions and questions. Even a commit full of acks is smaller than these limits, packed and
 * unpacked. */
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

/* Takes a free context. NULL: no context is free; the broker calls door_resume when one becomes free. */
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

/* Returns the counter of the connection's questions. NULL: the requester is inside the broker and has one question at a
 * time. */
static _Atomic uint16_t *asking_of(const struct rpc_context *context) {
    if (door_is_inside(context->from)) return NULL;
    return &context->rpc->asking_of[context->from % DOOR_CONNECTIONS_MAX];
}

static void begin_question(struct rpc_context *context, size_t expected) {
    _Atomic uint16_t *of_connection = asking_of(context);
    struct access_usage *usage = &context->principal->usage;
    context->expected = expected;
    atomic_fetch_add(&context->rpc->expected, expected);
    atomic_fetch_add(&usage->answers_bytes, expected);
    atomic_fetch_add(&context->rpc->asking_long, 1);
    atomic_fetch_add(&usage->questions, 1);
    if (of_connection != NULL) atomic_fetch_add(of_connection, 1);
}

static void end_question(struct rpc_context *context) {
    _Atomic uint16_t *of_connection = asking_of(context);
    struct access_usage *usage = &context->principal->usage;
    atomic_fetch_sub(&context->rpc->expected, context->expected);
    atomic_fetch_sub(&usage->answers_bytes, context->expected);
    atomic_fetch_sub(&context->rpc->asking_long, 1);
    atomic_fetch_sub(&usage->questions, 1);
    if (of_connection != NULL) atomic_fetch_sub(of_connection, 1);
    context->expected = 0;
}

static void context_give(struct rpc_context *context) {
    struct rpc *rpc = context->rpc;
    forget_request(context);
    atomic_fetch_sub(&rpc->charged, context->charge);
    context->charge = 0;
    if (context->expected > 0) end_question(context);
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

/* Appends the proof to the reply. Returns false if memory is exhausted. */
static bool prove(const struct rpc_context *context, struct message **reply) {
    size_t size = (*reply)->size + PEER_REPLY_TRAILER_SIZE;
    if (!message_grow(reply, size)) return false;
    memset((*reply)->bytes + (*reply)->size, 0, PEER_REPLY_TRAILER_SIZE);
    (*reply)->size = size;
    peer_prove_reply(context->rpc->needs.peer_key, context->nonce, (*reply)->bytes, size);
    return true;
}

/* Appends the state's maximum age to the reply. Returns false if memory is exhausted. */
static bool say_age(struct message **reply, uint32_t age_max_ms) {
    uint8_t field[WIRE_AGE_SIZE_MAX];
    size_t size = wire_age_encode(age_max_ms, field);
    if (!message_grow(reply, (*reply)->size + size)) return false;
    memcpy((*reply)->bytes + (*reply)->size, field, size);
    (*reply)->size += size;
    return true;
}

/* Sends the reply. If `reply` is NULL, or no memory is left for the proof, the connection is closed, so that the client
 * asks again instead of waiting. */
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
    /* Free the context before the reply is sent, so that a client that has read the reply finds the context free and
     * not counted in `busy`. */
    context_give(context);
    door_answer(door, from, reply);
}

/* Returns whether memory and contexts are left for another commit that schedules or is large. The only pending request
 * is always admitted, however large. */
static bool has_room(const struct rpc *rpc, size_t charge) {
    size_t charged = atomic_load(&rpc->charged);
    size_t expected = atomic_load(&rpc->expected);
    /* The bytes reserved for replies are counted as at most half of the budget. */
    if (expected > rpc->budget / 2) expected = rpc->budget / 2;
    if (charged != charge && charged + expected + door_held(rpc->needs.door) > rpc->budget) return false;
    return atomic_load(&rpc->busy) <= RPC_CONTEXTS - RPC_CONTEXTS_RESERVED;
}

/* Bytes that a question reserves before the core knows the size of its reply; a list adds one row per task. */
#define ANSWER_ROOM (4u << 10)
#define LIST_ROW_ROOM 256u
#define RECUR_ROW_ROOM 2048u

/* Returns the bytes that a question reserves at first; 0: its reply is short. Long replies wait until the requester
 * reads them. Without a reservation, many small questions could fill the memory (CALM-1). */
static size_t answer_room(const Tarry__Request *request) {
    switch (request->body_case) {
#define REQUEST(CASE, member, Message, class, answerer, roles, reach, queue, check, room, ...)                         \
    case TARRY__REQUEST__BODY_##CASE: {                                                                                \
        const Tarry__##Message *m = request->member;                                                                   \
        (void)m;                                                                                                       \
        return room;                                                                                                   \
    }
#include "requests.def"
        REQUEST_UNKNOWN
    }
    return 0;
}

/* Charges the real size of the unpacked request: many small fields take much more memory than estimated. Returns false
 * if it is too large now. */
static bool may_stay(struct rpc_context *context, const struct core_request *request) {
    struct rpc *rpc = context->rpc;
    size_t used = context->memory->arena.used;
    if (used > context->charge) {
        atomic_fetch_add(&rpc->charged, used - context->charge);
        context->charge = used;
    }
    bool is_commit = request->message->body_case == TARRY__REQUEST__BODY_COMMIT;
    size_t urgent_max = is_commit ? URGENT_COMMIT_CHARGE_MAX : URGENT_OTHER_CHARGE_MAX;
    return context->charge <= urgent_max || has_room(rpc, context->charge);
}

/* Returns whether all reserved replies fit into the budget, including this one, and the principal's share is not
 * exceeded. A single reply is always admitted. */
static bool fits(const struct rpc_context *context) {
    const struct rpc *rpc = context->rpc;
    const size_t charged = atomic_load(&rpc->charged), expected = atomic_load(&rpc->expected);
    const size_t used = charged + expected + door_held(rpc->needs.door);
    if (atomic_load(&rpc->asking_long) == 1 && charged == context->charge) return true;
    return used <= rpc->budget &&
           atomic_load(&context->principal->usage.answers_bytes) <= RPC_BYTES_SHARE * (rpc->budget - used);
}

/* Returns whether the connection and the principal stay within their shares of questions. A single question is always
 * admitted. */
static bool has_share(const struct rpc_context *context) {
    const _Atomic uint16_t *of_connection = asking_of(context);
    const unsigned asking = atomic_load(&context->rpc->asking_long);
    const unsigned left = asking < RPC_CONTEXTS_OF_ANSWERS ? RPC_CONTEXTS_OF_ANSWERS - asking : 0;
    if (asking == 1) return true;
    return (of_connection == NULL || atomic_load(of_connection) <= left) &&
           atomic_load(&context->principal->usage.questions) <= RPC_PRINCIPAL_SHARE * left;
}

/* Reserves memory and a place for a reply that may be long. Returns whether both are granted. */
static bool may_ask(struct rpc_context *context, const struct core_request *request) {
    const size_t size = answer_room(request->message);
    if (size == 0) return true;
    begin_question(context, size);
    if (atomic_load(&context->rpc->busy) > RPC_CONTEXTS - RPC_CONTEXTS_RESERVED) return false;
    return has_share(context) && fits(context);
}

/* Replaces the estimate of the reply's size by the size that the core found. */
static bool expect_size(struct call *call, size_t size) {
    struct rpc_context *context = (struct rpc_context *)call;
    struct rpc *rpc = context->rpc;
    const size_t before = context->expected;
    if (before == 0) return true; /* nothing is reserved for a short reply */
    context->expected = size > 0 ? size : 1;
    /* If the reservation becomes smaller, the additions wrap around (modulo 2^64) and subtract. */
    atomic_fetch_add(&rpc->expected, context->expected - before);
    atomic_fetch_add(&context->principal->usage.answers_bytes, context->expected - before);
    return context->expected <= before || fits(context);
}

/* Reserves memory for the recorded reply of a repeated commit, because a request of 30 bytes may repeat a reply of 200
 * KB. A short reply, such as the reply to an ack, is never refused (CAP-1). */
static bool expect_repeat(struct call *call, size_t size) {
    struct rpc_context *context = (struct rpc_context *)call;
    if (size <= ANSWER_ROOM) return true;
    begin_question(context, size);
    return fits(context);
}

static const char only_inspects[] = "this tarryd runs with --inspect: it answers get, list, queues, stats, calendar, "
                                    "history and audit, but changes and delivers nothing";

static const char no_peer[] =
    "this broker has no peer, so no node can follow it: the option --peer makes a pair (tarryd(8))";

static const char another_cluster[] = "the client's producer belongs to another cluster than this broker";

/* Returns whether the request is meant for another cluster. Each cluster gives out its own producer numbers, so in the
 * other cluster the number and sequence belong to another producer (ONCE-1). */
static bool is_of_another_cluster(const struct rpc_needs *needs, const Tarry__Request *request) {
    if (request->cluster.len == 0) return false;
    return request->cluster.len != CLUSTER_ID_SIZE ||
           memcmp(request->cluster.data, needs->dir->cluster, CLUSTER_ID_SIZE) != 0;
}

/* Returns whether all free contexts are reserved for the other node. Without the reserve, requests that wait for the
 * other node's confirmation could block that confirmation. */
static bool is_too_busy(const struct rpc *rpc) {
    return rpc->needs.node->on && atomic_load(&rpc->busy) > RPC_CONTEXTS - RPC_CONTEXTS_OF_PEER;
}

/* Returns OK, or the code with which all requests are refused now. A pair's broker that is stopping still answers the
 * other node. */
static Tarry__Code refuse_now(const struct rpc *rpc, bool follows) {
    if (follows) return TARRY__CODE__OK;
    if (atomic_load(&rpc->needs.run->stopping)) return TARRY__CODE__STOPPING;
    return is_too_busy(rpc) ? TARRY__CODE__BUSY : TARRY__CODE__OK;
}

/* Refuses requests before they are unpacked. Counts of the packed bytes are used only for a refusal, not for any other
 * decision. */
static Tarry__Code refuse_packed(struct rpc_context *context, const uint8_t *data, size_t size) {
    struct rpc *rpc = context->rpc;
    struct request_peek peek = {0};
    Tarry__Code code = refuse_now(rpc, context->proof != PEER_NONE);
    if (code != TARRY__CODE__OK || has_room(rpc, context->charge)) return code;
    if (size > URGENT_SIZE_MAX || (request_peek(data, size, &peek) && peek.schedules)) return TARRY__CODE__BUSY;
    return TARRY__CODE__OK;
}

/* Refuses an unpacked request if there is too much load now. */
static Tarry__Code refuse_load(struct rpc_context *context, const struct core_request *request) {
    struct rpc *rpc = context->rpc;
    bool follows = context->proof == PEER_RIGHT && request->message->body_case == TARRY__REQUEST__BODY_FOLLOW;
    enum request_answerer answerer = request_answerer(request->message);
    /* Questions about the log, and backups, have the lowest priority. */
    bool is_last = answerer != BY_CORE && answerer != BY_LANES && !follows;
    bool schedules = request_has_op(request->message, TARRY__OP__OP_SCHEDULE);
    Tarry__Code code = refuse_now(rpc, follows);
    if (code != TARRY__CODE__OK) return code;
    if (!may_stay(context, request) || !may_ask(context, request)) return TARRY__CODE__BUSY;
    if ((is_last || schedules) && !has_room(rpc, context->charge)) return TARRY__CODE__BUSY;
    return TARRY__CODE__OK;
}

static const char unproved[] = "only the other node of this pair may send this request, and it must prove its identity "
                               "with the peer key (tarryd --peer-key)";
static const char stale[] = "this broker has restarted: send a new proof for its new challenge";
static const char another_key[] = "the requesting node has a different peer key than this broker: give both nodes of "
                                  "the pair the same key (tarryd --peer-key)";

/* Returns NULL if the request needs no proof or has a valid one. */
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
    "a broker with --inspect cannot prove how old its data are, so it refuses staleness_ms: omit it";

/* Checks the log position and the maximum age that the request demands for its reply. Data of a broker without a pair
 * are never old. In a pair, node_wish makes this check. */
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

/* Refuses valid requests that this broker cannot serve. */
static struct request_refusal refuse_unpacked(const struct rpc_needs *needs, const struct core_request *request,
                                              struct arena *arena) {
    struct request_refusal refusal = {TARRY__CODE__OK, NULL};
    if (is_of_another_cluster(needs, request->message))
        refusal = (struct request_refusal){TARRY__CODE__NOT_PRIMARY, another_cluster};
    else if (needs->node->on)
        refusal.code = node_admits(needs->node, request, &refusal.sentence);
    else if (needs->config->inspect && !request_is_question(request->message))
        refusal = (struct request_refusal){TARRY__CODE__UNSUPPORTED, only_inspects};
    else if (request->message->body_case == TARRY__REQUEST__BODY_FOLLOW)
        refusal = (struct request_refusal){TARRY__CODE__NOT_DONE, no_peer};
    if (refusal.code == TARRY__CODE__OK) refusal = refuse_wish(needs, request->message, arena);
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
    if (call->engine_request.event.request.message->body_case == TARRY__REQUEST__BODY_AUDIT) {
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

/* Attaches a lane to a PULL connection. Replies with the result of door_attach. */
static void attach(const struct rpc_needs *needs, struct call *call) {
    const Tarry__Attach *attach = call->engine_request.event.request.message->attach;
    struct caller_verdict verdict = door_attach(needs->door, attach->ticket.data, attach->ticket.len, attach->lane,
                                                attach->secret.data, attach->secret.len);
    Tarry__Code code = verdict.status == 0     ? TARRY__CODE__OK
                       : verdict.status == 404 ? TARRY__CODE__NOT_DONE
                       : verdict.status == 429 ? TARRY__CODE__BUSY
                                               : TARRY__CODE__DENIED;
    call->answer(call, reply_pack_refusal(code, verdict.sentence));
}

static void pass_on(const struct rpc_needs *needs, struct call *call) {
    if (needs->node->on && fresh_is_asked_for(call->engine_request.event.request.message)) {
        node_wish(needs->node, call);
        return;
    }
    switch (request_answerer(call->engine_request.event.request.message)) {
    case BY_NOBODY: /* request_prepare has refused unknown requests */
        assert(!"an unknown request is answered");
        break;
    case BY_CORE:
        post_to_core((struct rpc_context *)call);
        break;
    case BY_LANES:
        attach(needs, call);
        break;
    case BY_AUDITOR:
        post_to_auditor(needs, call);
        break;
    case BY_BACKUP:
        backup_post(needs->backup, call);
        break;
    case BY_LEADER:
        node_question(needs->node, call);
        break;
    case BY_NODE:
        pair_answer(needs->pair_status, call);
        break;
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

static const char too_many_bytes[] = "the requests of this principal reached its limit of bytes in progress (bytes=, "
                                     "tarry token): try again in a moment, or raise the limit";

static enum authorizer_side side_of(const struct rpc_context *context) {
    if (context->proof == PEER_RIGHT) return SIDE_PEER;
    return door_is_inside(context->from) ? SIDE_GATEWAY : SIDE_CLIENT;
}

static void receive_request(struct rpc_context *context, struct message *message) {
    struct rpc *rpc = context->rpc;
    const struct rpc_needs *needs = &rpc->needs;
    struct engine_request *engine_request = &context->call.engine_request;
    struct core_request *request = &engine_request->event.request;
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
    if (refusal.code == TARRY__CODE__OK && context->proof != PEER_RIGHT)
        refusal = authorizer_look_at_rate(needs->authorizer, context->principal, &context->memory->arena);
    if (refusal.code == TARRY__CODE__OK &&
        !request_prepare(&context->memory->arena, data, size, &setting, request, &refusal)) {
        authorizer_charge(context->principal);
    } else if (refusal.code == TARRY__CODE__OK) {
        request->peer = context->peer; /* the core records the requester, also in records of refusals */
        request->pooled = door_is_inside(context->from);
        unproved_why = refuse_proof(context, request->message);
        refusal.code = refuse_load(context, request);
        if (refusal.code == TARRY__CODE__OK) refusal = refuse_unpacked(needs, request, &context->memory->arena);
        if (refusal.code == TARRY__CODE__OK)
            refusal = authorizer_judge(needs->authorizer, context->principal, side_of(context), &context->memory->arena,
                                       request);
    }
    message_free(message); /* the message is no longer needed, because unpacking has copied its bytes */
    if (refusal.code != TARRY__CODE__OK || unproved_why != NULL) {
        struct message *answer =
            unproved_why != NULL ? pack_challenge(needs, unproved_why) : pack_refusal(needs, refusal);
        forget_request(context); /* free the request before the refusal is sent: a flood of malformed requests must not
                                    use memory */
        send_reply(&context->call, answer);
        return;
    }
    request->ticket = call_ticket(&context->call);
    context->call.from_peer = context->proof == PEER_RIGHT;
    const Tarry__Request *body = request->message;
    context->follows = body->body_case == TARRY__REQUEST__BODY_FOLLOW;
    if (context->follows) atomic_fetch_add(&rpc->followed, 1);
    if (context->follows && context->call.from_peer && !body->follow->probes) rpc->follower = context->from;
    engine_request->arena = &context->memory->arena;
    engine_request->hold = -1;
    engine_request->filled = false;
    engine_request->reads = 0;
    engine_request->size = size;
    engine_request->schedules = request_has_op(body, TARRY__OP__OP_SCHEDULE);
    engine_request->redacts = request_has_op(body, TARRY__OP__OP_REDACT);
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
    receive_request(context, request);
    return true;
}

bool rpc_has_spare(const struct rpc *rpc, const struct access_principal *principal, size_t size) {
    const uint64_t most = principal->entry.limits[LIMIT_bytes];
    return atomic_load(&rpc->busy) < RPC_CONTEXTS_SPARE &&
           (most == 0 || atomic_load(&principal->usage.bytes) + size <= most);
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
        context->call.repeats = expect_repeat;
        context->call.engine_request.item.kind = ITEM_CALL;
        context->call.engine_request.event.kind = CORE_REQUEST;
        context->next = rpc->free;
        rpc->free = context;
    }
}

unsigned rpc_busy(const struct rpc *rpc) {
    /* Read `followed` before `busy`, so that each Follow in `followed` is also counted in `busy`. */
    unsigned followed = atomic_load(&rpc->followed);
    return atomic_load(&rpc->busy) - followed;
}
