/* as_of.h: rebuilds the state as of an earlier moment. It absorbs the frames up to the moment into a separate index,
 * with the same code as the broker's index (by LOG-2 this gives the same state).
 *
 *   the log from its first frame on ──────────┐
 *                                             ├──► frames up to the moment ──► a separate index ──► counts, rows,
 *   a copy of the directory's index, if it    │                                                     or a directory
 *   is not newer than the moment ─────────────┘
 *
 * *The moment.* The caller names the moment by time or by position. By time T, in milliseconds of the logical steady
 * clock (audit and history print it): the state after the last frame at or before T, as seen at T. A task that became
 * due between that frame and T is ready. For tasks with an absolute time, the wall clock after that frame is assumed to
 * advance like the steady clock. It is assumed not to pass the wall time of the next frame. By position N: the state
 * after all frames that end at or below N, at the time of the last of them.
 *
 * *Rule:* an exact answer or an error. *Reason:* a reader cannot recognise a wrong count. *Consequence:* if the first
 * frames of the log are gone, only moments from the index's position on have an answer. The rows' digest and counts are
 * compared with the sums of the records.
 *
 * Reads log and index, which no process may write meanwhile, and writes only its own directory. One thread. */
#ifndef TARRY_STORAGE_AS_OF_H
#define TARRY_STORAGE_AS_OF_H

#include "history.h"
#include "index.h"

struct as_of_question {
    bool by_position;
    uint64_t position;
    uint64_t steady_ms;
};

struct as_of_source {
    struct log *log;
    const struct archive *archive; /* archive of retired segments; NULL: none */
    uint64_t end;                  /* end of the log, from log_open */
    struct index *index;           /* read-only index of the same directory */
    struct index_meta meta;
    uint8_t cluster[16];
    /* Reports progress: `done` of `total` bytes of log positions, and the records so far. May be NULL. */
    void (*progress)(void *argument, uint64_t done, uint64_t total, uint64_t records);
    void *argument;
};

enum as_of_error {
    AS_OF_BEFORE = -22001,  /* the moment is before the first frame of the log's history */
    AS_OF_TOO_OLD = -22002, /* the frames that the moment needs were deleted */
    AS_OF_BEYOND = -22003,  /* the position is beyond the log's end */
    AS_OF_DIFFERS = -22004, /* index and log, or rows and counts, contradict each other: damage */
    AS_OF_ERASED = -22005,  /* the content of a task that was live at the moment was redacted later */
};

struct as_of {
    struct index *index; /* index as of the moment, in its own directory */
    struct index_meta meta;
    uint64_t steady_ns; /* times of the moment (see "The moment" at the top of this file) */
    uint64_t wall_ns;
    uint64_t records; /* number of records that were absorbed */
    /* For AS_OF_BEFORE, AS_OF_TOO_OLD and AS_OF_BEYOND: the first or the last moment for which an answer is possible.
     */
    uint64_t limit;
    uint64_t limit_ms;
};

/* Rebuilds the state in a new index in `directory`, which must not exist; its parent must exist. `is_lasting`: the
 * index is synced and completed for permanent use; otherwise the caller may unlink the files after this call. 0, an
 * enum as_of_error, or an error of log.h, history.h or index.h. After an error nothing is open, and the caller deletes
 * the content of `directory`. */
int as_of_make(struct as_of *out, const struct as_of_source *source, const struct as_of_question *question,
               const char *directory, bool is_lasting);
void as_of_close(struct as_of *moment);

/* Returns the state of a row at the moment, an enum state_bit. 0: the task had passed its `expires` time, but no record
 * says so yet. */
uint32_t as_of_state(const struct as_of *moment, const struct row *row);

struct as_of_counts {
    uint64_t pending;
    uint64_t ready;
    uint64_t in_flight;
    uint64_t dead;
    uint64_t expired; /* number of tasks whose `expires` time had passed without a record (as_of_state returns 0) */
    uint64_t ahead;   /* number of pending tasks with a lease that was recorded before their due time */
};
/* Counts every row by its queue's place, into QUEUE_PLACES + 1 zeroed entries. AS_OF_DIFFERS: the counts differ from
 * the sums of the records. */
int as_of_count(const struct as_of *moment, struct as_of_counts *out);

/* Completes a directory. Copies the tasks' contents and the remembered replies into the index, so no frame before the
 * moment is needed. Checks the index (index_verify). Makes a new log with the options `log`. The new log starts at the
 * moment's position, with a seal (a frame without records) that has the moment's time. Sets `message` with some errors.
 */
int as_of_complete(struct as_of *moment, const struct as_of_source *source, const struct log_options *log,
                   char *message, size_t message_size);

#endif
