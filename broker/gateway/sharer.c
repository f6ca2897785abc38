/* sharer.c: see sharer.h. All functions except sharer_wanted run on the door's thread. */
#include "sharer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "tarry_limits.h"

#define SHARER_LEASE_MS 30000u
#define SHARER_TASKS_MAX 1024u /* maximum number of tasks of one lease */
#define SHARER_PAUSE_MS 200u   /* pause after a refused lease */
#define SHARER_BUSY_MS 10u     /* pause before a commit that was refused as BUSY is sent again */
/* Limits of one commit. A commit with one task may exceed the limit of bytes, because a payload may have up to its
 * maximum size. */
#define SHARER_COMMIT_OPS_MAX 128u
#define SHARER_COMMIT_BYTES_MAX (1u << 20)
/* Maximum size of the contents in commits under way; above it, no further lease begins. */
#define SHARER_BYTES_MAX (8u << 20)

_Static_assert(SHARER_COMMIT_OPS_MAX <= FAN_OUTS_PER_COMMIT_MAX, "the broker would refuse the commit");

/* A task of a commit, and the objects to which its operation points. */
struct shared {
    Tarry__Op op;
    union {
        Tarry__FanOut fan_out;
        Tarry__Release release;
    } body;
    Tarry__Token token;
    Tarry__Content *content; /* content of the task, unpacked from `bytes` */
    uint8_t *bytes;
    size_t size;
    uint64_t id;
};

struct sharing { /* a commit of fan-outs, which is kept until its reply arrives */
    TAILQ_ENTRY(sharing) next;
    struct sharer *sharer;
    struct shared *tasks;
    Tarry__Op **ops;
    size_t count;    /* tasks */
    size_t op_count; /* number of operations that are not done yet */
    size_t bytes;
    uint64_t asked; /* handle of the reply to the commit; 0: the commit waits for `timer` */
    uint64_t timer;
};
TAILQ_HEAD(sharing_list, sharing);

struct sharer {
    struct gateway *gateway;
    struct gateway_wakeup *wakeup;
    _Atomic bool is_wanted;
    bool is_started;
    struct gateway_caller caller; /* the broker itself, as the caller; valid if is_started */
    uint64_t lease;               /* handle of the waiting lease; 0: none */
    uint64_t timer;               /* handle of the pause before the next lease; 0: none */
    struct sharing_list commits;
    size_t bytes; /* size of the contents in all commits under way */
};

static void lease_on(struct sharer *sharer);
static void send_commit(struct sharing *sharing);

/* ---- a commit */

static void sharing_free(struct sharing *sharing) {
    for (size_t i = 0; i < sharing->count; i++) {
        if (sharing->tasks[i].content != NULL) tarry__content__free_unpacked(sharing->tasks[i].content, NULL);
        free(sharing->tasks[i].bytes);
    }
    free(sharing->tasks);
    free(sharing->ops);
    free(sharing);
}

static struct sharing *sharing_new(struct sharer *sharer) {
    struct sharing *sharing = calloc(1, sizeof(*sharing));
    if (sharing == NULL) return NULL;
    sharing->sharer = sharer;
    sharing->tasks = calloc(SHARER_COMMIT_OPS_MAX, sizeof(*sharing->tasks));
    sharing->ops = calloc(SHARER_COMMIT_OPS_MAX, sizeof(*sharing->ops));
    if (sharing->tasks != NULL && sharing->ops != NULL) return sharing;
    sharing_free(sharing);
    return NULL;
}

