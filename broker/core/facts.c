/* facts.c: see facts.h. core_wants visits the operations of an event and lists the rows that are neither in memory nor
 * among the event's facts. The caller reads these rows and calls core_wants again until nothing is missing. One call is
 * not enough, because tasks may leave memory while the caller reads. */
#include "facts.h"

#include <string.h>

#include "commit.h"
#include "effects.h"
#include "jobs.h"
#include "queues.h"
#include "requests.h"
#include "slots.h"
#include "tasks.h"

struct facts_node {
    const struct row *row;   /* the row, in a table of rows; NULL in the table of wanted rows */
    const struct want *want; /* id or key of a wanted row; NULL in the tables of rows */
    struct facts_node *next;
};

struct facts_table {
    size_t mask;
    uint64_t salt;
    struct facts_node **rows_by_id; /* hash table by id; NULL: there are no rows */
    struct facts_node **rows_by_key;
    struct facts_node **wants; /* hash table of wanted rows; NULL: no rows are wanted */
};

static struct facts_node **slots_new(const struct facts_table *table, struct arena *arena) {
    size_t size = (table->mask + 1) * sizeof(struct facts_node *);
    struct facts_node **slots = arena_alloc(arena, size);
    if (slots) memset(slots, 0, size);
    return slots;
}

/* Inserts a node into the slot's list. Returns false if the arena is exhausted. */
static bool insert(struct facts_node **slot, struct arena *arena, const struct row *row, const struct want *want) {
    struct facts_node *node = arena_alloc(arena, sizeof *node);
    if (!node) return false;
    *node = (struct facts_node){.row = row, .want = want, .next = *slot};
    *slot = node;
    return true;
}

static bool insert_want(struct facts_table *table, struct arena *arena, const struct want *want, uint64_t key_hash) {
    size_t slot = want->id ? id_slot(want->id, table->mask) : hash_slot(key_hash, table->salt, table->mask);
    if (!table->wants) table->wants = slots_new(table, arena);
    return table->wants && insert(&table->wants[slot], arena, NULL, want);
}

static bool insert_rows(struct facts_table *table, const struct core_facts *facts, struct arena *arena) {
    if (!facts->count) return true;
    table->rows_by_id = slots_new(table, arena);
    table->rows_by_key = slots_new(table, arena);
    if (!table->rows_by_id || !table->rows_by_key) return false;
    for (size_t i = 0; i < facts->count; i++) {
        const struct row *row = &facts->rows[i];
        if (facts_find(table, row->id)) continue; /* the row was found by id and by key, and is entered only once */
        if (!insert(&table->rows_by_id[id_slot(row->id, table->mask)], arena, row, NULL)) return false;
        if (!row->key_size) continue;
        if (!insert(&table->rows_by_key[hash_slot(row_key(row).hash, table->salt, table->mask)], arena, row, NULL))
            return false;
    }
    return true;
}

/* Builds a table with space for `want_count` wanted rows. Returns NULL if the arena is exhausted. */
static struct facts_table *facts_table_sized(const struct core_facts *facts, size_t want_count, uint64_t salt,
                                             struct arena *arena) {
    struct facts_table *table = arena_alloc(arena, sizeof *table);
    if (!table) return NULL;
    size_t size = 16;
    while (size < 2 * (facts->count + want_count)) size *= 2;
    *table = (struct facts_table){.mask = size - 1, .salt = salt};
    if (!insert_rows(table, facts, arena)) return NULL;
    for (size_t i = 0; i < facts->want_count; i++) {
        const struct want *want = &facts->wants[i];
        uint64_t key_hash = task_key_of(want->queue, want->key, want->key_size).hash;
        if (!insert_want(table, arena, want, key_hash)) return NULL;
    }
    return table;
}

struct facts_table *facts_table_new(const struct core_facts *facts, uint64_t salt, struct arena *arena) {
    struct facts_table *table = facts_table_sized(facts, facts->want_count, salt, arena);
    assert(table); /* CALM-1: the reader limits the facts (need.h), so they fit into the effects' arena */
    return table;
}

const struct row *facts_find(const struct facts_table *table, uint64_t id) {
    if (!table->rows_by_id) return NULL;
    for (const struct facts_node *node = table->rows_by_id[id_slot(id, table->mask)]; node; node = node->next) {
        if (node->row->id == id) return node->row;
    }
    return NULL;
}

static const struct row *match_from(const struct facts_node *node, const struct task_key *key) {
    while (node && !row_has_key(node->row, key)) node = node->next;
    return node ? node->row : NULL;
}

const struct row *facts_first(const struct facts_table *table, const struct task_key *key) {
    return table->rows_by_key ? match_from(table->rows_by_key[hash_slot(key->hash, table->salt, table->mask)], key)
                              : NULL;
}

