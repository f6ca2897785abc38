/* entry.h: one record of the log, with the frame that it stands in: what happened, when, by which client; printed as a
 * JSON line or as a line for people.
 *
 * Times are the broker's logical clock (DESIGN.md, TIME-2), in Unix milliseconds. Everything is borrowed from the frame
 * and valid until the next one is read. */
#ifndef TARRY_TOOL_ENTRY_H
#define TARRY_TOOL_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "consumers.h"
#include "frame.h"
#include "queue_map.h"
#include "tarry.pb-c.h"
#include "text.h"

/* What a record says: why a task came, changed or went (in the order of enum Cause), or what else happened. */
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
    ENTRY_KINDS
};

struct entry {
    const struct frame_header *header;
    const Tarry__FrameBody *body;
    const Tarry__Record *record;
    const char *queue;               /* name; NULL: the record concerns no queue, or one that is not known */
    const struct queue_map *queues;  /* names; NULL: none is known */
    const struct consumer *consumer; /* the consumer whose session it is about; NULL: none, or not known */
};

enum entry_kind entry_kind(const struct entry *entry);
/* "lease_lost" */
const char *entry_kind_name(enum entry_kind kind);
/* The kind called so; 0: there is none. */
enum entry_kind entry_kind_find(const char *name);
uint64_t entry_ms(const struct entry *entry);
/* The task that it is about: as it is now, or (endings) as it was; NULL: about none. */
const Tarry__Task *entry_task(const struct entry *entry);
/* Its name, or that of a task that was redacted. 0: it is about none. */
uint64_t entry_id(const struct entry *entry, ProtobufCBinaryData *out_key);
/* Number of the queue that it is about; 0: none. */
uint32_t entry_queue(const struct entry *entry);
/* NULL: not known. */
/* It comes into being, for the first time or again. */
bool entry_queue_is_new(const Tarry__QueuePut *queue);
const char *entry_queue_name(const struct entry *entry, uint32_t number);
/* It is about this queue, or a session that serves it. */
bool entry_concerns_queue(const struct entry *entry, const char *queue);
/* The session that it is about: of the lease, or of the last one; 0: none. */
uint64_t entry_session(const struct entry *entry);
/* The task ended. */
bool entry_is_end(const struct entry *entry);
/* The frame's client asked for it; otherwise the broker did it by itself. */
bool entry_is_asked(const struct entry *entry);
/* The due time that the record replaced; 0: it replaced none. */
uint64_t entry_due_before_ms(const struct entry *entry);
/* How long after it was due (or scheduled, if that was later) the task was delivered. False: it was not, or it came
 * back from an earlier lease with its old due time, which would mislead. */
bool entry_late_ms(const struct entry *entry, uint64_t *out);
/* LEASED: when the delivery was to leave, if that is after the record; 0: at once (broker/core/ahead.h). */
uint64_t entry_leaves_ms(const struct entry *entry);
/* Of a nack or a dead letter, UTF-8 as a rule; empty: none. */
ProtobufCBinaryData entry_reason(const struct entry *entry);
/* "purge", "pipe_lost", "stopped": of a job, the end of a session, a start. */
const char *entry_job_name(const struct entry *entry);
const char *entry_session_cause(const struct entry *entry);
/* "silent", "told": why a pair's primary serves alone. */
const char *entry_alone_why(const struct entry *entry);
const char *entry_before_start(const struct entry *entry);
/* "unknown_token": why a client was refused. */
const char *entry_refusal_reason(const struct entry *entry);

void entry_json(struct text *out, const struct entry *entry);
/* Time, kind and what it was, in one line. `with_task`: also which task. */
void entry_words(struct text *out, const struct entry *entry, bool with_task);

#endif
