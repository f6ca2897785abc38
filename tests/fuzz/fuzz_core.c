/* fuzz_core.c: sends event streams to a real core: commits with any operations, sessions and lanes, time, a log that
 * becomes durable and is absorbed late, reads of the index that return even later, restarts. Four conditions hold after
 * every step. The digest equals the records' digest (LOG-2). Frames follow one another without a gap. Every request is
 * answered at most once. Nothing is delivered early (TIME-1). A core made from the log alone has the same digest and
 * keeps every invariant.
 *
 * The test replaces the rest of the broker by a minimum: the frames, a copy of the index's rows as of some frame,
 * running reads, and unsent deliveries. Other faults of consumers, clients and disks are tested in tests/sim.
 *
 * The input is the stream: opcodes and operands. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../appended.h"
#include "core.h"
#include "fuzz.h"
#include "input.h"
#include "ops.h"
#include "past.h"
#include "picks.h"

#define FRAMES_MAX 512
#define IDS_MAX 256 /* number of task ids; the run stops when it has used them all */
#define READS_MAX 24
#define DELIVERIES_MAX 64
#define SESSIONS_MAX_HERE 6
#define HELD_MAX 32
#define TICKETS_MAX 1024

struct frame {
    struct frame_header header;
    Tarry__FrameBody *body; /* NULL: the frame is a seal */
    uint64_t digest;
};

struct read { /* a read of the index that was requested for an event or for an effect */
    bool was_read;
    int hold; /* hold of the overlay that belongs to the read; -1: none */
    struct core_event
        event; /* the event that gets the rows; reads of the kinds WINDOW and PAGE make it when they run */
    const struct want *wants;
    size_t want_count;
    struct core_window window;
    struct core_page page;
};

static struct {
    struct input input;
    struct core *core;
    struct core_effects effects;
    struct arena arena;  /* memory of the effects */
    struct arena memory; /* memory of the history */
    struct instant now;
    uint32_t epoch;
    struct frame frames[FRAMES_MAX];
    size_t frame_count, durable, indexed; /* numbers of frames: all, durable, in the index */
    struct tally tally;                   /* counts and digest after all records */
    struct row rows[IDS_MAX]; /* rows by id, as of `indexed`; id 0: no row; keys and reasons point into the frames */
    struct read reads[READS_MAX];
    size_t read_count;
    struct core_delivery deliveries[DELIVERIES_MAX];
    size_t delivery_count;
    uint64_t sessions[SESSIONS_MAX_HERE]; /* the sessions that exist; 0: an unused entry */
    struct ops_lease held[HELD_MAX];
    size_t held_count;
    uint8_t tickets[TICKETS_MAX]; /* state of each ticket: 1 the request has no answer yet, 2 it has one */
    size_t ticket_count;
    uint64_t producers[2], sequences[2];
    bool over; /* a limit of this rig was reached */
} world;

static struct queue_tally queues[QUEUE_PLACES + 1];
static struct core_options options = {
    .memory = 8u << 20,
    .outcomes_max = 64,
    .outcome_retention_ms = 3600000,
    .ahead_ms = LEASE_AHEAD_MS,
    .create_queues = true,
    .policy = {.base = PROTOBUF_C_MESSAGE_INIT(&tarry__policy__descriptor),
               .push = (char *)protobuf_c_empty_string,
               .filter = (char *)protobuf_c_empty_string,
               .lease_ms = 1000,
               .max_attempts = 3,
               .backoff_min_ms = 100,
               .backoff_max_ms = 1000},
    .version = "fuzz",
};

static void *keep(size_t size) {
    return ops_keep(&world.memory, size);
}

static uint8_t byte(void) {
    return input_byte(&world.input);
}

/* ---- effects */

/* Returns where the first `count` frames end. */
static uint64_t end_of(size_t count) {
    if (count == 0) return LOG_POSITION_FIRST;
    const struct frame_header *last = &world.frames[count - 1].header;
    return last->position + frame_size(last->body_size, last->blob_size);
}

static uint64_t end_of_log(void) {
    return end_of(world.frame_count);
}

static bool has_ended(uint64_t id) {
    size_t i = 0;
    while (i < world.frame_count && !past_ends(world.frames[i].body, id)) i++;
    return i < world.frame_count;
}

