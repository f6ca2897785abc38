/* core_push_test.c: at most PUSH_QUEUES_MAX queues may have a push address. A queue counts once, from the time when its
 * address is set until the address is removed or the queue is deleted. */
#include "core_alone.h"
#include "tarry_limits.h"

static Tarry__Code set_push(struct fx *f, unsigned number, const char *url) {
    char name[32];
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet body = TARRY__QUEUE_SET__INIT;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    char *field = "push";
    (void)snprintf(name, sizeof(name), "queue-%u", number);
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &body;
    policy.push = (char *)url;
    body.queue = name;
    body.policy = &policy;
    body.fields = &field;
    body.n_fields = 1;
    return commit(f, &op);
}

static Tarry__Code delete_queue(struct fx *f, unsigned number) {
    char name[32];
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueDelete body = TARRY__QUEUE_DELETE__INIT;
    (void)snprintf(name, sizeof(name), "queue-%u", number);
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &body;
    body.queue = name;
    return commit(f, &op);
}

static void a_queue_counts_once_and_while_it_is_pushed(void **state) { /* CAP-1 */
    struct fx *f = *state;
    for (unsigned i = 0; i < PUSH_QUEUES_MAX; i++)
        assert_int_equal(set_push(f, i, "http://127.0.0.1/a"), TARRY__CODE__OK);
    assert_int_equal(set_push(f, PUSH_QUEUES_MAX, "http://127.0.0.1/a"), TARRY__CODE__TOO_LARGE);
    for (unsigned i = 0; i < 3; i++) /* a new URL for the same queue does not count as another queue */
        assert_int_equal(set_push(f, 0, i % 2 ? "http://127.0.0.1/a" : "http://127.0.0.1/b"), TARRY__CODE__OK);
    assert_int_equal(set_push(f, PUSH_QUEUES_MAX, "http://127.0.0.1/a"), TARRY__CODE__TOO_LARGE);
    assert_int_equal(set_push(f, 0, ""), TARRY__CODE__OK);
    assert_int_equal(set_push(f, PUSH_QUEUES_MAX, "http://127.0.0.1/a"), TARRY__CODE__OK);
    assert_int_equal(set_push(f, 0, "http://127.0.0.1/a"), TARRY__CODE__TOO_LARGE);
    assert_int_equal(delete_queue(f, 1), TARRY__CODE__OK);
    assert_int_equal(set_push(f, 0, "http://127.0.0.1/a"), TARRY__CODE__OK);
    assert_int_equal(set_push(f, 1, "http://127.0.0.1/a"), TARRY__CODE__TOO_LARGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_queue_counts_once_and_while_it_is_pushed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
