/* core_queues_test.c: the table of queues. A deleted queue's place is used again by a new queue, which gets another
 * number. Data of the deleted queue are never taken for the new queue's (TRUE-1). Also: how many queues a principal may
 * create, and which requests create no queue (CAP-1). */
#include "core_alone.h"
#include "outcomes.h"
#include "queues.h"
#include "state.h"

#define FEW 3u
#define RETENTION_MS 1000u

/* Starts a core with a small table of queues. */
static void begin_few(struct fx *f) {
    struct core_options options = defaults;
    options.queues_max = FEW;
    options.outcome_retention_ms = RETENTION_MS;
    begin_again(f, &options);
}

static Tarry__Code delete_queue(struct fx *f, const char *queue) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueDelete body = TARRY__QUEUE_DELETE__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &body;
    body.queue = (char *)queue;
    return commit(f, &op);
}

/* Creates a queue by setting a policy. The queue has no tasks, so no outcomes keep its place from being reused. */
static Tarry__Code set_policy(struct fx *f, const char *queue) {
    char *fields[] = {"max_attempts"};
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet body = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &body;
    body.queue = (char *)queue;
    body.policy = &policy;
    body.fields = fields;
    body.n_fields = 1;
    return commit(f, &op);
}

static Tarry__Code subscribe_to(struct fx *f, char **queues, size_t count) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    body.queues = queues;
    body.n_queues = count;
    return subscribe(f, &body);
}

static Tarry__Code unsubscribe(struct fx *f) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &body;
    body.session = f->session;
    return ask(f, &request);
}

/* CAP-1 */
static void queues_are_made_and_deleted_for_ever(void **state) {
    struct fx *f = *state;
    char name[16];
    for (unsigned i = 1; i <= QUEUES_MAX; i++) {
        snprintf(name, sizeof(name), "q%u", i);
        assert_int_equal(set_policy(f, name), TARRY__CODE__OK);
    }
    assert_int_equal(set_policy(f, "more"), TARRY__CODE__TOO_LARGE);
    says(f, "QUEUES_MAX");
    for (unsigned i = 1; i <= 3 * QUEUES_MAX; i++) {
        snprintf(name, sizeof(name), "q%u", i);
        assert_int_equal(delete_queue(f, name), TARRY__CODE__OK);
        snprintf(name, sizeof(name), "q%u", i + QUEUES_MAX);
        assert_int_equal(set_policy(f, name), TARRY__CODE__OK);
        const uint32_t number = core_queue_number(f->core, name);
        assert_true(queue_place(number) <= QUEUES_MAX + 1);
        assert_true(queue_generation(number) >= 1 || queue_place(number) == QUEUES_MAX + 1);
    }
    assert_int_equal(set_policy(f, "more"), TARRY__CODE__TOO_LARGE);
    core_check(f->core);
}

static Tarry__Code delete_and_forget(struct fx *f, const char *queue) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueDelete body = TARRY__QUEUE_DELETE__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &body;
    body.queue = (char *)queue;
    body.forget = true;
    return commit(f, &op);
}

/* Makes 100,000 queues within one millisecond, like reply queues of a foreign protocol, each with a task that ends.
 * Their endings are forgotten, and replies say so (CAP-1, TRUE-1). */
static void queues_that_forget_are_made_without_end(void **state) {
    struct fx *f = *state;
    char name[16];
    begin_few(f);
    uint64_t last = 0;
    for (unsigned i = 1; i <= 100000; i++) {
        snprintf(name, sizeof(name), "reply-%u", i);
        assert_int_equal(schedule(f, name, 1000), TARRY__CODE__OK);
        last = f->id;
        assert_int_equal(cancel(f, last), TARRY__CODE__OK);
        assert_int_equal(delete_and_forget(f, name), TARRY__CODE__OK);
        if (i % 100 == 0) step(f, &(struct core_event){.kind = CORE_INDEXED, .position = core_position(f->core)});
    }
    core_check(f->core);
    /* No later queue has taken the place of this queue yet. */
    assert_non_null(outcomes_by_id(f->core->outcomes, last));
    assert_null(outcomes_by_id(f->core->outcomes, last - FEW)); /* a later queue has taken the place of this queue */
    assert_true(outcomes_known_since(f->core->outcomes) > f->now_ms);
    const struct core_caller client = {.name = "admin", .acts_for_all = true};
    assert_int_equal(schedule(f, "other", 1000), TARRY__CODE__OK);
    assert_int_equal(cancel(f, f->id), TARRY__CODE__OK);
    f->caller = &client;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
    assert_int_equal(delete_and_forget(f, "other"), TARRY__CODE__DENIED);
    f->caller = NULL;
}

