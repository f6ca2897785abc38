/* push_work_test.c: how the core learns the results of webhooks (push_settle.c), with a simulated gateway; and how
 * often the sender's thread reads the file of secrets (push_sender.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pusher_parts.h"

/* ---- the desk's functions for push_settle.c */

#define OPS_MAX 4u

static struct {
    unsigned commits, timers, freed, runs, owned;
    gateway_reply *reply; /* callback of the commit in flight */
    gateway_timeout *timeout;
    void *argument;
    uint64_t ids[OPS_MAX];
    size_t count; /* number of operations in the last commit */
    bool is_full; /* true: there is no memory for a commit */
    unsigned rests, said;
    uint64_t rest_ms;
    bool is_well; /* state of the target in the last report: true if it works */
} desk;

struct gateway_caller push_caller(struct push *push) {
    desk.owned++;
    return (struct gateway_caller){.principal = 1};
}

void gateway_disown(struct gateway *gateway, uint64_t principal) {
    desk.owned--;
}

static uint64_t id_of(const Tarry__Op *op) {
    return op->op_case == TARRY__OP__OP_ACK ? op->ack->id : op->nack->id;
}

uint64_t gateway_commit(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Commit *commit,
                        const struct gateway_once *once, gateway_reply *reply, void *argument) {
    if (desk.is_full) return 0;
    assert_null(desk.reply); /* there is only one commit at a time */
    assert_in_range(commit->n_ops, 1, OPS_MAX);
    desk.commits++;
    desk.reply = reply;
    desk.argument = argument;
    desk.count = commit->n_ops;
    for (size_t i = 0; i < commit->n_ops; i++) desk.ids[i] = id_of(commit->ops[i]);
    return desk.commits;
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    assert_null(desk.timeout);
    assert_true(after_ms > 0);
    desk.timeout = timeout;
    desk.argument = argument;
    return ++desk.timers;
}

void push_job_free(struct push *push, struct push_job *job) {
    desk.freed++;
}

void push_target_run(struct push_target *target) {
    desk.runs++;
}

void push_target_end_if_idle(struct push_target *target) {}

void push_target_rest(struct push_target *target, uint64_t ms) {
    desk.rests++;
    desk.rest_ms = ms;
}

static void say(void *argument, const char *queue, const char *sentence) {
    desk.said++;
    desk.is_well = sentence == NULL;
}

static void answer(Tarry__Code code) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    gateway_reply *told = desk.reply;
    desk.reply = NULL;
    reply.code = code;
    told(desk.argument, &reply);
}

static void ring(void) {
    gateway_timeout *timeout = desk.timeout;
    assert_non_null(timeout);
    desk.timeout = NULL;
    timeout(desk.argument);
}

/* ---- settling */

struct fx {
    struct push push;
    struct push_target target;
    struct push_job jobs[3];
};

static void begin(struct fx *f) {
    memset(&desk, 0, sizeof desk);
    *f = (struct fx){.target = {.push = &f->push, .queue = "q"}};
    pthread_mutex_init(&f->push.mutex, NULL);
    TAILQ_INIT(&f->push.targets);
    TAILQ_INIT(&f->push.settling);
    TAILQ_INIT(&f->push.committing);
    TAILQ_INSERT_TAIL(&f->push.targets, &f->target, next);
    for (unsigned i = 0; i < 3; i++)
        f->jobs[i] = (struct push_job){.target = &f->target, .id = i + 1, .verdict = PUSH_TAKEN, .status = 200};
}

/* Jobs that end while a commit is in flight are settled together by the next commit. */
static void one_commit_at_a_time_takes_all_that_has_gathered(void **state) {
    struct fx f;
    begin(&f);
    push_settle(&f.push);
    assert_int_equal(desk.commits, 0);
    push_job_ended(&f.push, &f.jobs[0]);
    push_settle(&f.push);
    push_job_ended(&f.push, &f.jobs[1]);
    f.jobs[2].verdict = PUSH_REFUSED;
    push_job_ended(&f.push, &f.jobs[2]);
    push_settle(&f.push);
    assert_int_equal(desk.commits, 1);
    assert_int_equal(desk.count, 1);
    assert_int_equal(desk.ids[0], 1);
    assert_int_equal(desk.freed, 0);
    answer(TARRY__CODE__OK);
    assert_int_equal(desk.freed, 1);
    assert_int_equal(desk.runs, 1);
    assert_int_equal(desk.commits, 2);
    assert_int_equal(desk.count, 2);
    assert_int_equal(desk.ids[0], 2);
    assert_int_equal(desk.ids[1], 3);
    answer(TARRY__CODE__OK);
    assert_int_equal(desk.freed, 3);
    assert_int_equal(desk.commits, 2);
    assert_int_equal(desk.timers, 0);
    assert_int_equal(desk.owned, 0);
}

