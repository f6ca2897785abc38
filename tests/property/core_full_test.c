/* core_full_test.c: when the core's memory is full, every event still finds the memory that it needs (CAP-1,
 * CALM-1). Events that may be refused are refused as BUSY; events that must happen (timers, lost consumers, acks, a
 * restart, a follower's frames) need no free memory. broker/core/need.h lists what each event may need, and
 * core_step asserts it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core_full_rig.h"
#include "state.h"
#include "tasks.h"

#define OPS_AT_ONCE 500
#define ROUNDS 12
#ifdef __SANITIZE_ADDRESS__
#define EVENTS_STRIDE 2
#else
#define EVENTS_STRIDE 1
#endif

static struct ops {
    Tarry__Op ops[OPS_AT_ONCE];
    Tarry__Op *list[OPS_AT_ONCE];
    union {
        Tarry__Schedule schedule;
        Tarry__Cancel cancel;
        Tarry__Move move;
        Tarry__Ack ack;
        Tarry__Nack nack;
        Tarry__Extend extend;
        Tarry__Release release;
        Tarry__DeadOp dead;
    } bodies[OPS_AT_ONCE];
    Tarry__When whens[OPS_AT_ONCE];
    Tarry__Ref refs[OPS_AT_ONCE];
    char texts[OPS_AT_ONCE][256];
} ops;

static char orders[] = "orders";

static Tarry__Op *new_op(size_t i, Tarry__Op__OpCase op_case) {
    ops.ops[i] = (Tarry__Op)TARRY__OP__INIT;
    ops.ops[i].op_case = op_case;
    ops.list[i] = &ops.ops[i];
    ops.refs[i] = (Tarry__Ref)TARRY__REF__INIT;
    ops.whens[i] = (Tarry__When)TARRY__WHEN__INIT;
    return &ops.ops[i];
}

static void op_schedule(struct rig *rig, size_t i, uint64_t delay_ms) {
    static uint64_t serial;
    Tarry__Op *op = new_op(i, TARRY__OP__OP_SCHEDULE);
    Tarry__Schedule *body = op->schedule = &ops.bodies[i].schedule;
    *body = (Tarry__Schedule)TARRY__SCHEDULE__INIT;
    body->queue = orders;
    body->when = &ops.whens[i];
    body->when->ms = delay_ms;
    size_t size = rig->key_size == RIG_ANY ? random_below(&rig->random, KEY_SIZE_MAX + 1) : rig->key_size;
    if (size < 12) return; /* a size below 12 means that the task has no key */
    memset(ops.texts[i], 'k', size);
    snprintf(ops.texts[i], 13, "%012llu", (unsigned long long)++serial);
    ops.texts[i][12] = 'k';
    body->key = (ProtobufCBinaryData){size, (uint8_t *)ops.texts[i]};
}

static Tarry__Code schedule_some(struct rig *rig, size_t count, uint64_t delay_ms) {
    for (size_t i = 0; i < count; i++) op_schedule(rig, i, delay_ms);
    return rig_commit(rig, ops.list, count);
}

static uint64_t any_id(struct rig *rig) {
    return 1 + random_below(&rig->random, core_id_end(rig->core));
}

static void op_cancel(size_t i, uint64_t id) {
    Tarry__Op *op = new_op(i, TARRY__OP__OP_CANCEL);
    op->cancel = &ops.bodies[i].cancel;
    *op->cancel = (Tarry__Cancel)TARRY__CANCEL__INIT;
    op->cancel->task = &ops.refs[i];
    ops.refs[i].id = id;
}

static void op_move(size_t i, uint64_t id, uint64_t delay_ms) {
    Tarry__Op *op = new_op(i, TARRY__OP__OP_MOVE);
    op->move = &ops.bodies[i].move;
    *op->move = (Tarry__Move)TARRY__MOVE__INIT;
    op->move->task = &ops.refs[i];
    op->move->when = &ops.whens[i];
    ops.whens[i].ms = delay_ms;
    ops.refs[i].id = id;
}

