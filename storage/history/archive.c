/* archive.c: lists the archive's files and reads their heads. See archive.h; FORMAT.md has the bytes. */
#include "archive.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive_internal.h"
#include "bytes.h"

static const char archive_suffix[] = ".seg.zst";
const char archive_temporary_suffix[] = ".seg.zst.tmp";

static const char head_magic[8] = {'T', 'A', 'R', 'R', 'Y', 'A', 'R', 'C'};
#define HEAD_SUMMED 240u
#define HEAD_USED 152u

/* ---- names */

void archive_file_path(const struct archive *archive, const char *name, char path[ARCHIVE_PATH_SIZE]) {
    int size = snprintf(path, ARCHIVE_PATH_SIZE, "%s/%s", archive->directory, name);
    assert(size > 0 && (size_t)size < ARCHIVE_PATH_SIZE);
}

void archive_name_path(const struct archive *archive, uint64_t base, const char *suffix, char path[ARCHIVE_PATH_SIZE]) {
    char name[48];
    snprintf(name, sizeof name, "%016" PRIx64 "%s", base, suffix);
    archive_file_path(archive, name, path);
}

void archive_path(const struct archive *archive, uint64_t base, char path[ARCHIVE_PATH_SIZE]) {
    archive_name_path(archive, base, archive_suffix, path);
}

/* Parses an archive file's name. False: not such a name. */
static bool name_decode(const char *name, uint64_t *out_base) {
    char segment[21];
    if (strlen(name) != 16 + sizeof archive_suffix - 1 || strcmp(name + 16, archive_suffix) != 0) return false;
    memcpy(segment, name, 20);
    segment[20] = 0;
    return segment_name_decode(segment, segment_suffix, out_base);
}

struct names {
    uint64_t *bases;
    size_t count;
    size_t room;
};

static int take_name(void *argument, const char *name) {
    struct names *names = argument;
    uint64_t base;
    if (!name_decode(name, &base)) return 0;
    if (names->count == names->room) {
        size_t room = names->room ? 2 * names->room : 64;
        uint64_t *bases = realloc(names->bases, room * sizeof *bases);
        if (!bases) return -ENOMEM;
        names->bases = bases;
        names->room = room;
    }
    names->bases[names->count++] = base;
    return 0;
}

