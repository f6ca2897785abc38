/* last_words.h: what ends a process is done in a child, which says why on standard error. Included by one test each. */
#ifndef TARRY_TESTS_LAST_WORDS_H
#define TARRY_TESTS_LAST_WORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Up to size - 1 bytes of what the child says, as a text, and its exit status; 0: `it` came back. */
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
