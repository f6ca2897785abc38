/* engine_request.h: what waits for the core: an *item*, stamped with when it was received; and an *engine request*, an
 * item that brings an event of a client or of a job, and may lack what the core must know for it.
 *
 *   taken ─► ROOM? ─► PAST? ─► READ (under a hold) ─► taken again … ─► TIME? ─► NONE: stepped ─► engine_request_end
 *                │                  └─► HOLD, REFUSED: too much is being read
 *                └─► the caller refuses it: the disk is nearly full (F-4)
 *
 * The caller (core_thread.c, the simulator) asks engine_request_next what the request needs, brings it, and has the
 * request taken again. What was read is as old as the hold that it was read under: the core keeps in memory what the
 * index has not absorbed since.
 *
 * A request has one owner at a time. Core thread only, but for engine_request_add_rows. Memory: the request's arena. */
#ifndef TARRY_ENGINE_ENGINE_REQUEST_H
#define TARRY_ENGINE_ENGINE_REQUEST_H

#include "core.h"
#include "stall.h"

enum item_kind {
    ITEM_CALL = 1, /* struct engine_request: a caller waits for an answer */
    ITEM_LANE,     /* what became of a lane, or of a delivery on it */
    ITEM_WINDOW,   /* struct window_rows, which the core asked for */
    ITEM_PAGE,     /* struct engine_request: a page of a job, which the core asked for */
    ITEM_REFUSALS, /* refused clients, for the log */
};

struct item {
    struct item *next;
    enum item_kind kind;
    uint64_t received_ns; /* CLOCK_BOOTTIME when it was posted first, or the process was stopped before that; posting
                             anew needs 0 here */
    uint64_t late_ns;     /* so much later it may have come: when it was posted (stall.h) */
};

/* It comes at `now_ns`: stamped, unless it came before. */
void item_receive(struct item *item, struct stall *stall, uint64_t now_ns);

enum engine_request_need {
    ENGINE_REQUEST_NONE,  /* it is to be stepped, then engine_request_end */
    ENGINE_REQUEST_ROOM,  /* has the disk room for `room` more bytes of log? If not, it is refused and ended; else
                             engine_request_next */
    ENGINE_REQUEST_PAST,  /* its event.past, of what is recorded below `past_end`; then it is taken again, as after the
                     following  two */
    ENGINE_REQUEST_READ,  /* `wants`, if there are any, else the page of `plan` or of the job, from the index */
    ENGINE_REQUEST_COUNT, /* what `calendar` asks, from the index, once that has what is recorded below `past_end`; then
                     engine_request_counted */
    ENGINE_REQUEST_TIME,  /* a turn: it is looked into in pieces, with what else waits in between */
    ENGINE_REQUEST_HOLD,  /* a page: until fewer are being read (core_turn_starve) */
    ENGINE_REQUEST_REFUSED, /* a call: it is answered with `refusal`; engine_request_end follows */
};

/* Why a request is not stepped. */
struct engine_refusal {
    Tarry__Code code;     /* OK: it is not refused */
    const char *sentence; /* static */
};

struct engine_request {
    struct item item;        /* first; ITEM_CALL or ITEM_PAGE */
    struct arena *arena;     /* request, contents, facts; belongs to the maker of the request */
    struct core_event event; /* what the core is told, facts included */
    int hold;                /* of core_hold; -1: none */
    bool filled;             /* LIST: the page was read, as far as it was asked for */
    unsigned reads;          /* LIST: of the index, so far */
    bool room_asked;         /* since it was taken */
    size_t size;             /* packed, bytes */
    uint64_t room;           /* bytes of log that it may take */
    bool schedules;          /* COMMIT: it brings new tasks */
    bool redacts;            /* COMMIT: it means tasks of the past, which are to be found first: event.past */
    uint32_t *queue_numbers; /* for that: of the queue that each operation names … */
    uint64_t past_end;       /* … how far the search must go (or the index must have come, CALENDAR) … */
    uint64_t past_id_end;    /* … and what is found for certain then */
    struct core_list_plan plan;
    struct core_calendar calendar;
    struct want *wants; /* to be looked up now */
    size_t want_count;
    size_t facts_size; /* bytes of rows that were read for it; the hand counts them until the request ends */
    struct engine_refusal refusal;
};

/* What the request needs, that was taken, or whose last need was filled. `filter`: as core_wants. */
enum engine_request_need engine_request_next(struct engine_request *engine_request, struct core *core,
                                             const struct core_filter *filter);
/* `wants` were looked up, and `rows`, which take `size` bytes, are what the index has. The owner's thread. */
void engine_request_add_rows(struct engine_request *engine_request, const struct row *rows, size_t count, size_t size);
/* LIST: `plan` was read: `rows`, which take `size` bytes, and it is complete up to `through`. The owner's thread. */
void engine_request_add_page(struct engine_request *engine_request, const struct row *rows, size_t count, size_t size,
                             struct due through);
/* What reading for it failed with; true: its arena is exhausted, and it is refused for that. The owner's thread. */
bool engine_request_exhausted(struct engine_request *engine_request, int error);
/* Bytes of rows that may still be read for it: all together `size_max` at most (CALM-1). */
size_t engine_request_room(const struct engine_request *engine_request, size_t size_max);
/* The rows that it needs are more than one request may read, or its arena is exhausted: it is to be refused for ever.
 * The owner's thread. */
void engine_request_too_large(struct engine_request *engine_request);
/* So much is read for other requests that it is to be refused as busy. The owner's
 * thread. */
void engine_request_busy(struct engine_request *engine_request);
/* What `calendar` asks was found, or was not: it says so. The owner's thread. */
void engine_request_counted(struct engine_request *engine_request);
/* It was stepped, or never will be. */
void engine_request_end(struct engine_request *engine_request, struct core *core);
/* Does it ask, and change nothing? */
bool engine_request_looks(const struct engine_request *engine_request);

/* A near window that was loaded, and is given to the core in pieces, with what else waits in between. */
struct window_rows {
    struct line line;
    const struct row *rows;
    size_t count;
    size_t taken; /* that the core has had */
    struct due through;
};
/* The next piece, of `max` rows at most, as an event. True: there is more. */
bool window_next(struct window_rows *window, size_t max, struct core_event *out);

#endif
