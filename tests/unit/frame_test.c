/* frame_test.c: the header of a frame, byte by byte. The vectors are written by hand from the table in frame.h, so that
 * a change of the code cannot change the format unnoticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "frame.h"
#include "tarry_limits.h"

static void random_header(struct random *random, struct frame_header *out) {
    *out = (struct frame_header){
        .type = FRAME_COMMIT,
        .flags = (uint16_t)random_below(random, 2),
        .epoch = (uint32_t)random_u64(random),
        .body_size = (uint32_t)random_below(random, FRAME_BODY_SIZE_MAX + 1),
        .blob_size = 1 + (uint32_t)random_below(random, FRAME_BLOB_SIZE_MAX),
        .position = random_u64(random),
        .synced_to = random_u64(random),
        .steady_ns = random_u64(random),
        .wall_ns = random_u64(random),
        .body_sum = random_u64(random),
        .blob_sum = random_u64(random),
    };
    for (size_t i = 0; i < FRAME_CHAIN_SIZE; i++) out->chain[i] = (uint8_t)random_u64(random);
    if (random_below(random, 4) != 0) return;
    out->type = FRAME_SEAL;
    out->flags = 0;
    out->body_size = out->blob_size = 0;
}

static void header_is_equal(const struct frame_header *a, const struct frame_header *b) {
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->body_size, b->body_size);
    assert_int_equal(a->blob_size, b->blob_size);
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->synced_to, b->synced_to);
    assert_int_equal(a->steady_ns, b->steady_ns);
    assert_int_equal(a->wall_ns, b->wall_ns);
    assert_int_equal(a->body_sum, b->body_sum);
    assert_int_equal(a->blob_sum, b->blob_sum);
    assert_memory_equal(a->chain, b->chain, FRAME_CHAIN_SIZE);
}

static void decode_after_encode_is_the_identity(void **state) {
    (void)state;
    struct random random = {random_seed(1)};
    for (int n = 0; n < 100000; n++) {
        struct frame_header header, back;
        uint8_t bytes[FRAME_HEADER_SIZE], again[FRAME_HEADER_SIZE];
        random_header(&random, &header);
        frame_header_encode(&header, bytes);
        assert_true(frame_header_decode(bytes, &back));
        header_is_equal(&header, &back);
        frame_header_encode(&back, again);
        assert_memory_equal(bytes, again, FRAME_HEADER_SIZE);
    }
}

static void every_flipped_bit_is_found(void **state) { /* F-2 */
    (void)state;
    struct random random = {random_seed(2)};
    struct frame_header header, out;
    memset(&out, 0x5a, sizeof(out));
    struct frame_header untouched = out;
    uint8_t bytes[FRAME_HEADER_SIZE];
    random_header(&random, &header);
    frame_header_encode(&header, bytes);
    for (unsigned bit = 0; bit < 8 * FRAME_HEADER_SIZE; bit++) {
        if (bit == 8 * FRAME_FLAGS_OFFSET && header.type == FRAME_COMMIT) continue; /* tested below */
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(frame_header_decode(bytes, &out));
        assert_memory_equal(&out, &untouched, sizeof(out));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(frame_header_decode(bytes, &out));
}

/* The erased flag may be set later by writing a single byte. It means that each content must be checked by its own
 * checksum. */
static void the_flag_of_erased_contents_needs_no_new_sum(void **state) {
    (void)state;
    struct random random = {random_seed(4)};
    struct frame_header header, out;
    uint8_t bytes[FRAME_HEADER_SIZE], erased[FRAME_HEADER_SIZE];
    do random_header(&random, &header);
    while (header.type == FRAME_SEAL);
    header.flags = 0;
    frame_header_encode(&header, bytes);
    header.flags = FRAME_FLAG_ERASED;
    frame_header_encode(&header, erased);
    bytes[FRAME_FLAGS_OFFSET] |= FRAME_FLAG_ERASED;
    assert_memory_equal(bytes, erased, sizeof bytes);
    assert_true(frame_header_decode(bytes, &out));
    assert_int_equal(out.flags, FRAME_FLAG_ERASED);
}

static void what_is_erased_is_zeros(void **state) {
    (void)state;
    uint8_t blob[40] = {0};
    assert_true(content_is_erased(blob, sizeof blob));
    assert_false(content_is_erased(blob, 0));
    blob[39] = 1;
    assert_false(content_is_erased(blob, sizeof blob));
}

static void expect_refused(struct frame_header header) {
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header out;
    frame_header_encode(&header, bytes); /* the checksum is right, so the header itself must be refused */
    assert_false(frame_header_decode(bytes, &out));
}

static void a_header_that_lies_is_refused(void **state) { /* F-2, F-20 */
    (void)state;
    struct frame_header good = {.type = FRAME_COMMIT, .position = LOG_POSITION_FIRST, .body_size = 10};
    struct frame_header header = good;
    header.body_size = FRAME_BODY_SIZE_MAX + 1;
    expect_refused(header);
    header = good;
    header.blob_size = FRAME_BLOB_SIZE_MAX + 1;
    expect_refused(header);
    header = good;
    header.type = 0;
    expect_refused(header);
    header.type = 3;
    expect_refused(header);
    header.type = FRAME_SEAL; /* refused, because a seal has no body */
    expect_refused(header);
    header = good;
    header.flags = 2;
    expect_refused(header);
    header.flags = FRAME_FLAG_ERASED; /* refused, because a frame without contents has nothing to erase */
    expect_refused(header);
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_encode(&good, bytes);
    bytes[20] = 1; /* reserved */
    uint64_t sum = frame_sum(bytes, 104);
    for (int i = 0; i < 8; i++) bytes[104 + i] = (uint8_t)(sum >> 8 * i);
    assert_false(frame_header_decode(bytes, &header));
}

