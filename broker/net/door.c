/* door.c: the door's thread, and the queue of messages from other threads; see door.h. */
#include "door.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "door_parts.h"

/* ---- messages from other threads */

void door_wake(struct door *door) {
    const uint64_t one = 1;
    (void)!write(door->wake_fd, &one, sizeof(one)); /* The write cannot fail. Nothing reads the eventfd, because
                                                       edge-triggered epoll reports each write. */
}

static bool is_delivery(const struct message *message) {
    return message->kind == ORDER_DELIVERY || message->kind == ORDER_REST;
}

/* Returns the bytes that a message counts in `replies_size` until the door's thread has taken it. */
static size_t reply_size(const struct message *message) {
    return is_delivery(message) ? 0 : message->capacity;
}

/* Counts the memory of a message that another thread has queued. door_done ends this. */
static void count(struct door *door, const struct message *message) {
    if (is_delivery(message))
        atomic_fetch_add(&door->deliveries_size, message->capacity);
    else
        door_hold(door, message->capacity);
}

static void hand_over(struct door *door, struct message *message) {
    message->next = NULL;
    count(door, message);
    atomic_fetch_add(&door->queued, 1);
    pthread_mutex_lock(&door->mutex);
    door->replies_size += reply_size(message);
    bool was_empty = door->first == NULL;
    *door->last = message;
    door->last = &message->next;
    pthread_mutex_unlock(&door->mutex);
    if (was_empty && !door_is_served_here(door)) door_wake(door);
}

void door_answer(struct door *door, uint64_t to, struct message *answer) {
    if (answer == NULL) {
        door_close(door, to);
        return;
    }
    answer->to = to;
    answer->kind = ORDER_ANSWER;
    hand_over(door, answer);
}

void door_deliver(struct door *door, uint64_t to, struct message *message) {
    message->to = to;
    message->kind = ORDER_DELIVERY;
    hand_over(door, message);
}

void door_page(struct door *door, uint64_t to, struct message *page) {
    if (page == NULL) {
        door_close(door, to);
        return;
    }
    page->to = to;
    page->kind = ORDER_PAGE;
    hand_over(door, page);
}

static struct slot *slot_of(struct door *door, uint64_t id) {
    uint64_t place = id & SLOT_MASK;
    assert(place < door->limits.connections_max);
    return &door->slots[place];
}

static void end_inside(struct door *door, uint64_t id) {
    pthread_mutex_lock(&door->mutex);
    assert(door->inside_end_count < DOOR_INSIDE_ENDS);
    door->inside_ends[door->inside_end_count++] = id;
    pthread_mutex_unlock(&door->mutex);
    if (!atomic_exchange(&door->has_ends, true)) door_wake(door);
}

/* Queues the end of a connection; a slot is in the list only once, however often its end is requested. */
static void ask_for_end(struct door *door, uint64_t id, bool at_once) {
    if (door_is_inside(id)) {
        end_inside(door, id);
        return;
    }
    struct slot *slot = slot_of(door, id);
    pthread_mutex_lock(&door->mutex);
    *(at_once ? &slot->closing : &slot->lingering) = id;
    if (!slot->is_ending) {
        slot->is_ending = true;
        slot->next = door->ending;
        door->ending = slot;
    }
    pthread_mutex_unlock(&door->mutex);
    if (!atomic_exchange(&door->has_ends, true)) door_wake(door);
}

void door_close(struct door *door, uint64_t id) {
    ask_for_end(door, id, true);
}

void door_linger(struct door *door, uint64_t id) {
    ask_for_end(door, id, false);
}

void door_review(struct door *door) {
    if (!atomic_exchange(&door->reviews, true)) door_wake(door);
}

void door_resume(struct door *door) {
    if (!atomic_exchange(&door->resumes, true)) door_wake(door);
}

size_t door_held(const struct door *door) {
    return atomic_load(&door->held);
}

/* ---- the thread */

static void carry_inside(struct door *door, struct message *message) {
    const struct door_calls *calls = &door->calls;
    bool delivers = is_delivery(message);
    if (delivers && !calls->lane_leaves(calls->argument, message->lane, message->turn))
        calls->lane_sent(calls->argument, message->lane, message->turn, false, message->stamp);
    else
        calls->inside(calls->argument, message->to, message, delivers);
    door_done(door, message);
}

