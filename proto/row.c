/* row.c: see row.h. The hashed encoding is private to this file and never stored. It must not change within one
 * FORMAT_VERSION, because digests and before_hash values in old logs depend on it. */
#include "row.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* makes XXH3_state_t a complete type, so that the state of a hash can be on the stack \
                                 */
#include <xxhash.h>

#include "bytes.h"
#include "tarry_limits.h"

#define ROW_FIXED_SIZE (11u * 8 + 5u * 4 + 5u)

const char *state_bit_name(uint32_t bit) {
    switch (bit) {
    case STATE_READY:
        return "ready";
    case STATE_IN_FLIGHT:
        return "in_flight";
    case STATE_DEAD:
        return "dead";
    default:
        return "pending";
    }
}

bool queue_number_is_valid(uint32_t number) {
    return queue_place(number) != 0 && queue_place(number) <= QUEUE_PLACES;
}

static uint64_t never_zero(uint64_t hash) {
    return hash != 0 ? hash : 1;
}

static uint8_t *put_bytes(uint8_t *at, const void *data, size_t size) {
    if (size > 0) memcpy(at, data, size);
    return at + size;
}

uint64_t row_hash(const struct row *row) {
    uint8_t buffer[ROW_FIXED_SIZE + UINT8_MAX + UINT8_MAX + 2 + UINT8_MAX + 1 + 4 + 1 + 3 * 4];
    uint8_t *at = buffer;
    at = put_u64(at, row->id);
    at = put_u64(at, row->due_ms);
    at = put_u64(at, row->expires_ms);
    at = put_u64(at, row->scheduled_ms);
    at = put_u64(at, row->blob_at);
    at = put_u64(at, row->blob_sum);
    at = put_u64(at, row->lease_position);
    at = put_u64(at, row->lease_deadline_ms);
    at = put_u64(at, row->session);
    at = put_u64(at, row->delivered_ms);
    at = put_u64(at, row->dead_ms);
    at = put_u32(at, row->queue);
    at = put_u32(at, row->blob_size);
    at = put_u32(at, row->attempt);
    at = put_u32(at, row->deliveries);
    at = put_u32(at, row->lease_epoch);
    *at++ = row->priority;
    *at++ = row->base;
    *at++ = row->state;
    *at++ = row->key_size;
    *at++ = row->reason_size;
    at = put_bytes(at, row->key, row->key_size);
    at = put_bytes(at, row->reason, row->reason_size);
    if (row->serial_size > 0) { /* a row without a serial name hashes as it did before this field existed */
        *at++ = 1;
        *at++ = row->serial_size;
        at = put_bytes(at, row->serial, row->serial_size);
    }
    if (row->spread_ms > 0) { /* likewise */
        *at++ = 2;
        at = put_u32(at, row->spread_ms);
    }
    if (row->has_own) { /* likewise */
        *at++ = 3;
        at = put_u32(at, row->max_attempts);
        at = put_u32(at, row->backoff_ms);
        at = put_u32(at, row->lease_ms);
    }
    return never_zero(XXH3_64bits(buffer, (size_t)(at - buffer)));
}

uint64_t row_key_hash(uint32_t queue, const void *key, size_t key_size) {
    return XXH3_64bits_withSeed(key, key_size, queue);
}

/* Copies the task's own settings, which few tasks have, into the row. Returns false if they exceed a limit. */
static bool take_own(const Tarry__Task *task, struct row *out) {
    row_set_own(out, task->max_attempts, task->backoff_ms, task->lease_ms);
    return task->max_attempts <= TASK_ATTEMPTS_MAX && task->backoff_ms <= BACKOFF_MAX_MS &&
           task->lease_ms <= LEASE_MAX_MS;
}

