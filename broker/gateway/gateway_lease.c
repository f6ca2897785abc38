/* gateway_lease.c: clients that wait for tasks. Leases of one principal from the same queues with the same lease time
 * share one session of the broker, called a *pool*. So a long poll costs no record, no lane and no session of its own.
 *
 *     asleep ──► subscribing ──► up ──► (no client waits for POOL_IDLE_MS) ──► leaving ──► asleep
 *                                 │  credit: the sum of the tasks that waiting clients accept
 *                                 ▼
 *                              delivery: distributed in the order of the requests ──► sent, or given back
 *
 * The gateway sets how many tasks the session may get (core.h, CORE_CREDIT). The broker sends no further delivery until
 * the gateway has reported the result of the last one (LANE_SENT). If no client has seen any task of a delivery,
 * LANE_SENT reports the delivery as not sent, and no attempt counts (TRUE-1). If only some clients have seen their
 * tasks, the gateway releases the other tasks. When the pool leaves, its session ends but keeps its leases; the
 * pool's next subscription takes them over. After a restart, the leases last until their deadlines, or until they
 * are settled by their tokens. Only the leases of a bound pool (gateway_lease_options.bound) end at once. */
#include "gateway.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway_parts.h"

#define POOL_IDLE_MS 2000u
/* Maximum number of pools. A sleeping pool is kept because its session holds leases; the least recently used is
 * evicted. */
#define POOLS_MAX 1024u

static const char too_many_wait[] =
    "the maximum number of requests wait for tasks (GATEWAY_LEASES_MAX): try again in a moment";

enum pool_state { POOL_ASLEEP, POOL_SUBSCRIBING, POOL_UP, POOL_LEAVING };

struct lease {
    struct timer timer; /* must be the first member; fires at the end of the wait */
    uint64_t id;
    struct gateway *gateway;
    struct pool *pool;   /* the lease's pool; NULL: the lease will be refused when the timer fires */
    struct share *share; /* the delivery that contains its tasks; NULL: the lease still waits */
    uint32_t max;
    bool is_now;   /* true: the client wants only tasks that are ready now */
    bool is_asked; /* true: the broker was asked whether tasks are ready, and the answer will apply to this lease */
    bool is_given_back; /* true: no client has seen the lease's tasks */
    gateway_leased *leased;
    void *argument;
    Tarry__DeliveredTask **tasks;
    size_t count;
    Tarry__Code code; /* code of the refusal */
    char *sentence;   /* owned; the refusal's message; NULL: the default text of the code */
    TAILQ_ENTRY(lease) next;
};
TAILQ_HEAD(lease_list, lease);

/* A delivery whose tasks are distributed to leases. */
struct share {
    struct pool *pool;
    Tarry__Delivery *delivery;
    struct lease_list leases;
    bool has_left;
    bool is_telling; /* true: callbacks are running that read `delivery`, so it is freed only after the last one returns
                      */
};

struct pool {
    struct timer idle; /* must be the first member; fires when no client has waited for POOL_IDLE_MS */
    TAILQ_ENTRY(pool) next;
    struct gateway *gateway;
    uint64_t id;
    uint64_t principal;
    char name[PRINCIPAL_SIZE_MAX + 1];
    char peer[PEER_SIZE_MAX + 1];
    char client[CLIENT_NAME_SIZE_MAX + 1];
    char **queues;
    size_t queue_count;
    uint64_t lease_ms;
    bool bound;
    bool mover;
    bool sharer;
    enum pool_state state;
    uint64_t session;
    uint32_t lane;
    uint8_t secret[64];
    size_t secret_size;
    struct lease_list waiting;
    unsigned share_count;
    bool is_asking;        /* true: the broker was asked whether tasks are ready now, and has not replied */
    struct share *current; /* the delivery whose result LANE_SENT has not yet reported; NULL: none */
    uint64_t turn;
    uint64_t stamp;
    uint32_t credit; /* the last credit that the gateway set */
};

static void pool_run(struct pool *pool);

/* ---- leases */

