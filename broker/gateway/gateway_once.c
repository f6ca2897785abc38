/* gateway_once.c: commits with an idempotency key (gateway_once).
 *
 * A key must survive this process and this node, so the log stores it: as a *receipt*, a task in a reserved queue of
 * the broker. A commit with a key takes these steps:
 *
 * 1. Reserve a producer and a sequence number.
 *
 * 2. Schedule the receipt. It contains the producer, the sequence number and the request's fingerprint. The key of the
 * receipt's task is the hash of the client's key. If an earlier receipt already has this key, read that receipt, and
 * use its producer and sequence number instead.
 *
 * 3. Commit under the producer and sequence. If the broker has already executed this commit, it answers from its log;
 * otherwise it executes the commit now (ONCE-1).
 *
 * After a crash between two of these steps, the next request with the same key continues at the step that was not
 * done. A receipt is due when the key may be forgotten; the gateway then removes the receipt. The broker may forget
 * the reply of a commit earlier, because its table of producers is bounded. In that case the result is FORGOTTEN;
 * the commit is never executed a second time. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway_parts.h"

#define HEX_SIZE 65u
#define NUMBER_SIZE 21u
#define TRIES_MAX 3u
#define SWEEP_FIRST_MS 60000u
#define SWEEP_MS 600000u
#define SWEEP_TASKS 1000u
#define SWEEP_LEASE_MS 60000u

const char gateway_once_differs[] = "this Idempotency-Key was already used for a different request";
static const char no_receipt[] =
    "the stored result of this Idempotency-Key cannot be read: another program wrote the task that should contain it";

struct once {
    uint8_t fingerprint[GATEWAY_FINGERPRINT_SIZE];
    char key[HEX_SIZE];
    uint64_t producer;
    uint64_t sequence;
};

void once_free(struct once *once) {
    free(once);
}

static struct gateway_caller own_caller(struct gateway *gateway) {
    return (struct gateway_caller){.principal = gateway->calls.own(gateway->calls.argument),
                                   .peer = "gateway",
                                   .client = "gateway"};
}

static void own_release(struct gateway *gateway, const struct gateway_caller *caller) {
    gateway->calls.release(gateway->calls.argument, caller->principal);
}

/* ---- receipts */

static void commit_under(struct ask *ask, uint64_t producer, uint64_t sequence) {
    ask->kept_producer = producer;
    commit_number(ask, producer, sequence, 1);
    ask_offer(ask);
}

static bool read_number(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && *out != 0;
}

/* Reads a receipt. Returns 1 if it belongs to this request, -1 if it belongs to another request, and 0 if it is not a
 * valid receipt. */
static int read_receipt(const struct once *once, const ProtobufCBinaryData *packed, uint64_t *producer,
                        uint64_t *sequence) {
    char fingerprint[HEX_SIZE];
    Tarry__Content *content = tarry__content__unpack(NULL, packed->len, packed->data);
    if (content == NULL) return 0;
    bool is_one = content->n_attributes == 3 && read_number(content->attributes[0]->value, producer) &&
                  read_number(content->attributes[1]->value, sequence);
    sodium_bin2hex(fingerprint, sizeof(fingerprint), once->fingerprint, sizeof(once->fingerprint));
    bool is_same = is_one && strcmp(content->attributes[2]->value, fingerprint) == 0;
    tarry__content__free_unpacked(content, NULL);
    return !is_one ? 0 : is_same ? 1 : -1;
}

static void take_receipt(struct ask *ask);

static void on_read(void *argument, const Tarry__Reply *reply) {
    struct ask *ask = argument;
    uint64_t producer, sequence;
    if (reply == NULL || reply->code != TARRY__CODE__OK || reply->body_case != TARRY__REPLY__BODY_GET) {
        ask_answer(ask, reply);
        return;
    }
    const Tarry__TaskView *task = reply->get->task;
    if (task == NULL || task->content.len == 0) { /* the receipt was removed meanwhile, so the key is free again */
        if (++ask->tries < TRIES_MAX)
            take_receipt(ask);
        else
            ask_refuse(ask, TARRY__CODE__BUSY, NULL);
        return;
    }
    int found = read_receipt(ask->once, &task->content, &producer, &sequence);
    if (found == 1)
        commit_under(ask, producer, sequence);
    else
        ask_refuse(ask, TARRY__CODE__INVALID, found < 0 ? gateway_once_differs : no_receipt);
}

static void read_taken(struct ask *ask, uint64_t id) {
    struct gateway *gateway = ask->gateway;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    ref.id = id;
    get.task = &ref;
    get.with_content = true;
    request.body_case = TARRY__REQUEST__BODY_GET;
    request.get = &get;
    struct gateway_caller caller = own_caller(gateway);
    if (gateway_ask(gateway, &caller, &request, on_read, ask) == 0) ask_refuse(ask, TARRY__CODE__BUSY, NULL);
    own_release(gateway, &caller);
}

