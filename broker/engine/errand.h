/* errand.h: what waits for the core: an *item*, stamped with when it was received; and an *errand*, an item that brings
 * an event and may lack what the core must know for it.
 *
 *   taken ─► ROOM? ─► PAST? ─► READ (under a hold) ─► taken again … ─► TIME? ─► NONE: it is stepped ─► errand_end
 *                │                  └─► HOLD, REFUSED: too much is being read
 *                └─► the hand refuses it: the disk is nearly full (F-4)
 *
 * The hand asks errand_next what the errand needs, brings it, and has the errand taken again. What was read is as old
 * as the hold that it was read under: the core keeps in memory what the index has not absorbed since.
 *
 * An errand has one owner at a time. Core thread only, but for errand_add_rows. Memory: the errand's arena. */
#ifndef TARRY_ENGINE_ERRAND_H
#define TARRY_ENGINE_ERRAND_H

#include "core.h"
#include "stall.h"

enum item_kind {
    ITEM_CALL = 1, /* struct errand: a caller waits for an answer */
    ITEM_LANE,     /* what became of a lane, or of a delivery on it */
    ITEM_WINDOW,   /* struct window_rows, which the core asked for */
    ITEM_PAGE,     /* struct errand: a page of a job, which the core asked for */
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

enum errand_need {
    ERRAND_NONE, /* it is to be stepped, then errand_end */
    ERRAND_ROOM, /* has the disk room for `room` more bytes of log? If not, it is refused and ended; else errand_next */
    ERRAND_PAST, /* its event.past, of what is recorded below `past_end`; then it is taken again, as after the following
                    two */
    ERRAND_READ, /* `wants`, if there are any, else the page of `plan` or of the job, from the index */
    ERRAND_COUNT,    /* what `calendar` asks, from the index, once that has what is recorded below `past_end`; then
                        errand_counted */
    ERRAND_TIME,     /* a turn: it is looked into in pieces, with what else waits in between */
    ERRAND_HOLD,     /* a page: until fewer are being read (core_turn_starve) */
    ERRAND_REFUSED,  /* a call: as busy, likewise; errand_end is not needed */
    ERRAND_NO_MEMORY /* its arena is exhausted */
};

struct errand {
    struct item item;        /* first; ITEM_CALL or ITEM_PAGE */
    struct arena *arena;     /* request, contents, facts; belongs to the maker of the errand */
    struct core_event event; /* what the core is told, facts included */
    int hold;                /* of core_hold; -1: none */
    bool filled;             /* LIST: the page was read */
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
};

/* What the errand needs, that was taken, or whose last need was filled. `may_exist`, `filter`: as core_wants. */
enum errand_need errand_next(struct errand *errand, struct core *core, core_may_exist *may_exist, const void *filter);
/* `wants` were looked up, and `rows` are what the index has. False: out of memory. The owner's thread. */
bool errand_add_rows(struct errand *errand, const struct row *rows, size_t count);
/* What `calendar` asks was found, or was not: it says so. The owner's thread. */
void errand_counted(struct errand *errand);
/* It was stepped, or never will be. */
void errand_end(struct errand *errand, struct core *core);
/* Does it ask, and change nothing? */
bool errand_looks(const struct errand *errand);

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
