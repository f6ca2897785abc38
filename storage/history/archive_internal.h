/* archive_internal.h: declarations that the files archive*.c share; no other file includes it. */
#ifndef TARRY_STORAGE_ARCHIVE_INTERNAL_H
#define TARRY_STORAGE_ARCHIVE_INTERNAL_H

#include "archive.h"
#include "log_internal.h"
#include "seekable.h"

#define ARCHIVE_VERSION 1u
#define ARCHIVE_HEAD_SIZE 248u /* size of the head in bytes; with the 8 bytes that zstd puts before it, 256 */

void archive_name_path(const struct archive *archive, uint64_t base, const char *suffix, char path[ARCHIVE_PATH_SIZE]);
extern const char archive_temporary_suffix[]; /* file suffix of an incomplete archive file */
/* ARCHIVE/<name> */
void archive_file_path(const struct archive *archive, const char *name, char path[ARCHIVE_PATH_SIZE]);

void archive_head_encode(const struct archive_info *info, uint8_t out[ARCHIVE_HEAD_SIZE]);
/* Like archive_look, for an open file. */
int archive_look_at(const struct archive *archive, int handle, uint64_t base, struct archive_info *out,
                    const char **out_problem);

/* The functions with `_at` work like those without it, but on a file with any name. */
int archive_cursor_open_at(struct archive_cursor **out, const struct archive *archive, const char *path, uint64_t base,
                           uint64_t position, bool with_blobs, const char **out_problem);
int archive_verify_at(const struct archive *archive, const char *path, uint64_t base, struct archive_info *out,
                      uint64_t *out_at, const char **out_problem);
/* Reads the segment's header, SEGMENT_HEADER_SIZE bytes as in the file. */
int archive_cursor_header(struct archive_cursor *cursor, uint8_t out[SEGMENT_HEADER_SIZE]);

#endif