/* Checks that no live task loses its content (KEEP-1). */
static void check_redactions(const Tarry__FrameBody *body) {
    for (size_t i = 0; body != NULL && i < body->n_records; i++)
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_REDACTION)
            assert(has_ended(body->records[i]->redaction->id));
}

static void take_append(const struct core_append *append) {
    if (world.frame_count == FRAMES_MAX) abort(); /* the caller must have checked that there is room */
    struct frame *frame = &world.frames[world.frame_count];
    assert(append->position == end_of_log() && append->epoch == world.epoch);
    frame->header = appended_header(append);
    frame->body = NULL;
    frame->digest = 0;
    if (append->type == FRAME_COMMIT) {
        frame->body = tarry__frame_body__unpack(&world.memory.pb, append->body_size, append->body);
        assert(frame->body != NULL);
    }
    for (size_t i = 0; frame->body != NULL && i < frame->body->n_records; i++) {
        bool makes_sense = tally_record(&world.tally, frame->body->records[i]);
        assert(makes_sense);
    }
    world.frame_count++;
    check_redactions(frame->body);
}

static void take_reply(const struct core_reply *reply) {
    if (reply->ticket == 0) return;
    assert(reply->ticket <= world.ticket_count && world.tickets[reply->ticket - 1] == 1);
    world.tickets[reply->ticket - 1] = 2;
    assert(reply->after <= end_of_log());
    assert((reply->reply != NULL) + (reply->commit != NULL) + (reply->repeat_position != 0) == 1);
    if (reply->reply == NULL) return;
    if (reply->reply->body_case == TARRY__REPLY__BODY_HELLO && world.producers[1] == 0)
        world.producers[world.producers[0] != 0] = reply->reply->hello->producer;
    assert(reply->reply->code == TARRY__CODE__OK || reply->reply->message[0] != 0);
    assert(tarry__reply__get_packed_size(reply->reply) < 1u << 20);
}

static void take_delivery(const struct core_delivery *delivery) {
    for (size_t i = 0; i < delivery->count; i++) {
        const struct row *row = &delivery->tasks[i].row;
        uint64_t now_ns = row->base == ROW_WALL ? world.now.wall_ns : world.now.steady_ns;
        assert(row->state == ROW_LEASED && row->due_ms <= now_ns / 1000000); /* TIME-1 */
        assert(delivery->after > row->lease_position);                       /* LOG-1 */
        if (world.held_count < HELD_MAX)
            world.held[world.held_count++] = (struct ops_lease){row->id, row->lease_position, row->lease_epoch};
    }
    assert(delivery->after <= end_of_log() && delivery->count > 0);
    if (world.delivery_count < DELIVERIES_MAX)
        world.deliveries[world.delivery_count++] = *delivery;
    else
        world.over = true;
}

static struct read *new_read(void) {
    if (world.read_count == READS_MAX) {
        world.over = true;
        return NULL;
    }
    struct read *read = &world.reads[world.read_count++];
    *read = (struct read){.hold = -1};
    return read;
}

static void take_lane(const struct core_lane *lane) {
    for (size_t i = 0; i < SESSIONS_MAX_HERE; i++) {
        if (world.sessions[i] != (lane->open ? 0 : lane->session)) continue;
        world.sessions[i] = lane->open ? lane->session : 0;
        return;
    }
}

static void take_effects(void) {
    struct core_effects *effects = &world.effects;
    struct read *read;
    for (size_t i = 0; i < effects->appends.count; i++) take_append(&effects->appends.items[i]);
    for (size_t i = 0; i < effects->replies.count; i++) take_reply(&effects->replies.items[i]);
    for (size_t i = 0; i < effects->lanes.count; i++) take_lane(&effects->lanes.items[i]);
    for (size_t i = 0; i < effects->deliveries.count; i++) take_delivery(&effects->deliveries.items[i]);
    for (size_t i = 0; i < effects->windows.count && (read = new_read()) != NULL; i++) {
        read->event.kind = CORE_WINDOW;
        read->window = effects->windows.items[i];
    }
    for (size_t i = 0; i < effects->pages.count && (read = new_read()) != NULL; i++) {
        read->event.kind = CORE_PAGE;
        read->page = effects->pages.items[i];
    }
    if (effects->appends.count > 0) world.frames[world.frame_count - 1].digest = core_digest(world.core);
    core_effects_reset(effects);
    if (world.frame_count > FRAMES_MAX - 64 || world.tally.next_id > IDS_MAX - 16) world.over = true;
}

