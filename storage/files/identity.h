/* identity.h: whose data a directory holds, and which copy of it this one is.
 *
 *   DIR/identity   "TARRYID1", format version (u32 LE), 0 (u32), cluster id (16 bytes), secret (32 bytes),
 *                  XXH3-64 of all that (u64 LE)
 *   DIR/member     "TARRYMB1", format version (u32 LE), epoch_min (u32 LE), member id (16 bytes), parent id (16 bytes),
 *                  XXH3-64 of all that (u64 LE)
 *   DIR/backup.partial   there while a copy is being made: half a directory is not used
 *
 * The cluster's id is in every segment and in the index, so every copy of the data has it. The *member* id is the
 * directory's own, made with it: a disk that was wiped, or a copy that was made by backup or restore, is a new member,
 * with a secret of its own, and starts in an epoch that the other will not reach:
 *
 * *Rule:* a copy starts RESTORE_EPOCH_GAP epochs, and up to as many again at random, after the last one that it knows
 * of. *Reason:* the original goes on from there too, one epoch a start, and so may a second copy. Tokens are (epoch,
 * position), and must not be given out twice (FENCE-1).
 * *Consequence:* only after four million starts of the original could both come to the same epoch; two copies of one
 * backup meet with a probability of about one in four million for each start of theirs.
 *
 * Not promised: a directory that was copied by other means (cp -a of a stopped one, a disk image) has the id of its
 * original, and nothing in it can tell. `tarry restore` makes a copy that is one. */
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
    uint8_t secret[IDENTITY_SECRET_SIZE]; /* session secrets are made from it */
};

struct member {
    uint8_t id[MEMBER_ID_SIZE];
    uint8_t parent[MEMBER_ID_SIZE]; /* whose data it was copied from; zeros: none, or not known */
    uint32_t epoch_min;             /* the first start's epoch is at least this */
};

/* What a new directory of a new cluster gets; random. */
void identity_make(struct identity *out);
void member_make(struct member *out);
/* What a copy of a directory gets: the same cluster, a new secret; a new id, and an epoch beyond `epoch_last`, the last
 * one in the data. False: there are no epochs left. */
bool identity_copy(const struct identity *from, const struct member *parent, uint32_t epoch_last,
                   struct identity *out_identity, struct member *out_member);

void identity_encode(const struct identity *identity, uint8_t out[IDENTITY_SIZE]);
void member_encode(const struct member *member, uint8_t out[MEMBER_SIZE]);
/* 0, or 1 with a sentence that names `path` and what to do. */
int identity_decode(const uint8_t *bytes, size_t size, const char *path, struct identity *out,
                    char message[IDENTITY_MESSAGE_SIZE]);
int member_decode(const uint8_t *bytes, size_t size, const char *path, struct member *out,
                  char message[IDENTITY_MESSAGE_SIZE]);

/* Files of `directory`. 0, or a negative errno; 1 with a sentence: it is there, and not right. */
int identity_read(const char *directory, struct identity *out, char message[IDENTITY_MESSAGE_SIZE]);
int member_read(const char *directory, struct member *out, char message[IDENTITY_MESSAGE_SIZE]);
/* Replaces the file, durably (written under another name, synced, renamed, directory synced). 0 or a negative errno. */
int identity_write(const char *directory, const struct identity *identity);
int member_write(const char *directory, const struct member *member);
/* True: `directory` is a copy that was not finished. */
bool directory_is_partial(const char *directory);

void member_format(const uint8_t id[MEMBER_ID_SIZE], char out[MEMBER_TEXT_SIZE]);

#endif
