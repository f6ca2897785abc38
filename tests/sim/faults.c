/* faults.c: see faults.h. */
#include "faults.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "model_disk.h"

#define FLAGS_OFFSET 6 /* offset in bytes of the flags (FRAME_FLAG_ERASED) in a frame's header (proto/frame.h) */
#define STARTS_MAX 50  /* number of starts after the repair of all faults, of which at least one must succeed */

static struct table old_index; /* an older copy of the index, made by an operator; static, because it takes megabytes */

void faults_draw(struct random *random, struct faults *out) {
    *out = (struct faults){.every_ms = 64u << random_below(random, 7), .down_ms = 16u << random_below(random, 8)};
    uint32_t always = 1u << FAULT_KILL | 1u << FAULT_POWER;
    uint64_t some = random_u64(random);
    out->mask = (uint32_t)(some & random_u64(random)) &
                ((1u << FAULTS) - 1); /* switches on each kind of fault with a probability of a quarter */
    if (random_below(random, 4)) out->mask |= always;
    if (random_below(random, 16) == 0) out->mask = 0; /* one history in sixteen has no faults */
}

/* ---- bits that flip */

/* Returns the position at which the log on the disk ends; changes nothing. */
static uint64_t end_on_disk(struct world *world) {
    struct log_options options = {.directory = "/data/log",
                                  .disk = &world->host->disk->disk,
                                  .segment_size = world->options.segment_size,
                                  .read_only = true};
    struct log_recovery found;
    struct log *log;
    char message[512];
    int error = log_open(&log, &options, world->host->table.flat.position, &found, message, sizeof message);
    MUST(error == 0);
    log_close(log);
    return found.end;
}

/* Returns whether a later frame claims that the log was durable beyond the frame at `position` (LOG-5). */
static bool is_protected(const struct host *host, uint64_t position, uint64_t end) {
    size_t at = host_frames_below(host, position);
    for (size_t i = at + 1; i < host->frame_count && host->frames[i].end <= end; i++) {
        if (host->frames[i].synced_to > host->frames[at].header.position) return true;
    }
    return false;
}

/* Returns the file to repair, even if it has been deleted: after a loss of power, an unsynced deletion is undone, and
 * the file exists again. An unrepaired bit would then make each start refuse, although `flip` says that no bit is wrong
 * (history 80264170). */
static struct model_file *flipped_file(struct world *world, const struct flip *flip) {
    struct model_disk *disk = world->host->disk;
    const struct model_entry *entry = model_find(disk, disk->cached, flip->name);
    if (!entry) entry = model_find(disk, disk->durable, flip->name);
    return entry ? &disk->files[entry->file] : NULL;
}

static void toggle(struct world *world, const struct flip *flip) {
    struct model_file *file = flipped_file(world, flip);
    if (!file || flip->offset >= file->cached_size || flip->offset >= file->durable_size) return;
    file->cached[flip->offset] ^= (uint8_t)(1u << flip->bit);
    file->durable[flip->offset] ^= (uint8_t)(1u << flip->bit);
}

/* Returns whether the payload that has the flipped bit was erased since: then all its bytes, and so the bit, are zeros.
 */
static bool was_erased(const struct host *host, const struct flip *flip, const struct model_file *file) {
    size_t at = host_frames_below(host, flip->position);
    const Tarry__FrameBody *body = at < host->frame_count ? host->frames[at].body : NULL;
    for (size_t i = 0; body && i < body->n_records; i++) {
        const Tarry__TaskPut *put = body->records[i]->put;
        if (body->records[i]->fact_case != TARRY__RECORD__FACT_PUT || !put->fresh) continue;
        if (flip->position < put->task->blob_at || flip->position - put->task->blob_at >= put->task->blob_size)
            continue;
        return content_is_erased(file->cached + flip->offset - (flip->position - put->task->blob_at),
                                 put->task->blob_size);
    }
    return false;
}

/* Returns whether no reader checks the bit. This holds for a bit among the contents of a frame of which some were
 * erased: only a reader of that content checks it. It also holds for the frame's flag of erasure, which no checksum
 * covers (history 20802773). */
