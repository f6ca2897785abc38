/* fake_broker.c: the fake broker's replies and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DELIVER_PATIENCE_MS 20000u
#define SECRET_SIZE 8u

/* ---- executed commits, by producer and sequence: a growing hash table */

struct executed {
    uint64_t producer; /* number of the producer; 0: this slot is free */
    uint64_t sequence;
    struct fake_reply reply; /* the reply */
};

struct executed_log {
    struct executed *places;
    size_t capacity; /* number of slots, a power of two */
    size_t count;
};

static struct executed_log *log_new(void) {
    struct executed_log *log = calloc(1, sizeof(*log));
    log->capacity = 1024;
    log->places = calloc(log->capacity, sizeof(*log->places));
    return log;
}

static void log_free(struct executed_log *log) {
    for (size_t i = 0; i < log->capacity; i++) free(log->places[i].reply.bytes);
    free(log->places);
    free(log);
}

/* Returns the commit's slot, or the free slot where it belongs. */
static struct executed *log_find(const struct executed_log *log, uint64_t producer, uint64_t sequence) {
    const uint64_t hash = (producer * 0x9E3779B97F4A7C15ull ^ sequence) * 0x9E3779B97F4A7C15ull;
    for (size_t at = (size_t)(hash >> 20);; at++) {
        struct executed *place = &log->places[at & (log->capacity - 1)];
        if (place->producer == 0 || (place->producer == producer && place->sequence == sequence)) return place;
    }
}

static void log_add(struct executed_log *log, uint64_t producer, uint64_t sequence, const struct fake_reply *reply) {
    if (2 * ++log->count > log->capacity) {
        const struct executed_log old = *log;
        log->capacity *= 2;
        log->places = calloc(log->capacity, sizeof(*log->places));
        for (size_t i = 0; i < old.capacity; i++)
            if (old.places[i].producer != 0)
                *log_find(log, old.places[i].producer, old.places[i].sequence) = old.places[i];
        free(old.places);
    }
    struct executed *place = log_find(log, producer, sequence);
    *place = (struct executed){.producer = producer, .sequence = sequence};
    fake_reply_set(&place->reply, reply->bytes, reply->size);
}

/* ---- answers */

void fake_answer(struct fake_reply *reply, const Tarry__Reply *answer) {
    uint8_t *bytes = malloc(tarry__reply__get_packed_size(answer) + 1);
    size_t size = tarry__reply__pack(answer, bytes);
    fake_reply_set(reply, bytes, size);
    free(bytes);
}

void fake_refuse(struct fake_reply *reply, Tarry__Code code) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    answer.code = code;
    answer.message = (char *)"says the fake";
    fake_answer(reply, &answer);
}

/* ---- commits */

