/* backup.h: the thread that lets a copy of the data directory be made while the broker works.
 *
 * A backup is consistent because of the order in which its parts are fixed:
 *   1. segments are pinned: none is retired until the end
 *   2. the index is copied into a file of its own (index_copy), as of a position I
 *   3. what only refers to durable positions (signed heads, the archive) is listed
 *   4. the log is durable up to P ≥ I: that is where the copy of the log ends
 *   5. identity of a new member, with a secret of its own (identity.h)
 * The files are then read by the client at its own pace. Bytes of the log below P do not change: nothing is erased
 * while segments are pinned, for half of an erasure in a copy would be damage. Redactions wait for the backup's end.
 *
 * Only what is durable is handed out (LOG-1). What a backup holds is bounded: BACKUPS_MAX at a time; one ends when no
 * request has come for BACKUP_IDLE_MS, and when the disk has no more room than the broker needs itself (F-4). Its copy
 * of the index has no name: it goes with the process, whatever happens. Only requests for backups wait for this thread;
 * the index thread does for the length of one block when the index's map has to grow. */
#ifndef TARRY_SHELL_BACKUP_H
#define TARRY_SHELL_BACKUP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "call.h"
#include "tarry_limits.h"
#include "waited.h"

struct archivist;
struct config;
struct datadir;
struct index;
struct index_copy;
struct log;
struct node;
struct disk_space;
struct run;

struct backup_needs {
    const struct config *config;
    const struct datadir *dir;
    const struct run *run;
    struct disk_space *disk_space;
    struct log *log;
    struct index *index;
    const struct archivist *archivist; /* where the archive is */
    struct node *node;
};

/* A file of the copy: where its bytes are. */
struct backup_file {
    char *name;     /* in the copy */
    char *path;     /* here; NULL: `bytes`, or the copied index */
    uint8_t *bytes; /* made for the copy */
    uint64_t size;
};

struct backup_files {
    struct backup_file *items;
    size_t count;
    size_t room;
    uint64_t bytes; /* of all */
};

enum backup_state { BACKUP_FREE, BACKUP_COPYING, BACKUP_READY };

struct backup_slot {
    enum backup_state state;
    uint64_t number;
    uint64_t asked_ns;  /* MONOTONIC, the last request for it … */
    struct waited idle; /* … since when none has come */
    bool with_archive;
    bool is_peers;           /* it is the snapshot that the other node of the pair fetches … */
    uint64_t read;           /* … and has so many bytes of */
    struct index_copy *copy; /* COPYING */
    int index_handle;        /* of the copied index, which has no name; -1: none */
    uint64_t index_position;
    uint64_t log_start;
    uint64_t position;
    struct backup_files files; /* READY */
    size_t open_file;          /* the one that `handle` is of */
    int handle;                /* -1: none */
};

struct backup {
    struct backup_needs needs;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct item *first; /* calls */
    struct item **last;
    bool stop;

    /* the thread's own */
    struct backup_slot slots[BACKUPS_MAX];
    uint64_t number_last;
    uint8_t *block; /* BACKUP_READ_MAX */
};

void backup_start(struct backup *backup, const struct backup_needs *needs);
/* Takes over a call whose request is a checked Backup; it is answered by the thread. Any thread. */
void backup_post(struct backup *backup, struct call *call);
/* Answers what waits, and ends all backups. */
void backup_stop(struct backup *backup);

/* ---- backup_files.c */
/* What the copy is made of, once the index has been copied. 0 or a negative errno. */
int backup_files_list(const struct backup_needs *needs, struct backup_slot *slot);
void backup_files_free(struct backup_files *files);
/* Up to `size` bytes of a file of the slot. Their count, or a negative errno. */
int64_t backup_files_read(struct backup_slot *slot, size_t file, uint64_t offset, uint8_t *out, size_t size);

#endif
