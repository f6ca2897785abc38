/* host_sync.c: carries out the effects of group commit, of the release gate and of late reads (engine), as
 * shell/threads/sync.c, releaser.c and delivery_sender.c do. A failure ends the broker's life
 * (LOG-4). */
#include <errno.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "host.h"
#include "node.h"
#include "ops.h"
#include "world.h"

/* Returns the frame's claim about the durable end of the log (log_claim). */
static uint64_t claim(const struct host *host) {
    uint64_t durable = log_durable(host->log);
    return host->node && host->node->claimed < durable ? host->node->claimed : durable;
}

static int append_one(struct host *host, const struct core_append *append) {
    MUST(append->position == log_end(host->log)); /* the core must assign positions without a gap */
    struct log_piece pieces[64];
    struct log_frame frame;
    MUST(append->content_count <= 64);
    group_commit_frame(append, pieces, &frame);
    ((struct frame_note *)host_frame(host, append->position))->synced_to = claim(host);
    return log_append(host->log, &frame);
}

static int append_all(struct host *host) {
    for (const struct batch *batch = host->syncing; batch; batch = batch->next) {
        for (size_t i = 0; i < batch->effects.appends.count; i++) {
            int error = append_one(host, &batch->effects.appends.items[i]);
            if (error) return error;
        }
    }
    return log_write(host->log);
}

/* ---- contents that are read before they leave (engine/outgoing_read.h), as in shell/threads/delivery_sender.c */

static int read_log(void *context, uint64_t position, void *out, size_t size) {
    const struct world *world = context;
    return log_read(world->host->log, position, out, size);
}

static int read_result(void *context, const struct core_reply *reply, struct arena *arena, void **out,
                       size_t *out_size) {
    const struct world *world = context;
    const struct flat_result *result =
        flat_result(&world->host->table.flat, reply->repeat_producer, reply->repeat_sequence);
    if (!result || !result->reply) return 1;
    *out = result->reply->data;
    *out_size = result->reply->len;
    return 0;
}

static int read_blob(void *context, const struct row *row, struct arena *arena, void **out, size_t *out_size) {
    const struct world *world = context;
    const struct flat *flat = &world->host->table.flat;
    if (row->id >= flat->next_id || !flat->tasks[row->id].content) return 1;
    *out = arena_alloc(arena, row->blob_size);
    MUST(*out);
    memcpy(*out, flat->tasks[row->id].content, row->blob_size);
    *out_size = row->blob_size;
    return 0;
}

static uint64_t erasures(void *context) {
    const struct world *world = context;
    return log_erasures(world->host->log);
}

/* Checks that `after` is durable, and does not wait, because the simulator reads contents only when their delivery may
 * leave. */
static bool wait_durable(void *context, uint64_t after) {
    const struct world *world = context;
    MUST(after <= log_durable(world->host->log)); /* LOG-1 */
    return true;
}

static const struct outgoing_source *source_of(struct world *world) {
    static struct outgoing_source source = {.read_log = read_log,
                                            .read_result = read_result,
                                            .read_blob = read_blob,
                                            .erasures = erasures,
                                            .wait = wait_durable};
    source.context = world;
    return &source;
}

/* ---- replies */

/* Returns a copy of the reply, which outlives the effects. It is packed and unpacked, as on the wire. */
static Tarry__Reply *copy_reply(struct world *world, const Tarry__Reply *reply) {
    size_t size = tarry__reply__get_packed_size(reply);
    uint8_t *bytes = world_alloc(world, size);
    tarry__reply__pack(reply, bytes);
    Tarry__Reply *copy = tarry__reply__unpack(&world->memory.pb, size, bytes);
    MUST(copy);
    return copy;
}

/* R3: checks that a reply depends only on frames that are acknowledged with it. The reply must also include everything
 * that was acknowledged when its request arrived. A follower's reply must say that it comes from a follower. */
static void check_known(struct world *world, const struct core_reply *reply, const struct asked *asked) {
    const struct host *host = world->host;
    if (!host->node) return;
    if (reply->reply && reply->reply->follower) {
        MUST(reply->after <= host->durable);
        node_check_fresh(world, reply, asked->known, asked->proved);
        return;
    }
    MUST(host->node->writes && reply->after <= host->node->pair.committed);
    MUST(host_frames_below(host, reply->after) >= asked->known && truth_has(world, host, asked->known));
    truth_acknowledge(world, reply->after);
}