/* The reasons have random sizes, because each size class may need its own memory page. */
static void op_nack(struct rig *rig, size_t i, struct rig_lease *lease) {
    Tarry__Op *op = new_op(i, TARRY__OP__OP_NACK);
    op->nack = &ops.bodies[i].nack;
    *op->nack = (Tarry__Nack)TARRY__NACK__INIT;
    op->nack->id = lease->id;
    op->nack->token = &lease->token;
    op->nack->dead = true;
    op->nack->reason = ops.texts[i];
    size_t size = random_below(&rig->random, REASON_SIZE_MAX + 1);
    memset(ops.texts[i], 'r', size);
    ops.texts[i][size] = 0;
}

static void op_ack(size_t i, struct rig_lease *lease) {
    Tarry__Op *op = new_op(i, TARRY__OP__OP_ACK);
    op->ack = &ops.bodies[i].ack;
    *op->ack = (Tarry__Ack)TARRY__ACK__INIT;
    op->ack->id = lease->id;
    op->ack->token = &lease->token;
}

static void op_extend(size_t i, struct rig_lease *lease) {
    Tarry__Op *op = new_op(i, TARRY__OP__OP_EXTEND);
    op->extend = &ops.bodies[i].extend;
    *op->extend = (Tarry__Extend)TARRY__EXTEND__INIT;
    op->extend->id = lease->id;
    op->extend->token = &lease->token;
}

static void op_release(size_t i, struct rig_lease *lease) {
    Tarry__Op *op = new_op(i, TARRY__OP__OP_RELEASE);
    op->release = &ops.bodies[i].release;
    *op->release = (Tarry__Release)TARRY__RELEASE__INIT;
    op->release->id = lease->id;
    op->release->token = &lease->token;
}

/* ---- ways to fill memory */

/* Schedules until not even one more task fits. */
static void fill_up(struct rig *rig, uint64_t delay_ms) {
    for (size_t count = OPS_AT_ONCE; count > 0; count /= 4) {
        while (schedule_some(rig, count, delay_ms) == TARRY__CODE__OK) rig_sent(rig, true);
    }
}

static void listen(struct rig *rig) {
    for (size_t i = 0; i < RIG_SESSIONS; i++) rig_subscribe(rig, i);
}

static void fill_with_pending(struct rig *rig) {
    fill_up(rig, 3000000);
}

static void fill_with_ready(struct rig *rig) {
    fill_up(rig, 0);
}

static void fill_with_leases(struct rig *rig) {
    listen(rig);
    fill_up(rig, 0);
}

static void fill_with_endings(struct rig *rig) {
    while (schedule_some(rig, OPS_AT_ONCE, 3000000) == TARRY__CODE__OK) {
        for (size_t i = 0; i < OPS_AT_ONCE; i++) op_cancel(i, core_id_end(rig->core) - 1 - i);
        assert_int_equal(rig_commit(rig, ops.list, OPS_AT_ONCE), TARRY__CODE__OK);
    }
    fill_up(rig, 3000000);
}

/* Nacks the latest leases: they become dead letters with reasons, as many as fit. */
static Tarry__Code nack_some(struct rig *rig, size_t count) {
    size_t some = rig->lease_count < count ? rig->lease_count : count;
    for (size_t i = 0; i < some; i++) op_nack(rig, i, &rig->leases[rig->lease_count - 1 - i]);
    Tarry__Code code = some > 0 ? rig_commit(rig, ops.list, some) : TARRY__CODE__BUSY;
    if (code == TARRY__CODE__OK) rig->lease_count -= some;
    return code;
}

static void fill_with_sentences(struct rig *rig) {
    listen(rig);
    while (schedule_some(rig, OPS_AT_ONCE, 0) == TARRY__CODE__OK) {
        rig_sent(rig, true);
        nack_some(rig, OPS_AT_ONCE / 2);
        rig_sent(rig, true);
    }
    fill_up(rig, 0);
}

/* ---- events on a full memory */

static void leases_are_lost(struct rig *rig) {
    rig_elapse_ms(rig, 6000);
}

static void sessions_fall_silent(struct rig *rig) {
    rig_elapse_ms(rig, SESSION_SILENCE_MS + 1000);
}

static void nothing_is_sent(struct rig *rig) {
    rig_sent(rig, false);
}