static bool is_beside_erased(const struct host *host, const struct flip *flip, const struct model_file *file) {
    size_t at = host_frames_below(host, flip->position);
    if (at == host->frame_count) return false;
    const struct frame_header *header = &host->frames[at].header;
    if (flip->position == header->position + FLAGS_OFFSET && 1u << flip->bit == FRAME_FLAG_ERASED) return true;
    uint64_t blobs = header->position + FRAME_HEADER_SIZE;
    if (flip->position < blobs || flip->position - blobs >= header->blob_size) return false;
    const uint8_t *frame = file->cached + flip->offset - (flip->position - header->position);
    struct frame_header read;
    return frame_header_decode(frame, &read) && (read.flags & FRAME_FLAG_ERASED) != 0;
}

void faults_repair(struct world *world, struct faults *faults) {
    struct flip *flip = &faults->flip;
    if (!flip->active) return;
    flip->active = false;
    struct model_file *file = flipped_file(world, flip);
    if (!flip->copy) {
        if (!file || !was_erased(world->host, flip, file)) toggle(world, flip);
    } else if (file) {
        MUST(file->cached_size == flip->copy_size && file->durable_size == flip->copy_size);
        model_writes_drop(file);
        memcpy(file->cached, flip->copy, flip->copy_size);
        memcpy(file->durable, flip->copy, flip->copy_size);
    }
    TRACE(world, "disk", "%s is put right", flip->name);
}

/* Flips a bit somewhere in the frames of a random segment. If `down`, the last segment may be chosen, too, and a copy
 * of the file is kept. */
static void flip_somewhere(struct world *world, struct faults *faults, bool down) {
    struct host *host = world->host;
    struct flip *flip = &faults->flip;
    const struct model_entry *segments[MODEL_FILES_MAX];
    size_t count = 0;
    const struct model_entry *last = NULL;
    for (int i = 0; i < MODEL_FILES_MAX; i++) {
        const struct model_entry *entry = &host->disk->cached[i];
        size_t size = strlen(entry->name);
        if (size < 4 || strcmp(entry->name + size - 4, ".seg") != 0) continue;
        if (!last || strcmp(entry->name, last->name) > 0) last = entry;
        segments[count++] = entry;
    }
    if (flip->active || !count) return;
    const struct model_entry *entry = segments[random_below(&world->random, count)];
    if (entry == last && !down) return; /* a running writer would overwrite a bit flipped in the last segment */
    struct model_file *file = &host->disk->files[entry->file];
    if (!file->cached_size || file->cached_size != file->durable_size) return;
    uint64_t base = strtoull(entry->name, NULL, 16);
    uint64_t end = host->frame_count ? host->frames[host->frame_count - 1].end : base;
    uint64_t used = 4096 + (end > base ? end - base : 0);
    if (used > file->cached_size || one_in(world, 8)) used = file->cached_size;
    *flip = (struct flip){.active = true, .offset = random_below(&world->random, used)};
    flip->bit = (uint8_t)random_below(&world->random, 8);
    flip->position = flip->offset < 4096 ? 0 : base + flip->offset - 4096;
    memcpy(flip->name, entry->name, sizeof flip->name);
    if (down) {
        flip->copy = world_copy(world, file->cached, file->cached_size);
        flip->copy_size = file->cached_size;
        flip->in_last = entry == last;
        flip->is_protected = !flip->position || is_protected(host, flip->position, end_on_disk(world));
    }
    toggle(world, flip);
    TRACE(world, "disk", "a bit of %s flips at %llu", flip->name, (unsigned long long)flip->offset);
}

/* ---- starting again */

static void guard(struct world *world, void *argument, uint64_t number);

static void guard_later(struct world *world, struct faults *faults) {
    world_after_ns(world, (1 + random_below(&world->random, faults->down_ms)) * NS_PER_MS, guard, faults, 0);
}

/* Starts the broker with a flipped bit. Either the broker starts with correct data, or it refuses to start. It may cut
 * the damage as a torn tail only if no seal frame protects the flipped byte yet. */
