/* archive_keep.h: what of the archive is kept, and for how long: holds, and pruning that respects them.
 *
 * A hold is a file of its own, ARCHIVE/<number>.hold (FORMAT.md): a range of positions or of time, also one that is yet
 * to come, and a reason. What it touches is not pruned until it is released. A hold that cannot be read holds
 * everything: it was made for something.
 *
 * Brokers and commands that place, release or prune take archive_lock first: so what was held before a pruning began is
 * not pruned. Results as in archive.h. */
#ifndef TARRY_STORAGE_ARCHIVE_KEEP_H
#define TARRY_STORAGE_ARCHIVE_KEEP_H

#include "archive.h"

#define ARCHIVE_REASON_SIZE 256u /* of a hold, with its end */
#define ARCHIVE_HOLDS_MAX 4096u  /* more are refused */

struct archive_hold {
    uint32_t number;  /* its name, from 1 on; never used twice while the archive has a hold */
    uint64_t from;    /* log positions; 0 and 0: any */
    uint64_t to;      /* exclusive; 0: no end */
    uint64_t from_ns; /* logical steady times, likewise */
    uint64_t to_ns;
    uint64_t made_ms; /* Unix time, by the clock of the process that placed it */
    char reason[ARCHIVE_REASON_SIZE];
};

struct archive_holds {
    struct archive_hold *holds; /* by number */
    size_t count;
    uint32_t unreadable; /* number of a hold that cannot be read; 0: none */
};

/* The name of the hold's file in the archive. */
#define ARCHIVE_HOLD_NAME_SIZE 32
void archive_hold_name(uint32_t number, char out[ARCHIVE_HOLD_NAME_SIZE]);
/* Keeps other processes from placing, releasing and pruning. → a handle to be closed with close(2); -EAGAIN: another
 * does. Never waits. */
int archive_lock(const struct archive *archive);

int archive_holds_read(const struct archive *archive, struct archive_holds *out);
void archive_holds_free(struct archive_holds *holds);
/* The hold that touches the segment, or NULL; everything is held if one is unreadable (*out_all, then NULL). */
const struct archive_hold *archive_held_by(const struct archive_holds *holds, const struct archive_info *info,
                                           bool *out_all);
/* Places it, durable when this returns; sets hold->number. -EDQUOT: there are ARCHIVE_HOLDS_MAX. */
int archive_hold_place(const struct archive *archive, struct archive_hold *hold);
/* -ENOENT: there is no such hold. Deletes one that cannot be read, too. */
int archive_hold_release(const struct archive *archive, uint32_t number);

/* ---- pruning */
struct archive_limits {
    uint64_t before_wall_ns; /* what ended before this is too old; 0: nothing is */
    uint64_t bytes_max;      /* of all files together; the oldest go first; UINT64_MAX: no limit */
};
struct archive_pruning {
    uint64_t files; /* deleted, or that would be */
    uint64_t bytes;
    uint64_t held;    /* files that would have been, but for a hold */
    uint64_t unknown; /* files that cannot be read: they are left */
};
/* Deletes what is over the limits, from the oldest on, each one synced away before the next. `each` (may be NULL) is
 * told of every file that goes, before it does. `dry` deletes nothing. The caller has the lock. */
int archive_prune(const struct archive *archive, const struct archive_limits *limits, bool dry,
                  void (*each)(void *argument, const struct archive_info *info), void *argument,
                  struct archive_pruning *out);

/* ---- whose it is */
/* ARCHIVE/owner says which broker writes to the archive: its cluster, and as which member (identity.h). So two never
 * share one, not even a broker and its copy; and the empty directory of a disk that is not mounted is not taken for an
 * archive. 0, -ENOENT, LOG_DAMAGED. */
struct archive_owner {
    uint8_t cluster[16];
    uint8_t member[16];
};
int archive_owner_read(const struct archive *archive, struct archive_owner *out);
int archive_owner_write(const struct archive *archive, const struct archive_owner *owner); /* durable */

#endif