/* Default maximum wait of a lease that wants only tasks that are ready now. */
#define NOW_MAX_MS 1000u

static void lease_free(struct lease *lease) {
    struct gateway *gateway = lease->gateway;
    timer_cancel(gateway, &lease->timer);
    if (lease->pool != NULL)
        TAILQ_REMOVE(lease->share == NULL ? &lease->pool->waiting : &lease->share->leases, lease, next);
    handle_free(gateway, lease->id);
    gateway->lease_count--;
    free(lease->sentence);
    free(lease);
}

static void lease_tell(struct lease *lease, const struct gateway_leased *leased) {
    gateway_leased *tell = lease->leased;
    void *argument = lease->argument;
    lease_free(lease);
    tell(argument, leased);
}

static void refuse_waiting(struct pool *pool, const struct gateway_leased *refusal) {
    struct lease_list all = TAILQ_HEAD_INITIALIZER(all);
    struct lease *lease = NULL;
    /* A callback may add a new lease to pool->waiting. Only the leases that waited before are refused, so the new one
     * stays. */
    TAILQ_CONCAT(&all, &pool->waiting, next);
    while ((lease = TAILQ_FIRST(&all)) != NULL) {
        TAILQ_REMOVE(&all, lease, next);
        TAILQ_INSERT_HEAD(&pool->waiting, lease, next);
        lease_tell(lease, refusal);
    }
}

/* Refuses waiting leases with BUSY. Their timers call the callbacks later, because no callback may run within a
 * function of the interface. If `asked` is true, refuses only leases whose `is_asked` is true. */
static void refuse_later(struct pool *pool, bool asked) {
    struct lease *lease, *next;
    for (lease = TAILQ_FIRST(&pool->waiting); lease != NULL; lease = next) {
        next = TAILQ_NEXT(lease, next);
        if (asked && !lease->is_asked) continue;
        TAILQ_REMOVE(&pool->waiting, lease, next);
        lease->pool = NULL;
        lease->code = TARRY__CODE__BUSY;
        (void)timer_arm(pool->gateway, &lease->timer, 0); /* cannot fail, because the timer is already in the heap */
    }
}

/* ---- the result of a delivery */

/* Releases tasks that no client has seen, although other clients have seen tasks of the same delivery. */
static void release(struct pool *pool, Tarry__DeliveredTask *const *tasks, size_t count) {
    Tarry__Op *ops = calloc(count, sizeof(*ops));
    Tarry__Op **pointers = calloc(count, sizeof(*pointers));
    Tarry__Release *releases = calloc(count, sizeof(*releases));
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    const struct gateway_caller caller = {.principal = pool->principal, .peer = pool->peer, .client = pool->client};
    bool has_memory = ops != NULL && pointers != NULL && releases != NULL;
    for (size_t i = 0; has_memory && i < count; i++) {
        tarry__op__init(&ops[i]);
        tarry__release__init(&releases[i]);
        releases[i].id = tasks[i]->id;
        releases[i].token = tasks[i]->token;
        ops[i].op_case = TARRY__OP__OP_RELEASE;
        ops[i].release = &releases[i];
        pointers[i] = &ops[i];
    }
    commit.n_ops = count;
    commit.ops = pointers;
    /* If the commit cannot be made, or gets no reply, the leases end at their deadlines. */
    if (has_memory) (void)gateway_commit(pool->gateway, &caller, &commit, NULL, NULL, NULL);
    free(ops);
    free(pointers);
    free(releases);
}

static uint32_t credit_of(const struct pool *pool) {
    uint64_t credit = 0;
    const struct lease *lease = NULL;
    TAILQ_FOREACH(lease, &pool->waiting, next) {
        credit += lease->max;
    }
    return credit < BATCH_MAX ? (uint32_t)credit : BATCH_MAX;
}

static void give_credit(struct pool *pool) {
    const struct gateway_calls *calls = &pool->gateway->calls;
    pool->credit = credit_of(pool);
    calls->lane_credit(calls->argument, pool->lane, pool->session, pool->credit);
}

