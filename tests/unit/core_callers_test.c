/* core_callers_test.c: ownership that only the core knows: tasks by id in other principals' queues, others'
 * sessions, leases and producers. No caller learns whether another principal's task exists. */
#include "core_alone.h"

static const struct core_caller shop = {.name = "shop", .prefixes = "orders.\0mail", .prefix_count = 2};
static const struct core_caller spy = {.name = "spy", .prefixes = "spies.", .prefix_count = 1};
static const struct core_caller twin = {.name = "twin", .prefixes = "orders.", .prefix_count = 1};
static const struct core_caller admin = {.name = "admin", .acts_for_all = true};
static const struct core_caller local = {.name = ""};

/* A producer of one principal. */
struct producer_of {
    const struct core_caller *caller;
    uint64_t producer, sequence;
};

static Tarry__Code hello_as(struct fx *f, struct producer_of *of, const struct core_caller *caller) {
    f->caller = caller;
    of->caller = caller;
    of->sequence = 0;
    Tarry__Code code = hello(f);
    of->producer = f->producer;
    return code;
}

static void be(struct fx *f, const struct producer_of *of) {
    f->caller = of->caller;
    f->producer = of->producer;
}

static uint64_t last_id(const struct fx *f) {
    return f->id;
}

static void anothers_task_is_denied_like_none(void **state) {
    struct fx *f = *state;
    struct producer_of of_shop, of_spy, of_admin;
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_spy, &spy), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_admin, &admin), TARRY__CODE__OK);
    be(f, &of_shop);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    uint64_t id = last_id(f);
    assert_int_not_equal(id, 0);
    char there[256];
    be(f, &of_spy);
    assert_int_equal(cancel(f, id), TARRY__CODE__DENIED);
    memcpy(there, f->message, sizeof(there));
    assert_int_equal(cancel(f, id + 1000), TARRY__CODE__DENIED); /* the task does not exist */
    assert_string_equal(f->message, there);
    assert_int_equal(get(f, id, false), TARRY__CODE__DENIED);
    memcpy(there, f->message, sizeof(there));
    assert_int_equal(get(f, id + 1000, false), TARRY__CODE__DENIED);
    assert_string_equal(f->message, there);
    be(f, &of_shop);
    assert_int_equal(get(f, id, false), TARRY__CODE__OK);
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    be(f, &of_spy); /* the task has ended, and its outcome is remembered */
    assert_int_equal(cancel(f, id), TARRY__CODE__DENIED);
    assert_int_equal(get(f, id, false), TARRY__CODE__DENIED);
    be(f, &of_admin);
    assert_int_equal(get(f, id, false), TARRY__CODE__OK);
}

static void anothers_producer_is_forgotten(void **state) {
    struct fx *f = *state;
    struct producer_of of_shop, of_twin, of_local;
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_twin, &twin), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_local, &local), TARRY__CODE__OK);
    be(f, &of_shop);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    /* Another principal uses the same producer and sequence; it must not get the reply to the first commit. */
    f->caller = &twin;
    f->sequence--;
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__FORGOTTEN);
    f->caller = &local;
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__FORGOTTEN);
    be(f, &of_local);
    f->caller = &shop;
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__FORGOTTEN);
    f->caller = &admin;
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
}

static Tarry__Code goodbye(struct fx *f, uint64_t producer) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Goodbye body = TARRY__GOODBYE__INIT;
    request.body_case = TARRY__REQUEST__BODY_GOODBYE;
    request.goodbye = &body;
    body.producer = producer;
    return ask(f, &request);
}

static void nobody_says_goodbye_for_another(void **state) {
    struct fx *f = *state;
    struct producer_of of_shop;
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    f->caller = &twin;
    assert_int_equal(goodbye(f, of_shop.producer),
                     TARRY__CODE__OK); /* the answer is the same whether the producer exists or not */
    be(f, &of_shop);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    assert_int_equal(goodbye(f, of_shop.producer), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__FORGOTTEN);
}

/* ---- sessions and leases */

