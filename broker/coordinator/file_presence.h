/* file_presence.h: presence for a coordinator that is a file of this host (file.c): the file PATH.NAME has the BOOTTIME
 * in ms until which NAME is present, and its text. All processes share the host's clock.
 *
 * The file is written in place by one write and not synced. A damaged or missing file, one from before a reboot, or a
 * disk error counts as absence, because presence is only a hint.
 *
 * Thread-safety: one owner. */
#ifndef TARRY_COORDINATOR_FILE_PRESENCE_H
#define TARRY_COORDINATOR_FILE_PRESENCE_H

#include "coordinator_backend.h"

#define FILE_PRESENCE_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + 8)

struct file_presence {
    char path[FILE_PRESENCE_PATH_SIZE];            /* path of the coordinator's file */
    uint32_t lasts_ms;                             /* how long a declaration counts */
    uint64_t again_ms;                             /* time of the next renewal; 0: nothing is declared */
    struct presence declared;                      /* the declaration of this process */
    char watched[COORDINATOR_NAME_SIZE_MAX + 1];   /* name of the watched presence; "": none */
    char words[COORDINATOR_PRESENCE_SIZE_MAX + 1]; /* its text at the last look; "": no node was present */
};

enum file_presence_news {
    FILE_PRESENCE_SAME,   /* nothing had to be written */
    FILE_PRESENCE_STANDS, /* `declared` is written */
    FILE_PRESENCE_GONE,   /* nothing is declared, or the write failed */
};

/* `path`: the coordinator's file, shorter than FILE_PRESENCE_PATH_SIZE; it is copied. */
void file_presence_init(struct file_presence *self, const char *path, uint32_t lasts_ms);
/* Writes the declaration of this process, and renews it in time; NULL: removes it. Call it in each turn. */
enum file_presence_news file_presence_declare(struct file_presence *self, const struct presence *presence);
/* Reads the presence of call->name: version 1 with its text in call->value; version 0 if absent. Always returns
 * PAIR_DONE. */
enum pair_outcome file_presence_read(const struct file_presence *self, struct coordinator_call *call);
/* Sets the presence that file_presence_look watches. */
void file_presence_watch(struct file_presence *self, const char *name);
/* True: the watched presence has appeared, disappeared or changed its text. */
bool file_presence_look(struct file_presence *self);

#endif
