/* entry.h: one record of the log with its frame: event, time and client. `tarry audit` and `GET /v1/audit` print it as
 * a JSON line (json_entry). Times are the broker's logical clock (DESIGN.md, TIME-2), in Unix milliseconds. All
 * pointers are borrowed from the frame and valid until the next frame is read. */
#ifndef TARRY_PROTO_ENTRY_H
#define TARRY_PROTO_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "queue_map.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

/* Kind of a record: a change of a task (in the order of enum Cause), or another event. */
enum entry_kind {
    ENTRY_SCHEDULED = 1,
    ENTRY_MOVED,
    ENTRY_LEASED,
    ENTRY_EXTENDED,
    ENTRY_RELEASED,
    ENTRY_LEASE_LOST,
    ENTRY_UNSENT,
    ENTRY_RETRIED,
    ENTRY_DEAD,
    ENTRY_REQUEUED,
    ENTRY_ACKED,
    ENTRY_CANCELLED,
    ENTRY_WITHDRAWN,
    ENTRY_REPLACED,
    ENTRY_PURGED,
    ENTRY_EXPIRED,
    ENTRY_DROPPED,
    ENTRY_SHARED,
    ENTRY_UNMATCHED,
    ENTRY_QUEUE,
    ENTRY_PRODUCER,
    ENTRY_PRODUCER_END,
    ENTRY_JOB,
    ENTRY_JOB_END,
    ENTRY_START,
    ENTRY_CLOCK,
    ENTRY_SESSION,
    ENTRY_SESSION_END,
    ENTRY_STOP,
    ENTRY_REDACTED,
    ENTRY_REFUSED,
    ENTRY_ALONE,
    ENTRY_ALONE_OVER,
    ENTRY_DEFINED,
    ENTRY_RECUR,
    ENTRY_KINDS
};

/* A consumer, which later records name only by the number of its session. */
struct consumer {
    uint64_t session; /* 0: unused */
    char client[CLIENT_NAME_SIZE_MAX + 1];
    char peer[PEER_SIZE_MAX + 1]; /* empty: unknown */
};

struct entry {
    const struct frame_header *header;
    const Tarry__FrameBody *body;
    const Tarry__Record *record;
    const char *queue;              /* name of the record's queue; NULL: no queue, or the name is unknown */
    const struct queue_map *queues; /* names of the queues; NULL: no name is known */
    /* Consumer of the record's session; NULL: no session, or the consumer is unknown. */
    const struct consumer *consumer;
};

enum entry_kind entry_kind(const struct entry *entry);
/* "lease_lost" */
const char *entry_kind_name(enum entry_kind kind);
/* Returns the kind with this name; 0: no such kind. */
enum entry_kind entry_kind_find(const char *name);
uint64_t entry_ms(const struct entry *entry);
/* Returns the task of the record: the new state, or for an ending the last state. NULL: no task. */
const Tarry__Task *entry_task(const struct entry *entry);
/* Returns the id and the key of the task, also of a redacted task. 0: no task. */
uint64_t entry_id(const struct entry *entry, ProtobufCBinaryData *out_key);
/* Returns the number of the record's queue; 0: none. */
uint32_t entry_queue(const struct entry *entry);
/* Returns whether the record creates the queue, for the first time or again. */
bool entry_queue_is_new(const Tarry__QueuePut *queue);
/* Returns the name of the queue with this number; NULL: not known. */
const char *entry_queue_name(const struct entry *entry, uint32_t number);
/* Returns whether the record concerns this queue, or a session that consumes it. */
bool entry_concerns_queue(const struct entry *entry, const char *queue);
/* Returns the session that has or had the lease of the record; 0: none. */
uint64_t entry_session(const struct entry *entry);
/* Returns whether the record ends the task. */
bool entry_is_end(const struct entry *entry);
/* Returns whether a client requested the change in this record; false if the broker made it by itself. */
bool entry_is_asked(const struct entry *entry);
/* Returns the due time that the record replaced; 0: none. */
uint64_t entry_due_before_ms(const struct entry *entry);
/* Sets *out to the delay from the due time to the delivery. For a task that was due when it was scheduled, the delay
 * counts from the schedule. Returns false if the record is no delivery, or if the task was delivered earlier with the
 * same due time. */
bool entry_late_ms(const struct entry *entry, uint64_t *out);
/* Returns the time at which the delivery of a lease leaves, if the lease was recorded before the due time
 * (broker/core/ahead.h). 0: the delivery leaves at once. */
uint64_t entry_leaves_ms(const struct entry *entry);
/* Returns the reason of a nack or a dead letter, usually UTF-8; empty: none. */
ProtobufCBinaryData entry_reason(const struct entry *entry);
/* Returns the word of an enumerator; "unknown" for one that only a newer version knows. */
const char *entry_word(const char *const *words, size_t count, int value);
#define ENTRY_WORD(words, value) entry_word(words, sizeof(words) / sizeof((words)[0]), (int)(value))
/* Returns what a job does: "purge". */
const char *entry_job_name(const struct entry *entry);
/* Returns what happened to a recurrence: "fell_due". */
const char *entry_recur_cause(const struct entry *entry);

#endif
