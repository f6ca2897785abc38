/* http_body_test.c: how a request body is received and decompressed in portions (broker/http/http_body.c). No call does
 * more work than HTTP_PIECE bytes, whatever a client sends (CALM-1), and the door counts all memory before it is used
 * (CAP-1). The door is simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "http_body.h"

#define PACKED_MAX (256u << 10)

static struct {
    size_t counted, half; /* memory of bodies that the door has counted */
    bool is_small, is_whole;
    bool lacks_share, lacks_room;
} world;

bool door_stream_count(struct door *door, uint64_t id, size_t size) {
    if (world.lacks_share) return false;
    world.counted = size;
    return true;
}

bool door_stream_half(struct door *door, uint64_t id, size_t size, bool is_small) {
    if (world.lacks_room && size > world.half && !is_small) return false;
    world.half = size;
    world.is_small = is_small;
    return true;
}

void door_stream_whole(struct door *door, uint64_t id) {
    world.is_whole = true;
}

struct fx {
    struct http_body body;
    struct head head;
    char *plain; /* HTTP_BODY_MAX + 1 bytes */
    char *packed;
    size_t packed_size;
};

static int begin(void **state) {
    struct fx *f = *state = calloc(1, sizeof(*f));
    memset(&world, 0, sizeof(world));
    if (f == NULL) return 1;
    f->plain = malloc(HTTP_BODY_MAX + 1);
    f->packed = malloc(PACKED_MAX);
    if (f->plain == NULL || f->packed == NULL) return 1;
    for (size_t i = 0; i <= HTTP_BODY_MAX; i++) f->plain[i] = (char)('a' + i / 997 % 26);
    return 0;
}

static int end(void **state) {
    struct fx *f = *state;
    body_deinit(&f->body);
    free(f->plain);
    free(f->packed);
    free(f);
    return world.counted != 0 || world.half != 0;
}

static void pack(struct fx *f, const char *encoding, size_t size) {
    f->head.fields[HEAD_FIELD_encoding].text = (char *)encoding;
    if (strcmp(encoding, "zstd") == 0) {
        f->packed_size = ZSTD_compress(f->packed, PACKED_MAX, f->plain, size, 3);
        assert_false(ZSTD_isError(f->packed_size));
        return;
    }
    z_stream gzip = {.next_in = (unsigned char *)f->plain,
                     .avail_in = (unsigned)size,
                     .next_out = (unsigned char *)f->packed,
                     .avail_out = PACKED_MAX};
    assert_int_equal(deflateInit2(&gzip, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&gzip, Z_FINISH), Z_STREAM_END);
    f->packed_size = gzip.total_out;
    deflateEnd(&gzip);
}

/* Gives the bytes to the body in pieces of `part` bytes. Returns the status of the refusal, or 0. */
static unsigned receive(struct fx *f, const char *bytes, size_t size, size_t part) {
    for (size_t at = 0; at < size;) {
        size_t given = size - at < part ? size - at : part;
        bool more = true;
        for (size_t used = 0; used < given || more;) {
            size_t count = given - used, before = f->body.size;
            struct body_refusal refusal = body_take(&f->body, bytes + at + used, &count, &more);
            assert_in_range(f->body.size - before, 0, HTTP_PIECE); /* CALM-1 */
            assert_true(f->body.capacity <= world.half);           /* CAP-1 */
            assert_true(f->body.capacity <= world.counted);
            if (refusal.status != 0) {
                assert_non_null(refusal.sentence);
                return refusal.status;
            }
            assert_true(count > 0 || used == given ||
                        f->body.size > before); /* each call consumes input or adds to the body */
            used += count;
        }
        at += given;
    }
    return 0;
}

static void is_received(struct fx *f, size_t size) {
    assert_true(body_finish(&f->body));
    assert_int_equal(f->body.size, size);
    assert_memory_equal(f->body.bytes, f->plain, size);
    assert_int_equal(f->body.bytes[size], '\0');
}

static const char *const encodings[] = {"gzip", "zstd"};

static void a_plain_body_comes_in_pieces(void **state) {
    struct fx *f = *state;
    f->head.length = HTTP_BODY_MAX;
    assert_int_equal(body_begin(&f->body, &f->head).status, 0);
    size_t count = HTTP_BODY_MAX;
    bool more = true;
    assert_int_equal(body_take(&f->body, f->plain, &count, &more).status, 0);
    assert_int_equal(count, HTTP_PIECE);
    assert_false(more);
    assert_int_equal(f->body.capacity,
                     HTTP_BODY_MAX + 1); /* the buffer has exactly the capacity that Content-Length announces */
    assert_int_equal(receive(f, f->plain + count, HTTP_BODY_MAX - count, HTTP_BODY_MAX), 0);
    is_received(f, HTTP_BODY_MAX);
    assert_int_equal(receive(f, "x", 1, 1), 413);
}

static void a_body_longer_than_allowed_is_refused_by_its_head(void **state) {
    struct fx *f = *state;
    f->head.length = HTTP_BODY_MAX + 1;
    assert_int_equal(body_begin(&f->body, &f->head).status, 413);
    f->head.length = 1;
    f->head.fields[HEAD_FIELD_encoding].text = (char *)"br";
    assert_int_equal(body_begin(&f->body, &f->head).status, 415);
}

