/* history.c: see history.h. */
#include "history.h"

#include "../must.h"
#include "faults.h"
#include "laws.h"
#include "model_disk.h"
#include "ops.h"

#ifdef TARRY_SEEDED_BUGS
#define CALM_ROUNDS_MAX 100 /* maximum number of rounds of the calm phase; a history that needs more has failed */
#else
/* Maximum number of consecutive rounds of the calm phase that end with no fewer live tasks. A round takes at least 2 s.
 */
#define CALM_ROUNDS_MAX 600
#endif
#define SEAL_ROUNDS_MAX 40   /* maximum number of rounds of 250 ms until the last frame is a seal frame */
#define ERASE_ROUNDS_MAX 400 /* maximum number of rounds of 250 ms until the redacted contents are erased */
/* Segment size of a long history in bytes: large, because the virtual disk has space for some hundred files only. */
#define LONG_SEGMENT_SIZE (16u << 10)
#define SECOND_NS (1000 * NS_PER_MS)

const char *const history_names[] = {"anna", "bert", "carl", "dora", "emil", "frida"};

bool history_leases_ahead = true;

static struct span draw_span(struct random *random, unsigned bits) {
    return (struct span){(uint32_t)random_magnitude(random, bits) / 2, (uint32_t)random_magnitude(random, bits)};
}

struct world_options history_draw_options(uint64_t seed, struct random *random) {
    struct world_options options = world_options_default();
    options.seed = seed;
    options.by_hand = false;
    options.net = draw_span(random, 15);
    options.sync = draw_span(random, 16);
    options.index = draw_span(random, 20);
    options.read = draw_span(random, 15);
    options.wake = draw_span(random, 9);
    options.retry =
        (struct span){100000 + 4 * (options.net.least_us + options.net.spread_us + options.sync.spread_us), 100000};
    options.segment_size = 1024u << random_below(random, 5);
    if (random_below(random, 3) == 0) options.retain_size = 4096u << random_below(random, 5);
    options.archives = seed % 3 == 1;
    options.archive_comes_and_goes = seed % 2 == 1;
    options.filters = seed % 5 < 3;
    static const uint64_t spans_ms[] = {LEASE_AHEAD_MS, 100, 500, 2000,
                                        8000}; /* how far ahead tasks are leased, in ms: as in tarryd, and larger
                                                  values, with which leases ahead meet slow disks more often */
    options.core.ahead_ms = history_leases_ahead ? spans_ms[seed % 5] : 0;
    if (random_below(random, 2))
        options.core.near_max =
            4 + random_below(random, 12); /* in half of the histories, memory has space for only a few tasks */
    if (seed % 4 == 2)
        options.core.work_max = 1 + (uint32_t)(seed / 4 % 6); /* in some histories, a step may do only little work */
    if (random_below(random, 8) == 0) options.core.index_lag_max = 8 + random_below(random, 32);
    if (options.core.index_lag_max) options.core.index_lag_hard = options.core.index_lag_max * 2;
    if (random_below(random, 8) == 0) options.core.outcomes_max = 1 + (uint32_t)random_below(random, 16);
    if (random_below(random, 8) == 0) options.core.outcome_retention_ms = 1u << random_below(random, 20);
    return options;
}

/* ---- the calm */

static bool is_settled(const struct world *world) {
    if (core_live(world->host->core)) return false;
    for (size_t i = 0; i < world->client_count; i++) {
        for (size_t k = 0; k < world->clients[i]->open_count; k++) {
            if (world->clients[i]->open[k]->body->body_case == TARRY__REQUEST__BODY_COMMIT) return false;
        }
    }
    return true;
}

/* Returns the time in ms until the next task is due or the next lease ends; UINT64_MAX: no such time. If the wall clock
 * was set back, the broker's wall time stands still until the wall clock has caught up. So a wall-clock task may wait
 * much longer than its due time suggests. */
static uint64_t next_due_ms(struct world *world) {
    const struct flat *head = &world->host->head;
    struct instant now = host_now(world);
    uint64_t real_ns = world_real_ns(world);
    uint64_t behind_ms = now.wall_ns > real_ns ? (now.wall_ns - real_ns) / NS_PER_MS : 0;
    uint64_t next_ms = UINT64_MAX;
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct row *row = &head->tasks[id].row;
        if (head->tasks[id].ended || row->state == ROW_BURIED) continue;
        bool is_leased = row->state == ROW_LEASED, is_wall = row->base == ROW_WALL && !is_leased;
        uint64_t now_ms = (is_wall ? now.wall_ns : now.steady_ns) / NS_PER_MS;
        uint64_t at_ms = is_leased ? row->lease_deadline_ms : row->due_ms;
        uint64_t ahead_ms = at_ms > now_ms ? at_ms - now_ms + (is_wall ? behind_ms : 0) : 0;
        if (ahead_ms < next_ms) next_ms = ahead_ms;
    }
    return next_ms;
}

