/* log_internal.h: declarations that the files of storage/log share; only archive_internal.h also includes it.
 *
 * Two threads and any number of readers use struct log. Each of its fields has one of these kinds:
 *   - mutex: the mutex protects the field. A thread holds the mutex for a few instructions, and never while it opens or
 *     reads a file.
 *   - writer: only the thread that appends uses the field, and also log_open and log_close.
 *   - atomic: the writer first writes the data, then stores the field with release; readers load it with acquire.
 * A reader holds a segment (`users`) while it reads. The thread that drops the last hold of a retired segment closes
 * its descriptor, so no thread closes a descriptor during a read. */
#ifndef TARRY_STORAGE_LOG_INTERNAL_H
#define TARRY_STORAGE_LOG_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "log.h"
#include "log_serve.h"

#define SEGMENT_HEADER_SIZE 4096u
/* Limit of the open descriptors of closed segments. */
#define SEGMENT_HANDLES_MAX 64u
#define LOG_BLOCK_SIZE ((size_t)1 << 20)  /* bytes that cursors and recovery read ahead */
#define LOG_BUFFER_SIZE ((size_t)4 << 20) /* log_append writes the buffer when it is full */
#define LOG_PATH_SIZE 4096u
#define SEGMENT_BASE_DIGITS 16 /* number of hex digits at the start of a segment's name */
#define LOG_SUFFIX_SIZE 32u
#define LOG_POINTS_COUNT 64u /* number of points in log.points */

/* A segment's header: the first 112 of its 4096 bytes; the others are zero. FORMAT.md has the table. */
struct segment_header {
    uint32_t version;
    uint64_t base;
    uint64_t capacity; /* bytes of frames that the file has room for */
    uint8_t cluster[16];
    uint64_t previous_base; /* base of the previous segment; 0: this is the first segment of the log */
    /* epoch of the last frame before `base`; 0: no frame; `steady_ns`, `wall_ns` and `chain` are that frame's values */
    uint32_t epoch;
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

struct segment {
    uint64_t base;
    uint64_t capacity;
    uint64_t end; /* end of the segment's last frame; invalid for the current segment, whose end is `log->written` */
    uint64_t wall_ns; /* wall time of the segment's last frame; invalid for the current segment */
    int handle;       /* descriptor of the segment's file; negative: the file is not open */
    uint32_t users;   /* number of holds on the segment; the writer holds the current segment */
    uint64_t used;    /* value of `log->holds` at the last hold; the segment with the smallest value is closed first */
    bool retired;     /* true: the segment was removed from the table */
};

enum preparer_state { PREPARER_IDLE, PREPARER_WANTED, PREPARER_WORKING, PREPARER_READY, PREPARER_TAKEN };

struct preparer { /* makes the next segment on its own thread; protected by its own mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool running; /* writer */
    bool stop;
    enum preparer_state state;
    int handle; /* in state READY: open file of name segment_next_name, zero-filled and synced */
    int error;  /* error of the last attempt to make the next segment; 0: none */
};

struct log {
    const struct disk *disk;
    char *directory;
    uint64_t segment_size;
    uint8_t cluster[16];
    char suffix[LOG_SUFFIX_SIZE]; /* suffix of the segments' file names */
    uint64_t single;              /* base of the only segment that this log opens; 0: all segments */
    bool read_only;

    _Atomic uint64_t start;
    _Atomic uint64_t written;
    _Atomic uint64_t durable;
    _Atomic uint64_t claim; /* upper limit of the `synced_to` of new frames (log_claim) */
    _Atomic uint64_t cuts;  /* number of cuts; after a cut, new frames may replace frames that were read before */
    _Atomic uint64_t erasures;
    _Atomic int error; /* first write error; it stays set (LOG-4) */

    pthread_mutex_t mutex;     /* protects the table and the variable fields of every segment */
    struct segment **segments; /* segments in the order of their bases */
    size_t segment_count;
    size_t segment_room;
    uint32_t handles_open; /* number of open descriptors of closed segments */
    uint64_t holds;
    struct segment *current; /* segment that the writer uses; NULL if the log is read-only */
    int retire_error;
    uint32_t pins; /* number of pins; no segment is retired while it is above 0 */
    /* Cache of log points (chain hash, epoch and times at a position). An entry with position 0 is unused. */
    struct log_point points[LOG_POINTS_COUNT];
    size_t point_next;
    pthread_mutex_t erase_gate; /* held during an erasure, and while a pin is set */
    pthread_rwlock_t erasing;   /* write lock: a content is being overwritten; readers take the read lock, so no reader
                                   sees half of it */

    /* writer */
    uint64_t end;
    uint64_t previous_base; /* base of the segment before the current one */
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint32_t epoch; /* epoch of the last frame; `steady_ns` and `wall_ns` are that frame's times */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint64_t erased_end; /* end of the last copied frame that arrived with erased contents; 0: no such frame */
    uint64_t mark;       /* position in DIR/log/durable; 0: no such file */
    uint8_t *buffer;     /* frames that are not written yet: from position `log->written` to position `log->end` */
    size_t buffer_used;
    size_t buffer_size;