/* Sends a reply. Returns false if the disk failed, which ends the broker's life. */
static bool answer(struct world *world, const struct core_reply *reply) {
    struct asked *asked = (struct asked *)(uintptr_t)reply->ticket;
    MUST(reply->after <= log_durable(world->host->log)); /* LOG-1 */
    if (reply->after > world->host->promised) world->host->promised = reply->after;
    check_known(world, reply, asked);
    if (reply->commit) {
        host_answer(world, asked, world->host->number, NULL, reply->commit, reply->commit_size);
        return true;
    }
    if (reply->repeat_position) {
        ProtobufCBinaryData packed = {0};
        int error = outgoing_read_repeat(source_of(world), &world->memory, reply, &packed);
        if (error < 0) {
            host_fail(world, "cannot read an answer again", error);
            return false;
        }
        Tarry__Reply forgotten = TARRY__REPLY__INIT;
        forgotten.code = TARRY__CODE__FORGOTTEN;
        Tarry__Reply *refusal = error ? copy_reply(world, &forgotten) : NULL;
        const struct frame_note *note = host_frame(world->host, reply->repeat_position);
        MUST(note);
        host_answer(world, asked, note->node, refusal, error ? NULL : packed.data, error ? 0 : packed.len);
        return true;
    }
    Tarry__Reply *copy = copy_reply(world, reply->reply);
    if (reply->content) {
        int error = outgoing_read_content(source_of(world), &world->memory, reply, &copy->get->task->content);
        if (error < 0) {
            host_fail(world, "cannot read a content", error);
            return false;
        }
    }
    host_answer(world, asked, world->host->number, copy, NULL, 0);
    return true;
}

/* ---- deliveries, in the order in which they were decided */

static void delivery_sender(struct world *world, void *argument, uint64_t life);
static void synced(struct world *world, void *argument, uint64_t life);

static void delivery_sender_later(struct world *world) {
    struct host *host = world->host;
    if (host->delivery_sender_comes || !host->parcels) return;
    host->delivery_sender_comes = true;
    world_after(world, &world->options.wake, delivery_sender, NULL, host->life);
}

/* Sends a delivery. Returns false if the disk failed, which ends the broker's life. */
static bool depart(struct world *world, struct core_delivery *delivery) {
    struct outgoing_contents contents;
    int error = outgoing_read_delivery(source_of(world), &world->memory, delivery, &contents);
    if (error < 0) {
        host_fail(world, "cannot read a content", error);
        return false;
    }
    uint64_t now_ms = host_now(world).steady_ns / NS_PER_MS;
    bool is_over = outgoing_drop_overdue(&contents, now_ms) > 0 && contents.count == 0;
    if (delivery->after > world->host->promised) world->host->promised = delivery->after;
    truth_acknowledge(world, delivery->after);
    host_lane_send(world, delivery, &contents, !is_over);
    return true;
}

static void delivery_sender(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life) return;
    host->delivery_sender_comes = false;
    struct parcel *parcel = host->parcels;
    if (!release_gate_reaches(&host->gate, parcel->delivery.after))
        return; /* the sender runs again once the delivery may leave */
    host->parcels = parcel->next;
    if (depart(world, &parcel->delivery)) delivery_sender_later(world);
}

static struct parcel *parcel_of(struct world *world, const struct core_delivery *delivery) {
    struct parcel *parcel = world_alloc(world, sizeof *parcel);
    parcel->delivery = *delivery;
    struct core_delivered *tasks = world_copy(world, delivery->tasks, delivery->count * sizeof *tasks);
    for (size_t i = 0; i < delivery->count; i++)
        tasks[i].row.key = world_copy(world, tasks[i].row.key, tasks[i].row.key_size);
    parcel->delivery.tasks = tasks;
    return parcel;
}

/* Sends a delivery that was leased ahead of time, which waits only for its own leases (delivery_sender_depart). */
static void departs(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    struct parcel *parcel = argument;
    if (host->life != life || host->state != HOST_UP) return;
    if (release_gate_reaches(&host->gate, parcel->delivery.after)) {
        depart(world, &parcel->delivery);
    } else {
        parcel->next = host->departures;
        host->departures = parcel;
    }
}

