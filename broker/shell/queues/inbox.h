/* inbox.h: what waits for the core thread. Any thread posts; the core thread takes everything at once.
 *
 * An item (engine/engine_request.h) is a member of whatever waits: struct call, struct lane_news, struct window_load,
 * struct page_load, struct refusals_told; posting allocates nothing and never waits. Positions are not items: only the
 * latest counts. */
#ifndef TARRY_SHELL_INBOX_H
#define TARRY_SHELL_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core_turn.h"
#include "monotonic.h"

struct inbox {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    struct item *first;
    struct item **last;
    uint64_t durable;
    uint64_t indexed;
    uint64_t follow_to; /* another node's frames are to be applied up to here */
    bool lead;          /* … and then this one leads */
    bool pause;         /* nothing more is to be decided, until it is taken back */
    bool stop;          /* an orderly stop was asked for */
    bool nudged;        /* something else changed that the core thread waits for */
    bool is_lendable;   /* the core thread sleeps, and another may stand in for it */
    bool is_lent;       /* one does, until it gives back */
    bool owes_wake;     /* the first item came by inbox_post_alone: the core thread has not been woken for it */
    struct stall stall; /* of the process, as the core thread shows it */
};

void inbox_init(struct inbox *inbox);
void inbox_post(struct inbox *inbox, struct item *item);
void inbox_durable(struct inbox *inbox, uint64_t position);
void inbox_indexed(struct inbox *inbox, uint64_t position);
/* A pair: apply the log up to `position`; afterwards lead. */
void inbox_follow(struct inbox *inbox, uint64_t position);
void inbox_lead(struct inbox *inbox, uint64_t position);
/* Decide nothing more (node_paused tells when it is so), or go on. */
void inbox_pause(struct inbox *inbox, bool pause);
void inbox_stop(struct inbox *inbox);
void inbox_nudge(struct inbox *inbox);
/* The core thread, or the one that stands in for it, is awake (stall_look): every STALL_LOOK_NS, or oftener. */
void inbox_look(struct inbox *inbox);
/* Waits until there is something new, or for `wait_ns`; 0: does not wait. `may_lend`: meanwhile another thread may
 * stand in (inbox_borrow). Core thread only. */
void inbox_take(struct inbox *inbox, uint64_t wait_ns, bool may_lend, struct turn_load *out);

/* ---- the thread that brings a single item may carry it through instead of the core thread (lone.h) */
/* Posts, and does not wake the core thread yet: inbox_borrow or inbox_wake must follow. A second item wakes it. */
void inbox_post_alone(struct inbox *inbox, struct item *item);
/* True: the core thread sleeps, nothing waits but one call, which is in `*out`, and until inbox_give_back the caller is
 * all that the core thread is. False: the core thread takes what waits. */
bool inbox_borrow(struct inbox *inbox, struct turn_load *out);
/* The core has something to do in `wait_ns`, at the latest. */
void inbox_give_back(struct inbox *inbox, uint64_t wait_ns);
/* Wakes the core thread, if inbox_post_alone has not. */
void inbox_wake(struct inbox *inbox);

#endif
