/* fatal_test.c: a process that gets no memory for what cannot be refused ends with a sentence
 * (broker/shell/process/fatal.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fatal.h"

static bool is_out_of_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return is_out_of_memory ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return is_out_of_memory ? NULL : __real_calloc(count, size);
}

static void take_piece(void) {
    memset(fatal_calloc(100), 1, 100);
}

static void take_of_arena(void) {
    struct arena arena;
    fatal_arena_init(&arena);
    memset(arena_alloc(&arena, 100), 1, 100);
}

/* What a child that does it says, and how it ends. */
static int do_it_without_memory(void (*it)(void), char *out, size_t size) {
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        is_out_of_memory = true;
        it();
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

static void a_process_without_memory_ends_with_a_sentence(void **state) { /* F-11 */
    void (*const all[])(void) = {take_piece, take_of_arena};
    char said[512];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(do_it_without_memory(all[i], said, sizeof said), EXIT_STORAGE);
        assert_string_equal(said, "event=memory_failed error=-12 reason=\"Cannot allocate memory\" action=exit\n");
    }
}

static void what_there_is_is_cleared(void **state) {
    static const uint8_t zeros[5000];
    for (size_t size = 0; size <= sizeof zeros; size += 1000) {
        void *memory = fatal_calloc(size);
        assert_non_null(memory);
        assert_memory_equal(memory, zeros, size);
        free(memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_without_memory_ends_with_a_sentence),
        cmocka_unit_test(what_there_is_is_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
