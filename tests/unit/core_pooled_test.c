/* core_pooled_test.c: a session that many consumers share (broker/gateway). It gets as many tasks as it has credit for,
 * and does not need heartbeats. Its consumers keep their leases when the session ends, when it is resumed, and after a
 * restart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core.h"
#include "tarry_limits.h"

struct rig {
    struct core *core;
    struct core *follower; /* second core, which replays the frames of `core`; NULL: none */
    bool bound;            /* true: the sessions end when the process ends */
    struct arena arena;
    struct core_effects effects;
    uint64_t now_ms;
    uint64_t producer;
    uint64_t sequence;
};

static void follow(struct rig *rig) {
    for (size_t i = 0; i < rig->effects.appends.count; i++) {
        const struct core_append *append = &rig->effects.appends.items[i];
        const struct frame_header header = {
            .position = append->position,
            .type = append->type,
            .epoch = append->epoch,
            .steady_ns = append->now.steady_ns,
            .wall_ns = append->now.wall_ns,
            .body_size = append->body_size,
        };
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, append->body_size, append->body);
        assert_int_equal(core_replay(rig->follower, &header, body), 0);
        tarry__frame_body__free_unpacked(body, NULL);
    }
}

static void step(struct rig *rig, struct core_event event) {
    core_effects_reset(&rig->effects);
    event.now = (struct instant){.steady_ns = rig->now_ms * 1000000, .wall_ns = rig->now_ms * 1000000};
    core_step(rig->core, &event, &rig->effects);
    if (rig->follower != NULL) follow(rig);
}

static const Tarry__Reply *answer(const struct rig *rig) {
    for (size_t i = 0; i < rig->effects.replies.count; i++)
        if (rig->effects.replies.items[i].ticket == 1) return rig->effects.replies.items[i].reply;
    return NULL;
}

static void schedule(struct rig *rig, int count) {
    static const struct core_content nothing;
    for (int i = 0; i < count; i++) {
        Tarry__Request request = TARRY__REQUEST__INIT;
        Tarry__Commit commit = TARRY__COMMIT__INIT;
        Tarry__Op op = TARRY__OP__INIT, *ops = &op;
        Tarry__Schedule task = TARRY__SCHEDULE__INIT;
        Tarry__When when = TARRY__WHEN__INIT;
        task.queue = (char *)"q";
        task.when = &when;
        op.op_case = TARRY__OP__OP_SCHEDULE;
        op.schedule = &task;
        commit.producer = rig->producer;
        commit.sequence = commit.oldest_unanswered = ++rig->sequence;
        commit.n_ops = 1;
        commit.ops = &ops;
        request.body_case = TARRY__REQUEST__BODY_COMMIT;
        request.commit = &commit;
        step(rig, (struct core_event){.kind = CORE_REQUEST,
                                      .request = {.ticket = 1, .message = &request, .commit.contents = &nothing}});
    }
}

static uint64_t subscribe(struct rig *rig, uint64_t resumed) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe subscribe = TARRY__SUBSCRIBE__INIT;
    char *queue = (char *)"q";
    subscribe.queues = &queue;
    subscribe.n_queues = 1;
    subscribe.lease_ms = LEASE_MAX_MS;
    subscribe.bound = rig->bound;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &subscribe;
    step(rig, (struct core_event){.kind = CORE_REQUEST,
                                  .request = {.ticket = 1, .message = &request, .pooled = true, .resumed = resumed}});
    assert_int_equal(answer(rig)->code, TARRY__CODE__OK);
    uint64_t session = answer(rig)->subscribe->session;
    step(rig, (struct core_event){.kind = CORE_LANE_UP, .lane.session = session});
    return session;
}

static size_t delivered(const struct rig *rig) {
    return rig->effects.deliveries.count > 0 ? rig->effects.deliveries.items[0].count : 0;
}

static size_t give_credit(struct rig *rig, uint64_t session, uint32_t credit) {
    step(rig, (struct core_event){.kind = CORE_CREDIT, .lane.session = session, .lane.credit = credit});
    return delivered(rig);
}

static void sent(struct rig *rig, uint64_t session, bool ok) {
    step(rig, (struct core_event){.kind = CORE_LANE_SENT, .lane.session = session, .lane.ok = ok});
}

static const Tarry__QueueStats *stats(struct rig *rig) {
    static Tarry__BrokerStats broker;
    tarry__broker_stats__init(&broker);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    stats.queue = (char *)"q";
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    step(rig,
         (struct core_event){.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request, .broker = &broker}});
    return answer(rig)->stats->queues[0];
}

static void leave(struct rig *rig, uint64_t session) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    body.session = session;
    body.keep_leases = true;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &body;
    step(rig, (struct core_event){.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request}});
}

/* Creates a core that has not started. */
static void make(struct rig *rig) {
    *rig = (struct rig){.now_ms = 1000000};
    struct core_options options = {
        .memory = 64u << 20, .outcomes_max = 1024, .outcome_retention_ms = 1000, .create_queues = true, .version = ""};
    tarry__policy__init(&options.policy);
    options.policy.lease_ms = 30000;
    rig->core = core_new(&options);
    arena_init(&rig->arena, SIZE_MAX);
    core_effects_init(&rig->effects, &rig->arena);
}

