/* row_test.c: a row can be packed into the log and read back, and its hash covers every field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "frame.h"
#include "row.h"
#include "tarry_limits.h"

struct random_row {
    struct row row;
    char key[KEY_SIZE_MAX];
    char reason[REASON_SIZE_MAX];
    char serial[SERIAL_SIZE_MAX];
};

static void make_row(struct random *random, struct random_row *out) {
    for (size_t i = 0; i < KEY_SIZE_MAX; i++) out->key[i] = (char)random_u64(random);
    for (size_t i = 0; i < REASON_SIZE_MAX; i++) out->reason[i] = (char)random_u64(random);
    for (size_t i = 0; i < SERIAL_SIZE_MAX; i++) out->serial[i] = (char)random_u64(random);
    out->row = (struct row){
        .id = 1 + random_magnitude(random, 63),
        .due_ms = random_magnitude(random, 64),
        .expires_ms = random_magnitude(random, 64),
        .scheduled_ms = random_magnitude(random, 64),
        .blob_at = random_magnitude(random, 64),
        .blob_sum = random_magnitude(random, 64),
        .lease_position = random_magnitude(random, 64),
        .lease_deadline_ms = random_magnitude(random, 64),
        .session = random_magnitude(random, 64),
        .delivered_ms = random_magnitude(random, 64),
        .dead_ms = random_magnitude(random, 64),
        .queue = 1 + (uint32_t)random_below(random, QUEUES_MAX),
        .blob_size = (uint32_t)random_below(random, FRAME_BLOB_SIZE_MAX + 1),
        .attempt = (uint32_t)random_magnitude(random, 32),
        .deliveries = (uint32_t)random_magnitude(random, 32),
        .lease_epoch = (uint32_t)random_magnitude(random, 32),
        .spread_ms = random_below(random, 2) ? (uint32_t)random_below(random, SPREAD_MAX_MS + 1) : 0,
        .priority = (uint8_t)random_below(random, PRIORITY_COUNT),
        .base = (uint8_t)random_below(random, ROW_BASES),
        .state = (uint8_t)random_below(random, ROW_STATES),
        .key_size = (uint8_t)random_below(random, KEY_SIZE_MAX + 1),
        .reason_size = (uint8_t)random_below(random, REASON_SIZE_MAX + 1),
        .serial_size = random_below(random, 2) ? (uint8_t)random_below(random, SERIAL_SIZE_MAX + 1) : 0,
        .key = out->key,
        .reason = out->reason,
        .serial = out->serial,
    };
    row_set_own(&out->row, random_below(random, 2) ? (uint32_t)random_below(random, TASK_ATTEMPTS_MAX + 1) : 0,
                random_below(random, 2) ? random_below(random, BACKOFF_MAX_MS + 1) : 0,
                random_below(random, 2) ? random_below(random, LEASE_MAX_MS + 1) : 0);
}

static void row_is_equal(const struct row *a, const struct row *b) {
    struct row x = *a, y = *b;
    assert_memory_equal(x.key, y.key, x.key_size);
    assert_memory_equal(x.reason, y.reason, x.reason_size);
    assert_memory_equal(x.serial, y.serial, x.serial_size);
#define SAME(field) assert_int_equal(x.field, y.field)
    SAME(id), SAME(due_ms), SAME(expires_ms), SAME(scheduled_ms), SAME(blob_at), SAME(blob_sum), SAME(lease_position);
    SAME(lease_deadline_ms), SAME(session), SAME(delivered_ms), SAME(dead_ms), SAME(queue), SAME(blob_size);
    SAME(attempt), SAME(deliveries), SAME(lease_epoch), SAME(priority), SAME(base), SAME(state), SAME(key_size);
    SAME(reason_size), SAME(serial_size), SAME(spread_ms), SAME(backoff_ms), SAME(lease_ms), SAME(max_attempts);
#undef SAME
}

/* Converts Row → Task → bytes → Task → row. */
static void a_row_survives_the_log(void **state) {
    (void)state;
    struct random random = {random_seed(1)};
    for (int n = 0; n < 100000; n++) {
        struct random_row made;
        make_row(&random, &made);
        Tarry__Task task = TARRY__TASK__INIT;
        row_to_task(&made.row, &task);
        uint8_t bytes[1024];
        assert_true(tarry__task__get_packed_size(&task) <= sizeof(bytes));
        size_t size = tarry__task__pack(&task, bytes);
        Tarry__Task *back = tarry__task__unpack(NULL, size, bytes);
        assert_non_null(back);
        struct row row;
        assert_true(row_from_task(back, &row));
        row_is_equal(&made.row, &row);
        assert_int_equal(row_hash(&made.row), row_hash(&row));
        tarry__task__free_unpacked(back, NULL);
    }
}

