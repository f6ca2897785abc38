/* seekable.c: see seekable.h. Little-endian integers throughout.
 *
 *   head       0x184D2A50, size, content               a skippable frame
 *   frame …    as zstd makes them, with content size and checksum
 *   table      0x184D2A5E, size                        a skippable frame
 *              (compressed size, unpacked size) …      an entry a frame, the head included (0 unpacked)
 *              number of entries, 0 (no checksums in the table), 0x8F92EAB1 */
#include "seekable.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "bytes.h"
#include "log.h"

#define TABLE_MAGIC 0x184D2A5Eu
#define SEEKABLE_MAGIC 0x8F92EAB1u
#define ENTRY_SIZE 8u
#define FOOTER_SIZE 9u
/* Number of bytes between two syncs; keeps each sync short. */
#define SYNC_BYTES (8u << 20)

/* ---- writing */

struct seekable_writer {
    const struct disk *disk;
    int handle;
    uint32_t head_size;
    ZSTD_CCtx *context;
    XXH3_state_t *sum;
    uint8_t *content; /* data of the next frame, before compression */
    size_t content_size;
    uint8_t *packed; /* buffer for a compressed frame, or for the table */
    size_t packed_room;
    uint8_t *entries; /* entries of the seek table, as in the file */
    size_t entry_count;
    size_t entry_room;
    uint64_t offset; /* current offset in the file */
    uint64_t unsynced;
};

void seekable_writer_close(struct seekable_writer *writer) {
    if (!writer) return;
    ZSTD_freeCCtx(writer->context);
    XXH3_freeState(writer->sum);
    free(writer->content);
    free(writer->packed);
    free(writer->entries);
    free(writer);
}

static int entry_add(struct seekable_writer *writer, size_t packed_size, size_t content_size) {
    if (writer->entry_count == SEEKABLE_FRAMES_MAX) return -EFBIG;
    if (writer->entry_count == writer->entry_room) {
        size_t room = writer->entry_room ? 2 * writer->entry_room : 128;
        uint8_t *entries = realloc(writer->entries, room * ENTRY_SIZE);
        if (!entries) return -ENOMEM;
        writer->entries = entries;
        writer->entry_room = room;
    }
    uint8_t *entry = writer->entries + ENTRY_SIZE * writer->entry_count++;
    put_u32(entry, (uint32_t)packed_size);
    put_u32(entry + 4, (uint32_t)content_size);
    return 0;
}

int seekable_writer_open(struct seekable_writer **out, const struct disk *disk, int handle, int level,
                         uint32_t head_size) {
    struct seekable_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return -ENOMEM;
    *writer = (struct seekable_writer){.disk = disk, .handle = handle, .head_size = head_size};
    writer->context = ZSTD_createCCtx();
    writer->sum = XXH3_createState();
    writer->content = malloc(SEEKABLE_FRAME_SIZE);
    writer->packed_room = ZSTD_compressBound(SEEKABLE_FRAME_SIZE);
    writer->packed = malloc(writer->packed_room);
    bool is_fine = writer->context && writer->sum && writer->content && writer->packed &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(writer->context, ZSTD_c_compressionLevel, level)) &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(writer->context, ZSTD_c_checksumFlag, 1));
    if (!is_fine || entry_add(writer, SEEKABLE_SKIPPABLE_SIZE + head_size, 0) != 0) {
        seekable_writer_close(writer);
        return -ENOMEM;
    }
    XXH3_64bits_reset(writer->sum);
    writer->offset = SEEKABLE_SKIPPABLE_SIZE + head_size;
    *out = writer;
    return 0;
}

static int write_on(struct seekable_writer *writer, const void *data, size_t size) {
    int error = disk_write_all(writer->disk, writer->handle, data, size, writer->offset);
    if (error) return error;
    XXH3_64bits_update(writer->sum, data, size);
    writer->offset += size;
    writer->unsynced += size;
    if (writer->unsynced < SYNC_BYTES) return 0;
    writer->unsynced = 0;
    return writer->disk->datasync(writer->disk->context, writer->handle);
}

static int write_frame(struct seekable_writer *writer) {
    size_t size =
        ZSTD_compress2(writer->context, writer->packed, writer->packed_room, writer->content, writer->content_size);
    if (ZSTD_isError(size))
        return -ENOMEM; /* the output buffer is large enough for every input, so compression fails only for lack of
                           memory */
    int error = entry_add(writer, size, writer->content_size);
    writer->content_size = 0;
    return error ? error : write_on(writer, writer->packed, size);
}

int seekable_write(struct seekable_writer *writer, const void *data, size_t size) {
    const uint8_t *bytes = data;
    while (size > 0) {
        size_t part = SEEKABLE_FRAME_SIZE - writer->content_size;
        if (part > size) part = size;
        memcpy(writer->content + writer->content_size, bytes, part);
        writer->content_size += part;
        bytes += part;
        size -= part;
        int error = writer->content_size == SEEKABLE_FRAME_SIZE ? write_frame(writer) : 0;
        if (error) return error;
    }
    return 0;
}

