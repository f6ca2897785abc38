/* recur.c: the table of recurrences (recur.h). recur_decide.c decides about them. */
#include "recur.h"

#include <stdio.h>
#include <string.h>

#include "apply.h"
#include "check.h"
#include "effects.h"
#include "near.h"
#include "need.h"
#include "queues.h"

static struct recur **bucket_of(const struct core *core, uint32_t queue, const char *name, size_t name_size) {
    const uint64_t hash = row_key_hash(queue, name, name_size) * core->salt;
    return &core->recur_names[hash >> 32 & (RECUR_TABLE_SIZE - 1)];
}

struct recur *recur_find(const struct core *core, uint32_t queue, const char *name, size_t name_size) {
    if (!core->recur_count) return NULL;
    struct recur *recur = *bucket_of(core, queue, name, name_size);
    for (; recur; recur = recur->by_name_next)
        if (recur->queue == queue && recur->name_size == name_size && !memcmp(recur->name, name, name_size)) break;
    return recur;
}

struct recur *recur_of_key(const struct core *core, uint32_t queue, const char *key, size_t key_size) {
    const size_t size = occurrence_name_size(key, key_size);
    if (!size || size > RECUR_NAME_SIZE_MAX) return NULL;
    return recur_find(core, queue, key + OCCURRENCE_PREFIX_SIZE, size);
}

/* ---- what was set, in chunks of the region */

static void *take_object(struct core *core, size_t size) {
    void *object = slab_alloc(core->slab, size);
    if (object) core->recur_bytes += slab_bytes(size);
    return object;
}

static void release_object(struct core *core, void *object, size_t size) {
    core->recur_bytes -= slab_bytes(size);
    slab_release(core->slab, object, size);
}

static void free_chunks(struct core *core, struct recur_chunk *chunk) {
    while (chunk) {
        struct recur_chunk *next = chunk->next;
        release_object(core, chunk, sizeof *chunk + chunk->size);
        chunk = next;
    }
}

/* Returns chunks for `size` bytes; all but the last are as large as possible. NULL: the region is full. */
static struct recur_chunk *take_chunks(struct core *core, size_t size) {
    struct recur_chunk *first = NULL, **at = &first;
    while (size) {
        const size_t part = size < RECUR_CHUNK_DATA ? size : RECUR_CHUNK_DATA;
        *at = take_object(core, sizeof **at + part);
        if (!*at) {
            free_chunks(core, first);
            return NULL;
        }
        **at = (struct recur_chunk){.size = (uint32_t)part};
        at = &(*at)->next;
        size -= part;
    }
    return first;
}

struct chunk_writer {
    ProtobufCBuffer base;
    struct recur_chunk *chunk;
    size_t used; /* bytes of the chunk that are written */
};

static void write_chunk(ProtobufCBuffer *buffer, size_t size, const uint8_t *data) {
    struct chunk_writer *writer = (struct chunk_writer *)buffer;
    while (size) {
        if (writer->used == writer->chunk->size) {
            writer->chunk = writer->chunk->next;
            writer->used = 0;
        }
        size_t part = writer->chunk->size - writer->used;
        if (part > size) part = size;
        memcpy(writer->chunk->data + writer->used, data, part);
        writer->used += part;
        data += part;
        size -= part;
    }
}

static int store_set(struct core *core, struct recur *recur, const Tarry__RecurSet *set) {
    const size_t size = protobuf_c_message_get_packed_size(&set->base);
    if (!size || size > RECUR_SET_SIZE_MAX) return CORE_NONSENSE;
    struct recur_chunk *first = take_chunks(core, size);
    if (!first) return CORE_NO_MEMORY;
    struct chunk_writer writer = {.base = {write_chunk}, .chunk = first};
    protobuf_c_message_pack_to_buffer(&set->base, &writer.base);
    free_chunks(core, recur->set);
    recur->set = first;
    recur->set_size = (uint32_t)size;
    recur->is_allowed = !strcmp(set->overlap, "allow");
    return 0;
}

