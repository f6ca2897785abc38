/* amqp_drop.c: queues that end without a client's request: their owner or their last consumer has gone, or no client
 * has used them for the time of x-expires. Also ends the broker's queue of an AMQP queue that was deleted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"

/* Pauses before the attempts to delete the broker's queue of a deleted AMQP queue. Sessions of former consumers end
 * after 2 s, and a purge takes some time. */
static const uint64_t pauses_ms[] = {3000, 10000, 60000};
/* Pause after a deletion that was refused. */
#define REFUSED_MS 1000u
/* Smallest pause between two searches for queues that have expired. */
#define EXPIRY_PAUSE_MS 50u

struct drop {
    TAILQ_ENTRY(drop) next;
    struct amqp *server;
    struct job job;
    unsigned tries;
    char name[AMQP_NAME_MAX + 1];
};

static void drop_free(struct drop *drop) {
    TAILQ_REMOVE(&drop->server->drops, drop, next);
    free(drop);
}

void drops_free(struct amqp *server) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): drop_free has removed those that it freed
    while (!TAILQ_EMPTY(&server->drops)) drop_free(TAILQ_FIRST(&server->drops));
}

static struct drop *drop_new(struct amqp *server, const char *name) {
    struct drop *drop = calloc(1, sizeof(*drop));
    if (drop == NULL) return NULL;
    drop->server = server;
    snprintf(drop->name, sizeof(drop->name), "%s", name);
    TAILQ_INSERT_TAIL(&server->drops, drop, next);
    return drop;
}

/* ---- the broker's queue */

/* Deletes the broker's queue, so that its place is free for another one. Ignores the reply: a queue that is not empty
 * stays. */
static void on_delete_timer(void *argument) {
    struct drop *drop = argument;
    struct amqp *server = drop->server;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    Tarry__Op op = TARRY__OP__INIT, *ops = &op;
    Tarry__QueueDelete body = TARRY__QUEUE_DELETE__INIT;
    struct amqp_topology *topology = &server->store.topology;
    bool is_back = server->store.state != STORE_LOADED || amqp_queue_find(topology, amqp_text(drop->name)) != NULL ||
                   amqp_exchange_waiting(topology, drop->name) != NULL;
    if (is_back) {
        drop_free(drop);
        return;
    }
    body.queue = drop->name;
    body.forget = true;
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &body;
    commit.ops = &ops;
    commit.n_ops = 1;
    const struct gateway_caller caller = own_caller(server->gateway);
    (void)gateway_commit(server->gateway, &caller, &commit, NULL, NULL, NULL);
    gateway_disown(server->gateway, caller.principal);
    bool is_last = ++drop->tries == sizeof(pauses_ms) / sizeof(pauses_ms[0]);
    if (is_last || gateway_timer(server->gateway, pauses_ms[drop->tries], on_delete_timer, drop) == 0) drop_free(drop);
}

void queue_forget(struct amqp *server, const char *name) {
    struct drop *drop = drop_new(server, name);
    if (drop != NULL && gateway_timer(server->gateway, pauses_ms[0], on_delete_timer, drop) == 0) drop_free(drop);
}

/* ---- the AMQP queue */

static void run_drop(void *argument);

static void on_again(void *argument) {
    struct drop *drop = argument;
    store_enter(&drop->server->store, &drop->job, run_drop, drop);
}

static void on_dropped(void *argument, const struct stored_result *result) {
    struct drop *drop = argument;
    struct amqp *server = drop->server;
    remove_doomed(server, result);
    topology_count(server);
    store_leave(&server->store, &drop->job);
    if (result->code != TARRY__CODE__BUSY || gateway_timer(server->gateway, REFUSED_MS, on_again, drop) == 0)
        drop_free(drop); /* If the queue was not dropped, the next start of the broker drops it. */
}

static bool has_expired(const struct amqp_queue *queue) {
    return queue->expires_ms > 0 && queue->consumer_count == 0 && queue->used_ms + queue->expires_ms <= amqp_now_ms();
}

