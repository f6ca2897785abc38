/* store.h: read-only access to a data directory on which no broker runs.
 *
 * Open in this order: the lock (shared: it keeps brokers out), the identity, the index, the log. Readers of the
 * archive open it themselves. */
#ifndef TARRY_STORAGE_STORE_H
#define TARRY_STORAGE_STORE_H

#include <stdint.h>
#include <sys/types.h>

#include "archive.h"
#include "index.h"
#include "log.h"

#define STORE_PATH_SIZE 4096u
#define STORE_REFUSED 1 /* returned by a function after it has written an error message into `message` of the store */

struct store {
    const char *directory; /* borrowed */
    uint8_t cluster[16];
    int lock; /* descriptor of the locked file; -1: none */
    struct index *index;
    struct index_meta meta;
    struct log *log;
    struct log_recovery recovery;
    char archive_directory[STORE_PATH_SIZE];
    struct archive archive;               /* the archive; valid while the log is open; its directory may be missing */
    const char *hindrance;                /* reason why nothing could be read ("locked", …); NULL: no such reason */
    char message[STORE_PATH_SIZE + 1024]; /* error message, with the place of the error; empty: no error */
};

/* Prepares a closed store. `directory` must be shorter than STORE_PATH_SIZE - 16. */
void store_init(struct store *store, const char *directory);
/* Each of the following functions returns 0, or STORE_REFUSED after an error message in `message`. */
int store_lock(struct store *store);
int store_identity(struct store *store); /* needs no lock: for commands that may run beside a broker */
int store_open_index(struct store *store);
/* Call after store_open_index. Checks the frames from `scan_from` on (0: all), and the log against the position of
 * the index. */
int store_open_log(struct store *store, uint64_t scan_from);
/* Opens the log without an index, and checks all frames. */
int store_open_log_alone(struct store *store);
void store_close(struct store *store);
/* Opens the archive of retired segments: the directory of --archive DIR, which must exist, or DIR/archive. Call after
 * the identity. 0, or STORE_REFUSED after an error message in `message`. */
int store_open_archive(struct store *store, const char *directory);
/* Opens lock, identity, index, log and archive. The index is opened without look-ups of tasks; the frames of the log
 * are checked when they are read. 0, or STORE_REFUSED. */
int store_open_all(struct store *store, const char *archive);
/* Stores an error message; returns STORE_REFUSED. */
int store_damaged(struct store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns a sentence for a negative result of `storage`: "it is damaged". */
const char *store_sentence(int error);

/* ---- owner of new files */

/* Owner of the files that an offline command makes. A file of root in the directory of the broker's user
 * would stop the broker. So files made by root get the owner of the directory that they are in. Other users cannot
 * give files away; for them nothing happens. */

struct owner {
    uid_t uid;
    gid_t gid;
};

/* Returns the owner of `directory`; if it does not exist, of its nearest existing parent. If that fails, the current
 * user. */
struct owner owner_of(const char *directory);
/* Gives the file, directory or symbolic link to `owner`, if root runs this process. 0 or a negative errno; also 0 if
 * the file system has no owners, or root may not do it. */
int owner_give(struct owner owner, const char *path);

#endif
