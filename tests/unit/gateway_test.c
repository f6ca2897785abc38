/* gateway_test.c: the interface for foreign protocols (broker/gateway) when its number of requests is at the limit: no
 * function calls back before it returns, waiting clients are notified, and objects that await a reply are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "gateway_host.h"
#include "gateway_parts.h"
#include "message.h"

/* The simulated broker, which replies when a test says so, and the simulated door. */
static struct {
    uint64_t asked[GATEWAY_ASKS_MAX]; /* numbers of the requests that have no reply yet */
    size_t count;
    Tarry__Request__BodyCase last; /* kind of the last request */
    Tarry__Request *request;       /* the last request, unpacked */
    uint64_t ahead_s;              /* seconds by which the test has advanced the monotonic clocks */
    uint64_t lane;                 /* session of the newest lane */
    unsigned told;                 /* number of notifications about leases */
    Tarry__Code code;              /* code of the last such notification */
    uint64_t alarm_ms;             /* duration in the last call of door_alarm */
} world;

static bool request(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *message) {
    if (world.request != NULL) tarry__request__free_unpacked(world.request, NULL);
    world.request = tarry__request__unpack(NULL, message->size, message->bytes);
    world.last = world.request->body_case;
    world.asked[world.count++] = from;
    message_free(message);
    return true;
}

static uint64_t hold(void *argument, uint64_t principal) {
    return principal;
}

static void release(void *argument, uint64_t principal) {}

static const char *name(void *argument, uint64_t principal) {
    return principal == 1 ? "" : "owner";
}

static uint64_t own(void *argument) {
    return 2;
}

static Tarry__Code may_key(void *argument, uint64_t principal, const Tarry__Commit *commit,
                           char sentence[GATEWAY_SENTENCE_SIZE]) {
    return TARRY__CODE__OK;
}

static Tarry__Code may_lease(void *argument, uint64_t principal, const char *const *queues, size_t queue_count,
                             char sentence[GATEWAY_SENTENCE_SIZE]) {
    return TARRY__CODE__OK;
}

static bool lane_up(void *argument, uint32_t lane, uint64_t session, uint64_t id) {
    world.lane = id;
    return true;
}

static void lane_sent(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp) {}
static void lane_credit(void *argument, uint32_t lane, uint64_t session, uint32_t credit) {}

/* Replaces functions of the door (by the linker): timers fire when a test says so, and there is always space. */
void __wrap_door_alarm(struct door *door, uint64_t after_ms);
void __wrap_door_alarm(struct door *door, uint64_t after_ms) {
    world.alarm_ms = after_ms;
}
bool __wrap_door_stream_hold(struct door *door, int64_t bytes);
bool __wrap_door_stream_hold(struct door *door, int64_t bytes) {
    return true;
}

/* Replaces clock_gettime, so that a test can advance the clock. */
int __real_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out) {
    int result = __real_clock_gettime(id, out);
    if (id == CLOCK_MONOTONIC || id == CLOCK_BOOTTIME) out->tv_sec += (time_t)world.ahead_s;
    return result;
}

static const struct gateway_caller caller = {.principal = 1, .peer = "127.0.0.1:1", .client = "test"};
static const char *const queues[] = {"q"};

static int begin(void **state) {
    static const struct gateway_calls calls = {.request = request,
                                               .hold = hold,
                                               .release = release,
                                               .name = name,
                                               .own = own,
                                               .may_key = may_key,
                                               .may_lease = may_lease,
                                               .lane_up = lane_up,
                                               .lane_sent = lane_sent,
                                               .lane_credit = lane_credit};
    memset(&world, 0, sizeof(world));
    *state = gateway_new(&calls);
    gateway_serve(*state, NULL);
    return *state == NULL;
}

static int end(void **state) {
    gateway_free(*state);
    if (world.request != NULL) tarry__request__free_unpacked(world.request, NULL);
    return 0;
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    world.told++;
    world.code = leased->code;
}

static void ask_as_many_as_may(struct gateway *gateway) {
    Tarry__Request asked = TARRY__REQUEST__INIT;
    Tarry__Queues body = TARRY__QUEUES__INIT;
    asked.body_case = TARRY__REQUEST__BODY_QUEUES;
    asked.queues = &body;
    while (world.count < GATEWAY_ASKS_MAX) gateway_forget(gateway, gateway_ask(gateway, &caller, &asked, NULL, NULL));
    assert_int_equal(gateway_ask(gateway, &caller, &asked, NULL, NULL), 0);
}