/* Carries out a queued message. Returns true if a protocol got it, and so may have made a request. */
static bool carry_out(struct door *door, struct message *message) {
    if (door_is_inside(message->to)) {
        carry_inside(door, message);
        return true;
    }
    struct connection *connection = connection_find(door, message->to);
    bool is_there = connection != NULL && connection->state == STATE_OPEN;
    if (is_there && message->kind == ORDER_PAGE) {
        stream_answer(connection, message);
        return true;
    }
    if (is_there && connection->kind != KIND_STREAM) {
        io_send(connection, message);
        return false;
    }
    if (message->kind == ORDER_DELIVERY)
        door->calls.lane_sent(door->calls.argument, message->lane, message->turn, false, message->stamp);
    door_done(door, message);
    return false;
}

/* Returns whether door_carry_out passes the message to code inside the broker that works on this thread, for example to
 * format a reply as JSON. */
static bool is_for_protocol(const struct message *message) {
    return door_is_inside(message->to) || message->kind == ORDER_PAGE;
}

/* Puts messages back to the head of the queue, for the next round. */
static void postpone(struct door *door, struct message *first, struct message **last) {
    pthread_mutex_lock(&door->mutex);
    *last = door->first;
    if (door->first == NULL) door->last = last;
    door->first = first;
    pthread_mutex_unlock(&door->mutex);
    door->has_postponed = true;
}

/* Protocols work for DOOR_ROUND_US at a time, so that many long replies do not keep others from being served. */
bool door_carry_out(struct door *door) {
    pthread_mutex_lock(&door->mutex);
    struct message *message = door->first;
    door->first = NULL;
    door->last = &door->first;
    pthread_mutex_unlock(&door->mutex);
    door->has_postponed = false;
    if (message == NULL) return false;
    bool had_inside = false;
    size_t taken = 0;
    struct message *postponed = NULL, **last = &postponed;
    uint64_t until_us = deadlines_now_us() + DOOR_ROUND_US;
    for (struct message *next; message != NULL; message = next) {
        next = message->next;
        if (had_inside && is_for_protocol(message) && deadlines_now_us() >= until_us) {
            *last = message;
            last = &message->next;
            continue;
        }
        taken += reply_size(message);
        had_inside |= carry_out(door, message);
    }
    *last = NULL;
    if (postponed != NULL) postpone(door, postponed, last);
    if (taken > 0) room_taken(door, taken);
    return had_inside;
}

/* Takes the next slot whose connection must end, at once or after DOOR_LINGER_S. Returns false if there is none. */
static bool take_end(struct door *door, uint64_t *out_closing, uint64_t *out_lingering) {
    pthread_mutex_lock(&door->mutex);
    struct slot *slot = door->ending;
    if (slot != NULL) {
        door->ending = slot->next;
        *out_closing = slot->closing;
        *out_lingering = slot->lingering;
        slot->closing = slot->lingering = 0;
        slot->is_ending = false;
    }
    pthread_mutex_unlock(&door->mutex);
    return slot != NULL;
}

/* Takes the next id of a requester inside the broker that has ended; 0: none. */
static uint64_t take_inside_end(struct door *door) {
    pthread_mutex_lock(&door->mutex);
    uint64_t id = door->inside_end_count > 0 ? door->inside_ends[--door->inside_end_count] : 0;
    pthread_mutex_unlock(&door->mutex);
    return id;
}

static void end_some(struct door *door) {
    uint64_t closing, lingering, inside;
    if (!atomic_exchange(&door->has_ends, false)) return;
    while ((inside = take_inside_end(door)) != 0) door->calls.inside(door->calls.argument, inside, NULL, false);
    while (take_end(door, &closing, &lingering)) {
        struct connection *connection = connection_find(door, lingering);
        if (connection != NULL && connection->state != STATE_DEAD)
            deadline_arm(&door->deadlines, &connection->deadline, door->now_us + DOOR_LINGER_S * DOOR_US_PER_S);
        connection = connection_find(door, closing);
        if (connection != NULL) connection_kill(connection);
    }
}

