/* engine_request.h: input that waits for the core. An *item* carries the time at which it was received. An *engine
 * request* is an item with an event of a client or a job; it may first need data for its event.
 *
 *   taken ─► ROOM? ─► PAST? ─► READ (under a hold) ─► taken again … ─► TIME? ─► NONE: stepped ─► engine_request_end
 *                │                  └─► HOLD, REFUSED: too many reads are active
 *                └─► the caller refuses it: the disk is nearly full (F-4)
 *
 * The caller (core_thread.c, the simulator) takes a request and calls engine_request_next, which returns what the
 * request needs. The caller supplies that and takes the request again, until nothing is missing; then it passes the
 * event to the core. Rows are read under a hold (core_hold): the core keeps in memory all records that the index had
 * not absorbed when the hold began.
 *
 * A request has one owner at a time. Core thread only, except engine_request_add_rows. Memory: the request's arena. */
#ifndef TARRY_ENGINE_ENGINE_REQUEST_H
#define TARRY_ENGINE_ENGINE_REQUEST_H

#include "core.h"
#include "stall.h"

enum item_kind {
    ITEM_CALL = 1, /* struct engine_request: a caller waits for a reply */
    ITEM_LANE,     /* event of a lane, or of a delivery on it */
    ITEM_WINDOW,   /* struct window_rows, requested by the core */
    ITEM_PAGE,     /* struct engine_request: a page of a job, requested by the core */
    ITEM_REFUSALS, /* refused clients, to be recorded in the log */
};

struct item {
    struct item *next;
    enum item_kind kind;
    /* Time of arrival (CLOCK_BOOTTIME); earlier than the posting if the process was paused. A second posting keeps the
     * time, unless the owner sets it to 0. */
    uint64_t received_ns;
    uint64_t late_ns; /* the item may have arrived up to this many ns after received_ns (stall.h) */
};

/* Stamps an item that arrives at `now_ns`, unless it is stamped already. */
void item_receive(struct item *item, struct stall *stall, uint64_t now_ns);

enum engine_request_need {
    ENGINE_REQUEST_NONE, /* the request needs nothing: step its event, then engine_request_end */
    ENGINE_REQUEST_ROOM, /* check that the disk has space for `room` more bytes of log. If not, refuse and end the
                            request; otherwise call engine_request_next */
    /* Search the log below position `past_end` for `commit.past` of the request; after that, a later turn takes the
     * request again (as after READ and COUNT). */
    ENGINE_REQUEST_PAST,
    ENGINE_REQUEST_READ, /* read `wants` from the index; if there are none, read the page of `plan` or of the job */
    /* Wait until the index has absorbed the log below `past_end`, read the counts for `calendar` from the index, and
     * call engine_request_counted. */
    ENGINE_REQUEST_COUNT,
    ENGINE_REQUEST_TIME, /* take the request again later: a long scan is done in pieces, with other items in between */
    ENGINE_REQUEST_HOLD, /* no free hold: the request for a result page must wait until fewer reads are active
                            (core_turn_starve) */
    ENGINE_REQUEST_REFUSED, /* reply to the call with `refusal`, then engine_request_end */
};

/* The reason for refusing a request. */
struct engine_refusal {
    Tarry__Code code;     /* OK: the request is not refused */
    const char *sentence; /* static string */
};

struct engine_request {
    struct item item;        /* must be the first member; ITEM_CALL or ITEM_PAGE */
    struct arena *arena;     /* memory of the request, contents and facts; belongs to the creator of the request */
    struct core_event event; /* event for the core, including facts */
    int hold;                /* handle of core_hold; -1: no hold */
    bool filled;             /* List: the requested page was read */
    unsigned reads;          /* List: number of index reads so far */
    bool room_asked;         /* the request has asked for disk space since it was last taken */
    size_t size;             /* packed size in bytes */
    uint64_t room;           /* maximum number of bytes that the request may use in the log */
    bool schedules;          /* Commit: the request schedules new tasks */
    bool redacts;            /* Commit: the request redacts tasks, which must be found first (commit.past) */
    uint32_t *queue_numbers; /* for a redaction: the queue number of each operation */
    uint64_t past_end;       /* log position that the search (or for Calendar, the index) must reach */
    uint64_t past_id_end;    /* id below which the search finds every task */
    struct core_list_plan plan;
    struct core_calendar calendar;
    struct want *wants; /* ids and keys to read now */
    size_t want_count;
    size_t facts_size; /* bytes of the rows read for the request; the caller counts them until the request ends */
    struct engine_refusal refusal;
};

/* Returns the need of a request that was taken, or whose last need was met. `filter`: as in core_wants. */
enum engine_request_need engine_request_next(struct engine_request *engine_request, struct core *core,
                                             const struct core_filter *filter);
/* Adds the result of reading `wants`: `rows`, which use `size` bytes. On the owner's thread. */
void engine_request_add_rows(struct engine_request *engine_request, const struct row *rows, size_t count, size_t size);
/* List: adds the result of reading `plan`: `rows`, which use `size` bytes, complete up to `through`. On the owner's
 * thread. */
void engine_request_add_page(struct engine_request *engine_request, const struct row *rows, size_t count, size_t size,
                             struct due through);
/* Handles the error code of a read. If the rows did not fit into the request's arena, refuses the request as too large
 * and returns true. Only the request's owner may call it. */
bool engine_request_exhausted(struct engine_request *engine_request, int error);
/* Returns how many bytes of rows may still be read for the request; `size_max` is the limit of the whole request
 * (CALM-1). */
size_t engine_request_room(const struct engine_request *engine_request, size_t size_max);
/* Refuses the request permanently: it needs more rows than one request may read, or its arena is exhausted. On the
 * owner's thread. */
void engine_request_too_large(struct engine_request *engine_request);
/* Refuses the request as busy, because the rows of other requests use the whole limit. On the owner's thread. */
void engine_request_busy(struct engine_request *engine_request);
/* Reports that the search for `calendar` has ended; `calendar` holds the result. On the owner's thread. */
void engine_request_counted(struct engine_request *engine_request);
/* Ends the request. Call it when the request was stepped, or never will be. */
void engine_request_end(struct engine_request *engine_request, struct core *core);
/* Returns true if the request is a question, which changes nothing. */
bool engine_request_looks(const struct engine_request *engine_request);

/* Rows of a loaded near window. The core gets them in pieces, with other items in between. */
struct window_rows {
    struct line line;
    const struct row *rows;
    size_t count;
    size_t taken; /* number of rows that the core has received */
    struct due through;
};
/* Returns the next piece, at most `max` rows, as an event. Returns true if more rows follow. */
bool window_next(struct window_rows *window, size_t max, struct core_event *out);

#endif
