/* source.h: where the past is read from: a data directory that no broker runs on (--data DIR), or a running broker (the
 * default). One sequence of frames in either case, the oldest first, without those that certainly do not matter; what
 * is missing in between is said on standard error.
 *
 * Everything that filters, counts or prints works on this, so that both tell the same. */
#ifndef TARRY_TOOL_SOURCE_H
#define TARRY_TOOL_SOURCE_H

#include "arena.h"
#include "frame.h"
#include "queue_map.h"
#include "store.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

struct history;

struct source_question {
    uint64_t from_ms;
    uint64_t to_ms;        /* exclusive; 0: no end */
    struct tarry_ref task; /* changes of other tasks may be left out; neither id nor key: none are */
};

struct source {
    struct tool *tool;
    struct store *store; /* its `message` says what is wrong, of a broker too */
    struct store own;
    bool is_live;
    bool is_marked; /* it was said that a follower answers */
    bool follow;    /* live: go on with what happens, from now on unless `from_ms` says since when */
    /* Called before it waits for something to happen; NULL: it is not told. */
    void (*idle)(void *argument);
    void *idle_argument;
    struct queue_map queues; /* names, as far as they are known */
    /* what is being read */
    struct history *history;
    tarry_audit *audit;
    struct frame_header header;
    struct arena arena;
    uint64_t start;  /* where it began */
    uint64_t unread; /* parts of the archive that are there and cannot be read */
    int code;        /* live: why it ended; TARRY_OK: as it should */
};

/* Of --data DIR [--archive DIR], or else the broker; `follow`: it goes on at the end, and waits for a broker that goes
 * away. 0, or an exit status after a sentence, and nothing is open. */
int source_open(struct source *source, struct tool *tool, const struct args *args, bool follow);
/* Of a directory that is open, and stays so. */
void source_of_store(struct source *source, struct store *store);

int source_begin(struct source *source, const struct source_question *question);
/* The next frame and its body (NULL: a seal), valid until the next call. 0; SOURCE_END; an exit status after a sentence
 * in store->message. */
#define SOURCE_END (-1)
int source_next(struct source *source, const struct frame_header **out_header, const Tarry__FrameBody **out_body);
/* How far it has come, in bytes of log. */
void source_progress(const struct source *source, uint64_t *out_done, uint64_t *out_total);
void source_end(struct source *source);

/* The end of a command: prints `out`, says what is wrong, if anything, and closes. Returns the exit status. */
int source_finish(struct source *source, struct text *out, int status);

#endif