const Tarry__RecurSet *recur_set_of(const struct recur *recur, struct arena *arena) {
    uint8_t *packed = arena_alloc(arena, recur->set_size + 1), *at = packed;
    for (const struct recur_chunk *chunk = recur->set; chunk; at += chunk->size, chunk = chunk->next)
        memcpy(at, chunk->data, chunk->size);
    const Tarry__RecurSet *set = tarry__recur_set__unpack(&arena->pb, recur->set_size, packed);
    assert(set);
    return set;
}

bool recur_rule(const Tarry__RecurSet *set, struct rule *out, struct rule_problem *out_problem) {
    const struct rule_spec spec = {
        .cron = set->cron,
        .rrule = set->rrule,
        .every_ms = set->every_ms,
        .zone = set->zone,
        .from_ms = set->from_ms,
        .until_ms = set->until_ms,
        .skip_gap = !strcmp(set->gap, "skip"),
        .fold = !strcmp(set->fold, "both")    ? RULE_FOLD_BOTH
                : !strcmp(set->fold, "first") ? RULE_FOLD_FIRST
                                              : RULE_FOLD_DEFAULT,
        .days = !strcmp(set->days, "and")  ? RULE_DAYS_AND
                : !strcmp(set->days, "or") ? RULE_DAYS_OR
                                           : RULE_DAYS_NOT_SAID,
    };
    return rule_make(&spec, out, out_problem);
}

/* Returns the size of an occurrence's key up to and including the @. */
static size_t key_head_size(size_t name_size) {
    return OCCURRENCE_PREFIX_SIZE + name_size + 1;
}

static struct task_key key_of(uint32_t queue, const char *name, size_t name_size, const char *time, const char *suffix,
                              struct arena *arena) {
    const size_t size = key_head_size(name_size) + strlen(time) + strlen(suffix);
    char *key = must_alloc(arena, size + 1);
    snprintf(key, size + 1, OCCURRENCE_PREFIX "%.*s@%s%s", (int)name_size, name, time, suffix);
    return task_key_of(queue, key, size);
}

struct task_key recur_key(uint32_t queue, const char *name, size_t name_size, const struct zone *zone, uint64_t at_ms,
                          uint64_t task, struct arena *arena) {
    char time[ZONE_TIME_SIZE], suffix[24] = "";
    zone_format(zone, (int64_t)(at_ms / 1000), time);
    if (task) snprintf(suffix, sizeof suffix, "#%llu", (unsigned long long)task);
    return key_of(queue, name, name_size, time, suffix, arena);
}

struct task_key recur_row_key(const struct recur *recur, struct arena *arena) {
    assert(recur->has_row);
    return key_of(recur->queue, recur->name, recur->name_size, recur->row_time, "", arena);
}

bool recur_has_room(const struct core *core) {
    const uint64_t bytes = core->recur_bytes + RECUR_SET_SIZE_MAX + RECUR_OBJECT_SIZE_MAX;
    return bytes <= slab_capacity(core->slab) / 8;
}

/* ---- apply */

static struct recur *recur_new(struct core *core, const Tarry__RecurPut *put) {
    const size_t name_size = strlen(put->name);
    uint32_t slot = core->recur_free;
    while (slot < RECURRENCES_MAX && core->recur_slots[slot]) slot++;
    struct recur *recur = slot < RECURRENCES_MAX ? take_object(core, sizeof *recur + name_size) : NULL;
    if (!recur) return NULL;
    *recur = (struct recur){.number = put->number, .queue = put->queue, .slot = slot, .name_size = (uint8_t)name_size};
    memcpy(recur->name, put->name, name_size);
    core->recur_slots[slot] = recur;
    core->recur_free = slot + 1;
    if (core->recur_slots_end < slot + 1) core->recur_slots_end = slot + 1;
    struct recur **bucket = bucket_of(core, recur->queue, recur->name, name_size);
    recur->by_name_next = *bucket;
    *bucket = recur;
    core->recur_count++;
    queue_at(core, recur->queue)->recur_count++;
    if (put->number > core->recur_last) core->recur_last = put->number;
    return recur;
}