bool row_from_task(const Tarry__Task *task, struct row *out) {
    if (task->id == 0 || !queue_number_is_valid(task->queue)) return false;
    if (task->priority >= PRIORITY_COUNT) return false;
    if ((unsigned)task->time_base >= ROW_BASES || (unsigned)task->state >= ROW_STATES) return false;
    if (task->key.len > KEY_SIZE_MAX || task->reason.len > REASON_SIZE_MAX) return false;
    if (task->serial.len > SERIAL_SIZE_MAX || task->spread_ms > SPREAD_MAX_MS) return false;
    if (task->blob_size > FRAME_BLOB_SIZE_MAX) return false;
    *out = (struct row){
        .id = task->id,
        .due_ms = task->due_ms,
        .expires_ms = task->expires_ms,
        .scheduled_ms = task->scheduled_ms,
        .blob_at = task->blob_at,
        .blob_sum = task->blob_sum,
        .lease_position = task->lease_position,
        .lease_deadline_ms = task->lease_deadline_ms,
        .session = task->session,
        .delivered_ms = task->delivered_ms,
        .dead_ms = task->dead_ms,
        .queue = task->queue,
        .blob_size = task->blob_size,
        .attempt = task->attempt,
        .deliveries = task->deliveries,
        .lease_epoch = task->lease_epoch,
        .spread_ms = task->spread_ms,
        .priority = (uint8_t)task->priority,
        .base = (uint8_t)task->time_base,
        .state = (uint8_t)task->state,
        .key_size = (uint8_t)task->key.len,
        .reason_size = (uint8_t)task->reason.len,
        .serial_size = (uint8_t)task->serial.len,
        .key = (const char *)task->key.data,
        .reason = (const char *)task->reason.data,
        .serial = (const char *)task->serial.data,
    };
    return (task->max_attempts | task->backoff_ms | task->lease_ms) == 0 || take_own(task, out);
}

void row_to_task(const struct row *row, Tarry__Task *out) {
    out->base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(&tarry__task__descriptor);
    out->id = row->id;
    out->queue = row->queue;
    out->key = (ProtobufCBinaryData){.len = row->key_size, .data = (uint8_t *)row->key};
    out->due_ms = row->due_ms;
    out->time_base = (Tarry__Task__Base)row->base;
    out->priority = row->priority;
    out->state = (Tarry__Task__State)row->state;
    out->attempt = row->attempt;
    out->deliveries = row->deliveries;
    out->expires_ms = row->expires_ms;
    out->scheduled_ms = row->scheduled_ms;
    out->blob_at = row->blob_at;
    out->blob_size = row->blob_size;
    out->blob_sum = row->blob_sum;
    out->lease_epoch = row->lease_epoch;
    out->spread_ms = row->spread_ms;
    out->max_attempts = row->max_attempts;
    out->backoff_ms = row->backoff_ms;
    out->lease_ms = row->lease_ms;
    out->lease_position = row->lease_position;
    out->lease_deadline_ms = row->lease_deadline_ms;
    out->session = row->session;
    out->delivered_ms = row->delivered_ms;
    out->dead_ms = row->dead_ms;
    out->reason = (ProtobufCBinaryData){.len = row->reason_size, .data = (uint8_t *)row->reason};
    out->serial = (ProtobufCBinaryData){.len = row->serial_size, .data = (uint8_t *)row->serial};
}

bool end_is_sharing(const Tarry__TaskEnd *end) {
    return end->cause == TARRY__CAUSE__CAUSE_SHARED || end->cause == TARRY__CAUSE__CAUSE_UNMATCHED;
}

struct row row_at_end(const Tarry__TaskEnd *end, const struct row *row) {
    struct row last = *row;
    if (!end_is_sharing(end)) return last;
    last.session = end->first_share;
    last.deliveries = end->shares;
    last.delivered_ms = 0;
    return last;
}

uint64_t row_expires_at(const struct row *row) {
    if (row->expires_ms == 0) return UINT64_MAX;
    if (row->due_ms > UINT64_MAX - row->expires_ms) return UINT64_MAX;
    return row->due_ms + row->expires_ms;
}

static uint64_t overdues_hash(const Tarry__QueuePut *queue) {
    /* The hash starts with the number of entries in `overdue`. Each step hashes one entry together with the hash of the
     * entries before it. */
    uint64_t hash = queue->n_overdue;
    for (size_t i = 0; i < queue->n_overdue; i++) {
        const Tarry__Overdue *overdue = queue->overdue[i];
        uint8_t buffer[9 * 8], *at = buffer;
        at = put_u64(at, hash);
        at = put_u64(at, overdue->after_steady_ms);
        at = put_u64(at, overdue->until_steady_ms);
        at = put_u64(at, overdue->after_wall_ms);
        at = put_u64(at, overdue->until_wall_ms);
        at = put_u64(at, overdue->id_end);
        at = put_u64(at, overdue->overdue_expire_ms);
        at = put_u64(at, overdue->overdue_dead_ms);
        (void)put_u64(at, overdue->overdue_spread_ms);
        hash = XXH3_64bits(buffer, sizeof buffer);
    }
    return hash;
}

