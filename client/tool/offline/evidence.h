/* evidence.h: is the log what its signed heads say (proto/head.h)? Told of every frame in order, it proves that nothing
 * up to the last head was edited, dropped, reordered, inserted or cut, or says between which positions the first
 * difference lies.
 *
 * The chain hash of a head stands for everything before it, so frames that were changed and chained anew meet a head
 * that does not know them. What it cannot see: a log that was cut, together with its heads, to how it was at an earlier
 * head. Against that helps a head that was kept elsewhere (--head). */
#ifndef TARRY_TOOL_EVIDENCE_H
#define TARRY_TOOL_EVIDENCE_H

#include "heads.h"
#include "store.h"

#define EVIDENCE_KEYS_MAX 8u

/* Where the walk through the frames is. */
struct evidence_point {
    uint64_t position;
    uint64_t segment; /* base of the segment that the last frame lies in; at the start: of the one before it */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

struct evidence {
    struct store *store;
    struct sign_public keys[EVIDENCE_KEYS_MAX];
    uint64_t numbers[EVIDENCE_KEYS_MAX]; /* of the newest head by that key so far */
    size_t key_count;                    /* 0: nothing is asked for */
    bool has_elsewhere;                  /* … and not yet met */
    struct head elsewhere;               /* --head */
    struct heads heads;
    uint64_t read; /* entries of the file */
    uint64_t seen; /* heads of the file that are right */
    struct head next;
    bool has_next;
    struct head held; /* the newest that the log bears out; number 0: there is none */
    struct evidence_point at;
    uint64_t start; /* where the frames began */
    uint64_t unsigned_frames;
    uint64_t unsigned_ns;              /* steady time of the first frame of this epoch after the last head */
    uint64_t differs_from, differs_to; /* positions that the first difference lies between; both 0: there is none */
};

/* --key and --head. 0, or an exit status after a sentence. */
int evidence_options(struct evidence *evidence, const struct args *args);
#define EVIDENCE_OPTIONS                                                                                               \
    {"key", ARG_MANY, "FILE", "prove the log by its signed heads; FILE is a public key (once for each signer)"}, {     \
        "head", ARG_VALUE, "HEAD", "… and by this head, which was kept elsewhere"                                    \
    }

/* Each: 0, or EXIT_REFUSED with a sentence in the store's message. The first one opens the heads of the store's
 * directory; `start` is where the frames will begin. Nothing is done without a key. */
int evidence_start(struct evidence *evidence, struct store *store, const struct evidence_point *start);
int evidence_frame(struct evidence *evidence, uint64_t segment, const struct frame_header *header);
int evidence_end(struct evidence *evidence);
void evidence_close(struct evidence *evidence);

/* Members of an object, and lines for people. */
void evidence_json(const struct evidence *evidence, struct text *out);
void evidence_words(const struct evidence *evidence, struct text *out);

#endif
