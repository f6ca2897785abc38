/* keyring_test.c: redacted contents that were moved into the index: destruction of their keys, replacement of the
 * keyring's file with a crash at every step, and a search for the contents in the index's files. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../random.h"
#include "index_parts.h"
#include "keyring.h"
#include "row.h"
#include "tarry.pb-c.h"

/* ---- keys */

struct keys {
    char directory[64];
    struct keyring *keyring;
};

static void keys_open(struct keys *keys) {
    assert_int_equal(keyring_open(&keys->keyring, keys->directory, false, true), 0);
}

static void keys_begin(struct keys *keys) {
    strcpy(keys->directory, "/tmp/tarry-keyring-XXXXXX");
    assert_non_null(mkdtemp(keys->directory));
    assert_int_equal(keyring_make(keys->directory, true), 0);
    keys_open(keys);
}

static void keys_end(struct keys *keys) {
    static const char *const names[] = {"", ".old", ".new"};
    keyring_close(keys->keyring);
    for (size_t i = 0; i < 3; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/keyring%s", keys->directory, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(keys->directory), 0);
}

/* Gets the first bytes of the cipher stream of `id`. Returns false if its key is destroyed. */
static bool stream_of(struct keys *keys, uint64_t id, uint8_t out[32]) {
    memset(out, 0, 32);
    return keyring_apply(keys->keyring, id, out, 32) == 0;
}

static const uint64_t key_ids[] = {0, 1, 2, 3, 4, 4095, 4096, 1u << 31, 1ull << 63, UINT64_MAX - 1, UINT64_MAX};
#define KEY_IDS (sizeof key_ids / sizeof key_ids[0])

static void a_destroyed_key_takes_no_other_along(void **state) {
    (void)state;
    struct keys keys;
    uint8_t before[KEY_IDS][32], after[32];
    keys_begin(&keys);
    for (size_t i = 0; i < KEY_IDS; i++) {
        assert_true(stream_of(&keys, key_ids[i], before[i]));
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(before[i], before[j], 32);
    }
    for (size_t gone = 0; gone < KEY_IDS; gone++) {
        assert_int_equal(keyring_destroy(keys.keyring, &key_ids[gone], 1), 0);
        assert_int_equal(keyring_destroy(keys.keyring, &key_ids[gone], 1),
                         0); /* a second redaction of the same tasks has no further effect */
        if (gone % 2) {
            keyring_close(keys.keyring);
            keys_open(&keys);
        }
        for (size_t i = KEY_IDS; i-- > 0;) {
            assert_int_equal(stream_of(&keys, key_ids[i], after), i > gone);
            if (i > gone) assert_memory_equal(after, before[i], 32);
        }
    }
    keys_end(&keys);
}

static void a_thousand_keys_at_random(void **state) {
    (void)state;
    struct keys keys;
    struct random random = {random_seed(11)};
    uint64_t gone[1000];
    uint8_t before[32], after[32];
    keys_begin(&keys);
    assert_true(stream_of(&keys, 5000, before));
    for (size_t i = 0; i < 1000; i++) gone[i] = 1 + random_below(&random, 4000);
    assert_int_equal(keyring_destroy(keys.keyring, gone, 1000), 0);
    for (uint64_t id = 1; id <= 4000; id++) {
        bool is_gone = false;
        for (size_t i = 0; i < 1000; i++) is_gone |= gone[i] == id;
        assert_int_equal(stream_of(&keys, id, after), !is_gone);
    }
    assert_true(stream_of(&keys, 5000, after));
    assert_memory_equal(before, after, 32);
    keys_end(&keys);
}

/* The keys of neighbouring ids are cached together (spans in keyring.c). Ids that are 2^25 apart use the same place in
 * the cache. */
static void a_key_is_the_same_in_whatever_order_it_is_asked_for(void **state) {
    (void)state;
    enum { SPAN = 256, FAR = 1 << 25, IDS = 60 };
    struct keys keys;
    struct random random = {random_seed(12)};
    uint64_t ids[IDS];
    uint8_t before[IDS][32], after[32];
    bool is_gone[IDS] = {0};
    keys_begin(&keys);
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = 1000 + i % 4 * FAR + i / 4 % 3 * SPAN + i / 12;
        keyring_close(keys.keyring); /* a newly opened keyring has nothing in its cache */
        keys_open(&keys);
        assert_true(stream_of(&keys, ids[i], before[i]));
    }
    for (size_t round = 0; round < 2000; round++) {
        size_t i = random_below(&random, IDS);
        assert_int_equal(stream_of(&keys, ids[i], after), !is_gone[i]);
        if (!is_gone[i]) assert_memory_equal(after, before[i], 32);
        if (round % 100 != 99) continue;
        assert_int_equal(keyring_destroy(keys.keyring, &ids[i], 1), 0);
        is_gone[i] = true;
    }
    keys_end(&keys);
}

