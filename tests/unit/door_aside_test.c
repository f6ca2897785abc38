/* door_aside_test.c: while the door's thread waits for a disk, a substitute thread serves the port. When the door's
 * thread comes back, it takes over again (broker/net/door_substitute.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../must.h"
#include "door.h"
#include "gateway_host.h"
#include "http_server.h"

#define WAIT_MS 20000

static struct {
    struct door *door;
    uint16_t port;
    /* Connection with a slow page request; 0: none. The callback `served` sends the page, and then waits. */
    uint64_t slow;
    sem_t is_aside, may_come_back, is_back;
    pthread_t rendered; /* thread that rendered the last page; a test reads this only after that page has arrived */
} world;

static struct caller_verdict admit(void *argument, const struct net_caller *caller) {
    return (struct caller_verdict){0};
}

static void dismiss(void *argument, uint64_t principal, uint64_t id) {}

static void answer(uint64_t id) {
    struct message *page = message_new(2);
    MUST(page != NULL);
    memcpy(page->bytes, "ok", 2);
    page->status = 200;
    page->type = "text/plain";
    door_page(world.door, id, page);
}

static bool page(void *argument, uint64_t id, const char *path) {
    world.rendered = pthread_self();
    if (strcmp(path, "/slow") == 0)
        world.slow = id;
    else
        answer(id);
    return true;
}

/* Waits until the test releases it, as a disk that hangs would. */
static void served(void *argument) {
    if (world.slow == 0) return;
    answer(world.slow);
    world.slow = 0;
    door_step_aside(world.door);
    sem_post(&world.is_aside);
    sem_wait(&world.may_come_back);
    door_come_back(world.door);
    sem_post(&world.is_back);
}

static void refused(void *argument, const char *peer, unsigned status, const char *sentence) {}

static int open_door(void **state) {
    static const struct gateway_calls nobody;
    struct gateway *gateway = gateway_new(&nobody);
    struct http_server *http = gateway != NULL ? http_server_new(gateway) : NULL;
    if (http == NULL) return 1;
    const struct door_calls calls = {
        .admit = admit, .dismiss = dismiss, .page = page, .served = served, .refused = refused};
    const struct door_limits limits = {.request_max = 1 << 20,
                                       .held_max = 1 << 20,
                                       .connections_max = 64,
                                       .origins = "",
                                       .http = http_server_calls(http)};
    struct listen_address where = {.host = "127.0.0.1"};
    struct listen_socket socket;
    sem_init(&world.is_aside, 0, 0);
    sem_init(&world.may_come_back, 0, 0);
    sem_init(&world.is_back, 0, 0);
    world.door = door_new(&calls, &limits);
    if (world.door == NULL || listen_open(&where, &socket) != 0) return 1;
    gateway_serve(gateway, world.door);
    http_server_serve(http, world.door);
    world.port = where.port;
    door_add(world.door, socket.fd, false, NULL);
    return door_start(world.door);
}

static int close_door(void **state) {
    door_stop(world.door, 1000);
    return 0;
}

static int ask(const char *path) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(world.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
    MUST(dprintf(fd, "GET %s HTTP/1.1\r\nHost: door\r\nConnection: close\r\n\r\n", path) > 0);
    return fd;
}

/* Reads the page, and checks that the door has closed the connection. */
static void hear(int fd) {
    char heard[1024] = "";
    for (size_t size = 0;;) {
        struct pollfd waits = {.fd = fd, .events = POLLIN};
        MUST(poll(&waits, 1, WAIT_MS) == 1 && size < sizeof(heard) - 1);
        ssize_t part = read(fd, heard + size, sizeof(heard) - 1 - size);
        if (part <= 0) break;
        size += (size_t)part;
    }
    close(fd);
    assert_non_null(strstr(heard, " 200 "));
    assert_non_null(strstr(heard, "\r\n\r\nok"));
}

static void somebody_serves_while_the_thread_waits_for_a_disk(void **state) {
    hear(ask("/"));
    pthread_t first = world.rendered;
    for (int round = 0; round < 3; round++) {
        int slow = ask("/slow");
        sem_wait(&world.is_aside);
        hear(slow); /* data that was ready when the thread began to wait is sent */
        hear(ask("/"));
        assert_false(pthread_equal(world.rendered, first));
        sem_post(&world.may_come_back);
        sem_wait(&world.is_back); /* the door's thread must return although nothing else happens */
        hear(ask("/"));
        assert_true(pthread_equal(world.rendered, first));
    }
}

static void who_comes_back_at_once_goes_on_serving(void **state) {
    hear(ask("/"));
    pthread_t first = world.rendered;
    for (int round = 0; round < 200; round++) {
        sem_post(&world.may_come_back); /* lets the next call of the disk return at once */
        hear(ask("/slow"));
        sem_wait(&world.is_aside);
        sem_wait(&world.is_back);
    }
    hear(ask("/"));
    assert_true(pthread_equal(world.rendered, first));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(somebody_serves_while_the_thread_waits_for_a_disk),
        cmocka_unit_test(who_comes_back_at_once_goes_on_serving),
    };
    return cmocka_run_group_tests(tests, open_door, close_door);
}
