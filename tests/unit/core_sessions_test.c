/* core_sessions_test.c: consumers that end their session. If they keep their leases, their number is limited (CAP-1),
 * and the sessions last as long as the leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core.h"
#include "tarry_limits.h"

#define LEFT_MAX (2 * SESSIONS_MAX)

struct rig {
    struct core *core;
    struct arena arena;
    struct core_effects effects;
    uint64_t now_ms;
    uint64_t producer;
    uint64_t sequence;
};

/* Steps the core. The effects stay valid until the next step. */
static void step(struct rig *rig, struct core_event event) {
    core_effects_reset(&rig->effects);
    event.now = (struct instant){.steady_ns = rig->now_ms * 1000000, .wall_ns = rig->now_ms * 1000000};
    core_step(rig->core, &event, &rig->effects);
}

static const Tarry__Reply *ask(struct rig *rig, Tarry__Request *request) {
    step(rig, (struct core_event){.kind = CORE_REQUEST, .request = {.ticket = 1, .message = request}});
    for (size_t i = 0; i < rig->effects.replies.count; i++)
        if (rig->effects.replies.items[i].ticket == 1) return rig->effects.replies.items[i].reply;
    return NULL;
}

static void commit_one(struct rig *rig, Tarry__Op *ops) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.producer = rig->producer;
    commit.sequence = commit.oldest_unanswered = ++rig->sequence;
    commit.n_ops = 1;
    commit.ops = &ops;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = &commit;
    static const struct core_content nothing;
    step(rig, (struct core_event){.kind = CORE_REQUEST,
                                  .request = {.ticket = 1, .message = &request, .commit.contents = &nothing}});
}

static void schedule(struct rig *rig) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Schedule task = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    task.queue = (char *)"q";
    task.when = &when;
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &task;
    commit_one(rig, &op);
}

/* Subscribes a consumer. Returns its session; 0: the broker is busy. */
static uint64_t subscribe_for(struct rig *rig, uint32_t prefetch) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe subscribe = TARRY__SUBSCRIBE__INIT;
    char *queue = (char *)"q";
    subscribe.queues = &queue;
    subscribe.n_queues = 1;
    subscribe.prefetch = prefetch;
    subscribe.lease_ms = LEASE_MAX_MS;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &subscribe;
    const Tarry__Reply *reply = ask(rig, &request);
    assert_non_null(reply);
    if (reply->code == TARRY__CODE__BUSY) return 0;
    assert_int_equal(reply->code, TARRY__CODE__OK);
    return reply->subscribe->session;
}

static uint64_t subscribe(struct rig *rig) {
    return subscribe_for(rig, 1);
}

/* Receives one task, and ends the session with the lease. */
static struct row leave_with_a_lease(struct rig *rig, uint64_t session) {
    step(rig, (struct core_event){.kind = CORE_LANE_UP, .lane.session = session});
    assert_int_equal(rig->effects.deliveries.count, 1);
    struct row row = rig->effects.deliveries.items[0].tasks[0].row;
    uint64_t seen = row.id;
    step(rig, (struct core_event){.kind = CORE_LANE_SENT, .lane.session = session, .lane.ok = true});
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe leave = TARRY__UNSUBSCRIBE__INIT;
    leave.session = session;
    leave.keep_leases = true;
    leave.n_seen = 1;
    leave.seen = &seen;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &leave;
    assert_int_equal(ask(rig, &request)->code, TARRY__CODE__OK);
    return row;
}

static void begin(struct rig *rig) {
    *rig = (struct rig){.now_ms = 1000000};
    struct core_options options = {
        .memory = 64u << 20, .outcomes_max = 1024, .outcome_retention_ms = 1000, .create_queues = true, .version = ""};
    tarry__policy__init(&options.policy);
    options.policy.lease_ms = 30000;
    rig->core = core_new(&options);
    arena_init(&rig->arena, SIZE_MAX);
    core_effects_init(&rig->effects, &rig->arena);
    step(rig, (struct core_event){.kind = CORE_START, .start.epoch = 1});
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.body_case = TARRY__REQUEST__BODY_HELLO;
    request.hello = &hello;
    rig->producer = ask(rig, &request)->hello->producer;
}

