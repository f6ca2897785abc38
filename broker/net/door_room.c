/* door_room.c: limits the memory of messages that other threads pass to the door (CALM-1). The door counts an unread
 * reply when its thread has taken it (door_pressure.c). Two kinds of messages must be checked earlier, on the thread
 * that makes them. Repeated replies reserve no memory (ONCE-1), and may be made faster than the door's thread takes
 * them. Deliveries wait in the door until their consumer reads. */
#include <assert.h>

#include "door_parts.h"

#define REPLIES_SHARE 8

/* Returns whether the replies that the door's thread has not taken use more than 1/REPLIES_SHARE of `held_max`. */
static bool is_behind(const struct door *door) {
    return door->replies_size > door->limits.held_max / REPLIES_SHARE;
}

bool door_is_behind(struct door *door) {
    pthread_mutex_lock(&door->mutex);
    bool is = is_behind(door);
    pthread_mutex_unlock(&door->mutex);
    return is;
}

void door_await_taken(struct door *door) {
    pthread_mutex_lock(&door->mutex);
    while (is_behind(door)) pthread_cond_wait(&door->taken, &door->mutex);
    pthread_mutex_unlock(&door->mutex);
}

void room_taken(struct door *door, size_t size) {
    pthread_mutex_lock(&door->mutex);
    assert(door->replies_size >= size);
    door->replies_size -= size;
    pthread_cond_broadcast(&door->taken);
    pthread_mutex_unlock(&door->mutex);
}

/* ---- deliveries */

/* Returns whether the memory for the delivery can be granted. One large delivery always can. */
static bool fits(const struct door *door, size_t size) {
    size_t unsent = atomic_load(&door->deliveries_size);
    return unsent == 0 || unsent + size <= door->limits.held_max;
}

bool door_reserve(struct door *door, size_t size) {
    bool is_granted = true;
    pthread_mutex_lock(&door->mutex);
    /* Large deliveries are granted in order of arrival. */
    if (size > DOOR_SMALL_MAX) is_granted = !atomic_load(&door->wants_room) && fits(door, size);
    if (is_granted) atomic_fetch_add(&door->deliveries_size, size);
    pthread_mutex_unlock(&door->mutex);
    return is_granted;
}

bool door_await_room(struct door *door, size_t size) {
    pthread_mutex_lock(&door->mutex);
    assert(!atomic_load(&door->wants_room)); /* one thread waits at a time */
    atomic_store(&door->wants_room, true);
    /* Makes the door's thread run pressure_bound_deliveries, which closes consumers that do not read. */
    door_wake(door);
    while (!door->grants_no_room && !fits(door, size)) pthread_cond_wait(&door->has_room, &door->mutex);
    bool is_granted = !door->grants_no_room;
    if (is_granted) atomic_fetch_add(&door->deliveries_size, size);
    atomic_store(&door->wants_room, false);
    pthread_mutex_unlock(&door->mutex);
    return is_granted;
}

void door_unreserve(struct door *door, size_t size) {
    room_given(door, size);
}

void room_given(struct door *door, size_t size) {
    assert(atomic_load(&door->deliveries_size) >= size);
    atomic_fetch_sub(&door->deliveries_size, size);
    if (!atomic_load(&door->wants_room)) return;
    pthread_mutex_lock(&door->mutex);
    pthread_cond_signal(&door->has_room);
    pthread_mutex_unlock(&door->mutex);
}

void door_end_waits(struct door *door) {
    pthread_mutex_lock(&door->mutex);
    door->grants_no_room = true;
    pthread_cond_signal(&door->has_room);
    pthread_mutex_unlock(&door->mutex);
}

void room_init(struct door *door) {
    pthread_cond_init(&door->taken, NULL);
    pthread_cond_init(&door->has_room, NULL);
}
