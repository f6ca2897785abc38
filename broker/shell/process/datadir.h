/* datadir.h: the data directory: DIR (mode 0700), its lock and its identity. DIR/log and DIR/index belong to storage.
 *
 *   DIR/lock       OFD write lock, held by the running broker
 *   DIR/heads      signed heads: storage/history/heads.h
 *   DIR/identity, DIR/member   see identity.h
 *   DIR/archive    retired segments, unless --archive names another directory (storage/history/archive.h)
 *   DIR/archived   see archivist.c
 *   DIR/boot       see clock.h
 *   DIR/pair       hard state of a node of a pair: storage/files/hard_state.h
 *   DIR/snapshot, DIR/snapshot.wanted   see datadir.h
 *   DIR/unerased   see pending_erasures.h
 *   DIR/quarantine tails of the log that the pair's leader never had (storage/log/quarantine.h) */
#ifndef TARRY_SHELL_DATADIR_H
#define TARRY_SHELL_DATADIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hard_state.h"
#include "identity.h"

#define DATADIR_MESSAGE_SIZE IDENTITY_MESSAGE_SIZE

struct datadir {
    char path[1024];
    char log[1100];
    char index[1100];
    char quarantine[1100];
    int lock; /* file descriptor that holds the lock */
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t secret[IDENTITY_SECRET_SIZE]; /* key from which the secrets of sessions are made */
    struct member member;
};

/* Creates missing files, takes the lock, reads the identity. Returns 0, or 1 with an error message that names the path
 * and what to do. The lock is held until the process ends. */
int datadir_open(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]);
/* Gives a new directory the identity of an existing cluster, as a node of its pair. Durable; if killed in between, the
 * next start repeats it. Returns 0, or 1 with an error message. */
int datadir_join(const char *path, const struct identity *identity, const struct hard_state *hard_state,
                 bool wants_snapshot, char message[DATADIR_MESSAGE_SIZE]);
/* Opens the directory for reading: nothing is created or written. The lock is shared, and keeps brokers out. A
 * directory without a lock file is read without a lock: such a copy may lie on a read-only medium. Returns like
 * datadir_open. */
int datadir_inspect(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]);
/* Notes steady time at BOOTTIME zero for the next start in this boot (clock.h). Returns false if that fails; then the
 * failure is logged and no note exists. Any thread. */
bool datadir_note_boot(const struct datadir *dir, uint64_t steady_ns);

/* ---- the mark of a wanted snapshot */

/* The file DIR/snapshot.wanted. It means that the log and the index in DIR are useless, and that the
 * next start fetches a snapshot (pair/snapshot.h). Durable. */

#define SNAPSHOT_NAME "snapshot"
#define SNAPSHOT_WANTED_NAME "snapshot.wanted"

/* Makes the next start fetch a snapshot; durable. `erased`: all redactions below this log position are carried out in
 * the data that the directory has now; 0: it has no data. Returns 0 or a negative errno. */
int snapshot_want(const char *directory, uint64_t erased);
bool snapshot_is_wanted(const char *directory);
/* Returns the value of `erased` that was passed to snapshot_want; 0: the directory had no data, or the file does not
 * contain the value. */
uint64_t snapshot_erased_before(const char *directory);

#endif
