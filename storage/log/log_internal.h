/* log_internal.h: what the files log_*.c share; nobody else includes it.
 *
 * Two threads and any number of readers meet in struct log. The fields say whose they are:
 *   mutex    held for a few instructions, never while a file is opened or read
 *   writer   the one thread that appends; also log_open and log_close
 *   atomic   written with release after what they announce is in place, read with acquire
 * A reader holds a segment (`users`) while it reads; whoever drops the last hold of a retired segment closes its
 * descriptor. So a read never races a close. */
#ifndef TARRY_STORAGE_LOG_INTERNAL_H
#define TARRY_STORAGE_LOG_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "log.h"
#include "log_serve.h"

#define SEGMENT_HEADER_SIZE 4096u
/* Descriptors of closed segments kept open between reads. */
#define SEGMENT_HANDLES_MAX 64u
#define LOG_BLOCK_SIZE ((size_t)1 << 20)  /* read-ahead of cursors and recovery */
#define LOG_BUFFER_SIZE ((size_t)4 << 20) /* appended frames are written at the latest when this is full */
#define LOG_PATH_SIZE 4096u
#define SEGMENT_BASE_DIGITS 16 /* that a segment's name begins with */
#define LOG_SUFFIX_SIZE 32u
#define LOG_POINTS_COUNT 64u /* that are remembered */

/* The first 112 of a segment's 4096 bytes; the rest is zero. FORMAT.md has the table. */
struct segment_header {
    uint32_t version;
    uint64_t base;
    uint64_t capacity; /* bytes of frames that the file has room for */
    uint8_t cluster[16];
    uint64_t previous_base; /* of the segment before; 0: this is the first one ever */
    uint32_t epoch;         /* of the last frame before `base`; 0: none. Likewise the times and the chain */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

struct segment {
    uint64_t base;
    uint64_t capacity;
    uint64_t end;     /* one past its last frame; void while it is written to: log->written */
    uint64_t wall_ns; /* of its last frame; void while it is written to */
    int handle;       /* negative: not open */
    uint32_t users;   /* holds; the writer has one on the current segment */
    uint64_t used;    /* when it was last held, in `log->holds`: who is closed first */
    bool retired;     /* no longer in the table */
};

enum preparer_state { PREPARER_IDLE, PREPARER_WANTED, PREPARER_WORKING, PREPARER_READY, PREPARER_TAKEN };

struct preparer { /* under its own mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool running; /* writer */
    bool stop;
    enum preparer_state state;
    int handle; /* in state READY: of NEXT_NAME, zero-filled and synced */
    int error;  /* of the last try */
};

struct log {
    const struct disk *disk;
    char *directory;
    uint64_t segment_size;
    uint8_t cluster[16];
    char suffix[LOG_SUFFIX_SIZE]; /* of its segments' names */
    uint64_t single;              /* the base of the only one that counts; 0: they all do */
    bool read_only;

    _Atomic uint64_t start;
    _Atomic uint64_t written;
    _Atomic uint64_t durable;
    _Atomic uint64_t claim; /* frames claim no more of it than this */
    _Atomic uint64_t cuts;  /* how often the log was cut: what was read before may be another's */
    _Atomic uint64_t erasures;
    _Atomic int error; /* the latch of LOG-4 */

    pthread_mutex_t mutex;     /* of the table, and of every segment's changing fields */
    struct segment **segments; /* by base */
    size_t segment_count;
    size_t segment_room;
    uint32_t handles_open; /* of closed segments */
    uint64_t holds;
    struct segment *current; /* NULL when read-only */
    int retire_error;
    uint32_t pins;                             /* while there are any, nothing is retired */
    struct log_point points[LOG_POINTS_COUNT]; /* found or served lately; position 0: none */
    size_t point_next;
    pthread_mutex_t erase_gate; /* held while something is erased, or a pin is set */
    pthread_rwlock_t erasing;   /* written to while a content is overwritten, so that nobody reads half of it */

    /* writer */
    uint64_t end;
    uint64_t previous_base; /* of the segment before the current one */
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint32_t epoch; /* of the last frame, like the times */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint64_t erased_end; /* of the last frame that was copied and had lost contents before; 0: there is none */
    uint64_t mark;       /* what DIR/log/durable says; 0: there is none */
    uint8_t *buffer;     /* frames from `written` to `end` */
    size_t buffer_used;
    size_t buffer_size;

