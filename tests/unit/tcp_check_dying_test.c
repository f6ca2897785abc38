/* tcp_check_dying_test.c: while a process is being killed, its kernel still accepts connections and then resets them
 * (broker/shell/pair/tcp_check.h). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tcp_check.h"

#define PATIENCE_MS 30000

static int refused_pipe[2];

static void on_refused(void *argument) {
    (void)!write(refused_pipe[1], "", 1);
}

/* Listens at a free port of this host. */
static int listen_somewhere(struct listen_address *out) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *out = (struct listen_address){.host = "127.0.0.1", .port = ntohs(address.sin_port)};
    return fd;
}

static bool is_readable(int fd, int wait_ms) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, wait_ms) > 0;
}

static void a_process_that_is_being_killed_is_found_gone(void **state) { /* F-10, F-27 */
    struct listen_address where;
    struct tcp_check *tcp_check;
    int listener = listen_somewhere(&where);
    assert_int_equal(pipe(refused_pipe), 0);
    assert_int_equal(tcp_check_open(&tcp_check, &where, on_refused, NULL), 0);
    tcp_check_start(tcp_check);
    assert_true(
        is_readable(listener, PATIENCE_MS)); /* the kernel accepts the connection, although no thread calls accept */
    close(listener);
    assert_true(is_readable(refused_pipe[0], PATIENCE_MS));
    tcp_check_close(tcp_check);
    close(refused_pipe[0]);
    close(refused_pipe[1]);
}

static void a_process_that_takes_the_connection_is_there(void **state) { /* F-13 */
    struct listen_address where;
    struct tcp_check *tcp_check;
    char byte;
    int listener = listen_somewhere(&where);
    assert_int_equal(pipe(refused_pipe), 0);
    assert_int_equal(tcp_check_open(&tcp_check, &where, on_refused, NULL), 0);
    tcp_check_start(tcp_check);
    int taken = accept(listener, NULL, NULL);
    assert_int_equal(read(taken, &byte, 1), 0); /* the check has closed its connection again */
    close(listener);
    tcp_check_close(tcp_check);
    assert_false(is_readable(refused_pipe[0], 0));
    close(taken);
    close(refused_pipe[0]);
    close(refused_pipe[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_is_being_killed_is_found_gone),
        cmocka_unit_test(a_process_that_takes_the_connection_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