static void review(struct door *door) {
    if (!atomic_exchange(&door->reviews, false)) return;
    for (unsigned i = 0; i < door->limits.connections_max; i++) {
        struct connection *connection = door->slots[i].connection;
        if (connection == NULL || !connection->is_admitted) continue;
        if (!door->calls.stays(door->calls.argument, connection->principal)) connection_kill(connection);
    }
}

/* Stops reading from all connections. (accept_event stops accepting.) */
static void stop_reading(struct door *door) {
    if (door->has_stopped || !atomic_load(&door->stopping)) return;
    door->has_stopped = true;
    for (unsigned i = 0; i < door->limits.connections_max; i++)
        if (door->slots[i].connection != NULL) io_regulate(door->slots[i].connection);
}

/* Handles what other threads have queued for this thread. */
static void look_around(struct door *door) {
    (void)door_carry_out(door);
    end_some(door);
    review(door);
    stop_reading(door);
    if (!atomic_exchange(&door->resumes, false)) return;
    ws_offer_waiting(door);
    door->calls.resumed(door->calls.argument);
}

/* ---- the loop */

/* Maximum number of events handled in a round. */
#define EVENTS_MAX 256
/* Maximum number of times that the callee processes requests in a round. */
#define SERVED_IN_A_ROW 4

static int wait_ms(const struct door *door) {
    bool is_due = door->is_due || door->has_postponed || !TAILQ_EMPTY(&door->again) || !TAILQ_EMPTY(&door->dirty) ||
                  !fair_is_empty(&door->line);
    uint64_t next_us = deadlines_next_us(&door->deadlines),
             now_us = is_due || next_us == UINT64_MAX ? 0 : deadlines_now_us();
    if (is_due || next_us <= now_us) return 0;
    if (next_us == UINT64_MAX) return -1;
    uint64_t left_ms = (next_us - now_us + DOOR_US_PER_MS - 1) / DOOR_US_PER_MS;
    return left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
}

static void handle(struct door *door, const struct epoll_event *event) {
    switch (*(const enum source *)event->data.ptr) {
    case SOURCE_CONNECTION:
        io_event(event->data.ptr, event->events);
        break;
    case SOURCE_LISTENER:
        accept_event(event->data.ptr);
        break;
    case SOURCE_WAKE:
        break;
    }
}

/* Lets the callee process its requests. A reply to a protocol inside the broker may cause another request, so this is
 * repeated a few times. */
static void serve(struct door *door) {
    door->is_due = false;
    for (int i = 0; i < SERVED_IN_A_ROW; i++) {
        io_flush(door); /* send the replies before a wait for a disk */
        door->calls.served(door->calls.argument);
        /* Messages queued by this thread itself need no wake-up: it sends them here. */
        if (!door_carry_out(door) || door->has_postponed) return;
    }
    door->is_due = true;
}

void door_round(struct door *door) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(door->epoll_fd, events, EVENTS_MAX, wait_ms(door));
    door->now_us = deadlines_now_us();
    door->handshakes = DOOR_HANDSHAKES;
    io_again(door);
    for (int i = 0; i < count; i++) handle(door, &events[i]);
    deadlines_run(&door->deadlines, door->now_us);
    look_around(door);
    turns_serve(door);
    serve(door);
    io_flush(door);
    pressure_bound_deliveries(door);
    connections_bury(door);
    pressure_look(door);
}

static void *run(void *argument) {
    struct door *door = argument;
    pthread_mutex_lock(&door->serving);
    door_serve_here(door, true);
    while (!atomic_load(&door->quits)) door_round(door);
    door_serve_here(door, false);
    pthread_mutex_unlock(&door->serving);
    return NULL;
}

void door_hold(struct door *door, size_t bytes) {
    atomic_fetch_add(&door->held, bytes);
}

void door_release(struct door *door, size_t bytes) {
    assert(atomic_load(&door->held) >= bytes);
    atomic_fetch_sub(&door->held, bytes);
}

