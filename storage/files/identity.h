/* identity.h: the cluster that a directory's data belongs to, and the member id of this copy of the data.
 *
 *   DIR/identity   "TARRYID1", format version (u32 LE), 0 (u32), cluster id (16 bytes), secret (32 bytes),
 *                  XXH3-64 of all that (u64 LE)
 *   DIR/member     "TARRYMB1", format version (u32 LE), epoch_min (u32 LE), member id (16 bytes), parent id (16 bytes),
 *                  XXH3-64 of all that (u64 LE)
 *   DIR/backup.partial   exists while a copy is being made; such a directory is not used
 *
 * Every segment and the index have the cluster id, so every copy of the data has it. The *member* id belongs to one
 * directory and is made with it. A wiped disk, or a copy made by backup or restore, is a new member. It has its own
 * secret, and starts in an epoch that the original will not reach:
 *
 * *Rule:* a copy starts RESTORE_EPOCH_GAP epochs after the last epoch in its data, plus a random number of up to as
 * many epochs. *Reason:* the original also continues from there, one epoch per start, and so may a second copy. Tokens
 * are (epoch, position), and no token may be issued twice (FENCE-1). *Consequence:* the original reaches a copy's epoch
 * only after four million starts. Two copies of one backup reach the same epoch with a probability of about one in four
 * million per start.
 *
 * Not promised: a directory that was copied by other means (cp -a of a stopped one, a disk image) has the id of its
 * original. Tarry cannot detect this. `tarry restore` makes a correct copy. */
#ifndef TARRY_STORAGE_IDENTITY_H
#define TARRY_STORAGE_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry_limits.h"

#define IDENTITY_SECRET_SIZE 32
#define MEMBER_ID_SIZE 16
#define IDENTITY_SIZE 72
#define MEMBER_SIZE 56
#define MEMBER_TEXT_SIZE (2 * MEMBER_ID_SIZE + 1)
#define IDENTITY_MESSAGE_SIZE 1536

#define IDENTITY_NAME "identity"
#define MEMBER_NAME "member"

struct identity {
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t secret[IDENTITY_SECRET_SIZE]; /* secret from which session secrets are derived */
};

struct member {
    uint8_t id[MEMBER_ID_SIZE];
    uint8_t parent[MEMBER_ID_SIZE]; /* id of the member that was copied; zeros: not a copy, or unknown */
    uint32_t epoch_min;             /* minimum epoch of the directory's first start */
};

/* Make a random identity and member for a new directory of a new cluster. */
void identity_make(struct identity *out);
void member_make(struct member *out);
/* Makes the identity and member of a copy: the same cluster, a new secret, a new member id, and an epoch beyond
 * `epoch_last`, the last epoch in the data. False: no epochs are left. */
bool identity_copy(const struct identity *from, const struct member *parent, uint32_t epoch_last,
                   struct identity *out_identity, struct member *out_member);

void identity_encode(const struct identity *identity, uint8_t out[IDENTITY_SIZE]);
void member_encode(const struct member *member, uint8_t out[MEMBER_SIZE]);
/* Decode a file's bytes. 0, or 1 with a message that names `path` and the remedy. */
int identity_decode(const uint8_t *bytes, size_t size, const char *path, struct identity *out,
                    char message[IDENTITY_MESSAGE_SIZE]);
int member_decode(const uint8_t *bytes, size_t size, const char *path, struct member *out,
                  char message[IDENTITY_MESSAGE_SIZE]);

/* Read a file of `directory`. 0; negative errno; 1: the file is damaged, and `message` says how. */
int identity_read(const char *directory, struct identity *out, char message[IDENTITY_MESSAGE_SIZE]);
int member_read(const char *directory, struct member *out, char message[IDENTITY_MESSAGE_SIZE]);
/* Replace the file, durably (written under another name, synced, renamed, directory synced). 0 or a negative errno. */
int identity_write(const char *directory, const struct identity *identity);
int member_write(const char *directory, const struct member *member);
/* Returns true if `directory` is an incomplete copy. */
bool directory_is_partial(const char *directory);

void member_format(const uint8_t id[MEMBER_ID_SIZE], char out[MEMBER_TEXT_SIZE]);

#endif