static void step(struct core_event *event) {
    event->now = world.now;
    core_step(world.core, event, &world.effects);
    take_effects();
    assert(core_position(world.core) == end_of_log());
    assert(core_digest(world.core) == world.tally.digest && core_live(world.core) == world.tally.live);
}

static void tick(void) {
    struct core_event event = {.kind = CORE_TICK};
    step(&event);
}

/* ---- reads: requested, executed, handed in */

/* Gives an event to the core. If the event needs rows that are not read yet, adds it to the reads instead. */
static void post(struct core_event *event, int hold) {
    struct want *wants = NULL;
    size_t count = 0;
    const bool is_request = event->kind == CORE_REQUEST;
    const Tarry__Request__BodyCase body =
        is_request ? event->request.message->body_case : TARRY__REQUEST__BODY__NOT_SET;
    if (body == TARRY__REQUEST__BODY_COMMIT) tick();
    bool lists = body == TARRY__REQUEST__BODY_LIST && event->request.list.rows == NULL;
    if (!lists) count = core_wants(world.core, event, &world.memory, NULL, &wants);
    if (count == 0 && !lists) {
        step(event);
        if (hold >= 0) core_unhold(world.core, hold);
        return;
    }
    struct read *read = new_read();
    if (hold < 0) hold = core_hold(world.core);
    if (read == NULL || hold < 0) {
        world.over = true;
        return;
    }
    read->event = *event;
    read->wants = wants;
    read->want_count = count;
    read->hold = hold;
}

struct rows {
    struct row rows[IDS_MAX];
    size_t count;
};

/* Returns the index rows that `fits` accepts, ordered by (due, id) or by id. */
static struct rows *select_rows(bool (*fits)(const struct row *row, const void *argument), const void *argument,
                                bool by_due) {
    struct rows *out = keep(sizeof(*out));
    for (size_t id = 1; id < IDS_MAX; id++)
        if (world.rows[id].id != 0 && fits(&world.rows[id], argument)) out->rows[out->count++] = world.rows[id];
    if (by_due && out->count > 1) qsort(out->rows, out->count, sizeof(out->rows[0]), pick_compare);
    return out;
}

/* Limits the rows to `count_max`, and stores their number. Returns the (due, id) up to which they are complete. */
static struct due give_rows(const struct rows *rows, size_t count_max, uint64_t until_ms, size_t *out_count) {
    size_t within = 0;
    while (within < rows->count && rows->rows[within].due_ms <= until_ms) within++;
    *out_count = within < count_max ? within : count_max;
    if (*out_count == within) return within < rows->count ? (struct due){until_ms, UINT64_MAX} : DUE_END;
    const struct row *last = &rows->rows[*out_count - 1];
    return (struct due){last->due_ms, last->id};
}

static void read_facts(struct read *read) {
    struct core_facts *facts = core_facts_of(&read->event);
    const struct core_facts wanted = {.wants = read->wants, .want_count = read->want_count};
    const struct rows *found = select_rows(pick_wanted, &wanted, false);
    struct row *rows = keep((facts->count + found->count) * sizeof(*rows));
    struct want *wants = keep((facts->want_count + read->want_count) * sizeof(*wants));
    if (facts->count > 0) memcpy(rows, facts->rows, facts->count * sizeof(*rows));
    if (found->count > 0) memcpy(rows + facts->count, found->rows, found->count * sizeof(*rows));
    if (facts->want_count > 0) memcpy(wants, facts->wants, facts->want_count * sizeof(*wants));
    if (read->want_count > 0) memcpy(wants + facts->want_count, read->wants, read->want_count * sizeof(*wants));
    *facts = (struct core_facts){rows, facts->count + found->count, wants, facts->want_count + read->want_count};
}

