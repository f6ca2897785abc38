/* inbox.c: see inbox.h. */
#include "inbox.h"

#include <assert.h>

void inbox_init(struct inbox *inbox) {
    *inbox = (struct inbox){0};
    inbox->last = &inbox->first;
    pthread_mutex_init(&inbox->mutex, NULL);
    monotonic_cond_init(&inbox->changed);
}

/* Appends the item. Returns whether it is the first one in the inbox. */
static bool append(struct inbox *inbox, struct item *item) {
    item->next = NULL;
    /* Stamped under the mutex, so that the times are in posting order. */
    item_receive(item, &inbox->stall, boottime_ns());
    bool was_empty = inbox->first == NULL;
    *inbox->last = item;
    inbox->last = &item->next;
    return was_empty;
}

static void wake(struct inbox *inbox) {
    inbox->owes_wake = false;
    pthread_cond_signal(&inbox->changed);
}

void inbox_post(struct inbox *inbox, struct item *item) {
    pthread_mutex_lock(&inbox->mutex);
    /* The core thread takes all items at once. So it can sleep only if the inbox was empty, and only the first item
     * needs a wake-up. */
    if (append(inbox, item) || inbox->owes_wake) wake(inbox);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_post_quietly(struct inbox *inbox, struct item *item) {
    pthread_mutex_lock(&inbox->mutex);
    if (append(inbox, item)) inbox->owes_wake = true;
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_wake(struct inbox *inbox) {
    pthread_mutex_lock(&inbox->mutex);
    if (inbox->owes_wake) wake(inbox);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_durable(struct inbox *inbox, uint64_t position) {
    pthread_mutex_lock(&inbox->mutex);
    assert(position >= inbox->durable);
    inbox->durable = position;
    /* At a stop the core thread waits for the durable position, so wake it. Otherwise it needs no wake-up, because it
     * reads the position at its next planned wake-up (TURN_DURABLE_NS). */
    if (inbox->stop) {
        inbox->nudged = true;
        pthread_cond_signal(&inbox->changed);
    }
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_indexed(struct inbox *inbox, uint64_t position) {
    pthread_mutex_lock(&inbox->mutex);
    assert(position >= inbox->indexed);
    inbox->indexed = position;
    inbox->nudged = true;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->mutex);
}

static void go_on_to(struct inbox *inbox, uint64_t position, bool lead) {
    pthread_mutex_lock(&inbox->mutex);
    assert(position >= inbox->follow_to);
    inbox->follow_to = position;
    inbox->lead = lead;
    inbox->nudged = true;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_follow(struct inbox *inbox, uint64_t position) {
    go_on_to(inbox, position, false);
}

void inbox_lead(struct inbox *inbox, uint64_t position) {
    go_on_to(inbox, position, true);
}

void inbox_pause(struct inbox *inbox, bool pause) {
    pthread_mutex_lock(&inbox->mutex);
    inbox->pause = pause;
    inbox->nudged = true;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_stop(struct inbox *inbox) {
    pthread_mutex_lock(&inbox->mutex);
    inbox->stop = true;
    inbox->nudged = true;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_nudge(struct inbox *inbox) {
    pthread_mutex_lock(&inbox->mutex);
    inbox->nudged = true;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_look(struct inbox *inbox) {
    pthread_mutex_lock(&inbox->mutex);
    stall_look(&inbox->stall, boottime_ns());
    pthread_mutex_unlock(&inbox->mutex);
}

/* Takes everything in the inbox. */
static void take_all(struct inbox *inbox, struct turn_load *out) {
    uint64_t now_ns = boottime_ns();
    uint64_t taken_ns = stall_received(&inbox->stall, now_ns);
    *out = (struct turn_load){.first = inbox->first,
                              .taken_ns = taken_ns,
                              .late_ns = now_ns - taken_ns,
                              .settle_ns = stall_settle_ns(&inbox->stall, now_ns),
                              .durable = inbox->durable,
                              .indexed = inbox->indexed,
                              .follow_to = inbox->follow_to,
                              .lead = inbox->lead,
                              .pause = inbox->pause,
                              .stop = inbox->stop};
    inbox->first = NULL;
    inbox->last = &inbox->first;
    inbox->nudged = inbox->owes_wake = false;
}

void inbox_take(struct inbox *inbox, uint64_t wait_ns, bool may_lend, struct turn_load *out) {
    pthread_mutex_lock(&inbox->mutex);
    if (wait_ns > 0) {
        struct timespec until = monotonic_after(wait_ns);
        int error = 0;
        uint64_t now_ns = boottime_ns();
        stall_look(&inbox->stall, now_ns); /* the process may have been stopped since `wait_ns` was computed */
        stall_sleep(&inbox->stall, now_ns, wait_ns);
        inbox->is_lendable = may_lend;
        while ((inbox->first == NULL || inbox->owes_wake) && !inbox->nudged && error == 0)
            error = pthread_cond_timedwait(&inbox->changed, &inbox->mutex, &until);
        inbox->is_lendable = false;
        while (inbox->is_lent) pthread_cond_wait(&inbox->changed, &inbox->mutex);
    }
    take_all(inbox, out);
    stall_wake(&inbox->stall);
    stall_look(&inbox->stall, out->taken_ns + out->late_ns);
    pthread_mutex_unlock(&inbox->mutex);
}

bool inbox_borrow(struct inbox *inbox, struct turn_load *out) {
    pthread_mutex_lock(&inbox->mutex);
    uint64_t now_ns = boottime_ns();
    bool is_single = inbox->owes_wake && inbox->first->kind == ITEM_CALL && inbox->first->next == NULL;
    bool is_calm = !inbox->nudged && !inbox->stop && !inbox->pause && stall_settle_ns(&inbox->stall, now_ns) == 0;
    bool borrows = inbox->is_lendable && is_single && is_calm;
    if (borrows) {
        stall_is_awake(&inbox->stall, now_ns);
        take_all(inbox, out);
        inbox->is_lent = true;
    } else if (inbox->owes_wake) {
        wake(inbox);
    }
    pthread_mutex_unlock(&inbox->mutex);
    return borrows;
}

void inbox_give_back(struct inbox *inbox, uint64_t wait_ns) {
    pthread_mutex_lock(&inbox->mutex);
    assert(inbox->is_lent);
    inbox->is_lent = false;
    if (boottime_ns() + wait_ns < inbox->stall.asleep_until_ns) inbox->nudged = true;
    /* The core thread must wake earlier than planned, or it waits until inbox_give_back ends the loan. */
    if (inbox->nudged || !inbox->is_lendable) wake(inbox);
    pthread_mutex_unlock(&inbox->mutex);
}