static void depart_later(struct world *world) {
    struct parcel *parcel = world->host->departures;
    world->host->departures = NULL;
    while (parcel) {
        struct parcel *next = parcel->next;
        world_after(world, &world->options.wake, departs, parcel, world->host->life);
        parcel = next;
    }
}

void host_depart(struct world *world, const struct core_delivery *delivery) {
    world_after(world, &world->options.wake, departs, parcel_of(world, delivery), world->host->life);
}

static void post_parcel(struct world *world, const struct core_delivery *delivery) {
    struct host *host = world->host;
    struct parcel *parcel = parcel_of(world, delivery);
    struct parcel **last = &host->parcels;
    while (*last) last = &(*last)->next;
    *last = parcel;
    delivery_sender_later(world);
}

/* ---- the release gate's effects (shell/queues/releaser.c) */

/* Sends all replies of the batch. Returns false if the broker failed. */
static bool answer_all(struct world *world, const struct batch *batch) {
    for (size_t i = 0; i < batch->effects.replies.count; i++) {
        const struct core_reply *reply = &batch->effects.replies.items[i];
        if (reply->ticket && !answer(world, reply)) return false;
    }
    return true;
}

static struct batch *batch_of(struct release *release) {
    return (struct batch *)release;
}

/* Sets host->durable. Must be the first subscriber, because the others read host->durable. */
static void tell_host(void *context, uint64_t position) {
    struct world *world = context;
    world->host->durable = position;
}

static void tell_courier(void *world, uint64_t position) {
    depart_later(world);
    delivery_sender_later(world);
}

static void tell_indexer(void *world, uint64_t position) {
    host_index_later(world);
}

static void tell_core(void *context, uint64_t position) {
    struct world *world = context;
    world->host->inbox.durable = position;
    host_turn(world);
}

void host_gate_begin(struct world *world) {
    struct host *host = world->host;
    void (*const reached[HOST_SUBSCRIBERS])(void *, uint64_t) = {tell_host, tell_courier, tell_indexer, tell_core};
    release_gate_init(&host->gate, host->durable);
    for (size_t i = 0; i < HOST_SUBSCRIBERS; i++) {
        host->subscribers[i] = (struct release_subscriber){.reached = reached[i], .context = world};
        release_gate_subscribe(&host->gate, &host->subscribers[i]);
    }
}

void host_enter(struct world *world, struct batch *batch, uint64_t question) {
    bool is_silent = batch->effects.appends.count == 0;
    batch->release = (struct release){.position = batch->end, .question = is_silent ? question : 0};
    release_gate_enter(&world->host->gate, &batch->release);
}

void host_drop_waiting(struct host *host) {
    struct release *release;
    while ((release = release_gate_take(&host->gate)) != NULL) host_batch_drop(host, batch_of(release));
}

static void post_parcels(struct world *world, const struct batch *batch) {
    for (size_t i = 0; i < batch->effects.deliveries.count; i++)
        if (!batch->effects.deliveries.items[i].departs) post_parcel(world, &batch->effects.deliveries.items[i]);
}

bool host_release(struct world *world, bool *out_has_left) {
    struct host *host = world->host;
    struct release *release;
    *out_has_left = false;
    while ((release = release_gate_next(&host->gate)) != NULL) {
        struct batch *batch = batch_of(release);
        if (batch->reads_late) post_parcels(world, batch);
        bool is_well = answer_all(world, batch);
        host_batch_drop(host, batch);
        if (!is_well) return false;
        *out_has_left = true;
    }
    if (*out_has_left) host_batches_dropped(world);
    release_gate_tell(&host->gate);
    return true;
}

void host_committed(struct world *world, uint64_t position) {
    struct host *host = world->host;
    TRACE(world, "broker", "committed #%zu", host_frames_below(host, position));
    if (position <= host->durable) return; /* can happen to a leader whose follower lacked frames at the start */
    release_gate_reach(&host->gate, position);
    release_gate_tell(&host->gate);
}

/* ---- the effects of engine/group_commit.h (shell/threads/sync.c) */

static void begin_group(struct world *world);

static void begin_next(struct world *world) {
    if (world->host->posted) begin_group(world);
}

