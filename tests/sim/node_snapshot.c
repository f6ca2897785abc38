/* node_snapshot.c: a snapshot for a follower whose next frames are no longer in the leader's log. A snapshot is the
 * leader's log and index as of one position (shell/pair/snapshot.c, shell/jobs/backup.c). The node writes a durable
 * mark that it wants a snapshot, and its process starts again. The snapshot is fetched before recovery, however long
 * that takes. The product copies the files and then puts them in place. The simulator does both at once, after a delay,
 * because nothing reads the directory while the mark exists. If the follower is killed meanwhile, or the leader's
 * process is started again, the follower fetches a new snapshot. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "model_disk.h"
#include "node.h"
#include "quarantine.h"
#include "world.h"

#define WANTED_NAME "snapshot.wanted"
#define SEGMENT_HEADER_SIZE 4096u /* size in bytes of a segment file's header (FORMAT.md) */
#define AGAIN_NS (500 * NS_PER_MS)
#define TRANSFER_MS_BITS 11

static const char pair_directory[] = "/data";
static const char log_directory[] = "/data/log";

/* R8: moves the frames after `end` to the quarantine, and begins to fetch a snapshot. */
void follow_fetch(struct world *world, uint64_t end) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct quarantine quarantine = {.disk = &node->pair_disk->disk, .directory = "/data/quarantine"};
    struct quarantine_tail tail;
    struct log_point last;
    MUST(log_point(host->log, log_durable(host->log), &last) == 0);
    bool is_the_leaders = last.epoch == node->pair.hard_state.floor;
    bool has_tail = last.position > end && !is_the_leaders;
    TRACE(world, "broker", "needs a snapshot: it knows what is committed up to #%zu", host_frames_below(host, end));
    int error =
        has_tail ? quarantine_put(&quarantine, host->log, end, "The leader's log begins behind it.\n", &tail) : 0;
    if (error == 0)
        error = disk_replace(&node->pair_disk->disk, pair_directory, WANTED_NAME ".new", WANTED_NAME, "", 0);
    if (error)
        host_fail(world, "cannot note that a snapshot is wanted", error);
    else
        node_run_again(world);
}

/* ---- copies of the other node's log and index */

static void write_file(struct model_disk *disk, const char *name, const void *data, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", log_directory, name);
    int handle = disk->disk.open(disk, path, O_WRONLY | O_CREAT, 0600);
    MUST(handle >= 0 && disk_write_all(&disk->disk, handle, data, size, 0) == 0);
    MUST(disk->disk.sync(disk, handle) == 0 && disk->disk.close(disk, handle) == 0);
}

/* Copies those frames of a segment that end at or below `end`. */
static void copy_segment(const struct host *source, struct model_disk *to, uint64_t base, uint64_t end) {
    char name[32];
    snprintf(name, sizeof name, "%016" PRIx64 ".seg", base);
    const struct model_file *file = model_lookup(source->disk, name);
    uint64_t size = SEGMENT_HEADER_SIZE + (end - base);
    MUST(file && file->cached_size >= size);
    write_file(to, name, file->cached, size);
}

static struct model_disk *copy_log(struct world *world, const struct host *source, uint64_t end) {
    static const uint8_t cluster[CLUSTER_ID_SIZE]; /* id of the cluster; must equal the one in open_log */
    struct model_disk *copy = model_new(random_u64(&world->random));
    MUST(copy->disk.make_directory(copy, log_directory, 0700) == 0);
    struct log_segment segment;
    uint64_t at = log_start(source->log);
    bool is_last = false;
    for (; !is_last; at = segment.end) {
        MUST(log_segment_at(source->log, at, &segment));
        is_last = segment.end == 0 || segment.end >= end;
        copy_segment(source, copy, segment.base, is_last ? end : segment.end);
    }
    if (model_lookup(source->disk, LOG_MARK_NAME)) {
        uint8_t mark[LOG_MARK_SIZE];
        log_mark_encode(cluster, end, mark);
        write_file(copy, LOG_MARK_NAME, mark, sizeof mark);
    }
    MUST(copy->disk.sync_directory(copy, log_directory) == 0 && copy->disk.sync_directory(copy, pair_directory) == 0);
    return copy;
}

/* Erases contents in this node's archive that the leader has redacted and erased already. The product notes these
 * redactions in a file (shell/pair/missed_redactions.h) and carries them out at the node's start. The simulator carries
 * them out at once. */
static void erase_archived(struct host *host) {
    for (size_t i = 0; i < host->frame_count; i++) {
        const Tarry__FrameBody *body = host->frames[i].body;
        for (size_t k = 0; body && k < body->n_records; k++) {
            const Tarry__Record *record = body->records[k];
            bool is_one = record->fact_case == TARRY__RECORD__FACT_REDACTION && record->redaction->frame;
            if (is_one && !table_is_redacting(&host->table, record->redaction))
                host->archive_has[record->redaction->id] = false;
        }
    }
}

static void take(struct world *world, const struct host *source) {
    struct host *host = world->host;
    uint64_t end = index_schedule_copy_end(source->node->committed, source->table.flat.position);
    MUST(end >= source->table.flat.position && end <= log_durable(source->log)); /* LOG-3, LOG-1 */
    struct model_disk *copy = copy_log(world, source, end);
    copy->room = host->disk->room;
    model_free(host->disk);
    host->disk = copy;
    host_room_begin(world);
    table_copy(&host->table, &source->table);
    host->frame_count = 0;
    size_t count = host_frames_below(source, end);
    for (size_t i = 0; i < count; i++) *host_add_frame(host) = source->frames[i];
    erase_archived(host);
    host->promised = end;
    host->node->source_life = source->life;
    host->node->snapshots++;
    TRACE(world, "broker", "fetches a snapshot of node %u, up to #%zu", source->number, count);
    node_check_members(world);
}

/* ---- fetching */

static void begin(struct world *world, void *argument, uint64_t fetch);

static const struct host *source_of(const struct world *world) {
    const struct host *source = &world->hosts[1 - world->host->number];
    bool is_reached = !world->network.cut_from[0] && !world->network.cut_from[1];
    return is_reached && source->state == HOST_UP && !source->node->ended ? source : NULL;
}

static void end(struct world *world, void *argument, uint64_t fetch) {
    struct node *node = world->host->node;
    if (node->fetch != fetch) return;
    const struct host *source = source_of(world);
    node->fetched = source && source->life == node->source_life;
    if (!node->fetched) begin(world, NULL, fetch);
}

static void begin(struct world *world, void *argument, uint64_t fetch) {
    struct node *node = world->host->node;
    if (node->fetch != fetch) return;
    const struct host *source = source_of(world);
    if (source) take(world, source);
    uint64_t wait_ns = source ? random_magnitude(&world->random, TRANSFER_MS_BITS) * NS_PER_MS : AGAIN_NS;
    world_after_ns(world, wait_ns, source ? end : begin, NULL, fetch);
}

bool node_has_snapshot(struct world *world) {
    struct node *node = world->host->node;
    struct disk *disk = &node->pair_disk->disk;
    if (!model_lookup(node->pair_disk, WANTED_NAME)) return true;
    if (!node->fetched) {
        if (!node->fetching) world_after(world, &world->options.net, begin, NULL, node->fetch);
        node->fetching = true;
        return false;
    }
    node_stop_fetching(node);
    MUST(disk->unlink(node->pair_disk, "/data/" WANTED_NAME) == 0);
    MUST(disk->sync_directory(node->pair_disk, pair_directory) == 0);
    return true;
}

void node_stop_fetching(struct node *node) {
    node->fetching = node->fetched = false;
    node->fetch++;
}