/* The broker is busy twice, and once there is no memory. After each of these failures, all operations are sent again in
 * the same order, when the timer fires. */
static void what_was_refused_is_told_again(void **state) {
    struct fx f;
    begin(&f);
    push_job_ended(&f.push, &f.jobs[0]);
    push_settle(&f.push);
    push_job_ended(&f.push, &f.jobs[1]);
    for (unsigned busy = 1; busy <= 3; busy++) {
        if (busy < 3) answer(TARRY__CODE__BUSY);
        assert_int_equal(desk.timers, busy);
        push_settle(&f.push);
        assert_int_equal(desk.commits, busy < 3 ? busy : 2);
        desk.is_full = busy == 2;
        ring();
    }
    assert_int_equal(desk.commits, 3);
    assert_int_equal(desk.count, 2);
    assert_int_equal(desk.ids[0], 1);
    assert_int_equal(desk.ids[1], 2);
    assert_int_equal(desk.freed, 0);
    answer(TARRY__CODE__OK);
    assert_int_equal(desk.freed, 2);
    assert_int_equal(desk.owned, 0);
}

/* A decision whose outcome is unknown is sent again until its lease ends. After a failed hand-over, this node may
 * become the leader again. A repeated decision is harmless, because it has the lease's token. */
static void unknown_outcomes_are_told_again_until_the_lease_is_over(void **state) {
    static const Tarry__Code unknown[] = {TARRY__CODE__NOT_PRIMARY, TARRY__CODE__FAILED};
    struct fx f;
    for (unsigned i = 0; i < 2; i++) {
        begin(&f);
        const uint64_t now_ms = push_now_ms();
        f.jobs[0].until_ms = now_ms; /* the rest of the lease is a fifth of its duration */
        f.jobs[0].lease_ms = 1000000;
        f.jobs[1].until_ms = now_ms - 1000; /* the job's lease has just ended */
        f.jobs[1].lease_ms = 5000;
        push_job_ended(&f.push, &f.jobs[0]);
        push_job_ended(&f.push, &f.jobs[1]);
        push_settle(&f.push);
        assert_int_equal(desk.count, 2);
        answer(unknown[i]);
        assert_int_equal(desk.freed, 1);
        assert_int_equal(desk.commits, 1);
        ring();
        assert_int_equal(desk.commits, 2);
        assert_int_equal(desk.count, 1);
        assert_int_equal(desk.ids[0], 1);
        answer(TARRY__CODE__OK);
        assert_int_equal(desk.freed, 2);
        assert_int_equal(desk.timers, 1);
    }
}

/* A stopping broker accepts no more commits, and an invalid commit stays invalid. Neither is sent again. */
static void what_cannot_be_told_ends(void **state) {
    static const Tarry__Code final[] = {TARRY__CODE__STOPPING, TARRY__CODE__INVALID, TARRY__CODE__NOT_PRIMARY};
    struct fx f;
    for (unsigned i = 0; i < 3; i++) {
        begin(&f);
        f.jobs[0].until_ms = push_now_ms();
        f.jobs[0].lease_ms = 1000000;
        push_job_ended(&f.push, &f.jobs[0]);
        push_settle(&f.push);
        if (final[i] == TARRY__CODE__NOT_PRIMARY) atomic_store(&f.push.stops, true);
        answer(final[i]);
        assert_int_equal(desk.freed, 1);
        assert_int_equal(desk.timers, 0);
    }
}

/* ---- health */