static void start_with_flip(struct world *world, struct faults *faults) {
    struct host *host = world->host;
    struct flip *flip = &faults->flip;
    host->may_cut_at = flip->is_protected ? UINT64_MAX : flip->position;
    bool up = host_start(world, false);
    host->may_cut_at = UINT64_MAX;
    if (!up) {
        faults->flips_refused++;
        faults_repair(world, faults);
        (void)host_start(world, false);
        return;
    }
    faults->flips_harmless++;
    if (flip->in_last) {
        const struct model_file *file = flipped_file(world, flip);
        MUST(file);
        flip->active = file->cached[flip->offset] !=
                       0; /* a start zeroes the bytes behind the log's end, so a bit flipped there is gone */
        MUST(!flip->active || is_beside_erased(host, flip, file));
    }
    flip->copy = NULL;
}

static void start(struct world *world, struct faults *faults) {
    struct host *host = world->host;
    if (faults->halted) {
        faults->halted = false;
        host_kill(world, HOST_POWER_LOST);
    }
    if (faults->flip.active && !faults->flip.copy)
        faults_repair(world, faults); /* repairs the flipped bit, because it may have caused the broker's failure */
    bool can_flip = (faults->mask & 1u << FAULT_FLIP) && !faults->over && !host->disk->read_error;
    bool wants_flip = can_flip && one_in(world, 4);
    if (wants_flip) {
        host_kill(world, HOST_POWER_LOST);
        flip_somewhere(world, faults, true);
    }
    if (faults->flip.active) {
        start_with_flip(world, faults);
        return;
    }
    bool fails = (faults->mask & (1u << FAULT_CALL | 1u << FAULT_HALT)) && !faults->over && one_in(world, 4);
    if (fails) { /* while the broker starts, a fault may hit any call of its recovery */
        host->disk->fail_at = host->disk->calls + 1 + random_below(&world->random, 12);
        host->disk->fail_error = -EIO;
        host->disk->fail_for_ever = true;
        faults->halted = one_in(world, 2);
    }
    bool accept = world->host->wall_offset_ns != world->believable_ns && one_in(world, 8);
    bool up = host_start(world, accept);
    if (up) {
        faults->halted = false;
        host->disk->fail_at = 0;
        return;
    }
    host_kill(world, HOST_KILLED); /* the kill ends the faults of the disk: no further call fails */
    if (!fails && world->host->state == HOST_REFUSED) MUST(host->disk->room || host->disk->read_error);
}

static void guard(struct world *world, void *argument, uint64_t number) {
    struct faults *faults = argument;
    if (faults->over) return;
    if (world->host->state != HOST_UP) start(world, faults);
    guard_later(world, faults);
}

/* ---- faults */

/* Returns the start of the oldest segment on the disk. */
static uint64_t log_start_of(const struct model_disk *disk) {
    uint64_t start = UINT64_MAX;
    for (int i = 0; i < MODEL_FILES_MAX; i++) {
        const char *name = disk->cached[i].name;
        uint64_t base = strstr(name, ".seg") ? strtoull(name, NULL, 16) : UINT64_MAX;
        if (base < start) start = base;
    }
    return start;
}

static void heal_link(struct world *world, void *argument, uint64_t number) {
    struct client *client = argument;
    client->link = (struct link){0};
}

static void cut_link(struct world *world) {
    struct client *client = world->clients[random_below(&world->random, world->client_count)];
    client->link = (struct link){.cut_up = one_in(world, 2), .cut_down = one_in(world, 2)};
    TRACE(world, "network", "%s is cut off%s%s", client->name, client->link.cut_up ? ", outwards" : "",
          client->link.cut_down ? ", inwards" : "");
    world_after_ns(world, (1 + random_magnitude(&world->random, 14)) * NS_PER_MS, heal_link, client, 0);
}

static void find_room(struct world *world, void *argument, uint64_t number) {
    if (!world->host->disk->room) return;
    TRACE(world, "disk", "has room again");
    world->host->disk->room = world->options.disk_room;
}