/* Advances the world to the next event, however far away, because nothing happens before it. */
static void skip_idle_time(struct world *world) {
    uint64_t ahead_ms = next_due_ms(world);
    if (ahead_ms != UINT64_MAX && ahead_ms > 4000) world_suspend(world, ahead_ms - 1000);
}

static void keep_going(struct world *world, const struct habits *habits) {
    for (size_t i = 0; i < world->client_count; i++) {
        struct client *client = world->clients[i];
        client_return(client);
        client->deaf = client->silent = client->stalled = false;
        habits_ack_all(client);
        /* Subscribes with the largest prefetch of all earlier subscriptions, because an older one that is in flight may
         * still take effect. */
        if (!client->session) client_subscribe(client, habits_queues(habits), world->options.core.ahead_ms ? 32 : 8, 0);
    }
    if (habits->groups) habits_calm_groups(world->clients[0]);
    for (uint32_t i = 1; i < FLAT_QUEUES_MAX; i++) { /* a request sent before the calm phase may still pause a queue */
        const Tarry__QueuePut *queue = &world->host->head.queues[i].put;
        if (!queue->number || queue->deleted) continue;
        if (queue->paused) (void)client_commit_one(world->clients[0], op_pause(world, queue->name, false, 0));
        if (queue->policy->rate ||
            queue->policy->max_in_flight) /* removes the limits of deliveries, as an operator would */
            (void)client_commit_one(world->clients[0], op_queue_limits(world, queue->name, 0, 0, 0));
        if (strncmp(queue->name, "topic:", 6) == 0 &&
            !queue->policy->filter[0]) { /* the queue is no group at present, so it may have tasks of its own */
            (void)client_commit_one(world->clients[0], op_purge(world, queue->name, STATE_PENDING | STATE_READY));
            (void)client_commit_one(world->clients[0], op_dead(world, TARRY__DEAD_OP__WHAT__DROP,
                                                               op_ref(world, queue->name, NULL, 0), true));
        }
        if (habits_is_lone(queue->name))
            (void)client_commit_one(world->clients[0], op_purge(world, queue->name, STATE_PENDING | STATE_READY));
    }
}

/* Prints the last lines of the trace if the calm phase makes no progress. */
static void tell_what_is_left(struct world *world) {
    const struct flat *head = &world->host->head;
    struct instant now = host_now(world);
    TRACE(world, "calm", "does not come: steady %llu ms, wall %llu ms%s", (unsigned long long)now.steady_ns / NS_PER_MS,
          (unsigned long long)now.wall_ns / NS_PER_MS, world->host->clock.held ? ", held" : "");
    for (uint64_t id = 1; id < head->next_id; id++) {
        const struct row *row = &head->tasks[id].row;
        if (head->tasks[id].ended || row->state == ROW_BURIED) continue;
        TRACE(world, "calm", "task %llu is %s, due %llu, base %u, queue %u, priority %u, expires %llu",
              (unsigned long long)id, row->state == ROW_LEASED ? "leased" : "waiting", (unsigned long long)row->due_ms,
              row->base, row->queue, row->priority, (unsigned long long)row->expires_ms);
    }
    for (size_t i = 0; i < world->client_count; i++) {
        const struct client *client = world->clients[i];
        TRACE(world, "calm", "%s: %s, session %llx, %zu without answer", client->name, client->up ? "up" : "down",
              (unsigned long long)client->session, client->open_count);
    }
}

void history_settle(struct world *world, const struct habits *habits) {
    if (habits->one_line)
        world->options.read = world_options_default().read; /* uses the default read time, because a read returns two
                                                               tasks, so slow reads would take too long */
    uint64_t fewest = UINT64_MAX;
    for (int round = 0, shrank = 0; !is_settled(world); round++) {
        if (core_live(world->host->core) < fewest) {
            fewest = core_live(world->host->core);
            shrank = round;
        }
        if (round - shrank == CALM_ROUNDS_MAX) tell_what_is_left(world);
        MUST(round - shrank < CALM_ROUNDS_MAX); /* the calm phase must make progress within CALM_ROUNDS_MAX rounds */
        keep_going(world, habits);
        world_run_until(world, world->now_ns + 2 * SECOND_NS);
        MUST(world->host->state == HOST_UP);
        if (round > 2) skip_idle_time(world);
    }
}

static void calm_down(struct world *world, struct faults *faults, struct habits *habits) {
    TRACE(world, "calm", "everything is put right");
    habits->over = true;
    faults_end(world, faults);
    history_settle(world, habits);
    laws_of_recurs(&world->host->head, host_now(world).wall_ns / NS_PER_MS);
}