static void trace_add(struct fake *fake, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void trace_add(struct fake *fake, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int size =
        vsnprintf(fake->trace + fake->trace_size, sizeof(fake->trace) - fake->trace_size, format, arguments);
    va_end(arguments);
    fake->trace_size += (size_t)size;
    if (fake->trace_size >= sizeof(fake->trace)) fake->trace_size = sizeof(fake->trace) - 1;
}

static void trace_ref(struct fake *fake, const char *what, const Tarry__Ref *ref) {
    if (ref->id != 0)
        trace_add(fake, "%s %llu", what, (unsigned long long)ref->id);
    else
        trace_add(fake, "%s %.*s", what, (int)ref->key.len, (const char *)ref->key.data);
}

static void trace_commit(struct fake *fake, const Tarry__Commit *commit) {
    for (size_t i = 0; i < commit->n_ops && fake->trace_size + 1 < sizeof(fake->trace); i++) {
        const Tarry__Op *op = commit->ops[i];
        trace_add(fake, i == 0 ? "[" : ", ");
        if (op->op_case == TARRY__OP__OP_SCHEDULE)
            trace_add(fake, "schedule %.*s", (int)op->schedule->key.len, (const char *)op->schedule->key.data);
        else if (op->op_case == TARRY__OP__OP_CANCEL)
            trace_ref(fake, "cancel", op->cancel->task);
        else if (op->op_case == TARRY__OP__OP_MOVE)
            trace_ref(fake, "move", op->move->task);
        else if (op->op_case == TARRY__OP__OP_ACK)
            trace_add(fake, "ack %llu", (unsigned long long)op->ack->id);
        else if (op->op_case == TARRY__OP__OP_NACK)
            trace_add(fake, "nack %llu", (unsigned long long)op->nack->id);
        else if (op->op_case == TARRY__OP__OP_EXTEND)
            trace_add(fake, "extend %llu", (unsigned long long)op->extend->id);
        else if (op->op_case == TARRY__OP__OP_RELEASE)
            trace_add(fake, "release %llu", (unsigned long long)op->release->id);
        else
            trace_add(fake, "other");
    }
    trace_add(fake, "] ");
}

/* Executes a commit: every operation succeeds and gets the next id. */
static void execute(struct fake *fake, const Tarry__Commit *commit, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__CommitReply body = TARRY__COMMIT_REPLY__INIT;
    Tarry__OpResult *results = calloc(commit->n_ops, sizeof(*results));
    Tarry__OpResult **pointers = calloc(commit->n_ops, sizeof(Tarry__OpResult *));
    body.aborted = commit->atomic && fake->atomic_aborts;
    for (size_t i = 0; i < commit->n_ops; i++) {
        tarry__op_result__init(&results[i]);
        pointers[i] = &results[i];
        if (body.aborted) {
            results[i].code = i + 1 == commit->n_ops ? TARRY__CODE__EXISTS : TARRY__CODE__ABORTED;
            results[i].outcome = i + 1 == commit->n_ops ? TARRY__OUTCOME__LIVE : TARRY__OUTCOME__NONE;
            results[i].message = i + 1 == commit->n_ops ? (char *)"a live task has this key" : (char *)"";
            continue;
        }
        results[i].outcome = TARRY__OUTCOME__SCHEDULED;
        results[i].id = ++fake->ops;
    }
    body.n_results = commit->n_ops;
    body.results = pointers;
    answer.body_case = TARRY__REPLY__BODY_COMMIT;
    answer.commit = &body;
    fake_answer(reply, &answer);
    if (commit->n_ops > fake->ops_most) fake->ops_most = commit->n_ops;
    if (commit->sequence <= fake->last_sequence) fake->out_of_order = true;
    trace_commit(fake, commit);
    for (size_t i = 0; i < commit->n_ops && fake->on_executed != NULL; i++) fake->on_executed(fake, commit->ops[i]);
    fake->last_sequence = commit->sequence;
    log_add(fake->executed, commit->producer, commit->sequence, reply);
    free(results);
    free(pointers);
}

/* Marks a commit as abandoned, because its outcome was queried before the commit arrived. A later reply to this commit
 * says that it was abandoned. */
static void abandon(struct fake *fake, const Tarry__Commit *commit, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__CommitReply body = TARRY__COMMIT_REPLY__INIT;
    body.abandoned = true;
    answer.body_case = TARRY__REPLY__BODY_COMMIT;
    answer.commit = &body;
    fake_answer(reply, &answer);
    log_add(fake->executed, commit->producer, commit->sequence, reply);
}

static void commit_once(struct fake *fake, const Tarry__Commit *commit, struct fake_reply *reply) {
    const struct executed *before = log_find(fake->executed, commit->producer, commit->sequence);
    if (before->producer != 0)
        fake_reply_set(reply, before->reply.bytes, before->reply.size);
    else if (commit->ask)
        abandon(fake, commit, reply);
    else
        execute(fake, commit, reply);
}

static bool is_refused_room(const struct fake *fake, const Tarry__Commit *commit) {
    for (size_t i = 0; i < commit->n_ops; i++) {
        Tarry__Op__OpCase what = commit->ops[i]->op_case;
        if (what == TARRY__OP__OP_SCHEDULE && fake->lacks_room) return true;
        if ((what == TARRY__OP__OP_CANCEL || what == TARRY__OP__OP_MOVE) && fake->lacks_index) return true;
    }
    return false;
}

/* Returns how the fake broker treats this commit, according to the script. */
static enum deed deed_of(struct fake *fake, const Tarry__Commit *commit) {
    const enum deed deed = fake->commits < fake->script_size ? fake->script[fake->commits] : ANSWER;
    const bool is_known = fake->keeps_producers && commit->producer > 100 && commit->producer <= 100 + fake->hellos;
    if (commit->producer != fake->producer && !is_known) return FORGET;
    if (deed != ANSWER) return deed;
    if (is_refused_room(fake, commit)) return SAY_BUSY;
    if (commit->sequence != 1 || fake->first_busy == 0) return ANSWER;
    fake->first_busy--;
    return SAY_BUSY;
}

static void on_commit(struct fake *fake, const Tarry__Commit *commit, struct fake_reply *reply) {
    const enum deed deed = deed_of(fake, commit);
    const bool executes =
        deed == ANSWER || deed == LOSE_ANSWER || deed == KEEP_ANSWER || deed == ANSWER_LATE || deed == FAIL_AND_EXECUTE;
    fake->commits++;
    fake->last_oldest = commit->oldest_unanswered;
    if (commit->sequence - commit->oldest_unanswered > fake->widest)
        fake->widest = commit->sequence - commit->oldest_unanswered;
    if (commit->ask) fake->asked++;
    if (executes) commit_once(fake, commit, reply);
    reply->hangs_up = deed == LOSE_ANSWER || deed == LOSE_REQUEST;
    reply->is_silent = deed == KEEP_ANSWER || deed == SAY_NOTHING;
    reply->late_ms = deed == ANSWER_LATE ? fake->late_ms : 0;
    if (deed == SAY_BUSY) fake_refuse(reply, TARRY__CODE__BUSY);
    if (deed == SAY_STOPPING) fake_refuse(reply, TARRY__CODE__STOPPING);
    if (deed == FAIL_AND_EXECUTE) fake_refuse(reply, TARRY__CODE__FAILED);
    if (deed == GARBAGE) fake_reply_set(reply, "\xff\xff\xff", 3);
    if (deed != FORGET) return;
    if (commit->producer == fake->producer) fake->producer = 0;
    fake_refuse(reply, TARRY__CODE__FORGOTTEN);
}

static void refuse_as_not_primary(struct fake *fake, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    answer.code = TARRY__CODE__NOT_PRIMARY;
    answer.message = (char *)"the fake is not the primary";
    answer.primary = fake->names;
    fake->not_primary++;
    if (fake->refuses_late > 0 && --fake->refuses_late == 0) reply->late_ms = fake->late_ms;
    fake_answer(reply, &answer);
}

static bool is_of_another_cluster(const struct fake *fake, const Tarry__Request *request) {
    return request->cluster.len != 0 && (request->cluster.len != CLUSTER_ID_SIZE ||
                                         memcmp(request->cluster.data, fake->cluster, CLUSTER_ID_SIZE) != 0);
}

/* Answers that there is no task. The reply has a number that increases with each reply. */
static void on_get(struct fake *fake, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__TaskReply task = TARRY__TASK_REPLY__INIT;
    task.outcome = TARRY__OUTCOME__UNKNOWN;
    answer.body_case = TARRY__REPLY__BODY_GET;
    answer.get = &task;
    answer.follower = fake->follows;
    answer.position = fake->follows ? 4096 : 0;
    answer.primary = fake->names;
    fake_answer(reply, &answer);
}

/* Answers with empty lists and counts. */
void fake_answer_question(const Tarry__Request *request, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__ListReply list = TARRY__LIST_REPLY__INIT;
    Tarry__QueuesReply queues = TARRY__QUEUES_REPLY__INIT;
    Tarry__StatsReply stats = TARRY__STATS_REPLY__INIT;
    Tarry__PairReply pair = TARRY__PAIR_REPLY__INIT;
    Tarry__CalendarReply calendar = TARRY__CALENDAR_REPLY__INIT;
    uint64_t counts[8] = {0};
    calendar.counts = counts;
    if (request->body_case == TARRY__REQUEST__BODY_CALENDAR)
        calendar.n_counts = request->calendar->spans % 8, answer.body_case = TARRY__REPLY__BODY_CALENDAR,
        answer.calendar = &calendar;
    else if (request->body_case == TARRY__REQUEST__BODY_LIST)
        answer.body_case = TARRY__REPLY__BODY_LIST, answer.list = &list;
    else if (request->body_case == TARRY__REQUEST__BODY_QUEUES)
        answer.body_case = TARRY__REPLY__BODY_QUEUES, answer.queues = &queues;
    else if (request->body_case == TARRY__REQUEST__BODY_STATS)
        answer.body_case = TARRY__REPLY__BODY_STATS, answer.stats = &stats;
    else
        answer.body_case = TARRY__REPLY__BODY_PAIR, answer.pair = &pair;
    fake_answer(reply, &answer);
}

/* ---- the lane */

static void secret_of(uint64_t session, uint8_t secret[SECRET_SIZE]) {
    for (size_t i = 0; i < SECRET_SIZE; i++) secret[i] = (uint8_t)(session + i);
}

/* Begins a session. The lane of the former session ends with that session. */
static void on_subscribe(struct fake *fake, const Tarry__Subscribe *subscribe, struct fake_reply *reply) {
    uint8_t secret[SECRET_SIZE];
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__SubscribeReply body = TARRY__SUBSCRIBE_REPLY__INIT;
    body.session = fake->session = ++fake->subscribes;
    body.lane = fake->lane_number;
    secret_of(fake->session, secret);
    body.secret = (ProtobufCBinaryData){sizeof(secret), secret};
    body.silence_ms = fake->silence_ms;
    body.resumed = fake->resumes && subscribe->resume.len > 0;
    answer.body_case = TARRY__REPLY__BODY_SUBSCRIBE;
    answer.subscribe = &body;
    fake_answer(reply, &answer);
    reply->ends_lanes = true;
}

static void on_unsubscribe(struct fake *fake, const Tarry__Unsubscribe *unsubscribe, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    fake->unsubscribes++;
    fake->session = 0;
    fake->seen_count = 0;
    for (size_t i = 0; i < unsubscribe->n_seen && i < sizeof(fake->seen) / sizeof(fake->seen[0]); i++)
        fake->seen[fake->seen_count++] = unsubscribe->seen[i];
    fake_answer(reply, &answer);
}

static void on_heartbeat(struct fake *fake, const Tarry__Heartbeat *heartbeat, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    if (heartbeat->session == 0 || heartbeat->session != fake->session)
        fake_refuse(reply, TARRY__CODE__NO_SUCH_SESSION);
    else
        fake_answer(reply, &answer);
}

/* ---- requests */

static void on_hello(struct fake *fake, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__HelloReply hello = TARRY__HELLO_REPLY__INIT;
    if (fake->refuses_hello) {
        fake_refuse(reply, TARRY__CODE__BUSY);
        return;
    }
    fake->hellos++;
    fake->producer = 100 + fake->hellos;
    fake->last_sequence = 0;
    hello.producer = fake->producer;
    hello.request_max = 1 << 20;
    hello.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, fake->cluster};
    answer.body_case = TARRY__REPLY__BODY_HELLO;
    answer.hello = &hello;
    fake_answer(reply, &answer);
}