static void recur_free(struct core *core, struct recur *recur) {
    struct recur **at = bucket_of(core, recur->queue, recur->name, recur->name_size);
    while (*at != recur) at = &(*at)->by_name_next;
    *at = recur->by_name_next;
    core->recur_slots[recur->slot] = NULL;
    if (recur->slot < core->recur_free) core->recur_free = recur->slot;
    core->recur_count--;
    core->recur_stuck -= recur->stuck;
    queue_at(core, recur->queue)->recur_count--;
    wheel_cancel(&core->recur_wheel, &recur->timer);
    free_chunks(core, recur->set);
    release_object(core, recur, sizeof *recur + recur->name_size);
}

static void arm(struct core *core, struct recur *recur) {
    wheel_cancel(&core->recur_wheel, &recur->timer);
    if (recur->paused || recur->stuck) return;
    const bool may_run = recur->queued_ms && !recur->open_live;
    if (may_run || recur->next_ms)
        wheel_arm(&core->recur_wheel, &recur->timer, may_run ? 0 : recur->due_ms, recur->number);
}

static void take_row(struct recur *recur, const struct row *row, uint64_t hash) {
    const size_t head_size = key_head_size(recur->name_size);
    recur->is_live = row && row->state != ROW_BURIED;
    /* The key of every occurrence that a broker creates is short enough for `row_time`. */
    recur->has_row = row && row->state == ROW_WAITING && row->key_size > head_size &&
                     row->key_size - head_size < sizeof recur->row_time;
    if (!recur->has_row) return;
    memset(recur->row_time, 0, sizeof recur->row_time);
    memcpy(recur->row_time, row->key + head_size, row->key_size - head_size);
    recur->row = *row;
    recur->row.key = recur->row.reason = NULL;
    recur->row_hash = hash;
}

static bool is_sound(const Tarry__RecurState *state) {
    return state->n_open <= RECUR_OPEN_MAX && strlen(state->tzdata) <= RECUR_TZDATA_SIZE_MAX;
}

/* Returns whether the task has ended or died earlier in the same frame. */
static bool is_over(const struct core *core, uint64_t id) {
    const struct task *task = task_find(core, id);
    return task && (task->place == PLACE_ENDED || task->place == PLACE_DEAD);
}

static void take_state(struct core *core, struct recur *recur, const Tarry__RecurState *state) {
    core->recur_stuck -= recur->stuck;
    recur->set_hash = state->set_hash;
    recur->next_ms = state->next_ms;
    recur->due_ms = state->due_ms;
    recur->task = state->next_id;
    recur->last_ms = state->last_ms;
    recur->occurrences = state->occurrences;
    recur->missed = state->missed;
    recur->skipped = state->skipped;
    recur->paused = state->paused;
    recur->queued_ms = state->queued_ms;
    recur->stuck = state->problem[0] != '\0';
    core->recur_stuck += recur->stuck;
    recur->open_size = (uint8_t)state->n_open;
    recur->open_live = 0;
    for (size_t i = 0; i < state->n_open; i++) {
        recur->open[i] = state->open[i];
        if (!is_over(core, state->open[i])) recur->open_live |= 1u << i;
    }
    memset(recur->tzdata, 0, sizeof recur->tzdata);
    memcpy(recur->tzdata, state->tzdata, strlen(state->tzdata));
}

int recur_apply(struct core *core, const Tarry__RecurPut *put) {
    if (!queue_has_place(core, put->queue)) return CORE_NONSENSE;
    struct recur *recur = recur_find(core, put->queue, put->name, strlen(put->name));
    if (!recur != !put->before_hash) return CORE_NONSENSE;
    if (recur && (recur->number != put->number || recur->hash != put->before_hash)) return CORE_NONSENSE;
    if (!put->state) {
        assert(recur); /* tally_recur */
        recur_free(core, recur);
        return 0;
    }
    if (!is_sound(put->state)) return CORE_NONSENSE;
    if (!recur) recur = recur_new(core, put);
    if (!recur) return CORE_NO_MEMORY;
    int error = put->set ? store_set(core, recur, put->set) : 0;
    if (error) return error;
    /* If the next occurrence has a new task, its record precedes this one in the same frame. */
    if (put->state->next_id != recur->task) {
        const struct task *task = put->state->next_id ? task_find(core, put->state->next_id) : NULL;
        const bool is_there = task && task->place != PLACE_ENDED;
        take_row(recur, is_there ? &task->row : NULL, is_there ? task->hash : 0);
    }
    if (core->started && put->cause == TARRY__RECUR_PUT__CAUSE__FELL_DUE) {
        core->recur_totals.due += put->state->occurrences - recur->occurrences;
        core->recur_totals.missed += put->missed;
        core->recur_totals.skipped += put->skipped;
    }
    take_state(core, recur, put->state);
    recur->hash = recur_hash(put->number, put->state);
    arm(core, recur);
    return 0;
}

