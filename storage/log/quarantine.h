/* quarantine.h: tails that were cut off the log and are kept for later audits (R8, F-25).
 *
 * Each tail has two files in DIR/quarantine:
 *   - <base>-<chain>.seg: one segment file (FORMAT.md) with the frames after position `base`. `chain` is the beginning
 *     of the chain hash after the last frame.
 *   - <base>-<chain>.txt: one sentence with the reason of the cut.
 *
 * Tarry never deletes these files and never bases a decision on them; they are for operators and `tarry audit`.
 *
 * Redactions also erase contents in the tails. Reason: a content in a tail was never acknowledged, so a client may have
 * sent the same content again.
 *
 * *Rule:* a file gets its name when it is durable. *Consequence:* a file with its final name is complete. The same tail
 * has the same name, so a repeated cut after a crash writes no second copy. */
#ifndef TARRY_STORAGE_QUARANTINE_H
#define TARRY_STORAGE_QUARANTINE_H

#include "log.h"

#define QUARANTINE_NAME "quarantine" /* name of the folder in the data directory */
#define QUARANTINE_NAME_SIZE 40u     /* size of a file name, including the terminating zero */
#define QUARANTINE_WHY_SIZE 1024u

struct quarantine {
    const struct disk *disk;
    const char *directory;
    uint8_t cluster[16];
};

struct quarantine_tail {
    char name[QUARANTINE_NAME_SIZE];
    uint64_t base; /* start position */
    uint64_t end;  /* end position */
};

/* Copies the frames after `position` to the quarantine, durably. A frame must end at `position`, which is below
 * log_end; `why` is shorter than QUARANTINE_WHY_SIZE bytes. All frames must be written and synced. Writer only. 0, a
 * negative errno, LOG_WITHIN, LOG_RETIRED or LOG_DAMAGED; the log is unchanged in every case. */
int quarantine_put(const struct quarantine *quarantine, struct log *log, uint64_t position, const char *why,
                   struct quarantine_tail *out);

/* Cuts the log at `position`, where a frame ends, and puts the tail into the quarantine. Writer only. Frames below
 * `keep_min` must stay, because the index absorbed them, or they were signed, or are known to be committed. `why` is a
 * sentence for the operator, shorter than QUARANTINE_WHY_SIZE bytes.
 *
 * Returns 0: the log ends at `position` and is durable; `*out` is the tail (base == end: the tail was empty). These
 * errors leave the log unchanged: LOG_KEPT (`position` is below `keep_min`), LOG_END (`position` is beyond the end),
 * LOG_WITHIN, LOG_RETIRED, LOG_PINNED (a copy is in progress; try later), and errors before the first change of the
 * log, such as -ENOSPC. Later errors poison the log, like any failed write; the next log_open finds a whole log. */
int log_cut(struct log *log, uint64_t position, uint64_t keep_min, const struct quarantine *quarantine, const char *why,
            struct quarantine_tail *out);

/* Lists the tails by base and name; the caller frees the list. A file that is not a valid segment counts as empty (end
 * = base). Without a directory the list is empty. 0 or a negative errno. */
int quarantine_list(const struct quarantine *quarantine, struct quarantine_tail **out, size_t *out_count);
/* Opens a tail read-only as a separate log, and checks every frame. Otherwise as log_open. */
int quarantine_open(struct log **out, const struct quarantine *quarantine, const struct quarantine_tail *tail,
                    struct log_recovery *out_recovery, char *message, size_t message_size);
/* Selects contents to erase in the tails: contents of tasks with this key, and equal contents of any task. */
struct quarantine_meant {
    uint32_t queue;         /* number of the queue in the log; a tail may have another number for the same queue */
    const char *queue_name; /* name of the queue; NULL: `queue` is 0 */
    const void *key;
    size_t key_size;     /* size of the key in bytes; 0: no key */
    const void *content; /* the packed content without its salt; NULL: unknown */
    size_t content_size;
};
/* Erases the selected contents in all tails: sets the frame's flag, then writes zeros, as in the log (FORMAT.md). The
 * chain hash stays valid. Idempotent. `*out_count`: number of contents found. One thread at a time. 0 or a negative
 * errno; LOG_DAMAGED: `message` names the tail and the problem, and the contents found before it are erased. */
int quarantine_erase(const struct quarantine *quarantine, const struct quarantine_meant *meant, size_t count,
                     size_t *out_count, char *message, size_t message_size);
/* Reads the reason of the cut; "" if there is no reason file. */
void quarantine_why(const struct quarantine *quarantine, const struct quarantine_tail *tail,
                    char out[QUARANTINE_WHY_SIZE]);

#endif
