/* need.c: see need.h. */
#include "need.h"

#include "recur.h"
#include "tasks.h"

void need_task(struct need *need, size_t key_size, size_t serial_size) {
    slab_need_add(&need->objects, task_size(key_size, serial_size), 1);
    need->count++;
    if (!serial_size) return;
    slab_need_add(&need->objects, serial_bytes(serial_size), 1);
    need->count++;
}

void need_rows(struct need *need, const struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) need_task(need, rows[i].key_size, rows[i].serial_size);
}

void need_facts(struct need *need, const struct core_facts *facts) {
    for (size_t i = 0; i < facts->count; i++) {
        const struct row *row = &facts->rows[i];
        if (row->state != ROW_BURIED) need_task(need, row->key_size, row->serial_size);
    }
}

void need_dead(struct need *need, const Tarry__DeadOp *dead) {
    if (!dead->all && dead->task) need_task(need, dead->task->id ? KEY_SIZE_MAX : dead->task->key.len, SERIAL_SIZE_MAX);
}

void need_recur_set(struct need *need, const Tarry__RecurSet *set) {
    const size_t size = protobuf_c_message_get_packed_size(&set->base), whole = size / RECUR_CHUNK_DATA;
    /* The core adds default values to the recurrence. They lengthen its last chunk, or need one more chunk of any size.
     * Count a chunk of each possible size, because the slab page depends on the size. */
    const size_t last = size % RECUR_CHUNK_DATA;
    slab_need_add(&need->objects, sizeof(struct recur_chunk) + RECUR_CHUNK_DATA, (uint32_t)whole + 1);
    for (size_t more = 0; more <= RECUR_DEFAULTS_SIZE_MAX; more += SLAB_ALIGN) {
        const size_t part = last + more < RECUR_CHUNK_DATA ? last + more : RECUR_CHUNK_DATA;
        slab_need_add(&need->objects, sizeof(struct recur_chunk) + part, 1);
    }
    slab_need_add(&need->objects, sizeof(struct recur) + strlen(set->name), 1);
    need->count += (uint32_t)whole + 3;
}

void need_sentence(struct need *need) {
    slab_need_add(&need->objects, REASON_OBJECT_SIZE, 1);
    need->count++;
}

size_t need_shares(struct need *need, const struct core *core, const Tarry__FanOut *fan_out) {
    const struct task *task = task_find(core, fan_out->id);
    const size_t count = task ? queue_at(core, task->row.queue)->group_count : 0;
    for (size_t i = 0; i < count; i++) need_task(need, task->row.key_size, task->row.serial_size);
    return count;
}

size_t need_shares_max(const Tarry__Commit *commit) {
    size_t count = 0;
    while (count < commit->n_ops && commit->ops[count]->op_case == TARRY__OP__OP_FAN_OUT) count++;
    return count * GROUPS_MAX;
}

bool need_fits(const struct core *core, const struct need *need, enum need_room room) {
    if (!need->count) return true;
    uint32_t kept = room == ROOM_BUT_RESERVE ? RESERVE_PAGES : 0;
    return slab_need_pages(core->slab, &need->objects) + kept <= slab_pages_free(core->slab);
}

bool need_may_fit(const struct core *core, const struct need *need) {
    return slab_need_pages(NULL, &need->objects) + RESERVE_PAGES <= need_pages_kept_free(core);
}

bool need_task_fits(const struct core *core, const struct row *row) {
    uint32_t pages = slab_has_room(core->slab, task_size(row->key_size, row->serial_size)) ? 0 : 1;
    if (row->serial_size) pages += slab_has_room(core->slab, serial_bytes(row->serial_size)) ? 0 : 1;
    return pages + RESERVE_PAGES <= slab_pages_free(core->slab);
}

static size_t request_objects_max(const struct core_request *request) {
    const size_t facts = request->facts.count;
    if (request->message->body_case == TARRY__REQUEST__BODY_GET) return 2 * facts;
    if (request->message->body_case != TARRY__REQUEST__BODY_COMMIT) return 0;
    /* An operation may need one object for a task or for the reason of a nack. A row that was read from the index may
     * need one object for its task. Each task may also need one for its serial name, therefore twice the sum. */
    const Tarry__Commit *commit = request->message->commit;
    return 2 * (commit->n_ops + need_shares_max(commit) + facts);
}

/* Returns the maximum number of slab objects that the event may use, without those of recurrences. */
static size_t objects_max(const struct core_event *event) {
    switch (event->kind) {
    case CORE_REQUEST:
        return request_objects_max(&event->request);
    case CORE_PAGE:
        return 2 * event->page.row_count;
    case CORE_WINDOW:
        return 2 * event->window.row_count;
    default:
        return 0;
    }
}

