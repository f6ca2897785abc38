/* verify_parts.h: what tarry verify checks beside frames and index, a file each. Private to verify*.c. */
#ifndef TARRY_TOOL_VERIFY_PARTS_H
#define TARRY_TOOL_VERIFY_PARTS_H

#include "erasures.h"
#include "frames.h"
#include "heads.h"
#include "store.h"
#include "summary.h"
#include "tool.h"

/* ---- verify_compare.c: tarry verify DIR --against DIR2: do two data directories tell the same history?
 * Reads both from the first position that both have. Returns the exit status: 0 if what both have is the same. */
int compare_directories(struct tool *tool, const char *directory, const char *archive, const char *against);

/* ---- verify_contents.c: the contents of tasks, as tarry verify checks them: each is what its record says, or was
 * erased, rightly (storage/files/erasures.h). */

struct contents { /* zeroed memory to begin with */
    uint64_t checked;
    uint64_t erased;
    uint64_t under_way; /* redactions that the broker has still to carry out */
    struct erasures erasures;
    bool has_listed; /* the archive's files: */
    uint64_t *bases;
    size_t base_count;
    struct archive_cursor *cursor; /* in one of them */
    uint64_t cursor_base;
};

/* Each: 0, or EXIT_REFUSED after a sentence in store->message. */
/* A frame and its records, in the order of the log; the view has its blob area. */
int contents_frame(struct contents *contents, struct store *store, const struct log_view *view,
                   const Tarry__FrameBody *body);
/* Frames are missing here: what explains an earlier erasure may be among them. */
void contents_gap(struct contents *contents);
/* All frames have been seen. */
int contents_end(struct contents *contents, struct store *store);
void contents_deinit(struct contents *contents);

/* ---- verify_summaries.c: do the summaries beside the segments tell the truth? They are derived, and a question for a
 * history passes over what they say need not be read: one that lies would hide records. Each is made anew of the
 * frames that verify reads anyway, and compared. What is missing or damaged is not used, and only counted. */

struct summaries {
    struct summary *made; /* of the segment that is being read; NULL: it has none that is used */
    uint64_t segment;     /* its base; 0: no segment yet */
    char directory[STORE_PATH_SIZE];
    uint64_t checked;
    uint64_t unused; /* missing, damaged, or of another end */
};

/* The next frame, in the order of the log, right after frames_next; `body` NULL: a seal. 0, or EXIT_REFUSED after a
 * sentence in the store's message. */
int summaries_frame(struct summaries *summaries, const struct frames *frames, const struct frame_header *header,
                    const Tarry__FrameBody *body);
/* After the last. Likewise. */
int summaries_end(struct summaries *summaries, struct store *store);
void summaries_deinit(struct summaries *summaries);

/* ---- verify_evidence.c: is the log what its signed heads say (proto/head.h)? Told of every frame in order, it proves
 * that nothing up to the last head was edited, dropped, reordered, inserted or cut, or says between which positions the
 * first difference lies.
 *
 * The chain hash of a head stands for everything before it, so frames that were changed and chained anew meet a head
 * that does not know them. What it cannot see: a log that was cut, together with its heads, to how it was at an earlier
 * head. Against that helps a head that was kept elsewhere (--head).
 *
 * Nor can it see, by heads of one key alone, what the holder of that key did: wrote another log and signed that.
 * Against that help the heads that the other node of a pair signed of its copy (--heads): one that agrees countersigns
 * all that was signed before its position, for its chain hash stands for all of that. */

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
    {"key", ARG_MANY, "FILE", "public key; prove the log by the heads signed with it (repeat for each\nsigner)"},      \
        {"pruned", ARG_FLAG, NULL, "with --key: accept that archived segments were pruned between held ones"},         \
        {"head", ARG_VALUE, "HEAD", "with --key: also check by this head, which was kept elsewhere"}, {                \
        "heads", ARG_MANY, "PATH", "with --key: heads that another node signed: its directory, or its file of\nheads"  \
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
