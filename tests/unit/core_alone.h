/* core_alone.h: a core without a broker. Its frames are durable at once, and never enter an index. `struct fx` sends
 * the core one request at a time. Its fields `code`, `result` and `message` describe the last reply. The clock moves
 * only if a test moves it. Included once per test. */
#ifndef TARRY_TESTS_CORE_ALONE_H
#define TARRY_TESTS_CORE_ALONE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core.h"
#include "tasks.h"

#define MEMORY (8u << 20)
#define NOW_MS 1700000000000ull

struct fx {
    struct core_options options;
    struct core *core;
    struct core_effects effects;
    struct arena arena;
    uint64_t producer, sequence;
    Tarry__Code code; /* codes of the last reply and of the first result in it */
    Tarry__Code result;
    bool abandoned;   /* true: the reply says that the outcome was queried before the commit came */
    uint64_t repeats; /* for a repeated reply: position of the frame that the first reply came from; 0: a new reply */
    char message[256];
    uint64_t session;
    uint64_t now_ms;
    uint64_t late_ms;                 /* time in ms between the reading of the requests and now_ms */
    uint64_t content_size;            /* content size of new tasks */
    uint64_t resumes;                 /* session that the next subscription resumes; 0: none */
    uint64_t id;                      /* id in the first result of the last reply */
    const struct core_caller *caller; /* caller of the requests; NULL: a caller without limits */
    const struct core_calendar *calendar;
    const struct core_past *past;
    void (*after_step)(struct fx *f); /* called with the effects of each step; NULL: not called */
};

static const struct core_options defaults = {
    .memory = MEMORY, .outcomes_max = 100, .outcome_retention_ms = 3600000, .create_queues = true, .version = "test"};

static inline void take_reply(struct fx *f) {
    const struct core_reply *reply = &f->effects.replies.items[0];
    f->code = reply->reply != NULL ? reply->reply->code : TARRY__CODE__OK;
    f->result = TARRY__CODE__OK;
    f->abandoned = false;
    f->repeats = reply->repeat_position;
    snprintf(f->message, sizeof(f->message), "%s", reply->reply != NULL ? reply->reply->message : "");
    if (reply->commit != NULL) {
        Tarry__CommitReply *commit = tarry__commit_reply__unpack(NULL, reply->commit_size, reply->commit);
        assert_non_null(commit);
        if (commit->n_results > 0) f->result = commit->results[0]->code;
        if (commit->n_results > 0) f->id = commit->results[0]->id;
        if (commit->n_results > 0) snprintf(f->message, sizeof(f->message), "%s", commit->results[0]->message);
        f->abandoned = commit->abandoned;
        tarry__commit_reply__free_unpacked(commit, NULL);
    }
    if (f->code == TARRY__CODE__OK && reply->reply != NULL && reply->reply->body_case == TARRY__REPLY__BODY_HELLO)
        f->producer = reply->reply->hello->producer;
    if (f->code == TARRY__CODE__OK && reply->reply != NULL && reply->reply->body_case == TARRY__REPLY__BODY_SUBSCRIBE)
        f->session = reply->reply->subscribe->session;
}

static inline void step(struct fx *f, struct core_event *event) {
    event->now = (struct instant){f->now_ms * 1000000, f->now_ms * 1000000};
    core_effects_reset(&f->effects);
    core_step(f->core, event, &f->effects);
    if (event->kind == CORE_REQUEST && event->request.ticket != 0) {
        assert_true(f->effects.replies.count > 0);
        take_reply(f);
    }
    struct core_event durable = {.kind = CORE_DURABLE, .now = event->now, .position = core_position(f->core)};
    core_step(f->core, &durable, &f->effects);
    if (f->after_step != NULL) f->after_step(f);
}

static inline Tarry__Code ask(struct fx *f, Tarry__Request *request) {
    static struct core_content contents[OPS_PER_COMMIT_MAX + 1];
    contents[0].size =
        (uint32_t)
            f->content_size; /* the core needs only the size of a content, because only the shell reads its bytes */
    struct core_event event = {.kind = CORE_REQUEST,
                               .late_ns = f->late_ms * 1000000,
                               .request = {.ticket = 1, .message = request, .caller = f->caller}};
    request->client = "test";
    if (request->body_case == TARRY__REQUEST__BODY_COMMIT) {
        event.request.commit.contents = contents;
        event.request.commit.past = f->past;
    } else if (request->body_case == TARRY__REQUEST__BODY_SUBSCRIBE) {
        event.request.resumed = f->resumes;
    } else if (request->body_case == TARRY__REQUEST__BODY_CALENDAR) {
        event.request.calendar = f->calendar;
    }
    step(f, &event);
    return f->code;
}

