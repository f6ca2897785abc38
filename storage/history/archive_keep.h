/* archive_keep.h: retention of the archive: holds, and pruning that respects holds.
 *
 * A hold is a file ARCHIVE/<number>.hold (FORMAT.md) with a range of positions or of time, also in the future, and a
 * reason. Pruning keeps every segment that overlaps a hold, until the hold is released. An unreadable hold holds all
 * segments, because its range is unknown.
 *
 * Brokers and commands that place, release or prune take archive_lock first, so a pruning respects every earlier hold.
 * Results as in archive.h. */
#ifndef TARRY_STORAGE_ARCHIVE_KEEP_H
#define TARRY_STORAGE_ARCHIVE_KEEP_H

#include "archive.h"

#define ARCHIVE_REASON_SIZE 256u /* maximum size of a reason in bytes, including the terminating zero */
#define ARCHIVE_HOLDS_MAX 4096u  /* maximum number of holds */

struct archive_hold {
    uint32_t number;  /* number of the hold, from 1, as in the file name; not reused while the archive has a hold */
    uint64_t from;    /* first log position of the range; if `from` and `to` are 0, every position */
    uint64_t to;      /* end of the range, exclusive; 0: no end */
    uint64_t from_ns; /* range of logical steady times, by the same rules as the positions */
    uint64_t to_ns;
    uint64_t made_ms; /* Unix time by the clock of the process that placed the hold */
    char reason[ARCHIVE_REASON_SIZE];
};

struct archive_holds {
    struct archive_hold *holds; /* holds in the order of their numbers */
    size_t count;
    uint32_t unreadable; /* number of an unreadable hold; 0: no such hold */
};

/* Returns the file name of a hold. */
#define ARCHIVE_HOLD_NAME_SIZE 32
void archive_hold_name(uint32_t number, char out[ARCHIVE_HOLD_NAME_SIZE]);
/* Locks out other processes that place, release or prune. Returns a descriptor; close(2) unlocks. -EAGAIN: another
 * process has the lock. Never waits. */
int archive_lock(const struct archive *archive);

int archive_holds_read(const struct archive *archive, struct archive_holds *out);
void archive_holds_free(struct archive_holds *holds);
/* Returns a hold that overlaps the segment, or NULL. If a hold is unreadable, sets *out_all (all segments are held) and
 * returns NULL. */
const struct archive_hold *archive_held_by(const struct archive_holds *holds, const struct archive_info *info,
                                           bool *out_all);
/* Places a hold, durably, and sets hold->number. -EDQUOT: ARCHIVE_HOLDS_MAX is reached. */
int archive_hold_place(const struct archive *archive, struct archive_hold *hold);
/* Releases a hold, also an unreadable one. -ENOENT: no such hold. */
int archive_hold_release(const struct archive *archive, uint32_t number);

/* ---- pruning */
struct archive_limits {
    uint64_t before_wall_ns; /* segments that end before this wall time are too old; 0: no age limit */
    uint64_t bytes_max;      /* limit of all files together; the oldest files are deleted first; UINT64_MAX: no limit */
};
struct archive_pruning {
    uint64_t files; /* number of deleted files; with `dry`, of files that would be deleted */
    uint64_t bytes;
    uint64_t held;    /* number of files that exceed the limits but stay, because a hold protects them */
    uint64_t unknown; /* number of unreadable files, which are kept */
};
/* Deletes files over the limits, oldest first; syncs the directory after each. Calls `each` (may be NULL) before a file
 * is deleted. `dry` deletes nothing. The caller has the lock. */
int archive_prune(const struct archive *archive, const struct archive_limits *limits, bool dry,
                  void (*each)(void *argument, const struct archive_info *info), void *argument,
                  struct archive_pruning *out);

/* ---- the owner */
/* Content of ARCHIVE/owner: the cluster and member (identity.h) of the broker that writes to the archive. Two brokers
 * never share an archive, not even a broker and its copy. The file also distinguishes an archive from the empty
 * directory of an unmounted disk. Results: 0, -ENOENT, LOG_DAMAGED. */
struct archive_owner {
    uint8_t cluster[16];
    uint8_t member[16];
};
int archive_owner_read(const struct archive *archive, struct archive_owner *out);
int archive_owner_write(const struct archive *archive, const struct archive_owner *owner); /* durable */

#endif