static Tarry__Code of_session(struct fx *f, Tarry__Request__BodyCase what) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Heartbeat heartbeat = TARRY__HEARTBEAT__INIT;
    Tarry__Unsubscribe unsubscribe = TARRY__UNSUBSCRIBE__INIT;
    bool beats = what == TARRY__REQUEST__BODY_HEARTBEAT;
    request.body_case = what;
    heartbeat.session = unsubscribe.session = f->session;
    if (beats)
        request.heartbeat = &heartbeat;
    else
        request.unsubscribe = &unsubscribe;
    return ask(f, &request);
}

static void anothers_session_and_lease_are_not_to_be_used(void **state) {
    struct fx *f = *state;
    struct producer_of of_shop, of_twin;
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_twin, &twin), TARRY__CODE__OK);
    be(f, &of_shop);
    assert_int_equal(schedule(f, "orders.new", 0), TARRY__CODE__OK);
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = (char *)"orders.new";
    body.queues = &queue;
    body.n_queues = 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    assert_string_equal(f->effects.lanes.items[0].principal, "shop");
    f->now_ms += 10;
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = f->session};
    step(f, &up);
    assert_int_equal(f->effects.deliveries.count, 1);
    struct row row = f->effects.deliveries.items[0].tasks[0].row;
    be(f, &of_twin); /* this principal may use the queue, but the lease belongs to another one */
    assert_int_equal(of_session(f, TARRY__REQUEST__BODY_HEARTBEAT), TARRY__CODE__NO_SUCH_SESSION);
    assert_int_equal(ack(f, &row), TARRY__CODE__DENIED);
    says(f, "the lease belongs to another principal");
    assert_int_equal(of_session(f, TARRY__REQUEST__BODY_UNSUBSCRIBE), TARRY__CODE__OK); /* without effect: */
    be(f, &of_shop);
    assert_int_equal(of_session(f, TARRY__REQUEST__BODY_HEARTBEAT), TARRY__CODE__OK);
    assert_int_equal(ack(f, &row), TARRY__CODE__OK);
}

static void only_ones_own_queues_are_shown(void **state) {
    struct fx *f = *state;
    struct producer_of of_admin;
    assert_int_equal(hello_as(f, &of_admin, &admin), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "spies.new", 1000), TARRY__CODE__OK);
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Queues queues = TARRY__QUEUES__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    request.body_case = TARRY__REQUEST__BODY_QUEUES;
    request.queues = &queues;
    f->caller = &shop;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    const Tarry__Reply *reply = f->effects.replies.items[0].reply;
    assert_int_equal(reply->queues->n_queues, 1);
    assert_string_equal(reply->queues->queues[0]->name, "orders.new");
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    reply = f->effects.replies.items[0].reply;
    assert_int_equal(reply->stats->n_queues, 1);
    assert_string_equal(reply->stats->queues[0]->name, "orders.new");
}

