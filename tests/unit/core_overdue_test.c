/* core_overdue_test.c: tasks that fell due during an outage expire, become dead letters, or are spread over time
 * (overdue.h). */
#include "core_alone.h"

#include "frame.h"
#include "overdue.h"
#include "state.h"
#include "tasks.h"

#define S 1000ull

/* A second core, which replays every frame of the first core. It serves after the first core has been freed. */
static struct core *second;
static struct row leased[64];
static size_t leased_count;

static void copy_frames(struct fx *f) {
    for (size_t i = 0; second != NULL && i < f->effects.appends.count; i++) {
        const struct core_append *append = &f->effects.appends.items[i];
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, append->body_size, append->body);
        struct frame_header header = {.position = append->position,
                                      .type = append->type,
                                      .epoch = append->epoch,
                                      .steady_ns = append->now.steady_ns,
                                      .wall_ns = append->now.wall_ns,
                                      .body_size = append->body_size};
        assert_int_equal(core_replay(second, &header, body), 0);
        tarry__frame_body__free_unpacked(body, NULL);
    }
    for (size_t i = 0; i < f->effects.deliveries.count; i++)
        for (size_t k = 0; k < f->effects.deliveries.items[i].count; k++)
            leased[leased_count++] = f->effects.deliveries.items[i].tasks[k].row;
}

static int set_up_two(void **state) {
    assert_int_equal(set_up(state), 0);
    struct fx *f = *state;
    core_free(f->core);
    second = core_new(&f->options);
    assert_non_null(second);
    f->after_step = copy_frames;
    leased_count = 0;
    begin(f);
    return 0;
}

static int tear_down_two(void **state) {
    core_free(second);
    second = NULL;
    return tear_down(state);
}

static Tarry__Code set_policy(struct fx *f, uint64_t expire_ms, uint64_t dead_ms, uint64_t spread_ms) {
    static char *fields[] = {"overdue_expire_ms", "overdue_dead_ms", "overdue_spread_ms"};
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet body = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &body;
    body.queue = "orders";
    body.policy = &policy;
    body.fields = fields;
    body.n_fields = 3;
    policy.overdue_expire_ms = expire_ms;
    policy.overdue_dead_ms = dead_ms;
    policy.overdue_spread_ms = spread_ms;
    return commit(f, &op);
}

static uint64_t schedule_in(struct fx *f, uint64_t delay_ms) {
    assert_int_equal(schedule(f, "orders", delay_ms), TARRY__CODE__OK);
    return f->id;
}

static void tick_at(struct fx *f, uint64_t at_ms) {
    struct core_event tick = {.kind = CORE_TICK};
    f->now_ms = NOW_MS + at_ms;
    step(f, &tick);
}

/* Frees the first core; the second one serves from `at_ms` on. A third core then replays its frames. */
static void fail_over_at(struct fx *f, uint64_t at_ms, uint32_t epoch) {
    core_free(f->core);
    f->core = second;
    second = NULL;
    f->now_ms = NOW_MS + at_ms;
    struct core_event start = {.kind = CORE_START, .start.epoch = epoch};
    step(f, &start);
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
}

static void consume(struct fx *f) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    leased_count = 0;
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = 64;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
    step(f, &up);
    for (size_t last = leased_count + 1; last != leased_count;) {
        last = leased_count;
        struct core_event sent = {.kind = CORE_LANE_SENT, .lane.session = f->session, .lane.ok = true};
        step(f, &sent);
    }
    core_check(f->core);
}

static void late_tasks_expire_or_die_and_the_others_are_delivered(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_policy(f, 3600 * S, 60 * S, 0), TARRY__CODE__OK);
    const uint64_t before = schedule_in(f, 0), hours = schedule_in(f, 100 * S), minutes = schedule_in(f, 7000 * S);
    const uint64_t late = schedule_in(f, 7150 * S), after = schedule_in(f, 7201 * S);
    tick_at(f, 10);
    fail_over_at(f, 7200 * S, 2);
    consume(f);
    assert_int_equal(leased_count, 2);
    assert_int_equal(leased[0].id, before); /* the task was ready before the outage, so it is not affected */
    assert_int_equal(leased[1].id, late);
    assert_int_equal(task_find(f->core, hours)->place, PLACE_ENDED);
    assert_int_equal(f->core->tally.queues[1].expired, 1);
    assert_int_equal(task_find(f->core, minutes)->row.state, ROW_BURIED);
    assert_ptr_equal(task_find(f->core, minutes)->row.reason, reason_overdue);
    assert_int_equal(task_find(f->core, after)->row.state, ROW_WAITING);
}

