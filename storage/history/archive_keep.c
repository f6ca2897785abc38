/* archive_keep.c: see archive_keep.h. */
#include "archive_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive_internal.h"
#include "bytes.h"

#define SMALL_VERSION 1u /* format version of holds and owner files */
#define HOLD_HEAD_SIZE 64u
#define HOLD_SIZE_MAX (HOLD_HEAD_SIZE + ARCHIVE_REASON_SIZE + 8u)
#define OWNER_SIZE 56u
#define OWNER_SUMMED 48u

static const char hold_magic[8] = "TARRYHLD", owner_magic[8] = "TARRYOWN";

/* A process has the lock for milliseconds. If the process is killed, the system releases the lock. */
int archive_lock(const struct archive *archive) {
    char path[ARCHIVE_PATH_SIZE];
    archive_file_path(archive, "lock", path);
    int handle = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (handle < 0) return -errno;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(handle, F_OFD_SETLK, &lock) == 0) return handle;
    int error = errno == EACCES ? EAGAIN : errno;
    close(handle);
    return -error;
}

/* ---- small files: written under a temporary name, synced, renamed, directory synced */

static int write_small(const struct archive *archive, const char *name, const void *bytes, size_t size) {
    return disk_replace(archive->disk, archive->directory, "small.tmp", name, bytes, size);
}

/* Returns the number of bytes read, at most `room`. */
static int64_t read_small(const struct archive *archive, const char *name, void *out, size_t room) {
    return disk_read_file(archive->disk, archive->directory, name, out, room);
}

/* ---- holds */

void archive_hold_name(uint32_t number, char out[ARCHIVE_HOLD_NAME_SIZE]) {
    snprintf(out, ARCHIVE_HOLD_NAME_SIZE, "%08" PRIx32 ".hold", number);
}

static bool hold_name_decode(const char *name, uint32_t *out_number) {
    char again[ARCHIVE_HOLD_NAME_SIZE];
    unsigned number;
    if (sscanf(name, "%8x", &number) != 1 || number == 0) return false;
    archive_hold_name(number, again);
    *out_number = number;
    return strcmp(name, again) == 0;
}

/* Returns the encoded size. */
static size_t hold_encode(const struct archive_hold *hold, uint8_t out[HOLD_SIZE_MAX]) {
    size_t reason_size = strlen(hold->reason), at = HOLD_HEAD_SIZE + reason_size;
    memset(out, 0, HOLD_SIZE_MAX);
    memcpy(out, hold_magic, sizeof hold_magic);
    put_u32(out + 8, SMALL_VERSION);
    put_u32(out + 12, hold->number);
    put_u64(out + 16, hold->from);
    put_u64(out + 24, hold->to);
    put_u64(out + 32, hold->from_ns);
    put_u64(out + 40, hold->to_ns);
    put_u64(out + 48, hold->made_ms);
    put_u32(out + 56, (uint32_t)reason_size);
    memcpy(out + HOLD_HEAD_SIZE, hold->reason, reason_size);
    put_u64(out + at, frame_sum(out, at));
    return at + 8;
}

static bool hold_decode(const uint8_t *in, size_t size, struct archive_hold *out) {
    if (size < HOLD_HEAD_SIZE + 8 || size > HOLD_SIZE_MAX || memcmp(in, hold_magic, sizeof hold_magic) != 0)
        return false;
    uint32_t reason_size = get_u32(in + 56);
    if (get_u32(in + 8) != SMALL_VERSION || get_u32(in + 60) != 0 || reason_size >= ARCHIVE_REASON_SIZE) return false;
    if (size != HOLD_HEAD_SIZE + reason_size + 8 || get_u64(in + size - 8) != frame_sum(in, size - 8)) return false;
    struct archive_hold hold = {
        .number = get_u32(in + 12),
        .from = get_u64(in + 16),
        .to = get_u64(in + 24),
        .from_ns = get_u64(in + 32),
        .to_ns = get_u64(in + 40),
        .made_ms = get_u64(in + 48),
    };
    memcpy(hold.reason, in + HOLD_HEAD_SIZE, reason_size);
    *out = hold;
    return true;
}

struct reading {
    const struct archive *archive;
    struct archive_holds *holds;
    size_t room;
    int error;
};

static int take_hold(void *argument, const char *name) {
    struct reading *reading = argument;
    struct archive_holds *holds = reading->holds;
    uint8_t bytes[HOLD_SIZE_MAX + 1];
    struct archive_hold hold;
    uint32_t number;
    if (!hold_name_decode(name, &number)) return 0;
    int64_t size = read_small(reading->archive, name, bytes, sizeof bytes);
    if (size == -ENOENT) return 0; /* another process has released the hold since the directory was listed */
    if (size < 0 || !hold_decode(bytes, (size_t)size, &hold) || hold.number != number) {
        holds->unreadable = number;
        return 0;
    }
    if (holds->count == reading->room) {
        size_t room = reading->room ? 2 * reading->room : 16;
        struct archive_hold *grown = realloc(holds->holds, room * sizeof *grown);
        if (!grown) return -ENOMEM;
        holds->holds = grown;
        reading->room = room;
    }
    holds->holds[holds->count++] = hold;
    return 0;
}

static int compare_holds(const void *a, const void *b) {
    uint32_t left = ((const struct archive_hold *)a)->number, right = ((const struct archive_hold *)b)->number;
    return left < right ? -1 : left > right;
}

int archive_holds_read(const struct archive *archive, struct archive_holds *out) {
    *out = (struct archive_holds){0};
    struct reading reading = {.archive = archive, .holds = out};
    int error = archive->disk->list(archive->disk->context, archive->directory, take_hold, &reading);
    if (error) archive_holds_free(out);
    if (!error && out->count > 0) qsort(out->holds, out->count, sizeof *out->holds, compare_holds);
    return error;
}