/* Checks which queues are read and which are in the reply. */
static void only_ones_own_queues_are_counted(void **state) {
    struct fx *f = *state;
    struct producer_of of_admin;
    struct core_calendar calendar;
    struct arena arena;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Calendar body = TARRY__CALENDAR__INIT;
    static const uint64_t counts[] = {7, 5}, by_queue[] = {12};
    arena_init(&arena, 1u << 20);
    assert_int_equal(hello_as(f, &of_admin, &admin), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "spies.new", 1000), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    request.body_case = TARRY__REQUEST__BODY_CALENDAR;
    request.calendar = &body;
    body.spans = 2;
    body.by_queue = true;
    struct core_event event = {.kind = CORE_REQUEST, .request = {.message = &request, .caller = &local}};
    assert_true(core_plan_calendar(f->core, &event.request, &arena, &calendar));
    assert_true(calendar.of_all && calendar.queue_count == 2);
    event.request.caller = &shop;
    assert_true(core_plan_calendar(f->core, &event.request, &arena, &calendar));
    assert_true(!calendar.of_all && calendar.queue_count == 1);
    assert_int_equal(calendar.queues[0], core_queue_number(f->core, "orders.new"));
    calendar.counts = counts;
    calendar.counts_by_queue = by_queue;
    calendar.position = 4711;
    f->caller = &shop;
    f->calendar = &calendar;
    assert_int_equal(ask(f, &request), TARRY__CODE__OK);
    const Tarry__CalendarReply *reply = f->effects.replies.items[0].reply->calendar;
    assert_int_equal(reply->n_counts, 2);
    assert_int_equal(reply->counts[0], 7);
    assert_int_equal(reply->n_queues, 1);
    assert_string_equal(reply->queues[0]->name, "orders.new");
    assert_int_equal(reply->queues[0]->count, 12);
    request.at_least = 4712;
    assert_int_equal(ask(f, &request), TARRY__CODE__BEHIND);
    request.at_least = 4711;
    calendar.found = CALENDAR_BEHIND;
    assert_int_equal(ask(f, &request), TARRY__CODE__BUSY);
    calendar.found = CALENDAR_TOO_MUCH;
    assert_int_equal(ask(f, &request), TARRY__CODE__TOO_LARGE);
    calendar = (struct core_calendar){.found = CALENDAR_COUNTING, .counted = 51, .next_id = 101};
    assert_int_equal(ask(f, &request), TARRY__CODE__BUSY);
    says(f, "50 per cent");
    body.queue = (char *)"nobodys";
    assert_int_equal(ask(f, &request), TARRY__CODE__NO_SUCH_QUEUE);
    arena_deinit(&arena);
}

/* ---- the broker's own queues (queue_is_reserved); the door refuses them by name */

static const struct core_caller broker = {.name = "(tarryd)", .acts_for_all = true, .is_broker = true};

static Tarry__Code by_id(struct fx *f, Tarry__Op__OpCase what, uint64_t id) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    Tarry__Move move = TARRY__MOVE__INIT;
    Tarry__Ack ack = TARRY__ACK__INIT;
    Tarry__Nack nack = TARRY__NACK__INIT;
    Tarry__Extend extend = TARRY__EXTEND__INIT;
    Tarry__Release release = TARRY__RELEASE__INIT;
    Tarry__DeadOp dead = TARRY__DEAD_OP__INIT;
    Tarry__Redact redact = TARRY__REDACT__INIT;
    ref.id = ack.id = nack.id = extend.id = release.id = id;
    move.task = dead.task = redact.task = &ref;
    move.when = &when;
    op.op_case = what;
    if (what == TARRY__OP__OP_MOVE) op.move = &move;
    if (what == TARRY__OP__OP_ACK) op.ack = &ack;
    if (what == TARRY__OP__OP_NACK) op.nack = &nack;
    if (what == TARRY__OP__OP_EXTEND) op.extend = &extend;
    if (what == TARRY__OP__OP_RELEASE) op.release = &release;
    if (what == TARRY__OP__OP_DEAD) op.dead = &dead;
    if (what == TARRY__OP__OP_REDACT) op.redact = &redact;
    return commit(f, &op);
}

static void the_brokers_tasks_are_its_own(void **state) {
    static const Tarry__Op__OpCase ways[] = {TARRY__OP__OP_MOVE,   TARRY__OP__OP_ACK,     TARRY__OP__OP_NACK,
                                             TARRY__OP__OP_EXTEND, TARRY__OP__OP_RELEASE, TARRY__OP__OP_DEAD,
                                             TARRY__OP__OP_REDACT};
    struct fx *f = *state;
    struct producer_of of_broker, of_admin, of_shop;
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_admin, &admin), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_broker, &broker), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "tarry.once", 1000), TARRY__CODE__OK);
    uint64_t id = last_id(f);
    be(f, &of_admin);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        assert_int_equal(by_id(f, ways[i], id), TARRY__CODE__DENIED);
        says(f, "the task is in a queue that is reserved for the broker");
        assert_int_not_equal(by_id(f, ways[i], id + 1000), TARRY__CODE__DENIED); /* the task does not exist */
    }
    assert_int_equal(cancel(f, id), TARRY__CODE__DENIED);
    assert_int_equal(get(f, id, false), TARRY__CODE__DENIED);
    says(f, "\"tarry.\"");
    be(f, &of_shop);
    assert_int_equal(cancel(f, id), TARRY__CODE__DENIED);
    says(f, "have no task with this id"); /* the confined caller does not learn that the task exists */
    be(f, &of_broker);
    assert_int_equal(get(f, id, false), TARRY__CODE__OK);
    assert_int_equal(by_id(f, TARRY__OP__OP_MOVE, id), TARRY__CODE__OK);
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    be(f, &of_admin); /* the task has ended, and its outcome is remembered */
    assert_int_equal(cancel(f, id), TARRY__CODE__DENIED);
    assert_int_equal(get(f, id, false), TARRY__CODE__DENIED);
}