static size_t recur_objects_max(const struct core_event *event) {
    if (event->kind != CORE_REQUEST || event->request.message->body_case != TARRY__REQUEST__BODY_COMMIT) return 0;
    const Tarry__Commit *commit = event->request.message->commit;
    size_t count = 0;
    for (size_t i = 0; i < commit->n_ops; i++) {
        if (commit->ops[i]->op_case == TARRY__OP__OP_RECUR_SET) count += RECUR_SET_OBJECTS_MAX;
        if (commit->ops[i]->op_case == TARRY__OP__OP_RECUR_DO) count += RECUR_DO_OBJECTS_MAX;
    }
    return count;
}

bool need_allows(const struct core_event *event, uint64_t objects) {
    const size_t count_max = objects_max(event);
    /* Recurrences are counted only if the limit without them is exceeded. */
    return objects <= count_max || objects <= count_max + recur_objects_max(event);
}

#define VISITS_PER_OPERATION_MAX 64u
/* Maximum number of entries that pending.c visits per queue when it sorts all queues. */
#define VISITS_PER_QUEUE_MAX 32u

uint64_t need_visits_max(const struct core_event *event) {
    if (event->kind != CORE_REQUEST || event->request.message->body_case != TARRY__REQUEST__BODY_COMMIT)
        return UINT64_MAX;
    const struct core_facts *facts = &event->request.facts;
    size_t rows = facts->count + facts->want_count + REDACT_TASKS_MAX;
    size_t operations = event->request.message->commit->n_ops + need_shares_max(event->request.message->commit) + rows;
    return VISITS_PER_QUEUE_MAX * (uint64_t)QUEUE_PLACES + VISITS_PER_OPERATION_MAX * (uint64_t)operations;
}

static void need_record(struct need *need, const struct core *core, const Tarry__Record *record) {
    if (record->fact_case == TARRY__RECORD__FACT_RECUR && record->recur->set) need_recur_set(need, record->recur->set);
    const Tarry__Task *task = NULL;
    if (record->fact_case == TARRY__RECORD__FACT_PUT) task = record->put->task;
    if (record->fact_case == TARRY__RECORD__FACT_END) task = record->end->task;
    /* The record is damaged; apply will report it. */
    if (!task || task->key.len > KEY_SIZE_MAX || task->serial.len > SERIAL_SIZE_MAX) return;
    bool is_put = record->fact_case == TARRY__RECORD__FACT_PUT;
    if ((is_put && record->put->fresh) || !task_find(core, task->id)) need_task(need, task->key.len, task->serial.len);
    if (!is_put || !task->reason.len || task->reason.len > REASON_SIZE_MAX) return;
    if (!reason_is_own((const char *)task->reason.data, (uint8_t)task->reason.len)) need_sentence(need);
}

/* Number of pages that hold `count` objects of at most `size` bytes, in at most `sizes` slab sizes. The objects of each
 * size may start a slab page. */
static uint32_t pages_of(size_t count, size_t size, size_t sizes) {
    const size_t each = SLAB_PAGE_SIZE / (size + SLAB_ALIGN);
    return (uint32_t)((count + each - 1) / each + (count < sizes ? count : sizes));
}

/* Upper bound of the pages that the records of a frame need. Each record may need three objects: a task, a serial name
 * and a reason. */
static uint32_t pages_of_records(size_t count) {
    return pages_of(3 * count, task_size(KEY_SIZE_MAX, SERIAL_SIZE_MAX), SLAB_CLASSES);
}

bool need_frame_fits(const struct core *core, const Tarry__FrameBody *body) {
    const uint32_t recurs = pages_of(RECUR_OPS_MAX * RECUR_SET_OBJECTS_MAX, SLAB_OBJECT_SIZE_MAX, SLAB_CLASSES);
    if (!body || pages_of_records(body->n_records) + recurs <= slab_pages_free(core->slab)) return true;
    struct need need = {0};
    for (size_t i = 0; i < body->n_records; i++) need_record(&need, core, body->records[i]);
    return need_fits(core, &need, ROOM_ALL);
}

uint32_t need_pages(const struct core *core) {
    return (uint32_t)(slab_capacity(core->slab) / SLAB_PAGE_SIZE);
}

uint32_t need_pages_free(const struct core *core) {
    return slab_pages_free(core->slab);
}

uint32_t need_pages_of(size_t count) {
    return pages_of(count, task_size(KEY_SIZE_MAX, 0), KEY_SIZE_MAX / SLAB_ALIGN + 2);
}

uint32_t need_pages_kept_free(const struct core *core) {
    uint32_t commit = need_pages_of(2 * OPS_PER_COMMIT_MAX) + RESERVE_PAGES;
    uint32_t most = need_pages(core) / 8 * 5, share = need_pages(core) / 8 + RESERVE_PAGES;
    if (commit > most) commit = most;
    return share > commit ? share : commit;
}

size_t need_lease_room(const struct core *core) {
    size_t share = slab_capacity(core->slab) / LEASES_SHARE;
    return core->lease_bytes < share ? share - core->lease_bytes : 0;
}