static int append_group(struct world *world) {
    struct host *host = world->host;
    int error = append_all(host);
    if (!error && host->group.is_replicated) node_written(world, log_end(host->log));
    return error;
}

static void read_group(struct world *world) {
    struct host *host = world->host;
    for (struct batch *batch = host->syncing; batch; batch = batch->next) {
        batch->reads_late = !group_commit_reads(&host->group, batch->effects.appends.count);
        if (!batch->reads_late) post_parcels(world, batch);
    }
}

/* Marks the batches of the group commit as durable on this node. In a pair, the other node may not have them yet, so
 * they may be uncommitted (R3). Returns false if the disk failed, which ends the broker's life. */
static bool release_group(struct world *world) {
    struct host *host = world->host;
    struct batch *batches = host->syncing;
    bool has_left;
    host->syncing = NULL;
    if (host->group.is_replicated) {
        node_durable(world, batches);
        return true;
    }
    for (struct batch *batch = batches; batch; batch = batch->next) host_enter(world, batch, 0);
    if (host->group.frames) release_gate_reach(&host->gate, host->group.end);
    return host_release(world, &has_left);
}

/* Runs the steps of the group commit until it waits for its sync, or to its end. */
static void go_on(struct world *world) {
    struct host *host = world->host;
    for (;;) {
        int error = 0;
        switch (host->group.step) {
        case GROUP_IDLE:
            begin_next(world);
            return;
        case GROUP_APPEND:
            error = append_group(world);
            break;
        case GROUP_READ:
            read_group(world);
            break;
        case GROUP_SYNC:
            host->sync_since_ns = world->now_ns;
            host->sync_stood_ns = 0;
            world_after(world, &world->options.sync, synced, NULL, host->life);
            return;
        case GROUP_RELEASE:
            if (!release_group(world)) return;
            break;
        case GROUP_FAILED:
            host_fail(world, host->group.failed == GROUP_SYNC ? "cannot sync the log" : "cannot write to the log",
                      host->group.error);
            return;
        }
        group_commit_done(&host->group, error);
    }
}

static void end_sync(struct world *world) {
    struct host *host = world->host;
    host->sync_due = false;
    host->sync_since_ns = 0;
    int error = log_sync(host->log);
    if (!error) {
        MUST(log_durable(host->log) == host->group.end); /* LOG-1 */
        TRACE(world, "broker", "durable #%zu", host_frames_below(host, host->group.end));
    }
    group_commit_done(&host->group, error);
    go_on(world);
}

static void synced(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    host->sync_due = true;
    if (!host->sync_held) end_sync(world);
}

static void begin_group(struct world *world) {
    struct host *host = world->host;
    size_t frames = 0;
    uint64_t end = 0;
    host->syncing = host->posted;
    host->posted = NULL;
    for (const struct batch *batch = host->syncing; batch; batch = batch->next) {
        frames += batch->effects.appends.count;
        end = batch->end;
    }
    group_commit_begin(&host->group, frames, end, host->node && host->node->writes);
    go_on(world);
}

static void flush(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    host->flushing = false;
    if (host->group.step == GROUP_IDLE && host->posted) begin_group(world);
}

static void flush_later(struct world *world) {
    struct host *host = world->host;
    if (host->flushing || group_commit_is_writing(&host->group))
        return; /* the end of the running group commit will start the next one */
    host->flushing = true;
    world_after(world, &world->options.wake, flush, NULL, host->life);
}

void host_flush(struct world *world) {
    struct host *host = world->host;
    struct batch **last = &host->posted;
    while (*last) last = &(*last)->next;
    *last = host->batch;
    host->batch->next = NULL;
    host->batch->end = host->turn.follows ? 0 : core_position(host->core);
    host->batch = NULL;
    core_turn_flushed(&host->turn);
    flush_later(world);
}

/* ---- scripted */

void host_hold_sync(struct world *world) {
    world->host->sync_held = true;
}

/* Ends the sync in an event of its own, because a stopped process notices the end only when it runs again. */
static void sync_goes_on(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    if (host->sync_due && !host->sync_held) end_sync(world);
}

void host_release_sync(struct world *world) {
    world->host->sync_held = false;
    world_after_ns(world, 0, sync_goes_on, NULL, world->host->life);
}
