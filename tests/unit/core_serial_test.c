/* core_serial_test.c: serial names (SERIAL-1): of the tasks with one name, at most one is in flight, and they are
 * delivered in order. */
#include "core_alone.h"

#include "leases.h"
#include "near.h"
#include "state.h"
#include "tasks.h"

#define MANY 64u

static struct row leased[4 * MANY]; /* rows of the leased tasks, in the order of their delivery */
static size_t leased_count;

static void note_deliveries(struct fx *f) {
    for (size_t i = 0; i < f->effects.deliveries.count; i++)
        for (size_t k = 0; k < f->effects.deliveries.items[i].count; k++)
            leased[leased_count++] = f->effects.deliveries.items[i].tasks[k].row;
}

static uint64_t schedule_named(struct fx *f, const char *serial, uint64_t delay_ms, uint32_t priority) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = delay_ms;
    body.priority = priority;
    body.serial = (ProtobufCBinaryData){strlen(serial), (uint8_t *)serial};
    assert_int_equal(schedule_as(f, "orders", &body, &when), TARRY__CODE__OK);
    return f->id;
}

/* Adds a consumer with credit for all tasks. */
static void consume(struct fx *f) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    leased_count = 0;
    f->after_step = note_deliveries;
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = MANY;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
    step(f, &up);
}

/* Steps the core at `at_ms` and reports each delivery as sent, until the core delivers no further task. */
static void deliver_at(struct fx *f, uint64_t at_ms) {
    size_t last;
    f->now_ms = NOW_MS + at_ms;
    struct core_event tick = {.kind = CORE_TICK};
    step(f, &tick);
    do {
        last = leased_count;
        struct core_event sent = {.kind = CORE_LANE_SENT, .lane.session = f->session, .lane.ok = true};
        step(f, &sent);
    } while (leased_count > last);
    core_check(f->core);
}

static void assert_leased(size_t count, const uint64_t *ids) {
    assert_int_equal(leased_count, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(leased[i].id, ids[i]);
}

static Tarry__Code settle(struct fx *f, const struct row *row, Tarry__Op__OpCase how) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack nack = TARRY__NACK__INIT;
    Tarry__Release release = TARRY__RELEASE__INIT;
    Tarry__Token token = token_of(row);
    op.op_case = how;
    nack.id = release.id = row->id;
    nack.token = release.token = &token;
    nack.has_delay = true;
    nack.delay_ms = 1000;
    if (how == TARRY__OP__OP_NACK)
        op.nack = &nack;
    else
        op.release = &release;
    return commit(f, &op);
}

static void one_task_of_a_name_is_in_flight_and_other_names_go_on(void **state) {
    struct fx *f = *state;
    const uint64_t a1 = schedule_named(f, "ann", 0, 0), a2 = schedule_named(f, "ann", 0, 0);
    const uint64_t b1 = schedule_named(f, "bob", 0, 0), n1 = schedule_named(f, "", 0, 0),
                   n2 = schedule_named(f, "", 0, 0);
    consume(f);
    deliver_at(f, 0);
    assert_leased(4, (uint64_t[]){a1, b1, n1, n2});
    assert_int_equal(near_parked_count(&f->core->queues[1]), 1);
    assert_int_equal(ack(f, &leased[1]), TARRY__CODE__OK);
    deliver_at(f, 1);
    assert_int_equal(leased_count, 4);
    assert_int_equal(ack(f, &leased[0]), TARRY__CODE__OK);
    deliver_at(f, 2);
    assert_leased(5, (uint64_t[]){a1, b1, n1, n2, a2});
    assert_int_equal(near_parked_count(&f->core->queues[1]), 0);
}

static void tasks_of_a_name_leave_by_priority_then_due_time_then_id(void **state) {
    struct fx *f = *state;
    const uint64_t late = schedule_named(f, "ann", 50, 0), soon = schedule_named(f, "ann", 10, 0);
    const uint64_t same = schedule_named(f, "ann", 10, 0), urgent = schedule_named(f, "ann", 60, 9);
    deliver_at(f, 100);
    consume(f);
    const uint64_t expected[] = {urgent, soon, same, late};
    for (size_t i = 0; i < 4; i++) {
        deliver_at(f, 100 + i);
        assert_leased(i + 1, expected);
        assert_int_equal(ack(f, &leased[i]), TARRY__CODE__OK);
    }
}

static void a_task_that_comes_first_takes_the_place_of_the_offered_one(void **state) {
    struct fx *f = *state;
    const uint64_t low = schedule_named(f, "ann", 0, 0), high = schedule_named(f, "ann", 0, 5);
    deliver_at(f, 1);
    assert_int_equal(task_find(f->core, low)->place, PLACE_PARKED);
    assert_int_equal(task_find(f->core, high)->place, PLACE_READY);
    assert_int_equal(
        cancel(f, high),
        TARRY__CODE__OK); /* cancels the task of higher priority, so the one of lower priority becomes ready */
    assert_int_equal(task_find(f->core, low)->place, PLACE_READY);
    deliver_at(f, 2);
}

