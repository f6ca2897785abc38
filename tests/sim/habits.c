/* habits.c: see habits.h. */
#include "habits.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../must.h"
#include "ops.h"

#define KEYS 6
#define POOL_MAX 8u /* maximum number of consumers that share one session */

const char *const habit_queues[HABIT_QUEUES + 1] = {"orders", "calls", "mail"};

#define TOPIC "topic"
static const char *const group_queues[HABIT_GROUPS] = {"topic:a", "topic:b", "topic:c"};
static const char *const queues_and_groups[HABIT_QUEUES + HABIT_GROUPS + 1] = {"orders",  "calls",   "mail",
                                                                               "topic:a", "topic:b", "topic:c"};

static const char *const lone_queues[LONE_QUEUES] = {"lone-1", "lone-2", "lone-3", "lone-4", "lone-5", "lone-6"};

const char *const *habits_queues(const struct habits *habits) {
    return habits->groups ? queues_and_groups : habit_queues;
}

uint32_t habits_places(const struct habits *habits) {
    return habits->deletes ? HABIT_QUEUES + LONE_QUEUES / 2 : 0;
}

bool habits_is_lone(const char *queue) {
    return strncmp(queue, "lone-", 5) == 0;
}

static bool coin(struct random *random) {
    return random_below(random, 2) == 0;
}

void habits_draw(struct random *random, struct habits *out) {
    *out = (struct habits){
        .think_us = 1000u << random_below(random, 8),
        .delay_bits = 4 + (uint32_t)random_below(random, 14),
        .work_ms = 1u << random_below(random, 9),
        .open_max = 1 + (uint32_t)random_below(random, 8),
        .keys = 1 + (uint32_t)random_below(random, KEYS),
        .actions_left = 20 + (uint32_t)random_below(random, 100),
        .wall_times = coin(random),
        .priorities = coin(random),
        .expiries = random_below(random, 3) == 0,
        .conflicts = coin(random),
        .atomics = coin(random),
        .batches = coin(random),
        .moves = coin(random),
        .cancels = random_below(random, 4) != 0,
        .admin = random_below(random, 3) == 0,
        .dead_letters = coin(random),
        .purges = random_below(random, 4) == 0,
        .nacks = coin(random),
        .extends = random_below(random, 3) == 0,
        .releases = random_below(random, 3) == 0,
        .lapses = coin(random),
        .looks = coin(random),
        .repeats = coin(random),
        .leaves = coin(random),
        .crashes = random_below(random, 3) == 0,
        .short_leases = coin(random),
        .half_dead = random_below(random, 4) == 0,
    };
    out->long_leases = random_below(random, 4) == 0;
    struct random own = {.state = random->state}; /* a copy of the generator: draws from it leave the draws from
                                                     `random` unchanged, so old seeds play as before */
    out->redacts = random_below(&own, 3) == 0;
    out->pools = random_below(&own, 4) == 0; /* likewise */
    out->deletes = random_below(&own, 5) == 0;
    out->defines = random_below(&own, 8) == 0;
    out->early = random_below(&own, 6) == 0;
    out->groups =
        random_below(&own, 6) == 0 &&
        !out->deletes; /* no groups in a history with a limit of queues, because there would be no place for them */
    out->serials = random_below(&own, 3) == 0;
    out->herds = random_below(&own, 4) == 0;
    out->recurs = random_below(&own, 6) == 0;
    out->owns = random_below(&own, 3) == 0;
    out->one_line = random_below(random, 8) == 0;
    if (out->one_line) {
        out->wall_times = out->priorities = false;
        out->batches = true;
        out->think_us = 1000u << random_below(random, 5);
        out->delay_bits = 11 + (uint32_t)random_below(random, 5);
        out->actions_left += 60;
    }
    if (random_below(random, 32) == 0)
        out->delay_bits = 24 + (uint32_t)random_below(random, 14); /* some histories have delays of hours to years */
    if (random_below(random, 64) == 0) out->actions_left *= 16;    /* one history in 64 is long */
}

/* ---- operations */

struct habit { /* a client, its habits, and its random numbers */
    struct client *client;
    struct habits *habits;
};

static const char *random_queue(struct world *world, const struct habits *habits) {
    if (habits->groups && one_in(world, 2))
        return one_in(world, 3) ? group_queues[random_below(&world->random, HABIT_GROUPS)] : TOPIC;
    if (habits->deletes && one_in(world, 2)) return lone_queues[random_below(&world->random, LONE_QUEUES)];
    return habit_queues[habits->one_line ? 0 : random_below(&world->random, HABIT_QUEUES)];
}

