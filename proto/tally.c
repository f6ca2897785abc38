/* tally.c: see tally.h. Each record is checked completely before any change, so a refusal leaves the tally
 * unchanged. The code uses only the record and the counts. */
#include "tally.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#include "bytes.h"
#include "frame.h"

/* Returns the counter of a task's state, base and priority. Each live or dead task is counted in exactly one. */
static uint64_t *tally_place(struct queue_tally *queue, unsigned state, unsigned base, unsigned priority) {
    assert(base < ROW_BASES && priority < PRIORITY_COUNT);
    switch (state) {
    case ROW_WAITING:
        return &queue->waiting[base][priority];
    case ROW_LEASED:
        return &queue->in_flight;
    default:
        assert(state == ROW_BURIED);
        return &queue->dead;
    }
}

static bool state_is_live(unsigned state) {
    return state != ROW_BURIED;
}

/* True: the cause creates or changes a task. The other causes end it. */
static bool cause_is_change(Tarry__Cause cause) {
    return cause >= TARRY__CAUSE__CAUSE_SCHEDULED && cause <= TARRY__CAUSE__CAUSE_REQUEUED;
}

/* Returns the counts of a queue; NULL: its place belongs to a queue of another generation. */
static struct queue_tally *queue_of(const struct tally *tally, uint32_t number) {
    struct queue_tally *queue = &tally->queues[queue_place(number)];
    uint32_t own = queue->number != 0 ? queue->number : queue_place(number);
    return own == number ? queue : NULL;
}

static bool read_row(const Tarry__Task *task, struct tally_row *out) {
    out->hash = 0;
    return task != NULL && row_from_task(task, &out->row);
}

static uint64_t hash_of(struct tally_row *out) {
    if (out->hash == 0) out->hash = row_hash(&out->row);
    return out->hash;
}

static bool tally_put(struct tally *tally, const Tarry__TaskPut *put, bool has_row, struct tally_row *out) {
    if (!has_row && !read_row(put->task, out)) return false;
    const struct row *row = &out->row;
    if (!cause_is_change(put->cause) || put->fresh != (put->cause == TARRY__CAUSE__CAUSE_SCHEDULED)) return false;
    struct queue_tally *queue = queue_of(tally, row->queue);
    if (queue == NULL) return false;
    uint64_t *after = tally_place(queue, row->state, row->base, row->priority);
    if (put->fresh) {
        /* Ids grow in the order of scheduling. UINT64_MAX is excluded so that next_id cannot overflow. */
        if (row->id < tally->next_id || row->id == UINT64_MAX || row->state != ROW_WAITING) return false;
        tally->next_id = row->id + 1;
        tally->digest += hash_of(out);
        *after += 1;
        tally->live += 1;
        queue->scheduled += 1;
        return true;
    }
    if (row->id >= tally->next_id || put->before_hash == 0) return false;
    if ((unsigned)put->before_state >= ROW_STATES || (unsigned)put->before_time_base >= ROW_BASES) return false;
    if (put->before_priority > PRIORITY_COUNT) return false;
    unsigned before_priority = put->before_priority > 0 ? put->before_priority - 1 : row->priority;
    uint64_t *before = tally_place(queue, put->before_state, put->before_time_base, before_priority);
    bool was_live = state_is_live(put->before_state);
    if (*before == 0 || (was_live && tally->live == 0)) return false;
    tally->digest += hash_of(out) - put->before_hash;
    *before -= 1;
    *after += 1;
    tally->live += state_is_live(row->state);
    tally->live -= was_live;
    if (put->cause == TARRY__CAUSE__CAUSE_LEASED) queue->delivered += 1;
    if (put->cause == TARRY__CAUSE__CAUSE_UNSENT && queue->delivered > 0) queue->delivered -= 1; /* TRUE-1 */
    if (put->cause == TARRY__CAUSE__CAUSE_RETRIED) queue->retried += 1;
    return true;
}