    struct preparer preparer;
};

/* ---- log_segment.c: files and the table */
/* DIR/<base>.seg */
void segment_path(const struct log *log, uint64_t base, char path[LOG_PATH_SIZE]);
/* DIR/<name> */
void log_path(const struct log *log, const char *name, char path[LOG_PATH_SIZE]);
extern const char segment_next_name[];  /* name of the next segment while it is prepared */
extern const char segment_large_name[]; /* name of a new segment for a frame that is larger than segment_size */
extern const char segment_cut_name[];   /* name of a new segment that will replace a longer one after a cut */
extern const char segment_suffix[];
/* Parses the name of a segment file that ends with `suffix`. Returns false if the name is not valid. */
bool segment_name_decode(const char *name, const char *suffix, uint64_t *out_base);
void segment_header_encode(const struct segment_header *header, uint8_t out[SEGMENT_HEADER_SIZE]);
/* Decodes and checks a header. Returns NULL, or a phrase that says what is wrong. The caller checks the version. */
const char *segment_header_decode(const uint8_t in[SEGMENT_HEADER_SIZE], struct segment_header *out);
/* Makes a zero-filled, synced segment file under a temporary name. Returns a handle or a negative errno. */
int segment_make(const struct log *log, const char *name, uint64_t capacity);
/* Makes the next segment, with header and name, durably (F-6), and makes it current. All earlier frames must be synced.
 */
int segment_roll(struct log *log, uint64_t capacity_min);
/* Adds a segment to the end of the table, and takes ownership of it. */
int segment_add(struct log *log, const struct segment *segment);
/* Opens and holds the segment that contains `position`. *out_end: end of its readable bytes. LOG_RETIRED; LOG_END:
 * nothing is written there yet. */
int segment_hold(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end);
/* Like segment_hold, but never opens a file. -EAGAIN: the segment is not open. */
int segment_hold_now(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end);
/* Like segment_hold; the position may also be the end of the written frames. */
int segment_hold_end(struct log *log, uint64_t position, struct segment **out, uint64_t *out_end);
void segment_drop(struct log *log, struct segment *segment);

/* ---- log_erase.c: erases contents in one file, which may be a segment of another directory */
struct erasure {
    const struct disk *disk;
    struct log *log; /* log whose readers must wait while a content is overwritten; NULL: no readers */
    char path[LOG_PATH_SIZE];
    uint64_t base; /* base of the segment */
    uint64_t end;  /* end of the segment's readable bytes */
    int handle;    /* descriptor that erase_in_file opens */
};
/* Erases contents, which the caller sorts by position. Returns 0, a negative errno or LOG_DAMAGED, as log_erase. */
int erase_in_file(struct erasure *erasure, const struct log_content *contents, size_t count);

/* ---- log_prepare.c: a thread that makes the next segment */
int preparer_start(struct log *log);
void preparer_stop(struct log *log);
/* Requests the next segment; never waits for the disk. */
void preparer_want(struct log *log);
/* Returns the handle of the prepared file segment_next_name; -1: not ready. The writer renames the file and calls
 * preparer_give_back. Until that call, the preparer's thread does not use the name. After it, the thread makes the next
 * file at once. */
int preparer_take(struct log *log);
void preparer_give_back(struct log *log);

/* ---- log_block.c: reads frames through a buffer of part of a segment */
struct block {
    const struct disk *disk;
    int handle;
    uint64_t base; /* base of the segment that is being read */
    uint8_t *data;
    size_t room;
    uint64_t position; /* log position of data[0] */
    size_t size;
};
void block_init(struct block *block, const struct disk *disk);
void block_deinit(struct block *block);
/* Selects a segment file and empties the buffer. */
void block_attach(struct block *block, int handle, uint64_t base);
/* Reads `size` bytes at `position`, and may read ahead up to `end`. Bytes beyond the end of the file are zeros. `*out`
 * is valid until the next call. */
int block_get(struct block *block, uint64_t position, size_t size, uint64_t end, const uint8_t **out);
/* block_frame_header and block_frame_content read the two parts of a frame, which must end at or below `end`. 0;
 * negative errno; BLOCK_WRONG: *out_problem says what is wrong, as a phrase without a full stop. */
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
    struct segment_header *headers; /* headers of all segments, in order */
    struct log_recovery *out;
    char *message;
    size_t message_size;
};
/* Writes the sentence to `message` and returns `code`. */
int recovery_fail(struct recovery *recovery, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Writes "cannot <what> <path>: <text of errno>" to `message` and returns `code`. */
int recovery_fail_io(struct recovery *recovery, int code, const char *what, const char *path);
/* Finds the segments, checks their headers and fills the table. */
int log_load(struct recovery *recovery);
/* Finds the end of the log, cuts a torn tail and syncs the kept frames. */
int log_recover(struct recovery *recovery);

/* ---- log_mark.c */
/* Reads the position in DIR/log/durable; 0: no such file. */
int mark_load(struct recovery *recovery, uint64_t *out);
int mark_write(struct log *log, uint64_t position);

/* ---- log_write.c */
/* Reserves buffer space for a frame of `size` bytes at the end of the log; may start the next segment. */
int log_reserve(struct log *log, uint64_t size, uint8_t **out);
/* Moves the end of the log behind the frame, which the caller has put into the reserved space. */
void log_advance(struct log *log, const struct frame_header *header);
/* Stores the first error permanently (LOG-4). Returns the stored error. */
int log_poison(struct log *log, int error);

#endif