static void run_drop(void *argument) {
    struct drop *drop = argument;
    struct store *store = &drop->server->store;
    struct amqp_queue *queue =
        store->state == STORE_LOADED ? amqp_queue_find(&store->topology, amqp_text(drop->name)) : NULL;
    bool is_unused = queue != NULL && queue->auto_delete && queue->had_consumer && queue->consumer_count == 0;
    bool is_orphan = queue != NULL && queue->exclusive && queue->owner_has_gone;
    bool is_dropped = queue != NULL && (is_unused || is_orphan || has_expired(queue));
    if (is_dropped && amqp_doom_queue(&store->topology, queue)) {
        store_delete_doomed(store);
        store_purge(store, drop->name);
        store_commit(store, on_dropped, drop);
        return;
    }
    amqp_doomed_end(&store->topology, 0);
    store_leave(store, &drop->job);
    drop_free(drop);
}

void queue_drop(struct amqp *server, const char *name) {
    struct drop *drop = drop_new(server, name);
    if (drop != NULL) store_enter(&server->store, &drop->job, run_drop, drop);
}

typedef bool chosen(struct amqp_queue *queue, void *argument);

/* Drops the chosen queues. Collects their names first, because dropping a queue may change the table. */
static void drop_each(struct amqp *server, chosen *is_chosen, void *argument) {
    const struct amqp_hash *queues = &server->store.topology.queues;
    char(*names)[AMQP_NAME_MAX + 1] = calloc(queues->count + 1, sizeof(*names));
    size_t count = 0;
    for (size_t i = 0; names != NULL && i < queues->capacity; i++) {
        for (struct amqp_node *node = queues->buckets[i]; node != NULL; node = node->next) {
            struct amqp_queue *queue = (struct amqp_queue *)node;
            if (is_chosen(queue, argument)) memcpy(names[count++], queue->name, sizeof(*names));
        }
    }
    for (size_t i = 0; i < count; i++) queue_drop(server, names[i]);
    free(names);
}

static bool is_owned(struct amqp_queue *queue, void *argument) {
    bool is_its = queue->exclusive && queue->owner == *(uint64_t *)argument;
    queue->owner_has_gone |= is_its;
    return is_its;
}

void declare_drop_exclusive(struct amqp *server, uint64_t owner) {
    drop_each(server, is_owned, &owner);
}

/* ---- x-expires */

/* Returns whether the queue has expired. If it will expire later and before `*argument` (a time in ms), sets
 * `*argument` to that time. */
static bool is_over(struct amqp_queue *queue, void *argument) {
    uint64_t *next_ms = argument;
    if (queue->expires_ms == 0 || queue->consumer_count > 0) return false;
    if (has_expired(queue)) return true;
    if (queue->used_ms + queue->expires_ms < *next_ms) *next_ms = queue->used_ms + queue->expires_ms;
    return false;
}

static void on_expiry(void *argument);

static void expiry_arm(struct amqp *server, uint64_t at_ms) {
    const uint64_t now_ms = amqp_now_ms();
    uint64_t after_ms = at_ms > now_ms + EXPIRY_PAUSE_MS ? at_ms - now_ms : EXPIRY_PAUSE_MS;
    if (server->expiry_timer != 0 && server->expiry_at_ms <= now_ms + after_ms) return;
    if (server->expiry_timer != 0) gateway_timer_cancel(server->gateway, server->expiry_timer);
    server->expiry_at_ms = now_ms + after_ms;
    server->expiry_timer = gateway_timer(server->gateway, after_ms, on_expiry, server);
}

static void on_expiry(void *argument) {
    struct amqp *server = argument;
    uint64_t next_ms = UINT64_MAX;
    server->expiry_timer = 0;
    /* The definitions are not loaded yet; queues_loaded will arm the timer again. */
    if (server->store.state != STORE_LOADED) return;
    drop_each(server, is_over, &next_ms);
    if (next_ms != UINT64_MAX) expiry_arm(server, next_ms);
}

void queue_used(struct amqp *server, struct amqp_queue *queue) {
    if (queue->expires_ms == 0) return;
    queue->used_ms = amqp_now_ms();
    expiry_arm(server, queue->used_ms + queue->expires_ms);
}

static bool note_use(struct amqp_queue *queue, void *argument) {
    queue_used(argument, queue);
    return false;
}

void queues_loaded(struct amqp *server) {
    drop_each(server, note_use, server);
    declare_drop_exclusive(server, 0);
}
