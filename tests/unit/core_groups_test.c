/* core_groups_test.c: topics and groups (GROUP-1): which group gets a due task, and the effect when a client then
 * reads, cancels or moves that task. */
#include "core_alone.h"

#include "groups.h"
#include "leases.h"
#include "queues.h"
#include "state.h"
#include "tasks.h"

#define DELAY_MS 5000u

static Tarry__Code set_policy(struct fx *f, const char *queue, const char *field, const char *value) {
    char *fields[] = {(char *)field};
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet body = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    policy.filter = strcmp(field, "filter") == 0 && value ? (char *)value : "";
    policy.push = strcmp(field, "push") == 0 ? (char *)value : "";
    policy.overdue_expire_ms = strcmp(field, "overdue_expire_ms") == 0 ? strtoull(value, NULL, 10) : 0;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &body;
    body.queue = (char *)queue;
    body.policy = &policy;
    body.fields = fields;
    body.n_fields = value != NULL;
    return commit(f, &op);
}

static Tarry__Code set_filter(struct fx *f, const char *queue, const char *filter) {
    return set_policy(f, queue, "filter", filter);
}

static uint64_t schedule_key(struct fx *f, const char *queue, const char *key, uint64_t delay_ms) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = delay_ms;
    body.key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
    return schedule_as(f, queue, &body, &when) == TARRY__CODE__OK ? f->id : 0;
}

/* Subscribes a pooled session with credit for 8 tasks to `queue`. NULL: subscribes the sharer, the part of the broker
 * that makes shares. */
static uint64_t consumer(struct fx *f, const char *queue) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queues[] = {(char *)queue};
    body.queues = queues;
    body.n_queues = queue != NULL;
    body.sharer = queue == NULL;
    request.client = "test";
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    step(f, &(struct core_event){.kind = CORE_REQUEST,
                                 .request = {.ticket = 1, .message = &request, .pooled = true, .caller = f->caller}});
    if (f->code != TARRY__CODE__OK) return 0;
    const uint64_t session = f->session;
    step(f, &(struct core_event){.kind = CORE_LANE_UP, .lane.session = session});
    step(f, &(struct core_event){.kind = CORE_CREDIT, .lane = {.session = session, .credit = 8}});
    return session;
}

static void sent(struct fx *f, uint64_t session) {
    step(f, &(struct core_event){.kind = CORE_LANE_SENT, .lane = {.session = session, .ok = true}});
}

static void wait_until(struct fx *f, uint64_t ms) {
    f->now_ms = ms;
    step(f, &(struct core_event){.kind = CORE_TICK});
}

static Tarry__Code share(struct fx *f, uint64_t id, const char *tag) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__FanOut body = TARRY__FAN_OUT__INIT;
    Tarry__Token token = token_of(row_of(f, id));
    Tarry__Attribute attribute = TARRY__ATTRIBUTE__INIT, *attributes[] = {&attribute};
    attribute.name = "tag";
    attribute.value = (char *)tag;
    op.op_case = TARRY__OP__OP_FAN_OUT;
    op.fan_out = &body;
    body.id = id;
    body.token = &token;
    body.attributes = attributes;
    body.n_attributes = tag != NULL;
    return commit(f, &op);
}

/* Cancels the task, or with `delay_ms` moves it. Returns the result's code; f->message has its message. */
static Tarry__Code change(struct fx *f, const char *key, bool withdraw, uint64_t delay_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    Tarry__Move move = TARRY__MOVE__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    ref.queue = "orders";
    ref.key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
    cancel.task = move.task = &ref;
    cancel.withdraw = withdraw;
    move.when = &when;
    when.ms = delay_ms;
    op.op_case = delay_ms ? TARRY__OP__OP_MOVE : TARRY__OP__OP_CANCEL;
    if (delay_ms)
        op.move = &move;
    else
        op.cancel = &cancel;
    return commit(f, &op);
}

/* Makes a topic with the groups `all` and `paid`, and one task, "o1", which is due and leased to the sharer (the part
 * of the broker that passes due tasks on to the groups). */