static void end_as(struct fx *f, struct push_job *job, enum push_verdict verdict, uint64_t round) {
    *job = (struct push_job){.target = &f->target, .verdict = verdict, .round = round, .reason = "it failed"};
    push_job_ended(&f->push, job);
}

/* Each pause is twice as long as the previous one. A failure of a request that began before a pause does not begin
 * another pause. */
static void a_target_that_fails_rests(void **state) {
    struct fx f;
    struct push_job jobs[2 * PUSH_FAILURES_MAX + 3], *next = jobs;
    begin(&f);
    f.push.options.say = say;
    f.push.options.limits.rest_ms = 3 * PUSH_REST_MIN_MS;
    for (unsigned i = 1; i < 2 * PUSH_FAILURES_MAX; i++) {
        end_as(&f, next++, PUSH_FAILED, 0);
        assert_int_equal(desk.rests, i >= PUSH_FAILURES_MAX);
    }
    assert_int_equal(desk.rest_ms, PUSH_REST_MIN_MS);
    assert_int_equal(desk.said, 1);
    end_as(&f, next++, PUSH_FAILED, 1);
    assert_int_equal(desk.rest_ms, 2 * PUSH_REST_MIN_MS);
    end_as(&f, next++, PUSH_UNSENT, 2);
    assert_int_equal(desk.rest_ms,
                     3 * PUSH_REST_MIN_MS); /* three times the minimum is the maximum pause in this test */
    assert_int_equal(desk.rests, 3);
    assert_int_equal(desk.said, 1);
    end_as(&f, next++, PUSH_TAKEN, 3);
    assert_int_equal(desk.said, 2);
    assert_true(desk.is_well);
    end_as(&f, next++, PUSH_FAILED, 3);
    assert_int_equal(desk.rests, 3);
}

/* ---- the file of secrets */

#define ROUNDS 20u

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned reads, done;
} sent = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int read_secrets(void *argument, char *out, size_t size, size_t *out_size, char *message, size_t message_size) {
    pthread_mutex_lock(&sent.mutex);
    sent.reads++;
    pthread_mutex_unlock(&sent.mutex);
    *out_size = 0;
    return 0;
}

static void on_done(void *argument) {
    pthread_mutex_lock(&sent.mutex);
    sent.done++;
    pthread_cond_signal(&sent.changed);
    pthread_mutex_unlock(&sent.mutex);
}

/* Sends jobs one after another. Their leases have ended, so they come back unsent. */
static void secrets_are_read_anew_now_and_then(void **state) {
    const struct push_sender_options options = {.ca = "",
                                                .version = "0",
                                                .connections_max = 1,
                                                .connect_ms = 1000,
                                                .read_secrets = read_secrets,
                                                .done = on_done};
    struct push_job_list out = TAILQ_HEAD_INITIALIZER(out);
    struct push_job jobs[ROUNDS];
    const uint64_t begun_ms = push_now_ms();
    struct push_sender *sender = push_sender_new(&options);
    assert_non_null(sender);
    for (unsigned i = 0; i < ROUNDS; i++) {
        jobs[i] = (struct push_job){.id = i, .url = "http://127.0.0.1:1/", .queue = "q"};
        push_sender_post(sender, &jobs[i]);
        pthread_mutex_lock(&sent.mutex);
        while (sent.done == i) pthread_cond_wait(&sent.changed, &sent.mutex);
        pthread_mutex_unlock(&sent.mutex);
        assert_int_equal(sent.done, i + 1);
    }
    push_sender_free(sender, &out);
    const uint64_t took_ms = push_now_ms() - begun_ms;
    for (unsigned i = 0; i < ROUNDS; i++) assert_int_equal(jobs[i].verdict, PUSH_UNSENT);
    assert_in_range(sent.reads, 1, 1 + took_ms / PUSH_SECRETS_MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_commit_at_a_time_takes_all_that_has_gathered),
        cmocka_unit_test(what_was_refused_is_told_again),
        cmocka_unit_test(unknown_outcomes_are_told_again_until_the_lease_is_over),
        cmocka_unit_test(what_cannot_be_told_ends),
        cmocka_unit_test(a_target_that_fails_rests),
        cmocka_unit_test(secrets_are_read_anew_now_and_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
