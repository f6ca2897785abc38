/* log_tail_test.c: torn tails at every byte, and a flip of every bit (LOG-5, F-1, F-2). Exhaustive, not sampled.
 *
 * A log is made on the model disk, its file is damaged in one way, and the log is opened. Allowed results: the log
 * opens with a prefix of the appended frames that contains all acknowledged ones; or it is refused with a sentence.
 * A frame that differs from the appended one is never allowed. Without sanitizers it covers the full 64 KiB: half a
 * million flips, and as many torn tails. The argument `torn` or `flip` runs one half of the tests, so that two cores
 * can share them.
 *
 * Contents are larger than bodies here, and frames few, because an open must hash all headers and bodies. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>

#include "../model_disk.h"
#include "log.h"

/* True in builds that need small tests: a sanitized build, and the build with seeded bugs, which runs this test once
 * for each of many bugs. */
#if defined(__SANITIZE_ADDRESS__) || defined(TARRY_SEEDED_BUGS)
#define IS_SLOW true
#else
#define IS_SLOW false
#endif
#define FRAMES_MAX 512
#define HEADER_SIZE 4096

struct fixture {
    struct model_disk *model;
    struct log_options options;
    struct log *log;
    uint64_t positions[FRAMES_MAX + 1]; /* positions of the frames, and of the end */
    uint8_t chains[FRAMES_MAX + 1][FRAME_CHAIN_SIZE];
    bool has_blob[FRAMES_MAX + 1];
    size_t frame_count;
    uint64_t acknowledged;
    uint64_t variant; /* number that selects the contents */
    size_t tears;
};

static void begin(struct fixture *f, uint64_t segment_size, uint64_t variant) {
    memset(f, 0, sizeof(*f));
    f->model = model_new(7);
    f->model->directory_exists = true;
    f->variant = variant;
    f->options = (struct log_options){.directory = "/d/log", .disk = &f->model->disk, .segment_size = segment_size};
    struct log_recovery recovery;
    char message[512];
    assert_int_equal(log_open(&f->log, &f->options, 0, &recovery, message, sizeof(message)), 0);
    f->positions[0] = LOG_POSITION_FIRST;
}

static void append(struct fixture *f, uint16_t type, uint32_t body_size, uint32_t blob_size) {
    static uint8_t bytes[8192];
    assert_true(body_size + blob_size <= sizeof(bytes) && f->frame_count < FRAMES_MAX);
    for (size_t i = 0; i < body_size + blob_size; i++)
        bytes[i] = (uint8_t)((i * 31 + f->frame_count * 7 + f->variant) % 251);
    struct log_piece piece = {bytes, blob_size};
    struct log_frame frame = {.type = type,
                              .epoch = 1,
                              .position = f->positions[f->frame_count],
                              .steady_ns = f->frame_count + 1,
                              .wall_ns = f->frame_count + 1 + f->variant,
                              .body = bytes + blob_size,
                              .body_size = body_size,
                              .pieces = &piece,
                              .piece_count = 1};
    assert_int_equal(log_append(f->log, &frame), 0);
    f->has_blob[f->frame_count] = blob_size > 0;
    f->frame_count++;
    f->positions[f->frame_count] = log_end(f->log);
    log_chain(f->log, f->chains[f->frame_count]);
}

static void sync_log(struct fixture *f) {
    assert_int_equal(log_sync(f->log), 0);
    f->acknowledged = log_durable(f->log);
}

static void stop(struct fixture *f) {
    assert_int_equal(log_write(f->log), 0);
    log_close(f->log);
    f->log = NULL;
    model_kill(f->model);
}

static void end(struct fixture *f) {
    model_free(f->model);
}

/* Result of an attempt to open the log. */
struct verdict {
    int result;
    uint64_t end;
    uint64_t cut_bytes;
    uint64_t stray_bytes;
    char message[512];
};