#define SEEN(field)                                                                                                    \
    do {                                                                                                               \
        struct row changed = made.row;                                                                                 \
        changed.field ^= 1;                                                                                            \
        assert_int_not_equal(row_hash(&changed), hash);                                                                \
    } while (0)

static void the_hash_sees_every_field(void **state) {
    (void)state;
    struct random random = {random_seed(2)};
    for (int n = 0; n < 2000; n++) {
        struct random_row made;
        make_row(&random, &made);
        made.row.key_size |= 1, made.row.reason_size |= 1,
            made.row.serial_size |=
            3;                   /* sets the two lowest bits, so that flipping one of them makes the size smaller */
        made.row.has_own = true; /* without has_own, the hash does not include the task's own settings, which are 0 */
        uint64_t hash = row_hash(&made.row);
        assert_int_not_equal(hash, 0);
        SEEN(id);
        SEEN(due_ms);
        SEEN(expires_ms);
        SEEN(scheduled_ms);
        SEEN(blob_at);
        SEEN(blob_sum);
        SEEN(lease_position);
        SEEN(lease_deadline_ms);
        SEEN(session);
        SEEN(delivered_ms);
        SEEN(dead_ms);
        SEEN(queue);
        SEEN(blob_size);
        SEEN(attempt);
        SEEN(deliveries);
        SEEN(lease_epoch);
        SEEN(spread_ms);
        SEEN(backoff_ms);
        SEEN(lease_ms);
        SEEN(max_attempts);
        SEEN(priority);
        SEEN(base);
        SEEN(state);
        SEEN(key_size);
        SEEN(reason_size);
        SEEN(serial_size);
        made.key[made.row.key_size - 1] ^= 1;
        assert_int_not_equal(row_hash(&made.row), hash);
        made.key[made.row.key_size - 1] ^= 1;
        made.reason[made.row.reason_size - 1] ^= 1;
        assert_int_not_equal(row_hash(&made.row), hash);
        made.reason[made.row.reason_size - 1] ^= 1;
        made.serial[made.row.serial_size - 1] ^= 1;
        assert_int_not_equal(row_hash(&made.row), hash);
    }
}

/* Old logs contain hashes, so the hashed encoding must not change within one FORMAT_VERSION. It also covers the
 * boundary between key and reason. */
static void the_hash_is_what_it_was(void **state) {
    (void)state;
    struct row row = {.id = 1, .due_ms = 2, .queue = 3, .key = "ab", .key_size = 2, .reason = "c", .reason_size = 1};
    struct row other = row;
    other.key_size = 1, other.reason = "bc", other.reason_size = 2;
    assert_int_not_equal(row_hash(&row), row_hash(&other));
    assert_int_equal(row_hash(&row), 0xe32fdd4200cdf553);
    struct row bare = {0};
    assert_int_equal(row_hash(&bare), 0x1ee2d5eb5af73a6d);
    assert_int_equal(row_key_hash(1, "order-1", 7), 0x49a3ac0dde901f92);
    assert_int_not_equal(row_key_hash(1, "order-1", 7), row_key_hash(2, "order-1", 7));
    Tarry__Policy policy = TARRY__POLICY__INIT;
    policy.lease_ms = 30000;
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    queue.number = 1, queue.name = "orders", queue.policy = &policy;
    assert_int_equal(queue_hash(&queue), 0xdc6555d1eb85de68);
}