/* Adds a task to the commit. False: out of memory; the task's lease ends, and the task is leased again later. */
static bool sharing_add(struct sharing *sharing, const Tarry__DeliveredTask *task) {
    struct shared *shared = &sharing->tasks[sharing->count];
    const size_t size = task->content.len;
    shared->bytes = malloc(size > 0 ? size : 1);
    if (shared->bytes == NULL) return false;
    if (size > 0) memcpy(shared->bytes, task->content.data, size);
    shared->size = size;
    shared->content = tarry__content__unpack(NULL, size, shared->bytes);
    shared->id = task->id;
    tarry__token__init(&shared->token);
    if (task->token != NULL) {
        shared->token.epoch = task->token->epoch;
        shared->token.position = task->token->position;
    }
    tarry__fan_out__init(&shared->body.fan_out);
    shared->body.fan_out.id = task->id;
    shared->body.fan_out.token = &shared->token;
    shared->body.fan_out.content = (ProtobufCBinaryData){.data = shared->bytes, .len = size};
    if (shared->content != NULL) {
        shared->body.fan_out.attributes = shared->content->attributes;
        shared->body.fan_out.n_attributes = shared->content->n_attributes;
    }
    tarry__op__init(&shared->op);
    shared->op.op_case = TARRY__OP__OP_FAN_OUT;
    shared->op.fan_out = &shared->body.fan_out;
    sharing->ops[sharing->op_count++] = &shared->op;
    sharing->count++;
    sharing->bytes += size;
    return true;
}

static bool is_full(const struct sharing *sharing, const Tarry__DeliveredTask *task) {
    return sharing->count == SHARER_COMMIT_OPS_MAX ||
           (sharing->count > 0 && sharing->bytes + task->content.len > SHARER_COMMIT_BYTES_MAX);
}

static void sharing_end(struct sharing *sharing) {
    struct sharer *sharer = sharing->sharer;
    TAILQ_REMOVE(&sharer->commits, sharing, next);
    sharer->bytes -= sharing->bytes;
    sharing_free(sharing);
    lease_on(sharer);
}

static void on_busy_timer(void *argument) {
    struct sharing *sharing = argument;
    sharing->timer = 0;
    send_commit(sharing);
}

static void send_later(struct sharing *sharing) {
    sharing->timer = gateway_timer(sharing->sharer->gateway, SHARER_BUSY_MS, on_busy_timer, sharing);
    if (sharing->timer == 0) sharing_end(sharing); /* memory is exhausted, so the leases end */
}

/* Makes the next commit from the tasks that were not shared although their leases are valid. A task whose queue has no
 * groups any more is released. A task that the broker had no space for is sent again. Returns the number of these
 * tasks. */
static size_t keep_refused(struct sharing *sharing, const Tarry__CommitReply *reply) {
    Tarry__Op *released[SHARER_COMMIT_OPS_MAX];
    size_t kept = 0, released_count = 0;
    for (size_t i = 0; i < sharing->op_count; i++) {
        struct shared *shared = (struct shared *)((char *)sharing->ops[i] - offsetof(struct shared, op));
        const Tarry__Code code = i < reply->n_results ? reply->results[i]->code : TARRY__CODE__FAILED;
        if (code == TARRY__CODE__NOT_DONE && shared->op.op_case == TARRY__OP__OP_FAN_OUT) {
            tarry__release__init(&shared->body.release);
            shared->body.release.id = shared->id;
            shared->body.release.token = &shared->token;
            shared->op.op_case = TARRY__OP__OP_RELEASE;
            shared->op.release = &shared->body.release;
        } else if (code != TARRY__CODE__BUSY) {
            continue;
        }
        if (shared->op.op_case == TARRY__OP__OP_RELEASE)
            released[released_count++] = &shared->op;
        else
            sharing->ops[kept++] = &shared->op;
    }
    /* fan-outs must come first in a commit, so the releases follow them. */
    for (size_t i = 0; i < released_count; i++) sharing->ops[kept++] = released[i];
    return kept;
}

static void on_committed(void *argument, const Tarry__Reply *reply) {
    struct sharing *sharing = argument;
    const Tarry__Code code = reply != NULL ? reply->code : TARRY__CODE__FAILED;
    sharing->asked = 0;
    if (code == TARRY__CODE__BUSY) {
        send_later(sharing);
        return;
    }
    size_t kept = 0;
    if (code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_COMMIT)
        kept = keep_refused(sharing, reply->commit);
    if (kept == 0) { /* nothing is left to do: each task was shared, or its lease has ended because this broker no
                        longer leads */
        sharing_end(sharing);
        return;
    }
    sharing->op_count = kept;
    send_later(sharing);
}

