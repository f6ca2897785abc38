/* slab_test.c: the core's memory (CAP-1, CALM-1): what slab_need_pages promises, and which pages return to the pool. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../random.h"
#include "slab.h"
#include "sparse.h"

/* Returns whether `count` more objects of this size fit. */
static bool fits(const struct slab *slab, size_t size, size_t count) {
    struct slab_need need = {0};
    slab_need_add(&need, size, (uint32_t)count);
    return slab_need_pages(slab, &need) <= slab_pages_free(slab);
}

static void room_is_exactly_what_can_be_had(void **state) { /* CALM-1, CAP-1 */
    (void)state;
    struct slab *slab = slab_new(4 * SLAB_PAGE_SIZE + 1000);
    assert_non_null(slab);
    assert_int_equal(slab_capacity(slab), 4 * SLAB_PAGE_SIZE);
    static const size_t sizes[] = {1, 16, 17, 96, 240, 1000, SLAB_OBJECT_SIZE_MAX};
    static void *objects[4 * SLAB_PAGE_SIZE / 16];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t room = 4 * (SLAB_PAGE_SIZE / ((sizes[s] + 15) / 16 * 16));
        for (size_t i = 0; i < room; i++) {
            objects[i] = slab_alloc(slab, sizes[s]);
            assert_non_null(objects[i]);
            assert_int_equal((uintptr_t)objects[i] % 16, 0);
            assert_true(fits(slab, sizes[s], room - i - 1) && !fits(slab, sizes[s], room - i));
        }
        assert_null(slab_alloc(slab, sizes[s]));
        assert_null(slab_alloc(slab, 1)); /* no page is left for an object of another size either */
        assert_int_equal(slab_used(slab), slab_capacity(slab));
        for (size_t i = 0; i < room; i++) slab_release(slab, objects[i], sizes[s]);
        assert_int_equal(slab_used(slab), 0); /* no page stays in use when all objects are freed */
    }
    slab_release(slab, NULL, 16);
    slab_free_all(slab);
    slab_free_all(NULL);
    assert_null(slab_new(SLAB_PAGE_SIZE - 1));
}

struct held {
    uint8_t *at;
    size_t size;
    uint8_t fill;
};

/* Objects never overlap and keep their bytes, and the computed free space is always right. */
static void random_use_keeps_every_byte(void **state) {
    (void)state;
    enum { HELD = 3000, OPERATIONS = 200000 };
    struct random random = {random_seed(5)};
    struct slab *slab = slab_new((size_t)24 * SLAB_PAGE_SIZE);
    assert_non_null(slab);
    static struct held held[HELD];
    for (int n = 0; n < OPERATIONS; n++) {
        struct held *h = &held[random_below(&random, HELD)];
        if (h->at != NULL) {
            for (size_t i = 0; i < h->size; i++) assert_int_equal(h->at[i], h->fill);
            slab_release(slab, h->at, h->size);
            h->at = NULL;
            continue;
        }
        h->size = 1 + (random_below(&random, 2) ? random_below(&random, 128) : random_below(&random, 1024));
        h->fill = (uint8_t)random_u64(&random);
        bool has_room = fits(slab, h->size, 1);
        h->at = slab_alloc(slab, h->size);
        assert_int_equal(h->at != NULL, has_room);
        if (h->at == NULL) continue;
        memset(h->at, h->fill, h->size);
        assert_true(slab_used(slab) <= slab_capacity(slab));
    }
    for (int i = 0; i < HELD; i++) slab_release(slab, held[i].at, held[i].size);
    assert_int_equal(slab_used(slab), 0);
    slab_free_all(slab);
}

/* CAP-1: if slab_need_pages says that objects fit, they fit in any order. With one page less they would not always fit.
 */
static void a_need_of_many_sizes_is_known_in_pages(void **state) {
    (void)state;
    struct random random = {random_seed(6)};
    for (int round = 0; round < 300; round++) {
        struct slab *slab = slab_new((size_t)40 * SLAB_PAGE_SIZE);
        assert_non_null(slab);
        for (size_t i = random_below(&random, 3000); i > 0; i--) slab_alloc(slab, 1 + random_below(&random, 600));
        struct slab_need need = {0};
        static size_t sizes[4001];
        size_t count = 0;
        while (count < 4000) {
            sizes[count] = 1 + random_below(&random, SLAB_OBJECT_SIZE_MAX);
            slab_need_add(&need, sizes[count], 1);
            if (slab_need_pages(slab, &need) > slab_pages_free(slab)) break;
            count++;
        }
        assert_true(count > 0 && count < 4000);
        uint64_t before = slab_allocated(slab);
        for (size_t i = count; i-- > 0;) assert_non_null(slab_alloc(slab, sizes[i]));
        assert_int_equal(slab_allocated(slab) - before, count);
        assert_null(slab_alloc(slab, sizes[count])); /* the object that was one too many has no space */
        slab_free_all(slab);
    }
}

/* Returns true if writing a byte at this address kills the process. */
static bool is_deadly(uint8_t *at) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* back to the default, because cmocka's handler would continue with the next test */
        *(volatile uint8_t *)at = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status != 0;
}

/* Tests sparse.h, which uses calloc in builds without memory checks. */
static void a_table_is_zero_to_its_end_and_no_further(void **state) {
    static const size_t sizes[] = {1, 4, 24, 16, 1800};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = 4097 * sizes[i];
        uint8_t *table = sparse_new(4097, sizes[i]);
        assert_non_null(table);
        for (size_t k = 0; k < bytes; k++) assert_int_equal(table[k], 0);
        memset(table, 1, bytes);
#if defined(__SANITIZE_ADDRESS__)
        assert_true(is_deadly(table + bytes + SPARSE_ALIGN - 1));
#endif
        assert_false(is_deadly(table + bytes - 1));
        sparse_free(table, 4097, sizes[i]);
    }
    sparse_free(NULL, 1, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_exactly_what_can_be_had),
        cmocka_unit_test(random_use_keeps_every_byte),
        cmocka_unit_test(a_need_of_many_sizes_is_known_in_pages),
        cmocka_unit_test(a_table_is_zero_to_its_end_and_no_further),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