static void the_next_task_leaves_however_the_lease_ends(void **state) {
    struct fx *f = *state;
    uint64_t ids[5];
    for (size_t i = 0; i < 5; i++) ids[i] = schedule_named(f, "ann", 0, 0);
    consume(f);
    deliver_at(f, 0);
    assert_leased(1, ids);
    assert_int_equal(settle(f, &leased[0], TARRY__OP__OP_NACK),
                     TARRY__CODE__OK); /* this task is due again in 1 s, so the next one is delivered */
    deliver_at(f, 1);
    assert_leased(2, ids);
    assert_int_equal(settle(f, &leased[1], TARRY__OP__OP_RELEASE),
                     TARRY__CODE__OK); /* the same task is first again, because its due time is unchanged */
    deliver_at(f, 2);
    assert_int_equal(leased_count, 3);
    assert_int_equal(leased[2].id, ids[1]);
    struct core_event gone = {.kind = CORE_LANE_GONE, .lane.session = f->session};
    step(f, &gone); /* the session ends, and its task is ready again and first */
    core_check(f->core);
    assert_int_equal(f->core->leases, 0);
    assert_int_equal(task_find(f->core, ids[1])->place, PLACE_READY);
    /* Three tasks are parked. The first task is not parked, because it waits for the end of its backoff. */
    assert_int_equal(near_parked_count(&f->core->queues[1]), 3);
}

static void an_expired_task_makes_way_for_the_next_of_its_name(void **state) {
    struct fx *f = *state;
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    body.serial = (ProtobufCBinaryData){3, (uint8_t *)"ann"};
    body.expires_ms = 5;
    assert_int_equal(schedule_as(f, "orders", &body, &when), TARRY__CODE__OK);
    const uint64_t next = schedule_named(f, "ann", 1, 0);
    deliver_at(f, 20);
    consume(f);
    deliver_at(f, 20);
    assert_leased(1, &next);
}

/* A backlog of one serial name does not slow down other tasks, because no step visits the backlog. */
static void a_backlog_of_one_name_is_never_visited(void **state) {
    struct fx *f = *state;
    enum { BACKLOG = 10000 };
    const struct core_options options = {.memory = 64u << 20,
                                         .outcomes_max = 100,
                                         .create_queues = true,
                                         .version = "t"};
    begin_again(f, &options);
    for (size_t i = 0; i < BACKLOG; i++) (void)schedule_named(f, "ann", 0, 0);
    consume(f);
    deliver_at(f, 0);
    assert_int_equal(leased_count, 1);
    assert_int_equal(near_parked_count(&f->core->queues[1]), BACKLOG - 1);
    for (size_t i = 0; i < MANY; i++) {
        const uint64_t before = f->core->visits;
        const uint64_t id = schedule_named(f, i % 2 ? "bob" : "", 0, 0);
        struct core_event sent = {.kind = CORE_LANE_SENT, .lane.session = f->session, .lane.ok = true};
        step(f, &sent);
        assert_int_equal(leased[leased_count - 1].id, id);
        assert_true(f->core->visits - before < 200);
        assert_int_equal(ack(f, &leased[leased_count - 1]), TARRY__CODE__OK);
        step(f, &sent);
    }
}

/* The names of live tasks count as used memory. The memory is free again when the tasks have ended and the index has
 * absorbed that. */
static void full_memory_is_busy_and_nothing_else(void **state) {
    struct fx *f = *state;
    char name[SERIAL_SIZE_MAX + 1];
    Tarry__Code code = TARRY__CODE__OK;
    unsigned count = 0;
    for (; code == TARRY__CODE__OK; count++) {
        Tarry__Schedule body = TARRY__SCHEDULE__INIT;
        Tarry__When when = TARRY__WHEN__INIT;
        snprintf(name, sizeof name, "%0255u", count);
        body.serial = (ProtobufCBinaryData){SERIAL_SIZE_MAX, (uint8_t *)name};
        code = schedule_as(f, "orders", &body, &when);
    }
    assert_int_equal(code, TARRY__CODE__BUSY);
    assert_true(count > 1000);
    core_check(f->core);
}

static void queues_share_no_names(void **state) {
    struct fx *f = *state;
    (void)schedule_named(f, "ann", 0, 0);
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    body.serial = (ProtobufCBinaryData){3, (uint8_t *)"ann"};
    assert_int_equal(schedule_as(f, "mails", &body, &when), TARRY__CODE__OK);
    assert_int_equal(task_find(f->core, f->id)->place, PLACE_READY);
    assert_ptr_not_equal(serial_of(task_find(f->core, 1)), serial_of(task_find(f->core, f->id)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(one_task_of_a_name_is_in_flight_and_other_names_go_on),
        CORE_TEST(tasks_of_a_name_leave_by_priority_then_due_time_then_id),
        CORE_TEST(a_task_that_comes_first_takes_the_place_of_the_offered_one),
        CORE_TEST(the_next_task_leaves_however_the_lease_ends),
        CORE_TEST(an_expired_task_makes_way_for_the_next_of_its_name),
        CORE_TEST(a_backlog_of_one_name_is_never_visited),
        CORE_TEST(full_memory_is_busy_and_nothing_else),
        CORE_TEST(queues_share_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