/* Sets the credit before LANE_SENT: the broker may send the next delivery as soon as it gets LANE_SENT. */
static void tell_sent(struct share *share, bool left) {
    struct pool *pool = share->pool;
    const struct gateway_calls *calls = &pool->gateway->calls;
    if (pool->current != share) return;
    pool->current = NULL;
    if (pool->state == POOL_UP) give_credit(pool);
    calls->lane_sent(calls->argument, pool->lane, pool->turn, left, pool->stamp);
}

static void share_over(struct share *share) {
    struct pool *pool = share->pool;
    struct lease *lease = NULL;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): lease_free removes it
    while ((lease = TAILQ_FIRST(&share->leases)) != NULL) lease_free(lease);
    tell_sent(share, share->has_left);
    tarry__delivery__free_unpacked(share->delivery, NULL);
    free(share);
    pool->share_count--;
    pool_run(pool);
}

/* Releases the tasks that no client has seen, after another part of the delivery was sent. */
static void release_unseen(struct share *share) {
    struct lease *lease, *next;
    for (lease = TAILQ_FIRST(&share->leases); lease != NULL; lease = next) {
        next = TAILQ_NEXT(lease, next);
        if (!lease->is_given_back) continue;
        release(share->pool, lease->tasks, lease->count);
        lease_free(lease);
    }
}

/* Frees the delivery once the result of each of its leases is known. */
static void end_if_over(struct share *share) {
    const struct lease *lease = NULL;
    TAILQ_FOREACH(lease, &share->leases, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): lease_free has removed those that it freed
        if (!lease->is_given_back) return;
    }
    share_over(share);
}

void gateway_left(struct gateway *gateway, uint64_t handle, bool left) {
    struct lease *lease = handle_find(gateway, handle, HANDLE_LEASE);
    if (lease == NULL || lease->share == NULL || lease->is_given_back) return;
    struct share *share = lease->share;
    share->has_left |= left;
    if (left) {
        tell_sent(share, true);
        lease_free(lease);
    } else {
        lease->is_given_back = true; /* the tasks are released if another part of the delivery is sent; otherwise
                                        LANE_SENT reports the whole delivery as not sent */
    }
    if (share->has_left) release_unseen(share);
    if (!share->is_telling) end_if_over(share);
}

void gateway_cancel(struct gateway *gateway, uint64_t handle) {
    struct lease *lease = handle_find(gateway, handle, HANDLE_LEASE);
    if (lease == NULL) return;
    if (lease->share != NULL) {
        gateway_left(gateway, handle, false);
        return;
    }
    struct pool *pool = lease->pool;
    lease_free(lease);
    if (pool != NULL) pool_run(pool);
}

/* Distributes the tasks in the order of the requests. Returns the number of distributed tasks. */
static size_t share_out(struct share *share) {
    struct pool *pool = share->pool;
    const Tarry__Delivery *delivery = share->delivery;
    size_t at = 0;
    struct lease *lease = NULL;
    while (at < delivery->n_tasks && (lease = TAILQ_FIRST(&pool->waiting)) != NULL) {
        size_t rest = delivery->n_tasks - at;
        TAILQ_REMOVE(&pool->waiting, lease, next);
        timer_cancel(pool->gateway, &lease->timer);
        lease->share = share;
        lease->tasks = delivery->tasks + at;
        lease->count = rest < lease->max ? rest : lease->max;
        TAILQ_INSERT_TAIL(&share->leases, lease, next);
        at += lease->count;
    }
    return at;
}

/* Calls the callback of each lease. A callback may call any function of the interface, so each lease is looked up by
 * its handle. The delivery is freed after the last callback has returned. */
