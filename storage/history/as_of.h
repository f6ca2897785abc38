/* as_of.h: the state as of an earlier moment, made anew: the frames up to it, taken into an index of its own by the
 * very code that the broker's index runs (LOG-2 says that this gives the same state).
 *
 *   the log from its first frame on ──────────┐
 *                                             ├──► frames up to the moment ──► an index of its own ──► counts, rows,
 *   a copy of the directory's index, if it    │                                                        or a directory
 *   does not lie behind the moment ───────────┘
 *
 * *The moment.* By time T, in milliseconds of the logical steady clock (what audit and history print): the state after
 * the last frame of T or before, as it looked at T: a task that became due between that frame and T is ready. The wall
 * clock, for tasks with an absolute time, is taken to run with the steady one from that frame on, but not beyond what
 * the next frame says. By position N: what the frames that end at or below N say, at the time of the last of them.
 *
 * *Rule:* an exact answer or none. *Reason:* a wrong count cannot be told from a right one. *Consequence:* where the
 * beginning of the log is gone, only moments from the index's position on have an answer; the digest and the counts of
 * the rows are compared with what the records add up to.
 *
 * Reads log and index, which must not be written meanwhile, and writes in its own directory only. One thread. */
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
    const struct archive *archive; /* NULL: there is none */
    uint64_t end;                  /* of the log, as log_open found it */
    struct index *index;           /* of the same directory, read-only */
    struct index_meta meta;
    uint8_t cluster[16];
    /* How far: log positions of `total`, and records so far. May be NULL. */
    void (*progress)(void *argument, uint64_t done, uint64_t total, uint64_t records);
    void *argument;
};

enum as_of_error {
    AS_OF_BEFORE = -22001,  /* before the first frame there ever was */
    AS_OF_TOO_OLD = -22002, /* the log no longer reaches back to it */
    AS_OF_BEYOND = -22003,  /* a position behind the log's end */
    AS_OF_DIFFERS = -22004, /* index and log, or rows and counts, contradict each other: damage */
    AS_OF_ERASED = -22005,  /* what a task contained that lived then has been redacted since */
};

struct as_of {
    struct index *index; /* as of the moment; its own directory's */
    struct index_meta meta;
    uint64_t steady_ns; /* of the moment, as told above */
    uint64_t wall_ns;
    uint64_t records; /* taken in on the way */
    /* AS_OF_BEFORE, AS_OF_TOO_OLD, AS_OF_BEYOND: where the first or the last moment with an answer lies. */
    uint64_t limit;
    uint64_t limit_ms;
};

/* Finds the state. Its index is made in `directory`, which must not be there; its parent must. `is_lasting`: synced,
 * and wrapped up for a long life; otherwise the files may be unlinked as soon as this returns. 0, an enum as_of_error,
 * or an error of log.h, history.h or index.h; then nothing is open, and the caller deletes what is in the directory. */
int as_of_make(struct as_of *out, const struct as_of_source *source, const struct as_of_question *question,
               const char *directory, bool is_lasting);
void as_of_close(struct as_of *moment);

/* What a row is to a reader of the moment: an enum state_bit, or 0: its time was over (expires), though it had
 * not been come across, so that it is not yet recorded. */
uint32_t as_of_state(const struct as_of *moment, const struct row *row);

struct as_of_counts {
    uint64_t pending;
    uint64_t ready;
    uint64_t in_flight;
    uint64_t dead;
    uint64_t expired; /* as_of_state is 0 */
    uint64_t ahead;   /* of those pending: recorded as leased, to be delivered when they are due */
};
/* Of every row, by its queue's place: QUEUE_PLACES + 1 of them, zeroed. AS_OF_DIFFERS: not what the records add up to.
 */
int as_of_count(const struct as_of *moment, struct as_of_counts *out);

/* Completes a directory: takes the contents of the tasks and the answers that are still remembered into the index, so
 * that nothing below the moment is needed, checks it all (index_verify), and makes a log in `log_directory` (not there)
 * that begins at the moment with a seal that says what time it was. `message` gets a sentence with some errors. */
int as_of_complete(struct as_of *moment, const struct as_of_source *source, const struct log_options *log,
                   char *message, size_t message_size);

#endif
