/* draft.h: the records of a frame before the frame is appended (LOG-2).
 *
 * `decide` writes records into a draft and reads through it. So the second operation of a commit sees the decision of
 * the first. A dropped draft changes nothing; draft_commit appends the frame and applies it. */
#ifndef TARRY_CORE_DRAFT_H
#define TARRY_CORE_DRAFT_H

#include "definitions.h"
#include "tasks.h"

struct draft_entry;
struct draft_queue;
struct draft_definition;

struct draft {
    struct core *core;
    struct arena *arena;
    const struct core_facts *facts; /* rows that were read for the event; NULL: all needed data are in memory */
    struct facts_table *facts_table;
    Tarry__Record **records;
    struct known **knowns; /* for each record, the task after it; NULL: the record is not about a task */
    size_t record_count;
    size_t record_capacity;
    struct draft_entry **by_id; /* hash table; built at the first look-up by id */
    struct draft_entry **by_key;
    size_t entered_ids; /* number of records at the start of the draft that are in `by_id` */
    size_t entered_keys;
    size_t table_mask;
    struct draft_queue **queues;                  /* changes of queues, by number; NULL: no change yet */
    uint32_t groups;                              /* queues that become groups in this draft */
    uint32_t pushes;                              /* number of queues without a push URL that get one in this draft */
    bool has_job;                                 /* the draft starts a job */
    bool has_tasks;                               /* the draft has a record about a task */
    struct draft_definition **definitions;        /* changes of definitions, by name; NULL: no change yet */
    uint32_t define_count;                        /* number of Define operations decided in this commit so far */
    uint64_t define_size;                         /* bytes of the definitions that this commit sets (definition_size) */
    const char *define_space;                     /* space of the definitions that this commit sets; NULL: none yet */
    const Tarry__RecurPut *recurs[RECUR_OPS_MAX]; /* recurrences that operations of the draft set or change */
    size_t recur_count;
    size_t share_count;                   /* number of shares that cancels and moves of the draft change */
    const struct core_content **contents; /* contents accepted until now */
    size_t content_count;
    uint64_t blob_size;
    uint64_t next_id;
    const char *client; /* the requester, for the frame (tarry.proto, FrameBody); NULL: the broker itself */
    const char *peer;
    const char *principal;
};

/* Initialises a draft. `op_count`: estimated number of tasks that change. */
void draft_init(struct draft *draft, struct core *core, struct arena *arena, const struct core_facts *facts,
                size_t op_count);

/* Initialises a draft for a change that the broker makes for a session; the frame names the session's client. */
void draft_init_for(struct draft *draft, struct core *core, struct arena *arena, const struct session *session,
                    size_t op_count);

/* Searches the task in the draft, then in memory, then in the facts. Returns false if no live or dead task is found
 * there. A task that ended in this draft is found, with `ended` set. */
bool draft_find(struct draft *draft, uint64_t id, struct known *out);
/* Finds the live task with this key; if there is none, the dead one that died last. */
bool draft_find_key(struct draft *draft, const struct task_key *key, struct known *out);
/* Finds the live task with this key. Returns false also for an empty key. */
bool draft_find_live(struct draft *draft, const struct task_key *key, struct known *out);
/* Finds the dead task with this key that died last, even if a live task has the same key. */
bool draft_find_dead(struct draft *draft, const struct task_key *key, struct known *out);
/* Finds the task with this key that ended in this draft. */
bool draft_ended_key(struct draft *draft, const struct task_key *key, struct known *out);

/* Records the client of the request as the requester of the draft. */
void draft_by_request(struct draft *draft, const struct core_request *request);

/* Adds a record that the task's row is now `row`. The caller may add fields to the record. */
Tarry__TaskPut *draft_put(struct draft *draft, Tarry__Cause cause, const struct known *before, const struct row *row);
/* Adds a new task and its content; `content` says where the content will be. `key_hash` is row_key(row).hash. The
 * caller may add fields to the record. */
Tarry__TaskPut *draft_put_new(struct draft *draft, struct row *row, uint64_t key_hash,
                              const struct core_content *content);
/* Adds a record that the task has ended. The caller may add fields to the record. */
Tarry__TaskEnd *draft_end(struct draft *draft, Tarry__Cause cause, const struct known *before);
/* Adds a record of another type, initialised; it is allocated in the arena. */
Tarry__Record *draft_record(struct draft *draft);
/* Returns the queue's policy after this draft. */
const Tarry__Policy *draft_queue_now(const struct draft *draft, const struct queue *queue);
/* Adds or returns the record of the queue's row; the caller changes the row there. */
Tarry__QueuePut *draft_queue(struct draft *draft, const struct queue *queue);

/* Returns the draft's last record about the definition; NULL: none. */
const Tarry__DefinitionPut *draft_definition(const struct draft *draft, const struct definition_key *key);
/* Adds a record about a definition. */
void draft_define(struct draft *draft, const struct definition_key *key, Tarry__DefinitionPut *put);

struct draft_commit { /* data of a client's commit; NULL for decisions of the broker itself */
    uint64_t producer;
    uint64_t sequence;
    uint64_t oldest_unanswered;
    bool atomic;
    const uint8_t *reply; /* packed CommitReply */
    size_t reply_size;
};
/* Appends the frame, if the draft has records, and applies it. */
void draft_commit(struct draft *draft, const struct draft_commit *commit, struct core_effects *effects);

#endif