static void answer(struct gateway *gateway, uint64_t to, Tarry__Reply *reply) {
    struct message *message = message_new(tarry__reply__get_packed_size(reply));
    tarry__reply__pack(reply, message->bytes);
    gateway_inside(gateway, to, message, false);
    message_free(message);
}

static uint64_t lease(struct gateway *gateway, uint64_t wait_ms) {
    const struct gateway_lease_options options = {.queues = queues, .queue_count = 1, .max = 1, .wait_ms = wait_ms};
    return gateway_lease(gateway, &caller, &options, on_leased, NULL);
}

/* The caller frees its request as soon as the function returns, so no callback may come later. */
static void a_lease_that_cannot_be_asked_for_is_refused_later(void **state) {
    struct gateway *gateway = *state;
    ask_as_many_as_may(gateway);
    assert_int_not_equal(lease(gateway, 60000), 0);
    assert_int_equal(world.told, 0);
    gateway_alarm(gateway);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.code, TARRY__CODE__BUSY);
    uint64_t cancelled = lease(gateway, 60000);
    gateway_cancel(gateway, cancelled);
    gateway_alarm(gateway);
    assert_int_equal(world.told, 1);
}

static void subscribed(struct gateway *gateway) {
    assert_int_equal(world.last, TARRY__REQUEST__BODY_SUBSCRIBE);
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__SubscribeReply body = TARRY__SUBSCRIBE_REPLY__INIT;
    reply.body_case = TARRY__REPLY__BODY_SUBSCRIBE;
    reply.subscribe = &body;
    body.session = 7;
    uint64_t to = world.asked[--world.count];
    answer(gateway, to, &reply);
}

static void what_is_there_now_cannot_be_asked(void **state) {
    struct gateway *gateway = *state;
    lease(gateway, 60000);
    subscribed(gateway);
    ask_as_many_as_may(gateway);
    assert_int_not_equal(lease(gateway, 0), 0);
    assert_int_equal(world.told, 0);
    gateway_alarm(gateway);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.code, TARRY__CODE__BUSY);
}

/* The broker's reply says whether a delivery is in flight. The caller gets
 * "no task" only if no delivery is in flight. */
static void a_question_for_what_is_there_now_is_answered_if_nothing_is(void **state) {
    struct gateway *gateway = *state;
    Tarry__Reply reply = TARRY__REPLY__INIT;
    assert_int_not_equal(lease(gateway, 0), 0);
    subscribed(gateway);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_HEARTBEAT);
    reply.position = 4096;
    answer(gateway, world.asked[--world.count], &reply);
    gateway_alarm(gateway);
    assert_int_equal(world.told, 0);
    assert_int_not_equal(lease(gateway, 0), 0);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_HEARTBEAT);
    reply.position = 0;
    answer(gateway, world.asked[--world.count], &reply);
    gateway_alarm(gateway);
    assert_int_equal(world.told, 2);
    assert_int_equal(world.code, TARRY__CODE__OK);
}

/* A client may set `now_ms`, the maximum wait for the answer whether a task is ready, because a slow disk may delay
 * the lease. */
static void a_lease_may_wait_longer_for_what_is_there_now(void **state) {
    struct gateway *gateway = *state;
    const struct gateway_lease_options options = {.queues = queues, .queue_count = 1, .max = 1, .now_ms = 10000};
    assert_int_not_equal(gateway_lease(gateway, &caller, &options, on_leased, NULL), 0);
    assert_in_range(world.alarm_ms, 9000, 10000);
    assert_int_not_equal(lease(gateway, 0), 0);
    assert_in_range(world.alarm_ms, 1, 1000);
}

/* A session ends while its heartbeat is in flight, and other pools need its place. The reply must still find the right
 * pool. */
static void a_pool_stays_while_an_answer_is_awaited_for_it(void **state) {
    struct gateway *gateway = *state;
    uint64_t now = lease(gateway, 0);
    subscribed(gateway);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_HEARTBEAT);
    uint64_t heartbeat = world.asked[0];
    gateway_cancel(gateway, now);
    gateway_inside(gateway, world.lane, NULL, false); /* the lane of the session ends */
    world.count = 0;
    Tarry__Reply none = TARRY__REPLY__INIT;
    none.code = TARRY__CODE__NO_SUCH_SESSION;
    for (uint64_t lease_ms = 1; lease_ms <= 1100; lease_ms++) { /* more pools than the gateway remembers */
        const struct gateway_lease_options options = {
            .queues = queues, .queue_count = 1, .max = 1, .lease_ms = lease_ms, .wait_ms = 60000};
        uint64_t other = gateway_lease(gateway, &caller, &options, on_leased, NULL);
        assert_int_not_equal(other, 0);
        gateway_cancel(gateway, other);
        answer(gateway, world.asked[--world.count], &none); /* after this reply the pool has no session */
    }
    answer(gateway, heartbeat, &none);
    gateway_alarm(gateway);
}

