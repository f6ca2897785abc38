/* evidence.h: is the log what its signed heads say (proto/head.h)? Told of every frame in order, it proves that nothing
 * up to the last head was edited, dropped, reordered, inserted or cut, or says between which positions the first
 * difference lies.
 *
 * The chain hash of a head stands for everything before it, so frames that were changed and chained anew meet a head
 * that does not know them. What it cannot see: a log that was cut, together with its heads, to how it was at an earlier
 * head. Against that helps a head that was kept elsewhere (--head).
 *
 * Nor can it see, by heads of one key alone, what the holder of that key did: wrote another log and signed that.
 * Against that help the heads that the other node of a pair signed of its copy (--heads): one that agrees countersigns
 * all that was signed before its position, for its chain hash stands for all of that. */
#ifndef TARRY_TOOL_EVIDENCE_H
#define TARRY_TOOL_EVIDENCE_H

#include "frames.h"
#include "heads.h"

#define EVIDENCE_KEYS_MAX 8u
#define EVIDENCE_FILES_MAX 4u /* of heads: the directory's own, and those of --heads */

/* Heads of one file, in the order of their positions. */
struct evidence_file {
    char path[STORE_PATH_SIZE];
    bool is_own;
    struct heads heads;
    uint64_t numbers[EVIDENCE_KEYS_MAX]; /* of the newest head by that key so far */
    uint64_t read;                       /* entries */
    uint64_t seen;                       /* heads that are right */
    struct head next;
    bool has_next;
    struct head held; /* the newest that the log bears out; number 0: there is none */
};

/* What a key vouches for, in whatever file. */
struct evidence_signer {
    uint64_t heads;
    struct head held; /* the newest that the log bears out; number 0: there is none */
};

struct evidence {
    struct store *store;
    struct sign_public keys[EVIDENCE_KEYS_MAX];
    struct evidence_signer signers[EVIDENCE_KEYS_MAX];
    size_t key_count;                               /* 0: nothing is asked for */
    bool pruned;                                    /* gaps in the archive are accepted */
    bool has_elsewhere;                             /* … and not yet met */
    struct head elsewhere;                          /* --head */
    struct evidence_file files[EVIDENCE_FILES_MAX]; /* the directory's own first */
    size_t file_count;
    struct frames_point at;
    uint64_t start; /* where the frames began */
    uint64_t from;  /* … or went on after the last gap */
    uint64_t unsigned_frames;
    uint64_t unsigned_ns;              /* steady time of the first frame of this epoch after the last head */
    uint64_t differs_from, differs_to; /* positions that the first difference lies between; both 0: there is none */
};

/* --key, --head and --heads. 0, or an exit status after a sentence. */
int evidence_options(struct evidence *evidence, const struct args *args);
#define EVIDENCE_OPTIONS                                                                                               \
    {"key", ARG_MANY, "FILE", "prove the log by its signed heads; FILE is a public key (once for each signer)"},       \
        {"pruned", ARG_FLAG, NULL, "… though archived segments were pruned between others that are held"},             \
        {"head", ARG_VALUE, "HEAD", "… and by this head, which was kept elsewhere"}, {                                 \
        "heads", ARG_MANY, "PATH", "… and by those that another node signed: its directory, or its file of heads"    \
    }

/* Each: 0, or EXIT_REFUSED with a sentence in the store's message. `at` is where `frames` is: before the first frame,
 * after each, after a gap, and at the end. The first one opens the heads of the store's directory. Nothing is done
 * without a key. */
int evidence_start(struct evidence *evidence, const struct frames *frames);
int evidence_frame(struct evidence *evidence, const struct frames *frames);
int evidence_gap(struct evidence *evidence, const struct frames *frames);
int evidence_end(struct evidence *evidence);
void evidence_close(struct evidence *evidence);

/* Members of an object, and lines for people. */
void evidence_json(const struct evidence *evidence, struct text *out);
void evidence_words(const struct evidence *evidence, struct text *out);

#endif
