/* client_test.c: libtarry against a fake broker: an nng REP socket in this process that does what a script says with
 * each commit: answer, execute and lose the answer, lose the request, say busy, forget.
 *
 * The fake remembers every (producer, sequence) as a real broker does, so that "took effect once" (ONCE-1) can be
 * counted from outside the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "held.h"
#include "tarry.h"
#include "tarry.pb-c.h"

/* ---- the fake broker */

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
    bool atomic_aborts; /* atomic commits are refused by their last operation */
    /* what happened */
    size_t commits;   /* requests, repeats included */
    size_t hellos;
    size_t goodbyes;
    size_t ops;       /* executed */
    size_t ops_most;  /* in one commit */
    uint64_t producer;
    uint64_t last_sequence;
    uint64_t last_oldest;
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
    Tarry__OpResult **pointers = calloc(commit->n_ops, sizeof(*pointers));
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
    if (commit->producer != fake->producer) deed = FORGET;
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

static bool on_request(struct fake *fake, const Tarry__Request *request, nng_msg *message) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__HelloReply hello = TARRY__HELLO_REPLY__INIT;
    switch (request->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
        fake->hellos++;
        fake->producer = 100 + fake->hellos;
        fake->last_sequence = 0;
        hello.producer = fake->producer;
        hello.request_max = 1 << 20;
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
    memcpy(fake->script, script, script_size * sizeof(*script));
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

static void fake_stop(struct fake *fake) {
    atomic_store(&fake->stop, true);
    pthread_join(fake->thread, NULL);
    nng_close(fake->socket);
    for (size_t i = 0; i < fake->executed_count; i++) free(fake->executed[i].reply);
    free(fake->executed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

static tarry_client *client_to(const char *urls, uint64_t timeout_ms) {
    tarry_client *client;
    struct tarry_options options = {.urls = urls, .name = "client_test", .timeout_ms = timeout_ms};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    return client;
}

static const struct tarry_schedule_options order = {.queue = "orders", .key = "order-1", .when_ms = 500};

/* ---- what needs no broker */

static void codes_have_names_and_sentences(void **state) {
    for (int code = 0; code <= TARRY_FAILED; code++) {
        assert_string_not_equal(tarry_code_name(code), "unknown");
        assert_true(strlen(tarry_code_sentence(code)) > 1);
    }
    for (int code = TARRY_E_TIMEOUT; code <= TARRY_E_SYSTEM; code++) {
        assert_string_not_equal(tarry_code_name(code), "unknown");
        assert_true(strlen(tarry_code_sentence(code)) > 5);
    }
    assert_string_equal(tarry_code_name(99), "unknown");
    assert_string_equal(tarry_outcome_name(TARRY_LIVE), "exists");
    assert_string_equal(tarry_outcome_name(TARRY_IN_FLIGHT), "in_flight");
}

static void tokens_go_to_text_and_back(void **state) {
    char text[TARRY_TOKEN_SIZE];
    struct tarry_token token = {UINT32_MAX, UINT64_MAX}, back;
    assert_int_equal(tarry_token_parse(tarry_token_format(token, text), &back), TARRY_OK);
    assert_true(back.epoch == token.epoch && back.position == token.position);
    assert_int_equal(tarry_token_parse("0-0", &back), TARRY_OK);
    static const char *const bad[] = {"",    "1",      "1-",   "-1",   "1-2-3",        "1-2 ",
                                      " 1-2", "01-2",   "+1-2", "1-a",  "4294967296-1", "1-18446744073709551616",
                                      "1--2", "0x1-2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(tarry_token_parse(bad[i], &back), TARRY_INVALID);
}

static void addresses_are_checked(void **state) {
    static const char *const bad[] = {"",
                                      "127.0.0.1:7272",
                                      "tcp://127.0.0.1:7272",
                                      "wss://127.0.0.1:7272",
                                      "ws://",
                                      "ws://:7272",
                                      "ws://127.0.0.1:7272/rpc",
                                      "ws://127.0.0.1:0",
                                      "ws://127.0.0.1:65536",
                                      "ws://127.0.0.1:x",
                                      "ws://127.0.0.1:7272,",
                                      "ws://a b:1",
                                      "ws://[::1:7272"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tarry_client *client = NULL;
        struct tarry_options options = {.urls = bad[i]};
        assert_int_equal(tarry_open(&options, &client), TARRY_E_ADDRESS);
        assert_null(client);
    }
    struct link link = {.address_count = 0};
    assert_int_equal(link_parse(&link, "ws://a , ws://[::1]:9/,ws://b:65535"), TARRY_OK);
    assert_int_equal(link.address_count, 3);
    assert_string_equal(link.addresses[0], "ws://a:7272");
    assert_string_equal(link.addresses[1], "ws://[::1]:9");
    assert_string_equal(link.addresses[2], "ws://b:65535");
}

/* One packed entry of Commit.ops, as protobuf-c reads it. */
static Tarry__Commit *unpack_ops(const struct buffer *body) {
    Tarry__Commit *commit = tarry__commit__unpack(NULL, body->size, body->data);
    assert_non_null(commit);
    assert_int_equal(commit->n_ops, 1);
    return commit;
}

static void schedules_are_packed_as_protobuf_does(void **state) {
    static char payload[70000];
    for (size_t i = 0; i < sizeof(payload); i++) payload[i] = (char)(i * 7);
    const struct tarry_attribute attributes[] = {{"trace", "abc"}, {"", "no name"}, {"empty", ""}};
    for (int variant = 0; variant < 64; variant++) {
        struct tarry_schedule_options options = {
            .queue = "orders",
            .key = variant & 1 ? "order-1" : NULL,
            .when = variant & 2 ? TARRY_AT : TARRY_DELAY,
            .when_ms = variant & 2 ? 1790000000000ull : (variant & 4 ? 0 : 1800000),
            .payload = payload,
            .payload_size = variant & 8 ? (variant & 16 ? sizeof(payload) : 100) : 0,
            .attributes = attributes,
            .attribute_count = variant & 16 ? 3 : 0,
            .priority = variant & 32 ? 9 : 0,
            .expires_ms = variant & 1 ? 300 : 0,
            .on_conflict = (enum tarry_on_conflict)(variant & 3),
        };
        struct buffer body = {NULL, 0, 0};
        assert_int_equal(pack_schedule(&body, &options), TARRY_OK);
        Tarry__Commit *commit = unpack_ops(&body);
        assert_int_equal(commit->ops[0]->op_case, TARRY__OP__OP_SCHEDULE);
        const Tarry__Schedule *schedule = commit->ops[0]->schedule;
        assert_string_equal(schedule->queue, "orders");
        assert_int_equal(schedule->key.len, variant & 1 ? 7 : 0);
        assert_int_equal(schedule->when->kind, options.when);
        assert_int_equal(schedule->when->ms, options.when_ms);
        assert_int_equal(schedule->priority, options.priority);
        assert_int_equal(schedule->expires_ms, options.expires_ms);
        assert_int_equal(schedule->on_conflict, options.on_conflict);
        Tarry__Content *content = tarry__content__unpack(NULL, schedule->content.len, schedule->content.data);
        assert_non_null(content);
        assert_int_equal(content->payload.len, options.payload_size);
        if (options.payload_size > 0) assert_memory_equal(content->payload.data, payload, options.payload_size);
        assert_int_equal(content->n_attributes, options.attribute_count);
        for (size_t i = 0; i < options.attribute_count; i++) {
            assert_string_equal(content->attributes[i]->name, attributes[i].name);
            assert_string_equal(content->attributes[i]->value, attributes[i].value);
        }
        /* The bytes are those that protobuf-c would have written. */
        struct buffer again = {NULL, 0, 0};
        assert_int_equal(pack_op(&again, commit->ops[0]), TARRY_OK);
        assert_int_equal(again.size, body.size);
        assert_memory_equal(again.data, body.data, body.size);
        tarry__content__free_unpacked(content, NULL);
        tarry__commit__free_unpacked(commit, NULL);
        free(body.data);
        free(again.data);
    }
}

static void held_leases_match_a_naive_model(void **state) {
    enum { IDS = 300, STEPS = 200000 };
    struct held held = {NULL, 0, 0};
    bool model[IDS + 1] = {false};
    size_t count = 0;
    uint64_t random = 88172645463325252ull;
    for (int step = 0; step < STEPS; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t id = 1 + random % IDS;
        if (random >> 40 & 1) {
            assert_true(held_put(&held, (struct held_entry){id, {1, id}, 100 + id, false}));
            count += !model[id];
            model[id] = true;
        } else {
            held_remove(&held, id);
            count -= model[id];
            model[id] = false;
        }
        assert_int_equal(held.count, count);
        uint64_t probe = 1 + (random >> 20) % IDS;
        assert_int_equal(held_find(&held, probe) != NULL, model[probe]);
    }
    held_sweep(&held, 100 + IDS / 2);
    for (uint64_t id = 1; id <= IDS; id++)
        assert_int_equal(held_find(&held, id) != NULL, model[id] && id >= IDS / 2);
    held_deinit(&held);
}

static void arguments_are_checked(void **state) {
    tarry_client *client = client_to("ws://127.0.0.1:9", 200);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(NULL, &order, &result), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_schedule(client, NULL, &result), TARRY_E_ARGUMENT);
    assert_int_equal(result.code, TARRY_E_ARGUMENT);
    assert_true(strlen(result.message) > 5);
    struct tarry_schedule_options bad = order;
    bad.payload_size = 5;
    assert_int_equal(tarry_schedule_async(client, &bad, NULL, NULL), TARRY_E_ARGUMENT);
    bad = order;
    bad.on_conflict = (enum tarry_on_conflict)7;
    assert_int_equal(tarry_schedule_async(client, &bad, NULL, NULL), TARRY_E_ARGUMENT);
    bad = order;
    bad.payload = "x";
    bad.payload_size = SIZE_MAX;
    assert_int_equal(tarry_schedule_async(client, &bad, NULL, NULL), TARRY_TOO_LARGE);
    assert_int_equal(tarry_cancel(client, &(struct tarry_ref){.queue = "q"}, false, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_queue_purge(client, "q", 64, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_queue_set(client, "q", &(struct tarry_policy){0}, 1u << 20, NULL), TARRY_E_ARGUMENT);
    struct tarry_options options = {.commits_in_flight = 17};
    assert_int_equal(tarry_open(&options, &client), TARRY_E_ARGUMENT);
    tarry_close(client);
    tarry_close(NULL);
    tarry_commit_free(NULL);
    tarry_task_free(NULL);
}

static void a_broken_builder_sends_nothing(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, 2000);
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, true, &commit), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_cancel(commit, &(struct tarry_ref){0}, false), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_commit_run(commit, NULL, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(fake->commits, 0);
    tarry_commit_clear(commit);
    for (int i = 0; i < TARRY_OPS_PER_COMMIT_MAX; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_TOO_LARGE);
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

/* ---- silence */

static void nobody_there_is_told_in_time(void **state) {
    tarry_client *client = client_to("ws://127.0.0.1:9,ws://127.0.0.1:10", 400);
    uint64_t before = now_ms();
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_NO_BROKER);
    uint64_t took = now_ms() - before;
    assert_true(took >= 400 && took < 900);
    assert_int_equal(result.producer, 0);
    struct tarry_view *view = NULL;
    const char *message = NULL;
    assert_int_equal(tarry_get(client, &(struct tarry_ref){.id = 1}, false, &view, &message), TARRY_E_NO_BROKER);
    assert_true(strlen(message) > 5);
    assert_null(view);
    tarry_consumer *consumer = NULL;
    const char *queue = "orders";
    struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1};
    assert_int_equal(tarry_consumer_open(client, &options, &consumer), TARRY_E_NO_BROKER);
    assert_null(consumer);
    assert_int_equal(tarry_drain(client, 0), TARRY_OK);
    tarry_close(client);
}

static void a_silent_broker_leaves_the_outcome_unknown(void **state) {
    const enum deed script[] = {SAY_NOTHING, SAY_NOTHING, SAY_NOTHING, SAY_NOTHING};
    struct fake *fake = fake_start(script, 4);
    tarry_client *client = client_to(fake->url, 500);
    uint64_t before = now_ms();
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_E_TIMEOUT);
    uint64_t took = now_ms() - before;
    assert_true(took >= 500 && took < 1000);
    tarry_close(client);
    fake_stop(fake);
}

static void a_busy_broker_is_no_silence(void **state) {
    enum deed script[12];
    for (int i = 0; i < 12; i++) script[i] = i % 2 ? SAY_BUSY : SAY_STOPPING;
    struct fake *fake = fake_start(script, 12);
    tarry_client *client = client_to(fake->url, 300);
    struct tarry_result result;
    uint64_t before = now_ms();
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_true(now_ms() - before > 300); /* longer than the timeout, and yet no timeout */
    assert_int_equal(result.sequence, 1); /* the sequence was unused, so it is the same */
    assert_int_equal(fake->ops, 1);
    assert_int_equal(fake->commits, 13);
    tarry_close(client);
    assert_int_equal(fake->goodbyes, 1);
    fake_stop(fake);
}

static void closing_completes_what_waits(void **state);

/* ---- ONCE-1 */

static void a_lost_answer_is_asked_for_again_under_the_same_sequence(void **state) {
    const enum deed script[] = {LOSE_REQUEST, LOSE_ANSWER, LOSE_ANSWER, SAY_BUSY, LOSE_REQUEST};
    struct fake *fake = fake_start(script, 5);
    tarry_client *client = client_to(fake->url, 5000);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_int_equal(result.id, 1);
    assert_int_equal(fake->ops, 1);
    assert_int_equal(fake->commits, 6);
    assert_int_equal(fake->hellos, 1);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_int_equal(result.id, 2);
    assert_int_equal(result.sequence, 2);
    assert_int_equal(fake->last_oldest, 2);
    tarry_close(client);
    fake_stop(fake);
}

static void a_forgotten_producer_that_executed_nothing_is_replaced(void **state) {
    const enum deed script[] = {ANSWER, FORGET, ANSWER};
    struct fake *fake = fake_start(script, 3);
    tarry_client *client = client_to(fake->url, 5000);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    uint64_t first = result.producer;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    assert_true(result.producer != first && result.sequence == 1);
    assert_int_equal(fake->ops, 2);
    assert_int_equal(fake->hellos, 2);
    tarry_close(client);
    fake_stop(fake);
}

static void what_may_have_been_executed_is_never_sent_as_new(void **state) {
    const enum deed script[] = {LOSE_ANSWER, FORGET, ANSWER};
    struct fake *fake = fake_start(script, 3);
    tarry_client *client = client_to(fake->url, 5000);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_FORGOTTEN);
    assert_int_equal(fake->ops, 1);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    tarry_close(client);
    fake_stop(fake);
}

struct counted {
    atomic_size_t done;
    atomic_size_t ok;
    uint64_t last_id;
    bool ascending;
};

static void count_done(void *arg, const struct tarry_result *result) {
    struct counted *counted = arg;
    if (result->code == TARRY_OK) atomic_fetch_add(&counted->ok, 1);
    if (result->id <= counted->last_id) counted->ascending = false;
    counted->last_id = result->id;
    atomic_fetch_add(&counted->done, 1);
}

/* A storm of every mishap: each operation takes effect once, in order of submission. */
static void operations_take_effect_once_and_in_order(void **state) {
    enum deed script[200];
    uint64_t random = 42;
    for (int i = 0; i < 200; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        const enum deed deeds[] = {ANSWER, LOSE_ANSWER, LOSE_REQUEST, SAY_BUSY, ANSWER, SAY_STOPPING};
        script[i] = deeds[random >> 60 < 12 ? (random >> 60) % 6 : 0];
    }
    struct fake *fake = fake_start(script, 200);
    tarry_client *client = client_to(fake->url, 10000);
    struct counted counted = {.ascending = true};
    enum { OPS = 100000 };
    for (int i = 0; i < OPS; i++) {
        if (i % 700 == 0) assert_int_equal(tarry_drain(client, 0), TARRY_OK);
        int rv;
        while ((rv = tarry_schedule_async(client, &order, count_done, &counted)) == TARRY_E_FULL)
            assert_int_equal(tarry_drain(client, 0), TARRY_OK);
        assert_int_equal(rv, TARRY_OK);
    }
    assert_int_equal(tarry_drain(client, 0), TARRY_OK);
    assert_int_equal(counted.done, OPS);
    assert_int_equal(counted.ok, OPS);
    assert_true(counted.ascending);
    assert_int_equal(fake->ops, OPS);
    assert_int_equal(fake->hellos, 1);
    assert_false(fake->out_of_order);
    assert_true(fake->commits > 200); /* the whole script was played */
    tarry_close(client);
    fake_stop(fake);
}

static void requests_coalesce(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, 10000);
    struct counted counted = {.ascending = true};
    enum { OPS = 200000 };
    uint64_t before = now_ms();
    for (int i = 0; i < OPS; i++) assert_int_equal(tarry_schedule_async(client, &order, count_done, &counted), TARRY_OK);
    assert_int_equal(tarry_drain(client, 0), TARRY_OK);
    uint64_t took = now_ms() - before;
    print_message("# %d operations in %llu ms, %zu commits, at most %zu operations in one\n", OPS,
                  (unsigned long long)took, fake->commits, fake->ops_most);
    assert_int_equal(counted.ok, OPS);
    assert_true(fake->ops_most <= OPS_PER_COMMIT_MAX);
    assert_true(fake->commits < OPS / 100);
    tarry_close(client);
    fake_stop(fake);
}

