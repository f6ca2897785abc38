/* draft.c: see draft.h. */
#include "draft.h"

#include <string.h>

#include "apply.h"
#include "effects.h"
#include "facts.h"
#include "slots.h"
#include "tasks.h"
#include "wire.h"

/* State of a task after a record of the draft. An entry is part of the record's memory.
 *
 * If several records change one task, the tables contain the entry of the last record only. If several tasks with one
 * key ended, the tables contain only the one that ended last. So the cost of a look-up does not depend on how many
 * operations of the commit use the same key (CALM-1). */
struct draft_entry {
    struct known known; /* must be the first member, because draft->knowns points to it */
    struct draft_entry *by_id_next;
    struct draft_entry *by_key_next;
};

struct draft_queue {
    Tarry__QueuePut *put;
    struct draft_queue *next;
};

struct draft_definition {
    const Tarry__DefinitionPut *put;
    struct draft_definition *next;
};

void draft_init(struct draft *draft, struct core *core, struct arena *arena, const struct core_facts *facts,
                size_t op_count) {
    *draft = (struct draft){.core = core, .arena = arena, .facts = facts, .next_id = core->tally.next_id};
    if (facts && facts->want_count) draft->facts_table = facts_table_new(facts, core->salt, arena);
    size_t size = 16;
    while (size < 2 * op_count) size *= 2;
    draft->table_mask = size - 1;
}

void draft_init_for(struct draft *draft, struct core *core, struct arena *arena, const struct session *session,
                    size_t op_count) {
    draft_init(draft, core, arena, NULL, op_count);
    draft->client = session->client;
    draft->peer = session->peer;
    draft->principal = session->principal;
}

/* Returns the address of the pointer in the id table that points to the task's entry. If the task has no entry, returns
 * the address of the NULL pointer at which the entry would be added. */
static struct draft_entry **place_of(struct draft *draft, uint64_t id) {
    struct draft_entry **at = &draft->by_id[id_slot(id, draft->table_mask)];
    for (; *at && (*at)->known.row.id != id; at = &(*at)->by_id_next) draft->core->visits++;
    return at;
}

static bool entry_has_key(const struct draft_entry *entry, const struct task_key *key) {
    return entry->known.key_hash == key->hash && row_has_key(&entry->known.row, key);
}

/* Replaces the task's earlier entry of this draft. */
static void enter_id(struct draft *draft, struct draft_entry *entry) {
    struct draft_entry **place = place_of(draft, entry->known.row.id);
    entry->by_id_next = *place ? (*place)->by_id_next : NULL;
    *place = entry;
}

/* Adds the entry to the key table, as the first one of its key. */
static void enter_key(struct draft *draft, struct draft_entry *entry) {
    const struct row *row = &entry->known.row;
    if (!row->key_size) return;
    const struct task_key key = {row->queue, row->key_size, row->key, entry->known.key_hash};
    struct draft_entry **slot = &draft->by_key[hash_slot(key.hash, draft->core->salt, draft->table_mask)];
    for (struct draft_entry **at = slot; *at;) {
        draft->core->visits++;
        bool is_outdated = (*at)->known.row.id == row->id;
        bool is_replaced = entry->known.ended && (*at)->known.ended && entry_has_key(*at, &key);
        if (is_outdated || is_replaced)
            *at = (*at)->by_key_next;
        else
            at = &(*at)->by_key_next;
    }
    entry->by_key_next = *slot;
    *slot = entry;
}

/* Enters the records that were added since the last call into one hash table, in order. A table is built at its first
 * look-up, because many drafts do not need it. Acks look up no keys, new tasks look up no ids, and leases look up
 * neither. */
static void enter_all(struct draft *draft, struct draft_entry ***table, size_t *entered,
                      void (*enter)(struct draft *draft, struct draft_entry *entry)) {
    if (!*table) *table = must_alloc(draft->arena, (draft->table_mask + 1) * sizeof(struct draft_entry *));
    for (; *entered < draft->record_count; ++*entered) {
        struct known *known = draft->knowns[*entered];
        if (known) enter(draft, (struct draft_entry *)known);
    }
}

