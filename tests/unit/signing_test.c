/* signing_test.c: key files, signed heads, and the file that stores them. */
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
#include <sodium.h>

#include "bytes.h"
#include "heads.h"

/* ---- keys */

static void a_key_file_is_read_as_it_was_written(void **state) {
    struct sign_secret secret, read;
    struct sign_public public;
    char text[SIGN_KEY_TEXT_SIZE];
    sign_key_generate(&secret);
    size_t size = sign_secret_format(&secret, text);
    assert_int_equal(size, strlen(text));
    assert_null(sign_secret_parse(text, size, &read));
    assert_memory_equal(&read, &secret, sizeof(secret));
    size = sign_public_format(&secret.public, text);
    assert_null(sign_public_parse(text, size, &public));
    assert_memory_equal(&public, &secret.public, sizeof(public));
}

/* RFC 8032, 7.1, test 1: the key file has the seed of the standard, so other implementations can use it. */
static void the_seed_is_that_of_rfc_8032(void **state) {
    static const uint8_t public[] = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe,
                                     0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6,
                                     0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
    uint8_t hash[32];
    char id[17], text[SIGN_KEY_TEXT_SIZE];
    struct sign_secret secret;
    crypto_generichash(hash, sizeof(hash), public, sizeof(public), NULL, 0);
    sodium_bin2hex(id, sizeof(id), hash, 8);
    snprintf(text, sizeof(text), "tarry-secret-key 1\nid %s\nsecret %s\n", id,
             "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    assert_null(sign_secret_parse(text, strlen(text), &secret));
    assert_memory_equal(secret.public.bytes, public, sizeof(public));
}

static void no_other_text_is_a_key(void **state) {
    struct sign_secret secret;
    struct sign_public public;
    char text[SIGN_KEY_TEXT_SIZE], other[SIGN_KEY_TEXT_SIZE + 1];
    sign_key_generate(&secret);
    size_t size = sign_secret_format(&secret, text);
    for (size_t i = 0; i < size; i++) {
        assert_non_null(sign_secret_parse(text, i, &secret)); /* truncated */
        for (unsigned bit = 0; bit < 8; bit++) {              /* a changed bit must be noticed, whichever it is */
            memcpy(other, text, size);
            other[i] = (char)(other[i] ^ 1 << bit);
            assert_non_null(sign_secret_parse(other, size, &secret));
        }
    }
    memcpy(other, text, size);
    other[size] = '\n';
    assert_string_equal(sign_secret_parse(other, size + 1, &secret),
                        "is a key file of Tarry, but has extra bytes after its end");
    assert_non_null(strstr(sign_public_parse(text, size, &public), "is a secret key"));
    size = sign_public_format(&secret.public, text);
    assert_non_null(strstr(sign_secret_parse(text, size, &secret), "is a public key"));
    text[17] = '2';
    assert_non_null(strstr(sign_public_parse(text, size, &public), "in a version"));
    assert_string_equal(sign_public_parse("hello", 5, &public), "is not a key file of Tarry");
}

/* ---- heads */

/* Compares the fields one by one, because the padding of the structs may differ. */
static void same_head(const struct head *one, const struct head *other) {
    uint8_t bytes[HEAD_SIZE], others[HEAD_SIZE];
    head_encode(one, bytes);
    head_encode(other, others);
    assert_memory_equal(bytes, others, HEAD_SIZE);
}

static struct head a_head(uint64_t number, const struct sign_secret *secret) {
    struct head head = {.number = number,
                        .position = 4096 + 1000 * number,
                        .segment = 4096,
                        .kept_from = 4096,
                        .steady_ns = number,
                        .wall_ns = 7 * number,
                        .epoch = 3};
    memset(head.cluster, 0xc1, sizeof(head.cluster));
    memset(head.chain, (int)number, sizeof(head.chain));
    head_sign(&head, secret);
    return head;
}

static void every_bit_of_a_head_is_signed_or_summed(void **state) {
    struct sign_secret secret, other;
    struct head read;
    uint8_t bytes[HEAD_SIZE];
    sign_key_generate(&secret);
    sign_key_generate(&other);
    struct head head = a_head(5, &secret);
    head_encode(&head, bytes);
    assert_true(head_decode(bytes, &read));
    same_head(&read, &head);
    assert_true(head_is_signed(&read, &secret.public));
    assert_false(head_is_signed(&read, &other.public));
    for (size_t i = 0; i < HEAD_SIZE * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_false(head_decode(bytes, &read));
        /* After a change, the checksum is corrected. */
        put_u64(bytes + HEAD_SIZE - 8, frame_sum(bytes, HEAD_SIZE - 8));
        if (i / 8 < HEAD_SIZE - 8 && head_decode(bytes, &read)) assert_false(head_is_signed(&read, &secret.public));
        head_encode(&head, bytes);
    }
}

static void a_head_is_a_line_of_text(void **state) {
    struct sign_secret secret;
    struct head read;
    char text[HEAD_TEXT_SIZE], other[HEAD_TEXT_SIZE + 8];
    sign_key_generate(&secret);
    struct head head = a_head(1, &secret);
    head_format(&head, text);
    assert_int_equal(strlen(text), HEAD_TEXT_SIZE - 1);
    snprintf(other, sizeof(other), " %s\n", text);
    assert_true(head_parse(other, &read));
    same_head(&read, &head);
    for (size_t i = 0; i < strlen(text); i++) {
        snprintf(other, sizeof(other), "%.*s", (int)i, text);
        assert_false(head_parse(other, &read));
    }
    snprintf(other, sizeof(other), "%s %s", text, "x");
    assert_false(head_parse(other, &read));
}

/* ---- the file */

struct place {
    char directory[64];
    char path[80];
    struct sign_secret secret;
    struct heads heads;
};

static int set_up(void **state) {
    struct place *place = calloc(1, sizeof(*place));
    *state = place;
    strcpy(place->directory, "/tmp/tarry-heads-test-XXXXXX");
    if (mkdtemp(place->directory) == NULL) return -1;
    snprintf(place->path, sizeof(place->path), "%s/heads", place->directory);
    sign_key_generate(&place->secret);
    return heads_open(&place->heads, &disk_posix, place->directory);
}

static int tear_down(void **state) {
    struct place *place = *state;
    heads_close(&place->heads);
    unlink(place->path);
    rmdir(place->directory);
    free(place);
    return 0;
}

static void reopen(struct place *place) {
    heads_close(&place->heads);
    assert_int_equal(heads_open(&place->heads, &disk_posix, place->directory), 0);
}

static void append(struct place *place, uint64_t number) {
    struct head head = a_head(number, &place->secret);
    assert_int_equal(heads_append(&place->heads, &head), 0);
}

static void last_is(struct place *place, uint64_t number) {
    struct head head;
    uint64_t damaged;
    assert_int_equal(heads_last(&place->heads, place->secret.public.id, &head, &damaged), 0);
    assert_int_equal(head.number, number);
}

static void heads_are_kept(void **state) {
    struct place *place = *state;
    struct head head;
    uint64_t damaged;
    assert_int_equal(heads_last(&place->heads, place->secret.public.id, &head, &damaged), 1);
    for (uint64_t number = 1; number <= 3; number++) append(place, number);
    assert_int_equal(place->heads.count, 3);
    reopen(place);
    append(place, 4);
    reopen(place);
    assert_int_equal(place->heads.count, 4);
    last_is(place, 4);
    assert_int_equal(heads_read(&place->heads, 1, &head), 0);
    assert_int_equal(head.number, 2);
}

/* A power cut may leave a part of the last signed head. The file's reader must not accept this entry, and the next head
 * replaces it. */
static void a_torn_head_is_written_over(void **state) {
    struct place *place = *state;
    append(place, 1);
    for (off_t size = 1; size <= HEAD_SIZE; size++) {
        append(place, 2);
        assert_int_equal(truncate(place->path, HEAD_SIZE + size), 0);
        if (size == HEAD_SIZE) { /* the entry is complete, but its bytes differ from those that were written */
            int file = open(place->path, O_WRONLY);
            assert_int_equal(pwrite(file, "\0\0\0\0\0\0\0\0", 8, HEAD_SIZE + 100), 8);
            close(file);
        }
        reopen(place);
        assert_int_equal(place->heads.count, 1);
        assert_int_equal(place->heads.torn_bytes, size);
        last_is(place, 1);
        append(place, 2);
        reopen(place);
        assert_int_equal(place->heads.count, 2);
        assert_int_equal(place->heads.torn_bytes, 0);
        last_is(place, 2);
        assert_int_equal(truncate(place->path, HEAD_SIZE), 0);
        reopen(place);
    }
}

static void damage_before_the_end_is_no_torn_head(void **state) {
    struct place *place = *state;
    struct head head;
    uint64_t damaged;
    for (uint64_t number = 1; number <= 3; number++) append(place, number);
    int file = open(place->path, O_WRONLY);
    assert_int_equal(pwrite(file, "x", 1, HEAD_SIZE + 5), 1);
    close(file);
    reopen(place);
    assert_int_equal(place->heads.count, 3);
    assert_int_equal(heads_read(&place->heads, 1, &head), 1);
    last_is(place, 3);
    uint8_t nobody[SIGN_KEY_ID_SIZE] = {0};
    assert_int_equal(heads_last(&place->heads, nobody, &head, &damaged), 1);
    assert_int_equal(damaged, 1);
}

/* A disk whose sync fails. */
static int sync_error;
static int failing_datasync(void *context, int handle) {
    return sync_error != 0 ? sync_error : disk_posix.datasync(context, handle);
}

static void what_could_not_be_synced_is_written_again(void **state) {
    struct place *place = *state;
    struct disk disk = disk_posix;
    disk.datasync = failing_datasync;
    heads_close(&place->heads);
    assert_int_equal(heads_open(&place->heads, &disk, place->directory), 0);
    append(place, 1);
    struct head head = a_head(2, &place->secret);
    sync_error = -EIO;
    assert_int_equal(heads_append(&place->heads, &head), -EIO);
    assert_int_equal(place->heads.count, 1);
    sync_error = 0;
    head = a_head(2, &place->secret);
    head.position += 8;
    head_sign(&head, &place->secret);
    assert_int_equal(heads_append(&place->heads, &head), 0);
    reopen(place);
    struct head read;
    assert_int_equal(place->heads.count, 2);
    assert_int_equal(heads_read(&place->heads, 1, &read), 0);
    same_head(&read, &head);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_file_is_read_as_it_was_written),
        cmocka_unit_test(the_seed_is_that_of_rfc_8032),
        cmocka_unit_test(no_other_text_is_a_key),
        cmocka_unit_test(every_bit_of_a_head_is_signed_or_summed),
        cmocka_unit_test(a_head_is_a_line_of_text),
        cmocka_unit_test_setup_teardown(heads_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_torn_head_is_written_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_before_the_end_is_no_torn_head, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_could_not_be_synced_is_written_again, set_up, tear_down),
    };
    if (sodium_init() < 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
