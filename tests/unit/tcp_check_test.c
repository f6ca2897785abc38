/* tcp_check_test.c: whether a process listens at an address, as the host's kernel reports at once or later
 * (broker/shell/pair/tcp_check.h). This host's kernel always reports at once, so later reports are simulated. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <netdb.h>
#include <poll.h>

#include "tcp_check.h"

static int connect_error, later_error; /* the kernel's result of connect, and the result that it reports later */
static int polled;                     /* simulated result of poll */

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size) {
    errno = connect_error;
    return connect_error == 0 ? 0 : -1;
}

int __wrap_poll(struct pollfd *items, nfds_t count, int wait_ms);
int __wrap_poll(struct pollfd *items, nfds_t count, int wait_ms) {
    assert_int_equal(count, 1);
    assert_int_equal(items->events, POLLOUT);
    assert_int_equal(wait_ms, 123);
    return polled;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    assert_int_equal(level, SOL_SOCKET);
    assert_int_equal(name, SO_ERROR);
    assert_int_equal(*size, sizeof later_error);
    memcpy(value, &later_error, sizeof later_error);
    return 0;
}

static int check(int at_once, int events, int later) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    const struct addrinfo to = {.ai_family = AF_INET,
                                .ai_addr = (struct sockaddr *)&address,
                                .ai_addrlen = sizeof address};
    connect_error = at_once;
    polled = events;
    later_error = later;
    return tcp_check_once(&to, 123);
}

static void what_the_kernel_says_at_once_is_the_answer(void **state) {
    assert_int_equal(check(ECONNREFUSED, 0, 0), ECONNREFUSED);
    assert_int_equal(check(ENETUNREACH, 1, 0), ENETUNREACH);
    assert_int_equal(check(0, 1, 0), 0);
}

static void what_the_kernel_says_later_is_the_answer(void **state) {
    assert_int_equal(check(EINPROGRESS, 1, ECONNREFUSED), ECONNREFUSED);
    assert_int_equal(check(EINPROGRESS, 1, 0), 0);
}

static void a_silent_host_refuses_nothing(void **state) {
    assert_int_equal(check(EINPROGRESS, 0, ECONNREFUSED), ETIMEDOUT);
}

static void no_descriptor_stays_open(void **state) {
    int before = dup(STDERR_FILENO), after;
    close(before);
    check(ECONNREFUSED, 0, 0);
    check(EINPROGRESS, 1, 0);
    after = dup(STDERR_FILENO);
    close(after);
    assert_int_equal(after, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_kernel_says_at_once_is_the_answer),
        cmocka_unit_test(what_the_kernel_says_later_is_the_answer),
        cmocka_unit_test(a_silent_host_refuses_nothing),
        cmocka_unit_test(no_descriptor_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