static uint64_t due_task(struct fx *f) {
    assert_int_equal(set_filter(f, "orders", NULL), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders:paid", "tag = 'paid'"), TARRY__CODE__OK);
    const uint64_t id = schedule_key(f, "orders", "o1", DELAY_MS);
    const uint64_t sharer = consumer(f, NULL);
    assert_int_equal(row_of(f, id)->state, ROW_WAITING);
    wait_until(f, NOW_MS + DELAY_MS);
    assert_int_equal(row_of(f, id)->state, ROW_LEASED);
    sent(f, sharer);
    core_check(f->core);
    return id;
}

static uint64_t live_in(struct fx *f, const char *queue, const char *key) {
    const struct task_key named = task_key_of(queue_find(f->core, queue)->number, key, strlen(key));
    const struct task *task = task_find_live(f->core, &named);
    return task ? task->row.id : 0;
}

static void a_due_task_goes_to_the_groups_that_match(void **state) { /* GROUP-1 */
    struct fx *f = *state;
    const uint64_t id = due_task(f);
    assert_int_equal(share(f, id, "paid"), TARRY__CODE__OK);
    assert_int_equal(live_in(f, "orders:all", "o1"), id + 1);
    assert_int_equal(live_in(f, "orders:paid", "o1"), id + 2);
    assert_int_equal(live_in(f, "orders", "o1"), 0);
    assert_int_equal(row_of(f, id + 1)->due_ms, NOW_MS + DELAY_MS);
    const uint64_t other = schedule_key(f, "orders", "o2", 0);
    assert_int_equal(share(f, other, "open"), TARRY__CODE__OK);
    assert_int_equal(live_in(f, "orders:all", "o2"), other + 1);
    assert_int_equal(live_in(f, "orders:paid", "o2"), 0);
    core_check(f->core);
}

static void a_task_that_matches_nobody_ends(void **state) { /* GROUP-1 */
    struct fx *f = *state;
    const uint64_t id = due_task(f);
    /* The filter applies to all tasks that fall due from now on. */
    assert_int_equal(set_filter(f, "orders:all", "tag = 'none'"), TARRY__CODE__OK);
    assert_int_equal(share(f, id, NULL), TARRY__CODE__OK);
    const struct outcome *outcome = outcomes_by_id(f->core->outcomes, id);
    assert_int_equal(outcome->cause, TARRY__CAUSE__CAUSE_UNMATCHED);
    assert_int_equal(outcome->deliveries, 0); /* no delivery, because no consumer has seen the task */
    core_check(f->core);
}

/* A task's key is in use until its last share has ended. */
static void the_key_is_taken_until_the_last_share_ends(void **state) {
    struct fx *f = *state;
    const uint64_t id = due_task(f);
    assert_int_equal(share(f, id, "paid"), TARRY__CODE__OK);
    assert_int_equal(schedule_key(f, "orders", "o1", DELAY_MS), 0);
    assert_int_equal(f->result, TARRY__CODE__EXISTS);
    assert_int_not_equal(consumer(f, "orders:all"), 0);
    assert_int_equal(ack(f, row_of(f, id + 1)), TARRY__CODE__OK);
    assert_int_equal(schedule_key(f, "orders", "o1", DELAY_MS), 0);
    assert_int_not_equal(consumer(f, "orders:paid"), 0);
    assert_int_equal(ack(f, row_of(f, id + 2)), TARRY__CODE__OK);
    assert_int_not_equal(schedule_key(f, "orders", "o1", DELAY_MS), 0);
    core_check(f->core);
}

static void cancel_and_move_act_on_all_open_shares(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    const uint64_t id = due_task(f);
    assert_int_equal(share(f, id, "paid"), TARRY__CODE__OK);
    assert_int_equal(change(f, "o1", false, 2 * DELAY_MS), TARRY__CODE__OK);
    assert_int_equal(row_of(f, id + 1)->due_ms, NOW_MS + 3 * DELAY_MS);
    assert_int_equal(row_of(f, id + 2)->due_ms, NOW_MS + 3 * DELAY_MS);
    assert_int_not_equal(consumer(f, "orders:all"), 0);
    wait_until(f, NOW_MS + 3 * DELAY_MS);
    assert_int_equal(row_of(f, id + 1)->state, ROW_LEASED);
    assert_int_equal(change(f, "o1", false, 0), TARRY__CODE__NOT_DONE);
    assert_string_equal(f->message, "the task went to its groups, and a share is in flight; no share was changed");
    assert_int_equal(row_of(f, id + 2)->state, ROW_WAITING);
    assert_int_equal(change(f, "o1", false, DELAY_MS), TARRY__CODE__NOT_DONE);
    assert_int_equal(change(f, "o1", true, 0), TARRY__CODE__OK);
    assert_int_equal(live_in(f, "orders:all", "o1"), 0);
    assert_int_equal(live_in(f, "orders:paid", "o1"), 0);
    assert_int_equal(change(f, "o1", false, 0), TARRY__CODE__NOT_DONE);
    assert_string_equal(f->message, "the task went to its groups, and all its shares have ended");
    core_check(f->core);
}

/* The sharer is a part of the broker, so a task that the sharer has is not at any consumer. */
static void a_task_that_the_sharer_has_can_be_cancelled(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    const uint64_t id = due_task(f);
    assert_int_equal(change(f, "o1", false, 0), TARRY__CODE__OK);
    assert_int_equal(outcomes_by_id(f->core->outcomes, id)->deliveries, 0);
    const uint64_t other = schedule_key(f, "orders", "o1", 0);
    const struct row leased = *row_of(f, other);
    assert_int_equal(change(f, "o1", false, DELAY_MS), TARRY__CODE__OK);
    assert_int_equal(row_of(f, other)->attempt, 0);
    assert_int_equal(row_of(f, other)->deliveries, 0);
    assert_int_equal(leased.attempt, 1);
    core_check(f->core);
}

static Tarry__Code redact(struct fx *f, uint64_t id) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Redact body = TARRY__REDACT__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    struct core_past past = {.id_end = id + 1};
    ref.id = id;
    body.task = &ref;
    body.reason = "test";
    op.op_case = TARRY__OP__OP_REDACT;
    op.redact = &body;
    f->past = &past;
    Tarry__Code code = commit(f, &op);
    f->past = NULL;
    return code;
}

