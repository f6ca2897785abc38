/* core_steps.c: the longest calls into the core (core_step and the like). The load has at once everything that made a
 * call long in the past: thousands of queues whose consumers have no credit, hundreds of thousands of ready tasks, many
 * tasks that the index has not absorbed, List and Stats requests. The core's thread does nothing else during a call, so
 * all clients wait for the processor time of the call (CALM-1).
 *
 * No disk, no wire: only the core, with events made by hand. Prints a line for each kind of call, and exits with 1 if a
 * call took longer than LIMIT_MS. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core.h"

#define LIMIT_MS 2.0
#define MEMORY ((size_t)512 << 20)
#define QUEUES 4095 /* number of queues besides the queue "big" */
#define READY 300000
#define OVERLAY 200000
#define OPS 200 /* operations in each commit */
#define SUBSCRIBED 256
#define ROUNDS 24

enum call { CALL_COMMIT, CALL_LEASE, CALL_TICK, CALL_LIST, CALL_STATS, CALL_PACK, CALL_COUNT };
static const char *const call_names[] = {"commit", "lease", "tick", "list", "stats", "pack"};

static struct core *core;
static struct arena effects_arena, wants_arena;
static struct core_effects effects;
static struct instant now;
static uint64_t producer, sequence, big_sessions[16], random_state = 88172645463325252ull;
static size_t big_count;
static bool is_counted;
static double worst_ms[CALL_COUNT], total_ms[CALL_COUNT];
static uint64_t counts[CALL_COUNT];

static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static double cpu_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void count(enum call call, double from_ms) {
    double took_ms = cpu_ms() - from_ms;
    if (!is_counted) return;
    if (took_ms > worst_ms[call]) worst_ms[call] = took_ms;
    total_ms[call] += took_ms;
    counts[call]++;
}

/* Reports to the core that each session's delivery has left. */
static void sent(void) {
    static uint64_t sessions[1024];
    size_t session_count = 0;
    for (size_t i = 0; i < effects.deliveries.count && session_count < 1024; i++)
        sessions[session_count++] = effects.deliveries.items[i].session;
    core_effects_reset(&effects);
    for (size_t i = 0; i < session_count; i++) {
        struct core_event event = {.kind = CORE_LANE_SENT,
                                   .now = now,
                                   .lane = {.session = sessions[i], .ok = true, .delivered_ns = now.steady_ns}};
        double from_ms = cpu_ms();
        core_step(core, &event, &effects);
        count(CALL_LEASE, from_ms);
        core_effects_reset(&effects);
    }
}

static void step(enum call call, struct core_event *event) {
    event->now = now;
    double from_ms = cpu_ms();
    core_step(core, event, &effects);
    count(call, from_ms);
}

/* Packs the first reply and measures the time. The shell packs replies on the core thread, so the packing delays other
 * clients too. */
static void pack(void) {
    static uint8_t packed[4u << 20];
    const Tarry__Reply *reply = effects.replies.items[0].reply;
    double from_ms = cpu_ms();
    size_t size = tarry__reply__get_packed_size(reply);
    if (size > sizeof(packed)) exit(2);
    tarry__reply__pack(reply, packed);
    count(CALL_PACK, from_ms);
}

static bool look(enum call call, struct core_event *event) {
    event->now = now;
    double from_ms = cpu_ms();
    bool is_done = core_look(core, event);
    count(call, from_ms);
    return is_done;
}

static void tick(void) {
    now.steady_ns += 1000000;
    now.wall_ns += 1000000;
    struct core_event event = {.kind = CORE_TICK};
    step(CALL_TICK, &event);
    sent();
}

static Tarry__Request request_of(Tarry__Request__BodyCase body_case) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.client = "bench";
    request.body_case = body_case;
    return request;
}

