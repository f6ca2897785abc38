/* fuzz_record.c: a frame's body as recovery reads it: unpacked, each record counted. A record that makes no sense is
 * refused and changes nothing; the counts always agree with each other, and nothing falls below zero. */
#include <assert.h>
#include <string.h>

#include "arena.h"
#include "fuzz.h"
#include "tally.h"

static struct queue_tally queues[QUEUES_MAX + 1];

static void counts_agree(const struct tally *tally) {
    uint64_t live = 0;
    for (size_t q = 0; q <= QUEUES_MAX; q++) {
        const struct queue_tally *queue = &queues[q];
        for (unsigned base = 0; base < ROW_BASES; base++)
            for (unsigned p = 0; p < PRIORITY_COUNT; p++) live += queue->waiting[base][p];
        live += queue->in_flight;
        assert(queue->scheduled >= queue->acked + queue->cancelled + queue->expired + queue->dropped + queue->dead);
    }
    assert(live == tally->live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1u << 16) return 0;
    struct arena arena;
    struct tally tally;
    arena_init(&arena, 64u << 20);
    tally_init(&tally, queues);
    const Tarry__FrameBody *body = tarry__frame_body__unpack(&arena.pb, size, data);
    bool any = false;
    for (size_t i = 0; body != NULL && i < body->n_records; i++) {
        struct tally before = tally;
        bool done = tally_record(&tally, body->records[i]);
        assert(done || memcmp(&before, &tally, sizeof(tally)) == 0);
        any = any || done;
    }
    if (any) {
        counts_agree(&tally);
        memset(queues, 0, sizeof(queues)); /* a megabyte; untouched otherwise */
    }
    arena_deinit(&arena);
    return 0;
}
