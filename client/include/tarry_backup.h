/* tarry_backup.h: a copy of a running broker's data. A part of tarry.h, which includes it and has the rules on units,
 * errors and threads. */
#ifndef TARRY_BACKUP_H
#define TARRY_BACKUP_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct tarry_backup_options {
    /* On this machine: not there (its parent is), empty, or what a backup left that was not finished, which is deleted
     * first. */
    const char *directory;
    bool with_archive;    /* archived segments too */
    uint64_t deadline_ms; /* a duration for all of it; 0: none */
    /* Called on the calling thread, now and then; bytes. False: stop. May be NULL. */
    bool (*progress)(void *arg, uint64_t done_size, uint64_t total_size);
    void *arg;
    uint64_t reserved[6]; /* 0 */
};
struct tarry_backup_view {
    uint64_t position;       /* of the log: everything up to here is in the copy, and nothing later */
    uint64_t index_position; /* of the index in it */
    uint64_t log_start;
    uint64_t total_size; /* bytes written */
    uint64_t file_count;
    uint64_t took_ms;
    uint64_t reserved[10]; /* 0 */
};
/* Copies the broker's data directory as of one log position, while the broker goes on; what was acknowledged before the
 * call is in it. The copy is a member of its own (another id, another secret, epochs that the original does not reach),
 * and a tarryd can be started on it. Everything is synced before this returns. Until then the directory holds a file
 * `backup.partial`, and neither tarryd nor the tool opens it. The broker's pins on its log last until the end, or, if
 * this process dies, for a minute more. Two backups of a broker may be under way at a time.
 *
 * TARRY_NOT_DONE: another backup is under way, the broker's disk has no room, or it was started anew meanwhile: call
 * again. TARRY_E_ARGUMENT: the directory holds something else. TARRY_E_SYSTEM: a file cannot be written; the message
 * says which. TARRY_E_TIMEOUT: the deadline, or no answer. TARRY_E_WOKEN: `progress` said stop. After a failure the
 * directory is left unfinished. `out_view` may be NULL. */
TARRY_API TARRY_MUST_USE int tarry_backup(tarry_client *client, const struct tarry_backup_options *options,
                                          struct tarry_backup_view *out_view, char out_message[TARRY_MESSAGE_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