static void tell_all(struct share *share) {
    struct gateway *gateway = share->pool->gateway;
    const uint64_t delivered_ms = share->delivery->delivered_ms;
    uint64_t ids[GATEWAY_LEASE_TASKS_MAX];
    size_t count = 0;
    struct lease *lease = NULL;
    TAILQ_FOREACH(lease, &share->leases, next) ids[count++] = lease->id;
    share->is_telling = true;
    for (size_t i = 0; i < count; i++) {
        lease = handle_find(gateway, ids[i], HANDLE_LEASE);
        if (lease == NULL || lease->is_given_back) continue;
        const struct gateway_leased leased = {.code = TARRY__CODE__OK,
                                              .tasks = lease->tasks,
                                              .count = lease->count,
                                              .delivered_ms = delivered_ms};
        lease->leased(lease->argument, &leased);
    }
    share->is_telling = false;
    end_if_over(share);
}

void pool_delivery(struct gateway *gateway, uint64_t id, const struct message *message) {
    struct pool *pool = handle_find(gateway, id, HANDLE_POOL);
    Tarry__Delivery *delivery = pool != NULL ? tarry__delivery__unpack(NULL, message->size, message->bytes) : NULL;
    bool is_wanted = delivery != NULL && delivery->session == pool->session && !TAILQ_EMPTY(&pool->waiting);
    struct share *share = is_wanted ? calloc(1, sizeof(*share)) : NULL;
    if (share == NULL) { /* no client waits, or memory is exhausted */
        if (pool != NULL && pool->state == POOL_UP) give_credit(pool);
        gateway->calls.lane_sent(gateway->calls.argument, message->lane, message->turn, false, message->stamp);
        if (delivery != NULL) tarry__delivery__free_unpacked(delivery, NULL);
        return;
    }
    *share = (struct share){.pool = pool, .delivery = delivery};
    TAILQ_INIT(&share->leases);
    pool->share_count++;
    pool->current = share;
    pool->turn = message->turn;
    pool->stamp = message->stamp;
    size_t shared = share_out(share);
    if (shared < delivery->n_tasks) { /* tasks are left over, because clients have left since the credit was set */
        share->has_left = true;
        release(pool, delivery->tasks + shared, delivery->n_tasks - shared);
    }
    tell_all(share);
}

/* ---- the session */

static const struct gateway_leased nothing_came = {.code = TARRY__CODE__OK};

/* Frees the pool's handle. The next session gets another handle, so late messages for the ended session are ignored. */
static void fall_asleep(struct pool *pool) {
    if (pool->id != 0) handle_free(pool->gateway, pool->id);
    pool->id = 0;
    pool->state = POOL_ASLEEP;
    pool_run(pool);
}

static void on_subscribed(void *argument, const Tarry__Reply *reply) {
    struct pool *pool = argument;
    const struct gateway_calls *calls = &pool->gateway->calls;
    bool is_ok = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_SUBSCRIBE;
    if (!is_ok) {
        const struct gateway_leased refusal = {.code = reply != NULL ? reply->code : TARRY__CODE__BUSY,
                                               .message = reply != NULL ? reply->message : "",
                                               .primary = reply != NULL ? reply->primary : ""};
        pool->secret_size = 0; /* the old session cannot be resumed any more */
        refuse_waiting(pool, &refusal);
        fall_asleep(pool);
        return;
    }
    const Tarry__SubscribeReply *subscribe = reply->subscribe;
    pool->session = subscribe->session;
    pool->lane = subscribe->lane;
    pool->secret_size = subscribe->secret.len <= sizeof(pool->secret) ? subscribe->secret.len : 0;
    if (pool->secret_size > 0) memcpy(pool->secret, subscribe->secret.data, pool->secret_size);
    pool->id = handle_new(pool->gateway, HANDLE_POOL, pool);
    if (pool->id == 0 || !calls->lane_up(calls->argument, pool->lane, pool->session, pool->id)) {
        on_subscribed(pool, NULL);
        return;
    }
    pool->state = POOL_UP;
    give_credit(pool);
    pool_run(pool);
}

static uint64_t pool_ask(struct pool *pool, Tarry__Request *request, gateway_reply *reply, void *argument) {
    const struct gateway_caller caller = {.principal = pool->principal, .peer = pool->peer, .client = pool->client};
    return gateway_ask(pool->gateway, &caller, request, reply, argument);
}

