/* fake_broker.h: a broker for tests of the client: an nng REP socket in this process that does what a script says with
 * each commit: answer, execute and lose the answer, lose the request, say busy, forget. Or it is not the primary. It
 * has one lane, if asked to, and sends there what a test hands it.
 *
 * It remembers every (producer, sequence) as a real broker does, so that "took effect once" (ONCE-1) can be counted
 * from outside the library. Included by one test each. */
#ifndef FAKE_BROKER_H
#define FAKE_BROKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <nng/nng.h>
#include <nng/protocol/pipeline0/push.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/supplemental/util/platform.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tarry.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

enum deed {
    ANSWER,
    LOSE_ANSWER,  /* execute, then drop the connection */
    KEEP_ANSWER,  /* execute, and say nothing */
    LOSE_REQUEST, /* drop the connection, nothing executed */
    SAY_BUSY,
    SAY_STOPPING,
    FORGET,      /* FORGOTTEN, and the producer is unknown from now on */
    SAY_NOTHING, /* not executed, connection kept */
    GARBAGE,
    FAIL_AND_EXECUTE, /* executed, and yet FAILED is all that it says */
};

#define COMMITS_MAX 65536
struct executed {
    uint64_t producer;
    uint64_t sequence;
    uint8_t *reply;
    size_t reply_size;
};

struct fake {
    nng_socket socket;
    char url[64];
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock;
    enum deed script[256]; /* by number of the commit request received; ANSWER beyond */
    size_t script_size;
    uint32_t first_busy;  /* so many times the first sequence is told to wait, while others are answered */
    bool atomic_aborts;   /* atomic commits are refused by their last operation */
    bool keeps_producers; /* all that it ever gave out are known */
    bool refuses_hello;   /* as busy, so that commits gather */
    bool lacks_room;      /* commits that schedule are refused as busy, as a whole, and … */
    bool lacks_index;     /* … those that cancel or move */
    /* Audits; NULL: unsupported. True: the answer is in the message and goes out. Lock held. */
    bool (*on_audit)(struct fake *fake, const Tarry__Request *request, nng_msg *message);
    void *argument; /* its own */
    /* Questions; NULL: an answer of no tasks, no queues … True: the answer is in the message and goes out. Lock held.
     */
    bool (*on_question)(struct fake *fake, const Tarry__Request *request, nng_msg *message);
    void (*on_executed)(struct fake *fake, const Tarry__Op *op); /* each operation, once; lock held */
    /* the lane */
    uint64_t session; /* the present one; 0: none */
    uint64_t silence_ms;
    size_t subscribes;
    size_t unsubscribes;
    uint64_t seen[64]; /* of the last Unsubscribe */
    size_t seen_count;
    Tarry__Code refuses_sessions; /* every Subscribe, so; OK: none */
    uint32_t lane_number;         /* that it names; 1 is there */
    nng_socket lane;
    int port;
    bool has_lane;
    bool resumes; /* it knows former sessions */
    /* the pair */
    bool is_not_primary;   /* it says so to everything but questions */
    bool follows;          /* it answers questions, as a follower */
    unsigned refuses_late; /* counts its refusals down: the last one comes after `late_ms` */
    uint32_t late_ms;
    bool hangs;      /* it takes requests and answers nothing */
    char names[128]; /* as the primary */
    uint8_t cluster[CLUSTER_ID_SIZE];
    /* what happened */
    size_t requests;    /* of any kind */
    size_t not_primary; /* said so often */
    size_t commits;     /* requests, repeats included */
    size_t asked;       /* of these, those that only ask */
    size_t hellos;
    size_t goodbyes;
    size_t ops;      /* executed */
    size_t ops_most; /* in one commit */
    uint64_t producer;
    uint64_t last_sequence;
    uint64_t last_oldest;
    uint64_t widest;   /* sequence - oldest_unanswered at most */
    bool out_of_order; /* a fresh sequence that is not above the one before */
    char trace[8192];  /* what was executed: "[schedule a, ack 7] [cancel b] " …, cut */
    struct executed *executed;
    size_t executed_count;
};

