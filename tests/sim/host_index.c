/* host_index.c: the indexer follows the log (shell/threads/indexer.c), and retention removes segments that the index
 * has absorbed. The indexer reads every frame from the disk and compares it with the frame that was appended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "host.h"
#include "model_disk.h"
#include "node.h"
#include "world.h"

/* Checks that the log returned the frame that was appended; returns its body. */
static const Tarry__FrameBody *body_of(const struct host *host, const struct log_view *view) {
    const struct frame_note *note = host_frame(host, view->header.position);
    MUST(note && note->header.type == view->header.type && note->header.epoch == view->header.epoch);
    MUST(note->header.body_size == view->header.body_size && note->header.blob_size == view->header.blob_size);
    MUST(!note->header.body_size || memcmp(note->bytes, view->body, note->header.body_size) == 0);
    MUST(note->header.steady_ns == view->header.steady_ns && note->header.wall_ns == view->header.wall_ns);
    return note->body;
}

/* ---- the effects of engine/index_schedule.h. The transaction takes in the absorbed frames at its commit */

/* Reports the newest indexed position to the core, which may happen late. */
static void tell_core(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life) return;
    host->inbox.indexed = host->index_schedule.told;
    host_turn(world);
}

/* Returns whether the key filter contains the hash. The filter has the keys of all tasks that the index had when the
 * filter was last renewed. */
bool host_may_exist(const void *filter, uint64_t key_hash) {
    const struct host *host = filter;
    for (uint64_t id = 1; id < host->filter_id_end; id++) {
        const struct row *row = &host->table.flat.tasks[id].row;
        if (row->id && row_key_hash(row->queue, row->key, row->key_size) == key_hash) return true;
    }
    return false;
}

/* Commits the index's transaction. Returns false if the broker failed. */
static bool commit(struct world *world) {
    struct host *host = world->host;
    struct log_view view;
    int error;
    while ((error = log_cursor_next(host->indexer, host->index_schedule.absorbed, &view)) == 0)
        table_absorb(&host->table, &view.header, body_of(host, &view));
    if (error != LOG_END) {
        host_fail(world, "cannot read the log", error);
        return false;
    }
    uint64_t position = host->table.flat.position;
    if (position > host->indexed) {
        TRACE(world, "broker", "indexed #%zu", host_frames_below(host, position));
        host->indexed = position;
    }
    index_schedule_committed(&host->index_schedule, true, world->now_ns);
    return true;
}

/* LOG-3: returns the position up to which the index may absorb. The log of a node that begins to lead may end with
 * frames that will never be acknowledged. */
static uint64_t limit_of(const struct host *host) {
    return host->node && host->node->may_index < host->durable ? host->node->may_index : host->durable;
}

/* Absorbs durable frames into the index: all that may be absorbed, or a random part, as if a transaction were full. */
static void absorb(struct world *world, bool all) {
    struct host *host = world->host;
    uint64_t limit = host->index_schedule.limit;
    size_t records = 1, first = host_frames_below(host, host->index_schedule.absorbed);
    size_t last = host_frames_below(host, limit);
    if (limit > log_end(host->log)) limit = log_end(host->log);
    if (!all && world->options.index.spread_us && one_in(world, 3) && first < last) {
        limit = host->frames[first + random_below(&world->random, last - first)].end;
        records = host->index_schedule.times.batch_records;
    }
    index_schedule_absorbed(&host->index_schedule, limit, records, world->now_ns);
}

static void turn(struct world *world, void *argument, uint64_t life);

/* Executes the indexer's effects that are due now. Erasure and retirement have events of their own. */
static void run(struct world *world, bool stop) {
    struct host *host = world->host;
    for (;;) {
        struct index_orders orders = {
            .durable = limit_of(host),
            .sign_wait_ns = UINT64_MAX,
            .erase_wait_ns = UINT64_MAX,
            .retire_wait_ns = UINT64_MAX,
            .maintain_wait_ns = UINT64_MAX,
            .now_ns = world->now_ns,
            .stop = stop,
        };
        switch (index_schedule_next(&host->index_schedule, &orders)) {
        case INDEX_ABSORB:
            absorb(world, stop);
            break;
        case INDEX_COMMIT:
            if (!commit(world)) return;
            break;
        case INDEX_TELL:
            world_after(world, &world->options.wake, tell_core, NULL, host->life);
            host_erase_later(world);
            host_retire_later(world);
            if (!stop) {
                host_index_later(world);
                return;
            }
            break;
        case INDEX_WAIT:
            host->indexing = host->index_schedule.absorbed < orders.durable;
            if (host->indexing) world_after_ns(world, host->index_schedule.wait_ns, turn, NULL, host->life);
            return;
        case INDEX_STOP:
            return;
        default:
            MUST(!"what nobody asked for");
        }
    }
}

