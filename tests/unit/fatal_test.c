/* fatal_test.c: if there is no memory for an operation that cannot be refused, the process ends with an error message
 * (broker/shell/process/fatal.h). */
#include <stdlib.h>
#include <string.h>

#include "fatal.h"
#include "last_words.h"

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

static void take_piece(void *argument) {
    (void)argument;
    is_out_of_memory = true;
    memset(fatal_calloc(100), 1, 100);
}

static void take_of_arena(void *argument) {
    (void)argument;
    is_out_of_memory = true;
    struct arena arena;
    fatal_arena_init(&arena);
    memset(arena_alloc(&arena, 100), 1, 100);
}

static void a_process_without_memory_ends_with_a_sentence(void **state) { /* F-11 */
    void (*const all[])(void *) = {take_piece, take_of_arena};
    char said[512];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(last_words_of(all[i], NULL, said, sizeof said), EXIT_STORAGE);
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