static size_t read_file(const char *path, uint8_t *out, size_t size) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) return 0;
    ssize_t count = read(fd, out, size);
    close(fd);
    return count < 0 ? 0 : (size_t)count;
}

/* A hard link to the former keyring's file must show only zeros afterwards. */
static void the_former_keyring_is_overwritten(void **state) {
    (void)state;
    struct keys keys;
    char path[96], witness[96];
    static uint8_t bytes[65536];
    uint64_t id = 77;
    keys_begin(&keys);
    snprintf(path, sizeof path, "%s/keyring", keys.directory);
    snprintf(witness, sizeof witness, "%s/witness", keys.directory);
    assert_int_equal(link(path, witness), 0);
    assert_int_equal(keyring_destroy(keys.keyring, &id, 1), 0);
    size_t size = read_file(witness, bytes, sizeof bytes);
    assert_true(size > 0);
    assert_true(content_is_erased(bytes, size));
    assert_int_equal(unlink(witness), 0);
    keys_end(&keys);
}

/* A crash between the steps leaves one complete keyring, and nothing readable of the former one. */
static void a_replacement_may_stop_anywhere(void **state) {
    (void)state;
    static uint8_t former[65536], bytes[65536];
    for (int step = 0; step < 4; step++) {
        struct keys keys;
        char path[96], old[96], new[96], witness[96];
        uint64_t id = 77;
        uint8_t stream[32];
        keys_begin(&keys);
        snprintf(path, sizeof path, "%s/keyring", keys.directory);
        snprintf(old, sizeof old, "%s/keyring.old", keys.directory);
        snprintf(new, sizeof new, "%s/keyring.new", keys.directory);
        snprintf(witness, sizeof witness, "%s/witness", keys.directory);
        size_t size = read_file(path, former, sizeof former);
        assert_int_equal(link(path, witness), 0);
        /* Steps 0 to 3 are states that a crash can leave. Step 0: the old keyring has a second link, and the new file
         * is not renamed yet. */
        if (step == 0) assert_int_equal(link(path, old), 0);
        if (step == 1) assert_int_equal(rename(path, new), 0), assert_int_equal(link(new, path), 0);
        if (step >= 2) { /* steps 2 and 3: the new file is renamed, but the old one is not overwritten yet */
            assert_int_equal(keyring_destroy(keys.keyring, &id, 1), 0);
            int fd = open(old, O_CREAT | O_WRONLY, 0600);
            assert_int_equal(write(fd, former, size), (ssize_t)size);
            close(fd);
        }
        keyring_close(keys.keyring);
        keys_open(&keys);
        assert_int_equal(access(old, F_OK), -1);
        assert_int_equal(access(new, F_OK), -1);
        assert_int_equal(stream_of(&keys, 77, stream), step < 2);
        assert_true(stream_of(&keys, 78, stream));
        if (step < 2) { /* in steps 0 and 1 the old keyring was still in use, so it must be unchanged */
            assert_int_equal(read_file(witness, bytes, sizeof bytes), size);
            assert_memory_equal(bytes, former, size);
        }
        unlink(witness);
        keys_end(&keys);
    }
}