const struct row *facts_next(const struct facts_table *table, const struct row *row) {
    const struct task_key key = row_key(row);
    const struct facts_node *node = table->rows_by_key[hash_slot(key.hash, table->salt, table->mask)];
    while (node && node->row != row) node = node->next;
    return node ? match_from(node->next, &key) : NULL;
}

/* Returns true if the list of wanted rows already has this id. */
static bool facts_asked_id(const struct facts_table *table, uint64_t id) {
    if (!table->wants) return false;
    for (const struct facts_node *node = table->wants[id_slot(id, table->mask)]; node; node = node->next) {
        if (node->want->id == id) return true;
    }
    return false;
}

/* Returns true if the list of wanted rows already has this key. `live_only`: only the live task with the key is needed.
 */
static bool facts_asked_key(const struct facts_table *table, const struct task_key *key, bool live_only) {
    const struct facts_node *node = table->wants ? table->wants[hash_slot(key->hash, table->salt, table->mask)] : NULL;
    for (; node; node = node->next) {
        const struct want *want = node->want;
        if (!want->id && want->queue == key->queue && want->key_size == key->size && (live_only || !want->live_only) &&
            memcmp(want->key, key->data, key->size) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- rows that a command needs */

struct wanting {
    struct core *core;
    struct arena *arena;
    const struct core_filter *filter; /* filter of the keys that may exist; NULL: every key may exist */
    struct facts_table *asked;        /* the rows that were wanted for this event before, and those added now */
    struct want *wants;
    size_t count;
    size_t capacity;
    bool is_exhausted; /* the arena is exhausted */
};

/* Enlarges the list of wanted rows. Returns false if the arena is exhausted. */
static bool grow_wants(struct wanting *w) {
    if (w->count < w->capacity) return true;
    size_t grown = w->capacity ? w->capacity * 2 : 16;
    struct want *wants = arena_alloc(w->arena, grown * sizeof *wants);
    if (!wants) return false;
    if (w->count) memcpy(wants, w->wants, w->count * sizeof *wants);
    w->wants = wants;
    w->capacity = grown;
    return true;
}

static void want(struct wanting *w, const struct want *item, uint64_t key_hash) {
    /* The table refers to a copy of the wanted row, because the list `wants` may move when it grows. Through the table,
     * the same id or key is found later and not added twice. */
    struct want *copy = arena_alloc(w->arena, sizeof *copy);
    if (copy) *copy = *item;
    if (!copy || !grow_wants(w) || !insert_want(w->asked, w->arena, copy, key_hash)) {
        w->is_exhausted = true;
        return;
    }
    w->wants[w->count++] = *item;
}

/* Prefetches the table buckets that are needed if the task ends: its key then moves from one table to another. */
static void prefetch_end(const struct core *core, const struct task *task) {
    if (!task->keyed) return;
    task_prefetch_key_bucket(core, task->key_hash);
    outcomes_prefetch(core->outcomes, task->key_hash);
}

/* Requests the task's row, unless the task is in memory or its outcome is remembered. Returns the outcome, or NULL if
 * no outcome is remembered. */
static const struct outcome *want_id(struct wanting *w, uint64_t id) {
    if (!id || id >= w->core->tally.next_id) return NULL;
    const struct task *task = task_find(w->core, id);
    if (task) prefetch_end(w->core, task);
    if (task && task->place != PLACE_ENDED) return NULL;
    const struct outcome *outcome = outcomes_by_id(w->core->outcomes, id);
    if (!task && !outcome && !facts_asked_id(w->asked, id)) want(w, &(struct want){.id = id}, 0);
    return outcome;
}

static void want_rows(struct wanting *w, const struct task_key *key, bool live_only) {
    if (!key->queue || !key->size) return;
    if (w->filter && !w->filter->may_exist(w->filter->keys, key->hash)) return;
    if (facts_asked_key(w->asked, key, live_only)) return;
    const struct want item = {.queue = key->queue, .key = key->data, .key_size = key->size, .live_only = live_only};
    want(w, &item, key->hash);
}

/* Requests the rows of the live task and of the dead tasks with the key, even if some of them are in memory. */
static void want_any_key(struct wanting *w, const struct task_key *key) {
    want_rows(w, key, false);
}

/* Requests the row of the live task with the key, if the task is not in memory. Does not read dead letters, because
 * very many may have the same key. */
static void want_live_key(struct wanting *w, const struct task_key *key) {
    if (!key->size || task_find_live(w->core, key)) return;
    want_rows(w, key, true);
}

/* Requests the rows of the shares of a task that went to its groups. */
static void want_shares(struct wanting *w, const struct outcome *outcome) {
    if (!outcome || outcome->cause != TARRY__CAUSE__CAUSE_SHARED) return;
    for (uint32_t i = 0; i < outcome->deliveries && i < GROUPS_MAX; i++) (void)want_id(w, outcome->session + i);
}

/* Requests the rows of live tasks with the key in the topic's groups. */
static void want_group_keys(struct wanting *w, const struct queue *topic, const struct task_key *key) {
    const struct queue *group = NULL;
    if (!key->size) return;
    TAILQ_FOREACH(group, &topic->groups, of_topic) {
        const struct task_key own = task_key_of(group->number, key->data, key->size);
        want_live_key(w, &own);
    }
}

/* Requests the rows of live tasks that have the key of a new task, in the queue and in its groups. */
static void want_new_task(struct wanting *w, const struct task_key *key) {
    if (key->size) want_group_keys(w, queue_at(w->core, key->queue), key);
    want_live_key(w, key);
}

/* Requests the rows that a fan-out needs: live tasks of the groups with the task's key. The task itself is in memory,
 * because it is leased. */
static void want_fan_out(struct wanting *w, uint64_t id) {
    const struct task *task = task_find(w->core, id);
    if (!task) return;
    const struct task_key key = row_key(&task->row);
    want_group_keys(w, queue_at(w->core, task->row.queue), &key);
}

static void want_ref(struct wanting *w, const Tarry__Ref *ref) {
    if (!ref) return;
    if (ref->id) {
        want_shares(w, want_id(w, ref->id));
        return;
    }
    const struct queue *queue = queue_find(w->core, ref->queue);
    if (!queue) return;
    const struct task_key key = ref_key(queue, ref);
    if (!key.size || task_find_live(w->core, &key)) return; /* the operation is about the live task */
    want_any_key(w, &key);
    want_shares(w, outcomes_by_key(w->core->outcomes, key.queue, key.data, key.size));
    want_group_keys(w, queue, &key);
}

/* Requests the row of a dead letter by id or key, even if a live task has the same key. If the operation requeues the
 * dead letter, also requests the row of a live task with its key. */
static void want_dead(struct wanting *w, const Tarry__Ref *ref) {
    if (!ref) return;
    if (!ref->id) {
        const struct queue *queue = queue_find(w->core, ref->queue);
        const struct task_key key = queue ? ref_key(queue, ref) : (struct task_key){0};
        want_any_key(w, &key);
        return;
    }
    (void)want_id(w, ref->id);
    const struct task *task = task_find(w->core, ref->id);
    const struct row *row = task ? &task->row : facts_find(w->asked, ref->id);
    const struct task_key key = row ? row_key(row) : (struct task_key){0};
    want_live_key(w, &key);
}

/* Requests the rows that show whether a task to redact still exists: a live task for an id, a live or dead task for a
 * key. */
static void want_redact(struct wanting *w, const Tarry__Ref *ref, const struct core_past *past) {
    if (!ref) return;
    const struct queue *queue = ref->id ? NULL : queue_find(w->core, ref->queue);
    if (ref->id) want_shares(w, want_id(w, ref->id));
    if (queue && ref->key.len) {
        const struct task_key key = ref_key(queue, ref);
        want_any_key(w, &key);
        want_shares(w, outcomes_by_key(w->core->outcomes, key.queue, key.data, key.size));
        want_group_keys(w, queue, &key);
    } else if (past) {
        for (size_t i = 0; i < past->count; i++) (void)want_id(w, past->tasks[i].id);
    }
}

#define WANT_NAMES_NEW_TASK(m) want_new_task(w, key)
#define WANT_NAMES_TASK(m) want_ref(w, (m)->task)
#define WANT_NAMES_DEAD_TASK(m) want_dead(w, (m)->all ? NULL : (m)->task)
#define WANT_NAMES_PAST_TASKS(m) want_redact(w, (m)->task, past)
#define WANT_NAMES_LEASE(m) (void)want_id(w, (m)->id)
#define WANT_NAMES_QUEUE(m) (void)(m) /* the operation needs no task */
#define WANT_NAMES_DEFINITION(m) (void)(m)

/* Requests the rows that one operation needs. `key` is the key of a new task. */
static void want_op(struct wanting *w, const Tarry__Op *op, const struct task_key *key, const struct core_past *past) {
    if (op->op_case == TARRY__OP__OP_FAN_OUT) want_fan_out(w, op->fan_out->id);
    switch (op->op_case) {
#define OPERATION(CASE, member, Message, target, ...)                                                                  \
    case TARRY__OP__OP_##CASE:                                                                                         \
        WANT_##target(op->member);                                                                                     \
        break;
#include "requests.def"
        OPERATION_UNKNOWN
    }
}

/* Id and key in an operation. */
struct named {
    uint64_t id;         /* id that the operation names; 0: none */
    struct task_key key; /* key of the operation's new task */
};

static void name(const struct core *core, const Tarry__Op *op, struct named *out) {
    out->id = op_id(op);
    out->key.size = 0;
    if (op->op_case != TARRY__OP__OP_SCHEDULE) return;
    const struct queue *queue = queue_find(core, op->schedule->queue);
    const ProtobufCBinaryData key = op->schedule->key;
    if (queue) out->key = task_key_of(queue->number, (const char *)key.data, key.len);
}

/* Distance in operations between the three steps of a look-up: first prefetch the operation's table bucket, then
 * prefetch the bucket's first task, then use the task. Without the prefetches, each look-up in a commit of thousands of
 * operations would wait for memory twice. */
#define AHEAD 16u

static void want_ops(struct wanting *w, const struct core_request *request) {
    const Tarry__Commit *commit = request->message->commit;
    const struct core_past *past = request->commit.past;
    struct named ring[2 * AHEAD];
    for (size_t i = 0; i < commit->n_ops + 2 * AHEAD; i++) {
        if (i >= 2 * AHEAD && !op_is_malformed(request, i - 2 * AHEAD)) {
            const struct named *last = &ring[i % (2 * AHEAD)];
            want_op(w, commit->ops[i - 2 * AHEAD], &last->key, past ? &past[i - 2 * AHEAD] : NULL);
        }
        if (i >= AHEAD && i - AHEAD < commit->n_ops && !op_is_malformed(request, i - AHEAD)) {
            const struct named *before = &ring[(i - AHEAD) % (2 * AHEAD)];
            if (before->id) task_prefetch_by_id(w->core, before->id);
            if (before->key.size) task_prefetch_by_key(w->core, before->key.hash);
            if (before->key.size && w->filter && w->filter->prefetch)
                w->filter->prefetch(w->filter->keys, before->key.hash);
        }
        if (i < commit->n_ops && !op_is_malformed(request, i)) {
            struct named *named = &ring[i % (2 * AHEAD)];
            name(w->core, commit->ops[i], named);
            if (named->id) task_prefetch_id_bucket(w->core, named->id);
            if (named->key.size) task_prefetch_key_bucket(w->core, named->key.hash);
        }
    }
}

/* Handles a page of a job that requeues dead tasks: requests the rows of live tasks that have their keys. */
static void want_page(struct wanting *w, const struct core_paged *page) {
    const struct job *job = job_find(w->core, page->job);
    if (!job || job->what != TARRY__JOB_PUT__WHAT__REQUEUE_ALL) return;
    for (size_t i = 0; i < page->row_count; i++) {
        const struct row *row = &page->rows[i];
        if (row->state != ROW_BURIED) continue;
        const struct task_key key = row_key(row);
        want_live_key(w, &key);
    }
}

/* Returns the maximum number of rows to read for the event, for the size of a hash table. The number of shares is only
 * an estimate; the table also works with more rows. */
static size_t wants_max(const struct core_event *event) {
    if (event->kind == CORE_PAGE) return event->page.row_count;
    if (event->request.message->body_case == TARRY__REQUEST__BODY_GET) return 1;
    const Tarry__Commit *commit = event->request.message->commit;
    const struct core_past *past = event->request.commit.past;
    size_t count = commit->n_ops;
    for (size_t i = 0; past && i < commit->n_ops; i++) count += past[i].count;
    return count;
}

static bool may_want(const struct core *core, const struct core_event *event) {
    if (event->kind == CORE_PAGE) return true;
    if (event->kind != CORE_REQUEST) return false;
    if (event->request.message->body_case == TARRY__REQUEST__BODY_GET) return true;
    bool is_commit = event->request.message->body_case == TARRY__REQUEST__BODY_COMMIT;
    return is_commit && commit_decides(core, &event->request);
}

size_t core_wants(struct core *core, const struct core_event *event, struct arena *arena,
                  const struct core_filter *filter, struct want **out_wants) {
    struct wanting w = {.core = core, .arena = arena, .filter = filter};
    if (!may_want(core, event)) return 0;
    const struct core_facts *facts = event->kind == CORE_PAGE ? &event->page.facts : &event->request.facts;
    w.asked = facts_table_sized(facts, facts->want_count + wants_max(event), core->salt, arena);
    if (!w.asked) return WANTS_NO_MEMORY;
    if (event->kind == CORE_PAGE) {
        want_page(&w, &event->page);
    } else if (event->request.message->body_case == TARRY__REQUEST__BODY_GET) {
        want_ref(&w, event->request.message->get->task);
    } else {
        want_ops(&w, &event->request);
    }
    if (w.is_exhausted) return WANTS_NO_MEMORY;
    if (w.count) *out_wants = w.wants;
    return w.count;
}
