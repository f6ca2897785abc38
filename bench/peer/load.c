/* load.c: Tarry's loads for another system: many schedules in flight, a steady rate, all due in one second, the
 * order story; each with the same ledger, so no task may be lost, early or twice there either. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define LINKS_MAX 64
#define TICK_NS 10000000ull
#define TICKS_PER_S 100u
#define PAID 90u /* percentage of orders that are paid, as in ../orders.c */

enum mode { SCHEDULE, LATENESS, DRAIN, ORDERS, FIRST };

struct run {
    const struct peer_protocol *protocol;
    enum mode mode;
    uint64_t port, links, consumers, window, batch, tasks, rate, seconds, after_ms, spread_ms, most_s;
    uint64_t run; /* number of this run, which makes its ids unique */
    uint64_t due_from_ms;
    uint64_t fires; /* number of tasks that must arrive */
    struct ledger ledger;
    atomic_ullong acked;
    atomic_ullong decided; /* number of schedules and cancels that were answered */
    atomic_ullong last_ack_ns;
    atomic_ullong behind_ns;
};

struct producer {
    struct run *run;
    uint64_t number;
    pthread_t thread;
    struct peer_link link;
    uint64_t under_way; /* number of requests in flight */
    uint64_t random;
    struct peer_task *tasks; /* array with one batch of tasks */
};

/* Reads the available replies. Waits only if more than `under_way_max` replies are missing, and sends everything
 * buffered before it waits. */
static void settle(struct producer *producer, uint64_t under_way_max) {
    if (producer->under_way <= under_way_max) return;
    for (;;) {
        while (producer->under_way > 0 && producer->run->protocol->answer(&producer->link)) producer->under_way--;
        if (producer->under_way <= under_way_max) return;
        peer_flush(&producer->link);
        peer_hear(&producer->link);
    }
}

static uint64_t due_of(struct producer *producer) {
    const struct run *run = producer->run;
    const uint64_t from_ms = run->mode == DRAIN ? run->due_from_ms : bench_wall_ms() + run->after_ms;
    return from_ms + bench_random(&producer->random) % run->spread_ms;
}

/* Schedules `count` of this producer's tasks, from its `first` one on. */
static void schedule(struct producer *producer, uint64_t first, uint64_t count) {
    struct run *run = producer->run;
    for (uint64_t i = 0; i < count; i++)
        peer_make(&producer->tasks[i], run->run, (first + i) * run->links + producer->number, due_of(producer));
    run->protocol->schedule(&producer->link, producer->tasks, count);
    producer->under_way++;
    atomic_fetch_add(&run->decided, count);
}

static bool is_paid(uint64_t order) {
    return order % 100 < PAID;
}

static void pay(struct producer *producer, uint64_t mine) {
    struct run *run = producer->run;
    const uint64_t order = mine * run->links + producer->number;
    if (!is_paid(order)) return;
    peer_make(&producer->tasks[0], run->run, order, 0);
    run->protocol->cancel(&producer->link, &producer->tasks[0]);
    producer->under_way++;
    atomic_fetch_add(&run->decided, 1);
}

static void wait_for_tick(struct run *run, uint64_t start_ns, uint64_t tick) {
    const uint64_t then_ns = start_ns + tick * TICK_NS, now_ns = bench_now_ns();
    if (now_ns > then_ns && now_ns - then_ns > run->behind_ns) run->behind_ns = now_ns - then_ns;
    bench_sleep_until_ns(then_ns);
}

static void *produce(void *argument) {
    struct producer *producer = argument;
    struct run *run = producer->run;
    const uint64_t mine = run->tasks / run->links, behind = 2 * run->window, start_ns = bench_now_ns();
    const uint64_t each_tick = run->mode == LATENESS ? run->rate / TICKS_PER_S / run->links : 0;
    uint64_t ticks = 0;
    for (uint64_t i = 0; i < mine;) {
        if (run->most_s > 0 && bench_now_ns() - start_ns > run->most_s * 1000000000u) break;
        uint64_t count = run->batch < mine - i ? run->batch : mine - i;
        if (each_tick > 0 && count > each_tick) count = each_tick;
        schedule(producer, i, count);
        i += count;
        /* Cancels the task of a paid order, whose schedule has been answered. */
        if (run->mode == ORDERS && i > behind) pay(producer, i - 1 - behind);
        settle(producer, run->window - 1);
        if (each_tick == 0 || i / each_tick == ticks) continue;
        ticks = i / each_tick;
        peer_flush(&producer->link);
        wait_for_tick(run, start_ns, ticks);
        while (producer->under_way > 0 && run->protocol->answer(&producer->link)) producer->under_way--;
    }
    for (uint64_t i = mine > behind ? mine - behind : 0; run->mode == ORDERS && i < mine; i++) {
        pay(producer, i);
        settle(producer, run->window - 1);
    }
    settle(producer, 0);
    return NULL;
}

