/* file_presence.h: presence for a coordinator in a file (file.c). PATH.NAME contains the BOOTTIME in ms until which
 * NAME is present, and its text. All processes are on one host, so they share one clock. The file is overwritten by a
 * single write and not synced. A damaged or missing file, a file from before a reboot, and a disk error all mean that
 * the process is absent, because presence is only a hint. Thread-safety: one owner. */
#ifndef TARRY_COORDINATOR_FILE_PRESENCE_H
#define TARRY_COORDINATOR_FILE_PRESENCE_H

#include "coordinator_backend.h"

#define FILE_PRESENCE_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + 8)

struct file_presence {
    char path[FILE_PRESENCE_PATH_SIZE];            /* path of the coordinator's file */
    uint32_t lasts_ms;                             /* lifetime of a declaration that is not renewed */
    uint64_t again_ms;                             /* time of the next renewal; 0: nothing is declared */
    struct presence declared;                      /* valid if again_ms is not 0 */
    char watched[COORDINATOR_NAME_SIZE_MAX + 1];   /* name of the watched presence; "": none */
    char words[COORDINATOR_PRESENCE_SIZE_MAX + 1]; /* last seen text of the watched presence; "": not present */
};

enum file_presence_news {
    FILE_PRESENCE_SAME,   /* nothing had to be written */
    FILE_PRESENCE_STANDS, /* `declared` is in the file now */
    FILE_PRESENCE_GONE,   /* nothing is declared, or the file could not be written */
};

/* Initializes the presence. `path` is the coordinator's file, shorter than FILE_PRESENCE_PATH_SIZE; it is copied. */
void file_presence_init(struct file_presence *self, const char *path, uint32_t lasts_ms);
/* Declares the presence of this process, and renews it in time. `presence` NULL: not present. May be called repeatedly
 * with the same presence. */
enum file_presence_news file_presence_declare(struct file_presence *self, const struct presence *presence);
/* Reads the presence of call->name: version 1 with its text in call->value, or version 0 if it is not present. Always
 * returns PAIR_DONE. */
enum pair_outcome file_presence_read(const struct file_presence *self, struct coordinator_call *call);
/* Makes file_presence_look watch `name` from now on. */
void file_presence_watch(struct file_presence *self, const char *name);
/* Returns true if the watched presence has appeared, disappeared, or changed its text. */
bool file_presence_look(struct file_presence *self);

#endif