void archive_holds_free(struct archive_holds *holds) {
    free(holds->holds);
    *holds = (struct archive_holds){0};
}

/* Returns true if the two ranges overlap. A `to` of 0 means no end. */
static bool meets(uint64_t from, uint64_t to, uint64_t first, uint64_t last) {
    return last >= from && (to == 0 || first < to);
}

const struct archive_hold *archive_held_by(const struct archive_holds *holds, const struct archive_info *info,
                                           bool *out_all) {
    *out_all = holds->unreadable != 0;
    for (size_t i = 0; i < holds->count; i++) {
        const struct archive_hold *hold = &holds->holds[i];
        if (meets(hold->from, hold->to, info->base, info->end - 1) &&
            meets(hold->from_ns, hold->to_ns, info->first_ns, info->last_ns))
            return hold;
    }
    return NULL;
}

int archive_hold_place(const struct archive *archive, struct archive_hold *hold) {
    struct archive_holds holds;
    uint8_t bytes[HOLD_SIZE_MAX];
    char name[ARCHIVE_HOLD_NAME_SIZE];
    int error = archive_holds_read(archive, &holds);
    if (error) return error;
    uint32_t last = holds.count > 0 ? holds.holds[holds.count - 1].number : 0;
    if (holds.unreadable > last) last = holds.unreadable;
    bool is_full = holds.count >= ARCHIVE_HOLDS_MAX || last == UINT32_MAX;
    archive_holds_free(&holds);
    if (is_full) return -EDQUOT;
    hold->number = last + 1;
    archive_hold_name(hold->number, name);
    return write_small(archive, name, bytes, hold_encode(hold, bytes));
}

int archive_hold_release(const struct archive *archive, uint32_t number) {
    char name[ARCHIVE_HOLD_NAME_SIZE], path[ARCHIVE_PATH_SIZE];
    archive_hold_name(number, name);
    archive_file_path(archive, name, path);
    int error = archive->disk->unlink(archive->disk->context, path);
    return error ? error : archive->disk->sync_directory(archive->disk->context, archive->directory);
}

/* ---- pruning */

struct looking {
    struct archive_info *infos;
    size_t count;
    uint64_t bytes;
};

/* Reads the heads of all readable files. */
static int look_at_all(const struct archive *archive, struct looking *out, uint64_t *out_unknown) {
    uint64_t *bases = NULL;
    size_t count = 0;
    const char *problem;
    int error = archive_list(archive, &bases, &count);
    if (error) return error;
    *out = (struct looking){.infos = calloc(count + 1, sizeof *out->infos)};
    for (size_t i = 0; i < count && out->infos; i++) {
        error = archive_look(archive, bases[i], &out->infos[out->count], &problem);
        if (error == -ENOENT) continue;
        if (error)
            ++*out_unknown;
        else
            out->bytes += out->infos[out->count++].bytes;
    }
    free(bases);
    return out->infos ? 0 : -ENOMEM;
}

int archive_prune(const struct archive *archive, const struct archive_limits *limits, bool dry,
                  void (*each)(void *argument, const struct archive_info *info), void *argument,
                  struct archive_pruning *out) {
    struct archive_holds holds;
    struct looking all = {0};
    *out = (struct archive_pruning){0};
    int error = archive_holds_read(archive, &holds);
    if (error) return error;
    error = look_at_all(archive, &all, &out->unknown);
    for (size_t i = 0; i < all.count && !error; i++) {
        const struct archive_info *info = &all.infos[i];
        bool is_all_held;
        if (info->last_wall_ns >= limits->before_wall_ns && all.bytes - out->bytes <= limits->bytes_max) continue;
        if (archive_held_by(&holds, info, &is_all_held) || is_all_held) {
            out->held++;
            continue;
        }
        if (each) each(argument, info);
        error = dry ? 0 : archive_delete(archive, info->base);
        if (error) break;
        out->files++;
        out->bytes += info->bytes;
    }
    free(all.infos);
    archive_holds_free(&holds);
    return error;
}

/* ---- owner */

int archive_owner_read(const struct archive *archive, struct archive_owner *out) {
    uint8_t bytes[OWNER_SIZE + 1];
    int64_t size = read_small(archive, "owner", bytes, sizeof bytes);
    if (size < 0) return (int)size;
    if (size != OWNER_SIZE || memcmp(bytes, owner_magic, sizeof owner_magic) != 0) return LOG_DAMAGED;
    if (get_u64(bytes + OWNER_SUMMED) != frame_sum(bytes, OWNER_SUMMED)) return LOG_DAMAGED;
    if (get_u32(bytes + 8) != SMALL_VERSION || get_u32(bytes + 12) != 0) return LOG_VERSION;
    memcpy(out->cluster, bytes + 16, sizeof out->cluster);
    memcpy(out->member, bytes + 32, sizeof out->member);
    return 0;
}

int archive_owner_write(const struct archive *archive, const struct archive_owner *owner) {
    uint8_t bytes[OWNER_SIZE] = {0};
    memcpy(bytes, owner_magic, sizeof owner_magic);
    put_u32(bytes + 8, SMALL_VERSION);
    memcpy(bytes + 16, owner->cluster, sizeof owner->cluster);
    memcpy(bytes + 32, owner->member, sizeof owner->member);
    put_u64(bytes + OWNER_SUMMED, frame_sum(bytes, OWNER_SUMMED));
    return write_small(archive, "owner", bytes, sizeof bytes);
}