/* Returns the entry of the last record about the task; NULL: none. */
static struct draft_entry *entry_of(struct draft *draft, uint64_t id) {
    if (!draft->record_count) return NULL;
    enter_all(draft, &draft->by_id, &draft->entered_ids, enter_id);
    return *place_of(draft, id);
}

/* Returns the first of the entries in the key's slot. */
static struct draft_entry *first_with_key(struct draft *draft, const struct task_key *key) {
    if (!draft->record_count) return NULL;
    enter_all(draft, &draft->by_key, &draft->entered_keys, enter_key);
    return draft->by_key[hash_slot(key->hash, draft->core->salt, draft->table_mask)];
}

/* Returns the entry's task with its hash, which is computed only on demand: few tasks change twice in one draft. That
 * saves 300 instructions per put. */
static struct known known_again(struct draft_entry *entry) {
    if (!entry->known.hash) entry->known.hash = row_hash(&entry->known.row);
    return entry->known;
}

bool draft_find(struct draft *draft, uint64_t id, struct known *out) {
    struct draft_entry *entry = entry_of(draft, id);
    if (entry) {
        *out = known_again(entry);
        return true;
    }
    const struct task *task = task_find(draft->core, id);
    if (task) {
        if (task->place == PLACE_ENDED) return false;
        *out = known_of(task);
        return true;
    }
    const struct row *row = draft->facts_table ? facts_find(draft->facts_table, id) : NULL;
    if (!row) return false;
    *out = known_of_row(row);
    return true;
}

enum preference { LIVE_FIRST, DEAD_ONLY };

/* Keeps the better of two tasks with the key: a live one, or else the one that died last. */
static void prefer(struct known *best, bool *found, const struct known *candidate, enum preference preference) {
    bool is_live = candidate->row.state != ROW_BURIED;
    if (is_live && preference == DEAD_ONLY) return;
    bool best_is_live = *found && best->row.state != ROW_BURIED;
    if (*found && best_is_live) return;
    if (*found && !is_live && candidate->row.dead_ms <= best->row.dead_ms) return;
    *best = *candidate;
    *found = true;
}

static bool find_key(struct draft *draft, const struct task_key *key, enum preference preference, struct known *best) {
    bool found = false;
    for (struct draft_entry *entry = first_with_key(draft, key); entry; entry = entry->by_key_next) {
        draft->core->visits++;
        if (entry->known.ended || !entry_has_key(entry, key)) continue;
        struct known known = known_again(entry);
        prefer(best, &found, &known, preference);
        if (found && best->row.state != ROW_BURIED) return true; /* only one task with the key can be live */
    }
    struct task *in_memory[2];
    task_find_key(draft->core, key, &in_memory[0], &in_memory[1]);
    for (size_t i = 0; i < 2; i++) {
        if (!in_memory[i] || entry_of(draft, in_memory[i]->row.id)) continue;
        struct known known = known_of(in_memory[i]);
        prefer(best, &found, &known, preference);
    }
    if (draft->facts_table) {
        for (const struct row *row = facts_first(draft->facts_table, key); row;
             row = facts_next(draft->facts_table, row)) {
            draft->core->visits++;
            /* Skip a row that was read from the index if the draft or memory has a newer state of its task. */
            bool is_known = entry_of(draft, row->id) || task_find(draft->core, row->id);
            if (is_known) continue;
            struct known known = known_of_row(row);
            prefer(best, &found, &known, preference);
        }
    }
    return found;
}

bool draft_find_key(struct draft *draft, const struct task_key *key, struct known *out) {
    return find_key(draft, key, LIVE_FIRST, out);
}

bool draft_find_live(struct draft *draft, const struct task_key *key, struct known *out) {
    return key->size && draft_find_key(draft, key, out) && out->row.state != ROW_BURIED;
}

bool draft_find_dead(struct draft *draft, const struct task_key *key, struct known *out) {
    return find_key(draft, key, DEAD_ONLY, out);
}