/* Answers requests that only the primary answers. */
static void on_request(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply) {
    Tarry__Reply nothing = TARRY__REPLY__INIT;
    switch (request->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
        on_hello(fake, reply);
        return;
    case TARRY__REQUEST__BODY_GOODBYE:
        fake->goodbyes++;
        fake_answer(reply, &nothing);
        return;
    case TARRY__REQUEST__BODY_HEARTBEAT:
        on_heartbeat(fake, request->heartbeat, reply);
        return;
    case TARRY__REQUEST__BODY_SUBSCRIBE:
        if (!fake->has_lane)
            fake_refuse(reply, TARRY__CODE__UNSUPPORTED);
        else if (fake->refuses_sessions != TARRY__CODE__OK)
            fake_refuse(reply, fake->refuses_sessions);
        else
            on_subscribe(fake, request->subscribe, reply);
        return;
    case TARRY__REQUEST__BODY_UNSUBSCRIBE:
        on_unsubscribe(fake, request->unsubscribe, reply);
        return;
    case TARRY__REQUEST__BODY_LIST:
    case TARRY__REQUEST__BODY_QUEUES:
    case TARRY__REQUEST__BODY_STATS:
    case TARRY__REQUEST__BODY_CALENDAR:
    case TARRY__REQUEST__BODY_PAIR:
        if (fake->on_question != NULL)
            fake->on_question(fake, request, reply);
        else
            fake_answer_question(request, reply);
        return;
    case TARRY__REQUEST__BODY_COMMIT:
        on_commit(fake, request->commit, reply);
        return;
    case TARRY__REQUEST__BODY_GET:
        on_get(fake, reply);
        return;
    default:
        if (request->body_case == TARRY__REQUEST__BODY_AUDIT && fake->on_audit != NULL)
            fake->on_audit(fake, request, reply);
        else
            fake_refuse(reply, TARRY__CODE__UNSUPPORTED);
        return;
    }
}

