/* sender.h: sends operations to the target. Collects operations in commits, sends the commits one after another, and
 * handles the answers later.
 *
 * Order: operations take effect in the order in which they are added, because a client has one commit in progress at a
 * time. A recorded frame that was one atomic commit is sent as one commit. Other frames share a commit, but each frame
 * is whole within one commit, so that a crash of the target cannot split a frame.
 *
 * An image describes a recorded task's copy at the target. An image lives until its task has ended in the log and no
 * operation on the copy is unanswered. Answers come on the client's thread; `lock` protects images, counts and
 * examples. */
#ifndef TARRY_TOOL_SENDER_H
#define TARRY_TOOL_SENDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "args.h"
#include "tables.h"
#include "tarry.h"

/* ---- the recorded queues that are replayed, and their names at the target */

struct route {
    const char *recorded; /* owned */
    const char *name;     /* name of the queue at the target, owned */
    bool taken;           /* true: --queue selects this queue */
    bool paused;          /* true: the replay has paused the queue at the target */
    tarry_consumer *consumer;
};

struct routes {
    const struct args *args; /* borrowed command line with --queue and --map */
    struct route **items;    /* routes, owned; each route has a fixed address */
    size_t count;
    struct route *last; /* last result of routes_find */
};

/* Parses --queue and --map. 0, or EXIT_USAGE after an error message. */
int routes_init(struct routes *routes, const struct args *args);
/* Returns the route of a recorded queue; created on first use. Never NULL. */
struct route *routes_find(struct routes *routes, const char *recorded);
void routes_deinit(struct routes *routes); /* the caller must have closed the consumers */

/* ---- sending */

#define SENDER_EXAMPLES_MAX 10u

struct image {
    uint64_t recorded;   /* id of the task in the log */
    _Atomic uint64_t id; /* id of the task at the target; 0: not known yet */
    struct route *route;
    char *key; /* key of the task, owned; NULL: none */
    size_t key_size;
    uint64_t due_ms;     /* due time at the target, approximately */
    uint64_t expires_ms; /* time in ms from the due time to the expiry at the target; 0: never expires */
    unsigned unanswered;
    bool leased;           /* true: the task is leased at the current position of the log */
    bool ended;            /* true: the task has ended at the current position of the log */
    _Atomic bool left_out; /* true: the target behaved differently, so the task is not replayed further */
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
    /* An operation that the log does not have. It brings the target to the state that the log shows; the target may
       refuse it. */
    OP_AUXILIARY,
    OP_KINDS
};

struct op {
    enum op_kind kind;
    uint64_t task;     /* id of the task in the log; 0: none */
    uint64_t position; /* position of the frame that had the operation */
    struct tarry_nack_options nack;
    char *reason;   /* owned: nack.reason */
    bool as_buried; /* true: in the log this nack made the task a dead letter */
    struct op *next;
};

struct sender {
    tarry_client *client;
    tarry_commit *together; /* commit that collects the operations of several frames */
    tarry_commit *atomic;   /* atomic commit with the operations of one frame */
    tarry_commit *commit;   /* commit that is being filled */
    struct op *ops;         /* operations of `commit`, in order; owned */
    size_t op_count;
    size_t op_capacity;
    size_t bytes;
    uint64_t position;      /* position of the frame that is being replayed */
    size_t frame_schedules; /* number of schedules in this frame so far */

    pthread_mutex_t lock;
    struct id_map images; /* images by the task's id in the log */
    uint64_t done[OP_KINDS];
    uint64_t refused;
    char *examples[SENDER_EXAMPLES_MAX]; /* sentences; owned */
    struct op *again;                    /* settlements that must be repeated with another token; owned */
    size_t unanswered;
    int failure;        /* code (enum tarry_code) that ends the replay; TARRY_OK: none */
    uint64_t failed_at; /* position of the first frame that may not have reached the target */
};

int sender_init(struct sender *sender, tarry_client *client); /* a code */
void sender_deinit(struct sender *sender);

/* Begins a frame. Sends the current commit first if it is full. */
void sender_begin_frame(struct sender *sender, uint64_t position, bool atomic);
void sender_end_frame(struct sender *sender);
/* Abandons the frame, which is incomplete; an atomic frame is not sent at all. */
void sender_abandon_frame(struct sender *sender);
/* Sends the collected operations, except an incomplete atomic commit. */
void sender_flush(struct sender *sender);
/* Sends the collected operations like sender_flush, and waits for all answers. */
void sender_settle(struct sender *sender);
/* Records the operation that was just added to sender->commit (`code`: result of tarry_commit_…). */
void sender_note(struct sender *sender, int code, const struct op *op, size_t bytes);
int sender_failure(struct sender *sender);

/* Returns the key for a task's copy at the target. The key of an occurrence loses its prefix OCCURRENCE_PREFIX, because
 * clients may not use such keys. */
const void *sender_key(const void *key, size_t *key_size);
/* Returns the image (the data about the copy at the target) of a recorded task; NULL: the task is not known. */
struct image *sender_image(struct sender *sender, uint64_t recorded);
struct image *sender_image_new(struct sender *sender, uint64_t recorded, struct route *route, const void *key,
                               size_t key_size);
/* Marks the task as ended in the log; the caller must not use `image` afterwards. */
void sender_image_end(struct sender *sender, struct image *image);
/* Returns the id at the target; 0 if it will never be known. Waits for answers if necessary. */
uint64_t sender_id(struct sender *sender, struct image *image);
/* Returns a reference to the task's copy at the target: by id if the id is known; otherwise by key. For a task without
 * a key, waits for the id. */
struct tarry_ref sender_ref(struct sender *sender, struct image *image);
void sender_differs(struct sender *sender, const struct image *image, const char *verb, const char *sentence);
/* Takes one settlement that must be repeated; the caller frees it with op_free. NULL: none. */
struct op *sender_again(struct sender *sender);
void op_free(struct op *op);

#endif