bool draft_ended_key(struct draft *draft, const struct task_key *key, struct known *out) {
    for (const struct draft_entry *entry = first_with_key(draft, key); entry; entry = entry->by_key_next) {
        draft->core->visits++;
        if (!entry->known.ended || !entry_has_key(entry, key)) continue;
        *out = entry->known;
        return true;
    }
    return false;
}

/* Copies a list with one item per record into a larger array. */
static void *grow(struct draft *draft, const void *items, size_t item_size, size_t capacity) {
    void *grown = must_have(draft->arena, capacity * item_size);
    if (draft->record_count) memcpy(grown, items, draft->record_count * item_size);
    return grown;
}

/* Adds a record. `known`: the task after the record; NULL: the record is not about a task. */
static void add(struct draft *draft, Tarry__Record *record, struct known *known) {
    if (draft->record_count == draft->record_capacity) {
        size_t capacity = draft->record_capacity ? draft->record_capacity * 2 : 16;
        draft->records = grow(draft, draft->records, sizeof(Tarry__Record *), capacity);
        draft->knowns = grow(draft, draft->knowns, sizeof(struct known *), capacity);
        draft->record_capacity = capacity;
    }
    draft->has_tasks |= known != NULL;
    draft->knowns[draft->record_count] = known;
    draft->records[draft->record_count++] = record;
}

Tarry__Record *draft_record(struct draft *draft) {
    Tarry__Record *record = must_have(draft->arena, sizeof *record);
    tarry__record__init(record);
    add(draft, record, NULL);
    return record;
}

void draft_by_request(struct draft *draft, const struct core_request *request) {
    draft->client = request->message->client;
    draft->peer = request->peer;
    draft->principal = request->caller ? request->caller->name : NULL;
}

/* A task's record with all its parts, in one allocation. */
struct put_record {
    Tarry__Record record;
    Tarry__TaskPut put;
    Tarry__Task task;
    struct draft_entry entry;
};
struct end_record {
    Tarry__Record record;
    Tarry__TaskEnd end;
    Tarry__Task task;
    struct draft_entry entry;
};

static Tarry__TaskPut *add_put(struct draft *draft, Tarry__Cause cause, const struct row *row, uint64_t key_hash) {
    struct put_record *made = must_have(draft->arena, sizeof *made);
    made->record = (Tarry__Record)TARRY__RECORD__INIT;
    made->record.fact_case = TARRY__RECORD__FACT_PUT;
    made->record.put = &made->put;
    made->put = (Tarry__TaskPut)TARRY__TASK_PUT__INIT;
    made->put.cause = cause;
    made->put.task = &made->task;
    row_to_task(row, &made->task);
    struct known *known = &made->entry.known;
    known->row = *row;
    known->hash = 0;
    known->key_hash = key_hash;
    known->ended = TARRY__CAUSE__CAUSE_NONE;
    add(draft, &made->record, known);
    return &made->put;
}

Tarry__TaskPut *draft_put(struct draft *draft, Tarry__Cause cause, const struct known *before, const struct row *row) {
    Tarry__TaskPut *put = add_put(draft, cause, row, before->key_hash);
    put->before_hash = before->hash;
    put->before_state = (Tarry__Task__State)before->row.state;
    put->before_time_base = (Tarry__Task__Base)before->row.base;
    put->before_due_ms = before->row.due_ms;
    if (before->row.priority != row->priority) put->before_priority = before->row.priority + 1u;
    put->before_attempt = before->row.attempt;
    if (before->row.state == ROW_LEASED) put->before_lease_deadline_ms = before->row.lease_deadline_ms;
    if (cause == TARRY__CAUSE__CAUSE_LEASED || cause == TARRY__CAUSE__CAUSE_UNSENT) {
        put->before_session = before->row.session;
        put->before_delivered_ms = before->row.delivered_ms;
    }
    return put;
}

