/* evidence.h: checks the log against its signed heads (proto/head.h). Reads every frame in order. Either this proves
 * that no frame up to the last head was changed, dropped, reordered, inserted or cut; or it finds the positions between
 * which the first difference lies.
 *
 * The chain hash of a head covers everything before it. So frames that were changed and chained again do not match
 * the head. Limit: a log that was cut to an earlier head, together with its heads, looks right. A head that was kept
 * elsewhere (--head) shows this.
 *
 * Limit: with heads of one key only, the owner of that key can write another log and sign it. The heads that the
 * other node of a pair signed of its copy (--heads) show this. A head of the other node that matches countersigns
 * everything before its position, because its chain hash covers all of it. */
#ifndef TARRY_STORAGE_EVIDENCE_H
#define TARRY_STORAGE_EVIDENCE_H

#include "frames.h"
#include "heads.h"
#include "sign_key.h"

#define EVIDENCE_KEYS_MAX 8u
#define EVIDENCE_FILES_MAX 4u /* maximum number of files with heads: the directory's own file, and those of --heads */

/* The heads of one file, in the order of their positions. */
struct evidence_file {
    char path[STORE_PATH_SIZE];
    bool is_own;
    struct heads heads;
    uint64_t numbers[EVIDENCE_KEYS_MAX]; /* number of the newest head of each key so far */
    uint64_t read;                       /* entries read */
    uint64_t seen;                       /* correct heads */
    struct head next;
    bool has_next;
    struct head held; /* newest head that matches the log; number 0: none */
};

/* Result of one key over all files. */
struct evidence_signer {
    uint64_t heads;
    struct head held; /* newest head that matches the log; number 0: none */
};

struct evidence {
    struct store *store;
    struct sign_public keys[EVIDENCE_KEYS_MAX];
    struct evidence_signer signers[EVIDENCE_KEYS_MAX];
    size_t key_count;      /* number of keys; 0: heads are not checked */
    bool pruned;           /* --pruned: gaps in the archive are accepted */
    bool has_elsewhere;    /* --head was given, and its position has not been reached */
    struct head elsewhere; /* --head */
    /* Files of heads; the first one belongs to the checked directory. */
    struct evidence_file files[EVIDENCE_FILES_MAX];
    size_t file_count;
    struct frames_point at;
    uint64_t start; /* position of the first frame */
    uint64_t from;  /* position after the last gap, or of the first frame */
    uint64_t unsigned_frames;
    uint64_t unsigned_ns;              /* steady time of the first frame of this epoch after the last head */
    uint64_t differs_from, differs_to; /* the first difference lies between these positions; both 0: no difference */
};

/* Each returns 0, or STORE_REFUSED with an error message in the store. They are called before the first frame, after
 * each frame, after a gap, and at the end; `frames->at` is the current position. evidence_start opens the heads of
 * the store's directory. Without a key they do nothing. */
int evidence_start(struct evidence *evidence, const struct frames *frames);
int evidence_frame(struct evidence *evidence, const struct frames *frames);
int evidence_gap(struct evidence *evidence, const struct frames *frames);
int evidence_end(struct evidence *evidence);
void evidence_close(struct evidence *evidence);

/* Returns the index of the key that signed the head; key_count: none of the keys did. */
size_t evidence_signer_of(const struct evidence *evidence, const struct head *head);
/* Returns the position up to which two keys have signed the log; 0: fewer than two have. */
uint64_t evidence_countersigned_to(const struct evidence *evidence);
#define EVIDENCE_HEAD_SIZE 96
/* Describes a head, for example "head 12, 2026-11-21T…", or the beginning of the log. */
const char *evidence_describe(const struct head *head, char out[EVIDENCE_HEAD_SIZE]);

#endif