/* ---- the door */

/* Handles a request, in the thread of the fake broker. */
static void take_request(void *argument, const uint8_t *bytes, size_t size, struct fake_reply *reply) {
    struct fake *fake = argument;
    Tarry__Request *request = tarry__request__unpack(NULL, size, bytes);
    if (request == NULL || request->version != WIRE_VERSION) {
        (void)fprintf(stderr, "fake broker: a request that is none, or of another version\n");
        abort();
    }
    pthread_mutex_lock(&fake->lock);
    const bool is_asked = request->body_case == TARRY__REQUEST__BODY_GET && fake->follows;
    fake->requests++;
    if (fake->hangs)
        reply->is_silent = true;
    else if ((fake->is_not_primary && !is_asked) || is_of_another_cluster(fake, request))
        refuse_as_not_primary(fake, reply);
    else
        on_request(fake, request, reply);
    pthread_mutex_unlock(&fake->lock);
    tarry__request__free_unpacked(request, NULL);
}

/* Decides whether a connection is accepted. Only a client that knows the session's secret may use the lane. Called by
 * the fake's thread. */
static enum fake_visitor let_in(void *argument, const char *path, const char *bearer) {
    struct fake *fake = argument;
    uint8_t secret[SECRET_SIZE];
    char expected[2 * SECRET_SIZE + 1];
    if (strcmp(path, "/rpc") == 0) return FAKE_RPC;
    pthread_mutex_lock(&fake->lock);
    const bool has_lane = fake->has_lane, has_session = fake->session != 0;
    secret_of(fake->session, secret);
    pthread_mutex_unlock(&fake->lock);
    if (!has_lane || strcmp(path, "/lane/1") != 0) return FAKE_LOST;
    for (size_t i = 0; i < SECRET_SIZE; i++) (void)snprintf(expected + 2 * i, 3, "%02x", secret[i]);
    return has_session && strcmp(bearer, expected) == 0 ? FAKE_LANE : FAKE_STRANGER;
}