static void bytes_lie_where_the_table_says(void **state) {
    (void)state;
    struct frame_header header = {
        .type = 0x0001,
        .flags = 0x0001,
        .epoch = 0x0b0a0908,
        .body_size = 0x000e0d0c,
        .blob_size = 0x00121110,
        .position = 0x1f1e1d1c1b1a1918,
        .synced_to = 0x2726252423222120,
        .steady_ns = 0x2f2e2d2c2b2a2928,
        .wall_ns = 0x3736353433323130,
        .body_sum = 0x3f3e3d3c3b3a3938,
        .blob_sum = 0x4746454443424140,
    };
    for (uint8_t i = 0; i < FRAME_CHAIN_SIZE; i++) header.chain[i] = 72 + i;
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_encode(&header, bytes);
    assert_memory_equal(bytes, "TRY1\x01\x00\x01\x00", 8);
    for (uint8_t i = 8; i < 104; i++) {
        bool is_high_byte_of_a_size = i == 15 || i == 19, is_reserved = i >= 20 && i < 24;
        assert_int_equal(bytes[i], is_high_byte_of_a_size || is_reserved ? 0 : i);
    }
    bytes[6] = 0; /* does not change the checksum, which does not cover the flag */
    uint64_t sum = frame_sum(bytes, 104);
    for (int i = 0; i < 8; i++) assert_int_equal(bytes[104 + i], sum >> 8 * i & 0xff);
    assert_int_equal(frame_sum("", 0), 0x2d06800538d394c2); /* XXH3-64 of zero bytes, from its specification */
}

/* The chain covers all bytes of a frame except those that an erasure changes. */
static void the_chain_covers_all_but_erasure(void **state) {
    (void)state;
    uint8_t previous[FRAME_CHAIN_SIZE] = {1}, chain[FRAME_CHAIN_SIZE], other[FRAME_CHAIN_SIZE];
    uint8_t body[100] = "body";
    struct frame_header header = {.type = FRAME_COMMIT, .position = 4096, .body_size = 100, .blob_sum = 9};
    frame_chain(previous, &header, body, chain);
    struct frame_header erased = header;
    erased.flags = FRAME_FLAG_ERASED;
    erased.blob_sum = 0;
    frame_chain(previous, &erased, body, other);
    assert_memory_equal(chain, other, FRAME_CHAIN_SIZE);
    body[99] ^= 1;
    frame_chain(previous, &header, body, other);
    assert_memory_not_equal(chain, other, FRAME_CHAIN_SIZE);
    body[99] ^= 1;
    previous[31] ^= 1;
    frame_chain(previous, &header, body, other);
    assert_memory_not_equal(chain, other, FRAME_CHAIN_SIZE);
    previous[31] ^= 1;
    uint64_t *fields[] = {&header.position, &header.synced_to, &header.steady_ns, &header.wall_ns, &header.body_sum};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        *fields[i] ^= 1;
        frame_chain(previous, &header, body, other);
        assert_memory_not_equal(chain, other, FRAME_CHAIN_SIZE);
        *fields[i] ^= 1;
    }
    header.epoch++;
    frame_chain(previous, &header, body, other);
    assert_memory_not_equal(chain, other, FRAME_CHAIN_SIZE);
}

/* The hash equals BLAKE2b-256 of "abc" as `b2sum -l 256` prints it. */
static void content_hash_is_blake2b_256(void **state) {
    (void)state;
    static const uint8_t expected[CONTENT_HASH_SIZE] = {0xbd, 0xdd, 0x81, 0x3c, 0x63, 0x42, 0x39, 0x72,
                                                        0x31, 0x71, 0xef, 0x3f, 0xee, 0x98, 0x57, 0x9b,
                                                        0x94, 0x96, 0x4e, 0x3b, 0xb1, 0xcb, 0x3e, 0x42,
                                                        0x72, 0x62, 0xc8, 0xc0, 0x68, 0xd5, 0x23, 0x19};
    uint8_t hash[CONTENT_HASH_SIZE];
    content_hash("abc", 3, hash);
    assert_memory_equal(hash, expected, CONTENT_HASH_SIZE);
}

static void sizes_are_padded_to_eight(void **state) {
    (void)state;
    assert_int_equal(frame_size(0, 0), 112);
    assert_int_equal(frame_size(1, 0), 120);
    assert_int_equal(frame_size(4, 4), 120);
    assert_int_equal(frame_size(4, 5), 128);
    assert_int_equal(frame_size(UINT32_MAX, UINT32_MAX), (112ull + 2ull * UINT32_MAX + 7) / 8 * 8);
    assert_int_equal(frame_body_position(4096, 5), 4096 + 112 + 5);
    assert_int_equal(frame_blob_position(4096), 4096 + 112);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_after_encode_is_the_identity),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(the_flag_of_erased_contents_needs_no_new_sum),
        cmocka_unit_test(what_is_erased_is_zeros),
        cmocka_unit_test(a_header_that_lies_is_refused),
        cmocka_unit_test(bytes_lie_where_the_table_says),
        cmocka_unit_test(the_chain_covers_all_but_erasure),
        cmocka_unit_test(content_hash_is_blake2b_256),
        cmocka_unit_test(sizes_are_padded_to_eight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
