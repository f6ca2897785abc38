/* seekable.h: files in the zstd seekable format. The data is split into frames of at most SEEKABLE_FRAME_SIZE bytes,
 * each compressed separately, and a seek table follows. So any part can be read without unpacking earlier parts. `zstd
 * -d` unpacks the whole file. Format: contrib/seekable_format/zstd_seekable_compression_format.md of zstd; FORMAT.md.
 *
 * The file starts with a head: a skippable frame with the caller's data, written last. Each frame has zstd's checksum.
 * This file does not interpret the data.
 *
 * Memory: about three times SEEKABLE_FRAME_SIZE, plus zstd's memory for that level and frame size. Not thread-safe. */
#ifndef TARRY_STORAGE_SEEKABLE_H
#define TARRY_STORAGE_SEEKABLE_H

#include <stddef.h>
#include <stdint.h>

#include "disk.h"

#define SEEKABLE_FRAME_SIZE ((size_t)1 << 20)
#define SEEKABLE_HEAD_MAGIC 0x184D2A50u
#define SEEKABLE_SKIPPABLE_SIZE 8u /* bytes before the head's data */
/* Limit of frames per file, including the head; far above the need of a segment of 1 GiB. */
#define SEEKABLE_FRAMES_MAX (1u << 16)

struct seekable_writer;
/* Starts a file. `handle`: an open new file. Reserves `head_size` bytes for the head. `level`: zstd's compression
 * level, 1 to 19. */
int seekable_writer_open(struct seekable_writer **out, const struct disk *disk, int handle, int level,
                         uint32_t head_size);
int seekable_write(struct seekable_writer *writer, const void *data, size_t size);
/* Writes the last frame and the seek table. `*out_size`: size of the file; `*out_sum`: XXH3-64 of its bytes after the
 * head. */
int seekable_finish(struct seekable_writer *writer, uint64_t *out_size, uint64_t *out_sum);
/* Writes the head, of the size given at opening. The file is then complete, but not synced. */
int seekable_write_head(struct seekable_writer *writer, const void *head);
void seekable_writer_close(struct seekable_writer *writer); /* leaves the handle open; NULL is allowed */

struct seekable;
/* Reads and checks the seek table. 0; LOG_DAMAGED and a phrase in `*out_problem`; negative errno. The caller keeps the
 * handle open, and closes it. */
int seekable_open(struct seekable **out, const struct disk *disk, int handle, const char **out_problem);
void seekable_close(struct seekable *seekable); /* closes the file; the argument may be NULL */
/* Returns the size of the unpacked data in bytes, without the head. */
uint64_t seekable_size(const struct seekable *seekable);
/* Returns the number of bytes read, less than `size` only at the end; LOG_DAMAGED; negative errno. */
int64_t seekable_read(struct seekable *seekable, void *out, size_t size, uint64_t offset);
/* Computes XXH3-64 of the file's bytes from `from` on. */
int seekable_sum(const struct seekable *seekable, uint64_t from, uint64_t *out);

#endif
