/* file_presence.h: which nodes are present, where the coordinator is a file of this host (file.c): PATH.NAME has the
 * BOOTTIME in ms until which NAME is present, and what it says. One host, one clock.
 *
 * It is written in place, by one write, and not synced: what is damaged, lost, or of before a reboot is no presence.
 * Errors of the disk are taken for absence: a presence is an opinion.
 *
 * Thread-safety: one owner. */
#ifndef TARRY_COORDINATOR_FILE_PRESENCE_H
#define TARRY_COORDINATOR_FILE_PRESENCE_H

#include "coordinator_backend.h"

#define FILE_PRESENCE_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + 8)

struct file_presence {
    char path[FILE_PRESENCE_PATH_SIZE];            /* the coordinator's */
    uint32_t lasts_ms;                             /* how long a declaration counts, if it is not said again */
    uint64_t again_ms;                             /* it is not said again before; 0: nothing is declared */
    struct presence declared;                      /* … and what was */
    char watched[COORDINATOR_NAME_SIZE_MAX + 1];   /* the presence that is watched; "": none */
    char words[COORDINATOR_PRESENCE_SIZE_MAX + 1]; /* … and what it said, as was seen last; "": no node was there */
};

enum file_presence_news {
    FILE_PRESENCE_SAME,   /* nothing was to be written */
    FILE_PRESENCE_STANDS, /* `declared` is there now */
    FILE_PRESENCE_GONE,   /* nothing is, or it could not be written */
};

/* `path`: the coordinator's file, shorter than FILE_PRESENCE_PATH_SIZE; it is copied. */
void file_presence_init(struct file_presence *self, const char *path, uint32_t lasts_ms);
/* Says, and says again in time, what this process declares; NULL: it is not present, or not any more. Idempotent. */
enum file_presence_news file_presence_declare(struct file_presence *self, const struct presence *presence);
/* The presence of call->name: its text in call->value, version 1; none: version 0. Always PAIR_DONE. */
enum pair_outcome file_presence_read(const struct file_presence *self, struct coordinator_call *call);
/* From now on file_presence_look looks for `name`. */
void file_presence_watch(struct file_presence *self, const char *name);
/* True: the presence that is watched has come, gone, or says something else. */
bool file_presence_look(struct file_presence *self);

#endif