static void fill_up(struct world *world) {
    struct model_disk *disk = world->host->disk;
    uint64_t used = model_room_used(disk);
    disk->room = used + 1 + random_below(&world->random, 2 * (world->options.segment_size + 4096));
    TRACE(world, "disk", "is nearly full");
    world_after_ns(world, (1 + random_magnitude(&world->random, 13)) * NS_PER_MS, find_room, NULL, 0);
}

static void read_again(struct world *world, void *argument, uint64_t number) {
    world->host->disk->read_error = 0;
}

/* Lets the held indexer continue. If its process is stopped, the indexer continues when the process does (history
 * 80015802). */
static void index_goes_on(struct world *world, void *argument, uint64_t number) {
    world_enter(world, world->host->number);
    host_release_index(world);
    world_enter(world, WORLD_OUTSIDE);
}

static void take_back(struct world *world, void *argument, uint64_t number) {
    struct faults *faults = argument;
    if (faults->jumped_ms) world_jump_wall(world, -faults->jumped_ms);
    faults->jumped_ms = 0;
}

static void jump(struct world *world, struct faults *faults, bool far) {
    uint64_t ms = far ? CLOCK_JUMP_RUN_MS + random_magnitude(&world->random, 39) : random_magnitude(&world->random, 21);
    int64_t by_ms = one_in(world, 2) ? (int64_t)ms : -(int64_t)ms;
    if (!far) {
        world_jump_wall(world, by_ms);
        return;
    }
    if (faults->jumped_ms) return;
    faults->jumped_ms = by_ms;
    world_jump_wall(world, by_ms);
    world_after_ns(world, (1 + random_magnitude(&world->random, 13)) * NS_PER_MS, take_back, faults, 0);
}

/* Returns whether a frame after `position` has a redaction of contents. The index has not absorbed frames after
 * `position`. */
static bool has_redacted_beyond(const struct host *host, uint64_t position) {
    for (size_t i = host_frames_below(host, position); i < host->frame_count; i++) {
        const Tarry__FrameBody *body = host->frames[i].body;
        for (size_t k = 0; body && k < body->n_records; k++) {
            const Tarry__Record *record = body->records[k];
            bool redacts = record->fact_case == TARRY__RECORD__FACT_REDACTION;
            if (redacts && record->redaction->frame >= position) return true;
        }
    }
    return false;
}

static void put_back_old_index(struct world *world, struct faults *faults) {
    struct host *host = world->host;
    if (!faults->has_old_index) {
        table_copy(&old_index, &host->table);
        faults->has_old_index = true;
        return;
    }
    host_kill(world, one_in(world, 2) ? HOST_KILLED : HOST_POWER_LOST);
    if (faults->halted) host_kill(world, HOST_POWER_LOST);
    faults->halted = false;
    faults_repair(world, faults); /* repairs the flipped bit first, so that this start has only one reason to refuse */
    host->disk->read_error = 0;
    static struct table newer;
    table_copy(&newer, &host->table);
    table_copy(&host->table, &old_index);
    TRACE(world, "disk", "an older index is put in place");
    bool is_complete = log_start_of(host->disk) <= old_index.log_start;
    bool may_seem_torn = has_redacted_beyond(host, old_index.flat.position);
    faults->has_old_index = false;
    if (host_start(world, false)) {
        MUST(is_complete);
        return;
    }
    MUST(!is_complete || may_seem_torn); /* LOG-3: the start may be refused only for missing segments, or for damage
                                            that looks like a torn tail (LOG-5) */
    host_kill(world, HOST_KILLED);
    table_copy(&host->table, &newer);
}

static void fail_calls(struct world *world, struct faults *faults, bool halt) {
    struct model_disk *disk = world->host->disk;
    if (disk->fail_at) return;
    disk->fail_at = disk->calls + 1 + random_below(&world->random, 12);
    disk->fail_error = -EIO;
    disk->fail_for_ever = halt;
    faults->halted = halt;
}