struct fake *fake_start(const enum deed *script, size_t script_size) {
    struct fake *fake = calloc(1, sizeof(*fake));
    const struct fake_socket_calls calls = {.argument = fake, .upgrade = let_in, .request = take_request};
    int port;
    assert_true(script_size <= sizeof(fake->script) / sizeof(fake->script[0]));
    fake->executed = log_new();
    if (script_size > 0) memcpy(fake->script, script, script_size * sizeof(*script));
    fake->script_size = script_size;
    fake->lane_number = 1;
    fake->silence_ms = 5000;
    pthread_mutex_init(&fake->lock, NULL);
    fake->socket = fake_socket_open(&calls, &port);
    (void)snprintf(fake->url, sizeof(fake->url), "ws://127.0.0.1:%d", port);
    return fake;
}

void fake_stop(struct fake *fake) {
    fake_socket_close(fake->socket);
    log_free(fake->executed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

void fake_open_lane(struct fake *fake) {
    pthread_mutex_lock(&fake->lock);
    fake->has_lane = true;
    pthread_mutex_unlock(&fake->lock);
}

void fake_deliver(struct fake *fake, uint64_t session, uint64_t id, uint64_t position) {
    Tarry__Delivery delivery = TARRY__DELIVERY__INIT;
    Tarry__DeliveredTask task = TARRY__DELIVERED_TASK__INIT, *tasks = &task;
    Tarry__Token token = TARRY__TOKEN__INIT;
    token.epoch = 1;
    token.position = position;
    task.id = id;
    task.queue = (char *)"orders";
    task.attempt = task.deliveries = 1;
    task.token = &token;
    delivery.session = session;
    delivery.delivered_ms = 1000;
    task.lease_deadline_ms = 31000;
    delivery.tasks = &tasks;
    delivery.n_tasks = 1;
    uint8_t *bytes = malloc(tarry__delivery__get_packed_size(&delivery));
    const size_t size = tarry__delivery__pack(&delivery, bytes);
    const bool is_sent = fake_socket_push(fake->socket, bytes, size, DELIVER_PATIENCE_MS);
    free(bytes);
    assert_true(is_sent);
}

size_t fake_count(struct fake *fake, const size_t *counter) {
    pthread_mutex_lock(&fake->lock);
    const size_t count = *counter;
    pthread_mutex_unlock(&fake->lock);
    return count;
}

void fake_copy_log(struct fake *to, struct fake *from) {
    struct fake *first = from < to ? from : to,
                *second = from < to ? to : from; /* locks are always taken in the order of their addresses */
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    log_free(to->executed);
    to->executed = log_new();
    for (size_t i = 0; i < from->executed->capacity; i++) {
        const struct executed *place = &from->executed->places[i];
        if (place->producer != 0) log_add(to->executed, place->producer, place->sequence, &place->reply);
    }
    to->producer = from->producer;
    to->last_sequence = from->last_sequence;
    to->ops = from->ops;
    memcpy(to->cluster, from->cluster, CLUSTER_ID_SIZE);
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}