/* Returns the counter of ended tasks for this cause; NULL: the cause does not end a task. */
static uint64_t *tally_ending(struct queue_tally *queue, Tarry__Cause cause) {
    switch (cause) {
    case TARRY__CAUSE__CAUSE_ACKED:
    case TARRY__CAUSE__CAUSE_SHARED:
        return &queue->acked;
    case TARRY__CAUSE__CAUSE_CANCELLED:
    case TARRY__CAUSE__CAUSE_WITHDRAWN:
    case TARRY__CAUSE__CAUSE_REPLACED:
    case TARRY__CAUSE__CAUSE_PURGED:
        return &queue->cancelled;
    case TARRY__CAUSE__CAUSE_EXPIRED:
        return &queue->expired;
    case TARRY__CAUSE__CAUSE_DROPPED:
    case TARRY__CAUSE__CAUSE_UNMATCHED:
        return &queue->dropped;
    default:
        return NULL;
    }
}

static bool tally_end(struct tally *tally, const Tarry__TaskEnd *end, bool has_row, struct tally_row *out) {
    if ((!has_row && !read_row(end->task, out)) || out->row.id >= tally->next_id) return false;
    const struct row *row = &out->row;
    struct queue_tally *queue = queue_of(tally, row->queue);
    if (queue == NULL) return false;
    uint64_t *ending = tally_ending(queue, end->cause);
    uint64_t *before = tally_place(queue, row->state, row->base, row->priority);
    bool was_live = state_is_live(row->state);
    if (ending == NULL || *before == 0 || (was_live && tally->live == 0)) return false;
    tally->digest -= hash_of(out);
    *before -= 1;
    tally->live -= was_live;
    *ending += 1;
    return true;
}

static bool is_empty(const struct queue_tally *tally) {
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++)
        if (tally->waiting[i / PRIORITY_COUNT][i % PRIORITY_COUNT] != 0) return false;
    return tally->in_flight == 0 && tally->dead == 0;
}

static bool tally_queue(struct tally *tally, const Tarry__QueuePut *queue) {
    if (!queue_number_is_valid(queue->number)) return false;
    const uint32_t place = queue_place(queue->number);
    struct queue_tally *counts = &tally->queues[place];
    /* Number of the queue that had this place before; meaningless if the place is new. */
    const uint32_t before = counts->number != 0 ? counts->number : place;
    const bool is_new = place >= tally->next_queue, follows = !is_new && queue->number != before;
    if (is_new != (queue->before_hash == 0) || (is_new && queue_generation(queue->number) != 0)) return false;
    if (follows && queue_generation(queue->number) != queue_generation(before) + 1) return false;
    if ((queue->deleted || follows) && (is_new || !is_empty(counts))) return false;
    if (queue->deleted && follows) return false;
    if (queue->deleted || follows) *counts = (struct queue_tally){0};
    counts->number = queue->number;
    tally->digest += queue_hash(queue) - queue->before_hash;
    if (is_new) tally->next_queue = place + 1;
    return true;
}

static bool tally_producer(struct tally *tally, uint64_t producer, bool is_end) {
    if (producer == 0) return false;
    uint64_t hash = producer_hash(producer);
    tally->digest += is_end ? 0 - hash : hash;
    return true;
}

static bool tally_definition(struct tally *tally, const Tarry__DefinitionPut *put) {
    const size_t space_size = strnlen(put->space, DEFINITION_SPACE_SIZE_MAX + 1);
    if (space_size == 0 || space_size > DEFINITION_SPACE_SIZE_MAX || put->version == 0) return false;
    if (put->name.len == 0 || put->name.len > DEFINITION_NAME_SIZE_MAX) return false;
    if (put->value.len > (put->deleted ? 0 : DEFINITION_VALUE_SIZE_MAX)) return false;
    if (put->deleted && put->before_hash == 0) return false;
    tally->digest += (put->deleted ? 0 : definition_hash(put)) - put->before_hash;
    return true;
}

static bool tally_epoch(struct tally *tally, const Tarry__EpochPut *epoch) {
    if (epoch->epoch == 0 || epoch->epoch < tally->epoch) return false;
    tally->epoch = epoch->epoch;
    return true;
}

/* Checks a redaction, which changes no counts. The redacted content is in an earlier frame, or the record names no
 * content. */
