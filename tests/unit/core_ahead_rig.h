/* core_ahead_rig.h: for tests of leases ahead of time: a core that leases tasks 50 ms before they are due, consumers,
 * and a log that another run can replay. Included once per test. */
#ifndef TARRY_TESTS_CORE_AHEAD_RIG_H
#define TARRY_TESTS_CORE_AHEAD_RIG_H

#include "core_alone.h"

#include "ahead.h"
#include "check.h"
#include "leases.h"
#include "near.h"
#include "state.h"
#include "tarry_limits.h"
#include "wire.h"

#define AHEAD_MS LEASE_AHEAD_MS
#define DELAY_MS 1000u
#define LEASE_MS 30000u

/* ---- the log, for replays */

struct kept {
    struct frame_header header;
    uint8_t *body;
};
static struct kept frames[64];
static size_t frame_count;

static inline void keep_frames(struct fx *f) {
    for (size_t i = 0; i < f->effects.appends.count; i++) {
        const struct core_append *append = &f->effects.appends.items[i];
        assert_true(frame_count < sizeof(frames) / sizeof(frames[0]));
        struct kept *kept = &frames[frame_count++];
        kept->header = (struct frame_header){.type = append->type,
                                             .epoch = append->epoch,
                                             .position = append->position,
                                             .steady_ns = append->now.steady_ns,
                                             .wall_ns = append->now.wall_ns,
                                             .body_size = append->body_size};
        kept->body = malloc(append->body_size + 1);
        assert_non_null(kept->body);
        if (append->body_size > 0) memcpy(kept->body, append->body, append->body_size);
    }
}

static inline void forget_frames(void) {
    while (frame_count > 0) free(frames[--frame_count].body);
}

/* Kills the broker and starts it again: replays the durable frames. */
static inline void restart(struct fx *f, uint32_t epoch) {
    core_free(f->core);
    f->core = core_new(&f->options);
    assert_non_null(f->core);
    size_t count = frame_count;
    for (size_t i = 0; i < count; i++) {
        struct arena arena;
        arena_init(&arena, SIZE_MAX);
        Tarry__FrameBody *body = frame_body_unpack(&arena, frames[i].header.body_size, frames[i].body);
        assert_non_null(body);
        assert_int_equal(core_replay(f->core, &frames[i].header, body), 0);
        arena_deinit(&arena);
    }
    step(f, &(struct core_event){.kind = CORE_START, .start.epoch = epoch});
}

/* Returns the number of frames of the last step, without seals. */
static inline size_t written(const struct fx *f) {
    size_t count = 0;
    for (size_t i = 0; i < f->effects.appends.count; i++) count += f->effects.appends.items[i].type != FRAME_SEAL;
    return count;
}

/* Returns the number of records with this cause in the last step's frames. */
static inline size_t recorded(const struct fx *f, Tarry__Cause cause) {
    size_t count = 0;
    for (size_t i = 0; i < f->effects.appends.count; i++) {
        const struct core_append *append = &f->effects.appends.items[i];
        Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, append->body_size, append->body);
        assert_non_null(body);
        for (size_t k = 0; k < body->n_records; k++) {
            const Tarry__Record *record = body->records[k];
            count += record->fact_case == TARRY__RECORD__FACT_PUT && record->put->cause == cause;
            count += record->fact_case == TARRY__RECORD__FACT_END && record->end->cause == cause;
        }
        tarry__frame_body__free_unpacked(body, NULL);
    }
    return count;
}

/* ---- clients */

static inline int set_up_ahead(void **state) {
    set_up(state);
    struct fx *f = *state;
    struct core_options options = defaults;
    options.ahead_ms = AHEAD_MS;
    begin_again(f, &options);
    f->options.policy.lease_ms = LEASE_MS;
    return 0;
}

static inline int tear_down_ahead(void **state) {
    forget_frames();
    return tear_down(state);
}

#define AHEAD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_ahead, tear_down_ahead)

static inline void lane(struct fx *f, uint64_t session, enum core_event_kind kind, bool ok) {
    struct core_event event = {.kind = kind, .lane.session = session, .lane.ok = ok};
    step(f, &event);
}

static inline uint64_t consume_in_batches(struct fx *f, uint32_t prefetch, uint32_t batch_max) {
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char *queue = "orders";
    body.queues = &queue;
    body.n_queues = 1;
    body.prefetch = prefetch;
    body.max_batch = batch_max;
    assert_int_equal(subscribe(f, &body), TARRY__CODE__OK);
    uint64_t session = f->session;
    lane(f, session, CORE_LANE_UP, false);
    return session;
}

static inline uint64_t consume(struct fx *f, uint32_t prefetch) {
    return consume_in_batches(f, prefetch, 0);
}

static inline void at(struct fx *f, uint64_t now_ms) {
    f->now_ms = now_ms;
    step(f, &(struct core_event){.kind = CORE_TICK});
}

static inline size_t delivered(const struct fx *f) {
    size_t count = 0;
    for (size_t i = 0; i < f->effects.deliveries.count; i++) count += f->effects.deliveries.items[i].count;
    return count;
}

static inline const struct core_delivery *delivery(const struct fx *f) {
    assert_int_equal(f->effects.deliveries.count, 1);
    return &f->effects.deliveries.items[0];
}

static inline void schedule_first(struct fx *f, const char *queue, uint32_t priority, uint64_t delay_ms) {
    Tarry__Schedule body = TARRY__SCHEDULE__INIT;
    Tarry__When when = TARRY__WHEN__INIT;
    body.priority = priority;
    when.ms = delay_ms;
    assert_int_equal(schedule_as(f, queue, &body, &when), TARRY__CODE__OK);
}

/* Acks the session's tasks, except the task with the id `but` and tasks whose delivery is in flight. */
static inline void ack_held(struct fx *f, uint64_t id, uint64_t but) {
    struct session *session = session_find(f->core, id);
    static struct row rows[1024];
    size_t count = 0;
    const struct task *task = NULL;
    TAILQ_FOREACH(task, &session->leases, member) {
        bool is_under_way =
            session->sending &&
            (session->sending_departed ? task->departing : task->row.lease_position == session->sending_position);
        if (count < 1024 && task->row.id != but && !is_under_way) rows[count++] = task->row;
    }
    for (size_t i = 0; i < count; i++) assert_int_equal(ack(f, &rows[i]), TARRY__CODE__OK);
}

static inline void ack_all(struct fx *f, uint64_t id, uint64_t but) {
    if (session_find(f->core, id)->sending) lane(f, id, CORE_LANE_SENT, true);
    ack_held(f, id, but);
}

/* Schedules a task that is due in a second, and waits until it is leased ahead of time. Returns its due time. */
static inline uint64_t lease_ahead(struct fx *f) {
    assert_int_equal(schedule(f, "orders", DELAY_MS), TARRY__CODE__OK);
    uint64_t due_ms = f->now_ms + DELAY_MS;
    at(f, due_ms - AHEAD_MS - 1);
    assert_int_equal(written(f), 0);
    at(f, due_ms - AHEAD_MS);
    assert_int_equal(recorded(f, TARRY__CAUSE__CAUSE_LEASED), 1);
    assert_int_equal(delivered(f), 0);
    return due_ms;
}

static inline struct queue *orders(struct fx *f) {
    for (uint32_t i = 1; i <= QUEUE_PLACES; i++)
        if (strcmp(f->core->queues[i].name, "orders") == 0) return &f->core->queues[i];
    fail();
    return NULL;
}

#endif