static const char *random_key(struct world *world, const struct habits *habits) {
    static const char *const keys[KEYS] = {"order-1", "order-2", "a rather longer key, of many bytes",
                                           "x",       "order-3", "k"};
    return keys[random_below(&world->random, habits->keys)];
}

static uint64_t random_delay_ms(struct world *world, const struct habits *habits) {
    uint64_t ms = random_magnitude(&world->random, habits->delay_bits);
    return ms < DUE_AHEAD_MAX_MS / 2 ? ms : DUE_AHEAD_MAX_MS / 2;
}

static Tarry__Ref *random_ref(struct world *world, const struct habits *habits) {
    if (one_in(world, 3)) return op_ref(world, NULL, NULL, 1 + random_below(&world->random, world->ledger.task_end));
    return op_ref(world, random_queue(world, habits), random_key(world, habits), 0);
}

static Tarry__Op *random_schedule(struct world *world, const struct habits *habits) {
    struct schedule schedule = {.queue = random_queue(world, habits)};
    bool keyed = habits->one_line
                     ? one_in(world, 6)
                     : !one_in(world, 3); /* uses few keys, so that keys repeat and the number of tasks stays low */
    if (keyed) schedule.key = random_key(world, habits);
    schedule.delay_ms = random_delay_ms(world, habits);
    if (habits->wall_times && one_in(world, 3))
        schedule.at_ms = world_real_ns(world) / NS_PER_MS - 200 + schedule.delay_ms;
    if (habits->priorities && one_in(world, 3))
        schedule.priority = (uint32_t)random_below(&world->random, PRIORITY_COUNT);
    if (habits->expiries && one_in(world, 2)) schedule.expires_ms = 1 + random_magnitude(&world->random, 14);
    if (habits->conflicts) schedule.on_conflict = (Tarry__Schedule__OnConflict)random_below(&world->random, 4);
    bool may_be_early =
        habits->early && strcmp(schedule.queue, habit_queues[0]) ==
                             0; /* the first queue may have lease_before_due, which excludes serial names */
    if (habits->serials && !may_be_early && one_in(world, 2)) schedule.serial = one_in(world, 2) ? "ann" : "bob";
    if (habits->owns && one_in(world, 2)) schedule.max_attempts = 1 + (uint32_t)random_below(&world->random, 5);
    if (habits->owns && one_in(world, 2)) schedule.backoff_ms = 1 + random_magnitude(&world->random, 12);
    if (habits->owns && one_in(world, 2))
        schedule.lease_ms = world->options.lease_least_ms + random_magnitude(&world->random, 13);
    return op_schedule(world, &schedule);
}

static Tarry__Op *random_settlement(struct world *world, const struct habits *habits, const struct held *held) {
    switch (random_below(&world->random, 8)) {
    case 0:
        if (habits->nacks)
            return op_nack(world, held, one_in(world, 2), random_delay_ms(world, habits) % 10000, one_in(world, 4));
        break;
    case 1:
        if (habits->extends) return op_extend(world, held, 10 + random_magnitude(&world->random, 12));
        break;
    case 2:
        if (habits->releases) return op_release(world, held);
        break;
    default:
        break;
    }
    return op_ack(world, held);
}

static Tarry__Op *random_redact(struct world *world, const struct habits *habits) {
    uint64_t after_id = one_in(world, 4) ? random_below(&world->random, world->ledger.task_end) : 0;
    if (!one_in(world, 4)) return op_redact(world, random_ref(world, habits), 0, 0, after_id);
    uint64_t now_ms = world_real_ns(world) / NS_PER_MS;
    uint64_t from_ms = one_in(world, 2) ? 1 : now_ms - random_magnitude(&world->random, 16);
    uint64_t to_ms = one_in(world, 2) ? 0 : from_ms + 1 + random_magnitude(&world->random, 16);
    return op_redact(world, op_ref(world, random_queue(world, habits), NULL, 0), from_ms, to_ms, after_id);
}

/* Returns an operation that sets a rate, a limit of tasks in flight, both, or neither. */
static Tarry__Op *random_limits(struct world *world, const struct habits *habits) {
    const uint32_t rate = one_in(world, 2) ? 1 + (uint32_t)random_magnitude(&world->random, 10) : 0;
    const uint32_t burst = rate && one_in(world, 2) ? 3 + (uint32_t)random_below(&world->random, 30) : 0;
    const uint32_t in_flight = one_in(world, 2) ? 1 + (uint32_t)random_below(&world->random, 8) : 0;
    return op_queue_limits(world, random_queue(world, habits), rate, burst, in_flight);
}

