/* door_substitute.c: a second thread that serves connections while the door's thread waits too long for a disk.
 *
 * The thread that holds the lock `serving` serves. The door's thread arms a timer and releases the lock. If the timer
 * fires, the substitute takes the lock. When the door's thread wants it back, the substitute finishes its round and
 * releases it. Usually the door's thread disarms the timer before, and the substitute keeps sleeping. */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "door_parts.h"

static _Thread_local const struct door *served;

bool door_is_served_here(const struct door *door) {
    return served == door;
}

void door_serve_here(const struct door *door, bool serves) {
    served = serves ? door : NULL;
}

static void arm(const struct door *door, long wait_ms) {
    const struct itimerspec timer = {.it_value.tv_nsec = wait_ms * 1000000};
    /* timerfd_settime cannot fail, because its arguments are valid. */
    (void)timerfd_settime(door->aside_fd, 0, &timer, NULL);
}

void door_step_aside(struct door *door) {
    door_serve_here(door, false);
    atomic_store(&door->is_aside, true);
    pthread_mutex_unlock(&door->serving);
    arm(door, DOOR_ASIDE_MS);
}

void door_come_back(struct door *door) {
    atomic_store(&door->is_aside, false);
    if (pthread_mutex_trylock(&door->serving) != 0) {
        door_wake(door); /* ends the substitute's wait for events */
        pthread_mutex_lock(&door->serving);
    }
    arm(door, 0);
    door_serve_here(door, true);
}

static void *substitute_run(void *argument) {
    struct door *door = argument;
    uint64_t fired;
    while (!atomic_load(&door->quits)) {
        if (read(door->aside_fd, &fired, sizeof(fired)) < 0 && errno != EINTR) break;
        if (atomic_load(&door->quits) || pthread_mutex_trylock(&door->serving) != 0)
            continue; /* another thread serves, or the door stops */
        door_serve_here(door, true);
        (void)door_carry_out(door);
        io_flush(door);
        while (atomic_load(&door->is_aside) && !atomic_load(&door->quits)) door_round(door);
        door_serve_here(door, false);
        pthread_mutex_unlock(&door->serving);
    }
    return NULL;
}

int substitute_start(struct door *door) {
    door->aside_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (door->aside_fd < 0) return errno;
    int error = pthread_create(&door->substitute, NULL, substitute_run, door);
    if (error == 0) pthread_setname_np(door->substitute, "tarry-net-2");
    return error;
}

void substitute_stop(struct door *door) {
    arm(door, 1);
    pthread_join(door->substitute, NULL);
}

bool door_has_more(struct door *door, uint64_t id) {
    const struct connection *connection = door_is_inside(id) ? NULL : connection_find(door, id);
    return connection != NULL && connection->state == STATE_OPEN && io_has_more(connection);
}
