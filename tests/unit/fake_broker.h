/* fake_broker.h: a broker for tests of the client: an nng REP socket in this process that does what a script says with
 * each commit: answer, execute and lose the answer, lose the request, say busy, forget. Or it is not the primary.
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
    LOSE_REQUEST, /* drop the connection, nothing executed */
    SAY_BUSY,
    SAY_STOPPING,
    FORGET,      /* FORGOTTEN, and the producer is unknown from now on */
    SAY_NOTHING, /* not executed, connection kept */
    GARBAGE,
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
    uint32_t first_busy; /* so many times the first sequence is told to wait, while others are answered */
    bool atomic_aborts;  /* atomic commits are refused by their last operation */
    /* Audits; NULL: unsupported. True: the answer is in the message and goes out. Lock held. */
    bool (*on_audit)(struct fake *fake, const Tarry__Request *request, nng_msg *message);
    void *argument; /* its own */
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
    size_t hellos;
    size_t goodbyes;
    size_t ops;      /* executed */
    size_t ops_most; /* in one commit */
    uint64_t producer;
    uint64_t last_sequence;
    uint64_t last_oldest;
    uint64_t widest;   /* sequence - oldest_unanswered at most */
    bool out_of_order; /* a fresh sequence that is not the next one */
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
    if (commit->sequence != fake->last_sequence + 1) fake->out_of_order = true;
    fake->last_sequence = commit->sequence;
    struct executed *slot = &fake->executed[fake->executed_count++];
    *slot = (struct executed){commit->producer, commit->sequence, malloc(nng_msg_len(message)), nng_msg_len(message)};
    memcpy(slot->reply, nng_msg_body(message), slot->reply_size);
    free(results);
    free(pointers);
}

static void commit_once(struct fake *fake, const Tarry__Commit *commit, nng_msg *message) {
    for (size_t i = fake->executed_count; i-- > 0;) {
        const struct executed *slot = &fake->executed[i];
        if (slot->producer != commit->producer || slot->sequence != commit->sequence) continue;
        nng_msg_clear(message);
        nng_msg_append(message, slot->reply, slot->reply_size);
        return;
    }
    execute(fake, commit, message);
}

static void refuse(nng_msg *message, Tarry__Code code) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)"says the fake";
    reply_pack(message, &reply);
}

/* True: the answer is in the message and goes out. */
static bool on_commit(struct fake *fake, const Tarry__Commit *commit, nng_msg *message) {
    enum deed deed = fake->commits < fake->script_size ? fake->script[fake->commits] : ANSWER;
    nng_pipe pipe = nng_msg_get_pipe(message);
    fake->commits++;
    fake->last_oldest = commit->oldest_unanswered;
    if (commit->sequence - commit->oldest_unanswered > fake->widest)
        fake->widest = commit->sequence - commit->oldest_unanswered;
    if (commit->producer != fake->producer) deed = FORGET;
    if (commit->sequence == 1 && fake->first_busy > 0) {
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
        refuse(message, TARRY__CODE__NO_SUCH_SESSION);
        return true;
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
    pthread_mutex_init(&fake->lock, NULL);
    assert_int_equal(nng_rep0_open(&fake->socket), 0);
    assert_int_equal(nng_socket_set_ms(fake->socket, NNG_OPT_RECVTIMEO, 20), 0);
    nng_listener listener;
    assert_int_equal(nng_listen(fake->socket, "ws://127.0.0.1:0/rpc", &listener, 0), 0);
    int port = 0;
    assert_int_equal(nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port), 0);
    snprintf(fake->url, sizeof(fake->url), "ws://127.0.0.1:%d", port);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
    return fake;
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
    for (size_t i = 0; i < fake->executed_count; i++) free(fake->executed[i].reply);
    free(fake->executed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

#endif