static void a_damaged_keyring_is_refused(void **state) {
    (void)state;
    struct keys keys;
    char path[96];
    static uint8_t bytes[65536];
    uint64_t ids[3] = {5, 9, 4000};
    keys_begin(&keys);
    assert_int_equal(keyring_destroy(keys.keyring, ids, 3), 0);
    keyring_close(keys.keyring);
    keys.keyring = NULL;
    snprintf(path, sizeof path, "%s/keyring", keys.directory);
    size_t size = read_file(path, bytes, sizeof bytes);
    for (size_t at = 0; at < size; at++) {
        int fd = open(path, O_WRONLY);
        uint8_t flipped = bytes[at] ^ 0x10;
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
        assert_int_equal(keyring_open(&keys.keyring, keys.directory, true, true), INDEX_DAMAGED);
        assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
        close(fd);
    }
    assert_int_equal(truncate(path, (off_t)size - 1), 0);
    assert_int_equal(keyring_open(&keys.keyring, keys.directory, true, true), INDEX_DAMAGED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(keyring_open(&keys.keyring, keys.directory, true, true), INDEX_DAMAGED);
    assert_int_equal(rmdir(keys.directory), 0);
}

/* ---- the index */

#define BLOB 300u

struct fx {
    char directory[64];
    struct index_options options;
    struct index *index;
    struct arena arena;
    uint64_t position;
    uint64_t frame[9]; /* for each id, the position of the frame that scheduled the task */
    uint8_t blob[9][BLOB];
};

static void fx_open(struct fx *f) {
    char message[256];
    if (index_open(&f->index, &f->options, message, sizeof message) != 0) fail_msg("%s", message);
}

static void fx_begin(struct fx *f) {
    *f = (struct fx){.position = LOG_POSITION_FIRST};
    strcpy(f->directory, "/tmp/tarry-erase-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->options = (struct index_options){.directory = f->directory,
                                        .memory = 16u << 20,
                                        .outcomes_max = 1000,
                                        .outcome_retention_ms = 3600000,
                                        .no_sync = true};
    arena_init(&f->arena, 64u << 20);
    fx_open(f);
}

static void fx_end(struct fx *f) {
    static const char *const names[] = {"data.mdb", "lock.mdb", "keyring"};
    index_close(f->index);
    arena_deinit(&f->arena);
    for (size_t i = 0; i < 3; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", f->directory, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(f->directory), 0);
}

static bool file_has(const struct fx *f, const void *bytes, size_t size) {
    char path[96];
    struct stat status;
    snprintf(path, sizeof path, "%s/data.mdb", f->directory);
    assert_int_equal(stat(path, &status), 0);
    uint8_t *all = malloc((size_t)status.st_size);
    size_t count = read_file(path, all, (size_t)status.st_size);
    bool found = memmem(all, count, bytes, size) != NULL;
    free(all);
    return found;
}

static struct row row_of(const struct fx *f, uint64_t id) {
    return (struct row){.id = id,
                        .due_ms = 1,
                        .scheduled_ms = 1,
                        .queue = 1,
                        .blob_at = frame_blob_position(f->frame[id]),
                        .blob_size = BLOB,
                        .blob_sum = frame_sum(f->blob[id], BLOB)};
}

static struct frame_header header_of(struct fx *f, uint64_t position) {
    return (struct frame_header){
        .type = FRAME_COMMIT, .position = position, .body_size = 96, .blob_size = BLOB, .steady_ns = 1, .wall_ns = 1};
}

static void absorb(struct fx *f, Tarry__Record *record) {
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    struct frame_header header = header_of(f, f->position);
    body.records = &record;
    body.n_records = 1;
    assert_int_equal(index_absorb(f->index, &header, &body), 0);
    f->position += frame_size(header.body_size, header.blob_size);
}

/* Makes the record that brings task `id`; its parts are in the arguments. */
static void fresh(const struct fx *f, uint64_t id, Tarry__Record *record, Tarry__TaskPut *put, Tarry__Task *task) {
    struct row row = row_of(f, id);
    tarry__record__init(record);
    tarry__task_put__init(put);
    tarry__task__init(task);
    row_to_task(&row, task);
    put->task = task;
    put->cause = TARRY__CAUSE__CAUSE_SCHEDULED;
    put->fresh = true;
    record->fact_case = TARRY__RECORD__FACT_PUT;
    record->put = put;
}

static void schedule(struct fx *f, uint64_t id) {
    Tarry__Record record;
    Tarry__TaskPut put;
    Tarry__Task task;
    struct random random = {id};
    f->frame[id] = f->position;
    for (size_t i = 0; i < BLOB; i++) f->blob[id][i] = (uint8_t)random_u64(&random);
    fresh(f, id, &record, &put, &task);
    absorb(f, &record);
}

static void end(struct fx *f, uint64_t id) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__TaskEnd task_end = TARRY__TASK_END__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    struct row row = row_of(f, id);
    row_to_task(&row, &task);
    task_end.task = &task;
    task_end.cause = TARRY__CAUSE__CAUSE_CANCELLED;
    record.fact_case = TARRY__RECORD__FACT_END;
    record.end = &task_end;
    absorb(f, &record);
}

static void redact(struct fx *f, uint64_t id) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__Redaction redaction = TARRY__REDACTION__INIT;
    uint8_t hash[CONTENT_HASH_SIZE];
    content_hash(f->blob[id], BLOB, hash);
    redaction.id = id;
    redaction.queue = 1;
    redaction.frame = f->frame[id];
    redaction.blob_at = frame_blob_position(f->frame[id]);
    redaction.blob_size = BLOB;
    redaction.content_hash = (ProtobufCBinaryData){sizeof hash, hash};
    redaction.reason = "why";
    record.fact_case = TARRY__RECORD__FACT_REDACTION;
    record.redaction = &redaction;
    absorb(f, &record);
}

