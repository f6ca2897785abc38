/* history.h: queries about the past: reads archive and log as one sequence of frames, and skips segments that cannot
 * match.
 *
 * A query about one task also skips frames that do not name the task. A segment's summary (summary.h) tells whether the
 * segment can match, and which parts of it; a segment without a summary is read. A frame is unpacked only if its body
 * has the bytes of the task's id or key. One thread uses a reader. The reader may follow the writer, like a cursor, and
 * continues in the archive if the log retires the segment that it reads. */
#ifndef TARRY_STORAGE_HISTORY_H
#define TARRY_STORAGE_HISTORY_H

#include "archive.h"
#include "log.h"
#include "summary.h"

/* The tasks that a query selects: the task with an id, or all tasks with a key in the queue of that number. */
struct history_task {
    uint64_t id;     /* id of the wanted task; 0: select by key */
    uint32_t queue;  /* queue of the key; 0: every queue, and no segment is skipped */
    const void *key; /* key of the wanted tasks; borrowed until history_open returns */
    size_t key_size; /* size of the key in bytes; if it and `id` are 0, all frames match */
};

struct history_question {
    uint64_t position; /* position of the first frame, from history_position; 0: the oldest frame */
    uint64_t from_ns;  /* start of the time range, in logical steady time; earlier frames are skipped */
    uint64_t to_ns;    /* end of the time range, exclusive; 0: no end */
    struct history_task task;
    bool contents; /* true: return the frames with their blob areas */
};

struct history_stats {
    uint64_t segments_read; /* number of segments read, from log and archive */
    uint64_t segments_skipped;
    uint64_t segments_archived; /* number of segments read from the archive */
    uint64_t frames_read;       /* number of frames examined, returned or not */
};

/* Result of history_next: the next part cannot be read. */
#define HISTORY_GAP 1
struct history_gap {
    uint64_t from; /* log position */
    uint64_t to;   /* end of the gap, exclusive; the reader continues here */
    /* Error phrase about the archive file `base`, written after the file's name. NULL: the file does not exist, because
     * it was deleted or never made. */
    const char *problem;
    uint64_t base;
};

struct history;
/* Opens a reader. `archive` is borrowed; its directory need not exist. NULL: no archive. */
int history_open(struct history **out, struct log *log, const struct archive *archive,
                 const struct history_question *question);
/* Reads the next frame that may match and ends at or below `limit`. `*out_body` is valid until the next call; NULL: the
 * frame is a seal, which has no records.
 *
 * 0: a frame was read. LOG_END: no such frame yet. HISTORY_GAP: frames are missing (see history_gap), and the next call
 * continues after them. LOG_DAMAGED: the log is damaged, or no frame starts at the requested position. LOG_RETIRED: the
 * log has retired the frames, and there is no archive. Other negative results: errno. */
int history_next(struct history *history, uint64_t limit, struct log_view *out, const Tarry__FrameBody **out_body);
uint64_t history_start(const struct history *history);    /* returns the position of the oldest frame at the opening */
uint64_t history_position(const struct history *history); /* returns the end of the part that was read so far */
void history_gap(const struct history *history, struct history_gap *out);
void history_stats(const struct history *history, struct history_stats *out);
void history_close(struct history *history); /* closes the reader; the argument may be NULL */

#endif