/* Sets any combination of spread and overdue fields. The broker refuses a combination in which tasks would expire
 * before they can become dead letters. */
static Tarry__Op *random_herd(struct world *world, const struct habits *habits) {
    const struct herd herd = {
        .spread_ms = one_in(world, 2) ? 1 + random_magnitude(&world->random, 12) : 0,
        .overdue_expire_ms = one_in(world, 2) ? 1 + random_magnitude(&world->random, 12) : 0,
        .overdue_dead_ms = one_in(world, 3) ? 1 + random_magnitude(&world->random, 10) : 0,
        .overdue_spread_ms = one_in(world, 2) ? 1 + random_magnitude(&world->random, 12) : 0,
    };
    return op_queue_herd(world, random_queue(world, habits), &herd);
}

static Tarry__Op *random_admin(struct world *world, const struct habits *habits) {
    if (habits->herds && one_in(world, 2)) return random_herd(world, habits);
    switch (random_below(&world->random, 4)) {
    case 0:
        if (!habits->dead_letters) break;
        return op_dead(world, (Tarry__DeadOp__What)random_below(&world->random, 2), random_ref(world, habits), false);
    case 1:
        if (!habits->dead_letters) break;
        return op_dead(world, (Tarry__DeadOp__What)random_below(&world->random, 2),
                       op_ref(world, random_queue(world, habits), NULL, 0), true);
    case 2:
        if (!habits->purges) break;
        return op_purge(world, random_queue(world, habits), (uint32_t)random_below(&world->random, STATE_ALL + 1));
    default:
        if (one_in(world, 2)) break;
        if (one_in(world, 2)) return random_limits(world, habits);
        return op_pause(world, random_queue(world, habits), one_in(world, 2),
                        one_in(world, 2) ? random_magnitude(&world->random, 12) : 0);
    }
    return op_queue_set(world, random_queue(world, habits),
                        world->options.lease_least_ms + random_magnitude(&world->random, 12),
                        (uint32_t)random_below(&world->random, 4), random_magnitude(&world->random, 8));
}

static Tarry__Op *random_op(struct client *client, const struct habits *habits) {
    struct world *world = client->world;
    if (habits->redacts && one_in(world, 8)) return random_redact(world, habits);
    if (habits->deletes && one_in(world, 8)) {
        const char *queue = lone_queues[random_below(&world->random, LONE_QUEUES)];
        return op_purge(world, queue, STATE_PENDING | STATE_READY);
    }
    switch (random_below(&world->random, 8)) {
    case 0:
    case 1:
        if (habits->cancels) return op_cancel(world, random_ref(world, habits), one_in(world, 3));
        break;
    case 2:
        if (habits->moves) return op_move(world, random_ref(world, habits), random_delay_ms(world, habits));
        break;
    case 3:
        if (client->held_count) /* settles a random task late, when its lease may have ended */
            return random_settlement(world, habits, &client->held[random_below(&world->random, client->held_count)]);
        break;
    case 4:
        if (habits->admin) return random_admin(world, habits);
        break;
    default:
        break;
    }
    return random_schedule(world, habits);
}

/* ---- actions of a client */

/* Creates the topic with its groups, or gives a group another filter. */
static void group_something(struct client *client, struct habits *habits) {
    struct world *world = client->world;
    if (!habits->groups_set || one_in(world, 8)) {
        habits->groups_set = world->has_topic = true;
        habits_calm_groups(client);
        return;
    }
    if (one_in(world, 8)) { /* deletes a group; the broker refuses while the group has shares or consumers */
        (void)client_commit_one(client, op_delete(world, group_queues[random_below(&world->random, HABIT_GROUPS)]));
        return;
    }
    const uint32_t filter = (uint32_t)random_below(&world->random, SIM_FILTERS + one_in(world, 4));
    const char *group = group_queues[random_below(&world->random, HABIT_GROUPS)];
    (void)client_commit_one(client, op_group(world, group, filter));
}

/* Deletes the recurrences of a topic that has lost its groups. The broker refuses to give a queue groups while it has
 * recurrences. */