/* Moves the contents in the frames of tasks 1 … `count` to the index. */
static void gather(struct fx *f, uint64_t count) {
    for (uint64_t id = 1; id <= count; id++) {
        Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
        Tarry__Record record, *records = &record;
        Tarry__TaskPut put;
        Tarry__Task task;
        struct frame_header header = header_of(f, f->frame[id]);
        fresh(f, id, &record, &put, &task);
        body.records = &records;
        body.n_records = 1;
        assert_int_equal(index_retire_frame(f->index, &header, &body, f->blob[id]), 0);
    }
}

/* Retires the segment with the first `count` frames. */
static void retire(struct fx *f, uint64_t count) {
    gather(f, count);
    assert_int_equal(index_retire_commit(f->index, f->frame[count] + frame_size(96, BLOB)), 0);
}

static void expect_kept(struct fx *f, uint64_t id) {
    void *bytes;
    size_t size;
    arena_reset(&f->arena);
    assert_int_equal(index_blob(f->index, id, &f->arena, &bytes, &size), 0);
    assert_int_equal(size, BLOB);
    assert_memory_equal(bytes, f->blob[id], BLOB);
}

static size_t pending(struct fx *f, Tarry__Redaction ***out) {
    size_t count;
    arena_reset(&f->arena);
    assert_int_equal(index_redactions(f->index, 100, &f->arena, out, &count), 0);
    return count;
}

/* Schedules eight tasks; the contents of the first six move into the index. */
static void move_six_of_eight(struct fx *f) {
    for (uint64_t id = 1; id <= 8; id++) schedule(f, id);
    assert_int_equal(index_commit(f->index), 0);
    retire(f, 6);
}

/* Unused and free parts of LMDB's pages keep old bytes. The contents in them must always have been encrypted. */
static void what_the_index_held_is_gone_with_its_key(void **state) {
    (void)state;
    struct fx f;
    Tarry__Redaction **redactions;
    void *bytes;
    size_t size;
    fx_begin(&f);
    move_six_of_eight(&f);
    for (uint64_t id = 1; id <= 6; id++) {
        expect_kept(&f, id);
        for (size_t at = 0; at + 16 <= BLOB; at += 16) assert_false(file_has(&f, f.blob[id] + at, 16));
    }
    end(&f, 2);
    end(&f, 3);
    assert_int_equal(index_commit(f.index), 0);
    assert_int_equal(index_erased(f.index), f.position);
    uint64_t redacted_at = f.position;
    redact(&f, 2);
    redact(&f, 3);
    assert_int_equal(pending(&f, &redactions), 0);
    assert_int_equal(index_commit(f.index), 0);
    assert_int_equal(index_erased(f.index), redacted_at);
    index_close(f.index); /* simulates a crash before the redactions are removed */
    fx_open(&f);
    assert_true(index_erased(f.index) <= redacted_at);
    assert_int_equal(pending(&f, &redactions), 2);
    assert_int_equal(redactions[0]->id, 2);
    assert_string_equal(redactions[1]->reason, "why");
    assert_int_equal(index_redactions_done(f.index, redactions, 1), 0);
    assert_true(index_erased(f.index) <= redacted_at);
    /* The first redaction is reported a second time, which does no harm. */
    assert_int_equal(index_redactions_done(f.index, redactions, 2), 0);
    assert_int_equal(index_erased(f.index), f.position);
    assert_int_equal(pending(&f, &redactions), 0);
    for (int turn = 0; turn < 2; turn++) {
        for (uint64_t id = 1; id <= 6; id++) {
            if (id != 2 && id != 3) expect_kept(&f, id);
        }
        uint8_t byte = 0;
        struct keyring *keyring;
        assert_int_equal(keyring_open(&keyring, f.directory, true, true), 0);
        /* The key is destroyed, so no process can decrypt the content. */
        assert_int_equal(keyring_apply(keyring, 2, &byte, 1), 1);
        assert_int_equal(keyring_apply(keyring, 3, &byte, 1), 1);
        keyring_close(keyring);
        index_close(f.index);
        fx_open(&f);
    }
    assert_int_equal(index_blob(f.index, 2, &f.arena, &bytes, &size), 1);
    struct index_verification found;
    char message[256];
    assert_int_equal(index_verify(f.index, &found, message, sizeof message, NULL, NULL), 0);
    fx_end(&f);
}