/* A queue in a place that other queues had before has its own counts. */
static void a_later_queue_has_its_own_counts(void **state) {
    struct fx *f = *state;
    char name[16], *queue = name;
    begin_few(f);
    for (unsigned i = 1; i <= 3 * FEW; i++) {
        if (i > FEW) {
            snprintf(name, sizeof(name), "q%u", i - FEW);
            assert_int_equal(delete_queue(f, name), TARRY__CODE__OK);
        }
        snprintf(name, sizeof(name), "q%u", i);
        assert_int_equal(set_policy(f, name), TARRY__CODE__OK);
    }
    assert_true(queue_generation(core_queue_number(f->core, name)) >= 1);
    assert_int_equal(subscribe_to(f, &queue, 1), TARRY__CODE__OK);
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
    step(f, &up);
    assert_int_equal(schedule(f, name, 0), TARRY__CODE__OK);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats body = TARRY__STATS__INIT;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &body;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    const Tarry__StatsReply *stats = f->effects.replies.items[0].reply->stats;
    uint64_t delivered = 0;
    for (size_t i = 0; i < stats->n_queues; i++)
        delivered += strcmp(stats->queues[i]->name, name) == 0 ? stats->queues[i]->delivered : 0;
    assert_int_equal(delivered, 1);
}

/* A queue takes the place of an earlier queue and has more ready tasks than one step delivers (F-41). Its number is far
 * larger than the size of the table. */
static void a_later_queue_is_served_over_many_steps(void **state) {
    struct fx *f = *state;
    char *queue = "q4";
    struct core_options options = defaults;
    options.queues_max = FEW;
    options.memory = 64u << 20;
    begin_again(f, &options);
    assert_int_equal(set_policy(f, "q1"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "q2"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "q3"), TARRY__CODE__OK);
    assert_int_equal(delete_queue(f, "q1"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, queue), TARRY__CODE__OK);
    assert_true(queue_generation(core_queue_number(f->core, queue)) >= 1);
    static Tarry__Op ops[OPS_PER_COMMIT_MAX], *list[OPS_PER_COMMIT_MAX];
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    schedule.queue = queue;
    for (size_t i = 0; i < OPS_PER_COMMIT_MAX; i++) {
        ops[i] = (Tarry__Op)TARRY__OP__INIT;
        ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        ops[i].schedule = &schedule;
        list[i] = &ops[i];
    }
    for (unsigned i = 0; i < 4; i++) {
        f->sequence++;
        assert_int_equal(commit_as(f, f->sequence, f->sequence, list, OPS_PER_COMMIT_MAX), TARRY__CODE__OK);
    }
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = PREFETCH_MAX;
    body.max_batch = BATCH_MAX;
    struct core_event stop = {.kind = CORE_STOP}, resume = {.kind = CORE_RESUME};
    for (unsigned i = 0; i < 8; i++) assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    step(f, &stop); /* while the core is stopped, lanes connect but nothing is delivered */
    for (unsigned i = 0; i < 8; i++, f->session--) {
        struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
        step(f, &up);
    }
    step(f, &resume);
    assert_true(core_deadline(f->core) <= f->now_ms); /* the next step continues to deliver from this queue */
}

/* TRUE-1: as long as an outcome is remembered, its queue is remembered too. */
static void a_place_waits_for_the_endings_of_its_queue(void **state) {
    struct fx *f = *state;
    begin_few(f);
    assert_int_equal(schedule(f, "a", 1000), TARRY__CODE__OK);
    const uint64_t id = f->id;
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "b"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "c"), TARRY__CODE__OK);
    const uint32_t former = core_queue_number(f->core, "a");
    assert_int_equal(delete_queue(f, "a"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "d"), TARRY__CODE__TOO_LARGE);
    says(f, "outcome-retention");
    assert_int_equal(cancel(f, id), TARRY__CODE__OK); /* the reply says that the task was cancelled */
    f->now_ms += RETENTION_MS + 1;
    const uint64_t ended_ms = NOW_MS;
    assert_int_equal(set_policy(f, "d"), TARRY__CODE__OK);
    const uint32_t number = core_queue_number(f->core, "d");
    assert_int_equal(queue_place(number), queue_place(former));
    assert_int_equal(queue_generation(number), queue_generation(former) + 1);
    assert_int_equal(core_queue_number(f->core, "a"), 0);
    assert_int_equal(cancel(f, id), TARRY__CODE__NOT_DONE);
    assert_true(outcomes_known_since(f->core->outcomes) > ended_ms);
    assert_int_equal(set_policy(f, "a"), TARRY__CODE__TOO_LARGE); /* refused, because the only free place was taken */
    core_check(f->core);
}

/* A new queue takes the place of the queue that was deleted first. A deleted queue that is used again before that keeps
 * its number. */