static void a_commit_is_a_request_of_its_own_in_order(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, 10000);
    struct counted counted = {.ascending = true};
    tarry_commit *commit;
    assert_int_equal(tarry_commit_new(client, true, &commit), TARRY_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(tarry_schedule_async(client, &order, count_done, &counted), TARRY_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    const struct tarry_result *results;
    size_t count;
    assert_int_equal(tarry_commit_run(commit, &results, &count), TARRY_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) assert_int_equal(results[i].id, 6 + i);
    assert_int_equal(counted.done, 5);
    /* Refused as a whole. */
    fake->atomic_aborts = true;
    for (int i = 0; i < 3; i++) assert_int_equal(tarry_commit_schedule(commit, &order), TARRY_OK);
    assert_int_equal(tarry_commit_run(commit, &results, &count), TARRY_ABORTED);
    assert_int_equal(results[0].code, TARRY_ABORTED);
    assert_int_equal(results[2].code, TARRY_EXISTS);
    assert_string_equal(results[2].message, "a live task holds this key");
    tarry_commit_free(commit);
    tarry_close(client);
    fake_stop(fake);
}

static void an_answer_without_sense_is_told(void **state) {
    const enum deed script[] = {GARBAGE, ANSWER};
    struct fake *fake = fake_start(script, 2);
    tarry_client *client = client_to(fake->url, 2000);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_E_PROTOCOL);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    assert_int_equal(tarry_ping(client), TARRY_OK);
    struct tarry_view *view;
    const char *message;
    assert_int_equal(tarry_get(client, &(struct tarry_ref){.id = 1}, false, &view, &message), TARRY_UNSUPPORTED);
    assert_string_equal(message, "says the fake");
    tarry_close(client);
    fake_stop(fake);
}

