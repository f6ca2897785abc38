/* instructions.c: the frequent work in a task's life; instructions.py counts its instructions with callgrind.
 *
 *     request ─► unpack ─► schedule ─► lease ─► ack ─► trim     (net thread; core thread)
 *                            └── frames ─► decode ─► absorb     (index thread)
 *
 * Each kind of work has a function of its own, measured_…, that does nothing else; its preparations are not counted.
 * It waits for no disk, reads no clock, and uses no random numbers: two runs of one build have the same counts.
 * Prints how many tasks went through everything.
 *
 * instructions DIRECTORY       an empty directory, for the index */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "index.h"
#include "wire.h"

#define TASKS 16000u /* number of tasks; must not exceed PREFETCH_MAX */
#define OPS 200u     /* operations in each commit */
#define FRAMES_MAX 1024u
#define PAYLOAD 100u
#define START_NS (1700000000ull * 1000000000)
#define MEMORY ((size_t)64 << 20)

#define MEASURED __attribute__((noinline, noclone, no_icf))

struct kept_frame {
    struct frame_header header;
    uint8_t *body;
};
struct leased {
    uint64_t id;
    Tarry__Token token;
};

static struct core *core;
static struct index *tasks_index;
static struct arena effects_arena, wants_arena, request_arena, frame_arena;
static struct core_effects effects;
static struct instant now = {START_NS, START_NS};
static uint64_t producer, sequence, session;
static struct kept_frame frames[FRAMES_MAX];
static size_t frame_count;
static struct leased leased[TASKS];
static size_t leased_count;
static size_t record_count;

static void fail(const char *what) {
    fprintf(stderr, "instructions: %s failed\n", what);
    exit(1);
}

/* ---- measured work */

MEASURED static Tarry__Request *measured_unpack(const uint8_t *packed, size_t size) {
    return request_unpack(&request_arena, size, packed);
}

MEASURED static void measured_schedule(struct core_event *event) {
    /* No rows are needed, because all keys are new and the key filter shows that. */
    static const struct want nothing[1];
    struct want *wants = NULL;
    event->request.facts.want_count = core_wants(core, event, &wants_arena, NULL, &wants);
    event->request.facts.wants = event->request.facts.want_count > 0 ? wants : nothing;
    core_step(core, event, &effects);
}

MEASURED static void measured_lease(struct core_event *event) {
    core_step(core, event, &effects);
}

MEASURED static void measured_ack(struct core_event *event) {
    struct want *wants;
    if (core_wants(core, event, &wants_arena, NULL, &wants) != 0) fail("an ack");
    core_step(core, event, &effects);
}

MEASURED static void measured_trim(struct core_event *event) {
    core_step(core, event, &effects);
}

MEASURED static Tarry__FrameBody *measured_decode(const struct kept_frame *frame) {
    return frame_body_unpack(&frame_arena, frame->header.body_size, frame->body);
}

MEASURED static int measured_absorb(const struct kept_frame *frame, const Tarry__FrameBody *body) {
    return index_absorb(tasks_index, &frame->header, body);
}

/* ---- preparations */

static void keep_frames(void) {
    for (size_t i = 0; i < effects.appends.count; i++) {
        const struct core_append *append = &effects.appends.items[i];
        if (frame_count == FRAMES_MAX) fail("keeping frames");
        struct kept_frame *frame = &frames[frame_count++];
        uint64_t blob_size = 0;
        for (size_t k = 0; k < append->content_count; k++) blob_size += append->contents[k]->size;
        frame->header = (struct frame_header){.type = append->type,
                                              .epoch = append->epoch,
                                              .position = append->position,
                                              .steady_ns = append->now.steady_ns,
                                              .wall_ns = append->now.wall_ns,
                                              .body_size = append->body_size,
                                              .blob_size = (uint32_t)blob_size};
        frame->body = malloc(append->body_size + 1);
        if (!frame->body) fail("malloc");
        if (append->body_size > 0) memcpy(frame->body, append->body, append->body_size);
    }
}

static void keep_leases(void) {
    for (size_t i = 0; i < effects.deliveries.count; i++) {
        const struct core_delivery *delivery = &effects.deliveries.items[i];
        for (size_t k = 0; k < delivery->count; k++) {
            const struct row *row = &delivery->tasks[k].row;
            struct leased *one = &leased[leased_count++];
            one->id = row->id;
            tarry__token__init(&one->token);
            one->token.epoch = row->lease_epoch;
            one->token.position = row->lease_position;
        }
    }
}

