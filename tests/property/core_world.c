/* core_world.c: see core_world.h. */
#include "core_world.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"

#define MEMORY_MAX (64u << 20)

void *world_alloc(struct world *world, size_t size) {
    void *out = arena_alloc(&world->memory, size ? size : 1);
    MUST(out);
    memset(out, 0, size);
    return out;
}

static void *copy(struct world *world, const void *data, size_t size) {
    void *out = world_alloc(world, size);
    if (size) memcpy(out, data, size);
    return out;
}

static void start_core(struct world *world, uint32_t epoch);

void world_init(struct world *world, uint64_t seed, const struct core_options *options) {
    memset(world, 0, sizeof *world);
    world->random.state = seed;
    world->options = *options;
    arena_init(&world->arena, MEMORY_MAX);
    arena_init(&world->memory, MEMORY_MAX);
    core_effects_init(&world->effects, &world->arena);
    world->now = (struct instant){.steady_ns = 1000000000000ull, .wall_ns = 1000000000000ull};
    world->durable = LOG_POSITION_FIRST;
    flat_init(&world->index);
    flat_init(&world->head);
    world->core = core_new(options);
    MUST(world->core);
}

void world_deinit(struct world *world) {
    core_free(world->core);
    for (size_t i = 0; i < world->frame_count; i++) free(world->frames[i].body);
    arena_deinit(&world->arena);
    arena_deinit(&world->memory);
}

static Tarry__FrameBody *unpack(const struct world_frame *frame) {
    if (frame->header.type != FRAME_COMMIT) return NULL;
    Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, frame->header.body_size, frame->body);
    MUST(body);
    return body;
}

static void drop(Tarry__FrameBody *body) {
    if (body) tarry__frame_body__free_unpacked(body, NULL);
}

/* ---- effects */

static void take_append(struct world *world, const struct core_append *append) {
    MUST(world->frame_count < WORLD_FRAMES_MAX);
    struct world_frame *frame = &world->frames[world->frame_count++];
    uint32_t blob_size = 0;
    for (size_t i = 0; i < append->content_count; i++) blob_size += append->contents[i]->size;
    frame->digest = 0;
    frame->header = (struct frame_header){
        .type = append->type,
        .epoch = append->epoch,
        .body_size = append->body_size,
        .blob_size = blob_size,
        .position = append->position,
        .steady_ns = append->now.steady_ns,
        .wall_ns = append->now.wall_ns,
    };
    frame->body = malloc(append->body_size + 1);
    MUST(frame->body);
    if (append->body_size) memcpy(frame->body, append->body, append->body_size);
    Tarry__FrameBody *body = unpack(frame);
    flat_apply(&world->head, &frame->header, body);
    if (body && world->on_frame) world->on_frame(world->observer, body);
    drop(body);
}

static const struct world_frame *frame_at(const struct world *world, uint64_t position) {
    for (size_t i = 0; i < world->frame_count; i++) {
        if (world->frames[i].header.position == position) return &world->frames[i];
    }
    return NULL;
}

/* A copy that outlives the effects: packed and unpacked again, which the wire does too. */
static void take_reply(struct world *world, const struct core_reply *reply) {
    if (!reply->ticket) return;
    MUST(world->reply_count < WORLD_FRAMES_MAX);
    struct world_reply *out = &world->replies[world->reply_count++];
    *out = (struct world_reply){.ticket = reply->ticket, .after = reply->after};
    if (reply->repeat_position) {
        const struct world_frame *frame = frame_at(world, reply->repeat_position);
        MUST(frame); /* ONCE-1: the answer lies where the core says */
        Tarry__FrameBody *body = unpack(frame);
        MUST(body->producer == reply->repeat_producer && body->sequence == reply->repeat_sequence);
        out->commit = tarry__commit_reply__unpack(&world->memory.pb, body->reply.len, body->reply.data);
        drop(body);
    } else if (reply->commit) {
        out->commit = tarry__commit_reply__unpack(&world->memory.pb, reply->commit_size, reply->commit);
    } else {
        size_t size = tarry__reply__get_packed_size(reply->reply);
        uint8_t *bytes = world_alloc(world, size);
        tarry__reply__pack(reply->reply, bytes);
        out->reply = tarry__reply__unpack(&world->memory.pb, size, bytes);
    }
    MUST(out->reply || out->commit);
}