static void a_deleted_queue_that_is_used_again_keeps_its_number(void **state) {
    struct fx *f = *state;
    begin_few(f);
    assert_int_equal(set_policy(f, "a"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "b"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "c"), TARRY__CODE__OK);
    const uint32_t a = core_queue_number(f->core, "a"), b = core_queue_number(f->core, "b");
    assert_int_equal(delete_queue(f, "b"), TARRY__CODE__OK);
    assert_int_equal(delete_queue(f, "a"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "d"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "a"), TARRY__CODE__OK);
    assert_int_equal(core_queue_number(f->core, "a"), a);
    assert_int_not_equal(core_queue_number(f->core, "d"), b);
    core_check(f->core);
}

/* LOG-2: at a start, a place in the table gets its present queue, even if the index still has rows of former queues
 * with this place. */
static void a_former_queue_is_not_restored(void **state) {
    struct fx *f = *state;
    static struct queue_tally counts[QUEUE_PLACES + 1];
    Tarry__Policy policy = TARRY__POLICY__INIT;
    Tarry__QueuePut put = TARRY__QUEUE_PUT__INIT;
    struct core *core = core_new(&f->options);
    struct tally tally;
    tally_init(&tally, counts);
    tally.next_queue = 3;
    counts[1].number = queue_number(1, 2);
    counts[2].number = 2;
    core_restore(core, &(struct core_base){.position = LOG_POSITION_FIRST, .tally = &tally});
    put.policy = &policy;
    const struct {
        uint32_t number;
        const char *name;
        bool deleted;
    } rows[] = {{1, "a", true}, {2, "a", false}, {queue_number(1, 1), "b", true}, {queue_number(1, 2), "c", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        put.number = rows[i].number;
        put.name = (char *)rows[i].name;
        put.deleted = rows[i].deleted;
        assert_int_equal(core_restore_queue(core, &put), 0);
    }
    assert_int_equal(core_queue_number(core, "a"), 2);
    assert_int_equal(core_queue_number(core, "b"), 0);
    assert_int_equal(core_queue_number(core, "c"), queue_number(1, 2));
    struct outcome outcome = {.id = 1, .queue = 1, .ended_ms = NOW_MS};
    assert_int_equal(core_restore_outcome(core, &outcome), 0);
    assert_null(outcomes_by_id(core->outcomes, 1));
    assert_int_equal(outcomes_known_since(core->outcomes), NOW_MS + 1);
    core_check(core);
    core_free(core);
}

/* CAP-1: a subscription to unknown queues takes no place; the consumer gets their tasks once the queues exist. */
static void a_subscription_takes_no_place(void **state) {
    struct fx *f = *state;
    char names[QUEUES_PER_SUBSCRIBE_MAX][16], *queues[QUEUES_PER_SUBSCRIBE_MAX];
    for (unsigned turn = 0; turn < 2 * QUEUES_MAX / QUEUES_PER_SUBSCRIBE_MAX; turn++) {
        for (unsigned i = 0; i < QUEUES_PER_SUBSCRIBE_MAX; i++) {
            snprintf(names[i], sizeof(names[i]), "q%u.%u", turn, i);
            queues[i] = names[i];
        }
        assert_int_equal(subscribe_to(f, queues, QUEUES_PER_SUBSCRIBE_MAX), TARRY__CODE__OK);
    }
    assert_int_equal(f->core->tally.next_queue, 1);
    assert_int_equal(f->core->awaited_count, 2 * QUEUES_MAX);
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
    step(f, &up);
    assert_int_equal(schedule(f, names[7], 0), TARRY__CODE__OK);
    assert_int_equal(f->core->leases, 1);
    assert_int_equal(f->core->awaited_count, 2 * QUEUES_MAX - 1);
    assert_int_equal(delete_queue(f, names[7]), TARRY__CODE__NOT_DONE);
    core_check(f->core);
    assert_int_equal(unsubscribe(f), TARRY__CODE__OK);
    assert_int_equal(f->core->awaited_count, 2 * QUEUES_MAX - QUEUES_PER_SUBSCRIBE_MAX);
}

/* CAP-1 */
static void so_many_queues_are_waited_for_and_no_more(void **state) {
    struct fx *f = *state;
    static const struct core_caller small = {.name = "small", .prefixes = "s.", .prefix_count = 1, .queues_max = 2};
    char names[QUEUES_PER_SUBSCRIBE_MAX][16], *queues[QUEUES_PER_SUBSCRIBE_MAX];
    unsigned turn = 0;
    for (; turn < QUEUES_AWAITED_MAX / QUEUES_PER_SUBSCRIBE_MAX; turn++) {
        for (unsigned i = 0; i < QUEUES_PER_SUBSCRIBE_MAX; i++) {
            snprintf(names[i], sizeof(names[i]), "q%u.%u", turn, i);
            queues[i] = names[i];
        }
        assert_int_equal(subscribe_to(f, queues, QUEUES_PER_SUBSCRIBE_MAX), TARRY__CODE__OK);
    }
    queues[0] = "more";
    assert_int_equal(subscribe_to(f, queues, 1), TARRY__CODE__BUSY);
    says(f, "QUEUES_AWAITED_MAX");
    assert_int_equal(unsubscribe(f), TARRY__CODE__OK);
    f->caller = &small;
    char *own[] = {"s.a", "s.b", "s.c"};
    assert_int_equal(subscribe_to(f, own, 3), TARRY__CODE__TOO_LARGE);
    says(f, "queues=");
    assert_int_equal(subscribe_to(f, own, 2), TARRY__CODE__OK);
    assert_int_equal(subscribe_to(f, own, 2),
                     TARRY__CODE__OK); /* accepted: any number of consumers may wait for the same missing queues */
    assert_int_equal(subscribe_to(f, own + 1, 2), TARRY__CODE__TOO_LARGE);
    assert_int_equal(unsubscribe(f), TARRY__CODE__OK);
    /* The subscription is refused, because another consumer still waits for the queue s.a, which counts too. */
    assert_int_equal(subscribe_to(f, own + 2, 1), TARRY__CODE__TOO_LARGE);
}

/* CAP-1 */
static void a_principal_creates_so_many_queues_and_no_more(void **state) {
    static const struct core_caller small = {.name = "small", .prefixes = "s.", .prefix_count = 1, .queues_max = 2};
    static const struct core_caller other = {.name = "other"}, local = {.name = "", .queues_max = 1};
    struct fx *f = *state;
    f->caller = &other;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "s.theirs", 1000),
                     /* The schedule is accepted: the new queue counts for the principal `theirs`, although its name has
                        the prefix of `small`. */
                     TARRY__CODE__OK);
    const uint64_t of_other = f->producer;
    f->caller = &small;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    const uint64_t of_small = f->producer;
    assert_int_equal(schedule(f, "s.a", 1000), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "s.b", 1000), TARRY__CODE__OK);
    const uint64_t id = f->id;
    assert_int_equal(schedule(f, "s.c", 1000), TARRY__CODE__TOO_LARGE);
    says(f, "2 queues");
    says(f, "queues=");
    assert_int_equal(schedule(f, "s.b", 1000), TARRY__CODE__OK);
    assert_int_equal(cancel(f, f->id), TARRY__CODE__OK);
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    assert_int_equal(delete_queue(f, "s.b"), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "s.c", 1000), TARRY__CODE__OK);
    /* A deleted queue is created again when it is used. */
    assert_int_equal(schedule(f, "s.b", 1000), TARRY__CODE__TOO_LARGE);
    f->caller = &other;
    f->producer = of_other;
    assert_int_equal(schedule(f, "s.b", 1000), TARRY__CODE__OK);
    f->caller = &local;
    assert_int_equal(hello(f), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "l.a", 1000), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "l.b", 1000), TARRY__CODE__TOO_LARGE);
    f->caller = &small;
    f->producer = of_small;
    assert_int_equal(schedule(f, "tarry.own", 1000),
                     TARRY__CODE__OK); /* accepted, because the broker's own queues do not count for any principal */
}