static void schedule(const char *only_queue, uint64_t delay_ms, uint64_t spread_ms) {
    static Tarry__Schedule schedules[OPS];
    static Tarry__Op ops[OPS], *pointers[OPS];
    static Tarry__When whens[OPS];
    static char keys[OPS][32], queues[OPS][16];
    static struct core_content *contents; /* never freed */
    if (!contents) contents = calloc(OPS, sizeof(*contents));
    if (!contents) exit(2);
    static uint64_t number;
    for (int i = 0; i < OPS; i++, number++) {
        tarry__schedule__init(&schedules[i]);
        tarry__op__init(&ops[i]);
        tarry__when__init(&whens[i]);
        snprintf(queues[i], sizeof(queues[i]), "q%llu", (unsigned long long)(number % QUEUES));
        schedules[i].queue = only_queue ? (char *)only_queue : queues[i];
        int size = snprintf(keys[i], sizeof(keys[i]), "order-%012llu", (unsigned long long)number);
        schedules[i].key = (ProtobufCBinaryData){(size_t)size, (uint8_t *)keys[i]};
        whens[i].ms = delay_ms + (spread_ms ? random_next() % spread_ms : 0);
        schedules[i].when = &whens[i];
        ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        ops[i].schedule = &schedules[i];
        pointers[i] = &ops[i];
        contents[i] = (struct core_content){.size = 118};
    }
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.producer = producer;
    commit.sequence = commit.oldest_unanswered = ++sequence;
    commit.ops = pointers;
    commit.n_ops = OPS;
    Tarry__Request request = request_of(TARRY__REQUEST__BODY_COMMIT);
    request.commit = &commit;
    struct core_event event = {
        .kind = CORE_REQUEST,
        .now = now,
        .request = {.ticket = 1, .message = &request, .commit.contents = contents, .peer = "peer"}};
    static const struct want nothing[4 * OPS]; /* answer of the index to core_wants: it has none of the wanted rows */
    struct want *wants;
    event.request.facts.want_count = core_wants(core, &event, &wants_arena, NULL, &wants);
    event.request.facts.wants = event.request.facts.want_count ? wants : nothing;
    step(CALL_COMMIT, &event);
    sent();
    arena_reset(&wants_arena);
}

static uint64_t subscribe(const char *only_queue, unsigned first, uint32_t prefetch) {
    static char names[SUBSCRIBED][16], *queues[SUBSCRIBED];
    size_t queue_count = 0;
    for (unsigned i = first; i < QUEUES && queue_count < SUBSCRIBED; i++, queue_count++) {
        snprintf(names[queue_count], sizeof(names[0]), "q%u", i);
        queues[queue_count] = names[queue_count];
    }
    if (only_queue) queues[0] = (char *)only_queue, queue_count = 1;
    Tarry__Subscribe subscribe = TARRY__SUBSCRIBE__INIT;
    subscribe.queues = queues;
    subscribe.n_queues = queue_count;
    subscribe.prefetch = prefetch;
    Tarry__Request request = request_of(TARRY__REQUEST__BODY_SUBSCRIBE);
    request.subscribe = &subscribe;
    struct core_event event = {.kind = CORE_REQUEST,
                               .now = now,
                               .request = {.ticket = 1, .message = &request, .peer = "peer"}};
    core_step(core, &event, &effects);
    uint64_t session = effects.replies.items[0].reply->subscribe->session;
    sent();
    struct core_event up = {.kind = CORE_LANE_UP, .lane.session = session};
    step(CALL_LEASE, &up);
    sent();
    return session;
}