/* With leases ahead of time, a task is shared before it is due. But no consumer gets a share before the due time
 * (TIME-1). */
static void a_task_is_shared_before_it_is_due(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    options.ahead_ms = 50;
    begin_again(f, &options);
    assert_int_equal(set_filter(f, "orders", NULL), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__OK);
    const uint64_t id = schedule_key(f, "orders", "o1", DELAY_MS);
    const uint64_t sharer = consumer(f, NULL), pool = consumer(f, "orders:all");
    wait_until(f, NOW_MS + DELAY_MS - 201);
    assert_int_equal(row_of(f, id)->state, ROW_WAITING);
    wait_until(f, NOW_MS + DELAY_MS - 200);
    assert_int_equal(row_of(f, id)->state, ROW_LEASED);
    sent(f, sharer);
    assert_int_equal(share(f, id, NULL), TARRY__CODE__OK);
    assert_int_equal(row_of(f, id + 1)->state, ROW_WAITING);
    wait_until(f, NOW_MS + DELAY_MS - 1);
    assert_int_equal(row_of(f, id + 1)->state, ROW_WAITING);
    wait_until(f, NOW_MS + DELAY_MS);
    assert_int_equal(row_of(f, id + 1)->state, ROW_LEASED);
    assert_int_equal(row_of(f, id + 1)->session, pool);
    core_check(f->core);
    /* When the queue has no groups any more, a task that was leased to the sharer waits until it is due. */
    const uint64_t other = schedule_key(f, "orders", "o2", 100);
    assert_int_equal(row_of(f, other)->state, ROW_LEASED);
    assert_int_equal(change(f, "o2", false, 100), TARRY__CODE__OK);
    core_check(f->core);
}

static void schedule_serial(struct fx *f, const char *key, uint64_t delay_ms) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = delay_ms;
    body.key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
    body.serial = (ProtobufCBinaryData){.data = (uint8_t *)"ann", .len = 3};
    assert_int_equal(schedule_as(f, "orders", &body, &when), TARRY__CODE__OK);
}

/* An occurrence, a task with a serial name, and a task with an overdue policy are shared when they are due, although
 * others are shared before (SERIAL-1, OVERDUE-1). */
static void some_tasks_are_shared_only_when_they_are_due(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    options.ahead_ms = 50;
    begin_again(f, &options);
    assert_int_equal(set_filter(f, "orders", NULL), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__OK);
    (void)consumer(f, NULL);
    schedule_serial(f, "o1", DELAY_MS);
    const uint64_t serial = f->id;
    schedule_serial(f, "o2", DELAY_MS);
    const uint64_t occurrence = schedule_key(f, "orders", "recur:daily@1970-01-01T00:00:06Z", DELAY_MS);
    wait_until(f, NOW_MS + DELAY_MS - 1);
    assert_int_equal(row_of(f, serial)->state, ROW_WAITING);
    assert_int_equal(row_of(f, occurrence)->state, ROW_WAITING);
    core_check(f->core);
    wait_until(f, NOW_MS + DELAY_MS);
    assert_int_equal(row_of(f, serial)->state, ROW_LEASED);
    assert_int_equal(row_of(f, serial + 1)->state, ROW_WAITING);
    assert_int_equal(row_of(f, occurrence)->state, ROW_LEASED);
    core_check(f->core);

    begin_again(f, &options);
    assert_int_equal(set_policy(f, "orders", "overdue_expire_ms", "1000"), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__OK);
    (void)consumer(f, NULL);
    const uint64_t judged = schedule_key(f, "orders", "o3", 5);
    assert_int_equal(row_of(f, judged)->state, ROW_WAITING);
    wait_until(f, f->now_ms + 5);
    assert_int_equal(row_of(f, judged)->state, ROW_LEASED);
    core_check(f->core);
}