/* ---- */

/* LOG-5: waits until the last frame is a seal frame, which says that everything before it is durable. */
static void wait_for_seal(struct world *world) {
    const struct host *host = world->host;
    for (int i = 0;; i++) {
        const struct frame_note *last = &host->frames[host->frame_count - 1];
        if (last->header.type == FRAME_SEAL && last->synced_to == last->header.position) return;
        MUST(i < SEAL_ROUNDS_MAX);
        world_run_until(world, world->now_ns + SECOND_NS / 4);
    }
}

/* Waits until all redacted contents are erased, after the faults that prevent it are repaired. */
void history_erase(struct world *world) {
    const struct host *host = world->host;
    uint32_t place = world->place;
    for (int i = 0; host->table.redaction_count; i++) {
        MUST(i < ERASE_ROUNDS_MAX);
        world_run_until(world, world->now_ns + SECOND_NS / 4);
    }
    world_enter(world, place);
}

void history_check(struct world *world) {
    struct host *host = world->host;
    ledger_check(world);
    core_check(host->core);
    host_index_now(world);
    history_erase(world);
    host_check_log(world);
    MUST(flat_digest(&host->head) == core_digest(host->core));
    wait_for_seal(world);
}

static void check_end(struct world *world) {
    struct host *host = world->host;
    history_check(world);
    host_stop(world); /* a stop seals the log, and the next start must find the same state */
    MUST(host->state == HOST_DOWN);
    size_t frames = host->frame_count;
    MUST(host_start(world, false));
    MUST(host->frame_count == frames + 1); /* the start has appended one frame only, that of the new epoch */
}

uint64_t history_fingerprint(const struct world *world) {
    const struct host *host = world->host;
    uint64_t all[] = {world->random.state,      world->now_ns,     world->timeline.order,
                      world->ledger.answers,    host->disk->seed,  host->disk->calls,
                      host->head.position,      host->head.digest, host->steps,
                      host->clock.now.steady_ns};
    return frame_sum(all, sizeof all);
}

void history_live(struct world *world, uint64_t seed, struct history_report *out) {
    struct random random = {.state = seed ^ 0x7461727279u};
    struct world_options options = history_draw_options(seed, &random);
    struct habits drawn;
    struct faults drawn_faults;
    habits_draw(&random, &drawn);
    if (drawn.one_line) { /* with all tasks in one line, windows are read slowly while memory is almost full */
        options.core.near_max = 4 + random_below(&random, 4);
        options.read = draw_span(&random, 21);
        options.index = draw_span(&random, 12);
    }
    faults_draw(&random, &drawn_faults);
    options.core.queues_max = habits_places(&drawn);
    bool is_long = drawn.actions_left > 300; /* a long history has 16 times as many actions as others (habits_draw) */
    if (is_long && options.segment_size < LONG_SEGMENT_SIZE) options.segment_size = LONG_SEGMENT_SIZE;
    world_begin(world, &options);
    /* Copies the habits, because the clients use them as long as the world exists. */
    struct habits *habits = world_copy(world, &drawn, sizeof drawn);
    struct faults *faults = world_copy(world, &drawn_faults, sizeof drawn_faults);
    MUST(host_start(world, false));
    size_t count = 1 + random_below(&random, 4);
    for (size_t i = 0; i < count; i++) {
        bool is_consumer = i == 0 || random_below(&random, 2);
        habits_start(client_new(world, history_names[i]), habits, is_consumer);
    }
    habits_start_mover(world, habits);
    faults_start(world, faults);
    while (habits->actions_left && world_step(world)) {
    }
    calm_down(world, faults, habits);
    check_end(world);
    *out = (struct history_report){
        .simulated_ns = world->now_ns,
        .requests = world->ledger.requests,
        .deliveries = world->ledger.deliveries,
        .starts = world->host->starts,
        .refusals = world->host->refusals,
        .frames = world->host->frame_count,
        .fingerprint = history_fingerprint(world),
    };
    for (size_t i = 0; i < FAULTS; i++) out->faults += faults->counts[i];
}

/* This test covers these faults and promises of tests/FAULTS.md: F-1, F-2, F-3, F-4, F-5, F-6, F-7, F-9, F-10, F-15,
 * F-16, F-17, F-19, F-22, F-32, F-34; LOG-1, LOG-2, LOG-3, LOG-4, LOG-5, TIME-1, TIME-2, KEEP-1, ONCE-1, TRUE-1,
 * FENCE-1, CAP-1, CALM-1, GROUP-1. */
void history_play(struct world *world, uint64_t seed, struct history_report *out) {
    history_live(world, seed, out);
    world_end(world);
}