static void end(struct rig *rig) {
    core_check(rig->core);
    core_free(rig->core);
    arena_deinit(&rig->arena);
}

/* In an earlier version, the next subscription made an assertion of the broker fail. */
static void one_too_many_that_left_with_leases_is_told_to_wait(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    for (int i = 0; i < LEFT_MAX; i++) {
        schedule(&rig);
        uint64_t session = subscribe(&rig);
        assert_true(session != 0);
        leave_with_a_lease(&rig, session);
    }
    assert_int_equal(subscribe(&rig), 0);
    core_check(rig.core);
    rig.now_ms += LEASE_MAX_MS + 1; /* after this time, the leases have ended and their places are free */
    for (int i = 0; i < LEFT_MAX; i++) step(&rig, (struct core_event){.kind = CORE_TICK});
    assert_true(subscribe(&rig) != 0);
    end(&rig);
}

static void acked(struct rig *rig, const struct row *row) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Ack ack = TARRY__ACK__INIT;
    Tarry__Token token = TARRY__TOKEN__INIT;
    token.epoch = row->lease_epoch;
    token.position = row->lease_position;
    ack.id = row->id;
    ack.token = &token;
    op.op_case = TARRY__OP__OP_ACK;
    op.ack = &ack;
    commit_one(rig, &op);
}

static void extend(struct rig *rig, const struct row *row) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Extend extend = TARRY__EXTEND__INIT;
    Tarry__Token token = TARRY__TOKEN__INIT;
    token.epoch = row->lease_epoch;
    token.position = row->lease_position;
    extend.id = row->id;
    extend.token = &token;
    extend.lease_ms = LEASE_MAX_MS;
    op.op_case = TARRY__OP__OP_EXTEND;
    op.extend = &extend;
    commit_one(rig, &op);
    assert_int_equal(rig->effects.appends.count, 1);
}

/* In an earlier version, the core made a mistake when the only lease of an ended session was extended: it treated the
 * session as one of an earlier run. It took the lease back too early, and never reused the session's place in the
 * table. */
static void a_lease_that_is_extended_after_its_session_left_lasts_as_long(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    for (int i = 0; i < LEFT_MAX + 1; i++) { /* one session after another, so each finds a free place */
        schedule(&rig);
        uint64_t session = subscribe(&rig);
        assert_true(session != 0);
        struct row row = leave_with_a_lease(&rig, session);
        extend(&rig, &row);
        rig.now_ms += CLAIM_AFTER_START_MS + 1;
        step(&rig, (struct core_event){.kind = CORE_TICK});
        assert_int_equal(rig.effects.appends.count, 0);
        rig.now_ms += LEASE_MAX_MS;
        step(&rig, (struct core_event){.kind = CORE_TICK});
        assert_int_equal(rig.effects.appends.count, 1); /* one record in the log says that the task is ready again */
        uint64_t next = subscribe(&rig);
        row = leave_with_a_lease(&rig, next);
        acked(&rig, &row);
    }
    end(&rig);
}

static Tarry__Code heartbeat(struct rig *rig, uint64_t session) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Heartbeat heartbeat = TARRY__HEARTBEAT__INIT;
    heartbeat.session = session;
    request.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &heartbeat;
    return ask(rig, &request)->code;
}

/* F-17: a consumer that connects to a wrong lane must not block the queue for ever (history 80923110 of the simulator).
 */
static void a_consumer_that_beats_and_connects_nowhere_is_told(void **state) {
    (void)state;
    struct rig rig;
    begin(&rig);
    uint64_t session = subscribe(&rig);
    for (uint64_t ms = 0; ms + 1000 < SESSION_SILENCE_MS; ms += 1000) {
        rig.now_ms += 1000;
        assert_int_equal(heartbeat(&rig, session), TARRY__CODE__OK); /* the session's lane may still be connecting */
    }
    rig.now_ms += 1000;
    assert_int_equal(heartbeat(&rig, session), TARRY__CODE__NO_SUCH_SESSION);
    rig.now_ms +=
        SESSION_SILENCE_MS - 1; /* almost SESSION_SILENCE_MS without a heartbeat, so that the session still exists */
    step(&rig, (struct core_event){.kind = CORE_LANE_UP, .lane.session = session});
    assert_int_equal(heartbeat(&rig, session), TARRY__CODE__OK);
    rig.now_ms += SESSION_SILENCE_MS - 1;
    assert_int_equal(heartbeat(&rig, session), TARRY__CODE__OK);
    end(&rig);
}