static void delete_recurrences(struct client *client) {
    const struct flat *head = &client->world->host->head;
    const uint32_t topic = flat_queue_number(head, TOPIC);
    if (!topic || flat_is_topic(head, topic)) return;
    for (size_t i = 0; i < head->recur_count; i++) {
        if (head->recurs[i].queue != topic) continue;
        (void)client_commit_one(client,
                                op_recur_do(client->world, TOPIC, head->recurs[i].name, TARRY__RECUR_DO__WHAT__DELETE));
    }
}

void habits_calm_groups(struct client *client) {
    struct world *world = client->world;
    delete_recurrences(client);
    Tarry__Op **ops = world_alloc(world, (1 + HABIT_GROUPS) * sizeof *ops);
    ops[0] = op_create(world, TOPIC);
    for (uint32_t i = 0; i < HABIT_GROUPS; i++) ops[1 + i] = op_group(world, group_queues[i], i);
    (void)client_commit(client, ops, 1 + HABIT_GROUPS, false);
}

/* Makes an operation that sets a recurrence. It has only a few occurrences, so that the calm phase ends. */
static Tarry__Op *random_recur_set(struct world *world, const char *queue, const char *name) {
    static const char *const overlaps[] = {"skip", "queue-one", "allow"}, *const crons[] = {"*/2 * * * * *",
                                                                                            "*/7 * * * * *"};
    Tarry__RecurSet set = TARRY__RECUR_SET__INIT;
    set.queue = (char *)queue;
    set.name = (char *)name;
    if (one_in(world, 3))
        set.cron = (char *)crons[random_below(&world->random, 2)];
    else
        set.every_ms = 1000 * (1 + random_below(&world->random, 5));
    set.overlap = (char *)overlaps[random_below(&world->random, 3)];
    if (strcmp(queue, TOPIC) == 0 && !one_in(world, 4))
        set.overlap = (char *)"allow"; /* a topic's recurrence is refused unless its overlap is "allow" */
    set.missed = (char *)(one_in(world, 3) ? "none" : "last");
    if (one_in(world, 3) && strcmp(set.overlap, "allow") == 0) set.missed = (char *)"all:3";
    set.count = 1 + random_below(&world->random, 6);
    if (one_in(world, 3)) set.jitter_ms = 1 + random_below(&world->random, 3000);
    return op_recur_set(world, &set);
}

/* Schedules a task whose key differs from an occurrence's key only in the prefix. The core must not take it for an
 * occurrence (KEEP-1). */
static Tarry__Op *random_lookalike(struct world *world, const char *queue, const char *name) {
    enum { KEY_SIZE = 40 };
    char *key = world_alloc(world, KEY_SIZE);
    const uint64_t at_ms = host_now(world).wall_ns / NS_PER_MS + 1000 * random_below(&world->random, 20);
    const time_t at_s = (time_t)(at_ms / 1000);
    struct tm tm;
    char time[24];
    MUST(gmtime_r(&at_s, &tm) && strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm));
    MUST(snprintf(key, KEY_SIZE, "%s@%s", name, time) < KEY_SIZE);
    return op_schedule(world, &(struct schedule){.queue = queue, .key = key, .at_ms = at_ms + 60000});
}

static void recur_somehow(struct client *client, const struct habits *habits) {
    static const char *const names[] = {"r1", "r2", "r3"};
    struct world *world = client->world;
    const char *queue = habit_queues[random_below(&world->random, HABIT_QUEUES)];
    if (habits->groups_set && one_in(world, 2)) queue = one_in(world, 8) ? group_queues[0] : TOPIC;
    const char *name = names[random_below(&world->random, 3)];
    if (one_in(world, 4)) {
        (void)client_commit_one(client, random_lookalike(world, queue, name));
        return;
    }
    Tarry__Op *op = one_in(world, 2)
                        ? random_recur_set(world, queue, name)
                        : op_recur_do(world, queue, name, (Tarry__RecurDo__What)random_below(&world->random, 4));
    (void)client_commit_one(client, op);
}

/* Sets or deletes a definition, often on the condition that it still has the version that it had a moment ago. */
static void define_something(struct client *client) {
    struct world *world = client->world;
    const uint32_t number = (uint32_t)random_below(&world->random, FLAT_DEFINITIONS);
    uint64_t expected = world->host->head.definitions[number].version;
    if (one_in(world, 4)) expected += LOG_POSITION_FIRST;
    (void)client_commit_one(client, op_define(world, number, one_in(world, 3), one_in(world, 2) ? &expected : NULL));
}