static void on_receipt(void *argument, const Tarry__Reply *reply) {
    struct ask *ask = argument;
    bool is_done = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_COMMIT &&
                   reply->commit->n_results == 1;
    if (!is_done) {
        ask_answer(ask, reply);
        return;
    }
    const Tarry__OpResult *result = reply->commit->results[0];
    if (result->code == TARRY__CODE__OK)
        commit_under(ask, ask->once->producer, ask->once->sequence);
    else if (result->code == TARRY__CODE__EXISTS)
        read_taken(ask, result->id);
    else
        ask_refuse(ask, result->code, result->message);
}

/* Packs the content of the receipt. Returns NULL if memory is exhausted. */
static uint8_t *pack_content(const struct once *once, size_t *out_size) {
    char numbers[2][NUMBER_SIZE], fingerprint[HEX_SIZE];
    snprintf(numbers[0], NUMBER_SIZE, "%" PRIu64, once->producer);
    snprintf(numbers[1], NUMBER_SIZE, "%" PRIu64, once->sequence);
    sodium_bin2hex(fingerprint, sizeof(fingerprint), once->fingerprint, sizeof(once->fingerprint));
    char *const names[] = {"producer", "sequence", "request"}, *const values[] = {numbers[0], numbers[1], fingerprint};
    Tarry__Attribute attributes[3], *pointers[3];
    for (size_t i = 0; i < 3; i++) {
        tarry__attribute__init(&attributes[i]);
        attributes[i].name = names[i];
        attributes[i].value = values[i];
        pointers[i] = &attributes[i];
    }
    Tarry__Content content = TARRY__CONTENT__INIT;
    content.n_attributes = 3;
    content.attributes = pointers;
    *out_size = tarry__content__get_packed_size(&content);
    uint8_t *packed = malloc(*out_size);
    if (packed != NULL) tarry__content__pack(&content, packed);
    return packed;
}

static void schedule_receipt(struct ask *ask) {
    struct gateway *gateway = ask->gateway;
    struct once *once = ask->once;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    Tarry__Op op = TARRY__OP__INIT, *ops = &op;
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = GATEWAY_ONCE_KEEP_MS;
    schedule.queue = GATEWAY_ONCE_QUEUE;
    schedule.key = (ProtobufCBinaryData){.len = strlen(once->key), .data = (uint8_t *)once->key};
    schedule.when = &when;
    schedule.content.data = pack_content(once, &schedule.content.len);
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &schedule;
    commit.n_ops = 1;
    commit.ops = &ops;
    struct gateway_caller caller = own_caller(gateway);
    bool is_sent =
        schedule.content.data != NULL && gateway_commit(gateway, &caller, &commit, NULL, on_receipt, ask) != 0;
    own_release(gateway, &caller);
    free(schedule.content.data);
    if (!is_sent) ask_refuse_later(ask, TARRY__CODE__BUSY, NULL);
}

static void take_receipt(struct ask *ask) {
    if (maker_reserve(ask->gateway, ask, &ask->once->producer, &ask->once->sequence))
        schedule_receipt(ask);
    else
        maker_await(ask);
}

void once_go_on(struct ask *ask, const Tarry__Reply *refusal) {
    if (refusal != NULL)
        ask_answer(ask, refusal);
    else
        take_receipt(ask);
}

bool once_begin(struct ask *ask, const struct gateway_once *once) {
    const struct gateway_calls *calls = &ask->gateway->calls;
    const char *name = calls->name(calls->argument, ask->principal);
    uint8_t hash[32];
    crypto_generichash_state state;
    ask->once = calloc(1, sizeof(*ask->once));
    if (ask->once == NULL) return false;
    crypto_generichash_init(&state, NULL, 0, sizeof(hash));
    crypto_generichash_update(&state, (const uint8_t *)name, strlen(name) + 1);
    crypto_generichash_update(&state, once->key, once->key_size);
    crypto_generichash_final(&state, hash, sizeof(hash));
    sodium_bin2hex(ask->once->key, sizeof(ask->once->key), hash, sizeof(hash));
    memcpy(ask->once->fingerprint, once->fingerprint, sizeof(ask->once->fingerprint));
    take_receipt(ask);
    return true;
}

/* ---- receipts that are over
 *
 *   timer ──► stats ──► dead letters, or a pause from outside: drop, resume ──► stats
 *               ├─────► ready: lease, ack ──► stats
 *               └─────► nothing is ready, or this node follows: until the timer fires again
 *
 * One sweep at a time: a timer that fires during a sweep leaves it alone. */