static void subscribe(struct pool *pool) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    body.n_queues = pool->queue_count;
    body.queues = pool->queues;
    body.max_batch = BATCH_MAX;
    body.lease_ms = pool->lease_ms;
    body.bound = pool->bound;
    body.mover = pool->mover;
    body.sharer = pool->sharer;
    body.resume = (ProtobufCBinaryData){.len = pool->secret_size, .data = pool->secret};
    if (pool_ask(pool, &request, on_subscribed, pool) != 0)
        pool->state = POOL_SUBSCRIBING;
    else
        refuse_later(pool, false);
}

static void on_unsubscribed(void *argument, const Tarry__Reply *reply) {
    fall_asleep(argument);
}

static void on_idle(struct gateway *gateway, struct timer *timer) {
    struct pool *pool = (struct pool *)timer;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    if (pool->state != POOL_UP || !TAILQ_EMPTY(&pool->waiting) || pool->current != NULL) return;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &body;
    body.session = pool->session;
    body.keep_leases = true;
    pool->state = POOL_LEAVING;
    if (pool_ask(pool, &request, on_unsubscribed, pool) == 0) pool->state = POOL_UP;
}

void pool_ended(struct gateway *gateway, uint64_t id) {
    struct pool *pool = handle_find(gateway, id, HANDLE_POOL);
    if (pool != NULL && pool->state == POOL_UP) fall_asleep(pool);
}

/* ---- tasks that are ready now */

static void on_heard(void *argument, const Tarry__Reply *reply) {
    struct pool *pool = argument;
    pool->is_asking = false;
    /* The broker has already decided a delivery, which will arrive. */
    bool is_coming = reply != NULL && reply->position != 0;
    struct lease *lease, *next;
    struct lease_list over = TAILQ_HEAD_INITIALIZER(over);
    for (lease = TAILQ_FIRST(&pool->waiting); lease != NULL; lease = next) {
        next = TAILQ_NEXT(lease, next);
        if (!lease->is_asked) continue;
        lease->is_asked = false;
        if (is_coming) continue; /* if the delivery does not reach this client, the pool asks the broker again */
        TAILQ_REMOVE(&pool->waiting, lease, next);
        TAILQ_INSERT_TAIL(&over, lease, next);
    }
    while ((lease = TAILQ_FIRST(&over)) != NULL) {
        TAILQ_REMOVE(&over, lease, next);
        TAILQ_INSERT_HEAD(&pool->waiting, lease, next);
        lease_tell(lease, &nothing_came);
    }
    if (!is_coming) pool_run(pool);
}

/* Asks the broker whether tasks are ready, for clients that do not wait. The broker processes events in order, so its
 * reply takes into account the credit that was set before. */
static void ask_what_is_there(struct pool *pool) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Heartbeat body = TARRY__HEARTBEAT__INIT;
    struct lease *lease = NULL;
    bool has_any = false;
    if (pool->is_asking) return;
    TAILQ_FOREACH(lease, &pool->waiting, next) {
        lease->is_asked = lease->is_now;
        has_any |= lease->is_now;
    }
    if (!has_any) return;
    request.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &body;
    body.session = pool->session;
    pool->is_asking = pool_ask(pool, &request, on_heard, pool) != 0;
    if (!pool->is_asking) refuse_later(pool, true);
}

/* Does the next step for the pool's state. Called after each change. */
static void pool_run(struct pool *pool) {
    struct gateway *gateway = pool->gateway;
    bool is_awaited = !TAILQ_EMPTY(&pool->waiting);
    if (is_awaited) timer_cancel(gateway, &pool->idle);
    if (pool->state == POOL_ASLEEP && is_awaited) subscribe(pool);
    if (pool->state != POOL_UP || pool->current != NULL) return;
    if (credit_of(pool) != pool->credit) give_credit(pool);
    if (is_awaited)
        ask_what_is_there(pool);
    else if (pool->idle.place == 0)
        (void)timer_arm(gateway, &pool->idle, POOL_IDLE_MS);
}

