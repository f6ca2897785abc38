/* push_desk_test.c: which queues may lease tasks for webhooks (push_desk.c), with a simulated gateway and sender. A
 * queue or host whose requests take long must leave memory for the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway.h"
#include "push_address.h"
#include "push_sender.h"
#include "pusher_parts.h"

#define TARGETS 40u
#define MIB (1u << 20)

/* ---- functions that the desk calls */

static struct {
    gateway_leased *leased; /* callback of the last lease request */
    void *argument;
    uint32_t max;
    uint64_t serial;
    unsigned given_back;
    struct push_job_list sent;
} world;

uint64_t gateway_lease(struct gateway *gateway, const struct gateway_caller *caller,
                       const struct gateway_lease_options *options, gateway_leased *leased, void *argument) {
    world.leased = leased;
    world.argument = argument;
    world.max = options->max;
    return ++world.serial;
}

void gateway_left(struct gateway *gateway, uint64_t handle, bool left) {
    if (!left) world.given_back++;
}

void gateway_cancel(struct gateway *gateway, uint64_t handle) {}
void gateway_disown(struct gateway *gateway, uint64_t principal) {}
void gateway_wake(struct gateway_wakeup *wakeup) {}
void gateway_timer_cancel(struct gateway *gateway, uint64_t handle) {}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    fail_msg("nothing rests here");
    return 0;
}

struct push_sender *push_sender_new(const struct push_sender_options *options) {
    return (struct push_sender *)&world;
}

void push_sender_post(struct push_sender *sender, struct push_job *job) {
    TAILQ_INSERT_TAIL(&world.sent, job, next);
}

void push_sender_take(struct push_sender *sender, struct push_job_list *out) {}
void push_settle(struct push *push) {}
void push_job_ended(struct push *push, struct push_job *job) {}

uint64_t push_unix_ms(void) {
    return 0;
}

uint64_t push_now_ms(void) {
    return 1000;
}

uint64_t push_job_time_ms(const struct push_job *job, uint64_t now_ms) {
    return 1000;
}

struct gateway_caller push_caller(struct push *push) {
    return (struct gateway_caller){.principal = 1};
}

/* ---- queues and their hosts */

struct fx {
    struct push push;
    struct push_target targets[TARGETS];
    unsigned count;
};

static void begin(struct fx *f) {
    memset(&world, 0, sizeof world);
    TAILQ_INIT(&world.sent);
    memset(f, 0, sizeof *f);
    f->push.options.allow = "";
    f->push.options.limits = (struct push_limits){.requests = 512, .host_requests = 32, .queue_requests = 32};
    pthread_mutex_init(&f->push.mutex, NULL);
    TAILQ_INIT(&f->push.targets);
    TAILQ_INIT(&f->push.hosts);
    TAILQ_INIT(&f->push.settling);
    TAILQ_INIT(&f->push.committing);
}

static struct push_target *queue_at(struct fx *f, unsigned port) {
    assert_true(f->count < TARGETS);
    struct push_target *target = &f->targets[f->count];
    target->push = &f->push;
    snprintf(target->queue, sizeof target->queue, "q%u", f->count++);
    snprintf(target->url, sizeof target->url, "http://receiver:%u/", port);
    target->host = push_host_of(&f->push, target->url);
    assert_non_null(target->host);
    TAILQ_INSERT_TAIL(&f->push.targets, target, next);
    return target;
}

/* Returns the number of tasks that the queue requests; 0: it may not request any now. */
static uint32_t asks(struct push_target *target) {
    world.leased = NULL;
    target->lease = 0;
    push_target_run(target);
    uint32_t max = world.leased != NULL ? world.max : 0;
    target->lease = 0;
    return max;
}

/* Gives the queue tasks of this size whenever it requests some, until it may not request any more. No receiver answers.
 * Returns the number of bytes. */
static size_t fill(struct push_target *target, size_t size) {
    static uint8_t content[MIB];
    Tarry__DeliveredTask task = TARRY__DELIVERED_TASK__INIT;
    Tarry__DeliveredTask *tasks[64];
    task.content = (ProtobufCBinaryData){.len = size, .data = content};
    task.lease_deadline_ms = 100000;
    for (size_t i = 0; i < 64; i++) tasks[i] = &task;
    for (uint32_t max; (max = asks(target)) > 0;) {
        assert_in_range(max, 1, 64);
        const struct gateway_leased leased = {.code = TARRY__CODE__OK, .tasks = tasks, .count = max, .delivered_ms = 1};
        world.leased(target, &leased);
    }
    return target->held_bytes;
}

