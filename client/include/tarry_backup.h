/* tarry_backup.h: backup of a running broker's data. Part of tarry.h, which includes it and has the rules on units,
 * errors and threads. */
#ifndef TARRY_BACKUP_H
#define TARRY_BACKUP_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Options of tarry_backup. */
struct tarry_backup_options {
    /* Directory of the backup on this machine. It must not exist, or be empty, or hold an unfinished backup, which is
     * deleted first. Its parent must exist. */
    const char *directory;
    bool with_archive;    /* copy archived segments too */
    uint64_t deadline_ms; /* time limit for the whole backup, a duration; 0: none */
    /* Reports progress in bytes, from time to time, on the calling thread. Returning false stops the backup. May be
     * NULL. */
    bool (*progress)(void *arg, uint64_t done_size, uint64_t total_size);
    void *arg;
    uint64_t reserved[6]; /* for later versions; must be 0 */
};
/* Result of tarry_backup. */
struct tarry_backup_view {
    uint64_t position;       /* the copy contains exactly the log below this position */
    uint64_t index_position; /* log position up to which the copied index is complete */
    /* log position of the oldest frame in the copy */
    uint64_t log_start;
    uint64_t total_size; /* bytes written */
    uint64_t file_count;
    uint64_t took_ms;
    uint64_t reserved[10]; /* always 0 */
};
/* Copies the broker's data directory as of one log position, while the broker continues to work. The copy contains
 * everything that was acknowledged before the call. A tarryd can be started on it. The copy is a new member: it has
 * another id and another secret, and epochs that the original never reaches. All files are synced before this
 * returns.
 *
 * Until then the directory contains a file `backup.partial`; tarryd and the tool refuse to open it. The broker keeps
 * the log segments it needs until the backup ends, or for one minute after this process dies. A broker allows two
 * backups at a time.
 *
 * TARRY_NOT_DONE: too many backups are running, the broker's disk is full, or the broker restarted: call again.
 * TARRY_E_ARGUMENT: the directory contains other files. TARRY_E_SYSTEM: a file cannot be written; the message names
 * it. TARRY_E_TIMEOUT: the deadline passed, or no reply came. TARRY_E_WOKEN: `progress` returned false. A failed
 * call leaves the unfinished directory. `out_view` may be NULL. Blocks. */
TARRY_API TARRY_MUST_USE int tarry_backup(tarry_client *client, const struct tarry_backup_options *options,
                                          struct tarry_backup_view *out_view, char out_message[TARRY_MESSAGE_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
