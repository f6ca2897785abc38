/* backup.h: the thread that lets a client copy the data directory while the broker works.
 *
 * A backup is consistent because its parts are fixed in this order:
 *   1. segments are pinned: none is retired until the backup ends
 *   2. the index is copied into a file of its own (index_copy), as of a position I
 *   3. files that refer only to durable positions (signed heads, the archive) are listed
 *   4. the log is durable up to P ≥ I: the copy of the log ends at P
 *   5. a new member identity is made, with a secret of its own (identity.h)
 * The client then reads the files at its own speed. Bytes of the log below P do not change. Nothing is erased while
 * segments are pinned, because half of an erasure in a copy would be damage. So redactions wait for the backup's end.
 *
 * Only durable data are handed out (LOG-1). At most BACKUPS_MAX backups exist at a time. A backup ends when no request
 * has come for BACKUP_IDLE_MS, and when the disk has only as much free space as the broker needs itself (F-4). Its copy
 * of the index is an unnamed file, so the kernel deletes it when the process ends. Requests other than backup requests
 * do not wait for this thread. The index thread waits for it only when the index's memory map must grow, and then for
 * the copy of one block. */
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
    const struct archivist *archivist; /* the archive whose files are copied, too */
    struct node *node;
};

/* A file of the copy, and the place of its bytes. */
struct backup_file {
    char *name;     /* name of the file in the copy */
    char *path;     /* path in this data directory; NULL: the bytes are in `bytes` or in the copied index */
    uint8_t *bytes; /* content that was made for the copy */
    uint64_t size;
};

struct backup_files {
    struct backup_file *items;
    size_t count;
    size_t room;
    uint64_t bytes; /* total size of all files */
};

enum backup_state { BACKUP_FREE, BACKUP_COPYING, BACKUP_READY };

struct backup_slot {
    enum backup_state state;
    uint64_t number;
    uint64_t asked_ns;  /* CLOCK_MONOTONIC, time of the last request for this backup */
    struct waited idle; /* time without a request for this backup */
    bool with_archive;
    bool is_peers; /* the requester is the other node of the pair, which fetches its snapshot by this backup */
    uint64_t read; /* bytes of the backup that were read so far */
    struct index_copy *copy; /* the copying of the index; valid in BACKUP_COPYING */
    int index_handle;        /* descriptor of the copied index, an unnamed file; -1: none */
    uint64_t index_position;
    uint64_t log_start;
    uint64_t position;
    struct backup_files files; /* the files of the copy; valid in BACKUP_READY */
    size_t open_file;          /* number of the file in `files` that `handle` is open on */
    int handle;                /* descriptor of the open file; -1: none */
};

struct backup {
    struct backup_needs needs;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct item *first; /* calls to answer */
    struct item **last;
    bool stop;

    /* The following members are used by the backup thread only. */
    struct backup_slot slots[BACKUPS_MAX];
    uint64_t number_last;
    uint8_t *block; /* buffer of BACKUP_READ_MAX bytes */
};

void backup_start(struct backup *backup, const struct backup_needs *needs);
/* Takes over a call whose request is a checked Backup. The thread answers it. Any thread. */
void backup_post(struct backup *backup, struct call *call);
/* Answers the waiting calls and ends all backups. */
void backup_stop(struct backup *backup);

#endif