static void take_delivery(struct world *world, const struct core_delivery *delivery) {
    MUST(world->delivery_count < 256);
    struct core_delivery *out = &world->deliveries[world->delivery_count++].delivery;
    *out = *delivery;
    struct core_delivered *tasks = copy(world, delivery->tasks, delivery->count * sizeof *tasks);
    for (size_t i = 0; i < delivery->count; i++) {
        tasks[i].row.key = copy(world, tasks[i].row.key, tasks[i].row.key_size);
    }
    out->tasks = tasks;
}

static struct waiting *wait_for(struct world *world, enum waiting_kind kind) {
    MUST(world->waiting_count < WORLD_WAITING_MAX);
    struct waiting *waiting = &world->waiting[world->waiting_count++];
    *waiting = (struct waiting){.kind = kind, .hold = -1};
    return waiting;
}

static void take_lane(struct world *world, const struct core_lane *lane) {
    for (size_t i = 0; i < WORLD_SESSIONS_MAX; i++) {
        struct world_session *session = &world->sessions[i];
        if (!lane->open && session->id == lane->session) {
            *session = (struct world_session){0};
            return;
        }
        if (lane->open && (!session->id || session->id == lane->session)) {
            *session = (struct world_session){.id = lane->session};
            return;
        }
    }
    MUST(!lane->open);
}

static void take_effects(struct world *world) {
    struct core_effects *effects = &world->effects;
    for (size_t i = 0; i < effects->appends.count; i++) take_append(world, &effects->appends.items[i]);
    for (size_t i = 0; i < effects->replies.count; i++) take_reply(world, &effects->replies.items[i]);
    for (size_t i = 0; i < effects->lanes.count; i++) take_lane(world, &effects->lanes.items[i]);
    for (size_t i = 0; i < effects->deliveries.count; i++) take_delivery(world, &effects->deliveries.items[i]);
    for (size_t i = 0; i < effects->windows.count; i++) {
        wait_for(world, WAITING_WINDOW)->window = effects->windows.items[i];
    }
    for (size_t i = 0; i < effects->pages.count; i++) wait_for(world, WAITING_PAGE)->page = effects->pages.items[i];
    if (effects->appends.count) world->frames[world->frame_count - 1].digest = core_digest(world->core);
    core_effects_reset(effects);
    MUST(world->head.position == core_position(world->core));
}

static void step(struct world *world, struct core_event *event) {
    event->now = world->now;
    if (event->kind == CORE_COMMIT && world->before_commit) world->before_commit(world->observer, event);
    core_step(world->core, event, &world->effects);
    take_effects(world);
    if (world->steps++ % 16 == 0) core_check(world->core);
    MUST(core_digest(world->core) == flat_digest(&world->head)); /* the core against the flat table */
}

/* What time brings about comes first: then the prediction sees it. */
static void tick(struct world *world) {
    struct core_event event = {.kind = CORE_TICK};
    step(world, &event);
}

void world_post(struct world *world, struct core_event *event) {
    if (event->kind == CORE_COMMIT) tick(world);
    if (event->kind == CORE_LIST) {
        struct waiting *waiting = wait_for(world, WAITING_LIST);
        waiting->event = *event;
        waiting->hold = core_hold(world->core);
        return;
    }
    struct want *wants = NULL;
    size_t count = core_wants(world->core, event, &world->memory, NULL, NULL, &wants);
    if (!count) {
        step(world, event);
        return;
    }
    struct waiting *waiting = wait_for(world, WAITING_FACTS);
    waiting->event = *event;
    waiting->wants = wants;
    waiting->want_count = count;
    waiting->hold = core_hold(world->core);
    MUST(waiting->hold >= 0);
}

/* ---- reading from the index, as it is at this moment */

struct rows {
    struct row *rows;
    size_t count;
    size_t capacity;
};

static void add_row(struct world *world, struct rows *rows, const struct row *row) {
    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity ? rows->capacity * 2 : 16;
        struct row *grown = world_alloc(world, rows->capacity * sizeof *grown);
        if (rows->count) memcpy(grown, rows->rows, rows->count * sizeof *grown);
        rows->rows = grown;
    }
    struct row *out = &rows->rows[rows->count++];
    *out = *row;
    out->key = copy(world, row->key, row->key_size);
    out->reason = copy(world, row->reason, row->reason_size);
}