static void add_content(struct draft *draft, struct row *row, const struct core_content *content) {
    row->blob_at = frame_blob_position(draft->core->position) + draft->blob_size;
    row->blob_size = content->size;
    row->blob_sum = content->sum;
    if (draft->content_count % 256 == 0) {
        size_t size = sizeof *draft->contents;
        const struct core_content **grown = must_alloc(draft->arena, (draft->content_count + 256) * size);
        if (draft->content_count) memcpy(grown, draft->contents, draft->content_count * size);
        draft->contents = grown;
    }
    draft->contents[draft->content_count++] = content;
    draft->blob_size += content->size;
}

Tarry__TaskPut *draft_put_new(struct draft *draft, struct row *row, uint64_t key_hash,
                              const struct core_content *content) {
    row->id = draft->next_id++;
    add_content(draft, row, content);
    Tarry__TaskPut *put = add_put(draft, TARRY__CAUSE__CAUSE_SCHEDULED, row, key_hash);
    put->fresh = true;
    put->content_hash.data = (uint8_t *)content->hash;
    put->content_hash.len = CONTENT_HASH_SIZE;
    return put;
}

Tarry__TaskEnd *draft_end(struct draft *draft, Tarry__Cause cause, const struct known *before) {
    struct end_record *made = must_have(draft->arena, sizeof *made);
    made->record = (Tarry__Record)TARRY__RECORD__INIT;
    made->record.fact_case = TARRY__RECORD__FACT_END;
    made->record.end = &made->end;
    made->end = (Tarry__TaskEnd)TARRY__TASK_END__INIT;
    made->end.cause = cause;
    made->end.task = &made->task;
    row_to_task(&before->row, &made->task);
    made->entry.known = *before;
    made->entry.known.ended = cause;
    add(draft, &made->record, &made->entry.known);
    return &made->end;
}

static Tarry__QueuePut *queue_record(const struct draft *draft, const struct queue *queue) {
    if (!draft->queues) return NULL;
    const struct draft_queue *said = draft->queues[id_slot(queue->number, draft->table_mask)];
    for (; said && said->put->number != queue->number; said = said->next) draft->core->visits++;
    return said ? said->put : NULL;
}

static void note_queue(struct draft *draft, Tarry__QueuePut *put) {
    if (!draft->queues) draft->queues = must_alloc(draft->arena, (draft->table_mask + 1) * sizeof *draft->queues);
    struct draft_queue **slot = &draft->queues[id_slot(put->number, draft->table_mask)];
    struct draft_queue *said = must_have(draft->arena, sizeof *said);
    *said = (struct draft_queue){.put = put, .next = *slot};
    *slot = said;
}

const Tarry__Policy *draft_queue_now(const struct draft *draft, const struct queue *queue) {
    const Tarry__QueuePut *put = queue_record(draft, queue);
    return put ? put->policy : &queue->policy;
}

/* Writes the judgements of outages into the record (overdue.h). */
static void put_overdues(struct arena *arena, const struct queue *queue, Tarry__QueuePut *put) {
    if (!queue->overdue_count) return;
    Tarry__Overdue *all = must_alloc(arena, queue->overdue_count * sizeof *all);
    put->overdue = must_alloc(arena, queue->overdue_count * sizeof(Tarry__Overdue *));
    put->n_overdue = queue->overdue_count;
    for (uint32_t i = 0; i < queue->overdue_count; i++) {
        const struct overdue *from = &queue->overdues[i];
        tarry__overdue__init(&all[i]);
        all[i].after_steady_ms = from->after_ms[ROW_STEADY];
        all[i].until_steady_ms = from->until_ms[ROW_STEADY];
        all[i].after_wall_ms = from->after_ms[ROW_WALL];
        all[i].until_wall_ms = from->until_ms[ROW_WALL];
        all[i].id_end = from->id_end;
        all[i].overdue_expire_ms = from->expire_ms;
        all[i].overdue_dead_ms = from->dead_ms;
        all[i].overdue_spread_ms = from->spread_ms;
        put->overdue[i] = &all[i];
    }
}

