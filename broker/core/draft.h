/* draft.h: what a frame is going to say, before anything is said (LOG-2).
 *
 * `decide` writes records into a draft and reads through it, so that the second operation of a commit sees what the
 * first one decided. A draft that is dropped has changed nothing; draft_commit appends the frame and applies it. */
#ifndef TARRY_CORE_DRAFT_H
#define TARRY_CORE_DRAFT_H

#include "tasks.h"

struct draft_entry;
struct draft_queue;

struct draft {
    struct core *core;
    struct arena *arena;
    const struct core_facts *facts; /* NULL: memory knows all that is needed */
    struct facts_table *facts_table;
    Tarry__Record **records;
    struct known **knowns; /* of each record: the task as it leaves it; NULL: it is about something else */
    size_t record_count;
    size_t record_capacity;
    struct draft_entry **by_id; /* hash tables, each made when something is looked up in it first … */
    struct draft_entry **by_key;
    size_t entered_ids; /* … of the first records so many */
    size_t entered_keys;
    size_t table_mask;
    struct draft_queue **queues;          /* what is said of queues, by number; NULL: nothing is yet */
    uint32_t pushes;                      /* queues that get a push URL by it, and had none */
    bool has_job;                         /* it starts a job */
    const struct core_content **contents; /* accepted so far */
    size_t content_count;
    uint64_t blob_size;
    uint64_t next_id;
    const char *client; /* the requester: for the frame (tarry.proto, FrameBody); NULL: the broker by itself */
    const char *peer;
    const char *principal;
};

/* `op_count`: about how many tasks will be touched. */
void draft_init(struct draft *draft, struct core *core, struct arena *arena, const struct core_facts *facts,
                size_t op_count);

/* What the broker does for a session: its frame says whose that is. */
void draft_init_for(struct draft *draft, struct core *core, struct arena *arena, const struct session *session,
                    size_t op_count);

/* Draft, then memory, then facts. False: neither live nor dead, as far as memory and index know. A task that ended in
 * this very draft is found, with `ended` set. */
bool draft_find(struct draft *draft, uint64_t id, struct known *out);
/* The live one with this key, else the one that died last. */
bool draft_find_key(struct draft *draft, const struct task_key *key, struct known *out);
/* The dead one with this key that died last, whatever else lives under it. */
bool draft_find_dead(struct draft *draft, const struct task_key *key, struct known *out);
/* The one with this key that ended in this very draft. */
bool draft_ended_key(struct draft *draft, const struct task_key *key, struct known *out);

/* The event's request is what the draft decides on: its client is who. */
void draft_by_request(struct draft *draft, const struct core_event *event);

/* A record that the task is now `row`. The record may be added to. */
Tarry__TaskPut *draft_put(struct draft *draft, Tarry__Cause cause, const struct known *before, const struct row *row);
/* A new task and its content (which says where it will lie). `key_hash`: row_key(row).hash. */
void draft_put_new(struct draft *draft, struct row *row, uint64_t key_hash, const struct core_content *content);
void draft_end(struct draft *draft, Tarry__Cause cause, const struct known *before);
/* Any other fact; the record lives in the arena, cleared and initialised. */
Tarry__Record *draft_record(struct draft *draft);
/* The queue's policy as this draft leaves it. */
const Tarry__Policy *draft_queue_now(const struct draft *draft, const struct queue *queue);
/* The queue's row as this draft leaves it, to be changed: a record. */
Tarry__QueuePut *draft_queue(struct draft *draft, const struct queue *queue);

struct draft_commit { /* of a client; NULL for decisions of the broker's own */
    uint64_t producer;
    uint64_t sequence;
    uint64_t oldest_unanswered;
    bool atomic;
    const uint8_t *reply; /* packed CommitReply */
    size_t reply_size;
};
/* Appends the frame (if there is anything to say) and applies it. */
void draft_commit(struct draft *draft, const struct draft_commit *commit, struct core_effects *effects);

#endif
