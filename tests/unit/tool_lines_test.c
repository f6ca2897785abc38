/* tool_lines_test.c: input lines of the tool, and data that it sends to a foreign server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../random.h"
#include "lines.h"
#include "server_link.h"

/* ---- output to a server that is not Tarry */

enum { SENT = 4 << 20 }; /* bytes; more than a socket accepts at once */

static void *receive_all(void *arg) {
    const int fd = *(int *)arg;
    char *got = malloc(SENT);
    size_t size = 0;
    for (ssize_t count; size < SENT && (count = recv(fd, got + size, SENT - size, 0)) > 0;) size += (size_t)count;
    shutdown(fd, SHUT_RDWR);
    return got;
}

static void what_the_socket_takes_in_parts_arrives_whole(void **state) {
    (void)state;
    int fds[2];
    pthread_t thread;
    void *got = NULL;
    struct random random = {random_seed(24)};
    uint64_t *data = malloc(SENT);
    assert_non_null(data);
    for (size_t i = 0; i < SENT / sizeof *data; i++) data[i] = random_u64(&random);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    struct server_link link = {.fd = fds[0], .timeout_ms = 60000};
    assert_int_equal(pthread_create(&thread, NULL, receive_all, &fds[1]), 0);
    assert_true(server_link_send(&link, data, SENT));
    assert_int_equal(pthread_join(thread, &got), 0);
    assert_memory_equal(got, data, SENT);
    server_link_close(&link);
    close(fds[1]);
    free(got);
    free(data);
}

/* ---- lines */

static void lines_come_as_they_arrive(void **state) {
    (void)state;
    int pipe_fds[2];
    struct lines lines;
    const char *line;
    size_t size;
    assert_int_equal(pipe(pipe_fds), 0);
    lines_init(&lines, pipe_fds[0], -1);
    assert_int_equal(write(pipe_fds[1], "one\n\nthr", 8), 8);
    assert_int_equal(lines_next(&lines, &line, &size),
                     LINES_LINE); /* if the function waited for more input, the test would hang here */
    assert_int_equal(size, 3);
    assert_memory_equal(line, "one", 3);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_LINE);
    assert_int_equal(size, 0);
    assert_int_equal(write(pipe_fds[1], "ee\nlast", 7), 7);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_LINE);
    assert_memory_equal(line, "three", 5);
    assert_int_equal(lines.number, 3);
    close(pipe_fds[1]);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_LINE);
    assert_memory_equal(line, "last", 4);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_END);
    assert_int_equal(lines.consumed, 15);
    lines_deinit(&lines);
    close(pipe_fds[0]);
}

/* The input is larger than the buffer, so its remainder moves to the front. The buffer must not grow. */
static void many_lines_are_the_same_lines(void **state) {
    (void)state;
    enum { LINES = 100000 };
    char path[] = "/tmp/tool-test-XXXXXX", want[64];
    int fd = mkstemp(path);
    struct lines lines;
    const char *line;
    size_t size;
    assert_true(fd >= 0);
    unlink(path);
    FILE *file = fdopen(dup(fd), "w");
    assert_non_null(file);
    for (int i = 0; i < LINES; i++) fprintf(file, "line %d %.*s\n", i, i % 31, "abcdefghijklmnopqrstuvwxyz01234");
    assert_int_equal(fclose(file), 0);
    lseek(fd, 0, SEEK_SET);
    lines_init(&lines, fd, -1);
    for (int i = 0; i < LINES; i++) {
        assert_int_equal(lines_next(&lines, &line, &size), LINES_LINE);
        assert_int_equal(size,
                         snprintf(want, sizeof want, "line %d %.*s", i, i % 31, "abcdefghijklmnopqrstuvwxyz01234"));
        assert_memory_equal(line, want, size);
    }
    assert_int_equal(lines_next(&lines, &line, &size), LINES_END);
    assert_in_range(lines.capacity, 1, 256 << 10);
    lines_deinit(&lines);
    close(fd);
}

static void a_line_that_is_too_long_is_skipped_and_counted(void **state) {
    (void)state;
    char path[] = "/tmp/tool-test-XXXXXX";
    int fd = mkstemp(path);
    struct lines lines;
    const char *line;
    size_t size, chunk = 1u << 20;
    char *data = malloc(chunk);
    memset(data, 'x', chunk);
    assert_true(fd >= 0);
    unlink(path);
    for (size_t i = 0; i < LINE_SIZE_MAX / chunk; i++) assert_int_equal(write(fd, data, chunk), chunk);
    assert_int_equal(write(fd, "\nb\n", 3), 3); /* the first line is now exactly as long as is allowed */
    for (size_t i = 0; i <= LINE_SIZE_MAX / chunk; i++) assert_int_equal(write(fd, data, chunk), chunk);
    assert_int_equal(write(fd, "\nc\nx", 4), 4);
    for (size_t i = 0; i <= LINE_SIZE_MAX / chunk; i++) assert_int_equal(write(fd, data, chunk), chunk);
    lseek(fd, 0, SEEK_SET);
    lines_init(&lines, fd, -1);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_LINE);
    assert_int_equal(size, LINE_SIZE_MAX);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_LINE);
    assert_memory_equal(line, "b", 1);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_TOO_LONG);
    assert_int_equal(lines.number, 3);
    assert_int_equal(lines_next(&lines, &line, &size), LINES_LINE);
    assert_int_equal(size, 1);
    assert_memory_equal(line, "c", 1);
    assert_int_equal(lines_next(&lines, &line, &size),
                     LINES_TOO_LONG); /* the last line has no line feed, and is too long */
    assert_int_equal(lines_next(&lines, &line, &size), LINES_END);
    lines_deinit(&lines);
    close(fd);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_socket_takes_in_parts_arrives_whole),
        cmocka_unit_test(lines_come_as_they_arrive),
        cmocka_unit_test(many_lines_are_the_same_lines),
        cmocka_unit_test(a_line_that_is_too_long_is_skipped_and_counted),
    };
    return cmocka_run_group_tests_name("tool_lines", tests, NULL, NULL);
}