static void end_step(void) {
    keep_frames();
    keep_leases();
    core_effects_reset(&effects);
    arena_reset(&wants_arena);
    arena_reset(&request_arena);
}

static Tarry__Request request_of(Tarry__Request__BodyCase body_case) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.version = WIRE_VERSION;
    request.client = "bench";
    request.body_case = body_case;
    return request;
}

/* Packs a commit as a client does; the caller frees it. */
static uint8_t *packed_commit(Tarry__Op **ops, size_t count, size_t *out_size) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.producer = producer;
    commit.sequence = commit.oldest_unanswered = ++sequence;
    commit.ops = ops;
    commit.n_ops = count;
    Tarry__Request request = request_of(TARRY__REQUEST__BODY_COMMIT);
    request.commit = &commit;
    *out_size = tarry__request__get_packed_size(&request);
    uint8_t *packed = malloc(*out_size);
    if (!packed) fail("malloc");
    tarry__request__pack(&request, packed);
    return packed;
}

static uint8_t *packed_schedules(size_t first, size_t *out_size) {
    static Tarry__Schedule schedules[OPS];
    static Tarry__Op ops[OPS], *pointers[OPS];
    static Tarry__When whens[OPS];
    static char keys[OPS][32];
    static uint8_t content[PAYLOAD + 3] = {0x12, PAYLOAD}; /* field 2 of a Content: the payload */
    for (size_t i = 0; i < OPS; i++) {
        tarry__schedule__init(&schedules[i]);
        tarry__op__init(&ops[i]);
        tarry__when__init(&whens[i]);
        schedules[i].queue = (first + i) % 4 == 0 ? "reminders" : "close-order";
        int size = snprintf(keys[i], sizeof(keys[i]), "order-%012zu", (first + i) * 7919);
        schedules[i].key = (ProtobufCBinaryData){(size_t)size, (uint8_t *)keys[i]};
        schedules[i].content = (ProtobufCBinaryData){PAYLOAD + 2, content};
        whens[i].ms = 1000 + (first + i) * 7919 % 4000;
        schedules[i].when = &whens[i];
        ops[i].op_case = TARRY__OP__OP_SCHEDULE;
        ops[i].schedule = &schedules[i];
        pointers[i] = &ops[i];
    }
    return packed_commit(pointers, OPS, out_size);
}

static uint8_t *packed_acks(size_t first, size_t count, size_t *out_size) {
    static Tarry__Ack acks[OPS];
    static Tarry__Op ops[OPS], *pointers[OPS];
    for (size_t i = 0; i < count; i++) {
        tarry__ack__init(&acks[i]);
        tarry__op__init(&ops[i]);
        acks[i].id = leased[first + i].id;
        acks[i].token = &leased[first + i].token;
        ops[i].op_case = TARRY__OP__OP_ACK;
        ops[i].ack = &acks[i];
        pointers[i] = &ops[i];
    }
    return packed_commit(pointers, count, out_size);
}

static struct core_event commit_event(uint8_t *packed, size_t size) {
    static struct core_content *contents; /* never freed */
    if (!contents) contents = calloc(OPS, sizeof(*contents));
    const Tarry__Request *request = measured_unpack(packed, size);
    if (!request || !contents) fail("a request");
    for (size_t i = 0; i < request->commit->n_ops; i++) {
        bool is_schedule = request->commit->ops[i]->op_case == TARRY__OP__OP_SCHEDULE;
        contents[i] = (struct core_content){.size = is_schedule ? BLOB_SALT_SIZE + PAYLOAD + 2 : 0};
        contents[i].sum = 0x9E3779B97F4A7C15u * sequence; /* any number with as many digits as a checksum */
    }
    return (struct core_event){
        .kind = CORE_REQUEST,
        .now = now,
        .request = {.ticket = 1, .message = request, .commit.contents = contents, .peer = "127.0.0.1:40312"}};
}

static void schedule_all(void) {
    for (size_t first = 0; first < TASKS; first += OPS) {
        size_t size;
        uint8_t *packed = packed_schedules(first, &size);
        struct core_event event = commit_event(packed, size);
        measured_schedule(&event);
        end_step();
        free(packed);
    }
}

