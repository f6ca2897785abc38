/* tables.c: large tables for a fuzz target that makes them again for every input, as a core does: 50 MB each time,
 * of which little is touched. The linker replaces calloc and free by these functions (-Wl,--wrap): a large table is
 * mapped once, cleared by the kernel and used again, with an inaccessible page after it. */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define LARGE_SIZE (64u << 10)
#define TABLES_MAX 64
#define PAGE_SIZE 4096u

static struct table {
    uint8_t *data;
    size_t size; /* size of the mapped table in bytes; a multiple of the page size */
    bool used;
} tables[TABLES_MAX];

void *__real_calloc(size_t count, size_t size);
void __real_free(void *data);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *data);

void *__wrap_calloc(size_t count, size_t size) {
    size_t wanted;
    if (__builtin_mul_overflow(count, size, &wanted) || wanted < LARGE_SIZE) return __real_calloc(count, size);
    wanted = (wanted + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
    struct table *table = tables;
    while (table < tables + TABLES_MAX && table->data != NULL && (table->used || table->size != wanted)) table++;
    if (table == tables + TABLES_MAX) return __real_calloc(count, size);
    if (table->data == NULL) {
        uint8_t *data =
            /* cppcheck-suppress invalidFunctionArg ; MAP_ANONYMOUS requires the descriptor -1 */
            mmap(NULL, wanted + PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED || mprotect(data + wanted, PAGE_SIZE, PROT_NONE) != 0) return NULL;
        *table = (struct table){.data = data, .size = wanted};
    }
    table->used = true;
    return table->data;
}

void __wrap_free(void *data) {
    for (struct table *table = tables; table < tables + TABLES_MAX && table->data != NULL; table++) {
        if (table->data != data) continue;
        int failed = madvise(data, table->size, MADV_DONTNEED);
        assert(table->used && failed == 0);
        table->used = false;
        return;
    }
    __real_free(data);
}