static void turn(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    host->indexing = false;
    if (!host->index_held) run(world, false);
}

void host_index_begin(struct host *host) {
    struct index_times times = {.gather_bytes = UINT64_MAX, .batch_records = INDEX_BATCH_RECORDS};
    index_schedule_begin(&host->index_schedule, &times, host->indexed);
}

/* Schedules an event in which the index absorbs durable frames. */
void host_index_later(struct world *world) {
    struct host *host = world->host;
    if (host->indexing || limit_of(host) <= host->index_schedule.absorbed) return;
    host->index_schedule.times.gather_ns = world_span_ns(world, &world->options.index);
    host->indexing = true;
    world_after_ns(world, 0, turn, NULL,
                   host->life); /* the turn runs in a later event, because the caller needs a running host */
}

void host_index_now(struct world *world) {
    if (world->host->state == HOST_UP) run(world, true);
}

void host_hold_index(struct world *world) {
    world->host->index_held = true;
}

void host_release_index(struct world *world) {
    struct host *host = world->host;
    host->index_held = false;
    if (host->state != HOST_UP) return;
    host_index_begin(host);
    host_index_later(world);
}

/* ---- retirement: the effects of engine/retention.h. Each effect that a kill may separate runs by itself */

static const struct log_segment *find_oldest(struct world *world, struct log_segment *segment,
                                             struct retention_facts *facts) {
    struct host *host = world->host;
    uint64_t needed_from = host->node ? host->node->leading.half.kept_from : UINT64_MAX;
    if (!log_oldest(host->log, retention_bound(host->table.flat.position, needed_from), segment)) return NULL;
    struct log_stats stats;
    log_stats(host->log, &stats);
    *facts = (struct retention_facts){.is_erasing = host->erasure.effect != ERASURE_REST,
                                      .is_archived = host_is_archived(world, segment->end),
                                      .log_bytes = stats.bytes};
    return segment;
}

static enum retention_result move_in(struct world *world) {
    struct host *host = world->host;
    struct log_view view;
    int error;
    while ((error = log_cursor_next(host->retiring, host->retention.segment.end, &view)) == 0) {
        const Tarry__FrameBody *body = body_of(host, &view);
        if (body) MUST(table_retire(&host->table, &view.header, body, view.blob, &world->memory));
    }
    if (error != LOG_END) host_fail(world, "cannot read a segment that is to be retired", error);
    return RETENTION_DONE;
}

/* LOG-3: removes the oldest segment. Whatever is still needed of it has been copied before. */
static enum retention_result remove_segment(struct world *world) {
    struct host *host = world->host;
    const struct log_segment *segment = &host->retention.segment;
    MUST(host->table.flat.position >= segment->end);
    MUST(!world->options.archives || host->archive_end >= segment->end);
    int error = log_retire(host->log, segment->base);
    log_cursor_close(host->retiring);
    host->retiring = NULL;
    if (error)
        host_fail(world, "cannot retire a segment", error);
    else
        TRACE(world, "broker", "retired what is below #%zu", host_frames_below(host, segment->end));
    return RETENTION_DONE;
}

static enum retention_result execute(struct world *world) {
    struct host *host = world->host;
    switch (host->retention.effect) {
    case RETENTION_OPEN:
        MUST(log_cursor_open(&host->retiring, host->log, host->retention.segment.base, true) == 0);
        break;
    case RETENTION_MOVE:
        return move_in(world);
    case RETENTION_COMMIT:
        host->table.log_start = host->retention.segment.end;
        break;
    case RETENTION_REMOVE:
        return remove_segment(world);
    case RETENTION_SIGN: /* nothing to do: the simulated broker has no signing key */
    case RETENTION_ARCHIVE:
    case RETENTION_REST:
        break;
    }
    return RETENTION_DONE;
}

/* Schedules an event in which retention executes its effects. */
static void retire_soon(struct world *world);

static void retire_turn(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    do {
        enum retention_result result = execute(world);
        if (host->life != life) return;
        (void)retention_step(&host->retention, result);
    } while (host->retention.effect == RETENTION_SIGN);
    if (retention_is_active(&host->retention)) {
        retire_soon(world);
        return;
    }
    host_erase_later(world);
    host_retire_later(world);
}

static void retire_soon(struct world *world) {
    const struct span *wake = &world->options.wake;
    if (world->host->retention.effect == RETENTION_COMMIT)
        world_after_ns(world, (wake->least_us + wake->spread_us / 2) * UINT64_C(1000), retire_turn, NULL,
                       world->host->life);
    else
        world_after(world, wake, retire_turn, NULL, world->host->life);
}

