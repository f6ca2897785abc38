/* forge.h: what an attacker can do to a signed data directory without the key: a log with changed frames, in which
 * every checksum and the whole hash chain are computed again.
 *
 * Forging runs the real log and the real archive: the result is a directory that the broker could have written. */
#ifndef TARRY_TESTS_FORGE_H
#define TARRY_TESTS_FORGE_H

#include "../fuzz/directory.h"

#define FORGE_FRAMES_MAX 130

struct forge_frame {
    struct frame_header header;
    uint64_t segment; /* base of the segment that contains the frame */
    uint8_t *body;    /* body and blob area are in one piece of memory, the blob area first */
    uint8_t *blob;
};

struct forge_log {
    struct forge_frame frames[FORGE_FRAMES_MAX];
    size_t count;
    uint64_t start;    /* position at which the archive begins */
    uint64_t boundary; /* position at which the archive ends and the log begins */
    uint64_t end;
};

/* Reads archive and log of the directory; the memory is never freed. */
void forge_read(struct forge_log *out, const struct directory *directory);
/* Replaces archive and log by new ones with these frames, in this order. Segments that end at or below the log's
 * boundary go into the archive. */
void forge_write(const struct forge_log *log, struct directory *directory);
/* Deletes the files of forge_write, so that directory_restore can write the original archive and log. */
void forge_clear(struct directory *directory);

#endif