static bool matches(const struct want *want, const struct row *row) {
    if (want->id) return row->id == want->id;
    return row->queue == want->queue && row->key_size == want->key_size &&
           memcmp(row->key, want->key, want->key_size) == 0;
}

static const struct row *index_row(const struct world *world, size_t id) {
    const struct flat_task *task = &world->index.tasks[id];
    return task->row.id && !task->ended ? &task->row : NULL;
}

static void read_facts(struct world *world, struct waiting *waiting) {
    struct core_facts *facts = &waiting->event.facts;
    struct rows rows = {0};
    for (size_t i = 0; i < facts->count; i++) add_row(world, &rows, &facts->rows[i]);
    for (size_t i = 0; i < waiting->want_count; i++) {
        for (size_t id = 1; id < FLAT_TASKS_MAX && world->index.tasks[id].row.id; id++) {
            const struct row *row = index_row(world, id);
            if (row && matches(&waiting->wants[i], row)) add_row(world, &rows, row);
        }
    }
    struct want *wants = world_alloc(world, (facts->want_count + waiting->want_count) * sizeof *wants);
    if (facts->want_count) memcpy(wants, facts->wants, facts->want_count * sizeof *wants);
    memcpy(wants + facts->want_count, waiting->wants, waiting->want_count * sizeof *wants);
    facts->wants = wants;
    facts->want_count += waiting->want_count;
    facts->rows = rows.rows;
    facts->count = rows.count;
}

static int compare_rows(const void *a, const void *b) {
    const struct row *x = a;
    const struct row *y = b;
    if (due_before((struct due){x->due_ms, x->id}, (struct due){y->due_ms, y->id})) return -1;
    return 1;
}

static void sort_rows(struct rows *rows) {
    if (rows->count) qsort(rows->rows, rows->count, sizeof *rows->rows, compare_rows);
}

static void read_window(struct world *world, struct waiting *waiting) {
    const struct core_window *window = &waiting->window;
    struct rows rows = {0};
    bool more = false;
    for (size_t id = 1; id < FLAT_TASKS_MAX && world->index.tasks[id].row.id; id++) {
        const struct row *row = index_row(world, id);
        bool fits = row && row->state == ROW_WAITING && row->queue == window->line.queue &&
                    row->base == window->line.base && row->priority == window->line.priority &&
                    due_before(window->after, (struct due){row->due_ms, row->id});
        if (!fits) continue;
        more |= row->due_ms > window->until_ms;
        if (row->due_ms <= window->until_ms) add_row(world, &rows, row);
    }
    sort_rows(&rows);
    struct core_event *event = &waiting->event;
    *event = (struct core_event){.kind = CORE_WINDOW, .line = window->line, .rows = rows.rows};
    event->through = more ? (struct due){window->until_ms, UINT64_MAX} : DUE_END;
    event->row_count = rows.count;
    if (rows.count > window->count_max) {
        event->row_count = window->count_max;
        event->through = (struct due){rows.rows[event->row_count - 1].due_ms, rows.rows[event->row_count - 1].id};
    }
}

static void read_page(struct world *world, struct waiting *waiting) {
    const struct core_page *page = &waiting->page;
    struct rows rows = {0};
    size_t count_max = 1 + random_below(&world->random, 5);
    uint64_t next = UINT64_MAX;
    for (size_t id = page->after_id + 1; id < page->id_end && world->index.tasks[id].row.id; id++) {
        const struct row *row = index_row(world, id);
        if (!row || row->queue != page->queue) continue;
        add_row(world, &rows, row);
        if (rows.count == count_max) {
            next = id;
            break;
        }
    }
    waiting->event = (struct core_event){
        .kind = CORE_PAGE, .job = page->job, .rows = rows.rows, .row_count = rows.count, .next_id = next};
}

static void read_list(struct world *world, struct waiting *waiting) {
    struct core_list_plan plan;
    core_plan_list(world->core, waiting->event.request->list, &plan);
    struct rows rows = {0};
    for (size_t id = 1; id < FLAT_TASKS_MAX && world->index.tasks[id].row.id; id++) {
        const struct row *row = index_row(world, id);
        bool fits = row && row->queue == plan.queue && (plan.states & 1u << row->state) &&
                    row->due_ms >= plan.due_from_ms && row->due_ms < plan.due_to_ms &&
                    due_before(plan.after, (struct due){row->due_ms, row->id});
        if (fits) add_row(world, &rows, row);
    }
    sort_rows(&rows);
    size_t page = 1 + random_below(&world->random, 4);
    waiting->event.through = DUE_END;
    if (rows.count > page) {
        rows.count = page;
        waiting->event.through = (struct due){rows.rows[page - 1].due_ms, rows.rows[page - 1].id};
    }
    waiting->event.rows = rows.rows;
    waiting->event.row_count = rows.count;
}