/* Clients that wait for the same queues share a session, because each further session costs the broker memory. */
static void who_waits_for_the_same_shares_a_session(void **state) {
    static const char *const two[] = {"q", "r"}, *const other[] = {"r"};
    static const struct gateway_caller stranger = {.principal = 2, .peer = "127.0.0.1:1", .client = "test"};
    const struct gateway_lease_options options = {
        .queues = two, .queue_count = 2, .max = 1, .lease_ms = 1000, .wait_ms = 60000};
    struct gateway_lease_options others[3] = {options, options, options};
    others[0].queue_count = 1;
    others[1].lease_ms++;
    others[2].queues = other;
    others[2].queue_count = 1;
    for (size_t i = 0; i < 2; i++) assert_int_not_equal(gateway_lease(*state, &caller, &options, on_leased, NULL), 0);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_SUBSCRIBE);
    assert_int_equal(world.count, 1);
    for (size_t i = 0; i < 3; i++) {
        gateway_lease(*state, &caller, &others[i], on_leased, NULL);
        assert_int_equal(world.count, 2 + i);
    }
    gateway_lease(*state, &stranger, &options, on_leased, NULL);
    assert_int_equal(world.count, 5);
}

/* Delivers the tasks `from` … `from + count - 1` on the newest lane. */
static void deliver(struct gateway *gateway, uint64_t from, size_t count) {
    Tarry__DeliveredTask tasks[8], *pointers[8];
    Tarry__Token tokens[8];
    Tarry__Delivery delivery = TARRY__DELIVERY__INIT;
    for (size_t i = 0; i < count; i++) {
        tarry__delivered_task__init(&tasks[i]);
        tarry__token__init(&tokens[i]);
        tokens[i].epoch = 1;
        tokens[i].position = 4096 + from + i;
        tasks[i].id = from + i;
        tasks[i].token = &tokens[i];
        pointers[i] = &tasks[i];
    }
    delivery.session = 7;
    delivery.n_tasks = count;
    delivery.tasks = pointers;
    struct message *message = message_new(tarry__delivery__get_packed_size(&delivery));
    tarry__delivery__pack(&delivery, message->bytes);
    gateway_inside(gateway, world.lane, message, true);
    message_free(message);
}

static uint64_t leases[2];

/* Settles both leases in the callback, and then reads its own tasks. */
static void on_leased_twice(void *argument, const struct gateway_leased *leased) {
    struct gateway *gateway = argument;
    gateway_left(gateway, leases[0], world.told > 0);
    if (world.told > 0) gateway_left(gateway, leases[1], true);
    assert_int_equal(leased->count, 1);
    assert_int_equal(leased->tasks[0]->id, 11 + world.told);
    assert_int_equal(leased->tasks[0]->token->position, 4096 + 11 + world.told);
    world.told++;
}

/* The gateway keeps a delivery until the last callback has returned, whatever the callbacks do. */
static void what_a_callback_is_given_is_valid_until_it_returns(void **state) {
    struct gateway *gateway = *state;
    const struct gateway_lease_options options = {.queues = queues, .queue_count = 1, .max = 1, .wait_ms = 60000};
    for (size_t i = 0; i < 2; i++) leases[i] = gateway_lease(gateway, &caller, &options, on_leased_twice, gateway);
    subscribed(gateway);
    deliver(gateway, 11, 2);
    assert_int_equal(world.told, 2);
}

/* ---- expired receipts (gateway_once.c) */

static void jump(struct gateway *gateway, uint64_t seconds) {
    world.ahead_s += seconds;
    gateway_alarm(gateway);
}

