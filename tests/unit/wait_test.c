/* wait_test.c: the door's replacement of poll(2) returns the same as the system's (broker/net/wait.h). */
#include "wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../random.h"

#define PAIRS 120
#define ROUNDS 20000
#define PIECE 4096

/* An array as libwebsockets keeps it: a removed entry is replaced by the last. */
static struct {
    struct wait *wait;
    struct pollfd fds[PAIRS];
    int other[PAIRS]; /* the other ends; -1: closed */
    nfds_t count;
    int left[2]; /* the pair that was removed last */
} world;

static void add(void) {
    int ends[2];
    if (world.count == PAIRS) return;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    wait_new(world.wait, ends[0]);
    wait_new(world.wait, ends[1]);
    world.fds[world.count] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    world.other[world.count++] = ends[1];
}

static void take_out(nfds_t at) {
    world.fds[at] = world.fds[--world.count];
    world.other[at] = world.other[world.count];
}

static void drop(nfds_t at) {
    close(world.fds[at].fd);
    if (world.other[at] >= 0) close(world.other[at]);
    take_out(at);
}

static void fill_or_empty(nfds_t at, uint64_t dice) {
    static char bytes[PIECE];
    if (dice % 2 == 0 && world.other[at] >= 0)
        (void)!write(world.other[at], bytes, 1);
    else if (dice % 5 == 1)
        while (write(world.fds[at].fd, bytes, sizeof(bytes)) > 0) continue;
    else
        while (read(world.fds[at].fd, bytes, sizeof(bytes)) > 0) continue;
}

static void change(uint64_t dice, nfds_t at) {
    switch (dice % 16) {
    case 0:
        drop(at);
        break;
    case 1: /* its descriptor number is used again at once, in the same place … */
        drop(world.count - 1);
        add();
        (void)!write(world.other[world.count - 1], "", 1);
        break;
    case 10: /* … or in another */
        drop(at);
        add();
        break;
    case 2: /* removed from the array, but still open for a while: its events do not count */
        if (world.other[at] >= 0) (void)!write(world.other[at], "", 1);
        close(world.left[0]);
        close(world.left[1]);
        world.left[0] = world.fds[at].fd;
        world.left[1] = world.other[at];
        take_out(at);
        break;
    case 3:
        if (world.other[at] >= 0) close(world.other[at]);
        world.other[at] = -1;
        break;
    case 4:
    case 5:
        add();
        break;
    case 6:
    case 7:
    case 8:
        world.fds[at].events = (short)((dice >> 8) % 2 * POLLIN | (dice >> 9) % 2 * POLLOUT);
        break;
    case 9:
        world.fds[at].revents = POLLIN; /* the library's own note */
        break;
    default:
        fill_or_empty(at, dice >> 8);
    }
}

/* The system's result. */
static int ask_system(struct pollfd *fds) {
    const struct timespec now = {0};
    memcpy(fds, world.fds, world.count * sizeof(*fds));
    return ppoll(fds, world.count, &now, NULL);
}

static void compare(unsigned round) {
    struct pollfd expected[PAIRS];
    int ready = ask_system(expected), told = poll(world.fds, world.count, 0);
    for (nfds_t i = 0; i < world.count; i++)
        if (world.fds[i].revents != expected[i].revents)
            fail_msg("round %u, place %u of %u: %x, and the system says %x", round, (unsigned)i, (unsigned)world.count,
                     (unsigned)world.fds[i].revents, (unsigned)expected[i].revents);
    assert_int_equal(told, ready);
}

static void it_says_what_the_systems_says(void **state) {
    struct random random = {random_seed(20261123)};
    world.wait = wait_begin();
    assert_non_null(world.wait);
    world.left[0] = world.left[1] = -1;
    for (int i = 0; i < PAIRS; i++) add();
    for (unsigned round = 0; round < ROUNDS; round++) {
        /* Sometimes so few that poll itself is used, and changes go unnoticed. */
        bool are_few = round / 1000 % 4 == 3;
        while (are_few && world.count >= WAIT_MANY) drop(world.count - 1);
        while (world.count < (are_few ? WAIT_MANY / 4 : WAIT_MANY)) add();
        change(random_u64(&random), random_below(&random, world.count));
        compare(round);
        assert_false(wait_fell_back(world.wait));
    }
    while (world.count > 0) drop(0);
    close(world.left[0]);
    close(world.left[1]);
    wait_end(world.wait);
}

static void what_has_left_wakes_nobody(nfds_t at) {
    world.wait = wait_begin();
    for (int i = 0; i < PAIRS; i++) add();
    assert_int_equal(poll(world.fds, world.count, 0), 0);
    int left = world.fds[at].fd, other = world.other[at];
    take_out(at);
    assert_int_equal(write(other, "x", 1), 1);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(poll(world.fds, world.count, 50), 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 49);
    close(left);
    close(other);
    while (world.count > 0) drop(0);
    wait_end(world.wait);
}

static void what_has_left_the_array_wakes_nobody(void **state) {
    what_has_left_wakes_nobody(7);
    what_has_left_wakes_nobody(PAIRS - 1);
}

static void *wait_elsewhere(void *argument) {
    struct pollfd fds[PAIRS];
    memcpy(fds, world.fds, sizeof(fds));
    return (void *)(intptr_t)poll(fds, PAIRS, 0);
}

static void other_threads_have_the_systems(void **state) {
    pthread_t thread;
    void *ready;
    world.wait = wait_begin();
    for (int i = 0; i < PAIRS; i++) add();
    assert_int_equal(write(world.other[3], "x", 1), 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_elsewhere, NULL), 0);
    pthread_join(thread, &ready);
    assert_int_equal((intptr_t)ready, 1);
    assert_int_equal(poll(world.fds, world.count, 0), 1);
    while (world.count > 0) drop(0);
    wait_end(world.wait);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_the_systems_says),
        cmocka_unit_test(what_has_left_the_array_wakes_nobody),
        cmocka_unit_test(other_threads_have_the_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