/* CAP-1 */
static void the_brokers_own_queues_have_places_of_their_own(void **state) {
    struct fx *f = *state;
    begin_few(f);
    assert_int_equal(set_policy(f, "a"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "b"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "c"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "d"), TARRY__CODE__TOO_LARGE);
    char name[24];
    for (unsigned i = 0; i < QUEUES_OWN; i++) {
        snprintf(name, sizeof(name), "tarry.%u", i);
        assert_int_equal(set_policy(f, name), TARRY__CODE__OK);
        assert_int_equal(set_policy(f, "d"), TARRY__CODE__TOO_LARGE);
    }
    core_check(f->core);
}

int main(void) {
#define CORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CORE_TEST(queues_are_made_and_deleted_for_ever),
        CORE_TEST(queues_that_forget_are_made_without_end),
        CORE_TEST(a_later_queue_has_its_own_counts),
        CORE_TEST(a_later_queue_is_served_over_many_steps),
        CORE_TEST(a_place_waits_for_the_endings_of_its_queue),
        CORE_TEST(a_deleted_queue_that_is_used_again_keeps_its_number),
        CORE_TEST(a_former_queue_is_not_restored),
        CORE_TEST(a_subscription_takes_no_place),
        CORE_TEST(so_many_queues_are_waited_for_and_no_more),
        CORE_TEST(a_principal_creates_so_many_queues_and_no_more),
        CORE_TEST(the_brokers_own_queues_have_places_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