int seekable_finish(struct seekable_writer *writer, uint64_t *out_size, uint64_t *out_sum) {
    int error = writer->content_size > 0 ? write_frame(writer) : 0;
    uint8_t head[SEEKABLE_SKIPPABLE_SIZE], footer[FOOTER_SIZE] = {0};
    size_t entries_size = ENTRY_SIZE * writer->entry_count;
    put_u32(head, TABLE_MAGIC);
    put_u32(head + 4, (uint32_t)(entries_size + FOOTER_SIZE));
    put_u32(footer, (uint32_t)writer->entry_count);
    put_u32(footer + 5, SEEKABLE_MAGIC);
    if (!error) error = write_on(writer, head, sizeof head);
    if (!error) error = write_on(writer, writer->entries, entries_size);
    if (!error) error = write_on(writer, footer, sizeof footer);
    *out_size = writer->offset;
    *out_sum = XXH3_64bits_digest(writer->sum);
    return error;
}

int seekable_write_head(struct seekable_writer *writer, const void *head) {
    uint8_t start[SEEKABLE_SKIPPABLE_SIZE];
    put_u32(start, SEEKABLE_HEAD_MAGIC);
    put_u32(start + 4, writer->head_size);
    int error = disk_write_all(writer->disk, writer->handle, start, sizeof start, 0);
    return error ? error : disk_write_all(writer->disk, writer->handle, head, writer->head_size, sizeof start);
}

/* ---- reading */

struct seekable {
    const struct disk *disk;
    int handle;
    uint64_t file_size;
    size_t count;      /* number of frames, including the head */
    uint64_t *packed;  /* file offset of each frame, and of the table */
    uint64_t *content; /* unpacked offset of each frame, and the total unpacked size */
    ZSTD_DCtx *context;
    uint8_t *in;
    uint8_t *window; /* buffer for one unpacked frame */
    size_t window_frame;
};

void seekable_close(struct seekable *seekable) {
    if (!seekable) return;
    ZSTD_freeDCtx(seekable->context);
    free(seekable->packed);
    free(seekable->content);
    free(seekable->in);
    free(seekable->window);
    free(seekable);
}

uint64_t seekable_size(const struct seekable *seekable) {
    return seekable->content[seekable->count];
}

/* Reads exactly `size` bytes; fewer bytes are an error. */
static int read_exactly(const struct seekable *seekable, void *out, size_t size, uint64_t offset) {
    int64_t count = disk_read_all(seekable->disk, seekable->handle, out, size, offset);
    if (count < 0) return (int)count;
    return (size_t)count == size ? 0 : LOG_DAMAGED;
}

/* Reads the number of entries, and checks the rest of the footer. */
static int read_footer(struct seekable *seekable, const char **out_problem) {
    uint8_t footer[FOOTER_SIZE], head[SEEKABLE_SKIPPABLE_SIZE];
    *out_problem = "is too short for a seek table";
    if (seekable->file_size < sizeof footer + sizeof head) return LOG_DAMAGED;
    int error = read_exactly(seekable, footer, sizeof footer, seekable->file_size - sizeof footer);
    if (error) return error;
    *out_problem = "does not end with a seek table";
    if (get_u32(footer + 5) != SEEKABLE_MAGIC || footer[4] != 0) return LOG_DAMAGED;
    seekable->count = get_u32(footer);
    *out_problem = "has a seek table of an impossible size";
    if (seekable->count == 0 || seekable->count > SEEKABLE_FRAMES_MAX) return LOG_DAMAGED;
    uint64_t table_size = ENTRY_SIZE * seekable->count + FOOTER_SIZE;
    if (seekable->file_size < table_size + sizeof head) return LOG_DAMAGED;
    error = read_exactly(seekable, head, sizeof head, seekable->file_size - table_size - sizeof head);
    if (error) return error;
    *out_problem = "has a seek table that does not begin where it should";
    return get_u32(head) == TABLE_MAGIC && get_u32(head + 4) == table_size ? 0 : LOG_DAMAGED;
}