/* Some kilobytes decompress to 16 MiB. One received part of the request takes 256 calls, each of which decompresses at
 * most HTTP_PIECE bytes. */
static void a_packed_body_is_unpacked_in_pieces(void **state) { /* CALM-1 */
    struct fx *f = *state;
    for (size_t i = 0; i < 2; i++) {
        pack(f, encodings[i], HTTP_BODY_MAX);
        assert_int_equal(body_begin(&f->body, &f->head).status, 0);
        assert_int_equal(receive(f, f->packed, f->packed_size, f->packed_size), 0);
        is_received(f, HTTP_BODY_MAX);
        body_unpacked(&f->body);
        assert_true(world.is_whole);
        /* Only the body's memory is counted, because the decompressor's was freed. */
        assert_int_equal(world.half, f->body.capacity);
        assert_int_equal(receive(f, "x", 1, 1), 413);
        body_deinit(&f->body);
        assert_int_equal(world.half, 0);
    }
}

static void a_body_that_unpacks_to_too_much_is_refused(void **state) {
    struct fx *f = *state;
    pack(f, "gzip", HTTP_BODY_MAX + 1);
    assert_int_equal(body_begin(&f->body, &f->head).status, 0);
    assert_int_equal(receive(f, f->packed, f->packed_size, f->packed_size), 413);
    assert_in_range(f->body.size, 1, HTTP_BODY_MAX);
    body_deinit(&f->body);
    pack(f, "zstd", HTTP_BODY_MAX + 1); /* the frame states its size, so the body is refused before decompression */
    assert_int_equal(body_begin(&f->body, &f->head).status, 0);
    assert_int_equal(receive(f, f->packed, f->packed_size, f->packed_size), 413);
    assert_int_equal(f->body.size, 0);
    assert_int_equal(world.half, 0);
}

static void every_cut_gives_the_same_body(void **state) {
    struct fx *f = *state;
    enum { SIZE = 200000 };
    for (size_t i = 0; i < 2; i++) {
        pack(f, encodings[i], SIZE);
        for (size_t part = 1; part < 40; part++) {
            assert_int_equal(body_begin(&f->body, &f->head).status, 0);
            assert_int_equal(receive(f, f->packed, f->packed_size, part), 0);
            is_received(f, SIZE);
            body_deinit(&f->body);
        }
    }
}

static void what_is_not_whole_or_not_packed_is_refused(void **state) {
    struct fx *f = *state;
    for (size_t i = 0; i < 2; i++) {
        pack(f, encodings[i], 5000);
        assert_int_equal(body_begin(&f->body, &f->head).status, 0);
        assert_int_equal(receive(f, f->packed, f->packed_size - 1, 7), 0);
        assert_false(body_finish(&f->body));
        assert_int_equal(receive(f, f->packed + f->packed_size - 1, 1, 1), 0);
        assert_true(body_finish(&f->body));
        assert_int_equal(receive(f, "x", 1, 1), 400); /* refused, because the body has ended already */
        body_deinit(&f->body);
        assert_int_equal(body_begin(&f->body, &f->head).status, 0);
        assert_int_equal(receive(f, f->plain, 100, 100), 400);
        body_deinit(&f->body);
    }
}

/* The compressed body of an ack is small too, so it gets memory while the door has none for larger bodies. */
static void a_small_packed_body_finds_room(void **state) {
    struct fx *f = *state;
    world.lacks_room = true;
    for (size_t i = 0; i < 2; i++) {
        pack(f, encodings[i], 500);
        assert_int_equal(body_begin(&f->body, &f->head).status, 0);
        assert_int_equal(receive(f, f->packed, f->packed_size, 10), 0);
        is_received(f, 500);
        body_deinit(&f->body);
        pack(f, encodings[i], 4 * DOOR_SMALL_MAX);
        assert_int_equal(body_begin(&f->body, &f->head).status, 0);
        assert_int_equal(receive(f, f->packed, f->packed_size, f->packed_size), 503);
        body_deinit(&f->body);
    }
}

static void a_principal_has_a_share_of_the_bytes(void **state) {
    struct fx *f = *state;
    assert_int_equal(body_begin(&f->body, &f->head).status, 0);
    world.lacks_share = true;
    bool more;
    size_t count = 1;
    struct body_refusal refusal = body_take(&f->body, f->plain, &count, &more);
    world.lacks_share = false;
    assert_int_equal(refusal.status, 503);
    assert_non_null(strstr(refusal.sentence, "bytes="));
    assert_null(f->body.bytes);
}

#define BODY_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        BODY_TEST(a_plain_body_comes_in_pieces),        BODY_TEST(a_body_longer_than_allowed_is_refused_by_its_head),
        BODY_TEST(a_packed_body_is_unpacked_in_pieces), BODY_TEST(a_body_that_unpacks_to_too_much_is_refused),
        BODY_TEST(every_cut_gives_the_same_body),       BODY_TEST(what_is_not_whole_or_not_packed_is_refused),
        BODY_TEST(a_small_packed_body_finds_room),      BODY_TEST(a_principal_has_a_share_of_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
