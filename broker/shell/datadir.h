/* datadir.h: the data directory: DIR (mode 0700), its lock and its identity. DIR/log and DIR/index belong to storage.
 *
 *   DIR/lock       held (OFD write lock) by the broker that runs on it
 *   DIR/identity   "TARRYID1", format version (u32 LE), 0 (u32), cluster id (16 bytes), secret (32 bytes),
 *                  XXH3-64 of all that (u64 LE)
 *   DIR/heads      signed heads: storage/heads.h
 *   DIR/boot       see boot.h */
#ifndef TARRY_SHELL_DATADIR_H
#define TARRY_SHELL_DATADIR_H

#include <stddef.h>
#include <stdint.h>

#define CLUSTER_ID_SIZE 16
#define IDENTITY_SECRET_SIZE 32
#define DATADIR_MESSAGE_SIZE 1536

struct datadir {
    char path[1024];
    char log[1100];
    char index[1100];
    int lock; /* descriptor */
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t secret[IDENTITY_SECRET_SIZE]; /* session secrets are made from it */
};

/* Makes what is missing, locks, reads the identity. 0, or 1 with a sentence that names the path and what to do. The
 * lock is held until the process ends. */
int datadir_open(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]);
/* The same for whoever only reads: nothing is made or written, and the lock is shared; it keeps brokers out. A
 * directory without a lock file (a copy without it, which may lie on a medium that cannot be written) is read without
 * one. */
int datadir_inspect(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]);

#endif