static void pipes_break(struct rig *rig) {
    for (size_t i = 0; i < RIG_SESSIONS; i++) {
        struct core_event gone = {.kind = CORE_LANE_GONE, .lane.session = rig->sessions[i]};
        if (rig->sessions[i] != 0) rig_step(rig, &gone);
    }
    rig_sent(rig, false);
}

static void consumers_leave(struct rig *rig) {
    for (size_t i = 0; i < RIG_SESSIONS; i++) {
        if (rig->sessions[i] == 0) continue;
        Tarry__Request request = TARRY__REQUEST__INIT;
        Tarry__Unsubscribe body = TARRY__UNSUBSCRIBE__INIT;
        uint64_t seen[16];
        request.body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
        request.unsubscribe = &body;
        body.session = rig->sessions[i];
        body.seen = seen;
        for (; body.n_seen < 16; body.n_seen++) seen[body.n_seen] = any_id(rig);
        body.keep_leases = random_below(&rig->random, 2);
        assert_int_equal(rig_ask(rig, &request), TARRY__CODE__OK);
    }
}

static void consumers_come(struct rig *rig) {
    listen(rig);
    rig_sent(rig, true);
}

/* CAP-1: acks, extensions and releases of leased tasks always find memory. (Not always for leases that have ended.) */
static void settle(struct rig *rig) {
    size_t count = rig->lease_count < 100 ? rig->lease_count : 100;
    size_t kind = random_below(&rig->random, 3);
    for (size_t i = 0; i < count; i++) {
        struct rig_lease *lease = &rig->leases[rig->lease_count - 1 - i];
        if (kind == 0) op_ack(i, lease);
        if (kind == 1) op_extend(i, lease);
        if (kind == 2) op_release(i, lease);
    }
    if (count > 0 && rig_commit(rig, ops.list, count) != TARRY__CODE__OK) assert_true(rig->absorbed > 0);
    if (kind != 1) rig->lease_count -= count;
}

static void nacks_until_refused(struct rig *rig) {
    while (nack_some(rig, 1 + random_below(&rig->random, 20)) == TARRY__CODE__OK) continue;
}

static void cancels_and_moves(struct rig *rig) {
    for (size_t i = 0; i < OPS_AT_ONCE; i++) {
        if (i % 2 == 0) op_cancel(i, any_id(rig));
        if (i % 2 == 1) op_move(i, any_id(rig), random_below(&rig->random, 100000));
    }
    rig_commit(rig, ops.list, OPS_AT_ONCE);
}

static void schedules(struct rig *rig) {
    for (size_t i = 0; i < 20; i++) schedule_some(rig, 1 + random_below(&rig->random, 50), 1000);
}

static void questions(struct rig *rig) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    Tarry__List list = TARRY__LIST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    request.body_case = TARRY__REQUEST__BODY_GET;
    request.get = &get;
    get.task = &ref;
    for (size_t i = 0; i < 50; i++) {
        ref.id = any_id(rig);
        rig_ask(rig, &request);
    }
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = &list;
    list.queue = orders;
    assert_int_equal(rig_ask(rig, &request), TARRY__CODE__OK);
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    assert_int_equal(rig_ask(rig, &request), TARRY__CODE__OK);
}

static void a_purge_or_requeue(struct rig *rig) {
    Tarry__QueuePurge purge = TARRY__QUEUE_PURGE__INIT;
    size_t kind = random_below(&rig->random, 3);
    Tarry__Op *op = new_op(0, kind == 0 ? TARRY__OP__OP_QUEUE_PURGE : TARRY__OP__OP_DEAD);
    if (kind == 0) {
        op->queue_purge = &purge;
        purge.queue = orders;
    } else {
        op->dead = &ops.bodies[0].dead;
        *op->dead = (Tarry__DeadOp)TARRY__DEAD_OP__INIT;
        op->dead->all = true;
        op->dead->what = kind == 1 ? TARRY__DEAD_OP__WHAT__REQUEUE : TARRY__DEAD_OP__WHAT__DROP;
        op->dead->task = &ops.refs[0];
        ops.refs[0].queue = orders;
    }
    rig_commit(rig, ops.list, 1);
}