static void read_index(struct read *read) {
    struct core_event *event = &read->event;
    read->was_read = true;
    if (event->kind == CORE_WINDOW) {
        const struct rows *rows = select_rows(pick_window, &read->window, true);
        struct core_loaded *loaded = &event->window;
        loaded->line = read->window.line;
        loaded->rows = rows->rows;
        loaded->through = give_rows(rows, read->window.count_max, read->window.until_ms, &loaded->row_count);
    } else if (event->kind == CORE_PAGE) {
        size_t count_max = 1 + byte() % 4;
        const struct rows *rows = select_rows(pick_page, &read->page, false);
        event->page.job = read->page.job;
        event->page.rows = rows->rows;
        event->page.row_count = rows->count < count_max ? rows->count : count_max;
        event->page.next_id = rows->count > count_max ? rows->rows[count_max - 1].id : UINT64_MAX;
    } else if (event->request.message->body_case == TARRY__REQUEST__BODY_LIST) {
        struct core_list_plan plan;
        core_plan_list(world.core, event->request.message->list, &plan);
        const struct rows *rows = select_rows(pick_list, &plan, true);
        event->request.list.rows = rows->rows;
        event->request.list.through = give_rows(rows, 1 + byte() % 4, UINT64_MAX, &event->request.list.row_count);
    } else {
        read_facts(read);
    }
}

static void go_on_reading(void) {
    if (world.read_count == 0) return;
    size_t at = input_below(&world.input, world.read_count);
    if (!world.reads[at].was_read) {
        read_index(&world.reads[at]);
        return;
    }
    struct read read = world.reads[at];
    world.reads[at] = world.reads[--world.read_count];
    post(&read.event, read.hold);
}

/* ---- the log */

static void sync_some(void) {
    size_t left = world.frame_count - world.durable;
    if (left == 0) return;
    world.durable += 1 + input_below(&world.input, left);
    struct core_event event = {.kind = CORE_DURABLE, .position = end_of(world.durable)};
    step(&event);
}

static void mirror(const Tarry__Record *record) {
    const Tarry__Task *task = NULL;
    if (record->fact_case == TARRY__RECORD__FACT_PUT) task = record->put->task;
    if (record->fact_case == TARRY__RECORD__FACT_END) task = record->end->task;
    if (task == NULL || task->id >= IDS_MAX) return;
    struct row *row = &world.rows[task->id];
    bool fine = row_from_task(task, row);
    assert(fine);
    if (record->fact_case == TARRY__RECORD__FACT_END) row->id = 0;
}

static void absorb_some(void) {
    size_t left = world.durable - world.indexed;
    if (left == 0) return;
    for (size_t count = 1 + input_below(&world.input, left); count > 0; count--) {
        const Tarry__FrameBody *body = world.frames[world.indexed++].body;
        for (size_t i = 0; body != NULL && i < body->n_records; i++) mirror(body->records[i]);
    }
    struct core_event event = {.kind = CORE_INDEXED, .position = end_of(world.indexed)};
    step(&event);
}

static void start(void) {
    struct core_event event = {.kind = CORE_START, .start.epoch = ++world.epoch};
    step(&event);
}

/* Returns a core that is made from the log alone. */
static struct core *replayed(void) {
    struct core *core = core_new(&options);
    if (core == NULL) abort();
    for (size_t i = 0; i < world.frame_count; i++) {
        int result = core_replay(core, &world.frames[i].header, world.frames[i].body);
        assert(result == 0);
        assert(world.frames[i].digest == 0 || core_digest(core) == world.frames[i].digest);
    }
    core_check(core);
    return core;
}

/* Loses the frames that are not durable, makes the index again, and starts a new core. */
static void restart(void) {
    world.frame_count = world.durable;
    memset(queues, 0, (OPS_QUEUES + 1) * sizeof(queues[0]));
    tally_init(&world.tally, queues);
    for (size_t i = 0; i < world.frame_count; i++)
        for (size_t j = 0; world.frames[i].body != NULL && j < world.frames[i].body->n_records; j++)
            tally_record(&world.tally, world.frames[i].body->records[j]);
    core_free(world.core);
    world.core = replayed();
    assert(core_digest(world.core) == world.tally.digest);
    world.read_count = world.delivery_count = world.indexed = 0;
    memset(world.rows, 0, sizeof(world.rows));
    memset(world.sessions, 0, sizeof(world.sessions));
    memset(world.tickets, 2, sizeof(world.tickets)); /* requests without an answer will never get one */
    start();
}