/* The topic's content is not redacted while shares are live, because each share has a copy. */
static void a_task_with_open_shares_is_not_redacted(void **state) {
    struct fx *f = *state;
    const uint64_t id = due_task(f);
    assert_int_equal(share(f, id, NULL), TARRY__CODE__OK);
    assert_int_equal(redact(f, id), TARRY__CODE__NOT_DONE);
    assert_non_null(strstr(f->message, "a share has not ended"));
    assert_int_equal(change(f, "o1", false, 0), TARRY__CODE__OK);
    assert_int_equal(redact(f, id), TARRY__CODE__OK);
}

static void a_topic_and_a_group_have_rules(void **state) {
    struct fx *f = *state;
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__NO_SUCH_QUEUE);
    assert_null(queue_find(f->core, "orders:all")); /* the refused request has created no queue */
    assert_int_equal(set_filter(f, "orders", NULL), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders", "*"), TARRY__CODE__INVALID);
    assert_int_equal(set_filter(f, "orders:all", "tag = "), TARRY__CODE__INVALID);
    assert_string_equal(f->message, "filter, byte 7: expected a text in single quotes");
    assert_null(queue_find(f->core, "orders:all"));
    const uint64_t session = consumer(f, "orders");
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__NOT_DONE);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Unsubscribe leave = TARRY__UNSUBSCRIBE__INIT;
    leave.session = session;
    request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    request.unsubscribe = &leave;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "orders", "push", "http://example.org/"), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__NOT_DONE);
    assert_int_equal(set_policy(f, "orders", "push", ""), TARRY__CODE__OK);
    assert_int_equal(set_filter(f, "orders:all", "*"), TARRY__CODE__OK);
    assert_int_equal(set_policy(f, "orders", "push", "http://example.org/"), TARRY__CODE__INVALID);
    assert_int_equal(consumer(f, "orders"), 0);
    assert_string_equal(f->message, "orders has groups, so its tasks go to them: subscribe to one of orders:all");
    assert_int_equal(consumer(f, "orders:al"), 0);
    assert_string_equal(f->message, "there is no group orders:al: subscribe to one of orders:all");
    assert_int_equal(schedule_key(f, "orders:all", "o1", 0), 0);
    assert_int_equal(f->result, TARRY__CODE__INVALID);
    assert_int_equal(set_filter(f, "orders:all:x", "*"),
                     TARRY__CODE__INVALID); /* refused, because a group cannot be a topic */
    assert_int_equal(set_filter(f, "orders:all", ""), TARRY__CODE__OK);
    assert_int_not_equal(consumer(f, "orders"), 0);
    core_check(f->core);
}

static void the_number_of_groups_is_limited(void **state) { /* CAP-1 */
    struct fx *f = *state;
    char name[32];
    assert_int_equal(set_filter(f, "orders", NULL), TARRY__CODE__OK);
    for (unsigned i = 0; i < GROUPS_MAX; i++) {
        snprintf(name, sizeof(name), "orders:%u", i);
        assert_int_equal(set_filter(f, name, "*"), TARRY__CODE__OK);
    }
    assert_int_equal(set_filter(f, "orders:more", "*"), TARRY__CODE__TOO_LARGE);
    const uint64_t id = schedule_key(f, "orders", "o1", 0);
    assert_int_not_equal(consumer(f, NULL), 0);
    assert_int_equal(share(f, id, NULL), TARRY__CODE__OK);
    assert_int_not_equal(live_in(f, "orders:15", "o1"), 0);
    core_check(f->core);
}

/* An operation for each task, and the messages to which it points. */
#define MANY 2000u
struct many {
    Tarry__Op ops[MANY], *pointers[MANY];
    Tarry__Schedule schedules[MANY];
    Tarry__FanOut fan_outs[MANY];
    Tarry__Token tokens[MANY];
    Tarry__Cancel cancels[MANY];
    Tarry__Ref refs[MANY];
    char keys[MANY][KEY_SIZE_MAX + 1];
};

