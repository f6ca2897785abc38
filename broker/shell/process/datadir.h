/* datadir.h: the data directory: DIR (mode 0700), its lock and its identity. DIR/log and DIR/index belong to storage.
 *
 *   DIR/lock       held (OFD write lock) by the broker that runs on it
 *   DIR/heads      signed heads: storage/history/heads.h
 *   DIR/identity, DIR/member   see identity.h
 *   DIR/archive    retired segments, unless --archive names another directory (storage/history/archive.h)
 *   DIR/archived   see archivist.c
 *   DIR/boot       see boot.h
 *   DIR/pair       storage/files/hard_state.h: what a node of a pair must not forget
 *   DIR/snapshot, DIR/snapshot.wanted   see snapshot_mark.h
 *   DIR/unerased   see pending_erasures.h
 *   DIR/quarantine tails that the pair's leader never had (storage/log/quarantine.h) */
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
    int lock; /* descriptor */
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t secret[IDENTITY_SECRET_SIZE]; /* session secrets are made from it */
    struct member member;
};

/* Makes what is missing, locks, reads the identity. 0, or 1 with a sentence that names the path and what to do. The
 * lock is held until the process ends. */
int datadir_open(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]);
/* Gives a new directory the identity of a cluster that is there already, as a node of its pair. Durable; killed, it is
 * done again. 0, or 1 with a sentence. */
int datadir_join(const char *path, const struct identity *identity, const struct hard_state *hard_state,
                 bool wants_snapshot, char message[DATADIR_MESSAGE_SIZE]);
/* The same for a reader: nothing is made or written, and the lock is shared; it keeps brokers out. A
 * directory without a lock file (a copy without it, which may lie on a medium that cannot be written) is read without
 * one. */
int datadir_inspect(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]);
/* Notes steady time at BOOTTIME zero for the next start in this boot (boot.h). False, and said so, if that fails: then
 * nothing is noted. Any thread. */
bool datadir_note_boot(const struct datadir *dir, uint64_t steady_ns);

/* ---- datadir_neighbours.c: is a new data directory where another one was meant? A restore to the wrong place, a unit
 * that names another directory, a typing error: each would start an empty broker beside the data, unnoticed. */
/* Whether `path` is a data directory: it has an identity that can be read, and is no unfinished copy. */
bool neighbours_is_data(const char *path);
/* The directory that `path` lies in, by its name alone: `path` need not be there. */
void neighbours_parent(const char *path, char *out, size_t size);
/* Tells the log (event=founded_beside) of a data directory that lies beside `path`, which has just been founded. Looks
 * at the first NEIGHBOURS_MAX names there, and at none where all users may write (/tmp): those belong to others. */
#define NEIGHBOURS_MAX 1000
void neighbours_tell(const char *path);

#endif