/* ---- pools */

static void pool_free(struct pool *pool) {
    struct gateway *gateway = pool->gateway;
    timer_cancel(gateway, &pool->idle);
    TAILQ_REMOVE(&gateway->pools, pool, next);
    gateway->pool_count--;
    if (pool->id != 0) handle_free(gateway, pool->id);
    if (pool->principal != 0) gateway->calls.release(gateway->calls.argument, pool->principal);
    for (size_t i = 0; pool->queues != NULL && i < pool->queue_count; i++) free(pool->queues[i]);
    free(pool->queues);
    free(pool);
}

static bool is_of(const struct pool *pool, const char *name, const struct gateway_lease_options *options) {
    if (pool->lease_ms != options->lease_ms || pool->bound != options->bound) return false;
    if (pool->mover != options->mover || pool->sharer != options->sharer || pool->queue_count != options->queue_count)
        return false;
    if (strcmp(pool->name, name) != 0) return false;
    for (size_t i = 0; i < pool->queue_count; i++)
        if (strcmp(pool->queues[i], options->queues[i]) != 0) return false;
    return true;
}

/* Evicts the least recently used idle pool. False: all pools are in use. */
static bool forget_one(struct gateway *gateway) {
    struct pool *pool = NULL;
    TAILQ_FOREACH(pool, &gateway->pools, next) {
        bool rests = pool->state == POOL_ASLEEP && TAILQ_EMPTY(&pool->waiting) && pool->share_count == 0;
        if (!rests || pool->is_asking) continue; /* the pool is in use, or a reply for it is outstanding */
        pool_free(pool);
        return true;
    }
    return false;
}

static bool copy_queues(struct pool *pool, const struct gateway_lease_options *options) {
    pool->queues = calloc(options->queue_count + 1, sizeof(*pool->queues));
    if (pool->queues == NULL) return false;
    pool->queue_count = options->queue_count;
    for (size_t i = 0; i < options->queue_count; i++)
        if ((pool->queues[i] = strdup(options->queues[i])) == NULL) return false;
    return true;
}

/* Makes a pool. Returns NULL if memory is exhausted or POOLS_MAX pools are in use. */
static struct pool *pool_new(struct gateway *gateway, const char *name, const struct gateway_lease_options *options) {
    if (gateway->pool_count >= POOLS_MAX && !forget_one(gateway)) return NULL;
    struct pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) return NULL;
    *pool = (struct pool){.idle.fires = on_idle,
                          .gateway = gateway,
                          .lease_ms = options->lease_ms,
                          .bound = options->bound,
                          .mover = options->mover,
                          .sharer = options->sharer};
    TAILQ_INIT(&pool->waiting);
    TAILQ_INSERT_TAIL(&gateway->pools, pool, next);
    gateway->pool_count++;
    strncpy(pool->name, name, PRINCIPAL_SIZE_MAX);
    if (copy_queues(pool, options)) return pool;
    pool_free(pool);
    return NULL;
}

static struct pool *pool_of(struct gateway *gateway, const struct gateway_caller *caller,
                            const struct gateway_lease_options *options) {
    const struct gateway_calls *calls = &gateway->calls;
    const char *name = calls->name(calls->argument, caller->principal);
    struct pool *pool = TAILQ_FIRST(&gateway->pools);
    while (pool != NULL && !is_of(pool, name, options)) pool = TAILQ_NEXT(pool, next);
    if (pool == NULL) pool = pool_new(gateway, name, options);
    if (pool == NULL) return NULL;
    TAILQ_REMOVE(&gateway->pools, pool, next);
    TAILQ_INSERT_TAIL(&gateway->pools, pool, next);
    if (pool->principal != caller->principal) {
        if (pool->principal != 0) calls->release(calls->argument, pool->principal);
        pool->principal = calls->hold(calls->argument, caller->principal);
    }
    strncpy(pool->peer, caller->peer, PEER_SIZE_MAX);
    strncpy(pool->client, caller->client, CLIENT_NAME_SIZE_MAX);
    return pool;
}