static int compare_bases(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

int archive_list(const struct archive *archive, uint64_t **out_bases, size_t *out_count) {
    struct names names = {0};
    int result = archive->disk->list(archive->disk->context, archive->directory, take_name, &names);
    if (result < 0) {
        free(names.bases);
        return result;
    }
    if (names.count > 0) qsort(names.bases, names.count, sizeof *names.bases, compare_bases);
    *out_bases = names.bases;
    *out_count = names.count;
    return 0;
}

/* ---- the head */

void archive_head_encode(const struct archive_info *info, uint8_t out[ARCHIVE_HEAD_SIZE]) {
    memset(out, 0, ARCHIVE_HEAD_SIZE);
    memcpy(out, head_magic, sizeof head_magic);
    put_u32(out + 8, ARCHIVE_VERSION);
    put_u32(out + 12, info->epoch);
    put_u64(out + 16, info->base);
    put_u64(out + 24, info->end);
    memcpy(out + 32, info->cluster, sizeof info->cluster);
    put_u64(out + 48, info->first_ns);
    put_u64(out + 56, info->last_ns);
    put_u64(out + 64, info->first_wall_ns);
    put_u64(out + 72, info->last_wall_ns);
    put_u64(out + 80, info->frames);
    put_u64(out + 88, info->records);
    put_u64(out + 96, info->erased);
    memcpy(out + 104, info->chain, FRAME_CHAIN_SIZE);
    put_u64(out + 136, info->bytes);
    put_u64(out + 144, info->sum);
    put_u64(out + HEAD_SUMMED, frame_sum(out, HEAD_SUMMED));
}

static bool is_sensible(const uint8_t in[ARCHIVE_HEAD_SIZE], const struct archive_info *info) {
    for (size_t i = HEAD_USED; i < HEAD_SUMMED; i++)
        if (in[i] != 0) return false;
    return info->base >= LOG_POSITION_FIRST && info->base % FRAME_ALIGN == 0 && info->end % FRAME_ALIGN == 0 &&
           info->end > info->base && info->end < UINT64_MAX / 4;
}

/* Decodes the head. 0; or LOG_DAMAGED or LOG_VERSION, with a phrase in `*out_problem`. */
static int archive_head_decode(const uint8_t in[ARCHIVE_HEAD_SIZE], struct archive_info *out,
                               const char **out_problem) {
    *out_problem = "is not an archived segment of Tarry";
    if (memcmp(in, head_magic, sizeof head_magic) != 0) return LOG_DAMAGED;
    *out_problem = "has a head with a wrong checksum";
    if (get_u64(in + HEAD_SUMMED) != frame_sum(in, HEAD_SUMMED)) return LOG_DAMAGED;
    *out_problem = "has another format version";
    if (get_u32(in + 8) != ARCHIVE_VERSION) return LOG_VERSION;
    struct archive_info info = {
        .epoch = get_u32(in + 12),
        .base = get_u64(in + 16),
        .end = get_u64(in + 24),
        .first_ns = get_u64(in + 48),
        .last_ns = get_u64(in + 56),
        .first_wall_ns = get_u64(in + 64),
        .last_wall_ns = get_u64(in + 72),
        .frames = get_u64(in + 80),
        .records = get_u64(in + 88),
        .erased = get_u64(in + 96),
        .bytes = get_u64(in + 136),
        .sum = get_u64(in + 144),
    };
    memcpy(info.cluster, in + 32, sizeof info.cluster);
    memcpy(info.chain, in + 104, FRAME_CHAIN_SIZE);
    *out_problem = "has an invalid head";
    if (!is_sensible(in, &info)) return LOG_DAMAGED;
    *out = info;
    return 0;
}

static int judge_head(const struct archive *archive, int handle, uint64_t base, struct archive_info *out,
                      const char **out_problem) {
    uint8_t bytes[SEEKABLE_SKIPPABLE_SIZE + ARCHIVE_HEAD_SIZE];
    int64_t count = disk_read_all(archive->disk, handle, bytes, sizeof bytes, 0);
    if (count < 0) return (int)count;
    *out_problem = "is too short for an archived segment";
    if (count != sizeof bytes) return LOG_DAMAGED;
    *out_problem = "is not an archived segment of Tarry";
    if (get_u32(bytes) != SEEKABLE_HEAD_MAGIC || get_u32(bytes + 4) != ARCHIVE_HEAD_SIZE) return LOG_DAMAGED;
    int error = archive_head_decode(bytes + SEEKABLE_SKIPPABLE_SIZE, out, out_problem);
    if (error) return error;
    *out_problem = "contains another segment than its name says";
    if (out->base != base) return LOG_DAMAGED;
    *out_problem = "belongs to another broker";
    if (memcmp(out->cluster, archive->cluster, sizeof out->cluster) != 0) return LOG_FOREIGN;
    int64_t size = archive->disk->size(archive->disk->context, handle);
    if (size < 0) return (int)size;
    *out_problem = "does not have the size that its head says";
    return (uint64_t)size == out->bytes ? 0 : LOG_DAMAGED;
}

int archive_look_at(const struct archive *archive, int handle, uint64_t base, struct archive_info *out,
                    const char **out_problem) {
    struct archive_info info;
    const char *problem = NULL;
    int error = judge_head(archive, handle, base, &info, &problem);
    if (error) *out_problem = error <= LOG_DAMAGED ? problem : NULL;
    if (!error) *out = info;
    return error;
}

int archive_look(const struct archive *archive, uint64_t base, struct archive_info *out, const char **out_problem) {
    char path[ARCHIVE_PATH_SIZE];
    archive_path(archive, base, path);
    *out_problem = NULL;
    int handle = archive->disk->open(archive->disk->context, path, O_RDONLY, 0);
    if (handle < 0) return handle;
    int error = archive_look_at(archive, handle, base, out, out_problem);
    (void)archive->disk->close(archive->disk->context, handle); /* ignore the error: the file was only read */
    return error;
}

/* ---- deleting */

int archive_delete(const struct archive *archive, uint64_t base) {
    const struct disk *disk = archive->disk;
    char path[ARCHIVE_PATH_SIZE];
    archive_name_path(archive, base, ".sum", path);
    (void)disk->unlink(disk->context, path); /* ignore errors: a missing summary does no harm */
    archive_path(archive, base, path);
    int error = disk->unlink(disk->context, path);
    return error ? error : disk->sync_directory(disk->context, archive->directory);
}

/* Stores the name of a temporary file in `argument`. */
static int take_temporary(void *argument, const char *name) {
    size_t size = strlen(name), suffix = sizeof archive_temporary_suffix - 1;
    bool is_ours = (size == 16 + suffix && strcmp(name + 16, archive_temporary_suffix) == 0) ||
                   (size == 24 && strcmp(name + 16, ".sum.tmp") == 0);
    if (!is_ours) return 0;
    memcpy(argument, name, size + 1);
    return 1;
}

int archive_sweep(const struct archive *archive) {
    const struct disk *disk = archive->disk;
    char name[64], path[ARCHIVE_PATH_SIZE];
    for (;;) {
        int result = disk->list(disk->context, archive->directory, take_temporary, name);
        if (result <= 0) return result;
        archive_file_path(archive, name, path);
        result = disk->unlink(disk->context, path);
        if (result < 0) return result;
    }
}