static struct many *many_new(void) {
    struct many *many = calloc(1, sizeof(*many));
    for (unsigned i = 0; i < MANY; i++) {
        many->pointers[i] = &many->ops[i];
        tarry__op__init(&many->ops[i]);
        tarry__schedule__init(&many->schedules[i]);
        tarry__fan_out__init(&many->fan_outs[i]);
        tarry__cancel__init(&many->cancels[i]);
        tarry__ref__init(&many->refs[i]);
        snprintf(many->keys[i], sizeof(many->keys[i]), "%0*u", KEY_SIZE_MAX, i);
    }
    return many;
}

static void commit_many(struct fx *f, struct many *many, size_t first, size_t count) {
    f->sequence++;
    assert_int_equal(commit_as(f, f->sequence, f->sequence, &many->pointers[first], count), TARRY__CODE__OK);
    assert_int_equal(f->result, TARRY__CODE__OK);
}

/* Schedules the tasks, each with a serial name, in a topic with GROUPS_MAX groups, and makes all shares. Task i has the
 * id i + 1. */
static void share_many(struct fx *f, struct many *many) {
    char name[32];
    assert_int_equal(set_filter(f, "orders", NULL), TARRY__CODE__OK);
    for (unsigned i = 0; i < GROUPS_MAX; i++) {
        snprintf(name, sizeof(name), "orders:%u", i);
        assert_int_equal(set_filter(f, name, "*"), TARRY__CODE__OK);
    }
    for (unsigned i = 0; i < MANY; i++) {
        const ProtobufCBinaryData key = {.data = (uint8_t *)many->keys[i], .len = KEY_SIZE_MAX};
        many->ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        many->ops[i].schedule = &many->schedules[i];
        many->schedules[i].queue = "orders";
        many->schedules[i].key = many->schedules[i].serial = key;
    }
    commit_many(f, many, 0, MANY);
    const uint64_t sharer = consumer(f, NULL);
    step(f, &(struct core_event){.kind = CORE_CREDIT, .lane = {.session = sharer, .credit = MANY}});
    while (row_of(f, MANY)->state != ROW_LEASED) sent(f, sharer);
    sent(f, sharer);
    for (unsigned i = 0; i < MANY; i++) {
        many->ops[i].op_case = TARRY__OP__OP_FAN_OUT;
        many->ops[i].fan_out = &many->fan_outs[i];
        many->fan_outs[i].id = i + 1;
        many->fan_outs[i].token = &many->tokens[i];
        many->tokens[i] = token_of(row_of(f, i + 1));
    }
    for (unsigned i = 0; i < MANY; i += 250) commit_many(f, many, i, 250);
}

/* All cancels of this commit in one frame would have 32,000 records of 600 bytes, more than FRAME_BODY_SIZE_MAX. */
static void a_commit_changes_a_limited_number_of_shares(void **state) { /* CAP-1 */
    struct fx *f = *state;
    struct core_options options = defaults;
    options.memory = 256u << 20;
    options.outcomes_max = 100000;
    begin_again(f, &options);
    struct many *many = many_new();
    share_many(f, many);
    for (unsigned i = 0; i < MANY; i++) {
        many->ops[i].op_case = TARRY__OP__OP_CANCEL;
        many->ops[i].cancel = &many->cancels[i];
        many->cancels[i].task = &many->refs[i];
        many->refs[i].id = i + 1;
    }
    commit_many(f, many, 0, MANY);
    const unsigned done = SHARES_PER_COMMIT_MAX / GROUPS_MAX;
    assert_int_equal(live_in(f, "orders:15", many->keys[done - 1]), 0);
    assert_int_not_equal(live_in(f, "orders:0", many->keys[done]), 0);
    assert_int_equal(cancel(f, done + 1), TARRY__CODE__OK); /* the refused operation succeeds in another commit */
    assert_int_equal(live_in(f, "orders:0", many->keys[done]), 0);
    core_check(f->core);
    free(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_due_task_goes_to_the_groups_that_match, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_task_that_matches_nobody_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_key_is_taken_until_the_last_share_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancel_and_move_act_on_all_open_shares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_task_that_the_sharer_has_can_be_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_task_is_shared_before_it_is_due, set_up, tear_down),
        cmocka_unit_test_setup_teardown(some_tasks_are_shared_only_when_they_are_due, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_task_with_open_shares_is_not_redacted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_topic_and_a_group_have_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_number_of_groups_is_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_commit_changes_a_limited_number_of_shares, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