#define HELD 100u /* number of tasks that the consumer has; mark_seen prefetches fewer at once */

/* Subscribes a consumer that receives `held` tasks. */
static uint64_t hold_many(struct rig *rig, uint64_t *ids, size_t held) {
    uint64_t session = subscribe_for(rig, (uint32_t)held);
    size_t count = 0;
    step(rig, (struct core_event){.kind = CORE_LANE_UP, .lane.session = session});
    while (rig->effects.deliveries.count == 1) {
        const struct core_delivery *delivery = &rig->effects.deliveries.items[0];
        for (size_t i = 0; i < delivery->count; i++) ids[count++] = delivery->tasks[i].row.id;
        step(rig, (struct core_event){.kind = CORE_LANE_SENT, .lane.session = session, .lane.ok = true});
    }
    assert_int_equal(count, held);
    return session;
}

/* Ends the session. `seen`: the tasks that its consumer has seen. Checks the number of leases that are recorded as lost
 * (seen tasks), and as released (other tasks, which keep their attempt). */
static void leave(struct rig *rig, uint64_t session, uint64_t *seen, size_t count, size_t lost, size_t released) {
    size_t causes[64] = {0};
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    body.session = session;
    body.seen = seen;
    body.n_seen = count;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &body;
    assert_int_equal(ask(rig, &request)->code, TARRY__CODE__OK);
    for (size_t i = 0; i < rig->effects.appends.count; i++) {
        const struct core_append *append = &rig->effects.appends.items[i];
        Tarry__FrameBody *frame = tarry__frame_body__unpack(NULL, append->body_size, append->body);
        for (size_t k = 0; k < frame->n_records; k++)
            if (frame->records[k]->fact_case == TARRY__RECORD__FACT_PUT) causes[frame->records[k]->put->cause]++;
        tarry__frame_body__free_unpacked(frame, NULL);
    }
    assert_int_equal(causes[TARRY__CAUSE__CAUSE_LEASE_LOST], lost);
    assert_int_equal(causes[TARRY__CAUSE__CAUSE_RELEASED], released);
}

/* The ids of seen tasks may come in any order and twice, and may name tasks that do not exist or that another consumer
 * has. */
static void whatever_order_tasks_were_seen_in_they_are_marked(void **state) { /* TRUE-1 */
    (void)state;
    struct rig rig;
    uint64_t ids[HELD], others[HELD], all[2 * HELD], seen[4 * HELD];
    size_t count = 0;
    begin(&rig);
    for (unsigned i = 0; i < 2 * HELD; i++) schedule(&rig);
    uint64_t session = hold_many(&rig, ids, HELD), other = hold_many(&rig, others, HELD);
    for (size_t i = HELD; i-- > 0;) {
        seen[count++] = others[i];
        seen[count++] = (1ull << 40) + i;
        if (i % 4 == 0) seen[count++] = ids[i];
        if (i % 8 == 0) seen[count++] = ids[i];
    }
    leave(&rig, session, seen, count, HELD / 4, HELD - HELD / 4);
    leave(&rig, other, NULL, 0, 0, HELD);
    rig.now_ms += 3600000;
    session = hold_many(&rig, all, 2 * HELD);
    leave(&rig, session, NULL, 0, 0, 2 * HELD); /* no task is marked as seen any more */
    end(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_order_tasks_were_seen_in_they_are_marked),
        cmocka_unit_test(one_too_many_that_left_with_leases_is_told_to_wait),
        cmocka_unit_test(a_lease_that_is_extended_after_its_session_left_lasts_as_long),
        cmocka_unit_test(a_consumer_that_beats_and_connects_nowhere_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