static bool tally_redaction(const struct tally *tally, const Tarry__Redaction *redaction) {
    if (redaction->id == 0 || redaction->id >= tally->next_id) return false;
    if (redaction->queue != 0 && !queue_number_is_valid(redaction->queue)) return false;
    if (redaction->key.len > KEY_SIZE_MAX) return false;
    if (redaction->frame == 0) return redaction->content_hash.len == 0;
    return redaction->content_hash.len == CONTENT_HASH_SIZE && redaction->blob_size >= BLOB_SALT_SIZE &&
           redaction->blob_at >= frame_blob_position(redaction->frame);
}

static bool tally_recur(struct tally *tally, const Tarry__RecurPut *put) {
    const Tarry__RecurState *state = put->state;
    const bool is_set = put->cause == TARRY__RECUR_PUT__CAUSE__SET;
    if (put->number == 0 || put->number > RECUR_NUMBER_MAX || !queue_number_is_valid(put->queue)) return false;
    const size_t name_size = strnlen(put->name, RECUR_NAME_SIZE_MAX + 1);
    if (queue_of(tally, put->queue) == NULL || name_size == 0 || name_size > RECUR_NAME_SIZE_MAX) return false;
    if (is_set != (put->set != NULL) || (put->before_hash == 0 && !is_set)) return false;
    if ((put->cause == TARRY__RECUR_PUT__CAUSE__DELETED) != (state == NULL)) return false;
    if (is_set && state->set_hash != recur_set_hash(put->set)) return false;
    if (state != NULL && state->set_hash == 0) return false;
    tally->digest += (state != NULL ? recur_hash(put->number, state) : 0) - put->before_hash;
    return true;
}

void tally_init(struct tally *tally, struct queue_tally *queues) {
    *tally = (struct tally){.next_id = 1, .next_queue = 1, .queues = queues};
}

bool tally_record_row(struct tally *tally, const Tarry__Record *record, bool has_row, struct tally_row *row) {
    assert(tally->queues != NULL);
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        return tally_put(tally, record->put, has_row, row);
    case TARRY__RECORD__FACT_END:
        return tally_end(tally, record->end, has_row, row);
    case TARRY__RECORD__FACT_QUEUE:
        return tally_queue(tally, record->queue);
    case TARRY__RECORD__FACT_PRODUCER:
        return tally_producer(tally, record->producer->producer, false);
    case TARRY__RECORD__FACT_PRODUCER_END:
        return tally_producer(tally, record->producer_end->producer, true);
    case TARRY__RECORD__FACT_DEFINITION:
        return tally_definition(tally, record->definition);
    case TARRY__RECORD__FACT_EPOCH:
        return tally_epoch(tally, record->epoch);
    case TARRY__RECORD__FACT_JOB:
        return record->job->job != 0 && queue_number_is_valid(record->job->queue) &&
               queue_of(tally, record->job->queue) != NULL;
    case TARRY__RECORD__FACT_JOB_END:
        return record->job_end->job != 0;
    case TARRY__RECORD__FACT_SESSION:
        return record->session->session != 0;
    case TARRY__RECORD__FACT_SESSION_END:
        return record->session_end->session != 0;
    case TARRY__RECORD__FACT_REDACTION:
        return tally_redaction(tally, record->redaction);
    case TARRY__RECORD__FACT_REFUSED:
        return record->refused->count != 0;
    case TARRY__RECORD__FACT_ALONE:
        return record->alone->since_ms != 0;
    case TARRY__RECORD__FACT_RECUR:
        return tally_recur(tally, record->recur);
    case TARRY__RECORD__FACT_CLOCK:
    case TARRY__RECORD__FACT_STOP:
        return true;
    default:
        return false;
    }
}

bool tally_record(struct tally *tally, const Tarry__Record *record) {
    struct tally_row unused;
    return tally_record_row(tally, record, false, &unused);
}

uint64_t producer_hash(uint64_t producer) {
    uint8_t bytes[8];
    put_u64(bytes, producer);
    /* The constant is the seed of the hash. It makes this hash differ from that of any other kind of row. */
    uint64_t hash = XXH3_64bits_withSeed(bytes, sizeof(bytes), 0x70726f6475636572u);
    return hash != 0 ? hash : 1;
}
