/* boot_test.c: a note from the current boot is accepted, and every other note is rejected (TIME-2, F-32). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

#define STEADY UINT64_C(1763724000123456789)

static char directory[] = "/tmp/tarry-boot-XXXXXX";
static char path[64];

static int setup(void **state) {
    (void)state;
    if (mkdtemp(directory) == NULL) return 1;
    snprintf(path, sizeof(path), "%s/boot", directory);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static size_t load(char *out, size_t size) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(out, 1, size, file);
    fclose(file);
    return got;
}

static void store(const char *data, size_t size) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static void what_was_noted_is_recalled(void **unused) {
    (void)unused;
    assert_int_equal(boot_recall(directory), 0);
    assert_int_equal(boot_note(directory, STEADY), 0);
    assert_int_equal(boot_recall(directory), STEADY);
    assert_int_equal(boot_note(directory, 7), 0);
    assert_int_equal(boot_recall(directory), 7);
    assert_true(boot_note("/nowhere/at/all", 7) > 0);
    assert_int_equal(boot_note(directory, 0), 0); /* notes that the steady time is unknown (0) */
    assert_int_equal(boot_recall(directory), 0);
    assert_int_equal(boot_recall("/nowhere/at/all"), 0);
}

/* TIME-1: the time in an old note may be ahead of the true time, so the note is removed. */
static void a_note_that_cannot_be_replaced_is_gone(void **unused) {
    (void)unused;
    char fresh[64];
    snprintf(fresh, sizeof(fresh), "%s/boot.new", directory);
    assert_int_equal(boot_note(directory, STEADY), 0);
    assert_int_equal(mkdir(fresh, 0700), 0);
    assert_true(boot_note(directory, STEADY - 7) > 0);
    assert_int_equal(boot_recall(directory), 0);
    assert_int_equal(rmdir(fresh), 0);
    assert_int_equal(boot_note(directory, STEADY - 7), 0);
    assert_int_equal(boot_recall(directory), STEADY - 7);
}

static void another_boots_note_and_half_a_note_say_nothing(void **unused) {
    (void)unused;
    char note[256], changed[256];
    assert_int_equal(boot_note(directory, STEADY), 0);
    size_t size = load(note, sizeof(note));
    assert_true(size > 40);
    for (size_t kept = 0; kept < size; kept++) {
        store(note, kept);
        assert_int_equal(boot_recall(directory), 0);
    }
    size_t number = size - 20; /* the bytes before the number identify the boot of the machine */
    for (size_t at = 0; at < number; at++) {
        memcpy(changed, note, size);
        changed[at] ^= 1;
        store(changed, size);
        assert_int_equal(boot_recall(directory), 0);
    }
    store(note, size);
    assert_int_equal(boot_recall(directory), STEADY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_noted_is_recalled, setup, NULL),
        cmocka_unit_test(a_note_that_cannot_be_replaced_is_gone),
        cmocka_unit_test_setup_teardown(another_boots_note_and_half_a_note_say_nothing, NULL, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