static void a_queue_hash_sees_every_field_but_before(void **state) {
    (void)state;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    queue.number = 1, queue.name = "orders", queue.policy = &policy;
    uint64_t hash = queue_hash(&queue);
    queue.before_hash = 99;
    assert_int_equal(queue_hash(&queue), hash);
#define QUEUE_SEEN(field)                                                                                              \
    do {                                                                                                               \
        (field) ^= 1;                                                                                                  \
        assert_int_not_equal(queue_hash(&queue), hash);                                                                \
        (field) ^= 1;                                                                                                  \
    } while (0)
    QUEUE_SEEN(queue.number);
    QUEUE_SEEN(queue.paused);
    QUEUE_SEEN(queue.paused_until_ms);
    QUEUE_SEEN(policy.lease_ms);
    QUEUE_SEEN(policy.max_attempts);
    QUEUE_SEEN(policy.backoff);
    QUEUE_SEEN(policy.backoff_min_ms);
    QUEUE_SEEN(policy.backoff_max_ms);
    QUEUE_SEEN(policy.backoff_jitter);
    QUEUE_SEEN(policy.rate);
    QUEUE_SEEN(policy.rate_period_ms);
    QUEUE_SEEN(policy.burst);
    QUEUE_SEEN(policy.max_in_flight);
    policy.push = "https://example.org/a";
    uint64_t pushed = queue_hash(&queue);
    assert_int_not_equal(pushed, hash);
    policy.push = "https://example.org/b";
    assert_int_not_equal(queue_hash(&queue), pushed);
    policy.push = "";
    assert_int_equal(queue_hash(&queue), hash); /* the hash is that of a queue without webhooks, as in old logs */
    queue.name = "order";
    assert_int_not_equal(queue_hash(&queue), hash);
    queue.name = "orders", queue.policy = NULL;
    assert_int_not_equal(queue_hash(&queue), hash);
}

static void a_damaged_task_is_refused(void **state) { /* F-8, LOG-3 */
    (void)state;
    struct random random = {random_seed(3)};
    struct random_row made;
    make_row(&random, &made);
    struct row row, untouched;
    memset(&row, 0x5a, sizeof(row));
    untouched = row;
    Tarry__Task good = TARRY__TASK__INIT, task;
    row_to_task(&made.row, &good);
#define REFUSED(field, value)                                                                                          \
    do {                                                                                                               \
        task = good;                                                                                                   \
        task.field = (value);                                                                                          \
        assert_false(row_from_task(&task, &row));                                                                      \
        assert_memory_equal(&row, &untouched, sizeof(row));                                                            \
    } while (0)
    REFUSED(id, 0);
    REFUSED(queue, 0);
    REFUSED(queue, QUEUE_PLACES + 1);
    REFUSED(priority, PRIORITY_COUNT);
    REFUSED(priority, 256); /* 256 is refused; truncated to a byte it would be 0 */
    REFUSED(time_base, (Tarry__Task__Base)2);
    REFUSED(time_base, (Tarry__Task__Base)-1);
    REFUSED(state, (Tarry__Task__State)3);
    REFUSED(state, (Tarry__Task__State)-1);
    REFUSED(key.len, KEY_SIZE_MAX + 1);
    REFUSED(key.len, 65536);
    REFUSED(reason.len, REASON_SIZE_MAX + 1);
    REFUSED(blob_size, FRAME_BLOB_SIZE_MAX + 1);
    assert_true(row_from_task(&good, &row));
}

static void expiry_saturates(void **state) {
    (void)state;
    struct row row = {.due_ms = 100};
    assert_int_equal(row_expires_at(&row), UINT64_MAX);
    row.expires_ms = 5;
    assert_int_equal(row_expires_at(&row), 105);
    row.due_ms = UINT64_MAX - 5;
    assert_int_equal(row_expires_at(&row), UINT64_MAX);
    row.due_ms++;
    assert_int_equal(row_expires_at(&row), UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_survives_the_log),    cmocka_unit_test(the_hash_sees_every_field),
        cmocka_unit_test(the_hash_is_what_it_was),   cmocka_unit_test(a_queue_hash_sees_every_field_but_before),
        cmocka_unit_test(a_damaged_task_is_refused), cmocka_unit_test(expiry_saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
