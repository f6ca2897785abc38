/* index_copy_test.c: a copy of the index equals it page by page, and LMDB can open the copy. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_alone.h"
#include "index_parts.h"

#define TASKS 10000u
#define STEP (1u << 20)
#define NOW_MS UINT64_C(1700000000000)

static struct index *open_index(const char *directory) {
    char message[256];
    struct index *index;
    const struct index_options options = {.directory = directory,
                                          .memory = 16u << 20,
                                          .outcomes_max = 1000,
                                          .outcome_retention_ms = 3600000,
                                          .no_sync = true};
    if (index_open(&index, &options, message, sizeof message) != 0) fail_msg("%s", message);
    return index;
}

static void schedule(struct index *index, uint64_t *position, uint64_t id) {
    char key[32];
    struct row row = {.id = id, .due_ms = NOW_MS + id, .scheduled_ms = NOW_MS, .queue = 1, .blob_at = 1, .key = key};
    row.key_size = (uint8_t)snprintf(key, sizeof key, "order-%llu", (unsigned long long)id);
    assert_int_equal(absorb_scheduled(index, position, &row), 0);
}

static uint8_t *read_file(const char *directory, size_t size) {
    char path[96];
    uint8_t *bytes = malloc(size);
    snprintf(path, sizeof path, "%s/data.mdb", directory);
    int handle = open(path, O_RDONLY);
    assert_true(handle >= 0);
    assert_non_null(bytes);
    ssize_t count = pread(handle, bytes, size, 0);
    assert_true(count >= 0);
    memset(bytes + count, 0, size - (size_t)count); /* at the end of the file there are pages that were never written */
    close(handle);
    return bytes;
}

static void a_copy_is_the_index_page_by_page(void **state) {
    char root[] = "/tmp/tarry-index-copy-XXXXXX", from[64], to[64], path[96], command[192];
    uint64_t position = LOG_POSITION_FIRST;
    struct index_copy *copy;
    struct index_meta meta;
    unsigned steps = 1;
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(from, sizeof from, "%s/from", root);
    snprintf(to, sizeof to, "%s/to", root);
    assert_true(mkdir(from, 0700) == 0 && mkdir(to, 0700) == 0);
    snprintf(path, sizeof path, "%s/data.mdb", to);
    struct index *index = open_index(from);
    for (uint64_t id = 1; id <= TASKS; id++) schedule(index, &position, id);
    assert_int_equal(index_commit(index), 0);
    int handle = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(handle >= 0);
    assert_int_equal(index_copy_begin(&copy, index), 0);
    for (int more; (more = index_copy_step(copy, handle, STEP)) != 0; steps++) assert_int_equal(more, 1);
    const size_t size = index_copy_size(copy);
    assert_true(size > STEP && steps > 1);
    assert_int_equal(index_copy_done(copy), size);
    assert_int_equal(index_copy_position(copy), position);
    index_copy_end(copy);
    close(handle);
    uint8_t *expected = read_file(from, size), *got = read_file(to, size);
    assert_memory_equal(got, expected, size);
    free(expected);
    free(got);
    index_close(index);
    snprintf(command, sizeof command, "cp %s/keyring %s", from, to);
    assert_int_equal(system(command), 0);
    index = open_index(to);
    index_meta(index, &meta);
    assert_int_equal(meta.position, position);
    schedule(index, &position, TASKS + 1);
    assert_int_equal(index_commit(index), 0);
    index_close(index);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_copy_is_the_index_page_by_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