static void send_commit(struct sharing *sharing) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.ops = sharing->ops;
    commit.n_ops = sharing->op_count;
    struct sharer *sharer = sharing->sharer;
    sharing->asked = gateway_commit(sharer->gateway, &sharer->caller, &commit, NULL, on_committed, sharing);
    if (sharing->asked == 0) send_later(sharing);
}

static void start_commit(struct sharer *sharer, struct sharing *sharing) {
    if (sharing == NULL) return;
    if (sharing->count == 0) {
        sharing_free(sharing);
        return;
    }
    TAILQ_INSERT_TAIL(&sharer->commits, sharing, next);
    sharer->bytes += sharing->bytes;
    send_commit(sharing);
}

/* ---- leases */

static void on_timer(void *argument) {
    struct sharer *sharer = argument;
    sharer->timer = 0;
    lease_on(sharer);
}

static void pause(struct sharer *sharer) {
    if (sharer->timer == 0) sharer->timer = gateway_timer(sharer->gateway, SHARER_PAUSE_MS, on_timer, sharer);
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    struct sharer *sharer = argument;
    const uint64_t lease = sharer->lease;
    struct sharing *sharing = NULL;
    sharer->lease = 0;
    for (size_t i = 0; i < leased->count; i++) {
        if (sharing != NULL && is_full(sharing, leased->tasks[i])) {
            start_commit(sharer, sharing);
            sharing = NULL;
        }
        if (sharing == NULL) sharing = sharing_new(sharer);
        if (sharing == NULL || !sharing_add(sharing, leased->tasks[i])) break; /* out of memory: the leases end */
    }
    start_commit(sharer, sharing);
    if (leased->count > 0) gateway_left(sharer->gateway, lease, true);
    if (leased->code == TARRY__CODE__OK)
        lease_on(sharer);
    else
        pause(sharer);
}

static void lease_on(struct sharer *sharer) {
    if (!sharer->is_started || sharer->lease != 0 || sharer->timer != 0 || sharer->bytes >= SHARER_BYTES_MAX) return;
    if (!atomic_load(&sharer->is_wanted)) return;
    const struct gateway_lease_options options = {.max = SHARER_TASKS_MAX,
                                                  .lease_ms = SHARER_LEASE_MS,
                                                  .wait_ms = GATEWAY_WAIT_MAX_MS,
                                                  .bound = true,
                                                  .sharer = true};
    sharer->lease = gateway_lease(sharer->gateway, &sharer->caller, &options, on_leased, sharer);
    if (sharer->lease == 0) pause(sharer);
}

static void on_wake(void *argument) {
    struct sharer *sharer = argument;
    const bool is_wanted = atomic_load(&sharer->is_wanted);
    if (is_wanted && !sharer->is_started) {
        sharer->caller =
            (struct gateway_caller){.principal = gateway_own(sharer->gateway), .peer = "", .client = "groups"};
        sharer->is_started = true;
    }
    if (!is_wanted && sharer->lease != 0) {
        gateway_cancel(sharer->gateway, sharer->lease);
        sharer->lease = 0;
    }
    lease_on(sharer);
}

struct sharer *sharer_new(struct gateway *gateway) {
    struct sharer *sharer = calloc(1, sizeof(*sharer));
    if (sharer == NULL) return NULL;
    sharer->gateway = gateway;
    TAILQ_INIT(&sharer->commits);
    sharer->wakeup = gateway_wakeup(gateway, on_wake, sharer);
    if (sharer->wakeup != NULL) return sharer;
    free(sharer);
    return NULL;
}

void sharer_free(struct sharer *sharer) {
    if (sharer == NULL) return;
    struct sharing *sharing;
    while ((sharing = TAILQ_FIRST(&sharer->commits)) != NULL) {
        TAILQ_REMOVE(&sharer->commits, sharing, next);
        sharing_free(sharing);
    }
    if (sharer->is_started) gateway_disown(sharer->gateway, sharer->caller.principal);
    free(sharer);
}

void sharer_wanted(struct sharer *sharer, bool wanted) {
    atomic_store(&sharer->is_wanted, wanted);
    gateway_wake(sharer->wakeup);
}
