/* call.h: what is under way to the core and back: an *errand* carries an event and the facts that it lacks, a *call* is
 * an errand on behalf of somebody who waits for an answer.
 *
 * An errand has one owner at a time: it is in the core's inbox, in the reader's queue, or in the hands of the thread
 * that took it from there. */
#ifndef TARRY_SHELL_CALL_H
#define TARRY_SHELL_CALL_H

#include "core.h"
#include "inbox.h"
#include "message.h"

struct errand {
    struct item item;        /* ITEM_CALL or ITEM_PAGE */
    struct arena *arena;     /* request, contents, facts; belongs to whoever made the errand */
    struct core_event event; /* what the core is told, facts included */
    int hold;                /* of core_hold; -1: none */
    bool filled;             /* LIST: the page was read */
    size_t size;             /* packed, bytes */
    bool schedules;          /* COMMIT: it brings new tasks */
    bool redacts;            /* COMMIT: it means tasks of the past, which are to be found first: event.past */
    uint32_t *queue_numbers; /* for that: of the queue that each operation names … */
    uint64_t past_end;       /* … how far the search must go … */
    uint64_t past_id_end;    /* … and what is found for certain then */
    struct core_list_plan plan;
    struct want *wants; /* to be looked up now */
    size_t want_count;
};

struct call {
    struct errand errand; /* first */
    /* Takes `reply` over (a packed Tarry__Reply; NULL: out of memory) and ends the call. Once per call, any thread. */
    void (*answer)(struct call *call, struct message *reply);
    /* NULL: nobody counts. Otherwise told, once the core has answered and what the reply still lacks must be read: it
     * will have `size` bytes. Before `answer`; core thread. */
    void (*sized)(struct call *call, size_t size);
    bool from_peer;      /* the other node of the pair asks, and has proved that it does */
    uint32_t age_max_ms; /* a follower's answer says so (Reply.age_max_ms); 0: it does not */
};

/* A call is its own ticket. */
static inline uint64_t call_ticket(struct call *call) {
    return (uint64_t)(uintptr_t)call;
}
static inline struct call *call_of(uint64_t ticket) {
    return (struct call *)(uintptr_t)ticket;
}

/* A packed Reply; NULL: out of memory. */
struct message *reply_pack(const Tarry__Reply *reply);
/* `position`: what it did is recorded below. */
struct message *reply_pack_commit(const void *commit, size_t commit_size, uint64_t position);
/* A refusal; `sentence` NULL: that of the code. */
struct message *reply_pack_refusal(Tarry__Code code, const char *sentence);

#endif