Tarry__QueuePut *draft_queue(struct draft *draft, const struct queue *queue) {
    Tarry__QueuePut *known = queue_record(draft, queue);
    if (known) return known;
    Tarry__QueuePut *put = must_alloc(draft->arena, sizeof *put);
    tarry__queue_put__init(put);
    put->number = queue->number;
    put->name = (char *)queue->name;
    put->policy = must_alloc(draft->arena, sizeof *put->policy);
    *put->policy = queue->policy;
    put->creator = (char *)queue->creator;
    put->paused = queue->paused;
    put->paused_until_ms = queue->paused_until_ms;
    put_overdues(draft->arena, queue, put);
    put->before_hash = queue->hash;
    put->before_policy = must_alloc(draft->arena, sizeof *put->before_policy);
    *put->before_policy = queue->policy;
    put->before_paused = queue->paused;
    put->before_paused_until_ms = queue->paused_until_ms;
    put->deleted = put->before_deleted = queue->deleted;
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_QUEUE;
    record->queue = put;
    note_queue(draft, put);
    return put;
}

static struct draft_definition **definition_slot(const struct draft *draft, const struct definition_key *key) {
    uint64_t hash = row_key_hash(0, key->name, key->name_size);
    return &draft->definitions[hash_slot(hash, draft->core->salt, draft->table_mask)];
}

const Tarry__DefinitionPut *draft_definition(const struct draft *draft, const struct definition_key *key) {
    if (!draft->definitions) return NULL;
    for (const struct draft_definition *said = *definition_slot(draft, key); said; said = said->next) {
        const Tarry__DefinitionPut *put = said->put;
        draft->core->visits++;
        if (put->name.len == key->name_size && memcmp(put->name.data, key->name, key->name_size) == 0 &&
            strcmp(put->space, key->space) == 0)
            return put;
    }
    return NULL;
}

void draft_define(struct draft *draft, const struct definition_key *key, Tarry__DefinitionPut *put) {
    if (!draft->definitions)
        draft->definitions = must_alloc(draft->arena, (draft->table_mask + 1) * sizeof *draft->definitions);
    struct draft_definition **slot = definition_slot(draft, key);
    struct draft_definition *said = must_have(draft->arena, sizeof *said);
    *said = (struct draft_definition){.put = put, .next = *slot};
    *slot = said;
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_DEFINITION;
    record->definition = put;
}

void draft_commit(struct draft *draft, const struct draft_commit *commit, struct core_effects *effects) {
    struct core *core = draft->core;
    if (!draft->record_count && !commit) return;
    assert(is_deciding(core));
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    body.n_records = draft->record_count;
    body.records = draft->records;
    if (draft->client) body.client = (char *)draft->client;
    if (draft->peer) body.peer = (char *)draft->peer;
    if (draft->principal) body.principal = (char *)draft->principal;
    if (commit) {
        body.producer = commit->producer;
        body.sequence = commit->sequence;
        body.oldest_unanswered = commit->oldest_unanswered;
        body.atomic = commit->atomic;
        body.reply.data = (uint8_t *)commit->reply;
        body.reply.len = commit->reply_size;
    }
    size_t room = frame_body_room(&body);
    uint8_t *end = (uint8_t *)must_have(draft->arena, room) + room;
    const uint8_t *bytes = frame_body_pack(&body, end);
    size_t size = (size_t)(end - bytes);
    /* The limits of requests keep each frame within FRAME_BODY_SIZE_MAX and FRAME_BLOB_SIZE_MAX. */
    assert(size <= FRAME_BODY_SIZE_MAX && draft->blob_size <= FRAME_BLOB_SIZE_MAX);
    *PUSH(effects, appends) = (struct core_append){
        .position = core->position,
        .type = FRAME_COMMIT,
        .epoch = core->epoch,
        .now = core->now,
        .body = bytes,
        .body_size = (uint32_t)size,
        .contents = draft->contents,
        .content_count = draft->content_count,
    };
    core->sealed = false;
    core->seal_at_ms = UINT64_MAX;
    core->recorded = core->now;
    int error = apply_frame(core, frame_size((uint32_t)size, (uint32_t)draft->blob_size), &body, draft->knowns);
    assert(error == 0); /* LOG-2: apply cannot fail on records that were decided here */
}
