/* forge.h: what somebody can do to a signed data directory who has all of it but the key: a log whose frames are
 * changed, with every sum and the whole hash chain computed anew.
 *
 * Forging runs the real log and the real archive: what comes out is a directory that the broker could have written. */
#ifndef TARRY_TESTS_FORGE_H
#define TARRY_TESTS_FORGE_H

#include "../fuzz/directory.h"

#define FORGE_FRAMES_MAX 130

struct forge_frame {
    struct frame_header header;
    uint64_t segment; /* base of the segment that it lies in */
    uint8_t *body;    /* body and blob follow each other in one piece of memory: blob first */
    uint8_t *blob;
};

struct forge_log {
    struct forge_frame frames[FORGE_FRAMES_MAX];
    size_t count;
    uint64_t start;    /* of the archive */
    uint64_t boundary; /* where the archive ends and the log begins */
    uint64_t end;
};

/* Reads archive and log of the directory; the memory is never given back. */
void forge_read(struct forge_log *out, const struct directory *directory);
/* Replaces archive and log by new ones of these frames, in this order, wherever they were before. Segments that end at
 * or below the log's boundary go into the archive. */
void forge_write(const struct forge_log *log, struct directory *directory);
/* Deletes what forge_write wrote, so that directory_restore can write archive and log as they were. */
void forge_clear(struct directory *directory);

#endif