static void *consume(void *argument) {
    struct run *run = argument;
    struct peer_link *link = calloc(1, sizeof(*link));
    if (link == NULL) bench_die("out of memory");
    peer_open(link, run->protocol, (uint16_t)run->port);
    while (run->acked < run->fires) {
        const size_t acked = run->protocol->consume(link, &run->ledger);
        if (acked == 0) continue;
        run->last_ack_ns = bench_now_ns();
        atomic_fetch_add(&run->acked, acked);
    }
    peer_close(link);
    free(link);
    return NULL;
}

/* Opens the connections one after another and runs them. Returns when the last answer came, and how many operations
 * were answered by then. */
static double produce_all(struct run *run, uint64_t *out_answered) {
    struct producer *producers = calloc(run->links, sizeof(*producers));
    if (producers == NULL) bench_die("out of memory");
    for (uint64_t i = 0; i < run->links; i++) {
        producers[i].run = run;
        producers[i].number = i;
        producers[i].random = run->run * 2654435761u + i + 1;
        producers[i].tasks = calloc(run->batch, sizeof(*producers[i].tasks));
        if (producers[i].tasks == NULL) bench_die("out of memory");
        peer_open(&producers[i].link, run->protocol, (uint16_t)run->port);
    }
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < run->links; i++)
        if (pthread_create(&producers[i].thread, NULL, produce, &producers[i]) != 0) bench_die("no thread");
    for (uint64_t i = 0; i < run->links; i++) pthread_join(producers[i].thread, NULL);
    const double seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    *out_answered = run->decided + run->acked;
    for (uint64_t i = 0; i < run->links; i++) {
        peer_close(&producers[i].link);
        free(producers[i].tasks);
    }
    free(producers);
    return seconds;
}

static int wait_first(struct run *run) {
    run->fires = 1;
    struct peer_link *link = calloc(1, sizeof(*link));
    if (link == NULL) bench_die("out of memory");
    peer_open(link, run->protocol, (uint16_t)run->port);
    const uint64_t subscribed_us = bench_wall_us();
    while (run->ledger.arrived + run->ledger.foreign == 0) run->protocol->consume(link, &run->ledger);
    printf("bench=first subscribed_us=%llu delivered_us=%llu early=%llu\n", (unsigned long long)subscribed_us,
           (unsigned long long)bench_wall_us(), (unsigned long long)run->ledger.early);
    return run->ledger.early > 0;
}