/* ---- clients */

static struct ops_source source(void) {
    return (struct ops_source){.input = &world.input,
                               .arena = &world.memory,
                               .wall_ms = world.now.wall_ns / 1000000,
                               .epoch = world.epoch,
                               .held = world.held,
                               .held_count = world.held_count};
}

static Tarry__Request *new_request(Tarry__Request__BodyCase body) {
    Tarry__Request *request = OPS_NEW(&world.memory, Tarry__Request, tarry__request__init);
    request->body_case = body;
    return request;
}

static void ask(const Tarry__Request *request, const struct core_content *contents, const struct core_past *past) {
    if (world.ticket_count == TICKETS_MAX) {
        world.over = true;
        return;
    }
    world.tickets[world.ticket_count++] = 1;
    struct core_event event = {.kind = CORE_REQUEST, .request = {.ticket = world.ticket_count, .message = request}};
    if (request->body_case == TARRY__REQUEST__BODY_COMMIT) {
        event.request.commit.contents = contents;
        event.request.commit.past = past;
    }
    post(&event, -1);
}

/* Finds the tasks of a redaction, as the broker does with a search through the log. */
static void search(const Tarry__Redact *redact, struct core_past *out) {
    uint32_t queue = core_queue_number(world.core, redact->task->queue);
    *out = (struct core_past){.tasks = keep(IDS_MAX * sizeof(*out->tasks)), .id_end = core_id_end(world.core)};
    for (size_t i = 0; i < world.frame_count; i++)
        past_take(out, redact, queue, &world.frames[i].header, world.frames[i].body);
}

static void commit(void) {
    uint8_t how = byte();
    Tarry__Request *request = new_request(TARRY__REQUEST__BODY_COMMIT);
    Tarry__Commit *commit = request->commit = OPS_NEW(&world.memory, Tarry__Commit, tarry__commit__init);
    commit->producer = world.producers[how % 2];
    uint64_t *sequence = &world.sequences[how % 2];
    commit->sequence = how / 2 % 8 == 0 && *sequence > 0 ? 1 + byte() % *sequence
                                                         : ++*sequence; /* sometimes repeats an earlier sequence */
    commit->oldest_unanswered = how / 16 % 4 == 0 ? commit->sequence : 1;
    commit->atomic = how / 64 % 2;
    commit->n_ops = 1 + byte() % 4;
    commit->ops = keep(commit->n_ops * sizeof(*commit->ops));
    struct core_content *contents = keep(commit->n_ops * sizeof(*contents));
    struct ops_source from = source();
    struct core_past *past = NULL;
    for (size_t i = 0; i < commit->n_ops; i++) {
        commit->ops[i] = ops_any(&from);
        if (commit->ops[i]->op_case == TARRY__OP__OP_REDACT) {
            if (past == NULL) past = keep(commit->n_ops * sizeof(*past));
            search(commit->ops[i]->redact, &past[i]);
        }
        if (commit->ops[i]->op_case != TARRY__OP__OP_SCHEDULE) continue;
        contents[i].size = byte(), contents[i].sum = world.ticket_count;
    }
    ask(request, contents, past);
}

static void subscribe(void) {
    Tarry__Request *request = new_request(TARRY__REQUEST__BODY_SUBSCRIBE);
    Tarry__Subscribe *subscribe = request->subscribe = OPS_NEW(&world.memory, Tarry__Subscribe, tarry__subscribe__init);
    size_t open = 0;
    for (size_t i = 0; i < SESSIONS_MAX_HERE; i++) open += world.sessions[i] != 0;
    if (open == SESSIONS_MAX_HERE) return;
    subscribe->queues = (char **)ops_queues;
    subscribe->n_queues = 1 + byte() % OPS_QUEUES;
    subscribe->prefetch = 1 + byte() % 8;
    subscribe->lease_ms = byte() % 2 ? 200 : 0;
    ask(request, NULL, NULL);
}