/* The core has forgotten the task, and the shell found it in the log. */
static void a_past_task_of_the_brokers_is_not_redacted(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    struct producer_of of_broker, of_admin;
    options.outcomes_max = 1;
    begin_again(f, &options);
    assert_int_equal(hello_as(f, &of_admin, &admin), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_broker, &broker), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "tarry.once", 1000), TARRY__CODE__OK);
    uint64_t id = last_id(f);
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "tarry.once", 1000), TARRY__CODE__OK);
    assert_int_equal(cancel(f, last_id(f)), TARRY__CODE__OK);
    struct core_past_task task = {.id = id, .queue = 1};
    const struct core_past past = {.tasks = &task, .count = 1, .id_end = id + 1};
    be(f, &of_admin);
    f->past = &past;
    assert_int_equal(by_id(f, TARRY__OP__OP_REDACT, id), TARRY__CODE__DENIED);
    says(f, "reserved for the broker");
    be(f, &of_broker);
    assert_int_equal(by_id(f, TARRY__OP__OP_REDACT, id), TARRY__CODE__OK);
    f->past = NULL;
}

/* --create-queues no applies only to queues of clients. */
static void the_brokers_queues_are_made_on_first_use_always(void **state) {
    struct fx *f = *state;
    struct core_options options = defaults;
    options.create_queues = false;
    begin_again(f, &options);
    f->caller = &broker;
    assert_int_equal(schedule(f, "tarry.once", 1000), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders", 1000), TARRY__CODE__NO_SUCH_QUEUE);
}

/* ---- limits */

static Tarry__Code hello_of(struct fx *f, const struct core_caller *caller) {
    f->caller = caller;
    return hello(f);
}

/* One principal's producers cannot push out others' remembered replies (ONCE-1). */
static void a_crowd_of_producers_pushes_out_its_own(void **state) {
    struct fx *f = *state;
    struct producer_of of_shop, of_local;
    assert_int_equal(hello_as(f, &of_local, &local), TARRY__CODE__OK);
    for (unsigned i = 0; i < 2 * PRODUCERS_SHARE; i++) assert_int_equal(hello_of(f, &local), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    for (unsigned i = 0; i < PRODUCERS_MAX + 10; i++) assert_int_equal(hello_of(f, &spy), TARRY__CODE__OK);
    be(f, &of_shop);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    be(f, &of_local);
    f->sequence = 0;
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    /* A new producer replaces a producer of the principal that has the most producers, so the other principals keep
     * theirs. */
    assert_int_equal(hello_of(f, &twin), TARRY__CODE__OK);
    be(f, &of_shop);
    f->sequence = 1;
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
}

static void a_principal_has_so_many_producers(void **state) {
    static const struct core_caller few = {.name = "few", .producers_max = 2};
    struct fx *f = *state;
    struct producer_of first, second, third, other;
    assert_int_equal(hello_as(f, &other, &shop), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &first, &few), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &second, &few), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &third, &few), TARRY__CODE__OK);
    f->sequence = 0;
    be(f, &first);
    assert_int_equal(schedule(f, "q", 1000), TARRY__CODE__FORGOTTEN);
    be(f, &second);
    assert_int_equal(schedule(f, "q", 1000), TARRY__CODE__OK);
    be(f, &other);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
}