static void commit_something(struct client *client, const struct habits *habits) {
    struct world *world = client->world;
    if (client->open_count >= habits->open_max) return;
    if (habits->deletes &&
        one_in(world,
               4)) { /* deletes a queue in a commit of its own, because such a commit may have no other operation */
        (void)client_commit_one(client, op_delete(world, lone_queues[random_below(&world->random, LONE_QUEUES)]));
        return;
    }
    if (habits->recurs && one_in(world, 4)) {
        recur_somehow(client, habits);
        return;
    }
    if (habits->groups && (!habits->groups_set || one_in(world, 12))) {
        group_something(client, (struct habits *)habits);
        return;
    }
    if (habits->defines && one_in(world, 3)) {
        define_something(client);
        return;
    }
    size_t count = habits->batches && one_in(world, 3) ? 1 + random_below(&world->random, 5) : 1;
    Tarry__Op **ops = world_alloc(world, count * sizeof *ops);
    for (size_t i = 0; i < count; i++) ops[i] = random_op(client, habits);
    (void)client_commit(client, ops, count, habits->atomics && one_in(world, 3));
}

void habits_look(struct client *client, const struct habits *habits) {
    struct world *world = client->world;
    Tarry__Request *body = world_alloc(world, sizeof *body);
    tarry__request__init(body);
    switch (random_below(&world->random, 5)) {
    case 0:
        body->body_case = TARRY__REQUEST__BODY_LIST;
        body->list = world_alloc(world, sizeof *body->list);
        tarry__list__init(body->list);
        body->list->queue = (char *)random_queue(world, habits);
        body->list->states = (uint32_t)random_below(&world->random, 16);
        break;
    case 1:
        body->body_case = TARRY__REQUEST__BODY_STATS;
        body->stats = world_alloc(world, sizeof *body->stats);
        tarry__stats__init(body->stats);
        break;
    case 2:
        body->body_case = TARRY__REQUEST__BODY_QUEUES;
        body->queues = world_alloc(world, sizeof *body->queues);
        tarry__queues__init(body->queues);
        break;
    default:
        body->body_case = TARRY__REQUEST__BODY_GET;
        body->get = world_alloc(world, sizeof *body->get);
        tarry__get__init(body->get);
        body->get->task = random_ref(world, habits);
        body->get->with_content = one_in(world, 2);
    }
    (void)client_ask(client, body);
}

static void come_back(struct world *world, void *argument, uint64_t number) {
    struct client *client = argument;
    if (client->up) return; /* nothing to do: the calm phase has already brought the client back */
    if (one_in(world, 3)) client_forget(client);
    client_return(client);
}

static void wake_up(struct world *world, void *argument, uint64_t number) {
    struct client *client = argument;
    client->deaf = client->silent = client->stalled = false;
}

static void have_an_accident(struct client *client, const struct habits *habits) {
    struct world *world = client->world;
    uint64_t ns = (1 + random_magnitude(&world->random, 14)) * NS_PER_MS;
    switch (random_below(&world->random, 4)) {
    case 0:
        if (habits->crashes) {
            client_crash(client);
            world_after_ns(world, ns, come_back, client, 0);
        }
        return;
    case 1:
        if (habits->leaves && client->session) client_break_pipe(client);
        return;
    case 2:
        if (habits->leaves && client->session) {
            client_unsubscribe(client, one_in(world, 2));
            client->wants_session = true; /* the client subscribes again later */
        }
        return;
    default:
        if (!habits->half_dead) return;
        client->deaf = one_in(world, 3);
        client->silent = one_in(world, 3);
        client->stalled = one_in(world, 3);
        world_after_ns(world, ns, wake_up, client, 0);
    }
}

/* Sends a new credit for the pooled session: a random number of waiting consumers, or in the calm phase the maximum. */
static void ask_for_more(struct client *client) {
    struct world *world = client->world;
    client_credit(client, client->habits->over ? POOL_MAX : (uint32_t)random_below(&world->random, POOL_MAX + 1));
}

