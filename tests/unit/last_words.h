/* last_words.h: runs code that ends its process in a child, and captures the child's standard error. Included only once
 * per test. */
#ifndef TARRY_TESTS_LAST_WORDS_H
#define TARRY_TESTS_LAST_WORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Calls `it` in a child process. Returns the child's exit status (0 if `it` returned), and up to size - 1 bytes of its
 * output as text. */
static inline int last_words_of(void (*it)(void *argument), void *argument, char *out, size_t size) {
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        it(argument);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], out + used, size - 1 - used)) > 0;) used += (size_t)got;
    out[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#endif
