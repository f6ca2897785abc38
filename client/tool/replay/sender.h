/* sender.h: operations on their way into the target: gathered into commits, sent one after another, answered later.
 *
 * Order: what is added first takes effect first, for a client has one commit under way at a time. A recorded frame that
 * was one atomic commit goes as one; others travel together, each within one commit of the target's (one frame of its
 * log), so that a crash there cannot part what was together here.
 *
 * An image is a recorded task as it is in the target. It lives until it has ended in the record and nothing about it is
 * unanswered. Answers come on the client's thread; `lock` guards images, counts and what they say. */
#ifndef TARRY_TOOL_SENDER_H
#define TARRY_TOOL_SENDER_H

#include <pthread.h>
#include <stdatomic.h>

#include "id_map.h"
#include "routes.h"
#include "tarry.h"

#define SENDER_EXAMPLES_MAX 10u

struct image {
    uint64_t recorded;   /* id in the record */
    _Atomic uint64_t id; /* in the target; 0: not answered yet */
    struct route *route;
    char *key; /* owned; NULL: none */
    size_t key_size;
    uint64_t due_ms;     /* in the target, about */
    uint64_t expires_ms; /* in the target: a duration after due; 0: never */
    unsigned unanswered;
    bool leased;           /* by now, in the record */
    bool ended;            /* likewise */
    _Atomic bool left_out; /* the target has gone another way, or never had it: nothing more is done about it */
};

enum op_kind {
    OP_SCHEDULE,
    OP_MOVE,
    OP_CANCEL,
    OP_ACK,
    OP_NACK,
    OP_RELEASE,
    OP_REQUEUE,
    OP_DROP,
    OP_QUEUE,
    OP_AUXILIARY, /* was not recorded: brings the target to where the record is; may be refused */
    OP_KINDS
};

struct op {
    enum op_kind kind;
    uint64_t task;     /* id in the record; 0: none */
    uint64_t position; /* of the frame that it was recorded in */
    struct tarry_nack_options nack;
    char *reason;   /* owned: nack.reason */
    bool as_buried; /* the record says that this nack ended among the dead letters */
    struct op *next;
};

struct sender {
    tarry_client *client;
    tarry_commit *together; /* of several frames */
    tarry_commit *atomic;   /* of one */
    tarry_commit *commit;   /* the one that is being filled */
    struct op *ops;         /* of `commit`, in order; owned */
    size_t op_count;
    size_t op_capacity;
    size_t bytes;
    uint64_t position;      /* of the frame that is being replayed */
    size_t frame_schedules; /* tasks that it has brought so far */

    pthread_mutex_t lock;
    struct id_map images; /* by id in the record */
    uint64_t done[OP_KINDS];
    uint64_t refused;
    char *examples[SENDER_EXAMPLES_MAX]; /* sentences; owned */
    struct op *again;                    /* settlements to be made again, with another token; owned */
    size_t unanswered;
    int failure;        /* enum tarry_code: nothing more can be done */
    uint64_t failed_at; /* position of the first frame that may not have got through */
};

int sender_init(struct sender *sender, tarry_client *client); /* a code */
void sender_deinit(struct sender *sender);

/* A new frame begins: what is full goes off. */
void sender_begin_frame(struct sender *sender, uint64_t position, bool atomic);
void sender_end_frame(struct sender *sender);
/* The frame is not complete, and goes no further: nothing of it if it is atomic. */
void sender_abandon_frame(struct sender *sender);
/* Sends what was gathered, but for an atomic commit that is not complete. */
void sender_flush(struct sender *sender);
/* … and waits for every answer. */
void sender_settle(struct sender *sender);
/* Notes the operation that was just added to sender->commit (`code`: what tarry_commit_… said). */
void sender_note(struct sender *sender, int code, const struct op *op, size_t bytes);
int sender_failure(struct sender *sender);

struct image *sender_image(struct sender *sender, uint64_t recorded); /* NULL: not known */
struct image *sender_image_new(struct sender *sender, uint64_t recorded, struct route *route, const void *key,
                               size_t key_size);
/* It has ended in the record: `image` is not the caller's any more. */
void sender_image_end(struct sender *sender, struct image *image);
/* The target's id; 0 if it is not known, and never will be. Waits for answers if it must. */
uint64_t sender_id(struct sender *sender, struct image *image);
/* By id if it is known, else by key if it has one, else by the id that is waited for. */
struct tarry_ref sender_ref(struct sender *sender, struct image *image);
void sender_differs(struct sender *sender, const struct image *image, const char *verb, const char *sentence);
/* One settlement to be made again; the caller frees it with op_free. NULL: none. */
struct op *sender_again(struct sender *sender);
void op_free(struct op *op);

#endif