static void reply_pack(nng_msg *message, const Tarry__Reply *reply) {
    nng_msg_clear(message);
    uint8_t *bytes = malloc(tarry__reply__get_packed_size(reply));
    size_t size = tarry__reply__pack(reply, bytes);
    nng_msg_append(message, bytes, size);
    free(bytes);
}

static void trace_add(struct fake *fake, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void trace_add(struct fake *fake, const char *format, ...) {
    size_t size = strlen(fake->trace);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fake->trace + size, sizeof(fake->trace) - size, format, arguments);
    va_end(arguments);
}

static void trace_ref(struct fake *fake, const char *what, const Tarry__Ref *ref) {
    if (ref->id != 0)
        trace_add(fake, "%s %llu", what, (unsigned long long)ref->id);
    else
        trace_add(fake, "%s %.*s", what, (int)ref->key.len, (const char *)ref->key.data);
}

static void trace_commit(struct fake *fake, const Tarry__Commit *commit) {
    for (size_t i = 0; i < commit->n_ops; i++) {
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

/* Every operation does well and gets the next id. */
static void execute(struct fake *fake, const Tarry__Commit *commit, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
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
            results[i].message = i + 1 == commit->n_ops ? (char *)"a live task holds this key" : (char *)"";
            continue;
        }
        results[i].outcome = TARRY__OUTCOME__SCHEDULED;
        results[i].id = ++fake->ops;
    }
    body.n_results = commit->n_ops;
    body.results = pointers;
    reply.body_case = TARRY__REPLY__BODY_COMMIT;
    reply.commit = &body;
    reply_pack(message, &reply);
    if (commit->n_ops > fake->ops_most) fake->ops_most = commit->n_ops;
    if (commit->sequence <= fake->last_sequence) fake->out_of_order = true;
    trace_commit(fake, commit);
    for (size_t i = 0; i < commit->n_ops && fake->on_executed != NULL; i++) fake->on_executed(fake, commit->ops[i]);
    fake->last_sequence = commit->sequence;
    struct executed *slot = &fake->executed[fake->executed_count++];
    *slot = (struct executed){commit->producer, commit->sequence, malloc(nng_msg_len(message)), nng_msg_len(message)};
    memcpy(slot->reply, nng_msg_body(message), slot->reply_size);
    free(results);
    free(pointers);
}

/* It was asked for before it came: this is its answer from now on. */
static void abandon(struct fake *fake, const Tarry__Commit *commit, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__CommitReply body = TARRY__COMMIT_REPLY__INIT;
    body.abandoned = true;
    reply.body_case = TARRY__REPLY__BODY_COMMIT;
    reply.commit = &body;
    reply_pack(message, &reply);
    struct executed *slot = &fake->executed[fake->executed_count++];
    *slot = (struct executed){commit->producer, commit->sequence, malloc(nng_msg_len(message)), nng_msg_len(message)};
    memcpy(slot->reply, nng_msg_body(message), slot->reply_size);
}

static void commit_once(struct fake *fake, const Tarry__Commit *commit, nng_msg *message) {
    for (size_t i = fake->executed_count; i-- > 0;) {
        const struct executed *slot = &fake->executed[i];
        if (slot->producer != commit->producer || slot->sequence != commit->sequence) continue;
        nng_msg_clear(message);
        nng_msg_append(message, slot->reply, slot->reply_size);
        return;
    }
    if (commit->ask)
        abandon(fake, commit, message);
    else
        execute(fake, commit, message);
}

static void refuse(nng_msg *message, Tarry__Code code) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)"says the fake";
    reply_pack(message, &reply);
}

static bool is_refused_room(const struct fake *fake, const Tarry__Commit *commit) {
    for (size_t i = 0; i < commit->n_ops; i++) {
        Tarry__Op__OpCase what = commit->ops[i]->op_case;
        if (what == TARRY__OP__OP_SCHEDULE && fake->lacks_room) return true;
        if ((what == TARRY__OP__OP_CANCEL || what == TARRY__OP__OP_MOVE) && fake->lacks_index) return true;
    }
    return false;
}