static void the_others_are_spread_once(void **state) {
    struct fx *f = *state;
    uint64_t ids[40], dues = 0;
    assert_int_equal(set_policy(f, 0, 0, 600 * S), TARRY__CODE__OK);
    for (size_t i = 0; i < 40; i++) ids[i] = schedule_in(f, 5 * S);
    fail_over_at(f, 100 * S, 2);
    consume(f);
    assert_int_equal(leased_count, 0);
    for (size_t i = 0; i < 40; i++) {
        const struct task *task = task_find(f->core, ids[i]);
        const uint64_t after_ms = task->row.due_ms - (NOW_MS + 100 * S);
        assert_true(after_ms >= 1 && after_ms <= 600 * S);
        dues += after_ms;
    }
    /* The average shows that the tasks are spread over the whole time. */
    assert_true(dues / 40 > 150 * S && dues / 40 < 450 * S);
    for (uint64_t at_s = 101; at_s <= 701; at_s++) tick_at(f, at_s * S);
    assert_int_equal(f->core->tally.queues[1].waiting[ROW_STEADY][0] + f->core->leases, 40);
    assert_int_equal(f->core->tally.queues[1].expired, 0);
}

/* The policy at the end of the outage decides about the tasks that fell due during it. Tasks that fall due later are
 * not affected. */
static void an_outage_is_judged_by_the_policy_of_its_end(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_policy(f, 10 * S, 0, 0), TARRY__CODE__OK);
    const uint64_t old = schedule_in(f, 5 * S);
    fail_over_at(f, 100 * S, 2);
    assert_int_equal(f->core->queues[1].overdue_count, 1);
    assert_int_equal(set_policy(f, 0, 0, 0), TARRY__CODE__OK);
    const uint64_t young = schedule_in(f, 0);
    consume(f);
    assert_int_equal(leased_count, 1);
    assert_int_equal(leased[0].id, young);
    assert_int_equal(task_find(f->core, old)->place, PLACE_ENDED);
}

/* A broker without requests is not an outage: a frame per second in the log proves that it runs. */
static void tasks_that_wait_for_a_consumer_are_not_judged(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_policy(f, 10 * S, 0, 0), TARRY__CODE__OK);
    const uint64_t slow = schedule_in(f, 5 * S);
    for (uint64_t at_ms = 0; at_ms <= 3600 * S; at_ms += 500) {
        if (core_deadline(f->core) <= NOW_MS + at_ms) tick_at(f, at_ms);
    }
    assert_true(f->core->recorded.steady_ns / 1000000 + OVERDUE_MARK_MS >= NOW_MS + 3600 * S - 500);
    fail_over_at(f, 3700 * S, 2);
    consume(f);
    assert_int_equal(leased_count, 1);
    assert_int_equal(leased[0].id, slow);
}

static void without_the_policy_nothing_is_recorded(void **state) {
    struct fx *f = *state;
    const uint64_t id = schedule_in(f, 5 * S);
    for (uint64_t at_ms = 20; at_ms <= 100; at_ms += 20) tick_at(f, at_ms); /* enough time for the log's seal */
    const uint64_t position = core_position(f->core);
    for (uint64_t at_ms = 200; at_ms <= 20 * S; at_ms += 100) tick_at(f, at_ms);
    assert_int_equal(core_position(f->core), position); /* no frame was written, although time passed */
    fail_over_at(f, 3700 * S, 2);
    assert_int_equal(f->core->queues[1].overdue_count, 0);
    consume(f);
    assert_int_equal(leased_count, 1);
    assert_int_equal(leased[0].id, id);
}

static void a_task_that_is_late_for_both_expires(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_policy(f, 60 * S, 60 * S, 0), TARRY__CODE__OK);
    const uint64_t id = schedule_in(f, 5 * S);
    fail_over_at(f, 100 * S, 2);
    consume(f);
    assert_int_equal(task_find(f->core, id)->place, PLACE_ENDED);
}

/* A start reads the recorded judgements from the index. */
static void a_judgement_survives_in_the_index(void **state) {
    struct fx *f = *state;
    Tarry__QueuePut put = TARRY__QUEUE_PUT__INIT;
    Tarry__Overdue overdue = TARRY__OVERDUE__INIT, *overdues[] = {&overdue};
    put.number = 1;
    put.name = "orders";
    put.policy = &f->options.policy;
    overdue.until_steady_ms = NOW_MS;
    overdue.overdue_expire_ms = 5;
    put.overdue = overdues;
    put.n_overdue = 1;
    assert_int_equal(core_restore_queue(second, &put), 0);
    assert_int_equal(second->queues[1].overdue_count, 1);
    assert_int_equal(second->queues[1].overdues[0].until_ms[ROW_STEADY], NOW_MS);
    assert_int_equal(second->queues[1].overdues[0].expire_ms, 5);
    put.n_overdue = OVERDUES_MAX + 1; /* damage */
    assert_int_equal(core_restore_queue(second, &put), CORE_NONSENSE);
}

#define OVERDUE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_two, tear_down_two)

int main(void) {
    const struct CMUnitTest tests[] = {
        OVERDUE_TEST(late_tasks_expire_or_die_and_the_others_are_delivered),
        OVERDUE_TEST(the_others_are_spread_once),
        OVERDUE_TEST(an_outage_is_judged_by_the_policy_of_its_end),
        OVERDUE_TEST(tasks_that_wait_for_a_consumer_are_not_judged),
        OVERDUE_TEST(a_judgement_survives_in_the_index),
        OVERDUE_TEST(without_the_policy_nothing_is_recorded),
        OVERDUE_TEST(a_task_that_is_late_for_both_expires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