static void end_session(void) {
    uint64_t session = world.sessions[byte() % SESSIONS_MAX_HERE];
    if (session == 0) return;
    Tarry__Request *request = new_request(TARRY__REQUEST__BODY_UNSUBSCRIBE);
    Tarry__Unsubscribe *unsubscribe = request->unsubscribe =
        OPS_NEW(&world.memory, Tarry__Unsubscribe, tarry__unsubscribe__init);
    unsubscribe->session = session;
    unsubscribe->keep_leases = byte() % 2;
    unsubscribe->seen = keep(sizeof(uint64_t));
    unsubscribe->seen[0] = 1 + byte() % 32;
    unsubscribe->n_seen = byte() % 2;
    ask(request, NULL, NULL);
}

static void lane(enum core_event_kind kind) {
    uint64_t session = world.sessions[byte() % SESSIONS_MAX_HERE];
    struct core_event event = {.kind = kind, .lane.session = session};
    if (session != 0) step(&event);
}

/* Sends the oldest waiting delivery, or loses it if its lane is lost. */
static void send_delivery(void) {
    for (size_t i = 0; i < world.delivery_count; i++) {
        if (world.deliveries[i].after > end_of(world.durable)) continue;
        struct core_event event = {.kind = CORE_LANE_SENT, .lane.session = world.deliveries[i].session};
        event.lane.ok = byte() % 8 != 0;
        event.lane.delivered_ns = world.now.steady_ns;
        world.deliveries[i] = world.deliveries[--world.delivery_count];
        step(&event);
        return;
    }
}

static void look(void) {
    struct ops_source from = source();
    uint8_t what = byte();
    if (what % 2 == 0) {
        Tarry__Request *request = new_request(TARRY__REQUEST__BODY_GET);
        request->get = OPS_NEW(&world.memory, Tarry__Get, tarry__get__init);
        request->get->task = ops_ref(&from);
        ask(request, NULL, NULL);
    } else {
        Tarry__Request *request = new_request(TARRY__REQUEST__BODY_LIST);
        request->list = OPS_NEW(&world.memory, Tarry__List, tarry__list__init);
        request->list->queue = (char *)ops_queues[what / 2 % OPS_QUEUES];
        request->list->states = what / 8 % 16;
        ask(request, NULL, NULL);
    }
}

static void advance(void) {
    uint8_t how = byte();
    uint64_t ns = ((uint64_t)byte() << how % 24) * 1000000;
    world.now.steady_ns += ns;
    if (how / 32 != 0)
        world.now.wall_ns += ns; /* sometimes only the steady clock advances, and the wall clock stands still */
    tick();
}

static void turn(void) {
    switch (byte() % 16) {
    case 0:
        advance();
        break;
    case 1:
        sync_some();
        break;
    case 2:
        absorb_some();
        break;
    case 3:
    case 4:
        go_on_reading();
        break;
    case 5:
        subscribe();
        break;
    case 6:
        lane(byte() % 4 ? CORE_LANE_UP : CORE_LANE_GONE);
        break;
    case 7:
        send_delivery();
        break;
    case 8:
        end_session();
        break;
    case 9:
        look();
        break;
    case 10:
        if (byte() % 4 == 0) restart();
        break;
    case 11:
        ask(new_request(TARRY__REQUEST__BODY_HELLO), NULL, NULL);
        break;
    default:
        commit();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 2048) return 0;
    memset(&world, 0, sizeof(world));
    memset(queues, 0, (OPS_QUEUES + 1) * sizeof(queues[0]));
    world.input = (struct input){data, size};
    arena_init(&world.arena, 64u << 20);
    arena_init(&world.memory, 256u << 20);
    core_effects_init(&world.effects, &world.arena);
    tally_init(&world.tally, queues);
    world.now = (struct instant){.steady_ns = 1000000000000ull, .wall_ns = 1000000000000ull};
    options.near_max = byte() % 8; /* limit of near tasks in memory; so small that the test reaches it; 0: no limit */
    world.core = core_new(&options);
    if (world.core == NULL) abort();
    start();
    ask(new_request(TARRY__REQUEST__BODY_HELLO), NULL, NULL);
    while (world.input.size > 0 && !world.over) turn();
    core_check(world.core);
    struct core *again = replayed();
    assert(core_digest(again) == core_digest(world.core) && core_live(again) == core_live(world.core));
    core_free(again);
    core_free(world.core);
    arena_deinit(&world.memory);
    arena_deinit(&world.arena);
    return 0;
}