static int measure(struct run *run) {
    pthread_t consumers[LINKS_MAX];
    uint64_t answered = 0;
    const uint64_t start_ns = bench_now_ns();
    run->due_from_ms = bench_wall_ms() + run->after_ms;
    const uint64_t due_end_ns = start_ns + (run->after_ms + run->spread_ms) * 1000000u;
    const bool is_early_bird = run->mode == LATENESS || run->mode == ORDERS;
    uint64_t wanted = run->mode != SCHEDULE ? run->consumers : 0;
    for (uint64_t i = 0; is_early_bird && i < wanted; i++)
        if (pthread_create(&consumers[i], NULL, consume, run) != 0) bench_die("no thread");
    const double seconds = produce_all(run, &answered);
    for (uint64_t i = 0; !is_early_bird && i < wanted; i++)
        if (pthread_create(&consumers[i], NULL, consume, run) != 0) bench_die("no thread");
    for (uint64_t i = 0; i < wanted; i++) pthread_join(consumers[i], NULL);
    double per_s = (double)answered / seconds;
    if (run->mode == DRAIN) {
        /* The measured time starts when all tasks were due and scheduled, or at the first claim, if that was
         * earlier. */
        const uint64_t scheduled_ns = start_ns + (uint64_t)(seconds * 1e9), first_ns = run->ledger.first_ns;
        const uint64_t all_there_ns = scheduled_ns > due_end_ns ? scheduled_ns : due_end_ns;
        const uint64_t from_ns = first_ns < all_there_ns ? first_ns : all_there_ns;
        per_s = (double)run->acked / ((double)(run->last_ack_ns - from_ns) / 1e9);
        if (start_ns + run->after_ms * 1000000u < scheduled_ns)
            fprintf(stderr, "bench: scheduling took longer than --after-ms: some were overdue already\n");
    }
    printf("bench=peer_load peer=%s tasks=%llu seconds=%.2f per_s=%.0f behind_max_ms=%llu acked=%llu",
           run->protocol->name, (unsigned long long)run->tasks, seconds, per_s,
           (unsigned long long)run->behind_ns / 1000000, (unsigned long long)run->acked);
    ledger_print(&run->ledger);
    printf("\n");
    return ledger_is_good(&run->ledger, wanted > 0 ? run->fires : 0) ? 0 : 1;
}

static enum mode mode_named(const char *name) {
    static const char *const names[] = {"schedule", "lateness", "drain", "orders", "first"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0) return (enum mode)i;
    bench_die("--mode: schedule, lateness, drain, orders or first, not '%s'", name);
}

int main(int argc, char **argv) {
    static struct run run = {.links = 1,
                             .consumers = 1,
                             .window = 1,
                             .batch = 1,
                             .tasks = 100000,
                             .rate = 10000,
                             .seconds = 20,
                             .after_ms = 3600000,
                             .spread_ms = 1};
    const char *name = "", *mode = "schedule";
    const struct bench_option options[] = {
        {"peer", "beanstalkd, redis, postgresql or rabbitmq", NULL, &name},
        {"mode", "schedule, lateness, drain, orders or first", NULL, &mode},
        {"port", "on loopback", &run.port, NULL},
        {"links", "connections that schedule, each with a thread", &run.links, NULL},
        {"consumers", "connections that claim and ack, each with a thread", &run.consumers, NULL},
        {"window", "requests under way on each", &run.window, NULL},
        {"batch", "tasks in a request", &run.batch, NULL},
        {"tasks", "how many", &run.tasks, NULL},
        {"rate", "of lateness, tasks a second", &run.rate, NULL},
        {"seconds", "of lateness", &run.seconds, NULL},
        {"after-ms", "they fall due after this", &run.after_ms, NULL},
        {"spread-ms", "… and at random up to so much later", &run.spread_ms, NULL},
        {"most-s", "of schedule: fewer tasks if this is over; 0: all", &run.most_s, NULL},
        {0},
    };
    bench_options(argc, argv, "Another system under Tarry's loads.", options);
    run.protocol = peer_named(name);
    run.mode = mode_named(mode);
    if (run.protocol == NULL || run.port == 0 || run.port > UINT16_MAX || run.links == 0 || run.links > LINKS_MAX ||
        run.consumers > LINKS_MAX || run.window == 0 || run.window >= PEER_TAGS || run.batch == 0 ||
        run.batch > run.protocol->batch_max || run.spread_ms == 0)
        bench_die("out of range");
    if (run.mode == ORDERS && (run.protocol->cancel == NULL || run.batch != 1))
        bench_die("orders: one in a request, by redis");
    if (run.mode != SCHEDULE && run.most_s > 0) bench_die("--most-s: of schedule alone, or some would be missed");
    if (run.mode != SCHEDULE && run.protocol->consume == NULL) bench_die("%s is not asked for deliveries here", name);
    if (run.mode == LATENESS) run.tasks = run.rate * run.seconds;
    run.tasks -= run.tasks % run.links;
    for (uint64_t order = 0; order < run.tasks; order++) run.fires += run.mode != ORDERS || !is_paid(order);
    run.run = bench_wall_us();
    ledger_init(&run.ledger, run.tasks);
    int status = run.mode == FIRST ? wait_first(&run) : measure(&run);
    ledger_deinit(&run.ledger);
    return status;
}
