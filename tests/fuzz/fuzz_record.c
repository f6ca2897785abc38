/* fuzz_record.c: reads a frame's body as recovery does: unpacked, each record counted. A record that makes no sense
 * is refused and changes nothing; the counts always agree with each other, and none falls below zero. */
#include <assert.h>
#include <string.h>

#include "arena.h"
#include "fuzz.h"
#include "tally.h"

static struct queue_tally queues[QUEUE_PLACES + 1];

/* Returns the place of the queue that a record concerns; 0: none. */
static uint32_t place_of(const Tarry__Record *record) {
    const Tarry__Task *task = NULL;
    if (record->fact_case == TARRY__RECORD__FACT_PUT) task = record->put->task;
    if (record->fact_case == TARRY__RECORD__FACT_END) task = record->end->task;
    const uint32_t number = record->fact_case == TARRY__RECORD__FACT_QUEUE ? record->queue->number
                            : task != NULL                                 ? task->queue
                                                                           : 0;
    return queue_number_is_valid(number) ? queue_place(number) : 0;
}

/* Checks that the counts of the queues named in the body have the expected sums. A count in another queue would be
 * missing in the sum. Then clears these queues for the next input; clearing all queues would write a megabyte. */
static void counts_agree(const struct tally *tally, const Tarry__FrameBody *body) {
    uint64_t live = 0;
    for (size_t i = 0; i < body->n_records; i++) {
        struct queue_tally *queue = &queues[place_of(body->records[i])];
        for (unsigned base = 0; base < ROW_BASES; base++)
            for (unsigned p = 0; p < PRIORITY_COUNT; p++) live += queue->waiting[base][p];
        live += queue->in_flight;
        assert(queue->scheduled >= queue->acked + queue->cancelled + queue->expired + queue->dropped + queue->dead);
        memset(queue, 0, sizeof(*queue));
    }
    assert(live == tally->live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1u << 16) return 0;
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    struct tally tally;
    if (arena.size_max == 0) arena_init(&arena, 64u << 20);
    tally_init(&tally, queues);
    const Tarry__FrameBody *body = tarry__frame_body__unpack(&arena.pb, size, data);
    for (size_t i = 0; body != NULL && i < body->n_records; i++) {
        struct tally before = tally;
        bool done = tally_record(&tally, body->records[i]);
        assert(done || memcmp(&before, &tally, sizeof(tally)) == 0);
    }
    if (body != NULL) counts_agree(&tally, body);
    arena_reset(&arena);
    return 0;
}