static void answer_stats(struct gateway *gateway, uint64_t ready, uint64_t dead, bool is_paused, bool follows) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__StatsReply body = TARRY__STATS_REPLY__INIT;
    Tarry__QueueStats queue = TARRY__QUEUE_STATS__INIT, *pointer = &queue;
    assert_int_equal(world.last, TARRY__REQUEST__BODY_STATS);
    assert_string_equal(world.request->stats->queue, GATEWAY_ONCE_QUEUE);
    reply.body_case = TARRY__REPLY__BODY_STATS;
    reply.stats = &body;
    reply.follower = follows;
    body.n_queues = 1;
    body.queues = &pointer;
    queue.ready = ready;
    queue.dead = dead;
    queue.paused = is_paused;
    answer(gateway, world.asked[--world.count], &reply);
}

static void answer_hello_as(struct gateway *gateway, uint64_t producer) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__HelloReply body = TARRY__HELLO_REPLY__INIT;
    assert_int_equal(world.last, TARRY__REQUEST__BODY_HELLO);
    reply.body_case = TARRY__REPLY__BODY_HELLO;
    reply.hello = &body;
    body.producer = producer;
    answer(gateway, world.asked[--world.count], &reply);
}

static void answer_commit(struct gateway *gateway, uint64_t to) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__CommitReply body = TARRY__COMMIT_REPLY__INIT;
    reply.body_case = TARRY__REPLY__BODY_COMMIT;
    reply.commit = &body;
    answer(gateway, to, &reply);
}

/* Acks each leased receipt (the note of an Idempotency-Key) with its own token, until no receipt is ready. (In an
 * earlier version the broker crashed 24 h after the first Idempotency-Key, when its receipt was ready.) */
static void receipts_that_are_over_are_acknowledged(void **state) {
    struct gateway *gateway = *state;
    jump(gateway, 59);
    assert_int_equal(world.count, 0);
    jump(gateway, 1);
    answer_stats(gateway, 3, 0, false, false);
    subscribed(gateway);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_HEARTBEAT);
    world.count = 0;
    deliver(gateway, 21, 3);
    answer_hello_as(gateway, 5);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_COMMIT);
    const Tarry__Commit *commit = world.request->commit;
    assert_int_equal(commit->n_ops, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(commit->ops[i]->op_case, TARRY__OP__OP_ACK);
        assert_int_equal(commit->ops[i]->ack->id, 21 + i);
        assert_int_equal(commit->ops[i]->ack->token->position, 4096 + 21 + i);
    }
    uint64_t acknowledged = world.asked[--world.count];
    jump(gateway, 600); /* no second sweep of the receipts begins while one is running */
    assert_int_equal(world.last, TARRY__REQUEST__BODY_UNSUBSCRIBE);
    assert_int_equal(world.count, 1); /* there is one request, which ends the idle session, and no query */
    world.count = 0;
    answer_commit(gateway, acknowledged);
    answer_stats(gateway, 0, 0, false, false);
    assert_int_equal(world.count, 0);
    jump(gateway, 599);
    assert_int_equal(world.count, 0);
    jump(gateway, 1);
    answer_stats(gateway, 0, 0, false, false);
    assert_int_equal(world.count, 0);
}

/* ---- producers of commits with a key (gateway.c) */

static void on_committed(void *argument, const Tarry__Reply *reply) {
    world.told++;
    world.code = reply->code;
}

/* Answers the schedule of a receipt (the note of an Idempotency-Key). The gateway then sends the client's commit, with
 * the sequence in the receipt. */
static void answer_receipt(struct gateway *gateway) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__CommitReply body = TARRY__COMMIT_REPLY__INIT;
    Tarry__OpResult result = TARRY__OP_RESULT__INIT, *pointer = &result;
    assert_int_equal(world.last, TARRY__REQUEST__BODY_COMMIT);
    assert_string_equal(world.request->commit->ops[0]->schedule->queue, GATEWAY_ONCE_QUEUE);
    reply.body_case = TARRY__REPLY__BODY_COMMIT;
    reply.commit = &body;
    body.n_results = 1;
    body.results = &pointer;
    answer(gateway, world.asked[--world.count], &reply);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_COMMIT);
    assert_string_equal(world.request->commit->ops[0]->schedule->queue, "q");
}

static void commit_with_key(struct gateway *gateway, const char *key) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    Tarry__Op op = TARRY__OP__INIT, *pointer = &op;
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    struct gateway_once once = {.key = key, .key_size = strlen(key)};
    schedule.queue = (char *)"q";
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &schedule;
    commit.n_ops = 1;
    commit.ops = &pointer;
    assert_int_not_equal(gateway_commit(gateway, &caller, &commit, &once, on_committed, NULL), 0);
}