static void sweep(struct gateway *gateway);

static void sweep_over(struct gateway *gateway) {
    gateway->is_sweeping = false;
}

static void on_swept(void *argument, const Tarry__Reply *reply) {
    if (reply != NULL && reply->code == TARRY__CODE__OK)
        sweep(argument); /* there may be more receipts to remove */
    else
        sweep_over(argument);
}

/* Commits the removal of receipts. Receipts that are not acked stay leased until the lease expires; the next sweep
 * removes them. */
static void sweep_commit(struct gateway *gateway, Tarry__Op *const *ops, size_t count) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.n_ops = count;
    commit.ops = (Tarry__Op **)ops;
    struct gateway_caller caller = own_caller(gateway);
    if (gateway_commit(gateway, &caller, &commit, NULL, on_swept, gateway) == 0) sweep_over(gateway);
    own_release(gateway, &caller);
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    struct gateway *gateway = argument;
    Tarry__Op ops[SWEEP_TASKS], *pointers[SWEEP_TASKS];
    Tarry__Ack acks[SWEEP_TASKS];
    if (leased->count == 0) {
        sweep_over(gateway);
        return;
    }
    for (size_t i = 0; i < leased->count; i++) {
        tarry__op__init(&ops[i]);
        tarry__ack__init(&acks[i]);
        acks[i].id = leased->tasks[i]->id;
        acks[i].token = leased->tasks[i]->token;
        ops[i].op_case = TARRY__OP__OP_ACK;
        ops[i].ack = &acks[i];
        pointers[i] = &ops[i];
    }
    gateway_left(gateway, gateway->sweep_lease, true); /* `leased` stays valid until this function returns */
    sweep_commit(gateway, pointers, leased->count);
}

static void lease_receipts(struct gateway *gateway) {
    const char *queue = GATEWAY_ONCE_QUEUE;
    const struct gateway_lease_options options = {.queues = &queue,
                                                  .queue_count = 1,
                                                  .max = SWEEP_TASKS,
                                                  .lease_ms = SWEEP_LEASE_MS};
    struct gateway_caller caller = own_caller(gateway);
    gateway->sweep_lease = gateway_lease(gateway, &caller, &options, on_leased, gateway);
    own_release(gateway, &caller);
    if (gateway->sweep_lease == 0) sweep_over(gateway);
}

/* Repairs the queue of receipts. In older versions, clients could pause it, and crashes could make receipts dead
 * letters. */
static void mend_queue(struct gateway *gateway) {
    Tarry__Op resume = TARRY__OP__INIT, drop = TARRY__OP__INIT, *const ops[] = {&resume, &drop};
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    Tarry__DeadOp dead = TARRY__DEAD_OP__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    pause.queue = ref.queue = GATEWAY_ONCE_QUEUE;
    resume.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    resume.queue_pause = &pause;
    dead.what = TARRY__DEAD_OP__WHAT__DROP;
    dead.all = true;
    dead.task = &ref;
    drop.op_case = TARRY__OP__OP_DEAD;
    drop.dead = &dead;
    gateway->is_mended = true;
    sweep_commit(gateway, ops, 2);
}

static void on_stats(void *argument, const Tarry__Reply *reply) {
    struct gateway *gateway = argument;
    bool is_answer = reply != NULL && reply->code == TARRY__CODE__OK && !reply->follower &&
                     reply->body_case == TARRY__REPLY__BODY_STATS && reply->stats->n_queues == 1;
    const Tarry__QueueStats *queue = is_answer ? reply->stats->queues[0] : NULL;
    if (queue != NULL && (queue->dead > 0 || queue->paused) && !gateway->is_mended)
        mend_queue(gateway);
    else if (queue != NULL && queue->ready > 0)
        lease_receipts(gateway);
    else
        sweep_over(gateway);
}

static void sweep(struct gateway *gateway) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    stats.queue = GATEWAY_ONCE_QUEUE;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    struct gateway_caller caller = own_caller(gateway);
    if (gateway_ask(gateway, &caller, &request, on_stats, gateway) == 0) sweep_over(gateway);
    own_release(gateway, &caller);
}

static void on_sweep(struct gateway *gateway, struct timer *timer) {
    if (!gateway->is_sweeping) {
        gateway->is_sweeping = true;
        gateway->is_mended = false;
        sweep(gateway);
    }
    (void)timer_arm(gateway, timer, SWEEP_MS); /* cannot fail, because the timer already has a place in the heap */
}

void once_start(struct gateway *gateway) {
    gateway->sweeping.fires = on_sweep;
    (void)timer_arm(gateway, &gateway->sweeping, SWEEP_FIRST_MS);
}