/* Opens the log, compares it with the appended frames, and closes it. */
static struct verdict reopen(struct fixture *f, uint64_t scan_from) {
    struct verdict verdict = {0};
    struct log_recovery recovery;
    struct log *log = NULL;
    verdict.result = log_open(&log, &f->options, scan_from, &recovery, verdict.message, sizeof(verdict.message));
    if (verdict.result < 0) {
        assert_null(log);
        assert_int_equal(verdict.result, LOG_DAMAGED);
        assert_true(strlen(verdict.message) > 20);
        memset(f->model->handles, 0, sizeof(f->model->handles));
        return verdict;
    }
    verdict.end = recovery.end;
    verdict.cut_bytes = recovery.cut_bytes;
    verdict.stray_bytes = recovery.stray_bytes;
    size_t count = 0;
    while (count < f->frame_count && f->positions[count] < recovery.end) count++;
    assert_int_equal(f->positions[count], recovery.end);
    /* The hash chain covers every byte except contents, and their checksums were verified. So equal chains mean equal
     * histories. */
    assert_memory_equal(f->chains[count], recovery.chain, FRAME_CHAIN_SIZE);
    assert_true(recovery.end >= f->acknowledged);
    log_close(log);
    return verdict;
}

/* A copy of a file's bytes, to restore it after damage. */
struct image {
    struct model_file *file;
    uint8_t *bytes;
    size_t size;
};

static struct image image_take(struct fixture *f, const char *name) {
    struct image image = {.file = model_lookup(f->model, name)};
    assert_non_null(image.file);
    if (!image.file)
        abort(); /* tells clang's analyzer, which does not know cmocka's asserts, that the pointer is not null */
    image.size = image.file->cached_size;
    image.bytes = malloc(image.size);
    memcpy(image.bytes, image.file->cached, image.size);
    return image;
}

static void image_restore(const struct image *image) {
    model_writes_drop(image->file);
    memcpy(image->file->cached, image->bytes, image->size);
    image->file->cached_size = image->size;
}

static size_t offset_of(uint64_t position) {
    return HEADER_SIZE + (size_t)(position - LOG_POSITION_FIRST);
}

static const char first_name[] = "0000000000001000.seg";

/* Makes two acknowledged batches, and then one batch of several frames that was written but not acknowledged. */
static void build_torn(struct fixture *f, uint64_t segment_size, uint64_t variant, size_t scale) {
    begin(f, segment_size, variant);
    append(f, FRAME_COMMIT, 100, 0);
    append(f, FRAME_COMMIT, 33, 90);
    sync_log(f);
    append(f, FRAME_COMMIT, 200, 0);
    sync_log(f);
    for (size_t i = 0; i < scale; i++) {
        append(f, FRAME_COMMIT, 90, 70 + 850 * (scale > 2));
        append(f, FRAME_COMMIT, 1, 0);
        append(f, FRAME_SEAL, 0, 0);
        append(f, FRAME_COMMIT, 120, 513 + 5400 * (scale > 2));
        append(f, FRAME_COMMIT, 77, 0);
    }
    stop(f);
}

/* Expects the frames before `offset` in the log. The bytes after `offset` are damaged, but if they happen to form valid
 * frames, the log may contain these too. */
static void expect_cut(struct fixture *f, size_t offset) {
    struct verdict verdict = reopen(f, f->acknowledged);
    if (verdict.result < 0) fail_msg("torn at %zu: %s", offset, verdict.message);
    size_t whole = 0;
    while (whole < f->frame_count && offset_of(f->positions[whole + 1]) <= offset) whole++;
    if (verdict.end < f->positions[whole]) fail_msg("torn at %zu: ends at %" PRIu64, offset, verdict.end);
    /* A cut is permanent, so a second opening cuts nothing. This is checked for every eighth torn tail, of any kind. */
    if (f->tears++ % 8 != 0) return;
    struct verdict again = reopen(f, f->acknowledged);
    assert_int_equal(again.result, 0);
    assert_int_equal(again.end, verdict.end);
    assert_int_equal(again.cut_bytes, 0);
}

