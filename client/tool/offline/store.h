/* store.h: a data directory opened from outside, while no broker runs on it. Nothing in it is changed.
 *
 * In this order: the lock (shared: it keeps brokers out), the identity, the index, the log; the archive is looked at by
 * its readers. */
#ifndef TARRY_TOOL_STORE_H
#define TARRY_TOOL_STORE_H

#include "archive.h"
#include "index.h"
#include "log.h"
#include "tool.h"

#define STORE_PATH_SIZE 4096u

struct store {
    const char *directory; /* borrowed */
    uint8_t cluster[16];
    int lock; /* descriptor; -1: none */
    struct index *index;
    struct index_meta meta;
    struct log *log;
    struct log_recovery recovery;
    char archive_directory[STORE_PATH_SIZE];
    struct archive archive;               /* valid with the log; its directory may be missing */
    const char *hindrance;                /* why nothing could be read ("locked", …); NULL: it could */
    char message[STORE_PATH_SIZE + 1024]; /* what is wrong, and where; empty: nothing */
};

/* `directory` must be shorter than STORE_PATH_SIZE - 16. */
void store_init(struct store *store, const char *directory);
/* Each: 0, or EXIT_REFUSED after a sentence in `message`. */
int store_lock(struct store *store);
int store_identity(struct store *store); /* without the lock: for what a broker may run beside */
int store_open_index(struct store *store);
/* After the index. Frames are checked from `scan_from` on (0: all of them), and the log against the index's position.
 */
int store_open_log(struct store *store, uint64_t scan_from);
/* Without an index: all frames are checked. */
int store_open_log_alone(struct store *store);
void store_close(struct store *store);
/* The end of a command: prints `out`, says what is wrong, if anything, and closes. Returns the exit status. */
int store_finish(struct store *store, struct text *out, int status);
/* Where retired segments are: the directory of --archive DIR, which must be there then, or DIR/archive. 0, or
 * EXIT_REFUSED after a sentence in `message`. After the identity. */
int store_open_archive(struct store *store, const char *directory);
/* All of it, of --data DIR and --archive DIR, but no task can be looked up in the index; the log's frames are checked
 * as they are read. 0, or an exit status after a sentence on standard error, and nothing is open. */
int store_open(struct store *store, const struct args *args);

#define STORE_ARCHIVE_OPTION                                                                                           \
    { "archive", ARG_VALUE, "DIR", "archive of the broker [DIR/archive]" }

/* Notes what is wrong; returns EXIT_REFUSED. */
int store_damaged(struct store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "it is damaged", of a negative result of `storage`. */
const char *store_sentence(int error);

#endif
