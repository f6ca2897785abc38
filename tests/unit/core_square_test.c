/* core_square_test.c: the cost of a commit grows linearly. It must not grow with the square of the number of
 * operations, of a key's dead letters, or of a principal's queues (CALM-1). The test counts the items that a step
 * examines (core->visits), and does not measure time. */
#include "core_alone.h"
#include "pending.h"
#include "state.h"
#include "tarry_limits.h"

#define OPS OPS_PER_COMMIT_MAX
/* A lookup visits one bucket in each table, and a bucket sometimes has a few entries. */
#define VISITS_PER_OP_MAX 16

static Tarry__Op ops[OPS], *pointers[OPS];
static char names[OPS][16];

static uint64_t visits_of_commit(struct fx *f, size_t count) {
    const uint64_t before = f->core->visits;
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, count), TARRY__CODE__OK);
    return f->core->visits - before;
}

static void add_schedule(size_t at, const char *queue, const char *key, uint64_t delay_ms) {
    static Tarry__Schedule bodies[OPS];
    static Tarry__When whens[OPS];
    tarry__op__init(&ops[at]);
    tarry__schedule__init(&bodies[at]);
    tarry__when__init(&whens[at]);
    whens[at].ms = delay_ms;
    bodies[at].queue = (char *)queue;
    bodies[at].when = &whens[at];
    bodies[at].on_conflict = TARRY__SCHEDULE__ON_CONFLICT__REPLACE;
    bodies[at].key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
    ops[at].op_case = TARRY__OP__OP_SCHEDULE;
    ops[at].schedule = &bodies[at];
    pointers[at] = &ops[at];
}

static void add_cancel(size_t at, const char *key) {
    static Tarry__Cancel bodies[OPS];
    static Tarry__Ref refs[OPS];
    tarry__op__init(&ops[at]);
    tarry__cancel__init(&bodies[at]);
    tarry__ref__init(&refs[at]);
    refs[at].queue = "orders";
    refs[at].key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
    bodies[at].task = &refs[at];
    ops[at].op_case = TARRY__OP__OP_CANCEL;
    ops[at].cancel = &bodies[at];
    pointers[at] = &ops[at];
}

static void with_shipped(struct fx *f, size_t memory) {
    struct core_options options = defaults;
    options.memory = memory;
    options.ahead_ms = 50;
    begin_again(f, &options);
}

/* In an earlier version, 8,192 operations on one key took 2 s. */
static void many_operations_on_one_key(void **state) { /* CALM-1 */
    struct fx *f = *state;
    with_shipped(f, 128u << 20);
    for (size_t i = 0; i < OPS; i++) add_schedule(i, "orders", "k", 600000);
    assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX);
    for (size_t i = 0; i < OPS; i++) { /* the commit's operations alternately schedule and cancel a task */
        if (i % 2 == 0) add_cancel(i, "k");
        if (i % 2 == 1) add_schedule(i, "orders", "k", 600000);
    }
    assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX);
    /* All cancels except the first find that the task has ended. */
    for (size_t i = 0; i < OPS; i++) add_cancel(i, "k");
    assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX);
    assert_int_equal(core_live(f->core), 0);
}

static void many_operations_on_keys_of_their_own(void **state) {
    struct fx *f = *state;
    with_shipped(f, 128u << 20);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < OPS; i++) {
            snprintf(names[i], sizeof(names[i]), "k%zu", i);
            add_schedule(i, "orders", names[i], 600000);
        }
        assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX);
    }
    assert_int_equal(core_live(f->core), OPS);
}

/* Clients can choose keys whose hashes have equal low bits. So a secret salt determines the slots of keys (slots.h). */
static void keys_that_were_chosen_to_lie_in_one_slot(void **state) { /* CALM-1 */
    struct fx *f = *state;
    enum { KEYS = 1024, SLOTS = 1 << 15 };
    with_shipped(f, MEMORY);
    assert_int_equal(schedule(f, "orders", 600000),
                     TARRY__CODE__OK); /* this schedule creates the queue, which gets the number 1 */
    assert_int_equal(f->core->table_mask, SLOTS - 1);
    for (size_t i = 0, at = 0; at < KEYS; i++) {
        int size = snprintf(names[at], sizeof(names[at]), "%zu", i);
        if ((row_key_hash(1, names[at], (size_t)size) & (SLOTS - 1)) != 0) continue;
        add_schedule(at, "orders", names[at], 600000);
        at++;
    }
    for (unsigned round = 0; round < 2; round++) assert_true(visits_of_commit(f, KEYS) <= KEYS * VISITS_PER_OP_MAX);
}

