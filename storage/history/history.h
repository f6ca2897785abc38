/* history.h: archive and log as an answer to a question: one sequence of frames, without the segments that cannot
 * matter,
 * and, of a question about one task, without the frames that do not name it. A summary (summary.h) tells which segments
 * those are, and which parts of the others; a segment that has none is read. Of what is read a frame is unpacked only
 * if its body has the task's id or key in it, byte for byte. A reader belongs to one thread; it may trail the writer,
 * like a cursor, and goes over to the archive if the log retires what it is reading. */
#ifndef TARRY_STORAGE_HISTORY_H
#define TARRY_STORAGE_HISTORY_H

#include "archive.h"
#include "log.h"
#include "summary.h"

/* What a question may be about: the task with an id; or every task that had a key, in the queue of that number. */
struct history_task {
    uint64_t id;     /* 0: by key */
    uint32_t queue;  /* of the key; 0: of any queue, and no segment is left out */
    const void *key; /* borrowed until history_open returns */
    size_t key_size; /* 0, and no id: anything */
};

struct history_question {
    uint64_t position; /* of the frame to begin with: one that a history has come to; 0: the oldest there is */
    uint64_t from_ns;  /* logical steady time; frames before it are left out */
    uint64_t to_ns;    /* exclusive; 0: no end */
    struct history_task task;
    bool contents; /* give the frames with their blob areas */
};

struct history_stats {
    uint64_t segments_read; /* of log and archive */
    uint64_t segments_skipped;
    uint64_t segments_archived; /* of those read, the archive's */
    uint64_t frames_read;       /* looked at, whether they were given or not */
};

/* A part of the past that cannot be read. */
#define HISTORY_GAP 1
struct history_gap {
    uint64_t from; /* log positions */
    uint64_t to;   /* exclusive: where history goes on */
    /* Of the archive file that begins at `base`, a phrase that follows its name; NULL: there is none, it was deleted
     * (archive_prune, by hand) or never made. */
    const char *problem;
    uint64_t base;
};

struct history;
/* `archive` (borrowed; may be NULL: there is none) need not exist. */
int history_open(struct history **out, struct log *log, const struct archive *archive,
                 const struct history_question *question);
/* The next frame that may matter and ends at or below `limit`; LOG_END: there is none (yet). Its
 * body is *out_body (NULL: a seal), valid until the next call. HISTORY_GAP: frames are missing here (history_gap tells
 * which); the next call goes on behind them. Negative: LOG_DAMAGED (in the log; or no frame begins at the position
 * asked for), LOG_RETIRED (without an archive: the reader was too slow), errno. */
int history_next(struct history *history, uint64_t limit, struct log_view *out, const Tarry__FrameBody **out_body);
uint64_t history_start(const struct history *history);    /* of the oldest frame there was when it was opened */
uint64_t history_position(const struct history *history); /* read up to here */
void history_gap(const struct history *history, struct history_gap *out);
void history_stats(const struct history *history, struct history_stats *out);
void history_close(struct history *history); /* NULL is fine */

#endif