void host_retire_later(struct world *world) {
    struct host *host = world->host;
    struct log_segment segment;
    struct retention_facts facts = {0};
    if (retention_is_active(&host->retention)) return;
    const struct log_segment *oldest = find_oldest(world, &segment, &facts);
    if (retention_look(&host->retention, oldest, &facts) == RETENTION_ARCHIVE) host_archive_later(world);
    if (!retention_is_active(&host->retention)) return;
    (void)retention_step(&host->retention,
                         execute(world)); /* carries out the first effect at once: it opens the segment to be retired */
    retire_soon(world);
}

/* ---- the whole log */

static void check_contents(const struct world *world, const struct log_view *view, const Tarry__FrameBody *body) {
    for (size_t i = 0; body && i < body->n_records; i++) {
        const Tarry__TaskPut *put = body->records[i]->put;
        if (body->records[i]->fact_case != TARRY__RECORD__FACT_PUT || !put->fresh || !put->task->blob_size) continue;
        const struct core_content *content = world->host->origins[put->task->id].content;
        const uint8_t *blob = view->blob + (put->task->blob_at - frame_blob_position(view->header.position));
        MUST(content && content->size == put->task->blob_size);
        bool is_erased = world->host->head.tasks[put->task->id].redacted;
        MUST(is_erased ? content_is_erased(blob, content->size) : memcmp(blob, content->data, content->size) == 0);
    }
}

void host_check_log(struct world *world) {
    struct host *host = world->host;
    struct log_cursor *cursor;
    MUST(log_cursor_open(&cursor, host->log, log_start(host->log), true) == 0);
    struct log_view view;
    int error;
    while ((error = log_cursor_next(cursor, host->durable, &view)) == 0)
        check_contents(world, &view, body_of(host, &view));
    MUST(error == LOG_END && log_cursor_position(cursor) == host->durable);
    log_cursor_close(cursor);
}

/* ---- disk space: the numbers for the engine's decisions (engine/disk_reserve.h) */

#define SEGMENT_FILE_EXTRA 4096u /* size in bytes of a segment file's header (FORMAT.md) */
#define DISK_SEGMENTS 4u /* simulated size of the disk, in segments; so small that half a segment is kept free */

static uint64_t free_bytes(const struct model_disk *disk) {
    if (!disk->room) return UINT64_MAX / 2;
    uint64_t used = model_room_used(disk);
    return used < disk->room ? disk->room - used : 0;
}

static int disk_space_allocate(void *context, int handle, uint64_t size) {
    const struct model_disk *disk = context;
    const struct host *host = disk->owner;
    if (!disk_reserve_admits_segment(&host->reserve, free_bytes(disk), size)) return -ENOSPC;
    return model_allocate(context, handle, size);
}

static bool can_prepare(const struct host *host) {
    uint64_t size = host->reserve.segment_size + SEGMENT_FILE_EXTRA;
    return disk_reserve_admits_segment(&host->reserve, free_bytes(host->disk), size);
}

/* Returns 0 if the log can append `size` bytes; otherwise an error. In the product, the log's preparing thread makes
 * the next segment in time. The simulator only checks whether a segment can be made. */
static int log_has_room(struct host *host, uint64_t size) {
    uint64_t position = core_position(host->core), segment_size = host->reserve.segment_size;
    int error = log_fits(host->log, position, size);
    if (error != -EAGAIN) return error;
    if (!can_prepare(host)) return -ENOSPC;
    return log_fits(host->log, position, size > segment_size ? size - segment_size : 0);
}

/* CAP-1, F-4: checks that after the commit that was let in, the log still has space for an ack, or can get it. */
static void check_room(struct host *host, uint64_t commit_size) {
    uint64_t ack_size = FRAME_HEADER_SIZE + 512;
    if (host->reserve.segment_size < 4 * ack_size || can_prepare(host)) return;
    MUST(log_fits(host->log, core_position(host->core), commit_size + ack_size) == 0);
}

bool host_has_room(struct world *world, uint64_t size) {
    struct host *host = world->host;
    struct disk_admission admission;
    disk_admission_begin(&admission, &host->reserve, free_bytes(host->disk), size);
    while (admission.question != DISK_DECIDED) {
        if (admission.question == DISK_ASKS_LOG)
            disk_admission_of_log(&admission, &host->reserve, log_has_room(host, admission.size));
        else
            disk_admission_of_disk(&admission, &host->reserve, free_bytes(host->disk));
    }
    if (!admission.error) check_room(host, size);
    if (disk_reserve_note(&host->reserve, admission.error, can_prepare(host) ? 0 : -ENOSPC))
        TRACE(world, "broker", host->reserve.low ? "has little room: new tasks are refused" : "has room again");
    return !admission.error;
}

void host_room_begin(struct world *world) {
    struct host *host = world->host;
    host->reserve = disk_reserve_of(DISK_SEGMENTS * world->options.segment_size, world->options.segment_size);
    host->calls = host->disk->disk;
    host->disk->owner = host;
    host->calls.allocate = disk_space_allocate;
}