/* True: the answer is in the message and goes out. */
static bool on_commit(struct fake *fake, const Tarry__Commit *commit, nng_msg *message) {
    enum deed deed = fake->commits < fake->script_size ? fake->script[fake->commits] : ANSWER;
    nng_pipe pipe = nng_msg_get_pipe(message);
    fake->commits++;
    fake->last_oldest = commit->oldest_unanswered;
    if (commit->sequence - commit->oldest_unanswered > fake->widest)
        fake->widest = commit->sequence - commit->oldest_unanswered;
    const bool is_known = fake->keeps_producers && commit->producer > 100 && commit->producer <= 100 + fake->hellos;
    if (deed == ANSWER && is_refused_room(fake, commit)) deed = SAY_BUSY;
    if (commit->producer != fake->producer && !is_known) deed = FORGET;
    if (commit->ask) fake->asked++;
    if (deed == ANSWER && commit->sequence == 1 && fake->first_busy > 0) {
        fake->first_busy--;
        deed = SAY_BUSY;
    }
    switch (deed) {
    case ANSWER:
        commit_once(fake, commit, message);
        return true;
    case LOSE_ANSWER:
        commit_once(fake, commit, message);
        nng_pipe_close(pipe);
        return false;
    case KEEP_ANSWER:
        commit_once(fake, commit, message);
        return false;
    case LOSE_REQUEST:
        nng_pipe_close(pipe);
        return false;
    case SAY_BUSY:
        refuse(message, TARRY__CODE__BUSY);
        return true;
    case SAY_STOPPING:
        refuse(message, TARRY__CODE__STOPPING);
        return true;
    case FORGET:
        if (commit->producer == fake->producer) fake->producer = 0;
        refuse(message, TARRY__CODE__FORGOTTEN);
        return true;
    case SAY_NOTHING:
        return false;
    case FAIL_AND_EXECUTE:
        commit_once(fake, commit, message);
        refuse(message, TARRY__CODE__FAILED);
        return true;
    case GARBAGE:
        nng_msg_clear(message);
        nng_msg_append(message, "\xff\xff\xff", 3);
        return true;
    }
    return false;
}

static void refuse_as_not_primary(struct fake *fake, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = TARRY__CODE__NOT_PRIMARY;
    reply.message = (char *)"the fake is not the primary";
    reply.primary = fake->names;
    fake->not_primary++;
    if (fake->refuses_late > 0 && --fake->refuses_late == 0) nng_msleep((nng_duration)fake->late_ms);
    reply_pack(message, &reply);
}

static bool is_of_another_cluster(const struct fake *fake, const Tarry__Request *request) {
    return request->cluster.len != 0 && (request->cluster.len != CLUSTER_ID_SIZE ||
                                         memcmp(request->cluster.data, fake->cluster, CLUSTER_ID_SIZE) != 0);
}

/* There is no task; an answer to count. */
static void on_get(struct fake *fake, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__TaskReply task = TARRY__TASK_REPLY__INIT;
    task.outcome = TARRY__OUTCOME__UNKNOWN;
    reply.body_case = TARRY__REPLY__BODY_GET;
    reply.get = &task;
    reply.follower = fake->follows;
    reply.position = fake->follows ? 4096 : 0;
    reply.primary = fake->names;
    reply_pack(message, &reply);
}

/* Nothing of anything. */
static bool on_question(struct fake *fake, const Tarry__Request *request, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__ListReply list = TARRY__LIST_REPLY__INIT;
    Tarry__QueuesReply queues = TARRY__QUEUES_REPLY__INIT;
    Tarry__StatsReply stats = TARRY__STATS_REPLY__INIT;
    Tarry__PairReply pair = TARRY__PAIR_REPLY__INIT;
    if (fake->on_question != NULL) return fake->on_question(fake, request, message);
    if (request->body_case == TARRY__REQUEST__BODY_LIST)
        reply.body_case = TARRY__REPLY__BODY_LIST, reply.list = &list;
    else if (request->body_case == TARRY__REQUEST__BODY_QUEUES)
        reply.body_case = TARRY__REPLY__BODY_QUEUES, reply.queues = &queues;
    else if (request->body_case == TARRY__REQUEST__BODY_STATS)
        reply.body_case = TARRY__REPLY__BODY_STATS, reply.stats = &stats;
    else
        reply.body_case = TARRY__REPLY__BODY_PAIR, reply.pair = &pair;
    reply_pack(message, &reply);
    return true;
}