static void lease_all(void) {
    now.steady_ns += 6000ull * 1000000; /* advances by 6 s, which is less than a session's silence limit */
    now.wall_ns += 6000ull * 1000000;
    struct core_event tick = {.kind = CORE_TICK, .now = now};
    measured_lease(&tick);
    for (size_t before = leased_count; effects.deliveries.count > 0 || leased_count < TASKS; before = leased_count) {
        end_step();
        struct core_event sent = {.kind = CORE_LANE_SENT,
                                  .now = now,
                                  .lane = {.session = session,
                                           .ok = leased_count > before,
                                           .delivered_ns = now.steady_ns}};
        measured_lease(leased_count > before ? &sent : &tick);
    }
    end_step();
}

static void ack_all(void) {
    for (size_t first = 0; first < leased_count; first += OPS) {
        size_t size, count = leased_count - first < OPS ? leased_count - first : OPS;
        uint8_t *packed = packed_acks(first, count, &size);
        struct core_event event = commit_event(packed, size);
        measured_ack(&event);
        end_step();
        free(packed);
    }
}

static void trim_all(void) {
    struct core_event durable = {.kind = CORE_DURABLE, .now = now, .position = core_position(core)};
    core_step(core, &durable, &effects);
    struct core_event event = {.kind = CORE_INDEXED, .now = now, .position = core_position(core)};
    measured_trim(&event);
    struct core_event tick = {.kind = CORE_TICK, .now = now};
    for (int i = 0; i < 100; i++) measured_trim(&tick);
    end_step();
}

static void index_all(void) {
    for (size_t i = 0; i < frame_count; i++) {
        if (frames[i].header.type != FRAME_COMMIT) fail("a frame of another type");
        Tarry__FrameBody *body = measured_decode(&frames[i]);
        if (body == NULL || measured_absorb(&frames[i], body) != 0) fail("absorbing");
        record_count += body->n_records;
        arena_reset(&frame_arena);
        free(frames[i].body);
    }
}

static void begin(const char *directory) {
    struct core_options options = {.memory = MEMORY,
                                   .outcomes_max = 1 << 15,
                                   .outcome_retention_ms = 3600000,
                                   .create_queues = true,
                                   .version = "bench",
                                   .index_lag_max = 10 * TASKS,
                                   .index_lag_hard = 10 * TASKS};
    struct index_options index_options = {.directory = directory,
                                          .memory = MEMORY,
                                          .map_size = MEMORY,
                                          .outcomes_max = 1 << 15,
                                          .outcome_retention_ms = 3600000,
                                          .no_sync = true};
    char message[256];
    tarry__policy__init(&options.policy);
    options.policy.lease_ms = 3600000;
    options.policy.max_attempts = 16;
    core = core_new(&options);
    if (!core || index_open(&tasks_index, &index_options, message, sizeof(message)) != 0) fail("opening");
    arena_init(&effects_arena, SIZE_MAX);
    arena_init(&wants_arena, SIZE_MAX);
    arena_init(&request_arena, SIZE_MAX);
    arena_init(&frame_arena, SIZE_MAX);
    core_effects_init(&effects, &effects_arena);
    struct core_event start = {.kind = CORE_START, .start.epoch = 1, .now = now};
    core_step(core, &start, &effects);
    end_step();
    Tarry__Request request = request_of(TARRY__REQUEST__BODY_HELLO);
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.hello = &hello;
    struct core_event event = {.kind = CORE_REQUEST, .now = now, .request = {.message = &request, .ticket = 1}};
    core_step(core, &event, &effects);
    producer = effects.replies.items[0].reply->hello->producer;
    end_step();
    char *queues[] = {"close-order", "reminders"};
    Tarry__Subscribe subscribe = TARRY__SUBSCRIBE__INIT;
    subscribe.queues = queues;
    subscribe.n_queues = 2;
    subscribe.prefetch = PREFETCH_MAX;
    request = request_of(TARRY__REQUEST__BODY_SUBSCRIBE);
    request.subscribe = &subscribe;
    event = (struct core_event){.kind = CORE_REQUEST,
                                .now = now,
                                .request = {.ticket = 1, .message = &request, .peer = "peer"}};
    core_step(core, &event, &effects);
    session = effects.replies.items[0].reply->subscribe->session;
    end_step();
    event = (struct core_event){.kind = CORE_LANE_UP, .now = now, .lane.session = session};
    core_step(core, &event, &effects);
    end_step();
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    begin(argv[1]);
    schedule_all();
    lease_all();
    ack_all();
    trim_all();
    if (core_live(core) != 0 || leased_count != TASKS) fail("a life");
    index_all();
    printf("tasks=%u records=%zu frames=%zu\n", TASKS, record_count, frame_count);
    core_free(core);
    index_close(tasks_index);
    return 0;
}