static void a_pause(struct rig *rig) {
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    Tarry__Op *op = new_op(0, TARRY__OP__OP_QUEUE_PAUSE);
    op->queue_pause = &pause;
    pause.queue = orders;
    pause.paused = true;
    pause.for_ms = 500;
    rig_commit(rig, ops.list, 1);
    rig_elapse_ms(rig, 600);
}

static void the_index_goes_on(struct rig *rig) {
    rig_absorb(rig, random_below(&rig->random, rig->frame_count - rig->absorbed + 1));
    rig_answer(rig);
}

static void it_is_killed(struct rig *rig) {
    rig_restart(rig);
    if (random_below(&rig->random, 2)) rig_elapse_ms(rig, CLAIM_AFTER_START_MS + 1);
}

static void (*const events[])(struct rig *rig) = {
    leases_are_lost, sessions_fall_silent, nothing_is_sent,   pipes_break,  consumers_leave, consumers_come,
    settle,          nacks_until_refused,  cancels_and_moves, schedules,    questions,       a_purge_or_requeue,
    a_pause,         rig_answer,           the_index_goes_on, it_is_killed,
};
#define EVENTS (sizeof(events) / sizeof(*events))

struct counts { /* numbers of tasks in one run */
    uint64_t buried;
    uint64_t given_back;
};

/* Plays random histories, and begins one with each kind of event. The slow build begins only with every other kind. */
static struct counts play(void (*fill)(struct rig *rig), uint64_t seed) {
    struct counts counts = {0};
    static const size_t key_sizes[] = {0, 40, KEY_SIZE_MAX, RIG_ANY};
    for (size_t first = seed % EVENTS_STRIDE; first < EVENTS; first += EVENTS_STRIDE) {
        struct rig rig;
        rig_init(&rig, seed + first, key_sizes[first % 4]);
        fill(&rig);
        if (first % 2 == 0) nacks_until_refused(&rig); /* uses the memory that is reserved for settling leases, too */
        events[first](&rig);
        core_check(rig.core);
        for (unsigned round = 0; round < ROUNDS; round++) events[random_below(&rig.random, EVENTS)](&rig);
        rig_follow(&rig);
        counts.buried += rig.buried;
        counts.given_back += rig.given_back;
        rig_deinit(&rig);
    }
    return counts;
}

static void full_of_pending_tasks(void **state) {
    (void)state;
    play(fill_with_pending, random_seed(7));
}
static void full_of_ready_tasks(void **state) {
    (void)state;
    play(fill_with_ready, random_seed(8));
}
static void full_of_leases(void **state) { /* CAP-1 */
    (void)state;
    struct counts counts = play(fill_with_leases, random_seed(9));
    assert_true(counts.buried > 1000 / EVENTS_STRIDE && counts.given_back > 1000 / EVENTS_STRIDE);
}
static void full_of_endings(void **state) {
    (void)state;
    play(fill_with_endings, random_seed(10));
}
static void full_of_sentences(void **state) { /* CAP-1 */
    (void)state;
    struct counts counts = play(fill_with_sentences, random_seed(11));
    assert_true(counts.buried > 1000 / EVENTS_STRIDE);
}

/* Settling leases uses reserved memory. New tasks never take this reserve, even if memory is full. */
static void what_settles_finds_the_reserve(void **state) { /* CAP-1 */
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct rig rig;
        rig_init(&rig, random_seed(12) + seed, seed % 2 == 0 ? KEY_SIZE_MAX : RIG_ANY);
        fill_with_leases(&rig);
        while (schedule_some(&rig, 1, 0) == TARRY__CODE__OK) continue;
        assert_true(rig.lease_count >= OPS_AT_ONCE);
        assert_int_equal(nack_some(&rig, OPS_AT_ONCE), TARRY__CODE__OK);
        rig_deinit(&rig);
    }
}

static size_t count_first(const struct rig *rig, size_t count) {
    size_t there = 0;
    for (size_t id = 1; id <= count && id < rig->row_capacity; id++) there += rig->rows[id].id != 0;
    return there;
}

/* A purge needs memory for the rows that it reads from the index. If that memory is used up after it asked for the
 * rows, the purge waits. */