int recur_restore(struct core *core, const Tarry__RecurPut *put, const struct row *next, size_t open_live) {
    if (!queue_has_place(core, put->queue) || !put->set || !put->state || !is_sound(put->state)) return CORE_NONSENSE;
    if (open_live > put->state->n_open) return CORE_NONSENSE;
    const size_t name_size = strnlen(put->name, RECUR_NAME_SIZE_MAX + 1);
    if (!name_size || name_size > RECUR_NAME_SIZE_MAX) return CORE_NONSENSE;
    if (recur_find(core, put->queue, put->name, name_size)) return CORE_NONSENSE;
    struct recur *recur = recur_new(core, put);
    if (!recur) return CORE_NO_MEMORY;
    int error = store_set(core, recur, put->set);
    if (error) return error;
    take_state(core, recur, put->state);
    recur->open_live = (uint8_t)((1u << open_live) - 1);
    take_row(recur, next, next ? row_hash(next) : 0);
    recur->hash = put->before_hash;
    arm(core, recur);
    return 0;
}

/* Notes whether an occurrence is waiting or in flight. */
static void note_live(struct core *core, struct recur *recur, uint64_t id, bool is_live) {
    if (recur->task == id && !is_live) recur->is_live = recur->has_row = false;
    const bool was_open = recur->open_live;
    for (uint8_t i = 0; i < recur->open_size; i++) {
        if (recur->open[i] != id) continue;
        const uint8_t bit = (uint8_t)(1u << i);
        recur->open_live = (uint8_t)(is_live ? recur->open_live | bit : recur->open_live & ~bit);
    }
    if (was_open != (recur->open_live != 0) && recur->queued_ms) arm(core, recur);
}

void recur_note_put(struct core *core, const struct row *row, uint64_t hash) {
    struct recur *recur = recur_of_key(core, row->queue, row->key, row->key_size);
    if (!recur) return;
    /* A dead letter does not count as unfinished, because it waits for an operator. */
    const bool is_dead = row->state == ROW_BURIED;
    if (recur->task == row->id && !is_dead) take_row(recur, row, hash);
    note_live(core, recur, row->id, !is_dead);
}

void recur_note_end(struct core *core, const struct row *row) {
    struct recur *recur = recur_of_key(core, row->queue, row->key, row->key_size);
    if (recur) note_live(core, recur, row->id, false);
}

void recur_check(const struct core *core) {
    uint32_t count = 0, stuck = 0;
    for (uint32_t slot = 0; slot < core->recur_slots_end; slot++) {
        const struct recur *recur = core->recur_slots[slot];
        if (!recur) continue;
        count++;
        stuck += recur->stuck;
        assert(recur->slot == slot && recur_find(core, recur->queue, recur->name, recur->name_size) == recur);
        assert(recur->hash && recur->number <= core->recur_last && queue_has_place(core, recur->queue));
        const struct task *task = recur->task ? task_find(core, recur->task) : NULL;
        if (task) assert(recur->is_live == (task->place != PLACE_ENDED && task->place != PLACE_DEAD));
        if (task && recur->has_row) assert(recur->row_hash == task->hash);
        const bool waits =
            !recur->paused && !recur->stuck && (recur->next_ms || (recur->queued_ms && !recur->open_live));
        assert(waits == wheel_is_armed(&recur->timer));
    }
    assert(count == core->recur_count && stuck == core->recur_stuck && wheel_check(&core->recur_wheel));
}