static void start(struct rig *rig) {
    step(rig, (struct core_event){.kind = CORE_START, .start.epoch = 1});
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.body_case = TARRY__REQUEST__BODY_HELLO;
    request.hello = &hello;
    step(rig, (struct core_event){.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request}});
    rig->producer = answer(rig)->hello->producer;
}

static void begin(struct rig *rig) {
    make(rig);
    start(rig);
}

static void end(struct rig *rig) {
    core_check(rig->core);
    core_free(rig->core);
    arena_deinit(&rig->arena);
}

static void credit_says_how_many_and_nothing_comes_without(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    schedule(&rig, 10);
    uint64_t session = subscribe(&rig, 0);
    assert_int_equal(delivered(&rig), 0);
    assert_int_equal(give_credit(&rig, session, 3), 3);
    /* There is no second delivery, because only one may be in flight at a time. */
    assert_int_equal(give_credit(&rig, session, 5), 0);
    sent(&rig, session, true);
    assert_int_equal(delivered(&rig), 5);
    give_credit(&rig, session, 0);
    sent(&rig, session, true);
    assert_int_equal(delivered(&rig), 0);
    assert_int_equal(stats(&rig)->in_flight, 8);
    end(&rig);
}

static void what_never_left_costs_no_attempt(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    schedule(&rig, 1);
    uint64_t session = subscribe(&rig, 0);
    assert_int_equal(give_credit(&rig, session, 1), 1);
    sent(&rig, session, false);
    assert_int_equal(delivered(&rig), 1);
    assert_int_equal(rig.effects.deliveries.items[0].tasks[0].row.attempt, 1);
    assert_int_equal(rig.effects.deliveries.items[0].tasks[0].row.deliveries, 1);
    end(&rig);
}

static void silence_does_not_end_it(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    schedule(&rig, 2);
    uint64_t session = subscribe(&rig, 0);
    assert_int_equal(give_credit(&rig, session, 1), 1);
    give_credit(&rig, session, 0);
    sent(&rig, session, true);
    rig.now_ms += 10 * SESSION_SILENCE_MS;
    step(&rig, (struct core_event){.kind = CORE_TICK});
    assert_int_equal(stats(&rig)->in_flight, 1);
    assert_int_equal(give_credit(&rig, session, 5), 1);
    end(&rig);
}

static void leases_stay_when_it_leaves_and_when_it_comes_back(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    schedule(&rig, 4);
    uint64_t session = subscribe(&rig, 0);
    assert_int_equal(give_credit(&rig, session, 3), 3);
    give_credit(&rig, session, 0);
    sent(&rig, session, true);
    leave(&rig, session);
    assert_int_equal(stats(&rig)->in_flight, 3);
    assert_true(subscribe(&rig, session) ==
                session); /* the resumed session gets its former place in the table of sessions */
    /* The leased tasks are not sent again, because the session's consumers still have them. */
    assert_int_equal(delivered(&rig), 0);
    assert_int_equal(give_credit(&rig, session, 9), 1);
    assert_int_equal(stats(&rig)->in_flight, 4);
    end(&rig);
}

enum { HELD = 20000 };

/* The primary's process dies while its connections hold 20,000 tasks. The follower becomes the leader, and returns the
 * tasks in steps of bounded size (CALM-1). */
static void leases_of_a_bound_session_end_with_the_process(void **state) { /* KEEP-1 */
    (void)state;
    struct rig rig, other;
    make(&rig);
    make(&other);
    rig.follower = other.core;
    rig.bound = true;
    start(&rig);
    schedule(&rig, HELD);
    uint64_t session = subscribe(&rig, 0);
    give_credit(&rig, session, HELD);
    for (int left = 20; stats(&rig)->in_flight < HELD && left > 0; left--) sent(&rig, session, true);
    assert_int_equal(stats(&rig)->in_flight, HELD);
    assert_int_equal(core_digest(rig.core), core_digest(other.core));
    other.now_ms = rig.now_ms + 1;
    step(&other, (struct core_event){.kind = CORE_START, .start.epoch = 2});
    uint64_t before = HELD;
    while (core_deadline(other.core) <= other.now_ms) {
        step(&other, (struct core_event){.kind = CORE_TICK});
        uint64_t left = stats(&other)->in_flight;
        assert_true(before - left <= 2 * 4096);
        before = left;
    }
    assert_int_equal(before, 0);
    assert_int_equal(stats(&other)->ready, HELD);
    end(&other);
    end(&rig);
}

static void only_the_broker_binds_a_session(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe subscribe = TARRY__SUBSCRIBE__INIT;
    char *queue = (char *)"q";
    subscribe.queues = &queue;
    subscribe.n_queues = 1;
    subscribe.bound = true;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &subscribe;
    step(&rig, (struct core_event){.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request}});
    assert_int_equal(answer(&rig)->code, TARRY__CODE__INVALID);
    end(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit_says_how_many_and_nothing_comes_without),
        cmocka_unit_test(what_never_left_costs_no_attempt),
        cmocka_unit_test(silence_does_not_end_it),
        cmocka_unit_test(leases_of_a_bound_session_end_with_the_process),
        cmocka_unit_test(only_the_broker_binds_a_session),
        cmocka_unit_test(leases_stay_when_it_leaves_and_when_it_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