/* Redactions of contents that never left the log do not change the keyring. */
static void what_the_index_never_held_costs_no_key(void **state) {
    (void)state;
    struct fx f;
    Tarry__Redaction **redactions;
    struct stat before, after;
    char path[96];
    fx_begin(&f);
    schedule(&f, 1);
    schedule(&f, 2);
    end(&f, 1);
    redact(&f, 1);
    assert_int_equal(index_commit(f.index), 0);
    snprintf(path, sizeof path, "%s/keyring", f.directory);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(pending(&f, &redactions), 1);
    assert_int_equal(index_redactions_done(f.index, redactions, 1), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    fx_end(&f);
}

/* CALM-1: while the disk is full, retirement is retried repeatedly, and memory must not grow. */
static void what_found_no_room_is_gathered_once(void **state) {
    (void)state;
    struct fx f;
    fx_begin(&f);
    schedule(&f, 1);
    schedule(&f, 2);
    assert_int_equal(index_commit(f.index), 0);
    for (unsigned tries = 0; tries < 3; tries++) gather(&f, 2);
    assert_int_equal(f.index->retire.copies.count, 2);
    retire(&f, 2);
    assert_int_equal(f.index->retire.copies.count, 0);
    expect_kept(&f, 1);
    expect_kept(&f, 2);
    fx_end(&f);
}

/* KEEP-1: contents in the memory cache are not encrypted, so they are dropped when their task ends. */
static void what_is_in_memory_goes_as_its_task_ends(void **state) {
    (void)state;
    struct fx f;
    Tarry__Redaction **redactions;
    void *bytes;
    size_t size;
    fx_begin(&f);
    index_close(f.index);
    f.options.contents_memory = 2 * CONTENT_CACHE_MEMORY_MIN;
    fx_open(&f);
    move_six_of_eight(&f);
    for (uint64_t id = 1; id <= 8; id++) /* the index must not have contents that were not retired */
        assert_int_equal(index_blob_now(f.index, id, &f.arena, &bytes, &size), id <= 6 ? 0 : -EAGAIN);
    end(&f, 2);
    assert_int_equal(index_blob_now(f.index, 2, &f.arena, &bytes, &size), 0);
    assert_int_equal(index_commit(f.index), 0);
    assert_int_equal(index_blob_now(f.index, 2, &f.arena, &bytes, &size), -EAGAIN);
    redact(&f, 2);
    assert_int_equal(index_commit(f.index), 0);
    assert_int_equal(pending(&f, &redactions), 1);
    assert_int_equal(index_redactions_done(f.index, redactions, 1), 0);
    assert_int_equal(index_blob(f.index, 2, &f.arena, &bytes, &size), 1);
    for (uint64_t id = 1; id <= 6; id++)
        if (id != 2) expect_kept(&f, id);
    fx_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_destroyed_key_takes_no_other_along),
        cmocka_unit_test(a_thousand_keys_at_random),
        cmocka_unit_test(a_key_is_the_same_in_whatever_order_it_is_asked_for),
        cmocka_unit_test(the_former_keyring_is_overwritten),
        cmocka_unit_test(a_replacement_may_stop_anywhere),
        cmocka_unit_test(a_damaged_keyring_is_refused),
        cmocka_unit_test(what_the_index_held_is_gone_with_its_key),
        cmocka_unit_test(what_is_in_memory_goes_as_its_task_ends),
        cmocka_unit_test(what_the_index_never_held_costs_no_key),
        cmocka_unit_test(what_found_no_room_is_gathered_once),
    };
    return cmocka_run_group_tests_name("keyring", tests, NULL, NULL);
}