static void what_the_broker_cannot_take_is_not_sent(void **state) {
    struct fake *fake = fake_start(NULL, 0); /* takes 1 MiB */
    tarry_client *client = client_to(fake->url, 2000);
    struct tarry_schedule_options large = order;
    large.payload_size = 2 << 20;
    large.payload = calloc(1, large.payload_size);
    struct tarry_result result;
    assert_int_equal(tarry_schedule(client, &large, &result), TARRY_TOO_LARGE);
    assert_int_equal(fake->commits, 0);
    assert_int_equal(tarry_schedule(client, &order, &result), TARRY_OK);
    free((void *)large.payload);
    tarry_close(client);
    fake_stop(fake);
}

static void blocking_in_a_callback(void *arg, const struct tarry_result *result) {
    struct tarry_result inner;
    *(int *)arg = tarry_schedule(*(tarry_client **)((char *)arg + sizeof(void *)), &order, &inner);
}

static void a_blocking_call_in_a_callback_is_refused(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    struct {
        union {
            int code;
            void *align;
        } first;
        tarry_client *client;
    } args = {.first = {.align = NULL}};
    args.client = client_to(fake->url, 2000);
    assert_int_equal(tarry_schedule_async(args.client, &order, blocking_in_a_callback, &args), TARRY_OK);
    assert_int_equal(tarry_drain(args.client, 0), TARRY_OK);
    assert_int_equal(args.first.code, TARRY_E_CALLBACK);
    tarry_close(args.client);
    fake_stop(fake);
}