/* ---- the interface */

static void on_waited(struct gateway *gateway, struct timer *timer) {
    struct lease *lease = (struct lease *)timer;
    struct pool *pool = lease->pool;
    if (pool == NULL) {
        char *sentence = lease->sentence;
        const struct gateway_leased refusal = {.code = lease->code, .message = sentence};
        lease->sentence = NULL;
        lease_tell(lease, &refusal);
        free(sentence);
        return;
    }
    lease_tell(lease, &nothing_came);
    pool_run(pool);
}

/* Makes a lease. `after_ms` UINT64_MAX: its wait never ends. Returns NULL if memory is exhausted. */
static struct lease *lease_new(struct gateway *gateway, uint64_t after_ms, gateway_leased *leased, void *argument) {
    struct lease *lease = calloc(1, sizeof(*lease));
    if (lease == NULL) return NULL;
    *lease = (struct lease){.timer.fires = on_waited, .gateway = gateway, .leased = leased, .argument = argument};
    lease->id = handle_new(gateway, HANDLE_LEASE, lease);
    if (lease->id != 0 && timer_arm(gateway, &lease->timer, after_ms)) {
        gateway->lease_count++;
        return lease;
    }
    if (lease->id != 0) handle_free(gateway, lease->id);
    free(lease);
    return NULL;
}

uint64_t gateway_lease(struct gateway *gateway, const struct gateway_caller *caller,
                       const struct gateway_lease_options *options, gateway_leased *leased, void *argument) {
    char sentence[GATEWAY_SENTENCE_SIZE] = "";
    const struct gateway_calls *calls = &gateway->calls;
    assert(options->max >= 1 && options->max <= GATEWAY_LEASE_TASKS_MAX && options->wait_ms <= GATEWAY_WAIT_MAX_MS);
    assert((options->queue_count == 0) == (options->mover || options->sharer) &&
           options->queue_count <= QUEUES_PER_SUBSCRIBE_MAX);
    Tarry__Code code =
        calls->may_lease(calls->argument, caller->principal, options->queues, options->queue_count, sentence);
    if (code == TARRY__CODE__OK && gateway->lease_count >= GATEWAY_LEASES_MAX) {
        code = TARRY__CODE__BUSY;
        snprintf(sentence, sizeof(sentence), "%s", too_many_wait);
    }
    bool is_now = options->wait_ms == 0;
    uint64_t now_ms = options->now_ms != 0 ? options->now_ms : NOW_MAX_MS;
    uint64_t after_ms = code != TARRY__CODE__OK ? 0 : is_now ? now_ms : options->wait_ms;
    struct pool *pool = code == TARRY__CODE__OK ? pool_of(gateway, caller, options) : NULL;
    if (code == TARRY__CODE__OK && pool == NULL) return 0;
    struct lease *lease = lease_new(gateway, after_ms, leased, argument);
    if (lease == NULL) return 0;
    uint64_t id = lease->id;
    lease->code = code;
    lease->max = options->max;
    lease->is_now = is_now;
    if (pool == NULL) {
        lease->sentence = sentence[0] != '\0' ? strdup(sentence) : NULL;
        return id;
    }
    lease->pool = pool;
    TAILQ_INSERT_TAIL(&pool->waiting, lease, next);
    pool_run(pool);
    return id;
}

/* Frees a lease without a callback. A lease that is refused or has tasks is in no pool's list; only its handle refers
 * to it. */
void lease_forget(struct lease *lease) {
    struct share *share = lease->share;
    lease_free(lease);
    if (share == NULL || !TAILQ_EMPTY(&share->leases)) return;
    tarry__delivery__free_unpacked(share->delivery, NULL);
    free(share);
}

void pools_free(struct gateway *gateway) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): pool_free removes it
    while (!TAILQ_EMPTY(&gateway->pools)) pool_free(TAILQ_FIRST(&gateway->pools));
}
