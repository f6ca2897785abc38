/* heads.h: the file of signed heads, DIR/heads: one head (proto/head.h) after another, in order of position. Heads are
 * kept when their segments are deleted.
 *
 * *Rule:* only the last head can be torn. *Reason:* each head is written and synced before the next one. *Consequence:*
 * an incomplete head at the end was left by a crash, and the next append overwrites it; other invalid bytes are damage.
 *
 * Not thread-safe. */
#ifndef TARRY_STORAGE_HEADS_H
#define TARRY_STORAGE_HEADS_H

#include "disk.h"
#include "head.h"

#define HEADS_NAME "heads"
#define HEADS_PATH_SIZE 4160u

struct heads {
    const struct disk *disk;
    char directory[HEADS_PATH_SIZE];
    int handle;          /* descriptor of the file of heads; -1: the file does not exist */
    uint64_t count;      /* number of complete entries, valid or not, without a torn last one */
    uint64_t torn_bytes; /* bytes of the torn last entry */
};

/* Opens DIR/heads; a missing file is empty. 0 or a negative errno. Borrows `disk`. */
int heads_open(struct heads *heads, const struct disk *disk, const char *directory);
/* Opens a file of heads with another name, read-only. -ENOENT: no such file. */
int heads_open_file(struct heads *heads, const struct disk *disk, const char *path);
void heads_close(struct heads *heads);

/* Reads the entry at `index`, from 0 on. 0; 1: not a valid head; negative errno. */
int heads_read(const struct heads *heads, uint64_t index, struct head *out);
/* Finds the newest entry of this signer. 0; 1: no such entry, or the search met an invalid one (index in *out_damaged);
 * negative errno. */
int heads_last(const struct heads *heads, const uint8_t signer[SIGN_KEY_ID_SIZE], struct head *out,
               uint64_t *out_damaged);

/* Writes a head and syncs; the first head makes the file. After a failure nothing is added: the next call writes all
 * bytes at the same offset again, so the page cache's state after a failed sync does not matter (F-5). */
int heads_append(struct heads *heads, const struct head *head);

#endif