/* The broker has forgotten the producer in a receipt. Without a new producer, the receipt's key would be refused for a
 * day. */
static void a_key_gets_no_number_of_an_idle_producer(void **state) {
    struct gateway *gateway = *state;
    commit_with_key(gateway, "a");
    answer_hello_as(gateway, 70); /* gives the client's own producer the id 70 */
    answer_hello_as(gateway, 71); /* gives the id 71 to the broker's own producer, which writes the receipts */
    answer_receipt(gateway);
    assert_int_equal(world.request->commit->producer, 70);
    answer_commit(gateway, world.asked[--world.count]);
    assert_int_equal(world.told, 1);
    world.ahead_s += 12 * 3600 - 10; /* almost half of PRODUCER_IDLE_MS */
    commit_with_key(gateway, "b");
    answer_receipt(gateway);
    assert_int_equal(world.request->commit->producer, 70);
    answer_commit(gateway, world.asked[--world.count]);
    world.ahead_s += 12 * 3600 + 10;
    commit_with_key(gateway, "c");
    answer_hello_as(gateway, 80);
    answer_hello_as(gateway, 81);
    answer_receipt(gateway);
    assert_int_equal(world.request->commit->producer, 80);
    answer_commit(gateway, world.asked[--world.count]);
    assert_int_equal(world.told, 3);
    assert_int_equal(world.code, TARRY__CODE__OK);
}

/* ONCE-1: a principal has at most 8 producers for commits. Producers that were idle for 12 h are replaced by new ones.
 */
static void idle_producers_make_room(void **state) {
    enum { NIGHTS = 20 };
    struct gateway *gateway = *state;
    for (unsigned night = 0; night < NIGHTS; night++) {
        commit_with_key(gateway, night % 2 == 0 ? "a" : "b");
        answer_hello_as(gateway, 70 + 2 * night);
        answer_hello_as(gateway, 71 + 2 * night);
        answer_receipt(gateway);
        answer_commit(gateway, world.asked[--world.count]);
        assert_int_equal(world.told, night + 1);
        assert_int_equal(world.code, TARRY__CODE__OK);
        world.ahead_s += 12 * 3600 + 1;
    }
}

/* The broker's table of producers is bounded, so it may forget a producer early. The next key must not be refused for
 * that reason. */
static void a_forgotten_producer_gives_no_further_number(void **state) {
    struct gateway *gateway = *state;
    Tarry__Reply forgotten = TARRY__REPLY__INIT;
    forgotten.code = TARRY__CODE__FORGOTTEN;
    commit_with_key(gateway, "a");
    answer_hello_as(gateway, 70);
    answer_hello_as(gateway, 71);
    answer_receipt(gateway);
    answer(gateway, world.asked[--world.count], &forgotten);
    assert_int_equal(world.code, TARRY__CODE__FORGOTTEN);
    commit_with_key(gateway, "b");
    answer_hello_as(gateway, 90);
    answer_receipt(gateway);
    assert_int_equal(world.request->commit->producer, 90);
}

/* A sweep of the receipts also resumes their queue if it is paused, and drops its dead letters. Each sweep does that
 * only once, because otherwise a slow job that drops dead letters would be started again and again. */
static void the_queue_of_receipts_is_mended_once_a_sweep(void **state) {
    struct gateway *gateway = *state;
    jump(gateway, 60);
    answer_stats(gateway, 2, 4, true, false);
    answer_hello_as(gateway, 5);
    const Tarry__Commit *commit = world.request->commit;
    assert_int_equal(commit->n_ops, 2);
    assert_int_equal(commit->ops[0]->op_case, TARRY__OP__OP_QUEUE_PAUSE);
    assert_false(commit->ops[0]->queue_pause->paused);
    assert_string_equal(commit->ops[0]->queue_pause->queue, GATEWAY_ONCE_QUEUE);
    assert_int_equal(commit->ops[1]->op_case, TARRY__OP__OP_DEAD);
    assert_true(commit->ops[1]->dead->all);
    assert_int_equal(commit->ops[1]->dead->what, TARRY__DEAD_OP__WHAT__DROP);
    assert_string_equal(commit->ops[1]->dead->task->queue, GATEWAY_ONCE_QUEUE);
    answer_commit(gateway, world.asked[--world.count]);
    answer_stats(gateway, 0, 4, false, false);
    assert_int_equal(world.count, 0);
    jump(gateway, 600);
    answer_stats(gateway, 0, 4, false, false);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_COMMIT);
}