uint64_t queue_hash(const Tarry__QueuePut *queue) {
    const Tarry__Policy *policy = queue->policy;
    uint8_t buffer[4 + 8 + 1 + 1 + 3 * 8 + 3 * 4 + 1 + 1 + 8 + 1 + 8 + 1 + 8 + 3 * 4 + 1 + 1 + 3 * 8 + 1 + 8 + 1 + 8 +
                   2 * 8];
    uint8_t *at = buffer;
    at = put_u32(at, queue->number);
    at = put_u64(at, queue->paused_until_ms);
    *at++ = queue->paused ? 1 : 0;
    *at++ = policy != NULL ? 1 : 0;
    if (policy != NULL) {
        at = put_u64(at, policy->lease_ms);
        at = put_u64(at, policy->backoff_min_ms);
        at = put_u64(at, policy->backoff_max_ms);
        at = put_u32(at, policy->max_attempts);
        at = put_u32(at, (uint32_t)policy->backoff);
        at = put_u32(at, policy->backoff_jitter);
    }
    if (queue->deleted)
        *at++ = queue->forgets ? 5 : 1; /* a queue that is not deleted has the same hash as before this field existed */
    if (policy != NULL && policy->push[0] != '\0') { /* likewise */
        *at++ = 2;
        at = put_u64(at, XXH3_64bits(policy->push, strlen(policy->push)));
    }
    if (queue->creator[0] != '\0') { /* likewise */
        *at++ = 3;
        at = put_u64(at, XXH3_64bits(queue->creator, strlen(queue->creator)));
    }
    if (policy != NULL && (policy->rate | policy->burst | policy->max_in_flight | policy->rate_period_ms) != 0) {
        *at++ = 4; /* likewise */
        at = put_u64(at, policy->rate_period_ms);
        at = put_u32(at, policy->rate);
        at = put_u32(at, policy->burst);
        at = put_u32(at, policy->max_in_flight);
    }
    if (policy != NULL && policy->lease_before_due) *at++ = 6; /* likewise */
    if (policy != NULL && policy->filter[0] != '\0') {         /* likewise */
        *at++ = 7;
        at = put_u64(at, XXH3_64bits(policy->filter, strlen(policy->filter)));
    }
    if (policy != NULL && (policy->overdue_expire_ms | policy->overdue_dead_ms | policy->overdue_spread_ms) != 0) {
        *at++ = 9; /* likewise */
        at = put_u64(at, policy->overdue_expire_ms);
        at = put_u64(at, policy->overdue_dead_ms);
        at = put_u64(at, policy->overdue_spread_ms);
    }
    if (policy != NULL && policy->spread_ms != 0) {
        *at++ = 8; /* likewise */
        at = put_u64(at, policy->spread_ms);
    }
    if (queue->n_overdue > 0) at = put_u64(at, overdues_hash(queue)); /* likewise */
    /* The name is hashed separately, because it may have any length in a damaged record. */
    at = put_u64(at, XXH3_64bits(queue->name, strlen(queue->name)));
    return never_zero(XXH3_64bits(buffer, (size_t)(at - buffer)));
}

uint64_t definition_hash(const Tarry__DefinitionPut *put) {
    uint8_t buffer[4 * 8];
    uint8_t *at = buffer;
    at = put_u64(at, XXH3_64bits(put->space, strlen(put->space)));
    at = put_u64(at, XXH3_64bits(put->name.data, put->name.len));
    at = put_u64(at, XXH3_64bits(put->value.data, put->value.len));
    at = put_u64(at, put->version);
    /* The constant is the seed of the hash. It makes this hash differ from that of any other kind of row. */
    return never_zero(XXH3_64bits_withSeed(buffer, (size_t)(at - buffer), 0x646566696e6974u));
}

struct hashed { /* a buffer that hashes what is packed into it */
    ProtobufCBuffer base;
    XXH3_state_t *state;
};

static void hash_more(ProtobufCBuffer *buffer, size_t size, const uint8_t *data) {
    XXH3_64bits_update(((struct hashed *)buffer)->state, data, size);
}

static uint64_t message_hash(uint64_t seed, const ProtobufCMessage *message) {
    XXH3_state_t state;
    struct hashed hashed = {{hash_more}, &state};
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, seed);
    protobuf_c_message_pack_to_buffer(message, &hashed.base);
    return never_zero(XXH3_64bits_digest(&state));
}

uint64_t recur_hash(uint64_t number, const Tarry__RecurState *state) {
    return message_hash(number, &state->base);
}

uint64_t recur_set_hash(const Tarry__RecurSet *set) {
    return message_hash(0, &set->base);
}