/* Fills `packed` and `content`; `entries` is a buffer for the table as in the file. */
static int read_entries(struct seekable *seekable, uint8_t *entries, const char **out_problem) {
    size_t size = ENTRY_SIZE * seekable->count;
    uint64_t table = seekable->file_size - FOOTER_SIZE - size - SEEKABLE_SKIPPABLE_SIZE;
    int error = read_exactly(seekable, entries, size, table + SEEKABLE_SKIPPABLE_SIZE);
    if (error) return error;
    *out_problem = "has a seek table with impossible sizes";
    for (size_t i = 0; i < seekable->count; i++) {
        uint32_t packed = get_u32(entries + ENTRY_SIZE * i), content = get_u32(entries + ENTRY_SIZE * i + 4);
        bool is_head = i == 0, is_last = i + 1 == seekable->count;
        if (packed < SEEKABLE_SKIPPABLE_SIZE || packed > ZSTD_compressBound(SEEKABLE_FRAME_SIZE)) return LOG_DAMAGED;
        if (content > SEEKABLE_FRAME_SIZE || is_head != (content == 0)) return LOG_DAMAGED;
        if (!is_head && !is_last && content != SEEKABLE_FRAME_SIZE) return LOG_DAMAGED;
        seekable->packed[i + 1] = seekable->packed[i] + packed;
        seekable->content[i + 1] = seekable->content[i] + content;
    }
    return seekable->packed[seekable->count] == table ? 0 : LOG_DAMAGED;
}

static int read_table(struct seekable *seekable, const char **out_problem) {
    int64_t size = seekable->disk->size(seekable->disk->context, seekable->handle);
    if (size < 0) return (int)size;
    seekable->file_size = (uint64_t)size;
    int error = read_footer(seekable, out_problem);
    if (error) return error;
    uint8_t *entries = malloc(ENTRY_SIZE * seekable->count);
    seekable->packed = calloc(seekable->count + 1, sizeof *seekable->packed);
    seekable->content = calloc(seekable->count + 1, sizeof *seekable->content);
    if (entries && seekable->packed && seekable->content)
        error = read_entries(seekable, entries, out_problem);
    else
        error = -ENOMEM;
    free(entries);
    return error;
}

int seekable_open(struct seekable **out, const struct disk *disk, int handle, const char **out_problem) {
    struct seekable *seekable = calloc(1, sizeof *seekable);
    if (!seekable) return -ENOMEM;
    *seekable = (struct seekable){.disk = disk, .handle = handle};
    int error = read_table(seekable, out_problem);
    if (error) {
        seekable_close(seekable);
        return error;
    }
    *out = seekable;
    return 0;
}

/* Allocates the memory for unpacking on first use, because many callers only read the table. */
static int make_room(struct seekable *seekable) {
    if (!seekable->context) seekable->context = ZSTD_createDCtx();
    if (!seekable->in) seekable->in = malloc(ZSTD_compressBound(SEEKABLE_FRAME_SIZE));
    if (!seekable->window) seekable->window = malloc(SEEKABLE_FRAME_SIZE);
    return seekable->context && seekable->in && seekable->window ? 0 : -ENOMEM;
}

static int unpack(struct seekable *seekable, size_t frame) {
    int error = make_room(seekable);
    if (error) return error;
    if (seekable->window_frame == frame) return 0;
    seekable->window_frame = 0; /* `window` is invalid until the frame is unpacked. Frame 0, the file's head, is never
                                   unpacked, so 0 means invalid */
    size_t packed_size = (size_t)(seekable->packed[frame + 1] - seekable->packed[frame]);
    size_t content_size = (size_t)(seekable->content[frame + 1] - seekable->content[frame]);
    error = read_exactly(seekable, seekable->in, packed_size, seekable->packed[frame]);
    if (error) return error;
    size_t size = ZSTD_decompressDCtx(seekable->context, seekable->window, content_size, seekable->in, packed_size);
    if (ZSTD_isError(size) || size != content_size) return LOG_DAMAGED;
    seekable->window_frame = frame;
    return 0;
}

int64_t seekable_read(struct seekable *seekable, void *out, size_t size, uint64_t offset) {
    uint8_t *bytes = out;
    size_t done = 0;
    while (done < size && offset + done < seekable_size(seekable)) {
        uint64_t at = offset + done;
        size_t frame = 1 + (size_t)(at / SEEKABLE_FRAME_SIZE); /* all frames except the last are full */
        int error = unpack(seekable, frame);
        if (error) return error;
        size_t from = (size_t)(at - seekable->content[frame]);
        size_t part = (size_t)(seekable->content[frame + 1] - seekable->content[frame]) - from;
        if (part > size - done) part = size - done;
        memcpy(bytes + done, seekable->window + from, part);
        done += part;
    }
    return (int64_t)done;
}

int seekable_sum(const struct seekable *seekable, uint64_t from, uint64_t *out) {
    uint8_t *bytes = malloc(SEEKABLE_FRAME_SIZE);
    XXH3_state_t *sum = XXH3_createState();
    int64_t count = bytes && sum ? 1 : -ENOMEM;
    if (sum) XXH3_64bits_reset(sum);
    for (uint64_t offset = from; count > 0; offset += (uint64_t)count) {
        count = disk_read_all(seekable->disk, seekable->handle, bytes, SEEKABLE_FRAME_SIZE, offset);
        if (count > 0) XXH3_64bits_update(sum, bytes, (size_t)count);
    }
    if (count == 0) *out = XXH3_64bits_digest(sum);
    XXH3_freeState(sum);
    free(bytes);
    return (int)count;
}
