/* core_test.c: seeded random histories of the core on virtual time, against a flat table and an outside ledger.
 *
 * Checked in every history: the core's digest equals that of the flat table after every step; a replay of the log has
 * the same digest at every prefix; single operations are answered as a naive model predicts; nothing is delivered early
 * (TIME-1), nor after an answered ack or cancel; `cancelled, deliveries = 0` was never seen by anybody (TRUE-1); a
 * repeated commit gets the same answer (ONCE-1); no accepted task is lost, and every one ends exactly once (KEEP-1); in
 * the end calm comes and nothing is left.
 *
 *   core_test [--seed N] [--histories N]        (also TARRY_SEED, TARRY_HISTORIES) */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../must.h"
#include "core_clients.h"

/* A crash; clients repeat what was not answered, one session comes back. */
static void crash(struct ledger *ledger) {
    struct world *world = ledger->world;
    uint64_t back = world->sessions[random_below(&world->random, WORLD_SESSIONS_MAX)].id;
    world_crash(world);
    if (back && one_in(ledger, 2)) client_subscribe(ledger, back);
    client_repeat_open(ledger);
}

/* The calm at the end: everything due, every queue open, a consumer that acks all it gets. */
static void calm(struct ledger *ledger) {
    struct world *world = ledger->world;
    while (!ledger->producer[0] || !ledger->producer[PRODUCERS - 1]) {
        if (ledger->request_count < REQUESTS_MAX / 2) client_hello(ledger);
        world_settle(world);
    }
    world_settle(world);
    client_resume_queues(ledger);
    for (int round = 0; core_live(world->core); round++) {
        MUST(round < 200); /* nothing is stuck */
        world->now.wall_ns += 400000000000ull;
        world_advance(world, 400000);
        world_settle(world);
        if (!client_sessions(ledger)) client_subscribe(ledger, 0);
        world_settle(world);
        client_ack_held(ledger);
        world_settle(world);
    }
}

static void play(uint64_t seed) {
    struct core_options options = {
        .memory = 8u << 20,
        .outcomes_max = 1024,
        .outcome_retention_ms = 365ull * 24 * 3600 * 1000,
        .create_queues = true,
        .policy = {.base = PROTOBUF_C_MESSAGE_INIT(&tarry__policy__descriptor),
                   .lease_ms = 1000,
                   .max_attempts = 3,
                   .backoff_min_ms = 100,
                   .backoff_max_ms = 1000},
        .version = "test",
    };
    struct random random = {.state = seed};
    uint64_t memory = random_below(&random, 4); /* swarm: some histories with next to no memory */
    options.near_max = memory < 2 ? 0 : 4 + random_below(&random, 12);
    uint64_t crash_every = 20 + random_below(&random, 200);
    uint64_t turns = 40 + random_below(&random, 160);
    static struct world the_world; /* megabytes: used again, not mapped again, by a hundred thousand histories */
    static struct ledger the_ledger;
    struct world *world = &the_world;
    struct ledger *ledger = &the_ledger;
    memset(ledger, 0, sizeof *ledger);
    world_init(world, seed, &options);
    ledger->world = world;
    world->observer = ledger;
    world->on_reply = ledger_on_reply;
    world->on_delivery = ledger_on_delivery;
    world->on_frame = ledger_on_frame;
    world->before_commit = ledger_predict;
    struct core_event start = {.kind = CORE_START, .epoch = 1};
    world_post(world, &start);
    client_hello(ledger);
    for (uint64_t turn = 0; turn < turns; turn++) {
        bool roomy = world->waiting_count < WORLD_WAITING_MAX / 2 && world->delivery_count < 64;
        if (roomy && one_in(ledger, 3))
            client_turn(ledger);
        else if (one_in(ledger, crash_every))
            crash(ledger);
        else
            world_turn(world);
    }
    calm(ledger);
    ledger_check(ledger);
    core_check(world->core);
    world_deinit(world);
}

static uint64_t first_seed;
static uint64_t history_count;

/* F-10, F-16, F-22, F-32, LOG-1, LOG-2, KEEP-1, ONCE-1, TRUE-1 */
static void histories_agree_with_the_flat_table(void **state) {
    for (uint64_t i = 0; i < history_count; i++) {
        if (getenv("TARRY_VERBOSE")) (void)fprintf(stderr, "seed %llu\n", (unsigned long long)(first_seed + i));
        play(first_seed + i);
    }
}

int main(int argc, char **argv) {
    const char *count = getenv("TARRY_HISTORIES");
    first_seed = random_seed(1);
    history_count = count ? strtoull(count, NULL, 0) : 100000;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--histories") == 0) history_count = strtoull(argv[i + 1], NULL, 0);
    }
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* the core's tables come as untouched zero pages, time and again */
    const struct CMUnitTest tests[] = {cmocka_unit_test(histories_agree_with_the_flat_table)};
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
