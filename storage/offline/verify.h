/* verify.h: checks a data directory that no broker uses, and changes nothing in it. */
#ifndef TARRY_STORAGE_VERIFY_H
#define TARRY_STORAGE_VERIFY_H

#include "erasures.h"
#include "evidence.h"
#include "frames.h"
#include "index.h"
#include "store.h"
#include "summary.h"
#include "tally.h"

/* Check of the contents of tasks: each content matches its record, or was erased by a recorded redaction
 * (erasures.h). */
struct contents {
    uint64_t checked;
    uint64_t erased;
    uint64_t under_way; /* number of recorded redactions that the broker has not finished */
    struct erasures erasures;
    bool has_listed; /* true: the archive was listed, and `bases` has its segments */
    uint64_t *bases;
    size_t base_count;
    struct archive_cursor *cursor; /* cursor in the archive file of `cursor_base` */
    uint64_t cursor_base;
};

/* Check of the segments' summaries. A reader of the history skips segments by their summaries, so a wrong summary would
 * hide records. Each summary is computed again from the frames that are read anyway, and compared. Missing or damaged
 * summaries are not used by readers, and are only counted. */
struct summaries {
    struct summary *made; /* summary of the segment that is being read; NULL: it has no usable summary */
    uint64_t segment;     /* base of the segment that `made` describes; 0: no segment yet */
    char directory[STORE_PATH_SIZE];
    uint64_t checked;
    uint64_t unused; /* number of summaries that are missing, damaged, or have another end position */
};

/* A check and its results. The caller sets `store` (store_init), `archive`, `evidence` and `progress`; all other fields
 * are zero. */
struct verify {
    struct store store;
    struct index_verification rows;
    struct tally tail;  /* counts of the index, advanced to the end of the log */
    struct tally whole; /* counts computed from the first frame; invalid if the log begins later */
    bool has_whole;
    bool met;            /* true: the chain hash was compared at the position of the index */
    const char *archive; /* directory of --archive; NULL: DIR/archive, if it exists */
    struct frames frames;
    uint64_t frame_count;
    uint64_t records;
    struct contents contents;
    struct summaries summaries;
    struct evidence evidence;
    struct tails tails;
    /* Reports progress: `done` of `total`, and the number of checked rows or frames. `noun` is the name of what is
     * counted; NULL: a part of the check has ended. If `progress` is NULL, there are no reports. For rows, a child
     * process calls `progress`. */
    void (*progress)(void *argument, const char *noun, uint64_t done, uint64_t total, uint64_t count);
    void *progress_argument;
};

/* Checks everything. 0, or STORE_REFUSED with an error message in `store`. The caller calls verify_deinit in both
 * cases, and closes the store. */
int verify_check(struct verify *verify);
void verify_deinit(struct verify *verify);

/* Facts of a directory that has passed the check. */
struct verified {
    uint64_t digest;
    uint64_t live;
    uint64_t log_end;
    uint64_t torn_bytes; /* bytes of a torn tail after log_end, which the next start cuts (LOG-5) */
    uint32_t epoch;      /* last epoch in the log or the index */
};

/* Checks everything. `store` is initialised; the caller closes it. 0, or STORE_REFUSED after an error message in
 * store->message. */
int verify_store(struct store *store, struct verified *out);

#endif