static inline Tarry__Code hello(struct fx *f) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Hello body = TARRY__HELLO__INIT;
    request.body_case = TARRY__REQUEST__BODY_HELLO;
    request.hello = &body;
    return ask(f, &request);
}

static inline Tarry__Code commit_as(struct fx *f, uint64_t sequence, uint64_t oldest, Tarry__Op **ops, size_t count) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = &commit;
    commit.producer = f->producer;
    commit.sequence = sequence;
    commit.oldest_unanswered = oldest;
    commit.ops = ops;
    commit.n_ops = count;
    return ask(f, &request);
}

/* Sends a commit with only the operation `op`. Returns the commit's code if it is not OK; otherwise the code of the
 * operation's result. */
static inline Tarry__Code commit(struct fx *f, Tarry__Op *op) {
    f->sequence++;
    Tarry__Code code = commit_as(f, f->sequence, f->sequence, &op, 1);
    return code != TARRY__CODE__OK ? code : f->result;
}

/* Schedules a task. `body` and `when` have the other fields. */
static inline Tarry__Code schedule_as(struct fx *f, const char *queue, Tarry__Schedule *body, Tarry__When *when) {
    Tarry__Op op = TARRY__OP__INIT;
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = body;
    body->queue = (char *)queue;
    body->when = when;
    return commit(f, &op);
}

static inline Tarry__Code schedule(struct fx *f, const char *queue, uint64_t delay_ms) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = delay_ms;
    return schedule_as(f, queue, &body, &when);
}

static inline Tarry__Code get(struct fx *f, uint64_t id, bool with_content) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Get body = TARRY__GET__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    request.body_case = TARRY__REQUEST__BODY_GET;
    request.get = &body;
    body.task = &ref;
    body.with_content = with_content;
    ref.id = id;
    return ask(f, &request);
}

static inline Tarry__Code cancel(struct fx *f, uint64_t id) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Cancel body = TARRY__CANCEL__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    op.op_case = TARRY__OP__OP_CANCEL;
    op.cancel = &body;
    body.task = &ref;
    ref.id = id;
    return commit(f, &op);
}

/* Returns the row of a task in memory. */
static inline const struct row *row_of(const struct fx *f, uint64_t id) {
    const struct task *task = task_find(f->core, id);
    assert_non_null(task);
    return &task->row;
}

/* Returns the token of the task's lease. */
static inline Tarry__Token token_of(const struct row *row) {
    Tarry__Token token = TARRY__TOKEN__INIT;
    token.epoch = row->lease_epoch;
    token.position = row->lease_position;
    return token;
}

/* Acks the task with the token of its lease. */
static inline Tarry__Code ack(struct fx *f, const struct row *row) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Ack body = TARRY__ACK__INIT;
    Tarry__Token token = token_of(row);
    op.op_case = TARRY__OP__OP_ACK;
    op.ack = &body;
    body.id = row->id;
    body.token = &token;
    return commit(f, &op);
}

static inline Tarry__Code purge(struct fx *f) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePurge body = TARRY__QUEUE_PURGE__INIT;
    op.op_case = TARRY__OP__OP_QUEUE_PURGE;
    op.queue_purge = &body;
    body.queue = "orders";
    return commit(f, &op);
}

static inline Tarry__Code subscribe(struct fx *f, Tarry__Subscribe *body) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = body;
    return ask(f, &request);
}

static inline void begin(struct fx *f) {
    struct core_event start = {.kind = CORE_START, .start.epoch = 1};
    f->core = core_new(&f->options);
    assert_non_null(f->core);
    step(f, &start);
    assert_int_equal(hello(f), TARRY__CODE__OK);
    f->sequence = 0;
}

/* Replaces the core by a new one with other options. */
static inline void begin_again(struct fx *f, const struct core_options *options) {
    core_free(f->core);
    f->options = *options;
    f->options.policy = (Tarry__Policy)TARRY__POLICY__INIT;
    f->options.policy.lease_ms = 30000;
    begin(f);
}

static inline int set_up(void **state) {
    struct fx *f = calloc(1, sizeof(*f));
    f->now_ms = NOW_MS;
    arena_init(&f->arena, SIZE_MAX);
    core_effects_init(&f->effects, &f->arena);
    begin_again(f, &defaults);
    *state = f;
    return 0;
}

static inline int tear_down(void **state) {
    struct fx *f = *state;
    core_check(f->core);
    core_free(f->core);
    arena_deinit(&f->arena);
    free(f);
    return 0;
}

static inline void says(const struct fx *f, const char *words) {
    if (strstr(f->message, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", f->message, words);
}

#define CORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