static void finish(struct fx *f) {
    struct push_job *job;
    while ((job = TAILQ_FIRST(&world.sent)) != NULL) {
        TAILQ_REMOVE(&world.sent, job, next);
        push_job_free(&f->push, job);
    }
    assert_int_equal(f->push.held_bytes, 0);
    for (unsigned i = 0; i < f->count; i++) {
        assert_int_equal(f->targets[i].held_bytes, 0);
        assert_int_equal(f->targets[i].host->held_bytes, 0);
        push_host_release(&f->push, f->targets[i].host);
    }
    pthread_mutex_destroy(&f->push.mutex);
}

/* ---- tests */

/* F-19, CALM-1: 32 tasks of 1 MiB wait for a receiver that never answers. Other queues are not affected
 * (docs/WEBHOOKS.md). */
static void a_slow_receiver_of_large_tasks_leaves_room(void **state) {
    struct fx f;
    begin(&f);
    struct push_target *slow = queue_at(&f, 1), *same_host = queue_at(&f, 1), *other = queue_at(&f, 2);
    assert_in_range(fill(slow, MIB), PUSH_BYTES_MAX / 2 - MIB, PUSH_BYTES_MAX / 2 + MIB);
    assert_true(asks(same_host) > 0);
    assert_true(fill(same_host, MIB) > 0);
    assert_in_range(slow->host->held_bytes, MIB, PUSH_BYTES_MAX * 2 / 3 + MIB);
    assert_true(fill(other, 1000) >= 32000); /* the other queue's requests still get their share of PUSH_BYTES_MAX */
    finish(&f);
}

/* However many receivers are slow, a queue gets one task if no memory is in use for its host. */
static void many_slow_receivers_leave_one_task_to_each_host(void **state) {
    struct fx f;
    begin(&f);
    for (unsigned i = 0; i < 12; i++) fill(queue_at(&f, i + 1), MIB);
    assert_true(f.push.held_bytes < 2 * PUSH_BYTES_MAX);
    struct push_target *quick = queue_at(&f, 100);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(asks(quick) > 0);
        assert_true(fill(quick, 1000) > 0);
        struct push_job *job = TAILQ_LAST(&world.sent, push_job_list);
        TAILQ_REMOVE(&world.sent, job, next);
        quick->host->in_flight--;
        f.push.in_flight--;
        push_job_free(&f.push, job);
    }
    finish(&f);
}

/* Before its first task, the size of a queue's tasks is not known. So the queue first requests one task alone. */
static void a_new_queue_asks_for_one_task_first(void **state) {
    struct fx f;
    begin(&f);
    struct push_target *target = queue_at(&f, 1);
    assert_int_equal(asks(target), 1);
    Tarry__DeliveredTask task = TARRY__DELIVERED_TASK__INIT, *tasks[] = {&task};
    const struct gateway_leased leased = {.code = TARRY__CODE__OK, .tasks = tasks, .count = 1, .delivered_ms = 1};
    (void)asks(target);
    world.leased(target, &leased);
    assert_int_equal(asks(target),
                     31); /* the tasks are small, so the queue gets as many as the number of requests allows */
    finish(&f);
}

/* A delivery was requested when there was memory, and arrives when there is none. The broker releases the task, which
 * does not count as an attempt. */
static void a_task_that_comes_too_late_is_given_back(void **state) {
    struct fx f;
    begin(&f);
    struct push_target *slow = queue_at(&f, 1), *late = queue_at(&f, 1);
    assert_true(asks(late) > 0);
    gateway_leased *told = world.leased;
    fill(slow, MIB);
    fill(late, MIB);
    late->lease = world.serial;
    Tarry__DeliveredTask task = TARRY__DELIVERED_TASK__INIT, *tasks[] = {&task};
    const struct gateway_leased leased = {.code = TARRY__CODE__OK, .tasks = tasks, .count = 1, .delivered_ms = 1};
    told(late, &leased);
    assert_int_equal(world.given_back, 1);
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_receiver_of_large_tasks_leaves_room),
        cmocka_unit_test(many_slow_receivers_leave_one_task_to_each_host),
        cmocka_unit_test(a_new_queue_asks_for_one_task_first),
        cmocka_unit_test(a_task_that_comes_too_late_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