static void happens_now(struct world *world, struct faults *faults, enum fault fault) {
    faults->counts[fault]++;
    bool up = world->host->state == HOST_UP;
    switch (fault) {
    case FAULT_KILL:
        host_kill(world, HOST_KILLED);
        break;
    case FAULT_POWER:
        host_kill(world, HOST_POWER_LOST);
        break;
    case FAULT_STOP:
        host_stop(world);
        break;
    case FAULT_CALL:
        if (up) fail_calls(world, faults, false);
        break;
    case FAULT_HALT:
        if (up) fail_calls(world, faults, true);
        break;
    case FAULT_READ:
        if (!up) break;
        world->host->disk->read_error = -EIO;
        world_after_ns(world, (1 + random_below(&world->random, 50)) * NS_PER_MS, read_again, NULL, 0);
        break;
    case FAULT_FULL:
        if (!world->host->disk->room || world->host->disk->room == world->options.disk_room) fill_up(world);
        break;
    case FAULT_FLIP:
        if (up) flip_somewhere(world, faults, false);
        break;
    case FAULT_OLD_INDEX:
        put_back_old_index(world, faults);
        break;
    case FAULT_LAG:
        host_hold_index(world);
        world_after_ns(world, (1 + random_magnitude(&world->random, 13)) * NS_PER_MS, index_goes_on, NULL, 0);
        break;
    case FAULT_LINK:
        cut_link(world);
        break;
    case FAULT_JUMP:
        jump(world, faults, false);
        break;
    case FAULT_FAR_JUMP:
        jump(world, faults, true);
        break;
    case FAULT_SUSPEND:
        world_suspend(world, random_magnitude(&world->random, 24));
        break;
    case FAULT_PAUSE:
        if (up) world_pause(world, world->host->number, 1 + random_magnitude(&world->random, 13));
        break;
    case FAULTS:
        break;
    }
}

static void fault_comes(struct world *world, void *argument, uint64_t number) {
    struct faults *faults = argument;
    if (faults->over) return;
    uint32_t left = faults->mask;
    for (uint64_t skip = random_below(&world->random, (uint64_t)__builtin_popcount(left)); skip; skip--)
        left &= left - 1;
    happens_now(world, faults, (enum fault)__builtin_ctz(left));
    world_after_ns(world, (1 + random_below(&world->random, faults->every_ms * 2)) * NS_PER_MS, fault_comes, faults, 0);
}

void faults_start(struct world *world, struct faults *faults) {
    struct random *random = &world->random;
    struct network *network = &world->network;
    if (random_below(random, 3) == 0) network->drop_permille = 1u << random_below(random, 9);
    if (random_below(random, 3) == 0) network->double_permille = 1u << random_below(random, 9);
    if (random_below(random, 2) == 0) network->late_permille = 1u << random_below(random, 10);
    network->late_ms = 1u << random_below(random, 12);
    guard_later(world, faults);
    if (!faults->mask) return;
    world_after_ns(world, random_below(random, faults->every_ms * 2) * NS_PER_MS, fault_comes, faults, 0);
}

void faults_end(struct world *world, struct faults *faults) {
    struct host *host = world->host;
    bool read_wrong =
        faults->flip.active; /* a reader's buffer may still contain the flipped bit, so wrong reads are allowed */
    faults->over = true;
    world_resume(world, host->number);
    world->network = (struct network){.dropped = world->network.dropped, .doubled = world->network.doubled};
    for (size_t i = 0; i < world->client_count; i++) world->clients[i]->link = (struct link){0};
    faults_repair(world, faults);
    host->disk->read_error = 0;
    host->disk->room = world->options.disk_room;
    if ((faults->halted || read_wrong) && host->state == HOST_UP) host_kill(world, HOST_POWER_LOST);
    host->disk->fail_at = 0;
    host_release_index(world);
    /* Sets the clock as far ahead as a broker may once have believed it to be. If a crash made the broker forget
     * that, an operator accepts the clock. */
    if (world->host->wall_offset_ns != world->believable_ns)
        world_jump_wall(world, (world->believable_ns - world->host->wall_offset_ns) / (int64_t)NS_PER_MS);
    faults->jumped_ms = 0;
    for (int i = 0; host->state != HOST_UP; i++) {
        MUST(i < STARTS_MAX);
        start(world, faults);
    }
    (void)host_now(world);
    if (!host->clock.held) return;
    host_stop(world);
    MUST(host_start(world, true));
}