static void count_closed(void *arg, const struct tarry_result *result) {
    if (result->code == TARRY_E_CLOSED) (*(int *)arg)++;
}

static void closing_completes_what_waits(void **state) {
    const enum deed script[] = {SAY_NOTHING};
    struct fake *fake = fake_start(script, 1);
    tarry_client *client = client_to(fake->url, TARRY_FOREVER);
    int closed = 0;
    for (int i = 0; i < 100; i++) assert_int_equal(tarry_schedule_async(client, &order, count_closed, &closed), TARRY_OK);
    usleep(100000);
    tarry_close(client);
    assert_int_equal(closed, 100);
    fake_stop(fake);
}

static void *thread_of_calls(void *arg) {
    for (int i = 0; i < 500; i++) assert_int_equal(tarry_schedule(arg, &order, NULL), TARRY_OK);
    return NULL;
}

static void threads_share_a_client(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    tarry_client *client = client_to(fake->url, 5000);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, thread_of_calls, client), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    assert_int_equal(fake->ops, 4000);
    assert_true(fake->commits < 4000);
    tarry_close(client);
    fake_stop(fake);
}

static void the_next_address_is_tried(void **state) {
    struct fake *fake = fake_start(NULL, 0);
    char urls[128];
    snprintf(urls, sizeof(urls), "ws://127.0.0.1:9,%s", fake->url);
    tarry_client *client = client_to(urls, 5000);
    assert_int_equal(tarry_schedule(client, &order, NULL), TARRY_OK);
    tarry_close(client);
    fake_stop(fake);
}

