/* verify_parts.h: further checks of tarry verify, one file each. Private to verify*.c. */
#ifndef TARRY_TOOL_VERIFY_PARTS_H
#define TARRY_TOOL_VERIFY_PARTS_H

#include "erasures.h"
#include "frames.h"
#include "heads.h"
#include "store.h"
#include "summary.h"
#include "tool.h"

/* ---- verify_compare.c: tarry verify DIR --against DIR2: compares the history of two data directories from the first
 * position that both have. Returns the exit status: 0 if the common part is equal. */
int compare_directories(struct tool *tool, const char *directory, const char *archive, const char *against);

/* ---- verify.c: checks the contents of tasks: each content matches its record, or was erased by a recorded
 * redaction (storage/files/erasures.h). */

struct contents { /* the caller sets all fields to zero */
    uint64_t checked;
    uint64_t erased;
    uint64_t under_way; /* number of recorded redactions that the broker has not finished */
    struct erasures erasures;
    bool has_listed; /* true: the archive was listed, and `bases` has its segments */
    uint64_t *bases;
    size_t base_count;
    struct archive_cursor *cursor; /* cursor in one archive file */
    uint64_t cursor_base;
};

/* Each of these functions returns 0, or EXIT_REFUSED after an error message in store->message. */
/* Checks a frame and its records, in the order of the log; the view has its blob area. */
int contents_frame(struct contents *contents, struct store *store, const struct log_view *view,
                   const Tarry__FrameBody *body);
/* Records a gap: the missing frames may contain the redaction that explains an erased content. */
void contents_gap(struct contents *contents);
/* Finishes the check after the last frame. */
int contents_end(struct contents *contents, struct store *store);
void contents_deinit(struct contents *contents);

/* ---- verify.c: checks the summaries of segments. A reader of the history skips segments by their
 * summaries, so a wrong summary would hide records. Each summary is computed again from the frames that verify reads
 * anyway, and compared. Missing or damaged summaries are not used by readers, and are only counted. */

struct summaries {
    struct summary *made; /* summary of the segment that is being read; NULL: it has no usable summary */
    uint64_t segment;     /* base of that segment; 0: no segment yet */
    char directory[STORE_PATH_SIZE];
    uint64_t checked;
    uint64_t unused; /* number of summaries that are missing, damaged, or have another end position */
};

/* Adds the next frame, in the order of the log, right after frames_next; `body` NULL: a seal. 0, or EXIT_REFUSED
 * after an error message in the store. */
int summaries_frame(struct summaries *summaries, const struct frames *frames, const struct frame_header *header,
                    const Tarry__FrameBody *body);
/* Finishes after the last frame. Returns 0, or EXIT_REFUSED after an error message in the store. */
int summaries_end(struct summaries *summaries, struct store *store);
void summaries_deinit(struct summaries *summaries);

/* ---- verify_evidence.c: checks the log against its signed heads (proto/head.h). Reads every frame in order, and
 * proves that nothing up to the last head was edited, dropped, reordered, inserted or cut, or finds the positions
 * between which the first difference lies.
 *
 * The chain hash of a head covers everything before it. So frames that were changed and chained again do not match
 * the head. Limit: a log that was cut to an earlier head, together with its heads, looks right. A head that was kept
 * elsewhere (--head) shows this.
 *
 * Limit: with heads of one key only, the owner of that key can write another log and sign it. The heads that the
 * other node of a pair signed of its copy (--heads) show this. A head of the other node that matches countersigns
 * everything before its position, because its chain hash covers all of it. */

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

/* Parses --key, --head and --heads. 0, or an exit status after an error message. */
int evidence_options(struct evidence *evidence, const struct args *args);
#define EVIDENCE_OPTIONS                                                                                               \
    {"key", ARG_MANY, "FILE", "public key; prove the log by the heads signed with it (repeat for each\nsigner)"},      \
        {"pruned", ARG_FLAG, NULL,                                                                                     \
         "with --key: accept gaps of pruned segments between archived segments with a hold"},                          \
        {"head", ARG_VALUE, "HEAD", "with --key: also check by this head, which was kept elsewhere"}, {                \
        "heads", ARG_MANY, "PATH", "with --key: heads that another node signed: its directory, or its file of\nheads"  \
    }

/* Each returns 0, or EXIT_REFUSED with an error message in the store. They are called before the first frame, after
 * each frame, after a gap, and at the end; `frames->at` is the current position. evidence_start opens the heads of
 * the store's directory. Without a key they do nothing. */
int evidence_start(struct evidence *evidence, const struct frames *frames);
int evidence_frame(struct evidence *evidence, const struct frames *frames);
int evidence_gap(struct evidence *evidence, const struct frames *frames);
int evidence_end(struct evidence *evidence);
void evidence_close(struct evidence *evidence);

/* Append the result as members of a JSON object, or as lines for people. */
void evidence_json(const struct evidence *evidence, struct text *out);
void evidence_words(const struct evidence *evidence, struct text *out);

#endif
