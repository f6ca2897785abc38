/* seekable.h: files in the zstd seekable format: frames of at most SEEKABLE_FRAME_SIZE bytes each, compressed on their
 * own, and a seek table at the end, so that any part can be read without unpacking what is before it. `zstd -d` unpacks
 * such a file as a whole. Format: contrib/seekable_format/zstd_seekable_compression_format.md of zstd; FORMAT.md.
 *
 * In front there is a head: a skippable frame with a content of the caller's, written last. Each frame carries zstd's
 * own checksum. What the content means is nothing to this file.
 *
 * Memory: about three times SEEKABLE_FRAME_SIZE and what zstd takes at that level for frames of that size. Not
 * thread-safe: one owner. */
#ifndef TARRY_STORAGE_SEEKABLE_H
#define TARRY_STORAGE_SEEKABLE_H

#include <stddef.h>
#include <stdint.h>

#include "disk.h"

#define SEEKABLE_FRAME_SIZE ((size_t)1 << 20)
#define SEEKABLE_HEAD_MAGIC 0x184D2A50u
#define SEEKABLE_SKIPPABLE_SIZE 8u /* of what precedes the content of the head */
/* Of a file, the head included; what a gibibyte and its largest frames need is far below. */
#define SEEKABLE_FRAMES_MAX (1u << 16)

struct seekable_writer;
/* `handle` is of a new file. `head_size` bytes are left for the head. `level`: zstd's, from 1 to 19. */
int seekable_writer_open(struct seekable_writer **out, const struct disk *disk, int handle, int level,
                         uint32_t head_size);
int seekable_write(struct seekable_writer *writer, const void *data, size_t size);
/* The last frame and the seek table. `*out_sum`: XXH3-64 of the file from the head's end on; `*out_size`: of it all. */
int seekable_finish(struct seekable_writer *writer, uint64_t *out_size, uint64_t *out_sum);
/* The head, of the size given at opening. The file is whole then, and not synced. */
int seekable_write_head(struct seekable_writer *writer, const void *head);
void seekable_writer_close(struct seekable_writer *writer); /* NULL is fine; the handle is the caller's */

struct seekable;
/* Reads and judges the seek table. 0; LOG_DAMAGED and a phrase in `*out_problem`; negative errno. The handle is the
 * caller's, and must stay open. */
int seekable_open(struct seekable **out, const struct disk *disk, int handle, const char **out_problem);
void seekable_close(struct seekable *seekable);          /* NULL is fine */
uint64_t seekable_size(const struct seekable *seekable); /* unpacked, without the head */
/* → bytes read, less than `size` only at the end; LOG_DAMAGED, negative errno. */
int64_t seekable_read(struct seekable *seekable, void *out, size_t size, uint64_t offset);
/* XXH3-64 of the file's bytes from `from` on. */
int seekable_sum(const struct seekable *seekable, uint64_t from, uint64_t *out);

#endif