static void read_waiting(struct world *world, struct waiting *waiting) {
    if (waiting->kind == WAITING_FACTS) read_facts(world, waiting);
    if (waiting->kind == WAITING_WINDOW) read_window(world, waiting);
    if (waiting->kind == WAITING_PAGE) read_page(world, waiting);
    if (waiting->kind == WAITING_LIST) read_list(world, waiting);
    waiting->was_read = true;
}

/* What was read is handed in; a command may find that it lacks something else by now. */
static void hand_in(struct world *world, size_t at) {
    struct waiting waiting = world->waiting[at];
    world->waiting[at] = world->waiting[--world->waiting_count];
    if (waiting.event.kind == CORE_COMMIT) tick(world);
    struct want *wants = NULL;
    size_t count = core_wants(world->core, &waiting.event, &world->memory, NULL, NULL, &wants);
    if (count) {
        struct waiting *again = wait_for(world, WAITING_FACTS);
        *again = waiting;
        again->kind = WAITING_FACTS;
        again->was_read = false;
        again->wants = wants;
        again->want_count = count;
        if (again->hold < 0) again->hold = core_hold(world->core);
        return;
    }
    step(world, &waiting.event);
    if (waiting.hold >= 0) core_unhold(world->core, waiting.hold);
}

/* ---- the machine */

static void send_replies(struct world *world) {
    size_t kept = 0;
    for (size_t i = 0; i < world->reply_count; i++) {
        struct world_reply *reply = &world->replies[i];
        if (reply->after > world->durable) {
            world->replies[kept++] = *reply;
        } else if (world->on_reply) {
            world->on_reply(world->observer, reply->ticket, reply->reply, reply->commit);
        }
    }
    world->reply_count = kept;
}

static bool session_is_up(const struct world *world, uint64_t id) {
    for (size_t i = 0; i < WORLD_SESSIONS_MAX; i++) {
        if (world->sessions[i].id == id) return world->sessions[i].up;
    }
    return false;
}

static void get_delivery(struct world *world, const struct core_delivery *delivery) {
    for (size_t i = 0; i < delivery->count && world->held_count < WORLD_HELD_MAX; i++) {
        const struct row *row = &delivery->tasks[i].row;
        world->held[world->held_count++] = (struct held){.id = row->id,
                                                         .epoch = row->lease_epoch,
                                                         .position = row->lease_position,
                                                         .session = delivery->session};
    }
    if (world->on_delivery) world->on_delivery(world->observer, delivery);
}

static void send_deliveries(struct world *world) {
    for (size_t i = 0; i < world->delivery_count; i++) {
        struct core_delivery delivery = world->deliveries[i].delivery;
        if (delivery.after > world->durable) continue; /* LOG-1 */
        world->deliveries[i--] = world->deliveries[--world->delivery_count];
        bool leaves = session_is_up(world, delivery.session) && random_below(&world->random, 20);
        if (leaves) get_delivery(world, &delivery);
        struct core_event event = {.kind = CORE_LANE_SENT,
                                   .session = delivery.session,
                                   .ok = leaves,
                                   .delivered_ns = world->now.steady_ns};
        step(world, &event);
    }
}

static void sync_some(struct world *world, size_t count) {
    if (!count) return;
    world->durable_count += count;
    const struct frame_header *last = &world->frames[world->durable_count - 1].header;
    world->durable = last->position + frame_size(last->body_size, last->blob_size);
    struct core_event event = {.kind = CORE_DURABLE, .position = world->durable};
    step(world, &event);
    send_replies(world);
    send_deliveries(world);
}

static void index_some(struct world *world, size_t count) {
    if (!count) return;
    for (size_t i = 0; i < count; i++) {
        const struct world_frame *frame = &world->frames[world->index_count++];
        Tarry__FrameBody *body = unpack(frame);
        flat_apply(&world->index, &frame->header, body);
        drop(body);
    }
    struct core_event event = {.kind = CORE_INDEXED, .position = world->index.position};
    step(world, &event);
}