static void a_follower_sweeps_nothing(void **state) {
    struct gateway *gateway = *state;
    jump(gateway, 60);
    answer_stats(gateway, 3, 1, true, true);
    assert_int_equal(world.count, 0);
}

/* After a failed sweep the next one may begin. */
static void a_sweep_that_fails_is_tried_again(void **state) {
    struct gateway *gateway = *state;
    Tarry__Reply busy = TARRY__REPLY__INIT;
    busy.code = TARRY__CODE__BUSY;
    jump(gateway, 60);
    answer(gateway, world.asked[--world.count], &busy); /* replies to the statistics query with BUSY */
    jump(gateway, 600);
    answer_stats(gateway, 1, 0, false, false);
    assert_int_equal(world.last, TARRY__REQUEST__BODY_SUBSCRIBE);
    answer(gateway, world.asked[--world.count], &busy);
    jump(gateway, 600);
    answer_stats(gateway, 1, 0, false, false);
    subscribed(gateway);
    world.count = 0;
    jump(gateway, 1); /* the wait ends now, and no task has come */
    jump(gateway, 599);
    answer_stats(gateway, 1, 0, false, false);
    deliver(gateway, 31, 1);
    answer_hello_as(gateway, 5);
    answer(gateway, world.asked[--world.count], &busy); /* the acknowledgement */
    jump(gateway, 600);
    answer_stats(gateway, 0, 0, false, false);
}

/* Each object has a slot of its own, up to the maximum number of objects. After its end, its id leads to nothing. */
static void handles_are_their_owners(void **state) {
    static uint64_t ids[GATEWAY_SLOTS_MAX];
    static char owners[GATEWAY_SLOTS_MAX];
    struct gateway *gateway = *state;
    for (size_t i = 0; i < GATEWAY_SLOTS_MAX; i++) {
        ids[i] = handle_new(gateway, HANDLE_ASK, &owners[i]);
        assert_int_not_equal(ids[i], 0);
    }
    assert_int_equal(handle_new(gateway, HANDLE_ASK, NULL), 0);
    for (size_t i = 0; i < GATEWAY_SLOTS_MAX; i++)
        assert_ptr_equal(handle_find(gateway, ids[i], HANDLE_ASK), &owners[i]);
    assert_null(handle_find(gateway, ids[0], HANDLE_LEASE));
    assert_null(handle_find(gateway, 0, HANDLE_FREE));
    handle_free(gateway, ids[7]);
    assert_null(handle_find(gateway, ids[7], HANDLE_ASK));
    uint64_t other = handle_new(gateway, HANDLE_LEASE, &owners[0]);
    assert_ptr_equal(handle_find(gateway, other, HANDLE_LEASE), &owners[0]);
    assert_null(handle_find(gateway, ids[7], HANDLE_LEASE));
    ids[7] = other;
    for (size_t i = 0; i < GATEWAY_SLOTS_MAX; i++) handle_free(gateway, ids[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lease_that_cannot_be_asked_for_is_refused_later, begin, end),
        cmocka_unit_test_setup_teardown(what_is_there_now_cannot_be_asked, begin, end),
        cmocka_unit_test_setup_teardown(a_question_for_what_is_there_now_is_answered_if_nothing_is, begin, end),
        cmocka_unit_test_setup_teardown(a_lease_may_wait_longer_for_what_is_there_now, begin, end),
        cmocka_unit_test_setup_teardown(a_pool_stays_while_an_answer_is_awaited_for_it, begin, end),
        cmocka_unit_test_setup_teardown(who_waits_for_the_same_shares_a_session, begin, end),
        cmocka_unit_test_setup_teardown(what_a_callback_is_given_is_valid_until_it_returns, begin, end),
        cmocka_unit_test_setup_teardown(receipts_that_are_over_are_acknowledged, begin, end),
        cmocka_unit_test_setup_teardown(a_key_gets_no_number_of_an_idle_producer, begin, end),
        cmocka_unit_test_setup_teardown(idle_producers_make_room, begin, end),
        cmocka_unit_test_setup_teardown(a_forgotten_producer_gives_no_further_number, begin, end),
        cmocka_unit_test_setup_teardown(the_queue_of_receipts_is_mended_once_a_sweep, begin, end),
        cmocka_unit_test_setup_teardown(a_follower_sweeps_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_sweep_that_fails_is_tried_again, begin, end),
        cmocka_unit_test_setup_teardown(handles_are_their_owners, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