void door_done(struct door *door, struct message *message) {
    if (is_delivery(message))
        room_given(door, message->capacity);
    else
        door_release(door, message->capacity);
    message_free(message);
    if (atomic_fetch_sub(&door->queued, 1) > 1 || !atomic_load(&door->stopping)) return;
    pthread_mutex_lock(&door->mutex);
    pthread_cond_signal(&door->drained);
    pthread_mutex_unlock(&door->mutex);
}

/* ---- start and stop */

static void on_alarm(struct deadline *timer) {
    struct door *door = (struct door *)((char *)timer - offsetof(struct door, alarm));
    door->calls.alarm(door->calls.argument);
}

void door_alarm(struct door *door, uint64_t after_ms) {
    deadline_arm(&door->deadlines, &door->alarm, deadlines_now_us() + after_ms * DOOR_US_PER_MS);
}

/* Checks whether the certificate files have changed. */
static void on_tls_look(struct deadline *timer) {
    struct door *door = (struct door *)((char *)timer - offsetof(struct door, tls_look));
    tls_look(door->limits.tls);
    deadline_arm(&door->deadlines, timer, deadlines_now_us() + TLS_LOOK_S * DOOR_US_PER_S);
}

static bool open_loop(struct door *door) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &door->wake_source};
    door->wake_source = SOURCE_WAKE;
    door->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    door->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return door->epoll_fd >= 0 && door->wake_fd >= 0 &&
           epoll_ctl(door->epoll_fd, EPOLL_CTL_ADD, door->wake_fd, &event) == 0;
}

static void init_condition(struct door *door) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&door->drained, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void deinit(struct door *door) {
    if (door->epoll_fd >= 0) close(door->epoll_fd);
    if (door->wake_fd >= 0) close(door->wake_fd);
    SSL_CTX_free(door->tls);
    deadlines_deinit(&door->deadlines);
    free(door->slots);
    free(door->free_slots);
    free(door);
}

struct door *door_new(const struct door_calls *calls, const struct door_limits *limits) {
    struct door *door = calloc(1, sizeof(*door));
    if (door == NULL) return NULL;
    door->calls = *calls;
    door->limits = *limits;
    door->last = &door->first;
    door->now_us = deadlines_now_us();
    door->alarm.fire = on_alarm;
    door->tls_look.fire = on_tls_look;
    fair_init(&door->line);
    sp_init(door);
    pthread_mutex_init(&door->mutex, NULL);
    pthread_mutex_init(&door->serving, NULL);
    init_condition(door);
    room_init(door);
    /* Space for two timers of each connection, and for the door's own timers. */
    bool is_made = open_loop(door) && deadlines_init(&door->deadlines, 2 * limits->connections_max + 5u) &&
                   connections_init(door) && io_begin(door);
    if (is_made) return door;
    deinit(door);
    return NULL;
}

void door_add(struct door *door, int fd, bool over_tls, const struct door_stream_calls *speaks) {
    assert(door->listener_count < DOOR_LISTENERS_MAX);
    assert(!over_tls || door->tls != NULL);
    door->listeners[door->listener_count++] = (struct listener){.source = SOURCE_LISTENER,
                                                                .door = door,
                                                                .fd = fd,
                                                                .over_tls = over_tls,
                                                                .speaks = speaks != NULL ? speaks : door->limits.http};
    assert(speaks != NULL || door->limits.http != NULL);
}

int door_start(struct door *door) {
    if (!accept_begin(door)) return ENOMEM;
    if (door->limits.tls != NULL) on_tls_look(&door->tls_look);
    int error = substitute_start(door);
    if (error == 0) error = pthread_create(&door->thread, NULL, run, door);
    if (error == 0) pthread_setname_np(door->thread, "tarry-net");
    return error;
}

void door_stop(struct door *door, unsigned wait_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    atomic_store(&door->stopping, true);
    door_wake(door);
    pthread_mutex_lock(&door->mutex);
    int error = 0;
    while (atomic_load(&door->queued) > 0 && error == 0)
        error = pthread_cond_timedwait(&door->drained, &door->mutex, &until);
    pthread_mutex_unlock(&door->mutex);
    atomic_store(&door->quits, true);
    door_wake(door);
    pthread_join(door->thread, NULL);
    substitute_stop(door);
}