    struct preparer preparer;
};

/* ---- log_segment.c: files and the table */
/* DIR/<base>.seg */
void segment_path(const struct log *log, uint64_t base, char path[LOG_PATH_SIZE]);
/* DIR/<name> */
void log_path(const struct log *log, const char *name, char path[LOG_PATH_SIZE]);
extern const char segment_next_name[];  /* of what is being made ready */
extern const char segment_large_name[]; /* of one for a frame that is larger than a segment */
extern const char segment_cut_name[];   /* of one that is to replace one that is longer */
extern const char segment_suffix[];
/* True, and the base, if `name` is a segment's with that suffix. */
bool segment_name_decode(const char *name, const char *suffix, uint64_t *out_base);
void segment_header_encode(const struct segment_header *header, uint8_t out[SEGMENT_HEADER_SIZE]);
/* NULL if it is right, else what is wrong with it. The version is the caller's to judge. */
const char *segment_header_decode(const uint8_t in[SEGMENT_HEADER_SIZE], struct segment_header *out);
/* A zero-filled, synced file of that capacity under a temporary name. → handle */
int segment_make(const struct log *log, const char *name, uint64_t capacity);
/* The segment that follows what was appended, with header and name, durable (F-6), and current from then on. What comes
 * before must be synced. */
int segment_roll(struct log *log, uint64_t capacity_min);
/* Adds to the end of the table; takes the segment over. */
int segment_add(struct log *log, const struct segment *segment);
/* Holds the segment that `position` lies in, open; *out_end: what may be read of it. LOG_RETIRED, LOG_END (nothing
 * written there yet). */
int segment_hold(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end);
/* Likewise, if it is open: -EAGAIN. */
int segment_hold_now(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end);
/* Likewise; the position may be where what is written ends. */
int segment_hold_end(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end);
void segment_drop(struct log *log, struct segment *segment);

/* ---- log_erase.c: in one file, which may be a segment of another directory */
struct erasure {
    const struct disk *disk;
    struct log *log; /* whose readers are kept out while a content is overwritten; NULL: there are none */
    char path[LOG_PATH_SIZE];
    uint64_t base; /* of the segment */
    uint64_t end;  /* of what may be read of it */
    int handle;    /* erase_in_file's own */
};
/* In the order of their places. 0, negative errno, LOG_DAMAGED: as log_erase. */
int erase_in_file(struct erasure *erasure, const struct log_content *contents, size_t count);

/* ---- log_prepare.c: the next segment, made ready by a thread */
int preparer_start(struct log *log);
void preparer_stop(struct log *log);
/* The writer would like one soon. Cheap. */
void preparer_want(struct log *log);
/* → handle of a file named segment_next_name, or -1 if there is none. Nobody else touches that name until it is given
 * back, by whatever name the file goes then; the one after it is made at once, long before it is needed. */
int preparer_take(struct log *log);
void preparer_give_back(struct log *log);

/* ---- log_block.c: reading frames through a window */
struct block {
    const struct disk *disk;
    int handle;
    uint64_t base; /* of the segment */
    uint8_t *data;
    size_t room;
    uint64_t position; /* log position of data[0] */
    size_t size;
};
void block_init(struct block *block, const struct disk *disk);
void block_deinit(struct block *block);
/* Forgets the window. */
void block_attach(struct block *block, int handle, uint64_t base);
/* `size` bytes at `position`, reading ahead up to `end` at most; beyond the end of the file there are zeros. Valid
 * until the next call. */
int block_get(struct block *block, uint64_t position, size_t size, uint64_t end, const uint8_t **out);
/* The two halves of reading a frame that must end at or below `end`. 0, negative, or BLOCK_WRONG: *out_problem says
 * what is wrong with it (a phrase without a subject's final stop). */
enum { BLOCK_WRONG = 1 };
int block_frame_header(struct block *block, uint64_t position, uint64_t end, struct frame_header *out,
                       const char **out_problem);
int block_frame_content(struct block *block, const struct frame_header *header, bool with_blob, uint64_t end,
                        const uint8_t **out_body, const uint8_t **out_blob, const char **out_problem);

/* ---- log_load.c and log_recover.c: opening */
struct recovery {
    struct log *log;
    uint64_t scan_from;
    uint64_t durable_min;
    struct segment_header *headers; /* of the segments, in order */
    struct log_recovery *out;
    char *message;
    size_t message_size;
};
/* Writes the sentence and returns `code`. */
int recovery_fail(struct recovery *recovery, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* `what` failed: "cannot <what> <path>: <errno's sentence>" */
int recovery_fail_io(struct recovery *recovery, int code, const char *what, const char *path);
/* Finds the segments, checks their headers and fills the table. */
int log_load(struct recovery *recovery);
/* Finds the log's end, cuts a torn tail, makes what it keeps durable. */
int log_recover(struct recovery *recovery);

/* ---- log_mark.c */
/* What DIR/log/durable says; 0: there is none. */
int mark_load(struct recovery *recovery, uint64_t *out);
int mark_write(struct log *log, uint64_t position);

/* ---- log_write.c */
/* Room in the buffer for a frame of `size` bytes at the log's end; may go over to the next segment. */
int log_reserve(struct log *log, uint64_t size, uint8_t **out);
/* The frame with this header is in the buffer, where log_reserve said. */
void log_advance(struct log *log, const struct frame_header *header);
/* Latches the first error for good (LOG-4); returns what is latched. */
int log_poison(struct log *log, int error);

#endif