/* ---- the lane */

static void on_subscribe(struct fake *fake, const Tarry__Subscribe *subscribe, nng_msg *message) {
    static uint8_t secret[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__SubscribeReply body = TARRY__SUBSCRIBE_REPLY__INIT;
    body.session = fake->session = ++fake->subscribes;
    body.lane = fake->lane_number;
    body.secret = (ProtobufCBinaryData){sizeof(secret), secret};
    body.silence_ms = fake->silence_ms;
    body.resumed = fake->resumes && subscribe->resume.len > 0;
    reply.body_case = TARRY__REPLY__BODY_SUBSCRIBE;
    reply.subscribe = &body;
    reply_pack(message, &reply);
}

static void on_unsubscribe(struct fake *fake, const Tarry__Unsubscribe *unsubscribe, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    fake->unsubscribes++;
    fake->session = 0;
    fake->seen_count = 0;
    for (size_t i = 0; i < unsubscribe->n_seen && i < sizeof(fake->seen) / sizeof(fake->seen[0]); i++)
        fake->seen[fake->seen_count++] = unsubscribe->seen[i];
    reply_pack(message, &reply);
}

static void on_heartbeat(struct fake *fake, const Tarry__Heartbeat *heartbeat, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    if (heartbeat->session == 0 || heartbeat->session != fake->session)
        refuse(message, TARRY__CODE__NO_SUCH_SESSION);
    else
        reply_pack(message, &reply);
}

static bool on_request(struct fake *fake, const Tarry__Request *request, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    fake->requests++;
    if (fake->hangs) return false;
    bool is_asked = request->body_case == TARRY__REQUEST__BODY_GET && fake->follows;
    if ((fake->is_not_primary && !is_asked) || is_of_another_cluster(fake, request)) {
        refuse_as_not_primary(fake, message);
        return true;
    }
    Tarry__HelloReply hello = TARRY__HELLO_REPLY__INIT;
    switch (request->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
        if (fake->refuses_hello) {
            refuse(message, TARRY__CODE__BUSY);
            return true;
        }
        fake->hellos++;
        fake->producer = 100 + fake->hellos;
        fake->last_sequence = 0;
        hello.producer = fake->producer;
        hello.request_max = 1 << 20;
        hello.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, fake->cluster};
        reply.body_case = TARRY__REPLY__BODY_HELLO;
        reply.hello = &hello;
        reply_pack(message, &reply);
        return true;
    case TARRY__REQUEST__BODY_GOODBYE:
        fake->goodbyes++;
        reply_pack(message, &reply);
        return true;
    case TARRY__REQUEST__BODY_HEARTBEAT:
        on_heartbeat(fake, request->heartbeat, message);
        return true;
    case TARRY__REQUEST__BODY_SUBSCRIBE:
        if (!fake->has_lane)
            refuse(message, TARRY__CODE__UNSUPPORTED);
        else if (fake->refuses_sessions != TARRY__CODE__OK)
            refuse(message, fake->refuses_sessions);
        else
            on_subscribe(fake, request->subscribe, message);
        return true;
    case TARRY__REQUEST__BODY_UNSUBSCRIBE:
        on_unsubscribe(fake, request->unsubscribe, message);
        return true;
    case TARRY__REQUEST__BODY_LIST:
    case TARRY__REQUEST__BODY_QUEUES:
    case TARRY__REQUEST__BODY_STATS:
    case TARRY__REQUEST__BODY_PAIR:
        return on_question(fake, request, message);
    case TARRY__REQUEST__BODY_COMMIT:
        return on_commit(fake, request->commit, message);
    case TARRY__REQUEST__BODY_GET:
        on_get(fake, message);
        return true;
    case TARRY__REQUEST__BODY_AUDIT:
        if (fake->on_audit != NULL) return fake->on_audit(fake, request, message);
        /* fall through */
    default:
        refuse(message, TARRY__CODE__UNSUPPORTED);
        return true;
    }
}

