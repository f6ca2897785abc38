/* host_start.c: the broker's life: recovery, as engine/recovery_plan.h decides, and all ways to end. After a start the
 * state is checked: everything that was promised is there (LOG-1), frames that were never appended are not, and each
 * position has the same state as before (LOG-2). */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "host.h"
#include "last_shutdown.h"
#include "model_disk.h"
#include "node.h"
#include "recovery_plan.h"
#include "world.h"

#define BATCH_MEMORY_MAX ((size_t)4 << 30) /* must equal the constant in world.c */

static void say_refused(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say_refused(struct world *world, const char *format, ...) {
    struct host *host = world->host;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(host->message, sizeof host->message, format, arguments);
    va_end(arguments);
    host->state = HOST_REFUSED;
    host->refusals++;
    TRACE(world, "broker", "will not start: %s", host->message);
}

struct batch *host_batch_take(struct host *host) {
    struct batch *batch = host->spare;
    host->batches++;
    if (batch) {
        host->spare = batch->next;
        return batch;
    }
    batch = malloc(sizeof *batch);
    MUST(batch);
    arena_init(&batch->arena, BATCH_MEMORY_MAX);
    core_effects_init(&batch->effects, &batch->arena);
    return batch;
}

void host_batch_drop(struct host *host, struct batch *batch) {
    core_effects_reset(&batch->effects);
    batch->reads_late = false;
    batch->next = host->spare;
    host->spare = batch;
    host->batches--;
}

static void batch_free(struct batch *batch) {
    if (!batch) return;
    arena_deinit(&batch->arena);
    free(batch);
}

static void drop_all(struct host *host, struct batch **batches) {
    while (*batches) {
        struct batch *batch = *batches;
        *batches = batch->next;
        host_batch_drop(host, batch);
    }
}

/* Drops all batches except the one into which steps put their effects. */
static void drop_batches(struct host *host) {
    drop_all(host, &host->posted);
    drop_all(host, &host->syncing);
    host_drop_waiting(host);
}

/* Makes an empty batch for the effects of the next step. No other batch is in use. */
static void begin_batch(struct host *host) {
    if (!host->batch) host->batch = host_batch_take(host);
    core_effects_reset(&host->batch->effects);
    host->awaits_batch = host->turn_comes = host->puts_off = false;
}

void host_free(struct host *host) {
    drop_batches(host);
    if (host->batch) host_batch_drop(host, host->batch);
    while (host->spare) batch_free(host_batch_take(host));
    free(host->frames);
    timeline_free(&host->stopped);
}

void host_begin(struct world *world) {
    struct host *host = world->host;
    host->state = HOST_DOWN;
    host->message[0] = 0;
    host->life = 0;
    host->disk = model_new(random_u64(&world->random));
    host->disk->room = world->options.disk_room;
    host_room_begin(world);
    host->log = NULL;
    host->core = NULL;
    host->indexer = host->retiring = NULL;
    host->tick_ns = UINT64_MAX;
    drop_batches(host);
    /* A lost batch would count as in flight in all later histories (20322881). */
    MUST(host->batches == (host->batch != NULL));
    begin_batch(host);
    host->group = (struct group_commit){0};
    host->flushing = host->sync_held = host->sync_due = host->indexing = host->index_held = false;
    host->sync_since_ns = 0;
    table_begin(&host->table);
    host_archive_begin(host);
    memset(host->given_out, 0, sizeof host->given_out);
    host->erasure = (struct erasure){0};
    host->archiving = false;
    host->archived = 0;
    flat_init(&host->head);
    memset(host->origins, 0, sizeof host->origins);
    host->wall_offset_ns = 0;
    host->booted_ns = host->paused_until_ns = host->paused_from_ns = host->went_on_ns = 0;
    host->unread = NULL;
    host->taken = NULL;
    host->stall = (struct stall){0};
    host->stepped = (struct instant){0};
    timeline_clear(&host->stopped);
    host->boot = 1;
    host->node = NULL;
    host->frame_count = 0;
    host->promised = LOG_POSITION_FIRST;
    host->stood_before_ns = host->stood_wall_ns = 0;
    host->noted_boot = host->noted_steady_ns = 0;
    host->steps = host->starts = host->refusals = 0;
    host->cut_bytes = 0;
    host->may_cut_at = UINT64_MAX;
}

/* Frees the memory of this life of the broker; the disk stays. */
static void end_life(struct world *world) {
    struct host *host = world->host;
    if (host->node) node_end(world);
    log_cursor_close(host->indexer);
    log_cursor_close(host->retiring);
    host->indexer = host->retiring = NULL;
    core_free(host->core);
    host->core = NULL;
    log_close(host->log);
    host->log = NULL;
    host->life++;
    host->paused_from_ns = host->went_on_ns = 0;
    host->unread = NULL;
    host->taken = NULL;
    host->stall = (struct stall){0};
    host->stepped = (struct instant){0};
    host->state = HOST_DOWN;
    host->tick_ns = UINT64_MAX;
    drop_batches(host);
    begin_batch(host);
    host->turn = (struct core_turn){0};
    host->inbox = (struct turn_load){0};
    host->in_turn = false;
    host->flushing = host->sync_due = host->indexing = false;
    host->group = (struct group_commit){0};
    host->sync_since_ns = 0;
    host->parcels = host->departures = NULL;
    host->erasure = (struct erasure){0};
    host->archiving = false;
    host->archived = 0;
    host->delivery_sender_comes = false;
    memset(host->lanes, 0, sizeof host->lanes);
    world_resume(world, host->number);
}

void host_end_history(struct world *world) {
    struct host *host = world->host;
    if (host->state == HOST_UP) end_life(world);
    node_unmake(world);
    model_free(host->disk);
    host->disk = NULL;
}

static void tell_clients(struct world *world) {
    for (size_t i = 0; i < world->client_count; i++) {
        struct client *client = world->clients[i];
        bool is_ours = client->session && client->session_node == world->host->number;
        if (is_ours) network_break_pipe(world, client, client->session);
    }
}

static void kill_pair_disk(const struct node *node, enum host_end how) {
    if (how == HOST_POWER_LOST)
        model_crash(node->pair_disk);
    else
        model_kill(node->pair_disk);
}

void host_kill(struct world *world, enum host_end how) {
    struct host *host = world->host;
    if (host->state == HOST_UP) {
        TRACE(world, "broker", how == HOST_KILLED ? "is killed" : "loses power");
        end_life(world);
        tell_clients(world);
    }
    if (host->node) {
        if (how == HOST_KILLED) node_is_gone(world);
        node_stop_fetching(host->node);
        kill_pair_disk(host->node, how);
    }
    if (how == HOST_POWER_LOST) {
        model_crash(host->disk);
        world->host->booted_ns = world->now_ns;
        world->host->boot++;
    } else {
        model_kill(host->disk);
    }
}

void host_fail(struct world *world, const char *what, int error) {
    struct host *host = world->host;
    snprintf(host->message, sizeof host->message, "%s: %d", what, error);
    TRACE(world, "broker", "fails: %s", host->message);
    end_life(world);
    model_kill(host->disk);
    if (host->node) model_kill(host->node->pair_disk);
    tell_clients(world);
}

/* Runs the world until the engine reports that the core's run has ended. Returns false if the broker failed before. */
static bool drain(struct world *world) {
    struct host *host = world->host;
    uint64_t life = host->life, later_ms = 0;
    while (host->state == HOST_UP && host->life == life) {
        bool is_busy = host->group.step != GROUP_IDLE || host->flushing || host->posted;
        enum turn_end end = core_turn_end(&host->turn, world->now_ns / NS_PER_MS + later_ms, is_busy);
        if (end == TURN_IS_OVER) break;
        if (end == TURN_CLOSES)
            host_begin_run(world, (struct core_event){.kind = CORE_CLOSE, .who = "operator@house"});
        else if (!world_step(world))
            later_ms += TURN_DRAIN_MAX_MS; /* nothing happens before that time, so the clock skips to it */
        world_enter(world, host->number);
    }
    return host->state == HOST_UP && host->life == life;
}

static void end_in_order(struct world *world) {
    struct host *host = world->host;
    end_life(world);
    model_kill(host->disk);
    if (host->node) model_kill(host->node->pair_disk);
    tell_clients(world);
}

/* Stops a follower, which appends no seal frame itself. */
static void stop_following(struct world *world) {
    int error = log_mark(world->host->log);
    if (error)
        host_fail(world, "cannot mark the log", error);
    else
        end_in_order(world);
}

void host_stop(struct world *world) {
    struct host *host = world->host;
    if (host->state != HOST_UP) return;
    world_resume(world, host->number); /* continues the process first, because a stopped process does not get SIGTERM */
    TRACE(world, "broker", "stops");
    if (host->node && !host->node->blocked && !host->node->ended) follow_leave(world);
    host->inbox.stop = true;
    host_go_on_with_turn(world); /* continues the core's turn, which may wait for a batch */
    host_turn(world);
    if (!drain(world)) return;
    if (!host->turn.closed && host->node && !host->node->writes && !host->node->blocked)
        stop_following(world);
    else
        end_in_order(world);
}

/* ---- recovery */

static bool open_log(struct world *world, const struct recovery_plan *plan, struct log_recovery *out) {
    struct host *host = world->host;
    struct log_options options = {
        .directory = "/data/log",
        .disk = &host->calls,
        .segment_size = world->options.segment_size,
        .durable_min = plan->durable_min,
    };
    char message[512] = "";
    int error = log_open(&host->log, &options, plan->index.position, out, message, sizeof message);
    if (!error) return true;
    MUST(message[0]); /* every refusal must have a sentence */
    say_refused(world, "%s", message);
    return false;
}

static void find_index(struct world *world, struct recovery_plan *plan) {
    const struct table *table = &world->host->table;
    struct recovery_index found = {
        .position = table->flat.position,
        .log_start = table->log_start,
        .steady_ns = table->flat.steady_ns,
        .wall_ns = table->flat.wall_ns,
        .epoch = table->flat.epoch,
    };
    memcpy(found.chain, table->chain, sizeof found.chain);
    recovery_index_opened(plan, &found);
}

static void refuse_as_planned(struct world *world, const struct recovery_plan *plan) {
    uint64_t indexed = plan->index.position;
    switch (plan->refusal) {
    case RECOVERY_INDEX_AHEAD:
        say_refused(world, "the index is ahead of the log (%" PRIu64 " > %" PRIu64 ")", indexed, plan->log.end);
        break;
    case RECOVERY_CONTENTS_MISSING:
        say_refused(world, "the log starts at %" PRIu64 ", contents lie from %" PRIu64, plan->log.start,
                    plan->index.log_start);
        break;
    case RECOVERY_FRAMES_MISSING:
        say_refused(world, "the log starts behind the index's position");
        break;
    case RECOVERY_HISTORIES_DIFFER:
        say_refused(world, "index and log tell different histories");
        break;
    case RECOVERY_REPLAY_IMPOSSIBLE:
        say_refused(world, "the log cannot be replayed at position %" PRIu64 ": %d", plan->replayed, plan->error);
        break;
    case RECOVERY_LAST_STOP_UNREADABLE:
        say_refused(world, "the log cannot be read: %d", plan->error);
        break;
    default:
        MUST(!"a refusal that has no reason here");
    }
}

/* Checks a torn tail that recovery has cut. Normally, no reply may depend on the cut part. Returns false if one did: a
 * bit had flipped in bytes that no seal frame protected yet, which looks like a torn tail (README, exceptions to the
 * promises). */
static bool forget_cut(struct world *world, const struct log_recovery *found) {
    if (found->cut_bytes) TRACE(world, "broker", "cuts a torn tail of %" PRIu64 " bytes", found->cut_bytes);
    struct host *host = world->host;
    size_t kept = host_frames_below(host, found->end);
    uint64_t end = kept ? host->frames[kept - 1].end : LOG_POSITION_FIRST;
    MUST(found->end == end);           /* the log must contain no frame that was never appended */
    if (found->end < host->promised) { /* LOG-1, LOG-5 */
        MUST(host->may_cut_at != UINT64_MAX && kept == host_frames_below(host, host->may_cut_at));
        say_refused(world, "a bit flipped in what was not sealed yet");
        return false;
    }
    if (kept) {
        const struct frame_header *last = &host->frames[kept - 1].header;
        bool is_scanned = found->end > host->table.flat.position;
        if (is_scanned) MUST(found->epoch == last->epoch && found->steady_ns == last->steady_ns);
    }
    host->cut_bytes += found->cut_bytes;
    if (kept < host->frame_count)
        TRACE(world, "broker", "lost #%zu to #%zu, never promised", kept + 1, host->frame_count);
    host->frame_count = kept;
    return true;
}

static bool is_same_frame(const struct frame_note *note, const struct log_view *view) {
    return note && note->header.body_size == view->header.body_size && note->header.type == view->header.type &&
           (!view->header.body_size || memcmp(note->bytes, view->body, view->header.body_size) == 0);
}

/* Replays a frame of the log's tail. Its digest must equal the running broker's at every known position (LOG-2). */
static void replay_frame(struct world *world, struct recovery_plan *plan) {
    struct host *host = world->host;
    struct log_view view;
    int error = log_cursor_next(host->indexer, plan->replay_to, &view);
    const struct frame_note *note = error ? NULL : host_frame(host, view.header.position);
    if (!error) MUST(is_same_frame(note, &view));
    recovery_frame_read(plan, host->core, error, &view.header, note ? note->body : NULL);
    if (error) return;
    MUST(plan->effect == RECOVERY_REPLAY && plan->replayed == note->end);
    MUST(core_digest(host->core) == note->digest && core_live(host->core) == note->live);
    flat_apply(&host->head, &note->header, note->body);
}

/* Adds to steady_jumped_ns the most by which this start may move steady time ahead of the true time. Within one boot of
 * the machine, this is zero. After a new boot, the wall clock may be ahead of the time that the broker trusted before.
 * If the wall time had stood still, the start adds that time to steady time again; only the lead of steady time over
 * the wall reduces the error (clock.c). */
static void allow_for_walls(struct world *world, const struct instant *last, bool same_boot) {
    struct host *host = world->host;
    const struct frame_note *note = host->frame_count ? &host->frames[host->frame_count - 1] : NULL;
    int64_t before_ns = note ? note->trusted_ns : 0;
    if (world->host->wall_offset_ns > before_ns && !same_boot)
        world->steady_jumped_ns += (uint64_t)(world->host->wall_offset_ns - before_ns);
    host->stood_before_ns = note ? note->stood_ns : 0;
    host->stood_wall_ns = last->wall_ns;
    uint64_t ahead_ns = last->steady_ns > last->wall_ns ? last->steady_ns - last->wall_ns : 0;
    if (host->stood_before_ns > ahead_ns && !same_boot) world->steady_jumped_ns += host->stood_before_ns - ahead_ns;
}

/* Restarts the clock. A start may accept a wall clock that is further ahead than any accepted before (TIME-2). A broker
 * with an empty log has no earlier time to compare with, so it accepts any clock. */
static void restart_clock(struct world *world, struct clock_origin origin) {
    struct host *host = world->host;
    int64_t limit_ns = world->believable_ns + (int64_t)(CLOCK_JUMP_START_MS * NS_PER_MS);
    bool has_no_past = origin.last.wall_ns == 0 && origin.last.steady_ns == 0;
    bool is_believable = has_no_past || origin.accept_jump || host->wall_offset_ns <= limit_ns;
    if (host->wall_offset_ns > world->believable_ns && is_believable) world->believable_ns = host->wall_offset_ns;
    allow_for_walls(world, &origin.last, origin.boot_steady_ns != 0);
    struct sample sample = {.real_ns = world_real_ns(world), .boot_ns = world_boot_ns(world)};
    clock_begin(&host->clock, origin, sample);
}

/* Writes the note of the boot (shell/process/clock.c). It is never synced, because it is worthless in the next boot. */
static void note_boot(struct host *host) {
    host->noted_boot = host->boot;
    host->noted_steady_ns = host->clock.steady_from - host->clock.boot_from;
}

/* Within one boot, steady time continues from the note (clock.h). After a new boot it advances by the difference of
 * the wall clocks, if the start accepts that difference (TIME-2); the true time may be less. */
static void begin_clock(struct world *world, const struct recovery_plan *plan, bool accept) {
    struct host *host = world->host;
    struct clock_origin origin = {.last = plan->last, .accept_jump = accept};
    if (host->noted_boot == host->boot) origin.boot_steady_ns = host->noted_steady_ns;
    restart_clock(world, origin);
    note_boot(host);
}

void host_restart_clock(struct world *world, struct clock_origin origin) {
    restart_clock(world, origin);
    note_boot(world->host);
}

/* Replays everything that was ever appended, from an empty state. The digest must be the same at every frame. */
static void replay_all(struct world *world) {
    struct host *host = world->host;
    struct core *core = core_new(&world->options.core);
    MUST(core);
    for (size_t i = 0; i < host->frame_count; i++) {
        const struct frame_note *note = &host->frames[i];
        MUST(core_replay(core, &note->header, note->body) == 0);
        MUST(core_digest(core) == note->digest);
    }
    core_check(core);
    core_free(core);
}

/* Returns the last frame with a digest; NULL: no digest was recorded. */
static const struct frame_note *last_commit(const struct host *host) {
    size_t i = host->frame_count;
    while (i > 0 && !host->frames[i - 1].body) i--;
    return i > 0 ? &host->frames[i - 1] : NULL;
}

void host_begin_epoch(struct world *world, uint32_t epoch) {
    struct host *host = world->host;
    TRACE(world, "broker", "starts, epoch %" PRIu32, epoch);
    bool is_deposed =
        host->node &&
        epoch < world->truth.epoch; /* the node has been deposed but does not know it yet: it will send no reply */
    if (!is_deposed) ledger_on_loss(world, &host->head);
    const struct frame_note *last = last_commit(host);
    who_begin(&host->watch.who, last ? last->body : NULL);
    host_begin_run(world, (struct core_event){.kind = CORE_START,
                                              .start = {.epoch = epoch,
                                                        .before = host->watch.who.before,
                                                        .who = "operator@house",
                                                        .clock_accepted = host->clock.accepted}});
}

static int find_last_stop(struct world *world, const struct recovery_plan *plan) {
    struct host *host = world->host;
    Tarry__EpochPut__Before before;
    int error = last_shutdown(host->log, &plan->log, &before);
    if (error) return error;
    const struct frame_note *last = last_commit(host);
    bool is_gone = last && last->header.position < log_start(host->log);
    who_begin(&host->watch.who, last ? last->body : NULL);
    MUST(before == (is_gone ? TARRY__EPOCH_PUT__BEFORE__NOT_SAID : host->watch.who.before));
    return 0;
}

/* Runs one effect of engine/recovery_plan.h. Returns false if a file cannot be opened. */
static bool execute(struct world *world, struct recovery_plan *plan, bool accept_clock) {
    struct host *host = world->host;
    struct log_recovery found;
    switch (plan->effect) {
    case RECOVERY_OPEN_INDEX:
        find_index(world, plan);
        break;
    case RECOVERY_OPEN_LOG:
        if (!open_log(world, plan, &found)) return false;
        recovery_log_opened(plan, &found);
        return plan->effect == RECOVERY_REFUSED || forget_cut(world, &found);
    case RECOVERY_MAKE_CORE:
        if (host->frame_count && host->starts % 8 == 7) replay_all(world);
        host->core = core_new(&world->options.core);
        recovery_executed(plan, host->core ? 0 : -ENOMEM);
        break;
    case RECOVERY_RESTORE:
        flat_restore(&host->table.flat, host->core, plan->part);
        flat_copy(&host->head, &host->table.flat);
        recovery_executed(plan, 0);
        break;
    case RECOVERY_REPLAY:
        if (!host->indexer) MUST(log_cursor_open(&host->indexer, host->log, plan->replayed, false) == 0);
        replay_frame(world, plan);
        break;
    case RECOVERY_FIND_LAST_STOP:
        recovery_executed(plan, find_last_stop(world, plan));
        break;
    case RECOVERY_START_CLOCK:
        begin_clock(world, plan, accept_clock);
        recovery_executed(plan, 0);
        break;
    case RECOVERY_STOP_CLOCK:
    case RECOVERY_DONE:
    case RECOVERY_REFUSED:
        break;
    }
    return true;
}

/* Frees everything of a failed start, except the message with the reason. */
static void give_up(struct world *world) {
    struct host *host = world->host;
    char message[sizeof host->message];
    memcpy(message, host->message, sizeof message);
    if (host->core) {
        end_life(world);
    } else {
        log_close(host->log);
        host->log = NULL;
    }
    memcpy(host->message, message, sizeof message);
    host->state = HOST_REFUSED;
}

static bool recover(struct world *world, bool accept_clock, struct recovery_plan *plan) {
    struct recovery_options options = {.is_pair = world->host->node != NULL};
    recovery_begin(plan, &options);
    bool is_open = true;
    while (is_open && plan->effect != RECOVERY_DONE && plan->effect != RECOVERY_REFUSED)
        is_open = execute(world, plan, accept_clock);
    if (is_open && plan->effect == RECOVERY_DONE) return true;
    if (is_open) refuse_as_planned(world, plan);
    give_up(world);
    return false;
}

static bool start(struct world *world, bool accept_clock) {
    struct host *host = world->host;
    struct recovery_plan plan;
    MUST(host->state != HOST_UP);
    host->state = HOST_DOWN;
    if (host->node && !node_has_snapshot(world)) return false;
    retention_init(&host->retention, &(struct retention_policy){world->options.retain_size, UINT64_MAX});
    if (!recover(world, accept_clock, &plan)) return false;
    /* Closes the cursor, which has read ahead, because the indexer begins again at the index's position. */
    log_cursor_close(host->indexer);
    MUST(log_cursor_open(&host->indexer, host->log, host->table.flat.position, false) == 0);
    memset(host->origins, 0, sizeof host->origins);
    ledger_take_frames(world, host->head.position);
    if (plan.log.end > host->promised) host->promised = plan.log.end; /* everything that recovery has kept is durable */
    host->indexed = host->table.flat.position;
    host->filter_id_end = host->table.flat.next_id;
    host_index_begin(host);
    host->durable = host->node ? host->indexed : plan.log.end;
    host_gate_begin(world);
    core_turn_init(&host->turn, host->core, host->durable, host->indexed);
    host->turn.is_pair = host->turn.follows = host->node != NULL;
    core_turn_fill(&host->turn, &host->batch->effects);
    host->inbox = (struct turn_load){.durable = host->durable, .indexed = host->indexed};
    host->state = HOST_UP;
    host->starts++;
    if (plan.begins == CORE_START) {
        host_begin_epoch(world, plan.epoch);
    } else {
        TRACE(world, "broker", "starts");
        host_begin_run(world, (struct core_event){.kind = plan.begins});
    }
    host_check_erased(world);
    host_erase_later(world);
    if (host->node) return node_start(world);
    if (host->indexed < host->durable) host_index_later(world);
    return true;
}

bool host_start(struct world *world, bool accept_clock) {
    uint32_t from = world->place;
    world_enter(world, world->host->number); /* the events of the started process must belong to this host, so that they
                                                stop with the process */
    bool is_up = start(world, accept_clock);
    world_enter(world, from);
    return is_up;
}