static void a_principal_has_so_many_sessions_and_tasks(void **state) {
    static const struct core_caller small = {
        .name = "small", .prefixes = "s.", .prefix_count = 1, .sessions_max = 1, .pending_max = 2};
    struct fx *f = *state;
    struct producer_of of_small, of_shop;
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "orders.new", 1000), TARRY__CODE__OK);
    assert_int_equal(hello_as(f, &of_small, &small), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "s.a", 1000), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "s.b", 1000), TARRY__CODE__OK);
    uint64_t id = f->id;
    assert_int_equal(schedule(f, "s.b", 1000), TARRY__CODE__BUSY);
    says(f, "pending=");
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    assert_int_equal(schedule(f, "s.b", 1000), TARRY__CODE__OK);
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = (char *)"s.a";
    body.queues = &queue;
    body.n_queues = 1;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    assert_int_equal(subscribe(f, &body), TARRY__CODE__BUSY);
    says(f, "sessions=");
    assert_int_equal(of_session(f, TARRY__REQUEST__BODY_UNSUBSCRIBE), TARRY__CODE__OK);
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    queue = (char *)"orders.new";
    f->caller = &shop;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
}

/* The frame contains the principal's name, and the name that the client gave itself. */
static void records_name_the_principal(void **state) {
    struct fx *f = *state;
    struct producer_of of_shop;
    assert_int_equal(hello_as(f, &of_shop, &shop), TARRY__CODE__OK);
    const struct core_append *append = &f->effects.appends.items[0];
    Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, append->body_size, append->body);
    assert_non_null(body);
    assert_string_equal(body->principal, "shop");
    assert_string_equal(body->client, "test");
    assert_string_equal(body->records[0]->producer->principal, "shop");
    tarry__frame_body__free_unpacked(body, NULL);
}

static Tarry__Code schedule_keyed(struct fx *f, const char *key) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &body;
    body.queue = "orders";
    body.key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
    body.when = &when;
    when.ms = 1000;
    return commit(f, &op);
}

/* Reading the content from a slow disk may take long, so the reply needs its own copy of everything. */
static void an_answer_with_content_outlives_the_task(void **state) {
    struct fx *f = *state;
    assert_int_equal(schedule_keyed(f, "order-1001"), TARRY__CODE__OK);
    uint64_t id = last_id(f);
    assert_int_equal(get(f, id, true), TARRY__CODE__OK);
    const struct core_effects answered = f->effects;
    struct arena other;
    arena_init(&other, 16u << 20);
    /* Later steps write their effects to another arena, so the first reply stays unchanged in its own. */
    core_effects_init(&f->effects, &other);
    assert_int_equal(cancel(f, id), TARRY__CODE__OK);
    struct core_event indexed = {.kind = CORE_INDEXED, .position = core_position(f->core)};
    step(f, &indexed); /* from here on, the memory of the core does not have the task */
    const struct row *row = answered.replies.items[0].content;
    assert_non_null(row);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(schedule_keyed(f, (char[]){'k', (char)('0' + i), '\0'}), TARRY__CODE__OK);
    assert_int_equal(row->key_size, strlen("order-1001"));
    assert_memory_equal(row->key, "order-1001", row->key_size);
    f->effects = answered;
    arena_deinit(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CORE_TEST(an_answer_with_content_outlives_the_task),
        CORE_TEST(anothers_task_is_denied_like_none),
        CORE_TEST(anothers_producer_is_forgotten),
        CORE_TEST(nobody_says_goodbye_for_another),
        CORE_TEST(anothers_session_and_lease_are_not_to_be_used),
        CORE_TEST(only_ones_own_queues_are_shown),
        CORE_TEST(only_ones_own_queues_are_counted),
        CORE_TEST(the_brokers_tasks_are_its_own),
        CORE_TEST(a_past_task_of_the_brokers_is_not_redacted),
        CORE_TEST(the_brokers_queues_are_made_on_first_use_always),
        CORE_TEST(a_crowd_of_producers_pushes_out_its_own),
        CORE_TEST(a_principal_has_so_many_producers),
        CORE_TEST(a_principal_has_so_many_sessions_and_tasks),
        CORE_TEST(records_name_the_principal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