/* In an earlier version, each policy visited all earlier records: 127 ms for 4,000 queues. */
static void policies_of_all_queues(void **state) {
    struct fx *f = *state;
    static Tarry__QueueSet bodies[OPS];
    static Tarry__Policy policy = TARRY__POLICY__INIT;
    static char *field = "lease_ms";
    with_shipped(f, 64u << 20);
    policy.lease_ms = 1000;
    for (unsigned round = 0; round < 2; round++) { /* round 0 uses new queues, round 1 existing ones */
        for (size_t i = 0; i < OPS; i++) {
            tarry__op__init(&ops[i]);
            tarry__queue_set__init(&bodies[i]);
            snprintf(names[i], sizeof(names[i]), "q%zu", i % 4000);
            bodies[i].queue = names[i];
            bodies[i].policy = &policy;
            bodies[i].fields = &field;
            bodies[i].n_fields = 1;
            ops[i].op_case = TARRY__OP__OP_QUEUE_SET;
            ops[i].queue_set = &bodies[i];
            pointers[i] = &ops[i];
        }
        policy.lease_ms++;
        assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX);
    }
    for (uint32_t number = 1; number <= 4000; number++) assert_int_equal(f->core->queues[number].policy.lease_ms, 1002);
}

/* Makes one more dead letter with the key "k" from a task leased to the session. */
static void bury(struct fx *f, uint64_t session) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Nack nack = TARRY__NACK__INIT;
    add_schedule(0, "orders", "k", 0);
    visits_of_commit(f, 1);
    const struct session *holder = &f->core->sessions[session % SESSIONS_TABLE];
    const struct task *task = TAILQ_FIRST(&holder->leases);
    assert_non_null(task);
    Tarry__Token token = token_of(&task->row);
    op.op_case = TARRY__OP__OP_NACK;
    op.nack = &nack;
    nack.id = task->row.id;
    nack.token = &token;
    nack.dead = true;
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    struct core_event sent = {.kind = CORE_LANE_SENT, .lane.session = session, .lane.ok = true};
    step(f, &sent);
}

/* In an earlier version, a query for the key visited all of its dead letters, and so did the removal of each of them
 * from memory. */
static void many_dead_letters_of_one_key(void **state) { /* CALM-1 */
    struct fx *f = *state;
    enum { DEAD = 4000 };
    with_shipped(f, 64u << 20);
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    const uint64_t session = f->session;
    struct core_event event = {.kind = CORE_LANE_UP, .lane.session = session};
    step(f, &event);
    uint64_t before = f->core->visits;
    for (unsigned i = 0; i < DEAD; i++) {
        f->now_ms += i % 3 == 0; /* several tasks become dead letters in the same millisecond */
        bury(f, session);
    }
    assert_int_equal(f->core->tally.queues[1].dead, DEAD);
    assert_true(f->core->visits - before <= DEAD * 4 * VISITS_PER_OP_MAX);
    for (size_t i = 0; i < OPS; i++) add_cancel(i, "k");
    assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX);
    assert_int_equal(f->result, TARRY__CODE__NOT_DONE);
    /* The reply is about the task that became a dead letter last. */
    assert_int_equal(f->id, f->core->tally.next_id - 1);
    before = f->core->visits;
    event = (struct core_event){.kind = CORE_INDEXED, .position = f->core->durable};
    for (step(f, &event); f->core->hurry; step(f, &event)) event = (struct core_event){.kind = CORE_TICK};
    assert_int_equal(f->core->task_count, 0);
    assert_true(f->core->visits - before <= DEAD * VISITS_PER_OP_MAX);
}

/* In an earlier version, if the principal had tasks in many queues, its commit cost 140 times as much as another
 * principal's. */
