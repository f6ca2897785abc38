/* evidence.h: checks the log against its signed heads (proto/head.h). Reads every frame in order. The check either
 * proves that no frame before the last head was changed, dropped, reordered, inserted or cut, or finds the positions
 * between which the first difference lies.
 *
 * The chain hash of a head covers all frames before it. So changed frames do not match the head, even if their chain
 * hashes were computed again.
 *
 * Limit: if the log is cut to an earlier head and the later heads are deleted, the check finds no difference. A
 * later head that was kept elsewhere (--head) reveals the cut.
 *
 * Limit: the owner of the signing key can write another log and sign it. Heads of the peer (--heads) reveal this,
 * because the peer signs its own copy with another key. A matching head of the peer confirms all frames before its
 * position. */
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
    uint64_t from;  /* position from which on no frame is missing: the end of the last gap, or the first frame */
    uint64_t unsigned_frames;
    uint64_t unsigned_ns; /* steady time of the first frame after the last own head; counts only frames of the current
                             epoch */
    uint64_t differs_from, differs_to; /* the first difference lies between these positions; both 0: no difference */
};

/* Each of the next four functions returns 0, or STORE_REFUSED with an error message in the store. evidence_start is
 * called before the first frame, and opens the heads of the store's directory. evidence_frame is called after each
 * frame, evidence_gap after a gap, evidence_end at the end; `frames->at` is the current position. Without a key the
 * functions do nothing. */
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