static void full_means_nothing_was_done(void **state) {
    const enum deed script[] = {SAY_NOTHING};
    struct fake *fake = fake_start(script, 1);
    tarry_client *client;
    struct tarry_options options = {.urls = fake->url, .queued_size_max = 10000};
    assert_int_equal(tarry_open(&options, &client), TARRY_OK);
    size_t accepted = 0;
    int rv, closed = 0;
    while ((rv = tarry_schedule_async(client, &order, count_closed, &closed)) == TARRY_OK) accepted++;
    assert_int_equal(rv, TARRY_E_FULL);
    assert_true(accepted > 50 && accepted < 1000);
    tarry_close(client);
    assert_int_equal(closed, accepted);
    fake_stop(fake);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_have_names_and_sentences),
        cmocka_unit_test(tokens_go_to_text_and_back),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(schedules_are_packed_as_protobuf_does),
        cmocka_unit_test(held_leases_match_a_naive_model),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(a_broken_builder_sends_nothing),
        cmocka_unit_test(nobody_there_is_told_in_time),
        cmocka_unit_test(a_silent_broker_leaves_the_outcome_unknown),
        cmocka_unit_test(a_busy_broker_is_no_silence),
        cmocka_unit_test(a_lost_answer_is_asked_for_again_under_the_same_sequence),
        cmocka_unit_test(a_forgotten_producer_that_executed_nothing_is_replaced),
        cmocka_unit_test(what_may_have_been_executed_is_never_sent_as_new),
        cmocka_unit_test(operations_take_effect_once_and_in_order),
        cmocka_unit_test(requests_coalesce),
        cmocka_unit_test(a_commit_is_a_request_of_its_own_in_order),
        cmocka_unit_test(an_answer_without_sense_is_told),
        cmocka_unit_test(what_the_broker_cannot_take_is_not_sent),
        cmocka_unit_test(a_blocking_call_in_a_callback_is_refused),
        cmocka_unit_test(closing_completes_what_waits),
        cmocka_unit_test(threads_share_a_client),
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(full_means_nothing_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
