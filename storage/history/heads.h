/* heads.h: the file of signed heads, DIR/heads: one head (proto/head.h) after another, in the order of their
 * positions, for ever: they outlive the segments that they speak of.
 *
 * Rule: only the last one can be torn. Reason: each is written and synced before the next one is. Consequence: bytes at
 * the end that make no head are what a crash left, and the next append writes over them; bytes before them are damage.
 *
 * Not thread-safe: one owner. */
#ifndef TARRY_STORAGE_HEADS_H
#define TARRY_STORAGE_HEADS_H

#include "disk.h"
#include "head.h"

#define HEADS_NAME "heads"
#define HEADS_PATH_SIZE 4160u

struct heads {
    const struct disk *disk;
    char directory[HEADS_PATH_SIZE];
    int handle;          /* -1: there is no file */
    uint64_t count;      /* whole entries, whatever they hold, but a torn last one */
    uint64_t torn_bytes; /* after them */
};

/* Opens DIR/heads for reading; a missing one is empty. 0 or a negative errno. `disk` stays the caller's. */
int heads_open(struct heads *heads, const struct disk *disk, const char *directory);
/* Opens such a file under another name, to be read alone; a missing one is -ENOENT. */
int heads_open_file(struct heads *heads, const struct disk *disk, const char *path);
void heads_close(struct heads *heads);

/* The entry at `index`, from 0 on. 0; 1: it is no head; negative errno. */
int heads_read(const struct heads *heads, uint64_t index, struct head *out);
/* The newest entry by this signer. 0; 1: there is none, or an entry on the way is no head (*out_damaged, its index);
 * negative errno. */
int heads_last(const struct heads *heads, const uint8_t signer[SIGN_KEY_ID_SIZE], struct head *out,
               uint64_t *out_damaged);

/* Writes it and syncs; the first one makes the file. After a failure nothing was added: the same place is written
 * again, whole, by the next call, so it does not matter what the failed sync left in the page cache (F-5). */
int heads_append(struct heads *heads, const struct head *head);

#endif