static void what_a_principal_has_pending_is_known(void **state) { /* CAP-1 */
    struct fx *f = *state;
    with_shipped(f, 64u << 20);
    for (size_t i = 0; i < 4090; i++) {
        snprintf(names[i], sizeof(names[i]), "%s-%zu", i % 2 ? "shop" : "other", i);
        add_schedule(i, names[i], "", 600000);
    }
    visits_of_commit(f, 4090);
    static const char prefixes[] = "shop-1\0shop-\0shop-1\0none-";
    const struct core_caller caller = {
        .name = "shop", .prefixes = prefixes, .prefix_count = 4, .acts_for_all = true, .pending_max = 2046};
    add_schedule(0, "shop-1", "k", 600000);
    f->caller = &caller;
    visits_of_commit(f, 1); /* the first commit sorts all queues */
    assert_int_equal(pending_of(f->core, &caller), 2046);
    for (unsigned i = 0; i < 10; i++) { /* not again */
        f->sequence++;
        const uint64_t before = f->core->visits;
        assert_int_equal(commit_as(f, f->sequence, f->sequence, pointers, 1), TARRY__CODE__BUSY);
        assert_true(f->core->visits - before <= 1000);
    }
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    op.op_case = TARRY__OP__OP_CANCEL;
    op.cancel = &cancel;
    cancel.task = &ref;
    ref.queue = "shop-1";
    ref.key = (ProtobufCBinaryData){.data = (uint8_t *)"k", .len = 1};
    assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    assert_int_equal(pending_of(f->core, &caller), 2045);
    assert_true(visits_of_commit(f, 1) <= 1000);
    const struct core_caller any = {.name = "any", .pending_max = 1};
    assert_int_equal(pending_of(f->core, &any), 4091);
    f->caller = NULL;
    add_schedule(0, "shop-new", "", 600000); /* this queue is added later */
    visits_of_commit(f, 1);
    assert_int_equal(pending_of(f->core, &caller), 2047);
}

/* Adds operations that create `count` queues whose names begin with `letter`. */
static void add_queues(char letter, size_t count) {
    static Tarry__QueueSet bodies[OPS];
    static Tarry__Policy policy = TARRY__POLICY__INIT;
    static char *field = "max_attempts";
    for (size_t i = 0; i < count; i++) {
        tarry__op__init(&ops[i]);
        tarry__queue_set__init(&bodies[i]);
        snprintf(names[i], sizeof(names[i]), "%c%u", letter, (unsigned)i);
        bodies[i].queue = names[i];
        bodies[i].policy = &policy;
        bodies[i].fields = &field;
        bodies[i].n_fields = 1;
        ops[i].op_case = TARRY__OP__OP_QUEUE_SET;
        ops[i].queue_set = &bodies[i];
        pointers[i] = &ops[i];
    }
}

/* Deletes the queues, each in a commit of its own. */
static void delete_queues(struct fx *f, char letter, size_t count) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueDelete body = TARRY__QUEUE_DELETE__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &body;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[0], sizeof(names[0]), "%c%u", letter, (unsigned)i);
        body.queue = names[0];
        assert_int_equal(commit(f, &op), TARRY__CODE__OK);
    }
}

/* The core looks for free places once in a commit, and counts the queues of its principal once. */
static void many_new_queues(void **state) { /* CALM-1 */
    struct fx *f = *state;
    enum { FREED = 2000 };
    static const struct core_caller caller = {.name = "shop", .acts_for_all = true, .queues_max = FREED};
    with_shipped(f, 64u << 20);
    add_queues('a', QUEUES_MAX);
    visits_of_commit(f, QUEUES_MAX);
    delete_queues(f, 'a', FREED);
    f->caller = &caller;
    add_queues('b', FREED);
    assert_true(visits_of_commit(f, FREED) <= FREED * VISITS_PER_OP_MAX + 2 * QUEUE_PLACES);
    assert_int_equal(f->result, TARRY__CODE__OK);
    add_queues('c', OPS); /* the principal already has the maximum number of queues */
    assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX + 2 * QUEUE_PLACES);
    assert_int_equal(f->result, TARRY__CODE__TOO_LARGE);
    f->caller = NULL;
    add_queues('d', OPS); /* the table of queues is full */
    assert_true(visits_of_commit(f, OPS) <= OPS * VISITS_PER_OP_MAX + 2 * QUEUE_PLACES);
    assert_int_equal(f->result, TARRY__CODE__TOO_LARGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(many_operations_on_one_key),
        CORE_TEST(many_operations_on_keys_of_their_own),
        CORE_TEST(keys_that_were_chosen_to_lie_in_one_slot),
        CORE_TEST(policies_of_all_queues),
        CORE_TEST(many_dead_letters_of_one_key),
        CORE_TEST(what_a_principal_has_pending_is_known),
        CORE_TEST(many_new_queues),
    };
    return cmocka_run_group_tests_name("core_square", tests, NULL, NULL);
}