static void act(struct world *world, void *argument, uint64_t number) {
    struct habit *habit = argument;
    struct client *client = habit->client;
    struct habits *habits = habit->habits;
    if (habits->over || !habits->actions_left) return;
    habits->actions_left--;
    if (client->up && habits->early &&
        !habits->early_set) { /* sets lease_before_due; refused if the queue already has tasks */
        habits->early_set = true;
        (void)client_commit_one(client, op_early(world, habit_queues[0]));
    }
    if (client->up) {
        if (client->pooled) ask_for_more(client);
        uint64_t what = random_below(&world->random, 32);
        if (what == 0)
            have_an_accident(client, habits);
        else if (what < 3 && habits->looks)
            habits_look(client, habits);
        else if (what < 6 && habits->repeats && client->open_count)
            client_repeat(client, client->open[random_below(&world->random, client->open_count)]);
        else
            commit_something(client, habits);
        if (client->wants_session && !client->session)
            client_subscribe(client, habits_queues(habits), client->prefetch, client->lease_ms);
    }
    world_after_ns(world, random_below(&world->random, habits->think_us) * 1000, act, habit, 0);
}

/* ---- actions of a consumer */

struct job {
    struct client *client;
    const struct habits *habits;
    struct held held;
};

static void work_is_done(struct world *world, void *argument, uint64_t run) {
    struct job *job = argument;
    if (!job->client->up || job->client->run != run) return;
    client_settle(job->client, &job->held, random_settlement(world, job->habits, &job->held));
}

static void work_on(struct client *client, const struct held *held) {
    struct world *world = client->world;
    const struct habits *habits = client->habits;
    if (client->pooled) ask_for_more(client);
    if (client->sharer) {
        if (habits->over || !one_in(world, 16)) client_settle(client, held, op_fan_out(world, held));
        return; /* if no reply is sent, the sharer keeps the task until its lease ends */
    }
    if (habits->over) {
        client_settle(client, held, op_ack(world, held));
        return;
    }
    if (habits->lapses && one_in(world, 6))
        return; /* sometimes the consumer does not settle the task, so its lease expires */
    struct job *job = world_alloc(world, sizeof *job);
    *job = (struct job){.client = client, .habits = habits, .held = *held};
    world_after_ns(world, random_below(&world->random, (uint64_t)habits->work_ms * 1000) * 1000, work_is_done, job,
                   client->run);
}

void habits_start(struct client *client, struct habits *habits, bool consumer) {
    struct world *world = client->world;
    struct habit *habit = world_alloc(world, sizeof *habit);
    *habit = (struct habit){client, habits};
    client->habits = habits;
    client->on_task = work_on;
    client_hello(client);
    client->pooled = consumer && habits->pools;
    if (consumer) {
        uint64_t lease_ms =
            habits->short_leases ? world->options.lease_least_ms + random_magnitude(&world->random, 10) : 0;
        if (habits->long_leases) lease_ms = 5000 + random_magnitude(&world->random, 15);
        uint32_t prefetch = 1 + (uint32_t)random_below(&world->random, 8);
        if (world->options.core.ahead_ms)
            prefetch *= 4; /* asks for more credit than the client needs, so that there are leases ahead of time */
        client->bound = client->pooled && prefetch / 4 % 2;
        client_subscribe(client, habits_queues(habits), prefetch, lease_ms);
    }
    world_after_ns(world, random_below(&world->random, habits->think_us) * 1000, act, habit, 0);
}

static void tend_mover(struct world *world, void *argument, uint64_t number) {
    struct habit *habit = argument;
    struct client *client = habit->client;
    if (habit->habits->over || !habit->habits->actions_left) return;
    if (client->up && !client->session) client_subscribe(client, habit_queues, client->prefetch, client->lease_ms);
    if (client->up) ask_for_more(client);
    world_after_ns(world, random_below(&world->random, habit->habits->think_us) * 1000, tend_mover, habit, 0);
}

static void start_mover(struct world *world, struct habits *habits, bool sharer) {
    struct habit *habit = world_alloc(world, sizeof *habit);
    struct client *client = client_new(world, sharer ? "sharer" : "mover");
    *habit = (struct habit){client, habits};
    client->habits = habits;
    client->on_task = work_on;
    client->pooled = true;
    client->sharer = sharer;
    client->mover = !sharer;
    client_hello(client);
    client_subscribe(client, habit_queues, 8, 0);
    world_after_ns(world, random_below(&world->random, habits->think_us) * 1000, tend_mover, habit, 0);
}

void habits_start_mover(struct world *world, struct habits *habits) {
    if (habits->early) start_mover(world, habits, false);
    if (habits->groups) start_mover(world, habits, true);
}

void habits_ack_all(struct client *client) {
    if (client->pooled) ask_for_more(client);
    while (client->held_count && client->up && client->producer)
        client_settle(client, &client->held[0],
                      client->sharer ? op_fan_out(client->world, &client->held[0])
                                     : op_ack(client->world, &client->held[0]));
}