static void lanes_up(struct world *world) {
    for (size_t i = 0; i < WORLD_SESSIONS_MAX; i++) {
        if (!world->sessions[i].id || world->sessions[i].up) continue;
        world->sessions[i].up = true;
        struct core_event event = {.kind = CORE_LANE_UP, .session = world->sessions[i].id};
        step(world, &event);
    }
}

void world_advance(struct world *world, uint64_t ms) {
    uint64_t ns = ms * 1000000 + random_below(&world->random, 1000000);
    world->now.steady_ns += ns;
    if (random_below(&world->random, 10)) world->now.wall_ns += ns; /* else the wall clock stands still for a while */
    tick(world);
}

void world_turn(struct world *world) {
    struct random *random = &world->random;
    switch (random_below(random, 8)) {
    case 0:
    case 1:
        sync_some(world, random_below(random, world->frame_count - world->durable_count + 1));
        break;
    case 2:
        index_some(world, random_below(random, world->durable_count - world->index_count + 1));
        break;
    case 3:
        if (world->waiting_count) {
            struct waiting *waiting = &world->waiting[random_below(random, world->waiting_count)];
            if (!waiting->was_read) read_waiting(world, waiting);
        }
        break;
    case 4:
        for (size_t i = 0; i < world->waiting_count; i++) {
            if (!world->waiting[i].was_read) continue;
            hand_in(world, i);
            break;
        }
        break;
    case 5:
        lanes_up(world);
        break;
    case 6:
        world_advance(world, random_magnitude(random, 14));
        break;
    default:
        tick(world);
    }
}

void world_settle(struct world *world) {
    for (int quiet = 0, turns = 0; quiet < 3; turns++) {
        MUST(turns < 100000); /* calm must come */
        uint64_t frames = world->frame_count;
        bool busy = world->waiting_count || core_deadline(world->core) <= world->now.steady_ns / 1000000;
        sync_some(world, world->frame_count - world->durable_count);
        index_some(world, world->durable_count - world->index_count);
        while (world->waiting_count) {
            if (!world->waiting[0].was_read) read_waiting(world, &world->waiting[0]);
            hand_in(world, 0);
        }
        lanes_up(world);
        tick(world);
        quiet = busy || frames != world->frame_count ? 0 : quiet + 1;
    }
}

/* ---- crash and restart */

/* Frames that were written but not synced may be there or not: a prefix of them is. */
static void lose_tail(struct world *world) {
    size_t unsynced = world->frame_count - world->durable_count;
    size_t kept = world->durable_count + random_below(&world->random, unsynced + 1);
    for (size_t i = kept; i < world->frame_count; i++) free(world->frames[i].body);
    world->frame_count = kept;
    world->durable_count = kept; /* recovery syncs what it keeps */
}

static void replay(struct world *world, struct core *core, size_t from) {
    for (size_t i = from; i < world->frame_count; i++) {
        const struct world_frame *frame = &world->frames[i];
        Tarry__FrameBody *body = unpack(frame);
        MUST(core_replay(core, &frame->header, body) == 0);
        drop(body);
        if (frame->digest) MUST(core_digest(core) == frame->digest); /* at every prefix */
    }
}

/* From nothing, over the whole log: the same digest at every prefix as the live broker had. */
static void replay_all(struct world *world) {
    struct core *core = core_new(&world->options);
    MUST(core);
    replay(world, core, 0);
    core_check(core);
    core_free(core);
}

static void start_core(struct world *world, uint32_t epoch) {
    struct core_event event = {.kind = CORE_START, .epoch = epoch};
    step(world, &event);
}

void world_crash(struct world *world) {
    lose_tail(world);
    replay_all(world);
    core_free(world->core);
    world->core = core_new(&world->options);
    MUST(world->core);
    flat_restore(&world->index, world->core);
    replay(world, world->core, world->index_count);
    flat_init(&world->head);
    for (size_t i = 0; i < world->frame_count; i++) {
        Tarry__FrameBody *body = unpack(&world->frames[i]);
        flat_apply(&world->head, &world->frames[i].header, body);
        drop(body);
    }
    world->durable = world->head.position;
    world->waiting_count = world->reply_count = world->delivery_count = 0;
    memset(world->sessions, 0, sizeof world->sessions);
    world->crashes++;
    start_core(world, world->head.epoch + 1);
}
