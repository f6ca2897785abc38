/* identity_test.c: a copy is another member of the same cluster, with separate epochs; a damaged identity is refused;
 * and which file names a broker may send for a backup. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "archive.h"
#include "archive_keep.h"
#include "backup_directory.h"
#include "identity.h"

static void copies_are_other_members(void **state) {
    struct identity own, copy, other;
    struct member member, first, second;
    (void)state;
    identity_make(&own);
    member_make(&member);
    assert_int_equal(member.epoch_min, 1);
    uint32_t lowest = UINT32_MAX, highest = 0;
    for (int i = 0; i < 200; i++) {
        assert_true(identity_copy(&own, &member, 7, &copy, &first));
        assert_memory_equal(copy.cluster, own.cluster, CLUSTER_ID_SIZE);
        assert_memory_not_equal(copy.secret, own.secret, IDENTITY_SECRET_SIZE);
        assert_memory_not_equal(first.id, member.id, MEMBER_ID_SIZE);
        assert_memory_equal(first.parent, member.id, MEMBER_ID_SIZE);
        assert_in_range(first.epoch_min, 7 + RESTORE_EPOCH_GAP, 7 + 2 * RESTORE_EPOCH_GAP);
        if (first.epoch_min < lowest) lowest = first.epoch_min;
        if (first.epoch_min > highest) highest = first.epoch_min;
    }
    /* Epochs of two copies of the same original are far apart. */
    assert_true(highest - lowest > RESTORE_EPOCH_GAP / 2);
    /* The copy of a copy that was never started has later epochs. */
    assert_true(identity_copy(&copy, &first, 7, &other, &second));
    assert_true(second.epoch_min >= first.epoch_min + RESTORE_EPOCH_GAP);
}

static void epochs_come_to_an_end(void **state) {
    struct identity own, copy;
    struct member member, made;
    uint32_t copies = 0;
    (void)state;
    identity_make(&own);
    member_make(&member);
    while (identity_copy(&own, &member, 0, &copy, &made)) {
        assert_true(made.epoch_min > member.epoch_min);
        member = made;
        assert_true(++copies < 2000);
    }
    assert_true(copies > 500);
    assert_false(identity_copy(&own, &(struct member){.epoch_min = 1}, UINT32_MAX, &copy, &made));
}

static void files_come_back_and_no_flipped_bit_passes(void **state) {
    char directory[] = "/tmp/tarry-identity-XXXXXX", message[IDENTITY_MESSAGE_SIZE], path[64];
    struct identity own, read;
    struct member member, member_back;
    uint8_t bytes[IDENTITY_SIZE], member_bytes[MEMBER_SIZE];
    (void)state;
    assert_non_null(mkdtemp(directory));
    identity_make(&own);
    member_make(&member);
    member.epoch_min = 4711;
    assert_int_equal(identity_read(directory, &read, message), -ENOENT);
    assert_int_equal(member_read(directory, &member_back, message), -ENOENT);
    assert_int_equal(identity_write(directory, &own), 0);
    assert_int_equal(member_write(directory, &member), 0);
    assert_int_equal(identity_read(directory, &read, message), 0);
    assert_int_equal(member_read(directory, &member_back, message), 0);
    assert_memory_equal(&own, &read, sizeof(own));
    assert_memory_equal(&member, &member_back, sizeof(member));
    identity_encode(&own, bytes);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(identity_decode(bytes, sizeof(bytes), "x", &read, message), 1);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    member_encode(&member, member_bytes);
    for (size_t bit = 0; bit < 8 * sizeof(member_bytes); bit++) {
        member_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(member_decode(member_bytes, sizeof(member_bytes), "x", &member_back, message), 1);
        member_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t size = 0; size < sizeof(bytes); size++)
        assert_int_equal(identity_decode(bytes, size, "x", &read, message), 1);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, i == 0 ? IDENTITY_NAME : MEMBER_NAME);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(directory), 0);
}

static void names_stay_in_the_directory(void **state) {
    static const char *const right[] = {"identity", "log/0000000000001000.seg", "index/data.mdb", "heads/a-b_c.1"};
    static const char *const wrong[] = {"",         "/etc/passwd",    "..",       "../x",
                                        "log/../x", "log/.x",         "a/b/c",    "a/",
                                        "/a",       "a//b",           "lo g/seg", ".x",
                                        "a\nb",     "backup.partial", "a\\b",     "\xc3\xa4"};
    char longest[BACKUP_NAME_SIZE_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) assert_true(backup_name_is_right(right[i]));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) assert_false(backup_name_is_right(wrong[i]));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    assert_false(backup_name_is_right(longest));
    longest[BACKUP_NAME_SIZE_MAX] = 0;
    assert_true(backup_name_is_right(longest));
}

static void an_archive_knows_its_owner_and_no_other(void **state) {
    char directory[] = "/tmp/tarry-identity-XXXXXX", path[64];
    const struct archive archive = {.disk = &disk_posix, .directory = directory};
    struct archive_owner owner, known;
    uint8_t bytes[128];
    (void)state;
    assert_non_null(mkdtemp(directory));
    for (unsigned i = 0; i < 16; i++) owner.cluster[i] = (uint8_t)(i + 1), owner.member[i] = (uint8_t)(0xf0 - i);
    assert_int_equal(archive_owner_read(&archive, &known), -ENOENT);
    assert_int_equal(archive_owner_write(&archive, &owner), 0);
    assert_int_equal(archive_owner_read(&archive, &known), 0);
    assert_memory_equal(&known, &owner, sizeof owner);
    snprintf(path, sizeof path, "%s/owner", directory);
    int handle = open(path, O_RDWR);
    ssize_t size = pread(handle, bytes, sizeof bytes, 0);
    assert_in_range(size, 48, sizeof bytes - 1);
    for (ssize_t i = 0; i < size; i++) {
        const uint8_t wrong = bytes[i] ^ 0x10;
        assert_int_equal(pwrite(handle, &wrong, 1, i), 1);
        assert_int_equal(archive_owner_read(&archive, &known), LOG_DAMAGED);
        assert_int_equal(pwrite(handle, &bytes[i], 1, i), 1);
    }
    close(handle);
    unlink(path);
    rmdir(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_other_members),
        cmocka_unit_test(epochs_come_to_an_end),
        cmocka_unit_test(files_come_back_and_no_flipped_bit_passes),
        cmocka_unit_test(names_stay_in_the_directory),
        cmocka_unit_test(an_archive_knows_its_owner_and_no_other),
    };
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