static void a_purge_waits_for_room(void **state) { /* CAP-1 */
    (void)state;
    enum { COUNT = 20 * OPS_AT_ONCE };
    struct rig rig;
    rig_init(&rig, random_seed(14), KEY_SIZE_MAX);
    for (size_t i = 0; i < COUNT; i += OPS_AT_ONCE)
        assert_int_equal(schedule_some(&rig, OPS_AT_ONCE, 3000000), TARRY__CODE__OK);
    Tarry__QueuePurge purge = TARRY__QUEUE_PURGE__INIT;
    purge.queue = orders;
    new_op(0, TARRY__OP__OP_QUEUE_PURGE)->queue_purge = &purge;
    assert_int_equal(rig_commit(&rig, ops.list, 1), TARRY__CODE__OK);
    rig_absorb(&rig, rig.frame_count - rig.absorbed);
    rig_tick(&rig);
    assert_int_equal(rig.page_count, 1);
    fill_up(&rig, 3000000); /* tasks that are only in the index need no memory, so new tasks fit */
    rig_answer(&rig);
    core_check(rig.core);
    assert_int_equal(count_first(&rig, COUNT), COUNT);
    assert_int_equal(rig.page_count, 0); /* the core does not request another page, because that would not help */
    for (int i = 0; i < 100 && count_first(&rig, COUNT) > 0; i++) {
        rig_absorb(&rig, rig.frame_count - rig.absorbed); /* the index absorbs all frames */
        rig_tick(&rig);
        rig_answer(&rig);
    }
    assert_int_equal(count_first(&rig, COUNT), 0);
    rig_deinit(&rig);
}

/* A query may find that a task has expired. The core must then record the task's end, which needs memory; until memory
 * is free, the query waits. */
static void a_question_waits_for_room(void **state) { /* CAP-1 */
    (void)state;
    struct rig rig;
    rig_init(&rig, random_seed(15), 40);
    op_schedule(&rig, 0, 100);
    ops.bodies[0].schedule.expires_ms = 100;
    assert_int_equal(rig_commit(&rig, ops.list, 1), TARRY__CODE__OK);
    const uint64_t id = core_id_end(rig.core) - 1;
    fill_with_leases(&rig);
    rig_absorb(&rig, rig.frame_count - rig.absorbed);
    rig_restart(&rig); /* after this restart, the core has only the leased tasks in memory */
    rig_elapse_ms(&rig, 1000);
    fill_up(&rig, 3000000);
    nacks_until_refused(&rig);
    while (nack_some(&rig, 1) == TARRY__CODE__OK) continue;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    request.body_case = TARRY__REQUEST__BODY_GET;
    request.get = &get;
    get.task = &ref;
    ref.id = id;
    assert_int_equal(rig_ask(&rig, &request), TARRY__CODE__BUSY);
    rig_absorb(&rig, rig.frame_count - rig.absorbed);
    rig_answer(&rig); /* while the query waits, the index keeps the rows for its answer */
    for (int i = 0; i < 1000 && rig_ask(&rig, &request) == TARRY__CODE__BUSY; i++) rig_tick(&rig);
    assert_int_equal(rig.code, TARRY__CODE__OK);
    rig_deinit(&rig);
}

/* Only acks free leased tasks, so leases never take all of the memory. */
static void leases_leave_half_of_the_memory(void **state) { /* CAP-1 */
    (void)state;
    struct rig rig;
    rig_init(&rig, random_seed(13), KEY_SIZE_MAX);
    fill_with_leases(&rig);
    size_t bytes = rig.lease_count * task_size(KEY_SIZE_MAX, 0);
    assert_true(bytes <= RIG_MEMORY / LEASES_SHARE && bytes > RIG_MEMORY / LEASES_SHARE - RIG_MEMORY / 16);
    rig_deinit(&rig);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_of_pending_tasks),
        cmocka_unit_test(full_of_ready_tasks),
        cmocka_unit_test(full_of_leases),
        cmocka_unit_test(full_of_endings),
        cmocka_unit_test(full_of_sentences),
        cmocka_unit_test(what_settles_finds_the_reserve),
        cmocka_unit_test(a_purge_waits_for_room),
        cmocka_unit_test(a_question_waits_for_room),
        cmocka_unit_test(leases_leave_half_of_the_memory),
    };
    return cmocka_run_group_tests_name("core_full", tests, NULL, NULL);
}
