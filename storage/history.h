/* history.h: the log as an answer to a question: its frames in order, without the segments that cannot matter.
 *
 * A summary (summary.h) tells which segments those are; one that has none is read. A reader belongs to one thread; it
 * may trail the writer, like a cursor. */
#ifndef TARRY_STORAGE_HISTORY_H
#define TARRY_STORAGE_HISTORY_H

#include "log.h"
#include "summary.h"

struct history_question {
    uint64_t from_ns; /* logical steady time; frames before it are left out */
    uint64_t to_ns;   /* exclusive; 0: no end */
    uint64_t hash;    /* summary_task_hash or summary_key_hash of what is asked about; 0: everything */
};

struct history_stats {
    uint64_t segments_read;
    uint64_t segments_skipped;
};

struct history;
/* Starts at the oldest segment there is. */
int history_open(struct history **out, struct log *log, const struct history_question *question);
/* The next frame that may matter and ends at or below `limit`; LOG_END: there is none (yet). Without its contents; its
 * body is *out_body (NULL: a seal), valid until the next call. Negative: LOG_DAMAGED, LOG_RETIRED, errno. */
int history_next(struct history *history, uint64_t limit, struct log_view *out, const Tarry__FrameBody **out_body);
uint64_t history_position(const struct history *history); /* read up to here */
void history_stats(const struct history *history, struct history_stats *out);
void history_close(struct history *history); /* NULL is fine */

#endif
