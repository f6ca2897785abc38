/* inbox.h: the queue of the core thread. Any thread posts items; the core thread takes all of them at once. An item
 * (engine/engine_request.h) is a member of the posted struct: struct call, struct lane_news, struct window_load, struct
 * page_load or struct refusals_told. So posting allocates no memory and never waits. Log positions are stored as
 * numbers, not as items, because only the latest position counts. */
#ifndef TARRY_SHELL_INBOX_H
#define TARRY_SHELL_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "core_turn.h"

struct inbox {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* uses CLOCK_MONOTONIC */
    struct item *first;
    struct item **last;
    uint64_t durable;
    uint64_t indexed;
    uint64_t follow_to; /* the core applies frames of another node up to this position */
    bool lead;          /* true: when the core has applied the frames up to `follow_to`, this node leads */
    bool pause;         /* true: the core decides nothing until the pause is withdrawn */
    bool stop;          /* an orderly stop was requested */
    bool nudged;        /* another event has happened that the core thread waits for */
    bool is_lendable;   /* the core thread sleeps, and another thread may do its work (inbox_borrow) */
    bool is_lent;       /* another thread does the core thread's work, until inbox_give_back */
    bool owes_wake;     /* inbox_post_quietly posted the first item, and the core thread has not been woken */
    struct stall stall; /* detects from the wake-ups of the core thread that the process was stopped for a while */
};

void inbox_init(struct inbox *inbox);
void inbox_post(struct inbox *inbox, struct item *item);
void inbox_durable(struct inbox *inbox, uint64_t position);
void inbox_indexed(struct inbox *inbox, uint64_t position);
/* For a pair: inbox_follow asks the core to apply the log up to `position`; inbox_lead asks it to lead afterwards. */
void inbox_follow(struct inbox *inbox, uint64_t position);
void inbox_lead(struct inbox *inbox, uint64_t position);
/* Pauses the core's decisions, or resumes them. node_paused reports when the core has paused. */
void inbox_pause(struct inbox *inbox, bool pause);
void inbox_stop(struct inbox *inbox);
void inbox_nudge(struct inbox *inbox);
/* Notes that the core thread, or the thread that stands in for it, is awake (stall_look). Call it at least every
 * STALL_LOOK_NS. */
void inbox_look(struct inbox *inbox);
/* Waits at most `wait_ns` for something new, and takes everything; 0 does not wait. With `may_lend`, another thread may
 * do the core thread's work during the wait (inbox_borrow). Core thread only. */
void inbox_take(struct inbox *inbox, uint64_t wait_ns, bool may_lend, struct turn_load *out);

/* ---- a thread that posts several items wakes the core thread once, or processes a single one itself (lone.h) */
/* Posts without waking the core thread: inbox_borrow or inbox_wake must follow. */
void inbox_post_quietly(struct inbox *inbox, struct item *item);
/* Makes the caller stand in for the core thread until inbox_give_back. Returns true if the core thread sleeps and the
 * inbox contains nothing but one call, which is in `*out`. Returns false otherwise; then the core thread takes the
 * items. */
bool inbox_borrow(struct inbox *inbox, struct turn_load *out);
/* Ends the work for the core thread that inbox_borrow began. `wait_ns`: the core thread must run again after this time
 * at the latest. */
void inbox_give_back(struct inbox *inbox, uint64_t wait_ns);
/* Wakes the core thread, if an item was posted quietly. */
void inbox_wake(struct inbox *inbox);

#endif