static void begin(void) {
    struct core_options options = {.memory = MEMORY,
                                   .outcomes_max = 1 << 18,
                                   .outcome_retention_ms = 3600000,
                                   .create_queues = true,
                                   .version = "bench",
                                   .index_lag_max = 10 * (uint64_t)(READY + OVERLAY),
                                   .index_lag_hard = 10 * (uint64_t)(READY + OVERLAY)};
    tarry__policy__init(&options.policy);
    options.policy.lease_ms = 3600000;
    options.policy.max_attempts = 16;
    core = core_new(&options);
    if (!core) exit(2);
    arena_init(&effects_arena, SIZE_MAX);
    arena_init(&wants_arena, SIZE_MAX);
    core_effects_init(&effects, &effects_arena);
    now.steady_ns = now.wall_ns = 1700000000ull * 1000000000;
    struct core_event start = {.kind = CORE_START, .start.epoch = 1, .now = now};
    core_step(core, &start, &effects);
    core_effects_reset(&effects);
    Tarry__Request request = request_of(TARRY__REQUEST__BODY_HELLO);
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.hello = &hello;
    struct core_event event = {.kind = CORE_REQUEST, .now = now, .request = {.message = &request, .ticket = 1}};
    core_step(core, &event, &effects);
    producer = effects.replies.items[0].reply->hello->producer;
    core_effects_reset(&effects);
}

/* Builds, all at once, everything that a core may have to carry. */
static void load(void) {
    for (int i = 0; i < 4 * QUEUES; i += OPS) schedule(NULL, 0, 0);
    for (unsigned i = 0; i < QUEUES; i += SUBSCRIBED) subscribe(NULL, i, 3 * SUBSCRIBED);
    /* Each queue delivers a task that is up to 2 s late, and its consumer has no credit after that. */
    for (int i = 0; i < 2000; i++) tick();
    for (int i = 0; i < 2 * QUEUES; i += OPS) schedule(NULL, 0, 0);
    for (int i = 0; i < OVERLAY; i += OPS) schedule(i % 2 ? NULL : "q7", 86400000, 86400000);
    for (int i = 0; i < READY; i += OPS) schedule("big", 0, 0);
}

static void ask_list(void) {
    Tarry__List list = TARRY__LIST__INIT;
    list.queue = "q7";
    list.limit = LIST_LIMIT_MAX;
    Tarry__Request request = request_of(TARRY__REQUEST__BODY_LIST);
    request.list = &list;
    struct core_event event = {.kind = CORE_REQUEST,
                               .request = {.ticket = 1, .message = &request, .list.through = DUE_END}};
    /* The list needs several steps; a schedule between them shows that other requests are handled meanwhile. */
    while (!look(CALL_LIST, &event)) schedule(NULL, 3600000, 86400000);
    step(CALL_LIST, &event);
    if (effects.replies.items[0].reply->list->n_tasks == 0) exit(2);
    pack();
    core_look_end(core, &event);
    core_effects_reset(&effects);
}

static void ask_stats(void) {
    Tarry__Stats stats = TARRY__STATS__INIT;
    Tarry__Request request = request_of(TARRY__REQUEST__BODY_STATS);
    request.stats = &stats;
    struct core_event event = {.kind = CORE_REQUEST, .request = {.ticket = 1, .message = &request}};
    while (!look(CALL_STATS, &event)) tick();
    step(CALL_STATS, &event);
    if (effects.replies.items[0].reply->stats->n_queues != QUEUES + 1) exit(2);
    pack();
    core_look_end(core, &event);
    core_effects_reset(&effects);
}

int main(void) {
    begin();
    load();
    is_counted = true;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 4 == 0 && big_count < 16) big_sessions[big_count++] = subscribe("big", 0, PREFETCH_MAX);
        ask_list();
        ask_stats();
        schedule("big", 0, 0);
        tick();
    }
    bool is_slow = false;
    for (int call = 0; call < CALL_COUNT; call++) {
        printf("bench=core_steps call=%s worst_ms=%.2f mean_ms=%.3f calls=%llu\n", call_names[call], worst_ms[call],
               counts[call] ? total_ms[call] / (double)counts[call] : 0, (unsigned long long)counts[call]);
        is_slow |= worst_ms[call] > LIMIT_MS;
    }
    core_free(core);
    return is_slow ? 1 : 0;
}