static uint64_t random_state = 99;
static uint64_t draw(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

/* Draws eight bytes at a time (splitmix64), because one draw per byte took a third of the test's time. */
static void fill_with_garbage(uint8_t *bytes, size_t size) {
    uint64_t state = draw(UINT32_MAX);
    for (size_t i = 0; i < size; i += sizeof(state)) {
        uint64_t mixed = (state += 0x9E3779B97F4A7C15u);
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
        mixed ^= mixed >> 31;
        memcpy(bytes + i, &mixed, size - i < sizeof(mixed) ? size - i : sizeof(mixed));
    }
}

static void torn_at_every_byte(uint64_t segment_size, size_t scale) {
    struct fixture f, old;
    build_torn(&f, segment_size, 0, scale);
    build_torn(&old, segment_size, 1, scale); /* the frames have the same sizes and positions, but other contents */
    struct image image = image_take(&f, first_name);
    struct image stale = image_take(&old, first_name);
    size_t from = offset_of(f.acknowledged), to = offset_of(f.positions[f.frame_count]);
    size_t step = 1;
    for (size_t offset = from; offset <= to; offset += offset + step > to && offset < to ? to - offset : step) {
        uint8_t *bytes = f.model->files[0].cached;
        assert_ptr_equal(image.file->cached, bytes);
        /* zeros */
        image_restore(&image);
        memset(image.file->cached + offset, 0, image.size - offset);
        expect_cut(&f, offset);
        /* First kind: the file is cut short. */
        image_restore(&image);
        image.file->cached_size = offset;
        expect_cut(&f, offset);
        /* Second kind: random bytes up to the end of the written bytes, or of the file. */
        image_restore(&image);
        size_t garbage_to = draw(2) ? to : image.size;
        fill_with_garbage(image.file->cached + offset, garbage_to - offset);
        expect_cut(&f, offset);
        /* Third kind: old bytes from an earlier history. */
        image_restore(&image);
        memcpy(image.file->cached + offset, stale.bytes + offset, image.size - offset);
        expect_cut(&f, offset);
        /* Fourth kind: sectors of the tail in random order, some of them never written. */
        image_restore(&image);
        size_t sectors = (to - offset) / MODEL_SECTOR_SIZE;
        for (size_t i = 0; i < sectors; i++)
            memcpy(image.file->cached + offset + i * MODEL_SECTOR_SIZE,
                   (draw(3) ? image.bytes : stale.bytes) + offset + draw(sectors) * MODEL_SECTOR_SIZE,
                   MODEL_SECTOR_SIZE);
        expect_cut(&f, offset);
        image_restore(&image);
        for (size_t at = (offset + MODEL_SECTOR_SIZE - 1) / MODEL_SECTOR_SIZE * MODEL_SECTOR_SIZE; at < to;
             at += MODEL_SECTOR_SIZE)
            if (draw(2)) memset(image.file->cached + at, 0, MODEL_SECTOR_SIZE);
        expect_cut(&f, offset < to ? from : offset);
    }
    free(image.bytes);
    free(stale.bytes);
    end(&f);
    end(&old);
}

static void a_torn_tail_is_cut_at_every_byte(void **state) { /* F-1, LOG-5 */
    torn_at_every_byte(8192, 2);
    if (!IS_SLOW) torn_at_every_byte(73728, 9);
}

/* An acknowledged batch is followed by a seal: nothing before the seal may be cut, wherever it is damaged. */
static void a_sealed_tail_is_refused_at_every_byte(void **state) { /* F-1, LOG-5 */
    struct fixture f;
    begin(&f, 8192, 0);
    append(&f, FRAME_COMMIT, 100, 30);
    append(&f, FRAME_COMMIT, 500, 0);
    append(&f, FRAME_COMMIT, 20, 200);
    sync_log(&f);
    append(&f, FRAME_SEAL, 0, 0);
    stop(&f);
    struct image image = image_take(&f, first_name);
    size_t from = offset_of(f.positions[0]), seal = offset_of(f.positions[3]), to = offset_of(f.positions[4]);
    for (size_t offset = from; offset < seal; offset++) {
        for (int how = 0; how < 3; how++) {
            image_restore(&image);
            if (how == 0) image.file->cached[offset] ^= 0x40;
            if (how == 1) memset(image.file->cached + offset, 0xaa, seal - offset);
            if (how == 2) memset(image.file->cached + offset, 0, seal - offset);
            if (memcmp(image.file->cached, image.bytes, image.size) == 0) continue;
            struct verdict verdict = reopen(&f, 0);
            if (verdict.result == 0) fail_msg("spoilt at %zu in way %d, and nobody noticed", offset, how);
            /* A refusal changes nothing on disk, so the next opening is refused too. */
            assert_int_equal(reopen(&f, f.acknowledged).result, LOG_DAMAGED);
        }
    }
    /* The seal itself, and the bytes after it, were never acknowledged. */
    for (size_t offset = seal; offset < to; offset++) {
        image_restore(&image);
        memset(image.file->cached + offset, 0xaa, image.size - offset);
        assert_int_equal(reopen(&f, 0).end, f.positions[3]);
    }
    free(image.bytes);
    end(&f);
}

/* Returns whether the bit is the flag of a frame with an erased content. A redaction sets this flag without a new
 * checksum, so a flipped flag is not noticed. The flag only makes readers check each content by the content's own
 * checksum, which they always do. tarry verify finds a flag without a redaction (storage/offline/verify.c). */
static bool is_flag_of_erasure(const struct fixture *f, size_t bit) {
    for (size_t i = 0; i < f->frame_count; i++) {
        bool is_flag = bit == 8 * (offset_of(f->positions[i]) + FRAME_FLAGS_OFFSET);
        if (is_flag && f->has_blob[i]) return true;
    }
    return false;
}

/* Flips every bit of the file, one at a time, and opens the log. */
static void flip_every_bit(struct fixture *f, const char *name, uint64_t base, size_t sealed_end, bool is_last) {
    struct image image = image_take(f, name);
    size_t refused = 0, noticed = 0;
    for (size_t bit = 0; bit < image.size * 8; bit++) {
        uint8_t mask = (uint8_t)(1u << bit % 8);
        image.file->cached[bit / 8] ^= mask;
        struct verdict verdict = reopen(f, f->options.read_only ? base : f->acknowledged);
        bool is_refused = verdict.result < 0;
        bool is_noticed = !is_refused && (is_last ? verdict.cut_bytes : verdict.stray_bytes) > 0;
        if (is_flag_of_erasure(f, bit) && !is_refused && !is_noticed) {
            image_restore(&image);
            noticed++;
            continue;
        }
        if (!is_refused && !is_noticed) fail_msg("bit %zu of byte %zu of %s: nobody noticed", bit % 8, bit / 8, name);
        /* An acknowledged frame is never cut: the open is refused. */
        assert_int_equal(verdict.result, bit / 8 < sealed_end ? LOG_DAMAGED : 0);
        refused += is_refused;
        noticed += is_noticed;
        /* A refusal changes nothing on disk, so only the flipped bit must be restored. */
        image.file->cached[bit / 8] ^= mask;
        if (!is_refused || bit % 1024 == 0) {
            if (is_refused) assert_memory_equal(image.file->cached, image.bytes, image.size);
            image_restore(&image);
        }
    }
    assert_int_equal(refused + noticed, image.size * 8);
    free(image.bytes);
}

static void flip_in_one_segment(uint64_t segment_size, size_t batches) {
    struct fixture f;
    begin(&f, segment_size, 0);
    for (size_t i = 0; i < batches; i++) {
        append(&f, FRAME_COMMIT, 40 + i, segment_size > 4096 ? 1250 : 0);
        append(&f, FRAME_COMMIT, 3, 90 + i % 100);
        sync_log(&f);
    }
    append(&f, FRAME_SEAL, 0, 0);
    stop(&f);
    assert_int_equal(f.model->file_count, 1);
    flip_every_bit(&f, first_name, LOG_POSITION_FIRST, offset_of(f.acknowledged), true);
    end(&f);
}

static void every_flipped_bit_is_noticed(void **state) { /* F-2, LOG-5 */
    flip_in_one_segment(4096, 4);
    if (!IS_SLOW) flip_in_one_segment(65536, 36);
}

static void every_flipped_bit_of_a_closed_segment_is_noticed(void **state) { /* F-2, LOG-5 */
    struct fixture f;
    begin(&f, 2048, 0);
    append(&f, FRAME_COMMIT, 800, 100);
    append(&f, FRAME_COMMIT, 600, 0);
    append(&f, FRAME_COMMIT, 700, 300);
    stop(&f);
    assert_int_equal(f.model->file_count, 2);
    f.acknowledged = f.positions[2]; /* the log synced these frames before it began the second segment */
    f.options.read_only = true;
    flip_every_bit(&f, first_name, LOG_POSITION_FIRST, offset_of(f.positions[2]), false);
    end(&f);
}

int main(int argc, char **argv) {
    if (sodium_init() < 0) return 1; /* selects the fast implementation of BLAKE2b */
    const struct CMUnitTest torn[] = {
        cmocka_unit_test(a_torn_tail_is_cut_at_every_byte),
        cmocka_unit_test(a_sealed_tail_is_refused_at_every_byte),
    };
    const struct CMUnitTest flipped[] = {
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(every_flipped_bit_of_a_closed_segment_is_noticed),
    };
    int failed = 0;
    if (argc < 2 || strcmp(argv[1], "torn") == 0) failed += cmocka_run_group_tests_name("torn tails", torn, NULL, NULL);
    if (argc < 2 || strcmp(argv[1], "flip") == 0)
        failed += cmocka_run_group_tests_name("flipped bits", flipped, NULL, NULL);
    return failed;
}
