/* quarantine.h: tails of the log that were cut off, kept for questions about what was in them (R8, F-25).
 *
 *   DIR/quarantine/<base>-<chain>.seg   a segment as in the log (FORMAT.md): what lay behind position `base`, in one
 * file; `chain` is the beginning of the chain hash at its end DIR/quarantine/<base>-<chain>.txt   why, in a sentence
 *
 * Nothing of ours ever reads them again to decide anything, nor deletes them: they are for people, and for audit. But
 * what is redacted is erased in them, too: a content there was never acknowledged, and may be the very one that a
 * client sent once more. *Rule:* a file gets its name once it is durable. *Consequence:* under its name it is whole;
 * the same tail has the same name, so to cut again after a crash writes nothing twice. */
#ifndef TARRY_STORAGE_QUARANTINE_H
#define TARRY_STORAGE_QUARANTINE_H

#include "log.h"

#define QUARANTINE_NAME "quarantine" /* in the data directory */
#define QUARANTINE_NAME_SIZE 40u     /* of a file, with its end */
#define QUARANTINE_WHY_SIZE 1024u

struct quarantine {
    const struct disk *disk;
    const char *directory;
    uint8_t cluster[16];
};

struct quarantine_tail {
    char name[QUARANTINE_NAME_SIZE];
    uint64_t base; /* positions */
    uint64_t end;
};

/* Copies what lies behind `position`, where a frame ends and which is below log_end, with a reason of less than
 * QUARANTINE_WHY_SIZE bytes. Durable when it returns. Everything must be written and synced; writer only. 0 or a
 * negative errno, LOG_WITHIN, LOG_RETIRED, LOG_DAMAGED; then the log is as it was. */
int quarantine_put(const struct quarantine *quarantine, struct log *log, uint64_t position, const char *why,
                   struct quarantine_tail *out);

/* Cuts the log at `position`, where a frame ends. `keep_min`: what must stay, for the index has absorbed it, or it was
 * signed, or is known to be committed. `why`: a sentence for people, of less than QUARANTINE_WHY_SIZE bytes. Writer
 * only. 0: log_end, log_written and log_durable are `position`, and `*out` is what was put aside (base == end: nothing
 * lay behind). Nothing was changed: LOG_KEPT (below keep_min), LOG_END (behind the end), LOG_WITHIN, LOG_RETIRED,
 * LOG_PINNED (somebody copies the log; later), -ENOSPC and other errors of steps 1 to 4. Afterwards the log is
 * poisoned, as after any failed write; opened again it is whole. */
int log_cut(struct log *log, uint64_t position, uint64_t keep_min, const struct quarantine *quarantine, const char *why,
            struct quarantine_tail *out);

/* What is there, by base and name; free() the list. A file that is no segment's any more counts as empty (end = base).
 * 0 or a negative errno; no directory: none. */
int quarantine_list(const struct quarantine *quarantine, struct quarantine_tail **out, size_t *out_count);
/* Opens one to be read, as a log of its own; every frame of it is checked. Otherwise as log_open. */
int quarantine_open(struct log **out, const struct quarantine *quarantine, const struct quarantine_tail *tail,
                    struct log_recovery *out_recovery, char *message, size_t message_size);
/* Whose contents are to be erased in the tails, too: of a task that had this key, and of any with the same content. */
struct quarantine_meant {
    uint32_t queue;         /* its number in the log; tails may have numbered queues of their own */
    const char *queue_name; /* NULL: `queue` is 0 */
    const void *key;
    size_t key_size;     /* 0: it has none */
    const void *content; /* packed, without its salt; NULL: not known */
    size_t content_size;
};
/* In every tail that is there: the frame's flag, then zeros, as in the log (FORMAT.md); the chain stays right. Doing it
 * again is harmless. `*out_count`: how many were found. One thread. 0 or a negative errno, LOG_DAMAGED (then `message`
 * says which tail and what is wrong, and what was found before it is erased). */
int quarantine_erase(const struct quarantine *quarantine, const struct quarantine_meant *meant, size_t count,
                     size_t *out_count, char *message, size_t message_size);
/* The reason; "" if there is none. */
void quarantine_why(const struct quarantine *quarantine, const struct quarantine_tail *tail,
                    char out[QUARANTINE_WHY_SIZE]);

#endif