static void *fake_run(void *arg) {
    struct fake *fake = arg;
    while (!atomic_load(&fake->stop)) {
        nng_msg *message;
        if (nng_recvmsg(fake->socket, &message, 0) != 0) continue;
        Tarry__Request *request =
            tarry__request__unpack(NULL, nng_msg_len(message), (const uint8_t *)nng_msg_body(message));
        assert_non_null(request);
        assert_int_equal(request->version, WIRE_VERSION);
        pthread_mutex_lock(&fake->lock);
        bool answered = on_request(fake, request, message);
        pthread_mutex_unlock(&fake->lock);
        tarry__request__free_unpacked(request, NULL);
        if (!answered || nng_sendmsg(fake->socket, message, 0) != 0) nng_msg_free(message);
    }
    return NULL;
}

static struct fake *fake_start(const enum deed *script, size_t script_size) {
    struct fake *fake = calloc(1, sizeof(*fake));
    fake->executed = calloc(COMMITS_MAX, sizeof(*fake->executed));
    if (script_size > 0) memcpy(fake->script, script, script_size * sizeof(*script));
    fake->script_size = script_size;
    fake->lane_number = 1;
    fake->silence_ms = 5000;
    pthread_mutex_init(&fake->lock, NULL);
    assert_int_equal(nng_rep0_open(&fake->socket), 0);
    assert_int_equal(nng_socket_set_ms(fake->socket, NNG_OPT_RECVTIMEO, 20), 0);
    nng_listener listener;
    assert_int_equal(nng_listen(fake->socket, "ws://127.0.0.1:0/rpc", &listener, 0), 0);
    assert_int_equal(nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &fake->port), 0);
    snprintf(fake->url, sizeof(fake->url), "ws://127.0.0.1:%d", fake->port);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
    return fake;
}

/* From now on it takes subscriptions. */
static inline void fake_open_lane(struct fake *fake) {
    char url[80];
    snprintf(url, sizeof(url), "%s/lane/1", fake->url);
    assert_int_equal(nng_push0_open(&fake->lane), 0);
    assert_int_equal(nng_socket_set_ms(fake->lane, NNG_OPT_SENDTIMEO, 10000), 0);
    assert_int_equal(nng_listen(fake->lane, url, NULL, 0), 0);
    pthread_mutex_lock(&fake->lock);
    fake->has_lane = true;
    pthread_mutex_unlock(&fake->lock);
}

/* Delivers task `id` under token (1, position) to `session`. Waits for the lane. */
static inline void fake_deliver(struct fake *fake, uint64_t session, uint64_t id, uint64_t position) {
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
    nng_msg *message;
    assert_int_equal(nng_msg_alloc(&message, tarry__delivery__get_packed_size(&delivery)), 0);
    tarry__delivery__pack(&delivery, nng_msg_body(message));
    assert_int_equal(nng_sendmsg(fake->lane, message, 0), 0);
}

/* What it has counted until now. */
static inline size_t count_of(struct fake *fake, const size_t *counter) {
    pthread_mutex_lock(&fake->lock);
    size_t count = *counter;
    pthread_mutex_unlock(&fake->lock);
    return count;
}
#define COUNT(fake, what) count_of((fake), &(fake)->what)

/* Everything that `from` has recorded, as a follower would have it. Neither is being talked to. */
static inline void fake_copy_log(struct fake *to, struct fake *from) {
    struct fake *first = from < to ? from : to, *second = from < to ? to : from; /* one order, whoever copies whom */
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    for (size_t i = 0; i < from->executed_count; i++) {
        struct executed *slot = &to->executed[to->executed_count++];
        *slot = from->executed[i];
        slot->reply = malloc(slot->reply_size);
        memcpy(slot->reply, from->executed[i].reply, slot->reply_size);
    }
    to->producer = from->producer;
    to->last_sequence = from->last_sequence;
    to->ops = from->ops;
    memcpy(to->cluster, from->cluster, CLUSTER_ID_SIZE);
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

static void fake_stop(struct fake *fake) {
    atomic_store(&fake->stop, true);
    pthread_join(fake->thread, NULL);
    nng_close(fake->socket);
    if (fake->has_lane) nng_close(fake->lane);
    for (size_t i = 0; i < fake->executed_count; i++) free(fake->executed[i].reply);
    free(fake->executed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

#endif
